"""The key pool in PostgreSQL: leases per second, their delay, and what one transaction costs.

Each submitter is a process of its own, as on a machine of its own, but all are on this one, and so is the
database. It does not wait for the disk. Needs PostgreSQL; without it, a line says so.
"""

import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from agentos.coordinator.shared_pools import SharedPools, open_shared_pools
from agentos.credentials.pool import KeySpec, Settlement
from agentos.credentials.run_pool import RunPool
from agentos.events.keys import Leased
from agentos.secret import Secret
from goodput import provider
from machines import wait_for_machines
from shared_keys import SETTING, projects_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

SUBMITTERS = (1, 4, 16)
SECONDS = 5.0
BATCH = 10  # requests of one turn of a submitter's loop
KEYS = 4
MANY_KEYS = (4, 100, 1_000)
TRANSACTIONS = 60


def _pools(url: str, keys: int) -> SharedPools:
    from agentos.store.key_pool.postgres import PostgresPool  # noqa: PLC0415 - needs the extra

    specs = [
        KeySpec(id=f"key-{number}", provider="openai", rpm=1e6, burst=10**6, max_in_flight=64)
        for number in range(1, keys + 1)
    ]
    pools = open_shared_pools(
        None,
        specs,
        {spec.id: Secret(spec.id, f"secret of {spec.id}") for spec in specs},
        base_urls={},
        run_id="run",
        place=Path(),
        lease_seconds=900.0,
        say=print,
        rows=lambda: PostgresPool(url),
    )
    assert pools is not None
    return pools


def _lease(pool: RunPool, items: list[str], number: int) -> list[Leased]:
    """Ask for one lease per item, and wait for all of them."""
    for item in items:
        pool.request(item=item, attempt=1, number=number, provider="openai", model="m", tokens=3_000)
    found: list[Leased] = []
    while True:
        found += [event for event in pool.advance(time.monotonic()) if isinstance(event, Leased)]
        if len(found) == len(items):
            return found
        time.sleep(0.001)


def _settle(pool: RunPool, leases: list[Leased]) -> None:
    for lease in leases:
        pool.settle(
            lease.lease, lease.item or "", 1, Settlement(tokens_in=900, tokens_out=900), time.monotonic()
        )


def _submit(url: str, batch: int, ready: Any, done: Any) -> None:
    """Ask and settle for some seconds, as often as possible; send the delay of every lease."""
    pools = _pools(url, KEYS)
    pool = pools.by_provider["openai"]
    ready.wait()
    delays: list[float] = []
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        number += 1
        began = time.monotonic()
        leases = _lease(pool, [f"LLD-{item}" for item in range(batch)], number)
        delays += [time.monotonic() - began] * batch
        _settle(pool, leases)
    done.put(delays)
    pools.leave()


def _rate(url: str, submitters: int, batch: int) -> str:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Barrier(submitters), context.Queue()
    processes = [context.Process(target=_submit, args=(url, batch, ready, done)) for _ in range(submitters)]
    for process in processes:
        process.start()
    delays = [delay for _ in processes for delay in done.get(timeout=300)]
    for process in processes:
        process.join()
    p50, p99 = (statistics.quantiles(delays, n=100)[at] * 1000 for at in (49, 98))
    name = f"{submitters} submitter{'s' if submitters > 1 else ''}" + (
        f", {batch} at a time" if batch > 1 else ""
    )
    return f"  {name:<34} {len(delays) / SECONDS:6.0f} leases/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


def _cost(url: str, keys: int) -> str:
    """Two runs take turns, so that each loads what the other one saved."""
    import psycopg  # noqa: PLC0415 - needs the extra

    with ExitStack() as stack:
        both = [_pools(url, keys) for _ in range(2)]
        for pools in both:
            stack.callback(pools.leave)
        spent, worked = [], []
        for number in range(TRANSACTIONS):
            pool = both[number % 2].by_provider["openai"]
            began, work = time.perf_counter(), time.process_time()
            leases = _lease(pool, ["LLD-1"], number + 1)
            spent.append((time.perf_counter() - began) * 1000)
            worked.append((time.process_time() - work) * 1000)
            _settle(both[number % 2].by_provider["openai"], leases)
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT state FROM agentos_pool").fetchone()
    assert row is not None
    calls = sum(key["calls"] for key in json.loads(row[0])["keys"])
    assert calls >= TRANSACTIONS
    return (
        f"  {keys:>5} keys: {statistics.median(spent):6.1f} ms, {statistics.median(worked):.1f} ms of it the"
        f" processor's; row of {len(row[0]) / 1000:.0f} kB"
    )


def pool_in_postgres() -> Iterator[str]:
    """Leases per second of several submitters, and the cost of a row with many keys."""
    from harness import postgres  # noqa: PLC0415 - needs the extra

    if postgres.programs() is None:
        yield f"The key pool in PostgreSQL: not measured; {postgres.MISSING}"
        return
    import psycopg  # noqa: PLC0415 - needs the extra

    folder = resources("agentos.store").joinpath("sql", "postgres")
    scripts = sorted((one for one in folder.iterdir() if "-pool" in one.name), key=lambda one: one.name)
    with postgres.cluster() as cluster:

        def database() -> str:
            url = cluster.create()
            with psycopg.connect(url) as connection:
                for script in scripts:
                    connection.execute(script.read_bytes())
            return url

        yield f"the key pool in PostgreSQL, {KEYS} keys; every lease is asked for and settled"
        for submitters in SUBMITTERS:
            yield _rate(database(), submitters, 1)
        for submitters in SUBMITTERS:
            yield _rate(database(), submitters, BATCH)
        yield "one transaction after another run's, by the number of keys"
        for keys in MANY_KEYS:
            yield _cost(database(), keys)


def two_submitters_on_one_postgres() -> Iterator[str]:
    """The setting of shared_keys.py, but the runs share a database, and two machines run their items."""
    from harness import postgres  # noqa: PLC0415 - needs the extra

    if postgres.programs() is None:
        yield f"Two submitters on one PostgreSQL: not measured; {postgres.MISSING}"
        return
    with (
        postgres.cluster() as cluster,
        provider(SETTING) as simulator,
        projects_of(simulator, 2) as projects,
        ExitStack() as stack,
    ):
        secrets = {f"SECRET_{key}": f"secret-{key}" for key in range(1, KEYS + 1)}
        shared = {"AGENTOS_DATABASE_URL": cluster.create(), **secrets}
        first = projects[0]
        assert first.start("db", "upgrade", **shared).wait() == 0
        user_file = str(first.folder / "user.toml")
        for number in (1, 2):
            home = {"HOME": str(first.folder.parent / f"machine-{number}")}
            Path(home["HOME"]).mkdir()
            machine = first.start("--config", user_file, "worker", "--slots", "10", **shared, **home)
            stack.callback(machine.wait)
            stack.callback(machine.terminate)
        wait_for_machines(shared["AGENTOS_DATABASE_URL"], 2)
        flags = ("--all", "--engine", "postgres", "--parallel", "10", "-q")
        commands = [
            project.start("--config", str(project.folder / "user.toml"), "lld", *flags, **shared)
            for project in projects
        ]
        codes = [command.wait() for command in commands]
        totals = simulator.stats()["totals"]
    goodput = totals["served"] / max(1, totals["max_calls_at_last_served"])
    refused = totals["refused"] / max(1, totals["calls"])
    yield (
        f"two submitters and two machines on one PostgreSQL: goodput {goodput:.3f}, refused {refused:.1%},"
        f" exit codes {codes}   (required >= 0.95, < 2 %)"
    )


MEASUREMENTS = (pool_in_postgres, two_submitters_on_one_postgres)


if __name__ == "__main__":
    for measure in MEASUREMENTS:
        for line in measure():
            print(line, flush=True)
