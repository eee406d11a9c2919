"""Machines that share keys in a real PostgreSQL, with clocks that a test sets."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.resources import files as resources
from typing import Any

import psycopg

from agentos.credentials.pool import KeySpec, Settlement
from agentos.credentials.run_pool import RunPool
from agentos.credentials.shared_store import SharedKeys, SharedStore
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased
from agentos.store.key_pool.postgres import PostgresPool
from agentos.store.key_pool.rows import ActiveRun

START = 1_800_000_000.0
_FAKE_CLOCK = """
CREATE SCHEMA fake;
CREATE TABLE fake.clock (at timestamptz);
INSERT INTO fake.clock VALUES (NULL);
CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
    'SELECT coalesce((SELECT at FROM fake.clock), pg_catalog.clock_timestamp())';
"""


def make_tables(url: str) -> None:
    folder = resources("agentos.store").joinpath("sql", "postgres")
    scripts = sorted((one for one in folder.iterdir() if "-pool" in one.name), key=lambda one: one.name)
    with psycopg.connect(url, autocommit=True) as connection:
        for script in scripts:
            connection.execute(script.read_bytes())


class Database:
    """A database with the pool's tables, whose clock stands still between two calls of `set_clock`."""

    def __init__(self, url: str) -> None:
        self.url = url
        make_tables(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_FAKE_CLOCK)
            name = connection.info.dbname
            connection.execute(f'ALTER DATABASE "{name}" SET search_path = fake, pg_catalog, public'.encode())
        self._connection = psycopg.connect(url, autocommit=True)
        self.now = START  # the true time, from which the machines' clocks differ
        self.set_clock(START)

    def set_clock(self, now: float | None) -> None:
        at = None if now is None else datetime.fromtimestamp(now, UTC)
        self.execute("UPDATE fake.clock SET at = %s", at)

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def reconnect(self) -> None:
        self._connection.close()
        self._connection = psycopg.connect(self.url, autocommit=True)

    def close(self) -> None:
        self._connection.close()


class Machine:
    """One run on a machine whose clock is `ahead` of the database's by this many seconds."""

    def __init__(
        self, database: Database, name: str, *specs: KeySpec, ahead: float = 0.0, row: str = "open"
    ) -> None:
        self.database = database
        self.name = name
        self.ahead = ahead
        self.wakes = 0
        self.said: list[str] = []
        self.events: list[PoolEvent] = []
        self.rows = PostgresPool(database.url, wake=self._wake, clock=self.clock)
        self.rows.wait_at_most(5.0)
        self.rows.add_run(ActiveRun(token=name, run_id="2026", place="/repo", pid=1, since="2026-01-01"))
        marks = {spec.id: f"mark of {spec.id}" for spec in specs}
        keys = SharedKeys(row=row, specs=specs, fingerprints=marks)
        self.store = SharedStore(self.rows, keys, run=name, lease_seconds=900.0, say=self.said.append)
        self.store.join()
        self.pool = RunPool(self.store, run=name, keys=frozenset(spec.id for spec in specs))

    def clock(self) -> float:
        return self.database.now + self.ahead

    def _wake(self) -> None:
        self.wakes += 1

    def ask(self, item: str, **values: Any) -> None:
        provider = self.store.specs[0].provider
        wanted: dict[str, Any] = {
            "attempt": 1,
            "number": 1,
            "provider": provider,
            "model": "m",
            "tokens": 100,
        }
        self.pool.request(item=item, **wanted | values)
        self.advance()

    def advance(self) -> list[PoolEvent]:
        new = self.pool.advance(self.clock())
        self.events += new
        return new

    def settle(self, lease: Leased) -> list[PoolEvent]:
        result = Settlement(tokens_in=50, tokens_out=50)
        new = self.pool.settle(lease.lease, lease.item or "", 1, result, self.clock())
        self.events += new
        return new

    @property
    def leases(self) -> list[Leased]:
        return [event for event in self.events if isinstance(event, Leased)]


class Machines:
    """Opens machines, and closes them at the end of a test."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._stack = ExitStack()

    def add(self, name: str, *specs: KeySpec, ahead: float = 0.0, row: str = "open") -> Machine:
        machine = Machine(self.database, name, *specs, ahead=ahead, row=row)
        self._stack.callback(machine.rows.close)
        return machine

    def close(self) -> None:
        self._stack.close()


def pass_time(seconds: float, *machines: Machine) -> Iterator[float]:
    """Let time pass; every machine does what is due whenever it wants to wake up."""
    database = machines[0].database
    end = database.now + seconds
    while database.now < end:
        wakes = [
            wake - machine.ahead
            for machine in machines
            if (wake := machine.pool.next_wake(machine.clock())) is not None
        ]
        database.now = min([end, *(max(wake, database.now) + 1 / 1024 for wake in wakes)])
        database.set_clock(database.now)
        for machine in machines:
            # A real thread beats by the real time, which passes more slowly.
            database.execute(
                "UPDATE agentos_pool_run SET beat = clock_timestamp() WHERE token = %s", machine.name
            )
        for machine in machines:
            machine.advance()
        yield database.now
