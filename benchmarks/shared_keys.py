"""Several runs at once in different repositories, on the same keys: goodput, refused calls, shares, cost.

Each run has its own repository and its own home; they have only the user's state folder in common.
"""

import contextlib
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agentos.coordinator.shared_pools import SharedPools, shared_keys
from agentos.credentials.pool import CredentialCoordinator, KeySpec, Settlement
from agentos.credentials.pool_store import MemoryStore
from agentos.credentials.run_pool import RunPool
from agentos.events.keys import Leased
from agentos.secret import Secret
from agentos.store.key_pool import open_pool_database
from agentos.store.rooted_tree import Tree
from goodput import KEYS, SETTINGS, Provider, provider
from project import Project

ITEMS = 200  # of all runs together
WORKERS = 10  # of each run
LEASES = 400

SETTING = SETTINGS[0]  # limits configured


@contextlib.contextmanager
def projects_of(simulator: Provider, count: int) -> Iterator[list[Project]]:
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for number in range(count):
            project = Project(Path(folder) / f"repository-{number + 1}")
            project.issues(ITEMS // count, "verdicts=REVISE,APPROVED")
            lines = ['drafter = "openai:model"', 'reviewer = "openai:model"', "max_parallel = 20"]
            lines += ["[providers.openai]", f'base_url = "{simulator.url}/v1"']
            for key in range(1, KEYS + 1):
                lines += ["[[keys]]", f'id = "key-{key}"', 'provider = "openai"', f'env = "SECRET_{key}"']
                lines += [f"rpm = {SETTING.per_second * 60}", f"burst = {SETTING.burst}"]
            (project.folder / "user.toml").write_text("\n".join(lines) + "\n")
            found.append(project)
        yield found


def _settled(project: Project) -> list[str]:
    """The times at which a run's calls came back."""
    try:
        lines = (project.latest() / "events.jsonl").read_text().splitlines()
    except (FileNotFoundError, ValueError):
        return []  # it has not begun
    events = [json.loads(line) for line in lines if line.endswith("}")]
    return [event["time"] for event in events if event["event"] == "settled" and event["error"] is None]


def _runs(count: int, *, killed: bool = False) -> str:
    with provider(SETTING) as simulator, projects_of(simulator, count) as projects:
        state = {"XDG_STATE_HOME": str(projects[0].folder.parent / "state")}
        secrets = {f"SECRET_{key}": f"secret-{key}" for key in range(1, KEYS + 1)}
        flags = ("--all", "--parallel", str(WORKERS), "-q")
        commands = [
            project.start("--config", str(project.folder / "user.toml"), "lld", *flags, **secrets, **state)
            for project in projects
        ]
        if killed:
            while len(_settled(projects[-1])) < ITEMS // count and commands[-1].poll() is None:
                time.sleep(0.2)
            commands[-1].kill()
        codes = Counter(command.wait() for command in commands)
        totals = simulator.stats()["totals"]
        times = [_settled(project) for project in projects]
    # While all runs had work; a killed run is left out.
    alive = times[:-1] if killed else times
    end = min(one[-1] for one in alive)
    shares = [sum(at <= end for at in one) for one in alive]
    goodput = totals["served"] / totals["max_calls_at_last_served"]
    refused = totals["refused"] / totals["calls"]
    name = f"{count} runs{', one killed' if killed else ''}"
    return (
        f"  {name:<34} goodput {goodput:.3f}, refused {refused:.1%}, smallest share "
        f"{min(shares) * len(shares) / sum(shares):.2f} of an equal one, exit codes {dict(codes)}"
        "   (required >= 0.95, < 2 %)"
    )


def shared_keys_of_several_runs() -> Iterator[str]:
    """Two, then five runs at once; then five, of which one is killed."""
    yield f"{KEYS} keys x {SETTING.per_second} calls/s, limits configured, {ITEMS} items of all runs"
    yield _runs(1)
    yield _runs(2)
    yield _runs(5)
    yield _runs(5, killed=True)


def _lease_cost(pool: RunPool) -> float:
    """The median of the milliseconds that one request and its settlement take, with 20 calls in flight."""
    leases: list[Leased] = []
    spent: list[float] = []
    for number in range(LEASES):
        began = time.perf_counter()
        pool.request(item=f"LLD-{number}", attempt=1, number=1, provider="openai", model="m", tokens=3_000)
        events = pool.advance(time.monotonic())
        if len(leases) >= 20:
            done = leases.pop(0)
            events += pool.settle(
                done.lease, done.item or "", 1, Settlement(tokens_in=900, tokens_out=900), time.monotonic()
            )
        spent.append((time.perf_counter() - began) * 1000)
        leases += [event for event in events if isinstance(event, Leased)]
    return statistics.median(spent)


def cost_of_a_lease() -> list[str]:
    """Ask and settle in memory, as one run alone did before, and in the shared state."""
    specs = tuple(
        KeySpec(id=f"key-{number}", provider="openai", rpm=1e6, burst=10**6, max_in_flight=64)
        for number in range(1, KEYS + 1)
    )
    memory = _lease_cost(RunPool(MemoryStore(CredentialCoordinator(specs)), run="run"))
    with tempfile.TemporaryDirectory() as folder:
        database = open_pool_database(Tree(Path(folder)), print)
        secrets = {spec.id: Secret(spec.id, f"secret of {spec.id}") for spec in specs}
        keys = shared_keys(database, specs, secrets, {})
        pools = SharedPools(database, keys, run_id="run", place=Path(folder), lease_seconds=900.0, say=print)
        shared = _lease_cost(pools.by_provider["openai"])
        pools.leave()
    return [
        f"one lease, asked for and settled, {KEYS} keys, 20 calls in flight",
        f"  in memory {memory:.2f} ms, in the shared state {shared:.2f} ms",
    ]


MEASUREMENTS = (cost_of_a_lease, shared_keys_of_several_runs)
