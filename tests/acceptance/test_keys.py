"""The key pool through the real command and the simulated provider: leases, rests, pauses, rejected keys."""

import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentos.simulator import KeyConfig, LimitConfig, SimulatorConfig, parse_fault, running_simulator
from harness.processes import wait_until
from harness.project import Command, Project, Result


@dataclass(kw_only=True)
class Simulated:
    """A project whose models are a simulated provider's."""

    project: Project
    url: str
    config: Path
    secrets: dict[str, str] = field(default_factory=dict)

    def arguments(self, *args: str) -> list[str]:
        return ["--config", str(self.config), "lld", *args]

    def lld(self, *args: str, timeout: float = 90) -> Result:
        return self.project.run(*self.arguments(*args), env=self.secrets, timeout=timeout)

    def keys(self, *args: str) -> Result:
        return self.project.run("--config", str(self.config), "keys", *args, env=self.secrets)

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/__admin__/stats") as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def faults(self, *specs: str) -> None:
        rules = [{**_rule(spec)} for spec in specs]
        body = json.dumps(rules).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/__admin__/faults", data=body)).close()


def _rule(spec: str) -> dict[str, str]:
    kind, *parts = spec.split(",")
    return {"kind": kind} | dict(part.split("=", 1) for part in parts)


Make = Callable[..., Simulated]


@pytest.fixture
def simulated(project: Project) -> Iterator[Make]:
    """Start a provider with keys, and a project configured for it."""
    with ExitStack() as stack:

        def make(*keys: KeyConfig, faults: tuple[str, ...] = (), limits: str = "", **more: Any) -> Simulated:
            config = SimulatorConfig(keys=keys, faults=tuple(parse_fault(spec) for spec in faults), **more)
            url = stack.enter_context(running_simulator(config))
            lines = ['drafter = "openai:drafter"', 'reviewer = "openai:reviewer"', "max_parallel = 30"]
            lines += ["[providers.openai]", f'base_url = "{url}/v1"']
            secrets = {}
            for number, key in enumerate(keys, start=1):
                lines += ["[[keys]]", f'id = "key-{number}"', 'provider = "openai"', f'env = "KEY_{number}"']
                lines += [f'quota_group = "{key.group}"'] if key.group else []
                lines += [limits] if limits else []
                secrets[f"KEY_{number}"] = key.secret
            path = project.root / "user.toml"
            path.write_text("\n".join(lines) + "\n")
            return Simulated(project=project, url=url, config=path, secrets=secrets)

        yield make


def key(number: int, **more: Any) -> KeyConfig:
    return KeyConfig(secret=f"secret-{number}", **more)


def items(project: Project, count: int) -> None:
    for number in range(1, count + 1):
        project.issue(number)


def names(project: Project) -> list[str]:
    return [event["event"] for event in project.events(run=-1)]


def test_a_whole_backlog_goes_through_real_calls(simulated: Make, project: Project) -> None:
    service = simulated(key(1), key(2), latency=0.02)
    items(project, 4)
    result = service.lld("--all", "-j4")
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    assert service.stats()["totals"]["served"] == 8
    for row in project.summary()["items"]:
        assert row["tokens_in"] > 0
        assert row["cost_usd"] is None  # no price is known, so none is claimed


def test_no_secret_is_left_anywhere(simulated: Make, project: Project) -> None:
    service = simulated(key(1), key(2), faults=("401,key=key-1,first=1",))
    items(project, 2)
    result = service.lld("--all", "-j2", "-v")
    for text in (result.text, *(_all_text(project.root))):
        assert "secret-1" not in text
        assert "secret-2" not in text


def _all_text(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        if path.is_file():
            yield path.read_bytes().decode("latin-1")


@pytest.mark.slow
def test_one_key_without_known_limits_takes_six_calls_at_once(simulated: Make, project: Project) -> None:
    service = simulated(key(1), latency=3.5)  # they go out half a second apart at first
    items(project, 6)
    assert service.lld("--all", "--parallel", "6").code == 0
    assert service.stats()["totals"]["max_in_flight"] == 6


def test_a_strict_key_takes_one_call_at_a_time(simulated: Make, project: Project) -> None:
    service = simulated(key(1), limits="max_in_flight = 1", latency=0.05)
    items(project, 4)
    assert service.lld("--all", "--parallel", "4").code == 0
    assert service.stats()["totals"]["max_in_flight"] == 1


@pytest.mark.parametrize(("group", "rested"), [("shared", {"key-1", "key-2"}), (None, {"key-1"})])
@pytest.mark.slow
def test_a_429_rests_the_quota_group(
    simulated: Make, project: Project, group: str | None, rested: set[str]
) -> None:
    service = simulated(
        key(1, group=group), key(2, group=group), faults=("429,key=key-1,first=1,seconds=1",), latency=0.02
    )
    items(project, 3)
    assert service.lld("--all", "-j2").code == 0
    limited = [event for event in project.events(run=-1) if event["event"] == "rate_limited"]
    assert {key for event in limited for key in event["keys"]} == rested
    assert "rate limited" in project.runs()[-1].joinpath("coordinator.log").read_text("utf-8")


@pytest.mark.slow
def test_all_keys_resting_without_waiting_stops_after_few_calls(simulated: Make, project: Project) -> None:
    service = simulated(key(1), key(2), faults=("429,seconds=3600",))
    items(project, 5)
    result = service.lld("--all", "-j5", "--no-wait")
    assert result.code == 75, result.text
    assert set(project.statuses().values()) <= {"paused", "pending"}
    assert service.stats()["totals"]["calls"] <= 5
    shown = {row["id"]: row for row in json.loads(service.keys("--json").out)}
    assert shown["key-1"]["state"] == shown["key-2"]["state"] == "rate_limited"
    assert 3000 < shown["key-1"]["seconds_left"] <= 3600
    # The next run knows: it does not even try.
    before = service.stats()["totals"]["calls"]
    assert service.lld("--all", "-j5", "--max-wait", "1s").code == 75
    assert service.stats()["totals"]["calls"] == before
    assert "paused" in names(project)
    # Enabled by hand, and the provider well again, the same command finishes the job.
    service.faults()
    for one in ("key-1", "key-2"):
        assert "enabled" in service.keys("enable", one).out
    assert service.lld("--all", "-j5").code == 0


@pytest.mark.slow
def test_a_run_waits_for_the_first_key_out_of_its_rest(simulated: Make, project: Project) -> None:
    service = simulated(key(1), faults=("429,first=1,seconds=2",), latency=0.02)
    items(project, 2)
    result = service.lld("--all", "-j2")
    assert result.code == 0, result.text
    assert names(project).count("paused") == 1
    assert names(project).count("resumed") == 1
    assert re.search(r"paused: .*rate limited; resuming in \d+ s", result.out)
    assert max(row["waited_seconds"] for row in project.summary()["items"]) > 1


def test_a_rejected_key_is_disabled_by_name_and_the_run_goes_on(simulated: Make, project: Project) -> None:
    service = simulated(key(1), key(2), faults=("401,key=key-1",), latency=0.02)
    items(project, 4)
    result = service.lld("--all", "-j3")
    assert result.code == 0, result.text
    assert "key-1: disabled" in result.out
    tried = service.stats()["keys"]["key-1"]["calls"]
    assert tried <= 3  # those in flight when it was found out
    project.issue(9)
    assert service.lld("9").code == 0
    assert service.stats()["keys"]["key-1"]["calls"] == tried
    assert "disabled" in service.keys().out


def test_no_usable_key_is_an_exit_code_of_its_own(simulated: Make, project: Project) -> None:
    service = simulated(key(1), key(2), faults=("401",))
    items(project, 3)
    result = service.lld("--all", "-j2")
    assert result.code == 4, result.text
    assert set(project.statuses().values()) <= {"paused", "pending"}
    assert service.lld("--all").code == 4


@pytest.mark.slow
def test_overload_blames_no_key_and_is_bounded(simulated: Make, project: Project) -> None:
    service = simulated(key(1), key(2), faults=("503,first=1",), latency=0.02)
    items(project, 1)
    assert service.lld("--all", "--max-retries", "3", timeout=150).code == 0
    assert "capacity" in names(project)
    assert "rate_limited" not in names(project)
    assert {row["rate_limited"] for row in project.summary()["keys"]} == {0}


def test_an_error_that_stays_fails_the_item_and_says_how_often_it_was_tried(
    simulated: Make, project: Project
) -> None:
    service = simulated(key(1), faults=("500",))
    items(project, 1)
    assert service.lld("--all", "--max-retries", "0").code == 1
    assert "gave no reply in 1 try" in project.row("1")["error"]


def test_a_truncated_reply_is_no_result(simulated: Make, project: Project) -> None:
    service = simulated(key(1), faults=("length",))
    items(project, 1)
    assert service.lld("--all", "--max-retries", "0").code == 1
    assert "the answer was cut at" in project.row("1")["error"]


@pytest.mark.parametrize("fault", ["cut", "garbage", "garbage-body", "reset", "502", "huge"])
def test_a_broken_answer_is_no_result(simulated: Make, project: Project, fault: str) -> None:
    service = simulated(key(1), faults=(fault,))
    items(project, 1)
    result = service.lld("--all", "--max-retries", "0")
    assert result.code == 1, result.text
    assert project.row("1")["status"] == "failed"


def _signalled_in_a_call(simulated: Make, project: Project, number: signal.Signals) -> tuple[Command, str]:
    """Run two items on one key; give the worker that holds it a signal in mid-call, and tell which it was."""
    service = simulated(key(1), limits="max_in_flight = 1", faults=("slow,first=1,seconds=60",), latency=0.02)
    items(project, 2)
    process = project.start(*service.arguments("--all", "-j2"), env=service.secrets)
    wait_until(lambda: service.stats()["totals"]["calls"], "the call at the server")
    holder = str(wait_until(lambda: _first(project, "leased"), "a lease")["item"])
    ready = next(
        event for event in project.events(run=-1) if event["event"] == "ready" and event["item"] == holder
    )
    os.kill(ready["pid"], number)
    return process, holder


def test_a_worker_killed_while_it_holds_a_lease_gives_it_back(simulated: Make, project: Project) -> None:
    process, holder = _signalled_in_a_call(simulated, project, signal.SIGKILL)
    result = project.finish(process, 90)
    assert result.code == 0, result.text
    assert "returned" in names(project)
    assert project.row(holder)["attempts"] == 2


@pytest.mark.slow
def test_a_frozen_worker_is_ended_and_its_key_goes_to_another(simulated: Make, project: Project) -> None:
    process, _holder = _signalled_in_a_call(simulated, project, signal.SIGSTOP)
    wait_until(lambda: _first(project, "returned"), "the lease's return", 30)
    result = project.finish(process, 90)
    assert result.code == 0, result.text
    assert not project.processes()


def _first(project: Project, name: str) -> dict[str, Any] | None:
    if not project.runs():
        return None
    return next((event for event in project.events(run=-1) if event["event"] == name), None)


def test_limits_told_by_the_provider_are_kept(simulated: Make, project: Project) -> None:
    limits = LimitConfig(rpm=120, burst=2)
    service = simulated(key(1, limits=limits), key(2, limits=limits), latency=0.02)
    items(project, 8)
    assert service.lld("--all", "-j8").code == 0
    assert "limit_learnt" in names(project)
    assert "rpm" in service.keys().out


def test_few_keys_of_the_mock_and_refused_calls(project: Project) -> None:
    items(project, 4)
    env = {"AGENTOS_CREDENTIAL_LIMIT": "1", "AGENTOS_SIMULATE_429": "4"}
    result = project.lld("--all", "-j2", env=env)
    assert result.code == 0, result.text
    (only,) = project.summary()["keys"]
    assert only["id"] == "mock-1"
    assert only["rate_limited"] >= 1
    assert "paused" in names(project)


@pytest.mark.parametrize("name", ["AGENTOS_CREDENTIAL_LIMIT", "AGENTOS_SIMULATE_429"])
def test_a_knob_that_is_no_number_is_refused(project: Project, name: str) -> None:
    items(project, 1)
    result = project.lld("--all", env={name: "few"})
    assert result.code == 2
    assert name in result.err
