"""The plan: what a run does with each item, from what the records say and the user wants."""

from dataclasses import replace

import pytest

from agentos.coordinator.plan import Choice, Entry, Known, Step, make_plan
from agentos.model import Item, Status
from agentos.store.records import Decided, Filing, FilingState, Outcome, Progress

TEXT = "the text"
ALL = Choice()
FRESH = Choice(fresh=True)
RETRY = Choice(only_failed=True)


def item(item_id: str = "42", text: str = TEXT, problem: str | None = None) -> Item:
    return Item(
        workflow="lld", id=item_id, label=f"LLD-{item_id}", title="T", text=text, source="s", problem=problem
    )


def progress(status: str, *, text: str = TEXT, error: str | None = None, node: str = "review") -> Progress:
    return Progress(
        workflow="lld",
        item="42",
        input_hash=item(text=text).input_hash,
        run_id="run-1",
        status=status,
        node=node,
        reviews=2,
        error=error,
        updated_at="2026-01-01T00:00:00.000Z",
    )


OUTCOME = Outcome(
    workflow="lld",
    item="42",
    input_hash=item().input_hash,
    run_id="run-7",
    verdict="APPROVED",
    reviews=2,
    output="docs/lld/active/LLD-42.md",
    finished_at="2026-01-01T00:00:00.000Z",
)
DECIDED = Decided(
    workflow="lld",
    item="42",
    input_hash=item().input_hash,
    reviews=2,
    answer="revise",
    note="",
    decided_by="ann",
    decided_at="2026-01-01T00:00:00.000Z",
)
APPROVED = Known(outcome=OUTCOME)
APPROVED_BEFORE = Known(outcome=replace(OUTCOME, input_hash=item(text="another text").input_hash))
UNDECIDED = Known(progress=progress("discuss", error="Which one?"))
ANSWERED = Known(progress=progress("discuss"), decided=DECIDED)


def stopped(status: str) -> Known:
    return Known(progress=progress(status))


def changed(status: str) -> Known:
    return Known(progress=progress(status, text="another text"))


@pytest.mark.parametrize(
    ("known", "choice", "step", "reason"),
    [
        (Known(), ALL, Step.START, ""),
        (Known(), FRESH, Step.START, ""),
        (APPROVED, ALL, Step.SKIP, "approved in run run-7, unchanged since"),
        (APPROVED, FRESH, Step.ANEW, "--fresh"),
        (stopped("running"), ALL, Step.RESUME, "cut off before"),
        (stopped("interrupted"), ALL, Step.RESUME, "interrupted before"),
        (stopped("paused"), ALL, Step.RESUME, "paused before"),
        (stopped("failed"), ALL, Step.RESUME, "failed before"),
        (stopped("timed_out"), ALL, Step.RESUME, "timed out before"),
        (stopped("needs_revision"), ALL, Step.RESUME, "needs revision before"),
        (stopped("interrupted"), FRESH, Step.ANEW, "--fresh"),
        (changed("interrupted"), ALL, Step.ANEW, "its text changed since"),
        (changed("discuss"), ALL, Step.ANEW, "its text changed since"),
        (changed("running"), ALL, Step.ANEW, "its text changed since"),
        (APPROVED_BEFORE, ALL, Step.ANEW, "its text changed since"),
        (APPROVED_BEFORE, FRESH, Step.ANEW, "--fresh"),
        (replace(APPROVED_BEFORE, progress=progress("failed")), ALL, Step.RESUME, "failed before"),
        (replace(APPROVED_BEFORE, progress=progress("discuss")), ALL, Step.WAIT, "a person must decide"),
        (
            replace(APPROVED, progress=progress("failed", text="x")),
            ALL,
            Step.SKIP,
            "approved in run run-7, unchanged since",
        ),
        (UNDECIDED, ALL, Step.WAIT, "Which one?"),
        (stopped("discuss"), ALL, Step.WAIT, "a person must decide"),
        (UNDECIDED, FRESH, Step.ANEW, "--fresh"),
        (ANSWERED, ALL, Step.RESUME, "decided"),
    ],
)
def test_each_item_gets_the_step_its_records_call_for(
    known: Known, choice: Choice, step: Step, reason: str
) -> None:
    (entry,) = make_plan([item()], {"42": known}, choice)
    assert (entry.step, entry.reason) == (step, reason)


@pytest.mark.parametrize("choice", [ALL, FRESH])
@pytest.mark.parametrize("known", [Known(), APPROVED, stopped("failed")])
def test_an_item_with_a_problem_is_refused_with_it(known: Known, choice: Choice) -> None:
    (entry,) = make_plan([item(problem="42.md is empty")], {"42": known}, choice)
    assert (entry.step, entry.reason) == (Step.REFUSE, "42.md is empty")


def test_an_item_that_goes_on_knows_from_where() -> None:
    (entry,) = make_plan([item()], {"42": stopped("interrupted")}, ALL)
    assert (entry.node, entry.reviews) == ("review", 2)


def test_a_skipped_item_knows_what_came_of_it() -> None:
    (entry,) = make_plan([item()], {"42": APPROVED}, ALL)
    assert entry.outcome == OUTCOME


def test_an_answered_item_carries_the_answer() -> None:
    (entry,) = make_plan([item()], {"42": ANSWERED}, ALL)
    assert entry.decided == DECIDED


@pytest.mark.parametrize(
    ("step", "runs"),
    [
        (Step.START, True),
        (Step.RESUME, True),
        (Step.ANEW, True),
        (Step.SKIP, False),
        (Step.WAIT, False),
        (Step.REFUSE, False),
    ],
)
def test_three_of_the_steps_run(step: Step, runs: bool) -> None:
    assert Entry(item=item(), step=step).runs is runs


# Filing.


def filing(state: FilingState) -> Known:
    row = Filing(
        workflow="lld",
        item="42",
        input_hash=item().input_hash,
        state=state,
        repository="",
        marker="",
        tries=0,
        attempted_at=None,
        number=None,
        url=None,
        error=None,
        updated_at="2026-01-01T00:00:00.000Z",
    )
    return Known(outcome=OUTCOME, filing=row)


OFF = Choice(no_file=True)
FILES = Choice(filing=True)
NOT_KNOWN = "approved in run run-7, whether it was filed is not known"
NOT_FILED = "approved in run run-7, not filed"


@pytest.mark.parametrize(
    ("state", "choice", "step", "reason", "unfinished"),
    [
        (FilingState.WANTED, ALL, Step.SKIP, NOT_FILED, "wanted"),
        (FilingState.WANTED, OFF, Step.SKIP, NOT_FILED, None),
        (FilingState.WANTED, FILES, Step.FILE, NOT_FILED, None),
        (FilingState.INTENDED, ALL, Step.SKIP, NOT_KNOWN, "unknown"),
        (FilingState.INTENDED, OFF, Step.SKIP, NOT_KNOWN, "unknown"),
        (FilingState.INTENDED, FILES, Step.FILE, NOT_FILED, None),
        (FilingState.KEPT, ALL, Step.SKIP, NOT_FILED, None),
        (FilingState.KEPT, FILES, Step.SKIP, NOT_FILED, None),
        (FilingState.KEPT, Choice(filing=True, named=True), Step.FILE, NOT_FILED, None),
    ],
)
def test_what_waits_to_be_filed_is_filed_or_shown_as_unfinished(
    state: FilingState, choice: Choice, step: Step, reason: str, unfinished: str | None
) -> None:
    (entry,) = make_plan([item()], {"42": filing(state)}, choice)
    assert (entry.step, entry.reason, entry.filing) == (step, reason, unfinished)


# --retry-failed.


@pytest.mark.parametrize("status", list(Status))
def test_retry_failed_takes_what_failed_timed_out_or_needs_revision_and_nothing_else(status: Status) -> None:
    entries = make_plan([item()], {"42": stopped(status)}, RETRY)
    taken = status in {Status.FAILED, Status.TIMED_OUT, Status.NEEDS_REVISION}
    assert [entry.step for entry in entries] == ([Step.RESUME] if taken else [])


@pytest.mark.parametrize("known", [Known(), APPROVED, UNDECIDED, stopped("running")])
def test_retry_failed_passes_over_items_that_did_not_fail(known: Known) -> None:
    assert make_plan([item()], {"42": known}, RETRY) == ()


def test_retry_failed_starts_a_failed_item_anew_where_its_text_changed() -> None:
    (entry,) = make_plan([item()], {"42": changed("failed")}, RETRY)
    assert entry.step is Step.ANEW


# Order and limit.


def test_items_keep_their_order_and_items_without_records_start() -> None:
    entries = make_plan([item("2"), item("10"), item("a")], {}, ALL)
    assert [(entry.item.id, entry.step) for entry in entries] == [
        ("2", Step.START),
        ("10", Step.START),
        ("a", Step.START),
    ]


def test_the_limit_counts_items_that_run() -> None:
    items = [item("1"), item("2"), item("3", problem="empty"), item("4"), item("5")]
    known = {"1": APPROVED}
    entries = make_plan(items, known, Choice(limit=2))
    assert [entry.item.id for entry in entries if entry.runs] == ["2", "4"]
    assert {entry.item.id for entry in entries if not entry.runs} == {"1", "3"}


def test_a_limit_above_the_number_of_items_takes_them_all() -> None:
    assert len(make_plan([item("1"), item("2")], {}, Choice(limit=99))) == 2


def test_no_items_make_an_empty_plan() -> None:
    assert make_plan([], {}, ALL) == ()
