"""One backlog on two and on four machines: goodput of the keys that they share, and refused calls.

Machines are processes with folders and environments of their own, on this computer, as is the database. For
root, each is in a network of its own, with an address and a link.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from goodput import KEYS, SETTINGS, provider
from project import Project

if TYPE_CHECKING:
    from harness.network import Namespace

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

ITEMS = 60
WORKERS = 20  # on all machines together
ROUNDS = 2
SETTING = SETTINGS[0]  # limits configured


def items_on_machines() -> Iterator[str]:
    """Run the same backlog on this machine alone, then on others."""
    from harness import network, postgres  # noqa: PLC0415 - needs the extra

    if postgres.programs() is None:
        yield f"Items on several machines: not measured; {postgres.MISSING}"
        return
    yield (
        f"{KEYS} keys x {SETTING.per_second} calls/s, limits configured, {ITEMS} items,"
        f" {ITEMS * ROUNDS * 2} calls, {WORKERS} at once"
    )
    yield _run(None, [])
    for machines in (2, 4):
        with network.namespaces(machines if network.possible() else 0) as links:
            addresses = ",".join(("127.0.0.1", *(link.outside for link in links)))
            with postgres.cluster(listen=addresses) as cluster:
                yield _run(cluster.create(), links or [None] * machines)


def _run(url: str | None, machines: "Sequence[Namespace | None]") -> str:
    from harness import network  # noqa: PLC0415 - needs the extra

    secrets = {f"SECRET_{key}": f"secret-{key}" for key in range(1, KEYS + 1)}
    with provider(SETTING) as simulator, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        project = Project(Path(folder) / "submitter")
        project.issues(ITEMS, f"verdicts={'REVISE,' * (ROUNDS - 1)}APPROVED")
        config = _config(Path(folder) / "user.toml", simulator.url)
        flags = ["--config", str(config), "lld", "--all", "--parallel", str(WORKERS), "-q"]
        environment = dict(secrets)
        if url is not None:
            environment["AGENTOS_DATABASE_URL"] = url
            flags += ["--engine", "postgres"]
            assert project.start("db", "upgrade", **environment).wait() == 0
            links = [link for link in machines if link is not None]
            stack.enter_context(network.reachable(simulator.url, links))
            for number, link in enumerate(machines, start=1):
                place = Project(Path(folder) / f"machine-{number}")
                own = dict(environment)
                if link is not None:
                    place.command = (*link.command, *place.command)
                    own["AGENTOS_DATABASE_URL"] = link.reaches(url)
                server = link.reaches(simulator.url) if link is not None else simulator.url
                options = ("--config", str(_config(Path(folder) / f"{number}.toml", server)))
                worker = place.start(*options, "worker", "--slots", str(WORKERS // len(machines)), **own)
                stack.callback(worker.wait)
                stack.callback(worker.terminate)
            wait_for_machines(url, len(machines))
        run = project.run(*flags, **environment)
        totals = simulator.stats()["totals"]
    goodput = totals["served"] / totals["max_calls_at_last_served"]
    refused = totals["refused"] / max(1, totals["calls"])
    failed = ITEMS - run.summary["totals"].get("approved", 0)
    name = f"{len(machines)} machines" if machines else "local processes"
    return (
        f"  {name:<34} goodput {goodput:.3f}, refused {refused:.1%}, failed {failed}, {run.seconds:.1f} s"
        "   (required >= 0.95, < 2 %, 0 failed)"
    )


def _config(path: Path, server: str) -> Path:
    lines = ['drafter = "openai:model"', 'reviewer = "openai:model"', f"max_parallel = {WORKERS}"]
    lines += ["[providers.openai]", f'base_url = "{server}/v1"']
    for key in range(1, KEYS + 1):
        lines += ["[[keys]]", f'id = "key-{key}"', 'provider = "openai"', f'env = "SECRET_{key}"']
        lines += [f"rpm = {SETTING.per_second * 60}", f"burst = {SETTING.burst}"]
    path.write_text("\n".join(lines) + "\n")
    return path


def wait_for_machines(url: str, machines: int) -> None:
    import psycopg  # noqa: PLC0415 - needs the extra

    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            row = connection.execute("SELECT count(*) FROM agentos_machines").fetchone()
            if row is not None and row[0] == machines:
                return
            time.sleep(0.1)


MEASUREMENTS = (items_on_machines,)
