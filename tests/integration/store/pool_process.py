"""A submitter as a process of its own: takes a key that allows one call at a time, again and again.

Arguments: the database's address, a name, how many calls to make. It prints a line while it has the key, and
notes in the table `seen` from when to when, by the database's clock.
"""

import sys
import threading
import time

import psycopg

from agentos.credentials.pool import KeySpec, Settlement
from agentos.credentials.run_pool import RunPool
from agentos.credentials.shared_store import SharedKeys, SharedStore
from agentos.events.keys import Leased
from agentos.store.key_pool import pulse
from agentos.store.key_pool.postgres import PostgresPool
from agentos.store.key_pool.rows import ActiveRun

ALIVE_SECONDS = 2.0


def main(url: str, name: str, calls: int) -> None:
    pulse.BEAT_SECONDS = 0.2
    pulse.ALIVE_SECONDS = ALIVE_SECONDS
    woken = threading.Event()
    rows = PostgresPool(url, wake=woken.set)
    rows.add_run(ActiveRun(token=name, run_id=name, place="/", pid=1, since=""))
    rows.wait_at_most(10.0)
    spec = KeySpec(id="key-1", provider="open", max_in_flight=1)
    keys = SharedKeys(row="open", specs=(spec,), fingerprints={"key-1": "mark"})
    store = SharedStore(rows, keys, run=name, lease_seconds=900.0, say=print)
    store.join()
    pool = RunPool(store, run=name, keys=frozenset({"key-1"}))
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(calls):
            pool.request(item="LLD-1", attempt=1, number=number, provider="open", model="m", tokens=1)
            lease = _wait(pool, woken)
            connection.execute(
                "INSERT INTO seen (name, number, since) VALUES (%s, %s, clock_timestamp())", (name, number)
            )
            print("has the key", flush=True)
            time.sleep(0.02)
            connection.execute(
                "UPDATE seen SET until = clock_timestamp() WHERE name = %s AND number = %s", (name, number)
            )
            pool.settle(lease.lease, "LLD-1", 1, Settlement(tokens_in=1), time.monotonic())
    store.leave()
    rows.close()


def _wait(pool: RunPool, woken: threading.Event) -> Leased:
    while True:
        for event in pool.advance(time.monotonic()):
            if isinstance(event, Leased):
                return event
        wake = pool.next_wake(time.monotonic())
        woken.wait(0.005 if wake is None else max(0.001, wake - time.monotonic()))
        woken.clear()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
