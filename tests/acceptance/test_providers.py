"""Whole backlogs through real workers: three wire formats with every fault, and programs as providers."""

import json
import os
import signal
import stat
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentos.llm import mock_documents
from agentos.simulator import KeyConfig, SimulatorConfig, parse_fault, running_simulator
from harness.processes import wait_until
from harness.project import Project, Result

OVERLOAD = {"openai": "503", "anthropic": "529", "gemini": "503"}  # how each format says it
SECRETS = {"KEY_1": "secret-1", "KEY_2": "secret-2"}


@dataclass(frozen=True, kw_only=True)
class Service:
    """A project whose two models and two keys are a simulated provider's."""

    project: Project
    url: str

    def lld(self, *args: str, timeout: float = 90) -> Result:
        arguments = ("--config", "user.toml", "lld", *args)
        return self.project.run(*arguments, env=SECRETS, timeout=timeout)

    def faults(self, *specs: str) -> None:
        request = urllib.request.Request(f"{self.url}/__admin__/faults", data=json.dumps(specs).encode())
        urllib.request.urlopen(request).close()

    def totals(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/__admin__/stats") as answer:
            found: dict[str, Any] = json.load(answer)["totals"]
        return found


Make = Callable[..., Service]


# One format over the whole way in make test, all in make chaos; each alone is in the integration tests.
@pytest.fixture(
    params=[name if name == "openai" else pytest.param(name, marks=pytest.mark.chaos) for name in OVERLOAD]
)
def service(request: pytest.FixtureRequest, project: Project) -> Iterator[Make]:
    """Start a provider with faults, and configure the project for it in one of the formats."""
    name = request.param
    with ExitStack() as stack:

        def make(*faults: str) -> Service:
            keys = tuple(KeyConfig(secret=secret) for secret in SECRETS.values())
            rules = tuple(parse_fault(fault.replace("overload", OVERLOAD[name])) for fault in faults)
            config = SimulatorConfig(keys=keys, faults=rules, latency=0.02)
            url = stack.enter_context(running_simulator(config))
            lines = [f'drafter = "{name}:drafter"', f'reviewer = "{name}:reviewer"', f"[providers.{name}]"]
            lines += [f'base_url = "{url}{"/v1" if name == "openai" else ""}"']
            for number, variable in enumerate(SECRETS, start=1):
                lines += ["[[keys]]", f'id = "key-{number}"', f'provider = "{name}"', f'env = "{variable}"']
            project.write("user.toml", "\n".join(lines) + "\n")
            return Service(project=project, url=url)

        yield make


def drafts(*faults: str) -> tuple[str, ...]:
    """Let the first drafts have one fault each."""
    made = []
    for number, fault in enumerate(faults, start=1):
        kind, *more = fault.split(",")
        made.append(",".join([kind, "model=drafter", f"nth={number}", *more]))
    return tuple(made)


def names(project: Project) -> list[str]:
    return [event["event"] for event in project.events(run=-1)]


def calls(project: Project, role: str) -> list[dict[str, Any]]:
    ids = project.statuses()
    found = [one for item in ids for one in project.audits(item) if one["kind"] == "call"]
    return [one for one in found if one["role"] == role]


@pytest.mark.slow
def test_a_backlog_gets_through_every_passing_fault(service: Make, project: Project) -> None:
    # Those that slow down all calls come last, so that the waits are one wait.
    faults = ("length", "reset", "garbage", "500", "drip,seconds=0.001", "429,seconds=1", "overload")
    provider = service(*drafts(*faults))
    for number in range(1, 8):
        project.issue(number, mock="verdicts=REVISE,APPROVED" if number <= 3 else "")
    result = provider.lld("--all", "-j7")
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    assert provider.totals()["faulted"] == 7
    # What drips is whole in the end, what was cut is asked for again with a larger limit, and a refusal is no
    # try; every other fault cost one more try, and no item anything.
    tries = [one["tries"] for one in calls(project, "drafter") if one["number"] == 1]
    assert (len(tries), sum(tries)) == (7, 7 + 4)
    assert [project.row(str(number))["reviews"] for number in range(1, 8)] == [2] * 3 + [1] * 4
    assert {"rate_limited", "capacity", "waiting"} <= set(names(project))
    waits = [event for event in project.events(run=-1) if event["event"] == "waiting"]
    assert {"backoff", "overloaded"} <= {event["kind"] for event in waits}
    assert all(event["reason"] for event in waits)
    assert "disabled" not in result.out
    assert {one["served"] for one in calls(project, "reviewer")} == {"reviewer"}
    assert project.lineage("1-lld") == [
        "001-issue.md",
        "002-draft.md",
        "003-verdict.md",
        "004-draft.md",
        "005-verdict.md",
        "006-final.md",
    ]


def test_a_fault_that_stays_fails_its_item_by_name_and_no_other(service: Make, project: Project) -> None:
    faults = ("garbage-body", "reset", "garbage", "cut", "500", "400", "filtered")
    provider = service(*drafts(*faults))
    for number in range(1, 9):
        project.issue(number)
    result = provider.lld("--all", "-j8", "--max-retries", "0")
    assert result.code == 1, result.text
    rows = project.summary()["items"]
    assert sorted(row["status"] for row in rows) == ["approved", *["failed"] * 7]
    told = "\n".join(row["error"] or "" for row in rows)
    for words in (
        "transient: the reply is not JSON",
        ": the connection was closed before a reply",
        ": the reply is not HTTP",
        ": the reply ended early",
        "transient: HTTP 500",
        "refused the request: HTTP 400",
        "refused the request: the model declined",
    ):
        assert words in told, told
    assert told.count("gave no reply in 1 try ") == 5
    # The provider is well again: what failed goes through.
    provider.faults()
    assert provider.lld("--retry-failed", "-j7").code == 0


def test_a_rejected_key_is_left_out_and_all_rejected_is_exit_4(service: Make, project: Project) -> None:
    provider = service("401,key=key-1")
    for number in range(1, 4):
        project.issue(number)
    result = provider.lld("--all", "-j3")
    assert result.code == 0, result.text
    assert "key-1: disabled" in result.out
    assert "secret" not in result.text
    provider.faults("401")
    project.issue(4)
    result = provider.lld("--all")
    assert result.code == 4, result.text
    assert "key-2: disabled" in result.out
    assert project.row("4")["status"] == "paused"


@pytest.mark.slow
# One format is enough: the watchdog knows none, and the deadline of a call is tested in test_http_providers.
@pytest.mark.parametrize("service", ["openai"], indirect=True)
def test_a_server_that_drips_for_ever_costs_its_item_its_time_and_no_other(
    service: Make, project: Project
) -> None:
    provider = service("drip,model=drafter,nth=1,seconds=60")
    for number in range(1, 4):
        project.issue(number)
    result = provider.lld("--all", "-j3", "--timeout", "12s")
    assert result.code == 1, result.text
    assert sorted(project.statuses().values()) == ["approved", "approved", "timed_out"]


def test_a_review_by_another_model_is_an_error_and_the_draft_is_kept(service: Make, project: Project) -> None:
    provider = service("other-model")
    settings = project.root / "user.toml"
    settings.write_text(settings.read_text().replace(":reviewer", ":gpt-5"))  # of a family that is known
    project.issue(1)
    result = provider.lld("1")
    assert result.code == 1, result.text
    assert ":gpt-5 was requested but 'gpt-5-mini' replied" in project.row("1")["error"]
    assert provider.totals()["calls"] == 2, "a review by another model is not asked for again"
    assert project.row("1")["tokens_out"] > 0
    (draft,) = calls(project, "drafter")
    assert draft["served"] == "drafter-mini", "the drafter's model is recorded, whichever it is"
    provider.faults()
    assert provider.lld("--retry-failed").code == 0
    assert provider.totals()["calls"] == 3, "the draft was paid for before"


# Programs as providers.

FAKE = """#!{python} -S
import json, os, signal, sys, time
text = sys.stdin.read()
kind = "draft" if "JSON schema" not in text else "look" if '"title": "look"' in text else "review"
here = os.path.dirname(os.path.abspath(__file__))
behave = open(os.path.join(here, "behave")).read()
with open(os.path.join(here, "calls.jsonl"), "a") as notes:
    notes.write(json.dumps([kind, os.getcwd(), sorted(os.environ), sys.argv]) + "\\n")
if behave == "hang":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
said = open(os.path.join(here, kind)).read()
if "claude" in os.path.basename(__file__):
    model = "claude-fake-4-5-20260101" if behave != "other" else "claude-fake-4-5-mini"
    usage = {{"input_tokens": 10, "output_tokens": 20}}
    result = {{"type": "result", "subtype": "success", "is_error": False, "result": said, "usage": usage}}
    result["modelUsage"] = {{model: {{"outputTokens": 20}}}}
    if behave == "login":
        result |= {{"is_error": True, "error": "authentication_failed", "result": "Please run /login"}}
    print(json.dumps(result))
    sys.exit(1 if result["is_error"] else 0)
tokens = {{"prompt": 10, "candidates": 20, "thoughts": 0}}
print(json.dumps({{"response": said, "stats": {{"models": {{"gemini-fake": {{"tokens": tokens}}}}}}}}))
"""


@dataclass(frozen=True, kw_only=True)
class Programs:
    """A project whose drafter is `gemini` and whose reviewer is `claude`, both fakes on the path."""

    project: Project
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        path = f"{self.folder}{os.pathsep}{self.project.environment['PATH']}"
        return {"PATH": path, "ANTHROPIC_API_KEY": "sk-ant-not-for-programs"}

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("--drafter", "gemini-cli:gemini-fake", "--reviewer", "claude-cli:claude-fake-4-5")

    def lld(self, *args: str, **env: str) -> Result:
        return self.project.run("lld", *args, *self.arguments, env=self.env | env)

    def behave(self, how: str) -> None:
        (self.folder / "behave").write_text(how)

    def calls(self) -> list[list[Any]]:
        notes = self.folder / "calls.jsonl"
        return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


@pytest.fixture
def programs(project: Project, tmp_path: Path) -> Programs:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("claude", "gemini"):
        path = folder / name
        path.write_text(FAKE.format(python=sys.executable))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    draft = mock_documents.draft("lld", "TBD", "A title", 1, complete=True, resolved=())
    (folder / "draft").write_text(draft)
    (folder / "look").write_text(mock_documents.look("", ()))
    (folder / "review").write_text(mock_documents.review("lld", 1, "APPROVED", ()))
    made = Programs(project=project, folder=folder)
    made.behave("well")
    return made


def test_a_backlog_goes_through_programs(programs: Programs, project: Project) -> None:
    for number in range(1, 5):
        project.issue(number)
    result = programs.lld("--all", "-j4")
    assert result.code == 0, result.text
    assert set(project.statuses().values()) == {"approved"}
    assert {one["served"] for one in calls(project, "reviewer")} == {"claude-fake-4-5-20260101"}
    assert {row["id"] for row in project.summary()["keys"]} == {"claude-cli", "gemini-cli"}
    made = programs.calls()
    assert sorted(kind for kind, *_ in made) == ["draft"] * 4 + ["review"] * 4
    for _, cwd, environment, argv in made:
        assert not Path(cwd).is_relative_to(project.root)
        assert not any("KEY" in name for name in environment)
        assert not any("What is wanted" in one for one in argv)


def test_a_program_that_is_not_there_is_told_before_any_work(programs: Programs, project: Project) -> None:
    (programs.folder / "claude").unlink()
    project.issue(1)
    result = programs.lld("--all", PATH=str(programs.folder))
    assert result.code == 2
    assert "'claude' is not on your PATH. Install" in result.said
    assert project.runs() == []


def test_a_program_without_a_login_is_no_usable_key_until_it_is_enabled(
    programs: Programs, project: Project
) -> None:
    project.issue(1)
    programs.behave("login")
    result = programs.lld("1")
    assert result.code == 4, result.text
    assert "claude-cli: disabled" in result.out
    assert project.row("1")["status"] == "paused"
    programs.behave("well")
    assert programs.lld("1").code == 4
    assert "enabled" in project.run("keys", "enable", "claude-cli").out
    assert programs.lld("1").code == 0
    assert [kind for kind, *_ in programs.calls()] == ["draft", "review", "review"]


def test_a_program_that_serves_another_model_is_no_reviewer(programs: Programs, project: Project) -> None:
    project.issue(1)
    programs.behave("other")
    assert programs.lld("1").code == 1
    assert (
        "claude-cli:claude-fake-4-5 was requested but 'claude-fake-4-5-mini' replied"
        in project.row("1")["error"]
    )


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_an_interrupted_run_leaves_no_program_behind(programs: Programs, project: Project) -> None:
    for number in range(1, 4):
        project.issue(number)
    programs.behave("hang")
    process = project.start("lld", "--all", "-j3", *programs.arguments, env=programs.env)
    wait_until(lambda: len(programs.calls()) == 3, "three programs")
    assert len(_running(programs.folder)) == 3
    process.signal(signal.SIGINT)
    result = project.finish(process, 30)
    assert result.code == 130, result.text
    assert _running(programs.folder) == []
    assert list(Path(project.environment["TMPDIR"]).glob("agentos-*")) == []
    programs.behave("well")
    assert programs.lld("--all", "-j3").code == 0


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_a_killed_worker_takes_its_program_along(programs: Programs, project: Project) -> None:
    project.issue(1)
    programs.behave("hang")
    process = project.start("lld", "--all", *programs.arguments, env=programs.env)
    wait_until(programs.calls, "the program")
    (first,) = _running(programs.folder)
    programs.behave("well")
    ready = next(event for event in project.events(run=-1) if event["event"] == "ready")
    os.kill(ready["pid"], signal.SIGKILL)
    result = project.finish(process, 60)
    assert result.code == 0, result.text
    assert project.row("1")["attempts"] == 2
    assert first not in _running(programs.folder)


def _running(folder: Path) -> list[int]:
    """The fakes that run, by the name of their script on the command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if any(f"{folder / name}\0" in line for name in ("claude", "gemini")):
                found.append(int(entry.name))
    return found
