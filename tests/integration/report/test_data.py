"""The data of a run's page, read from files that are complete, live, torn or hostile."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentos.report.data import history_of, run_data
from agentos.report.page import calm
from agentos.store.run_folder import LOCK

START = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    moment = START + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event(when: float, name: str, /, **fields: Any) -> dict[str, Any]:
    return {"time": at(when), "event": name, **fields}


EVENTS = (
    event(0, "run_started", run_id="r", items=2, parallel=2),
    event(1, "started", item="1", label="LLD-1", attempt=1, pid=5),
    event(1.5, "ready", item="1", pid=5, resumed=False, warm=True),
    event(2, "node", item="1", node="draft", reviews=0),
    event(3, "leased", item="1", number=1, lease=1, key="k1", provider="p", model="m", tokens=9, waited=0.8),
    event(
        4, "settled", item="1", number=1, lease=1, key="k1", tokens_in=0, tokens_out=0, error="rate_limited"
    ),
    event(
        4,
        "rate_limited",
        key="k1",
        group="g",
        keys=["k1", "k2"],
        provider="p",
        model="m",
        seconds=3,
        told=True,
    ),
    event(4, "retrying", item="1", seconds=9, reason="again"),
    event(5, "leased", item="1", number=2, lease=2, key="k3", provider="p", model="m", tokens=9, waited=0),
    event(6, "crashed", item="1", attempt=1, error="killed by SIGKILL"),
    event(6, "returned", item="1", number=2, lease=2, key="k3"),
    event(6.5, "started", item="1", label="LLD-1", attempt=2, pid=6),
    event(7, "key_recovered", key="k1", provider="p", reason="cooldown is over"),
    event(7, "paused", reason="every key is rate limited", seconds=1),
    event(8, "resumed", seconds=1),
    event(8, "leased", item="1", number=1, lease=3, key="k1", provider="p", model="m", tokens=9, waited=0),
    event(9, "settled", item="1", number=1, lease=3, key="k1", tokens_in=100, tokens_out=20, error=None),
    event(9, "node", item="1", node="judge", reviews=1),
    event(
        10, "completed", item="1", label="LLD-1", status="approved", verdict="APPROVED", reviews=1, error=None
    ),
    event(10, "key_disabled", key="k3", provider="p", reason="401"),
    event(
        10.5, "not_started", item="2", label="LLD-2", status="pending", verdict=None, reviews=0, error=None
    ),
    event(11, "run_finished", exit_code=75, totals={}, stopped="quota"),
)

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a run: its events, trails and summary."""

    def make(
        events: Any = EVENTS,
        *,
        name: str = "run-2",
        audits: Mapping[str, list[dict[str, Any]]] | None = None,
        summary: Any = None,
        tail: str = "",
    ) -> Path:
        run = tmp_path / "logs" / "parallel" / name
        run.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(one) + "\n" for one in events)
        (run / "events.jsonl").write_text(lines + tail, "utf-8")
        for item, records in (audits or {}).items():
            text = "".join(json.dumps(one) + "\n" for one in records)
            (run / f"workflow-audit-{item}.jsonl").write_text(text, "utf-8")
        if summary is not None:
            (run / "summary.json").write_text(
                summary if isinstance(summary, str) else json.dumps(summary), "utf-8"
            )
        return run

    return make


def read(run: Path, **how: Any) -> dict[str, Any]:
    found = run_data(run, **({"worktree": run.parents[2]} | how))
    json.dumps(found, allow_nan=False)  # always plain JSON
    return found


def row(name: str = "1", status: str = "approved", **more: Any) -> dict[str, Any]:
    return {"id": name, "label": f"LLD-{name}", "status": status, "cost_usd": 0.0, **more}


def finding(title: str = "T", *, tier: int = 1, category: str = "Cost", text: str = "x") -> dict[str, Any]:
    return {"tier": tier, "category": category, "title": title, "text": text, "recommendation": "do"}


def verdict(review: int, word: str, *findings: dict[str, Any], **more: Any) -> dict[str, Any]:
    told = {
        "time": at(review),
        "kind": "verdict",
        "review": review,
        "verdict": word,
        "findings": list(findings),
    }
    return told | {"questions": [], "reason": "", "model": "m"} | more


def kinds(spans: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [span for span in spans if span["kind"] == kind]


# Spans.


def test_the_lives_of_a_worker_with_how_each_ended(write: Write) -> None:
    item = read(write())["items"][0]
    first, second = kinds(item["spans"], "life")
    assert (first["start"], first["end"], first["attempt"], first["ended"]) == (1, 6, 1, "crashed")
    assert (first["ready"], first["error"]) == (1.5, "killed by SIGKILL")
    assert (second["start"], second["end"], second["attempt"], second["ended"]) == (6.5, 10, 2, "approved")
    assert item["attempts"] == 2


def test_calls_waits_and_retries_of_an_item(write: Write) -> None:
    item = read(write())["items"][0]
    calls = kinds(item["spans"], "call")
    assert [(one["start"], one["end"], one["key"], one.get("error")) for one in calls] == [
        (3, 4, "k1", "rate_limited"),
        (5, 6, "k3", None),
        (8, 9, "k1", None),
    ]
    assert [one.get("cut") for one in calls] == [None, "its worker ended before an answer came", None]
    assert calls[2]["tokens_in"] == 100
    assert [(one["start"], one["end"]) for one in kinds(item["spans"], "wait")] == [(2.2, 3)]
    # The pause ends with the next lease, even if it was planned to be longer.
    assert [(one["start"], one["end"], one["reason"]) for one in kinds(item["spans"], "retry")] == [
        (4, 5, "again")
    ]


def test_nodes_end_with_the_next_one_and_know_their_round(write: Write) -> None:
    spans = kinds(read(write())["items"][0]["spans"], "node")
    assert [(one["node"], one["start"], one["end"], one["round"]) for one in spans] == [
        ("draft", 2, 6, 1),
        ("judge", 9, 10, 2),
    ]


def test_the_keys_with_calls_refusals_rests_and_ends(write: Write) -> None:
    keys = {key["id"]: key for key in read(write())["keys"]}
    one = keys["k1"]
    assert [span["item"] for span in kinds(one["spans"], "call")] == ["LLD-1", "LLD-1"]
    assert [span["start"] for span in kinds(one["spans"], "limited")] == [4]
    assert [(span["start"], span["end"], span["told"]) for span in kinds(one["spans"], "rest")] == [
        (4, 7, True)
    ]
    assert (one["calls"], one["errors"], one["rate_limited"], one["tokens_in"]) == (2, 0, 1, 100)
    # Its worker died: that is not the key's failure.
    assert (keys["k3"]["errors"], keys["k3"]["cut_short"]) == (0, 1)
    assert (one["state"], one["busy_seconds"], one["rested_seconds"]) == ("available", 2, 3)
    # The other key of its group is rate limited too, but was not refused itself.
    assert kinds(keys["k2"]["spans"], "rest")
    assert keys["k2"]["rate_limited"] == 0
    assert keys["k3"]["state"] == "disabled"
    assert [(span["start"], span["end"]) for span in kinds(keys["k3"]["spans"], "disabled")] == [(10, 11)]


def test_a_wait_for_a_lease_goes_from_its_event_to_the_lease(write: Write) -> None:
    wait = {"item": "1", "number": 3, "provider": "p", "model": "m", "reason": "every key is rate limited"}
    events = [*EVENTS[:2], event(2, "waiting", **wait, until_seconds=5)]
    events += [event(2.5, "waiting", **wait | {"reason": "still"}, until_seconds=None)]
    events += [event(4, "leased", item="1", number=3, lease=1, key="k1", model="m", waited=2)]
    events += [event(5, "waiting", **wait), event(5.001, "leased", item="1", lease=2, key="k1", waited=0.001)]
    events += [event(6, "waiting", **wait), event(7, "failed", item="1", label="LLD-1", status="failed")]
    (item,) = read(write(events))["items"]
    assert kinds(item["spans"], "wait") == [
        {"kind": "wait", "start": 2, "end": 4, "reason": "still", "model": "m"},
        {"kind": "wait", "start": 6, "end": 7, "reason": "every key is rate limited", "model": "m"},
    ]
    assert (item["waited_seconds"], item["waiting"]) == (3, None)


def test_a_live_run_tells_what_is_waited_for(write: Write) -> None:
    now = datetime.now(UTC).timestamp()

    def told(ago: float, name: str, **fields: Any) -> dict[str, Any]:
        return {"time": datetime.fromtimestamp(now - ago, UTC).isoformat(), "event": name, **fields}

    run = write(
        [
            told(100, "run_started", items=1, parallel=1),
            told(90, "started", item="1", label="LLD-1", attempt=1),
            told(
                60,
                "waiting",
                item="1",
                number=1,
                provider="p",
                model="m",
                reason="rate limited",
                until_seconds=900,
            ),
            told(60, "paused", reason="every key is rate limited", seconds=900),
        ]
    )
    lock = os.open(run / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        found = read(run)
    finally:
        os.close(lock)
    (item,) = found["items"]
    assert found["run"]["live"]
    assert item["waiting"]["reason"] == "rate limited"
    assert found["run"]["paused"]["reason"] == "every key is rate limited"
    assert 0 < found["run"]["paused"]["seconds_left"] <= 840
    assert item["waited_seconds"] >= 60
    assert kinds(item["spans"], "wait")[0]["open"] is True
    assert read(run)["run"]["paused"] is None  # the run is finished


def test_pauses_and_the_end_of_the_run(write: Write) -> None:
    found = read(write())
    assert [(mark["kind"], mark["start"], mark["end"]) for mark in found["marks"]] == [("pause", 7, 8)]
    assert (found["run"]["exit_code"], found["run"]["stopped"], found["run"]["wall_seconds"]) == (
        75,
        "quota",
        11,
    )
    assert found["run"]["meaning"] == "stopped early; run the same command to resume"


def test_parallelism_counts_items_at_work_and_calls_in_flight(write: Write) -> None:
    found = read(write())["parallelism"]
    assert found["items"] == [[1, 1], [6, 0], [6.5, 1], [10, 0]]
    assert found["calls"] == [[3, 1], [4, 0], [5, 1], [6, 0], [8, 1], [9, 0]]
    assert found["mean_items"] == pytest.approx(8.5 / 11, abs=0.01)


# Live, cut off, torn.


def test_a_run_that_was_killed_shows_what_was_under_way_as_cut_off(write: Write) -> None:
    found = read(write(EVENTS[:9], tail='{"time": "2026'))
    assert (found["run"]["live"], found["run"]["cut_off"], found["run"]["finished_at"]) == (False, True, None)
    assert found["run"]["totals"] == {"cut_off": 1, "pending": 1}
    item = found["items"][0]
    assert (item["status"], item["node"]) == ("cut_off", None)
    assert all(span["end"] <= 5 for span in item["spans"])


def test_a_live_run_goes_up_to_now(write: Write) -> None:
    run = write(
        [
            {"time": datetime.now(UTC).isoformat(), "event": "run_started", "items": 3, "parallel": 2},
            {
                "time": datetime.now(UTC).isoformat(),
                "event": "started",
                "item": "1",
                "label": "LLD-1",
                "attempt": 1,
            },
            {
                "time": datetime.now(UTC).isoformat(),
                "event": "node",
                "item": "1",
                "node": "draft",
                "reviews": 0,
            },
        ]
    )
    lock = os.open(run / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = time.time()
        found = read(run)
        assert found["run"]["live"]
        assert found["run"]["totals"] == {"running": 1, "pending": 2}
        item = found["items"][0]
        assert (item["status"], item["node"]) == ("running", "draft")
        life = kinds(item["spans"], "life")[0]
        assert life["open"]
        started = datetime.fromisoformat(found["run"]["started_at"]).timestamp()
        assert started + life["end"] >= before - 0.01
    finally:
        os.close(lock)
    assert not read(run)["run"]["live"]


def test_an_empty_or_missing_folder_gives_an_empty_page(tmp_path: Path) -> None:
    found = read(tmp_path / "a" / "logs" / "parallel" / "none")
    assert (found["items"], found["keys"], found["trend"], found["overlaps"]) == ([], [], [], [])
    assert found["run"]["totals"] == {}


@pytest.mark.parametrize(
    "summary",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        {"items": 5, "keys": None, "totals": [], "overlaps": {"a": 1}},
        {"items": [None, 3, {}, {"id": 5, "label": "x", "status": "approved"}, {"id": "1", "status": []}]},
        {"items": [{"id": "1", "status": "approved", "seconds": "x", "cost_usd": {}, "error": 5, "log": 7}]},
        '{"wall_seconds": NaN, "exit_code": Infinity, "coordination_overhead_percent": -Infinity}',
        '{"exit_code": 1e999, "items": [{"id": "1", "status": "failed", "tokens_in": NaN}]}',
    ],
)
def test_a_torn_or_foreign_summary_is_never_an_error(write: Write, summary: Any) -> None:
    found = read(write(summary=summary))
    assert [item["label"] for item in found["items"]][:1] in (["LLD-1"], ["1"])


@pytest.mark.parametrize(
    "odd",
    [
        {"event": None},
        {"event": "leased", "item": "1", "lease": "x", "waited": float("nan"), "key": 5},
        {"event": "settled", "item": "1", "lease": [], "tokens_in": -5},
        {"event": "node", "item": "1", "node": {"a": 1}, "reviews": True},
        {"event": "started", "item": "1", "label": 7, "attempt": -1},
        {"event": "started", "item": ["1"], "label": "LLD-1", "attempt": 1},
        {"event": "rate_limited", "keys": "k1", "seconds": float("inf")},
        {"event": "rate_limited", "key": "k9", "keys": [1, None], "seconds": -3},
        {"event": "retrying", "item": "1", "seconds": 1e300},
        {"event": "failed", "item": "1", "status": ["failed"]},
        {"event": "run_finished", "exit_code": "x"},
        {"time": "not a time", "event": "paused"},
        {"time": 5, "event": "resumed"},
        {"time": "9999-12-31T23:59:59Z", "event": "stopping"},
        {"event": "run_started", "items": -4, "parallel": 1e20},
    ],
)
def test_odd_events_are_passed_over(write: Write, odd: dict[str, Any]) -> None:
    found = read(write([*EVENTS[:5], {"time": at(3.5), **odd}, *EVENTS[5:]]))
    assert found["items"][0]["label"] == "LLD-1"
    assert all(span["end"] >= span["start"] >= 0 for item in found["items"] for span in item["spans"])


# Rows, cost, totals.


def test_the_summary_has_the_last_word(write: Write) -> None:
    told = row(
        tokens_in=7, cost_usd=0.25, log="/elsewhere/runs/LLD-1.log", checkpoint="/x/y.db", output="docs/a.md"
    )
    found = read(
        write(
            summary={
                "workflow": "lld",
                "parallel": 4,
                "items": [told, row("2", "pending", cost_usd=None)],
                "keys": [{"id": "k1", "provider": "p", "group": "g", "state": "rate_limited", "calls": 5}],
                "coordination_overhead_percent": 3.5,
                "overlaps": [{"items": ["LLD-1", "LLD-2"], "files": ["a.py"]}],
                "trace_id": "abc",
            }
        )
    )
    item = found["items"][0]
    assert (item["tokens_in"], item["cost_usd"], item["output"]) == (7, 0.25, "docs/a.md")
    # The page is next to the logs, even if the folder was moved.
    assert (item["log"], item["checkpoint"]) == ("LLD-1.log", "y.db")
    assert found["run"]["parallel"] == 4
    assert found["run"]["trace_id"] == "abc"
    assert (found["keys"][0]["state"], found["keys"][0]["calls"]) == ("rate_limited", 5)
    assert found["overlaps"] == [{"items": ["LLD-1", "LLD-2"], "files": ["a.py"]}]


def test_a_cost_that_is_not_known_is_never_nothing(write: Write) -> None:
    rows = [row(cost_usd=0.25), row("2", cost_usd=None, tokens_in=5)]
    run = read(write(summary={"items": rows}))["run"]
    assert (run["cost_usd"], run["cost_known_usd"]) == (None, 0.25)
    assert read(write(summary={"items": rows[:1]}))["run"]["cost_usd"] == 0.25


def test_without_a_summary_the_cost_comes_from_the_calls(write: Write) -> None:
    call = {
        "kind": "call",
        "role": "drafter",
        "key": "k1",
        "tokens_in": 100,
        "tokens_out": 20,
        "served": "m-2",
    }
    found = read(write(audits={"1": [call | {"cost_usd": 0.5}]}))
    assert found["items"][0]["cost_usd"] == 0.5
    paid = kinds(found["items"][0]["spans"], "call")[2]
    assert (paid["cost_usd"], paid["served"]) == (0.5, "m-2")
    assert kinds(found["keys"][0]["spans"], "call")[1]["cost_usd"] == 0.5
    assert read(write(audits={"1": [call]}))["items"][0]["cost_usd"] is None


def test_a_filed_issue_links_only_to_the_web(write: Write) -> None:
    def filed(output: str, filing: str = "filed") -> Any:
        return read(write(summary={"items": [row(output=output, filing=filing)]}))["items"][0]["filed"]

    assert filed("https://github.com/o/r/issues/17") == {
        "number": 17,
        "url": "https://github.com/o/r/issues/17",
    }
    assert filed("javascript:alert(1)//17") is None
    assert filed("https://github.com/o/r/issues/17", "wanted") is None


def test_what_is_calm(write: Write) -> None:
    items = read(
        write(EVENTS[:1], summary={"items": [row(), row("2", "failed"), row("3", filing="wanted")]})
    )["items"]
    assert [calm(item) for item in items] == [True, False, False]
    assert not calm(read(write())["items"][0])  # it crashed once


# Rounds.


def tracked(number: int, state: str = "open", **more: Any) -> dict[str, Any]:
    return finding(f"T{number}") | {"number": number, "state": state, "where": "", "returned": False} | more


def test_findings_have_the_numbers_and_states_of_the_ledger(write: Write) -> None:
    one, two = tracked(1), tracked(2)
    back = tracked(1, returned=True)
    records = [
        verdict(1, "REVISE", finding("T1"), call=1, ledger=[one], questions=["Q1: Why?"]),
        verdict(2, "UNREADABLE", call=2, ledger=[], reason="not JSON"),
        verdict(2, "REVISE", call=3, ledger=[tracked(1, "resolved", where="Section 2"), two]),
        verdict(3, "REVISE", call=4, ledger=[back, tracked(2, "withdrawn")]),
        verdict(4, "APPROVED", finding(tier=3), call=5, ledger=[tracked(1), tracked(2, "withdrawn")]),
    ]
    rounds = read(write(audits={"1": records}))["items"][0]["rounds"]
    raised = [[(one.get("number"), one.get("state")) for one in each["findings"]] for each in rounds]
    assert raised == [[(1, "accepted")], [(2, "withdrawn")], [(1, "accepted")], [(None, "accepted")]]
    assert [one.get("returned") for one in rounds[2]["findings"]] == [True]
    answered = [[(one["number"], one["state"], one["where"]) for one in each["earlier"]] for each in rounds]
    assert answered == [[], [(1, "resolved", "Section 2")], [(2, "withdrawn", None)], [(1, "open", None)]]
    assert [one["unread"] for one in rounds] == [[], ["not JSON"], [], []]
    assert rounds[0]["questions"] == ["Q1: Why?"]


def test_a_review_has_the_price_of_its_own_call(write: Write) -> None:
    calls = [{"kind": "call", "role": "reviewer", "number": one, "cost_usd": one / 10} for one in (1, 2)]
    records = [*calls, verdict(1, "UNREADABLE", call=1), verdict(1, "APPROVED", call=2, ledger=[])]
    [round_] = read(write(audits={"1": records}))["items"][0]["rounds"]
    assert (round_["verdict"], round_["cost_usd"]) == ("APPROVED", 0.2)


def test_findings_are_resolved_when_they_do_not_come_back(write: Write) -> None:
    again = finding("Comes  BACK", text="same words")
    records = [
        verdict(1, "REVISE", finding("Gone"), again),
        verdict(2, "REVISE", finding("comes back", text="Same  words"), finding("New")),
        verdict(3, "APPROVED", finding("Kept", tier=2)),
    ]
    rounds = read(write(audits={"1": records}))["items"][0]["rounds"]
    assert [[one["state"] for one in each["findings"]] for each in rounds] == [
        ["resolved", "open"],
        ["resolved", "resolved"],
        ["accepted"],
    ]


def test_the_findings_of_the_last_round_are_open_until_it_is_approved(write: Write) -> None:
    records = [verdict(1, "REVISE", finding())]
    run = write(audits={"1": records}, summary={"items": [row(status="needs_revision", reviews=1)]})
    assert read(run)["items"][0]["rounds"][0]["findings"][0]["state"] == "open"


def test_another_tier_or_category_is_another_finding(write: Write) -> None:
    records = [
        verdict(1, "REVISE", finding(tier=1), finding(category="Legal")),
        verdict(2, "REVISE", finding(tier=2), finding(category="Safety")),
    ]
    rounds = read(write(audits={"1": records}))["items"][0]["rounds"]
    assert [one["state"] for one in rounds[0]["findings"]] == ["resolved", "resolved"]


def test_an_unreadable_review_resolves_nothing(write: Write) -> None:
    records = [
        verdict(1, "REVISE", finding()),
        verdict(2, "UNREADABLE", reason="two verdicts"),
        verdict(3, "REVISE", finding()),
    ]
    rounds = read(write(audits={"1": records}))["items"][0]["rounds"]
    assert rounds[0]["findings"][0]["state"] == "open"
    assert (rounds[1]["verdict"], rounds[1]["reason"]) == ("UNREADABLE", "two verdicts")


def test_a_verdict_given_twice_counts_once_and_a_decision_stands_with_its_round(write: Write) -> None:
    decided = {"kind": "decision", "answer": "approve", "note": "go", "by": "ada", "at": at(2), "reviews": 1}
    records = [
        {
            "kind": "call",
            "role": "reviewer",
            "number": 1,
            "key": "k1",
            "tokens_in": 9,
            "tokens_out": 1,
            "seconds": 2,
        },
        {"kind": "gate", "draft": 1, "missing": [], "notes": []},
        verdict(1, "DISCUSS", questions=["Which?", 5]),
        verdict(1, "DISCUSS", questions=["Which?"]),
        decided,
    ]
    (found,) = read(write(audits={"1": records}))["items"][0]["rounds"]
    assert (found["review"], found["draft"], found["key"], found["questions"]) == (1, 1, "k1", ["Which?"])
    assert found["decision"] == {"answer": "approve", "by": "ada", "at": at(2), "note": "go"}


def test_rounds_of_earlier_runs_are_told_with_their_run(write: Write) -> None:
    write(name="run-0", audits={"1": [verdict(1, "REVISE", finding("Stale"))]})
    write(name="run-1", audits={"1": [verdict(1, "REVISE", finding("Old")), verdict(2, "DISCUSS")]})
    run = write(audits={"1": [verdict(3, "APPROVED")]}, summary={"items": [row(reviews=3)]})
    rounds = read(run, history=history_of(run))["items"][0]["rounds"]
    assert [(one["review"], one.get("run_id")) for one in rounds] == [(1, "run-1"), (2, "run-1"), (3, None)]
    assert rounds[0]["findings"][0]["title"] == "Old"


@pytest.mark.parametrize("after", [[], [{"kind": "gate", "draft": 2}, verdict(2, "APPROVED")]])
def test_an_answer_stands_with_the_verdict_of_the_run_before(write: Write, after: list[Any]) -> None:
    asked = [{"kind": "gate", "draft": 1}, verdict(1, "DISCUSS", finding("Which?"), questions=["Really?"])]
    decided = {"kind": "decision", "answer": "revise", "note": "no", "by": "ada", "at": at(2), "reviews": 1}
    write(name="run-1", audits={"1": asked})
    run = write(audits={"1": [decided, *after]}, summary={"items": [row(reviews=1 + bool(after))]})
    rounds = read(run, history=history_of(run))["items"][0]["rounds"]
    assert [one["review"] for one in rounds] == [1, 2][: 1 + bool(after)]
    first = rounds[0]
    assert (first["verdict"], first["questions"], first["draft"]) == ("DISCUSS", ["Really?"], 1)
    assert (first["findings"][0]["title"], first["run_id"]) == ("Which?", "run-1")
    assert first["decision"]["answer"] == "revise"
    # If that run was deleted, the answer is still shown.
    (alone, *_) = read(run)["items"][0]["rounds"]
    assert (alone["review"], alone["decision"]["by"]) == (1, "ada")


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "verdict"},
        {"kind": "verdict", "review": 1, "findings": "x", "questions": 5},
        {"kind": "verdict", "review": 1, "verdict": 7, "findings": [None, {}, {"tier": "x", "title": []}]},
        {"kind": "gate", "draft": "x", "missing": 5, "notes": {}},
        {"kind": "gate", "lineage": "../../etc", "file": "/etc/passwd", "draft": 1},
        {"kind": "decision"},
        {"kind": "call", "role": [], "number": {}},
        {"kind": ["verdict"]},
    ],
)
def test_odd_audit_records_are_never_an_error(write: Write, record: dict[str, Any]) -> None:
    found = read(write(audits={"1": [verdict(1, "REVISE", finding()), record, verdict(2, "APPROVED")]}))
    assert found["items"][0]["rounds"]


# Drafts.


def gate(draft: int, lineage: str = "1-lld", **more: Any) -> dict[str, Any]:
    told = {"kind": "gate", "draft": draft, "missing": [], "notes": [], "lineage": lineage}
    return told | {"file": f"{draft * 2:03d}-draft.md"} | more


def trail(root: Path, place: str, **files: str) -> Path:
    folder = root / "docs" / "lineage" / place
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name[1:].replace('_', '-')}.md").write_text(text, "utf-8")
    return folder


def test_drafts_and_what_changed_between_them(write: Write, tmp_path: Path) -> None:
    trail(
        tmp_path,
        "done/1-lld-2",
        _001_issue="# A title #\n",
        _002_draft="a\nb\nc\n",
        _004_draft="a\nB\nc\nd\n",
    )
    trail(tmp_path, "active/1-lld", _001_issue="# Another run's\n", _002_draft="zzz\n")
    item = read(write(audits={"1": [gate(1, "1-lld-2"), gate(2, "1-lld-2", missing=["Context"])]}))["items"][
        0
    ]
    assert item["title"] == "A title"
    assert item["trail"] == "docs/lineage/done/1-lld-2"
    first, second = item["drafts"]
    assert first == {"file": "002-draft.md", "number": 1, "lines": 3}
    assert (second["added"], second["removed"]) == (2, 1)
    assert second["diff"].splitlines()[1:] == [" a", "-b", "+B", " c", "+d"]
    assert item["gates"][1]["missing"] == ["Context"]


def test_an_item_that_is_not_done_has_its_drafts_in_active(write: Write, tmp_path: Path) -> None:
    trail(tmp_path, "active/1-lld", _001_issue="# T\n", _002_draft="a\n")
    assert len(read(write(audits={"1": [gate(1)]}))["items"][0]["drafts"]) == 1
    assert read(write(audits={"1": [gate(1)]}), drafts=False)["items"][0]["drafts"] == []


def test_drafts_of_later_runs_are_not_shown(write: Write, tmp_path: Path) -> None:
    trail(tmp_path, "active/1-lld", _002_draft="a\n", _004_draft="b\n", _006_draft="c\n")
    assert [one["file"] for one in read(write(audits={"1": [gate(2)]}))["items"][0]["drafts"]] == [
        "002-draft.md",
        "004-draft.md",
    ]


def test_links_that_lead_outside_are_not_followed(write: Write, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    outside = trail(tmp_path / "other", "active/1-lld", _001_issue="# Secret\n", _002_draft="secret\n")
    places = work / "docs" / "lineage" / "active"
    places.mkdir(parents=True)
    run = write(audits={"1": [gate(1)]})
    (places / "1-lld").symlink_to(outside)
    assert "ecret" not in json.dumps(read(run, worktree=work))
    (places / "1-lld").unlink()
    (places / "1-lld").mkdir()
    (places / "1-lld" / "001-issue.md").symlink_to(outside / "001-issue.md")
    (places / "1-lld" / "002-draft.md").symlink_to(outside / "002-draft.md")
    (places / "1-lld" / "004-draft.md").mkdir()
    os.mkfifo(places / "1-lld" / "006-draft.md")
    assert "ecret" not in json.dumps(read(run, worktree=work))


def test_a_huge_diff_is_cut_and_a_huge_draft_is_read_in_part(write: Write, tmp_path: Path) -> None:
    many = "\n".join(str(number) for number in range(2000))
    trail(tmp_path, "active/1-lld", _002_draft="x\n", _004_draft=many, _006_draft="y" * 5_000_000)
    drafts = read(write(audits={"1": [gate(1), gate(2), gate(3)]}))["items"][0]["drafts"]
    assert drafts[1]["cut"]
    assert drafts[1]["added"] == 2000
    assert drafts[1]["diff"].count("\n") < 400
    assert all(len(one.get("diff", "")) < 20_000 for one in drafts)


def test_nothing_is_left_out_of_the_data(write: Write, tmp_path: Path) -> None:
    """Scripts get all the data; only the page must stay small."""
    trail(tmp_path, "active/1-lld", _002_draft="a\n", _004_draft="<b>" * 100)
    long = ["word " * 300 + str(number) for number in range(40)]
    records = [
        gate(1),
        gate(2),
        *(verdict(n, "REVISE", *[finding(text=one) for one in long]) for n in (1, 2)),
    ]
    found = read(write(audits={"1": records}, summary={"items": [row(reviews=2)], "workflow": "lld"}))
    assert found["left_out"] == {"diffs": 0, "texts": 0}
    assert found["items"][0]["drafts"][1]["diff"]
    assert [one["text"] for one in found["items"][0]["rounds"][1]["findings"]] == long


# Runs without a summary.


def test_a_run_without_a_summary_compares_the_designs_it_has(write: Write, tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "lld" / "active"
    folder.mkdir(parents=True)
    for name in ("1", "2"):
        (folder / f"LLD-{name}.md").write_text("## Files changed\n\n- `src/a.py`\n", "utf-8")
    secret = tmp_path / "secret.md"
    secret.write_text("## Files changed\n\n- `src/a.py`\n", "utf-8")
    (folder / "LLD-3.md").symlink_to(secret)
    ended = [
        event(
            1, "completed", item=name, label=f"LLD-{name}", status="approved", verdict="APPROVED", reviews=1
        )
        for name in ("1", "2", "3")
    ]
    found = read(write([event(0, "run_started", items=4, parallel=1, workflow="lld"), *ended]))
    assert found["overlaps"] == [{"items": ["LLD-1", "LLD-2"], "files": ["src/a.py"]}]
    assert found["run"]["compared"] == 2
    assert [item["output"] for item in found["items"]] == [
        "docs/lld/active/LLD-1.md",
        "docs/lld/active/LLD-2.md",
        None,
    ]
    assert read(write(summary={"items": [row()]}))["run"]["compared"] is None


def test_only_files_that_are_there_are_named(write: Write, tmp_path: Path) -> None:
    run = write()
    (run / "trace.jsonl").write_text("{}\n", "utf-8")
    (tmp_path / "outside").write_text("x", "utf-8")
    (run / "summary.md").symlink_to(tmp_path / "outside")
    assert read(run)["run"]["files"] == ["events.jsonl", "trace.jsonl"]


def test_a_linked_trail_is_not_read(write: Write, tmp_path: Path) -> None:
    run = write(summary={"items": [row()]})
    (tmp_path / "trail").write_text(json.dumps(verdict(1, "REVISE", finding("secret"))) + "\n", "utf-8")
    (run / "workflow-audit-1.jsonl").symlink_to(tmp_path / "trail")
    assert read(run)["items"][0]["rounds"] == []


def test_the_money_of_a_mock_is_pretended(write: Write) -> None:
    rows, mock = [row(cost_usd=2.75)], {"id": "k1", "provider": "mock"}
    for keys, pretended in (([mock], True), ([mock, {"id": "k2", "provider": "openai"}], False), ([], False)):
        found = read(write([], summary={"items": rows, "keys": keys}))
        assert found["run"]["pretended"] is pretended
        assert found["trend"][-1]["pretended"] is pretended


def test_the_known_part_of_a_cost_is_told(write: Write) -> None:
    call = {
        "kind": "call",
        "role": "drafter",
        "key": "k1",
        "tokens_in": 100,
        "tokens_out": 20,
        "cost_usd": 0.5,
    }
    rows = [row(cost_usd=None, tokens_in=900)]
    review = {"item": "1", "number": 2, "lease": 9, "key": "k2"}
    unpriced = [event(9, "leased", **review, model="new"), event(9.5, "settled", **review, tokens_in=800)]
    found = read(
        write([*EVENTS[:17], *unpriced, *EVENTS[17:]], audits={"1": [call]}, summary={"items": rows})
    )
    assert (found["run"]["cost_usd"], found["run"]["cost_known_usd"]) == (None, 0.5)
    assert found["items"][0]["cost_known_usd"] == 0.5


# The last runs.


def test_the_trend_tells_each_finished_run(write: Write) -> None:
    told = {"coordination_overhead_percent": 4.5, "wall_seconds": 60, "exit_code": 0, "workflow": "lld"}
    write(name="run-0", summary={"items": [row(cost_usd=1.5), row("2", "failed", cost_usd=0.5)], **told})
    write(name="run-1", summary="{torn")
    run = write(summary={"items": [row(cost_usd=None)], **told})
    write(name="run-3", summary={"items": [row()], **told})
    assert [path.name for path in history_of(run)] == ["run-0", "run-1"]
    trend = read(run, history=history_of(run))["trend"]
    assert [(one["run_id"], one["items"], one["approved"], one["cost_usd"]) for one in trend] == [
        ("run-0", 2, 1, 2.0),
        ("run-2", 1, 1, None),
    ]
    assert trend[0]["overhead"] == 4.5


def test_the_trend_is_of_the_latest_runs(write: Write) -> None:
    for number in range(30):
        write(name=f"run-{number:02d}", summary={"items": [row()]})
    run = write(name="run-30", summary={"items": [row()]})
    trend = read(run, history=history_of(run))["trend"]
    assert [trend[0]["run_id"], trend[-1]["run_id"], len(trend)] == ["run-11", "run-30", 20]


def test_the_keys_of_the_data(write: Write) -> None:
    """Scripts that read `agentos report --json` rely on these names."""
    found = read(write(summary={"items": [row()], "keys": [{"id": "k1"}]}))
    assert set(found) == {
        "run", "needs_you", "progress", "time", "items", "keys", "marks", "parallelism", "overlaps", "trend",
        "left_out",
    }  # fmt: skip
    assert set(found["run"]) >= {
        "run_id", "workflow", "parallel", "started_at", "finished_at", "live", "cut_off", "wall_seconds",
        "exit_code", "stopped", "totals", "tokens_in", "tokens_out", "cost_usd",
        "coordination_overhead_percent",
    }  # fmt: skip
    assert set(found["items"][0]) >= {
        "id", "label", "status", "verdict", "reviews", "attempts", "seconds", "waited_seconds",
        "tokens_in", "tokens_out", "cost_usd", "error", "reason", "output", "log", "checkpoint", "title",
        "node", "filed", "spans", "rounds", "gates", "drafts",
    }  # fmt: skip
    assert set(found["keys"][0]) >= {"id", "provider", "group", "state", "calls", "rate_limited", "spans"}
