"""The end of a run: commands that are exactly the ones to type, rows that fit; and what `status` says."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from agentos import __version__
from agentos.app.inbox import Discussion, asked_by, next_command
from agentos.cli.status import item_states
from agentos.model import Item
from agentos.report.summary import KeyRow
from agentos.store.home import Home
from agentos.store.records import FilingState, Progress, Records
from agentos.store.run_folder import read_events, was_mock
from harness.processes import wait_until
from harness.project import Project
from harness.records import approve


def key(name: str, state: str = "available", provider: str = "openai") -> KeyRow:
    return KeyRow(
        id=name,
        provider=provider,
        group=name,
        state=state,
        calls=0,
        rate_limited=0,
        tokens_in=0,
        tokens_out=0,
    )


def killed_run(home: Path, *events: dict[str, Any]) -> Path:
    run = home / "logs" / "parallel" / "2026-11-11T10-00-00.000Z"
    run.mkdir(parents=True)
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    return run


@pytest.mark.parametrize(("provider", "mock"), [("mock", True), ("openai", False)])
def test_after_a_killed_run_the_events_tell_whether_it_was_mocked(
    tmp_path: Path, provider: str, mock: bool
) -> None:
    run = killed_run(tmp_path, {"event": "leased", "item": "1", "provider": provider})
    assert was_mock(run) is mock


PROGRESS = Progress(
    workflow="lld",
    item="1",
    input_hash="",
    status="discuss",
    node="review",
    reviews=1,
    error=None,
    run_id="run-1",
    updated_at="",
)


@pytest.mark.parametrize("mock", [False, True])
def test_what_goes_on_with_an_item_of_the_mock_is_the_mock(mock: bool, tmp_path: Path) -> None:
    waits = Discussion(label="LLD-1", progress=PROGRESS, decided=None, mock=mock)
    for program in ("agentos", "agentos --home x"):
        again = asked_by(Home(path=tmp_path), waits, program=program)  # the run was deleted
        assert next_command(waits, again) == f"{program} lld 1" + " --mock" * mock


def test_an_answered_item_continues_as_the_run_that_asked(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    flags = ["--mock", "--budget 2", "--no-file", "--context 'a b.md'", "--all"]
    run = home.runs / "run-1"
    run.mkdir(parents=True)
    started = {"event": "run_started", "run_id": "run-1", "flags": flags, "ids": [], "budget": 2.0}
    (run / "events.jsonl").write_text(json.dumps(started) + "\n")
    waits = Discussion(label="LLD-1", progress=PROGRESS, decided=None, mock=True)
    assert next_command(waits, asked_by(home, waits)) == (
        "agentos lld 1 --mock --budget 2 --no-file --context 'a b.md'"
    )


def states(tmp_path: Path, *events: dict[str, Any], cut_off: bool = False) -> list[tuple[str, str, str]]:
    run = killed_run(tmp_path, *events)
    rows = item_states(read_events(run), cut_off=cut_off).values()
    return [(one["label"], one["status"], one["detail"]) for one in rows]


STARTED = {"event": "started", "item": "1", "label": "LLD-1", "attempt": 1}
AT_REVIEW = {"event": "node", "item": "1", "node": "review", "reviews": 0}
LEASED = {"event": "leased", "item": "1", "key": "k-1"}
SETTLED = {"event": "settled", "item": "1", "key": "k-1"}
WAITING = {"event": "waiting", "item": "1", "reason": "every key is rate limited", "until_seconds": None}


@pytest.mark.parametrize(
    ("events", "detail"),
    [
        ([LEASED], "review, round 1; k-1"),
        ([LEASED, SETTLED], "review, round 1"),
        ([LEASED, SETTLED, WAITING], "review, round 1; waiting: every key is rate limited"),
        ([WAITING, LEASED], "review, round 1; k-1"),
    ],
)
def test_status_shows_the_key_in_use_or_what_is_waited_for(
    tmp_path: Path, events: list[dict[str, Any]], detail: str
) -> None:
    assert states(tmp_path, STARTED, AT_REVIEW, *events) == [("LLD-1", "running", detail)]


def test_items_of_a_killed_run_are_cut_off(tmp_path: Path) -> None:
    done = {"event": "completed", "item": "2", "label": "LLD-2", "status": "approved", "error": None}
    started = STARTED | {"item": "3", "label": "LLD-3"}
    assert states(tmp_path, STARTED, AT_REVIEW, LEASED, done, started, cut_off=True) == [
        ("LLD-1", "cut_off", "at review, round 1"),
        ("LLD-2", "approved", ""),
        ("LLD-3", "cut_off", "at the start"),
    ]


def test_events_with_missing_fields_do_no_harm(tmp_path: Path) -> None:
    events = [{"event": name, "item": "1"} for name in ("started", "node", "waiting", "leased", "settled")]
    assert states(tmp_path, {"item": "1"}, {"event": "node", "item": ["1"]}, *events) == [
        ("1", "running", "starting, round 1")
    ]


def test_status_tells_what_was_cut_off_and_what_is_not_filed(project: Project) -> None:
    killed_run(project.make_home(), STARTED, AT_REVIEW)
    with Records(project.home / "records.db") as records:
        for slug, state in (("a", FilingState.WANTED), ("b", FilingState.KEPT), ("c", FilingState.WANTED)):
            item = Item(workflow="issue", id=slug, label=slug, title="", text="", source="")
            fence = approve(records, item, output=None, filing=state)
        records.intend(item, fence, repository="o/r", marker="m", at="2026-11-11T10:00:00.000Z")
        records.filing_failed(item, fence, error="no answer", unknown=True)
    result = project.run("status")
    assert "10-00-00.000Z: cut off" in result.out
    assert "LLD-1 cut off at review, round 1" in result.said
    assert "ISSUE-a approved, not filed" in result.said
    assert "ISSUE-c may already be filed; no answer" in result.said
    assert result.out.endswith("Next:\n  agentos issue a c --yes    # file the approved issues\n")
    data = project.run("status", "--json").json
    assert data["items"][0]["status"] == "cut_off"
    assert data["unfiled"] == [
        {"workflow": "issue", "id": "a", "state": "wanted", "error": None},
        {"workflow": "issue", "id": "c", "state": "intended", "error": "no answer"},
    ]


def test_status_ends_with_what_a_person_can_type_next(project: Project) -> None:
    project.issue(43, mock="verdicts=DISCUSS")
    project.issue(45, mock='fail="no schema"')
    project.lld("43", "45")
    asked = project.run("status")
    assert "LLD-43 discuss at decision, 1 review; " in asked.said
    assert asked.out.endswith(
        "Next:\n"
        "  agentos view    # read the draft and answer the question\n"
        '  agentos decide LLD-43 --note "Q1: ..."    # or --revise, or --approve\n'
        "  agentos lld --retry-failed --mock    # retry what was not approved\n"
    )
    project.run("decide", "43", "--approve")
    decided = project.run("status")
    assert (
        "LLD-43 discuss at decision, 1 review; decided: approve; resumes in the next run (mock)"
        in decided.said
    )
    assert "  agentos lld 43 --mock    # resume where it stopped\n" in decided.out
    assert "agentos decide" not in decided.out


def test_a_run_says_at_its_start_what_it_was_told_and_status_shows_it(project: Project) -> None:
    project.issue(42)
    assert project.lld("42", "--budget", "2", "--max-iterations", "4").code == 0
    begun = project.events()[0]
    assert (begun["event"], begun["workflow"], begun["mock"]) == ("run_started", "lld", True)
    assert begun["command"].startswith("agentos ")
    assert "--budget 2" in begun["command"]
    assert (begun["budget"], begun["item_budget"], begun["max_iterations"]) == (2, None, 4)
    assert {"drafter", "reviewer", "parallel", "timeout", "run_timeout", "max_wait"} <= begun.keys()
    assert begun["version"] == __version__
    (project.runs()[-1] / "summary.json").unlink()  # as if it had been killed
    result = project.run("status")
    assert f"{begun['command']}, drafter {begun['drafter']}, reviewer {begun['reviewer']}" in result.out
    assert "budget 2 USD" in result.out
    assert project.run("status", "--json").json["begun"]["workflow"] == "lld"


def test_status_of_a_running_run_says_how_far_it_is(project: Project) -> None:
    project.issue(1)
    project.issue(2, mock="latency=30")
    command = project.start("lld", "--all", "--mock", "-j2")
    try:
        wait_until(lambda: project.events("completed"), "an approval", 30)
        shown = project.run("status").out
    finally:
        command.signal(signal.SIGINT)
        command.wait()
    assert re.search(r"^  1/2 done, 0\.\d{4} mock USD\b", shown, re.MULTILINE), shown
    assert " done, " not in project.run("status").out
