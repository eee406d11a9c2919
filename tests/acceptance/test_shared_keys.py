"""Keys belong to the user: runs in different repositories share their limits, rests and rejections."""

import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentos.simulator import KeyConfig, LimitConfig, SimulatorConfig, parse_fault, running_simulator
from harness.processes import wait_until
from harness.project import Command, Project, Result
from harness.simulator import stats


@dataclass(kw_only=True)
class Repository:
    """A project whose models are a simulated provider's, with the user's keys."""

    project: Project
    config: Path
    secrets: dict[str, str]

    def start(self, *args: str) -> Command:
        return self.project.start("--config", self.config, "lld", *args, env=self.secrets)

    def lld(self, *args: str, timeout: float = 120) -> Result:
        return self.project.finish(self.start(*args), timeout)

    def keys(self, *args: str) -> Result:
        return self.project.run("--config", self.config, "keys", *args, env=self.secrets)

    def shown(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in json.loads(self.keys("--json").out)}


@dataclass(kw_only=True)
class Provider:
    url: str
    secrets: dict[str, str]
    make_project: Callable[[str], Project]

    def repository(self, name: str, *, items: int = 1, limits: str = "", prefix: str = "key") -> Repository:
        project = self.make_project(name).init()
        project.issues(items)
        # One model: limits are known for each model, and the simulated provider's are for all together.
        lines = ['drafter = "openai:model"', 'reviewer = "openai:model"', "max_parallel = 30"]
        lines += ["[providers.openai]", f'base_url = "{self.url}/v1"']
        for number, variable in enumerate(self.secrets, start=1):
            lines += ["[[keys]]", f'id = "{prefix}-{number}"', 'provider = "openai"', f'env = "{variable}"']
            lines += [limits] if limits else []
        path = project.root / "user.toml"
        path.write_text("\n".join(lines) + "\n")
        return Repository(project=project, config=path, secrets=dict(self.secrets))

    def totals(self) -> dict[str, Any]:
        found: dict[str, Any] = stats(self.url)["totals"]
        return found


@pytest.fixture
def provider(make_project: Callable[[str], Project]) -> Iterator[Callable[..., Provider]]:
    with ExitStack() as stack:

        def make(*keys: KeyConfig, faults: tuple[str, ...] = (), **more: Any) -> Provider:
            config = SimulatorConfig(keys=keys, faults=tuple(parse_fault(spec) for spec in faults), **more)
            url = stack.enter_context(running_simulator(config))
            secrets = {f"KEY_{number}": key.secret for number, key in enumerate(keys, start=1)}
            return Provider(url=url, secrets=secrets, make_project=make_project)

        yield make


def key(number: int, **more: Any) -> KeyConfig:
    return KeyConfig(secret=f"secret-{number}", **more)


def state_files(project: Project) -> list[Path]:
    folder = project.outside / "user" / ".local" / "state" / "agentos" / "keys"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_a_key_that_rests_in_one_repository_is_not_tried_in_the_next(
    provider: Callable[..., Provider],
) -> None:
    service = provider(key(1), faults=("429,seconds=3600",))
    first = service.repository("first")
    assert first.lld("--all", "--no-wait").code == 75
    before = service.totals()["calls"]
    second = service.repository("second", prefix="mine")
    assert second.lld("--all", "--no-wait").code == 75
    assert service.totals()["calls"] == before
    assert second.shown()["mine-1"]["state"] == "rate_limited"
    assert "enabled" in second.keys("enable", "mine-1").out
    assert first.shown()["key-1"]["state"] == "available"


def test_a_rejected_key_is_tried_again_when_its_value_changes(provider: Callable[..., Provider]) -> None:
    service = provider(key(1))
    first, second = service.repository("first"), service.repository("second")
    first.secrets["KEY_1"] = second.secrets["KEY_1"] = "revoked"
    assert first.lld("--all").code == 4
    rejected = service.totals()["unauthorized"]
    assert second.lld("--all").code == 4
    assert service.totals()["unauthorized"] == rejected  # the second run knows
    assert "disabled since 20" in second.keys().out
    second.secrets["KEY_1"] = "secret-1"
    assert second.shown()["key-1"]["state"] == "available"
    assert second.lld("--all").code == 0


def test_a_run_may_mix_keys_that_are_shared_with_some_that_are_not(provider: Callable[..., Provider]) -> None:
    service = provider(key(1))
    one = service.repository("one", items=3)
    result = one.lld("--all", "--reviewer", "mock:reviewer")
    assert result.code == 0, result
    leased, settled = one.project.events("leased"), one.project.events("settled")
    assert sorted(call["lease"] for call in leased) == sorted(call["lease"] for call in settled)
    calls = [
        call
        for row in one.project.run("report", "--json").json["items"]
        for call in row["spans"]
        if call["kind"] == "call"
    ]
    assert len(calls) == len(leased) == 6
    assert all(call["tokens_out"] for call in calls), "each is told by its number"


def test_runs_at_once_stay_within_the_limit_of_a_key(provider: Callable[..., Provider]) -> None:
    service = provider(key(1), latency=0.05)
    repositories = [service.repository(name, items=3, limits="max_in_flight = 1") for name in ("a", "b")]
    started = [one.start("--all", "-j3") for one in repositories]
    for one, command in zip(repositories, started, strict=True):
        assert one.project.finish(command, 120).code == 0
    assert service.totals()["max_in_flight"] == 1
    assert service.totals()["served"] == 12
    assert [row["calls"] for one in repositories for row in one.project.summary()["keys"]] == [6, 6]


def test_a_killed_run_leaves_nothing_reserved(provider: Callable[..., Provider]) -> None:
    service = provider(key(1), faults=("slow,first=1,seconds=60",), latency=0.02)
    first = service.repository("first", limits="max_in_flight = 1")
    second = service.repository("second", limits="max_in_flight = 1", prefix="mine")
    command = first.start("--all")
    wait_until(lambda: service.totals()["in_flight"], "the call at the server")
    users = second.shown()["mine-1"]["users"]
    assert [(user["place"], user["in_flight"]) for user in users] == [(str(first.project.root), 1)]
    assert f"1 call in flight: run {users[0]['run']} in {first.project.root}" in second.keys().out
    waiting = second.start("--all")
    wait_until(lambda: second.project.runs() and second.project.events("waiting"), "the wait of the second")
    command.signal(signal.SIGKILL)
    assert second.project.finish(waiting, 60).code == 0
    assert second.shown()["mine-1"]["users"] == []


@pytest.mark.slow
def test_five_runs_share_the_limits_and_one_is_killed(provider: Callable[..., Provider]) -> None:
    limits = LimitConfig(rpm=120, burst=4)
    service = provider(*(key(number, limits=limits) for number in (1, 2, 3, 4)), latency=0.1)
    repositories = [
        service.repository(f"repository-{number}", items=8, limits="rpm = 120\nburst = 2")
        for number in range(5)
    ]
    started = [one.start("--all", "-j4") for one in repositories]
    victim = repositories[-1].project
    wait_until(lambda: victim.runs() and len(victim.events("settled")) >= 4, "calls of the last run")
    started[-1].signal(signal.SIGKILL)
    for one, command in list(zip(repositories, started, strict=True))[:-1]:
        assert one.project.finish(command, 240).code == 0
        assert set(one.project.statuses().values()) == {"approved"}
    totals = service.totals()
    assert totals["refused"] <= 0.02 * totals["calls"]


def test_no_key_is_in_the_state_folder_and_a_mock_run_leaves_nothing_there(
    provider: Callable[..., Provider], project: Project
) -> None:
    project.issue(1)
    assert project.lld("--all").code == 0
    assert state_files(project) == []
    service = provider(key(1))
    repository = service.repository("other")
    assert repository.lld("--dry-run", "--all").code == 0
    assert repository.keys().code == 0
    assert state_files(project) == []
    assert repository.lld("--all").code == 0
    files = state_files(repository.project)
    assert [path.name for path in files] == ["pool.db", "pool.db-journal"]
    assert not any(b"secret-1" in path.read_bytes() for path in files)
    with closing(sqlite3.connect(files[0])) as db:
        assert db.execute("SELECT count(*) FROM run").fetchone() == (0,)
    assert not (repository.project.home / "keys.json").exists()


@pytest.mark.parametrize("how", ["file in the way", "no HOME"])
def test_without_a_state_folder_a_run_says_so_and_works_alone(
    provider: Callable[..., Provider], how: str
) -> None:
    service = provider(key(1), faults=("429,first=1,seconds=3600",))
    repository = service.repository("repository")
    home = repository.project.outside / "named"
    if how == "no HOME":
        repository.project.environment.pop("HOME")
    else:
        blocked = repository.project.outside / "user" / ".local"
        blocked.parent.mkdir(exist_ok=True)
        blocked.write_text("a file")
    command = ("--home", home, "--config", repository.config)
    result = repository.project.run(*command, "lld", "--all", "--no-wait", env=repository.secrets)
    assert result.code == 75, result.text
    assert "This run does not share the limits of its keys with your other runs." in result.out
    shown = repository.project.run(*command, "keys", env=repository.secrets)
    assert "rate limited" in shown.out  # the home remembers it


def _edited(statement: str) -> Callable[[Path], None]:
    def edit(database: Path) -> None:
        with closing(sqlite3.connect(database)) as db:
            db.execute(statement)
            db.commit()

    return edit


DAMAGE: dict[str, Callable[[Path], object]] = {
    "not a database": lambda database: database.write_bytes(b"damaged" * 1000),
    "cut short": lambda database: os.truncate(database, 9_000),
    "not UTF-8": _edited("UPDATE provider SET state = CAST(x'7bff7d' AS TEXT)"),
    "not UTF-8 elsewhere": _edited("INSERT INTO run_keys VALUES ('a', CAST(x'ff' AS TEXT), '{}')"),
    "not JSON": _edited("UPDATE provider SET state = '{'"),
    "another shape": _edited("UPDATE provider SET state = '[1]'"),
    "a field too many": _edited("UPDATE provider SET state = json_set(state, '$.odd', 1)"),
    "an impossible number": _edited("UPDATE provider SET last_lease = 9223372036854775807"),
}


@pytest.mark.parametrize(
    "words", [("keys",), ("keys", "--json"), ("keys", "enable", "key-1"), ("doctor",), ("lld", "--all")]
)
def test_a_damaged_state_is_kept_aside_and_said_by_whatever_reads_it(
    provider: Callable[..., Provider], words: tuple[str, ...]
) -> None:
    repository = provider(key(1)).repository("repository")
    project = repository.project
    assert repository.lld("--all").code == 0
    database = state_files(project)[0]
    whole = database.read_bytes()
    # What the file looks like is judged in one place, so one command sees all of it.
    names = DAMAGE if words == ("keys",) else ("not UTF-8", "not JSON")
    for number, name in enumerate(names, start=2):
        database.write_bytes(whole)
        DAMAGE[name](database)
        damaged = database.read_bytes()
        project.issue(number)
        result = project.run("--config", repository.config, *words, env=repository.secrets)
        assert result.code == 0, (name, result)
        assert result.said.count("pool.db is damaged") == 1, (name, result)
        assert "the state of your keys starts over" in result.said, (name, result)
        assert database.with_suffix(".damaged").read_bytes() == damaged, name
        again = project.run("--config", repository.config, "keys", env=repository.secrets)
        assert "available" in again.out, (name, again)
        assert "damaged" not in again.text, (name, again)
