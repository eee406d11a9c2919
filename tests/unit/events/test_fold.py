"""The one fold: tables of histories, and what holds for any sequence of any records."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.events.catalogue import WaitKind
from agentos.events.fold import feed, fold
from agentos.events.state import CallSpan, FilingSpan, NodeSpan, RunState, WaitSpan, WorkerSpan
from unit.events.histories import RECORDS, record

STARTED = record(1, "started", item="1", label="LLD-1", attempt=1, pid=5)
FAILED = {"item": "1", "label": "LLD-1", "status": "failed"}


def waits(*records: dict[str, Any], now: float = 99.0) -> list[tuple[str, float, float, str | None]]:
    found = fold([STARTED, *records]).items["1"].of(WaitSpan)
    return [(wait.of.value, wait.start, wait.ends(now), wait.reason) for wait in found]


def waiting(when: float, kind: WaitKind, *, left: float | None = None) -> dict[str, Any]:
    return record(when, "waiting", item="1", reason=kind.value, until_seconds=left, kind=kind)


def leased(when: float, lease: int = 1, **more: Any) -> dict[str, Any]:
    return record(when, "leased", item="1", lease=lease, key="k1", provider="p", model="m", **more)


# What holds for anything.


@given(records=RECORDS)
def test_any_records_give_a_state_whose_spans_are_never_inside_out(records: list[dict[str, Any]]) -> None:
    state = fold(records)
    for now in (0.0, state.last, state.last + 10):
        spans = [span for item in state.items.values() for span in item.spans]
        spans += [span for key in state.keys.values() for span in key.spans]
        assert all(span.ends(now) >= span.start >= 0 for span in [*spans, *state.marks])
    for live in (True, False):
        assert sum(state.totals(live=live).values()) == state.expected


@given(records=RECORDS, cut=st.integers(0, 20))
def test_to_continue_is_the_same_as_to_read_all(records: list[dict[str, Any]], cut: int) -> None:
    state = fold(records[:cut])
    before = deepcopy(state)
    # A reader that looks in between changes nothing.
    state.totals(live=True)
    _ = (state.workflow, state.started_at, state.now(1e9))
    assert state == before
    for one in records[cut:]:
        feed(state, one)
    assert state == fold(records)


# Waits.


@pytest.mark.parametrize("kind", [WaitKind.KEY, WaitKind.OVERLOADED, WaitKind.OUTAGE, WaitKind.BUDGET])
@pytest.mark.parametrize(
    "end",
    [
        leased(5),
        record(5, "refused", item="1", number=1, reason="all keys disabled"),
        record(5, "crashed", item="1", attempt=1, error="killed"),
        record(5, "item_paused", item="1", label="LLD-1", status="paused"),
        record(5, "waiting", item="1", reason="again", until_seconds=1, kind="backoff"),
        record(5, "started", item="1", label="LLD-1", attempt=2),
    ],
    ids=lambda one: str(one["event"]),
)
def test_a_wait_ends_with_whatever_comes_next(kind: WaitKind, end: dict[str, Any]) -> None:
    state = fold([STARTED, waiting(2, kind, left=60), end])
    assert waits(waiting(2, kind, left=60), end)[0] == (kind.value, 1, 4, kind.value)
    assert state.items["1"].wait is None or state.items["1"].wait.of is WaitKind.BACKOFF


def test_each_kind_of_wait_is_a_span_of_its_own() -> None:
    history = [waiting(2, WaitKind.BUDGET), waiting(3, WaitKind.BUDGET), waiting(4, WaitKind.KEY, left=9)]
    assert waits(*history, leased(6)) == [("budget", 1, 3, "budget"), ("key", 3, 5, "key")]


def test_a_wait_that_goes_on_ends_now() -> None:
    assert waits(waiting(2, WaitKind.BUDGET), now=7) == [("budget", 1, 7, "budget")]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("next_at", "end"), [(3, 2), (9, 5)])  # it is cut short, or over before
def test_a_back_off_lasts_as_long_as_it_said_or_until_the_next_call(
    old: bool, next_at: float, end: float
) -> None:
    told = record(2, "retrying", item="1", seconds=4, reason="backoff")
    assert waits(told if old else waiting(2, WaitKind.BACKOFF, left=4), leased(next_at)) == [
        ("backoff", 1, end, "backoff")
    ]


def test_a_lease_tells_of_a_wait_that_nobody_told_of() -> None:
    assert waits(leased(5, waited=2.5)) == [("key", 1.5, 4, None)]
    assert waits(leased(5, waited=0.001)) == []


def test_a_wait_that_nobody_notices_is_none() -> None:
    assert waits(waiting(2, WaitKind.KEY), leased(2.001)) == []


# Items.


def test_a_clock_that_was_set_back_turns_no_span_inside_out() -> None:
    state = fold(
        [
            record(5, "run_started", items=1, parallel=1),
            STARTED | {"time": record(9, "")["time"]},
            record(2, "failed", **FAILED),
        ]
    )
    (life,) = state.items["1"].of(WorkerSpan)
    assert (life.start, life.end) == (4, 4)


def test_an_item_that_has_no_end_is_running_or_cut_off() -> None:
    state = fold([record(0, "run_started", items=3, parallel=1), STARTED])
    assert state.totals(live=True) == {"running": 1, "pending": 2}
    assert state.totals(live=False) == {"cut_off": 1, "pending": 2}


def test_the_second_attempt_starts_from_nothing() -> None:
    state = fold(
        [
            STARTED,
            record(2, "node", item="1", node="draft", reviews=0),
            leased(3),
            record(4, "returned", item="1", lease=1),
            record(4, "crashed", item="1", attempt=1, error="killed by SIGKILL"),
            record(5, "started", item="1", label="LLD-1", attempt=2),
        ]
    )
    item = state.items["1"]
    assert (item.status, item.attempts, item.node, item.wait) == ("running", 2, None, None)
    assert [(one.end, one.ended) for one in item.of(WorkerSpan)] == [(3, "crashed"), (None, None)]
    assert [(one.end, one.error) for one in item.of(CallSpan)] == [(3, "worker gone")]
    assert [one.end for one in item.of(NodeSpan)] == [3]


@pytest.mark.parametrize(
    ("node", "reviews", "number"),
    [("draft", 0, 1), ("review", 1, 2), ("judge", 1, 2), ("hold", 1, 1), ("finalize", 0, 1)],
)
def test_a_node_knows_its_round(node: str, reviews: int, number: int) -> None:
    state = fold([record(2, "node", item="1", node=node, reviews=reviews)])
    assert state.items["1"].of(NodeSpan)[0].round == number


def test_a_repaired_end_does_not_move_the_clock() -> None:
    state = fold([STARTED, record(500, "completed", item="1", status="approved", repaired=True)])
    assert (state.last, state.items["1"].status) == (0, "approved")


# Filing.


@pytest.mark.parametrize("end", ["filed", "filing_refused", "filing_unknown", "run_finished"])
def test_a_filing_ends_with_its_result_or_with_the_run(end: str) -> None:
    last = record(6, end) | ({} if end == "run_finished" else {"item": "1"})
    state = fold(
        [STARTED, record(3, "completed", item="1", status="approved"), record(4, "filing", item="1"), last]
    )
    (filing,) = state.items["1"].of(FilingSpan)
    assert (filing.start, filing.end) == (3, 5)


def test_the_filing_of_an_item_of_another_run_makes_it_none_of_this_one() -> None:
    assert fold([record(1, "filed", item="9", number=7, url="https://x.test/7")]).items == {}


@pytest.mark.parametrize(
    ("url", "kept"), [("https://x.test/7", "https://x.test/7"), ("javascript:alert(1)", None), (None, None)]
)
def test_an_issue_is_linked_to_the_web_alone(url: str | None, kept: str | None) -> None:
    filed = fold([STARTED, record(2, "filed", item="1", number=7, url=url)]).items["1"].filed
    assert filed is not None
    assert (filed.number, filed.url) == (7, kept)


# The run.


# What an item costs, and where its issue is: what the summary of a run shows.


def settled(when: float, lease: int, usd: float | None) -> dict[str, Any]:
    return record(when, "settled", item="1", lease=lease, key="k1", tokens_in=2, tokens_out=1, usd=usd)


@pytest.mark.parametrize(
    ("costs", "usd"), [([], 0.0), ([1.5, 0.0], 1.5), ([1.5, None], None), ([None, 1.5], None)]
)
def test_one_call_of_unknown_cost_makes_the_cost_of_its_item_unknown(
    costs: list[float | None], usd: float | None
) -> None:
    item = fold([STARTED, *(settled(2 + n, n, cost) for n, cost in enumerate(costs))]).items["1"]
    assert (item.usd, item.tokens_in, item.tokens_out) == (usd, 2 * len(costs), len(costs))


def test_a_call_without_a_settled_event_counts_too() -> None:
    counted = record(2, "call_counted", item="1", tokens_in=7, tokens_out=3, usd=0.5)
    item = fold([STARTED, counted, settled(3, 1, 0.25)]).items["1"]
    assert (item.usd, item.tokens_in, item.tokens_out) == (0.75, 9, 4)


def test_an_item_takes_from_the_decision_to_start_it_to_its_end() -> None:
    started = record(5, "started", item="1", label="LLD-1", attempt=1, pid=5, took=1.5)
    again = record(9, "started", item="1", label="LLD-1", attempt=2, pid=6, took=0.5)
    begun = [record(0, "run_started", run_id="r", items=1, parallel=1), started, again]
    item = fold(begun).items["1"]
    assert item.seconds(now=10.0) == 6.5
    item = fold([*begun, record(12, "failed", **FAILED, attempts=2), record(20, "stopping")]).items["1"]
    assert (item.seconds(now=20.0), item.attempts) == (8.5, 2)


APPROVED = record(
    2, "completed", item="1", label="LLD-1", status="approved", output="1.md", filing="wanted", reason="why"
)


@pytest.mark.parametrize(
    ("events", "state", "output", "error", "reason"),
    [
        ([], "wanted", "1.md", None, "why"),
        ([("filed", {"number": 7, "url": "https://x/7"})], "filed", "https://x/7", None, None),
        ([("filed", {"number": 7, "url": None})], "filed", "1.md", None, None),
        ([("filing_refused", {"reason": "no"})], "wanted", "1.md", "not filed: no", "why"),
        ([("filing_unknown", {"reason": "perhaps"})], "unknown", "1.md", "perhaps", "why"),
        ([("filing_unknown", {"reason": "x", "earlier": True})], "unknown", "1.md",
         "an earlier version may already be filed on GitHub", "why"),
        ([("filed", {"number": 6, "url": "https://x/6", "earlier": True})], "wanted", "1.md", None, "why"),
        ([("filing_refused", {"reason": "x", "earlier": True})], "wanted", "1.md", None, "why"),
    ],
)  # fmt: skip
def test_what_became_of_the_issue_of_an_item(
    events: list[tuple[str, dict[str, Any]]], state: str, output: str, error: str | None, reason: str | None
) -> None:
    item = fold([APPROVED, *(record(3, name, item="1", **told) for name, told in events)]).items["1"]
    assert (item.filing_state, item.output, item.error, item.reason) == (state, output, error, reason)
    assert (item.filed is not None) == (state == "filed")


def test_the_first_event_tells_what_the_run_was_told() -> None:
    told = {
        "command": "agentos lld --all",
        "workflow": "issue",
        "drafter": "p:m",
        "budget": 2.5,
        "max_wait": 60,
    }
    state = fold([record(0, "run_started", run_id="r", items=4, parallel=2, mock=True, **told), STARTED])
    assert state.begun is not None
    assert (state.begun.command, state.begun.drafter, state.begun.budget) == ("agentos lld --all", "p:m", 2.5)
    assert (state.workflow, state.expected, state.mock) == ("issue", 4, True)


def test_the_labels_tell_the_workflow_of_an_older_run() -> None:
    assert fold([record(0, "run_started", items=1), STARTED]).workflow == "lld"
    assert fold([]).workflow is None


@pytest.mark.parametrize(
    ("begun", "provider", "mock"),
    [({"mock": True}, "p", True), ({"mock": False}, "mock", False), ({}, "mock", True), ({}, "p", False)],
)
def test_a_run_is_of_the_mock_if_it_says_so_or_else_by_its_calls(
    begun: dict[str, Any], provider: str, mock: bool
) -> None:
    call = leased(2) | {"provider": provider}
    assert fold([record(0, "run_started", items=1, **begun), call]).mock is mock


def test_a_key_that_has_rested_can_be_used_though_nobody_said_so() -> None:
    limited = record(4, "rate_limited", key="k1", keys=["k1", "k2"], group="g", seconds=3, told=True)
    keys = fold([STARTED, limited]).keys
    assert {name: key.state_at(5) for name, key in keys.items()} == {
        "k1": "rate_limited",
        "k2": "rate_limited",
    }
    assert {key.state_at(6) for key in keys.values()} == {"available"}
    disabled = fold([STARTED, limited, record(5, "key_disabled", key="k1", reason="401"), limited]).keys
    assert disabled["k1"].state_at(99) == "disabled"


def test_a_pause_goes_on_until_it_is_resumed() -> None:
    state = fold([STARTED, record(2, "paused", reason="every key rests", seconds=60)])
    assert state.pause is not None
    assert (state.pause.ends(9), state.pause.until) == (9, 61)
    over = fold([STARTED, record(2, "paused", reason="every key rests"), record(5, "resumed", seconds=3)])
    assert over.pause is None
    assert over.marks[0].end == 4


def test_an_outage_goes_on_until_its_provider_is_back_or_the_run_is_over() -> None:
    down = record(2, "provider_down", provider="p", reason="host: connection refused")
    (mark,) = fold([STARTED, down]).marks
    assert (mark.of, mark.ends(9), mark.text) == ("outage", 9, "p is down: host: connection refused")
    other = record(4, "provider_back", provider="q", seconds=2)
    (mark,) = fold([STARTED, down, other, record(6, "provider_back", provider="p", seconds=4)]).marks
    assert mark.end == 5
    over = record(8, "run_finished", exit_code=75, totals={}, stopped="outage")
    (mark,) = fold([STARTED, down, over]).marks
    assert mark.end == 7


def test_a_state_of_nothing_is_empty() -> None:
    assert fold([{"event": 5}, {}, json.loads('{"event": "said"}')]) == RunState()


# The queue, slow models, and calls that nobody is to blame for.


def test_the_queue_is_known_before_it_starts() -> None:
    queued = [record(0, "queued", item=name, label=f"LLD-{name}", title=f"T{name}") for name in ("1", "2")]
    state = fold([record(0, "run_started", run_id="r", items=2, parallel=1), *queued, STARTED])
    assert [(one.label, one.title) for one in state.not_started()] == [("LLD-2", "T2")]
    assert (list(state.items), state.expected) == (["1"], 2)
    assert state.totals(live=True) == {"running": 1, "pending": 1}
    assert state.queue["1"].title == "T1"


def test_a_model_is_overloaded_until_it_answers_or_is_refused_again() -> None:
    model = {"provider": "p", "model": "m"}
    state = fold(
        [
            record(0, "run_started", run_id="r"),
            record(1, "capacity", **model, seconds=10, strikes=1, told=False),
            record(5, "capacity", **model, seconds=20, strikes=2, told=False),
            record(9, "capacity_recovered", **model),
        ]
    )
    assert [(mark.start, mark.end, mark.about) for mark in state.marks] == [(1, 5, "p:m"), (5, 9, "p:m")]


@pytest.mark.parametrize(
    "end",
    [
        record(3, "settled", item="1", lease=1, key="k1", error="given_up"),
        record(3, "returned", item="1", lease=1, key="k1"),
        record(3, "lease_expired", item="1", lease=1, key="k1"),
    ],
    ids=lambda one: str(one["event"]),
)
def test_a_call_that_ends_with_its_worker_did_not_fail(end: dict[str, Any]) -> None:
    (call,) = fold([STARTED, leased(2), end]).items["1"].of(CallSpan)
    assert call.failure is None
    assert call.cut_short
    (refused,) = (
        fold([STARTED, leased(2), record(3, "settled", item="1", lease=1, error="transient")])
        .items["1"]
        .of(CallSpan)
    )
    assert (refused.failure, refused.cut_short) == ("transient", None)
