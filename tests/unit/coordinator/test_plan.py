"""The plan: what a run does with each item, from what the records say and the user wants."""

from dataclasses import replace
from typing import Any

import pytest

from agentos.coordinator.plan import Choice, Known, PlanAction, PlannedItem, make_plan, shared_reasons
from agentos.decisions import Decision
from agentos.model import Item, Status
from agentos.stamp import Stamp, text_hash
from agentos.store.documents import Author, Found
from agentos.store.records import Filing, FilingState, Outcome, Progress

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
    text_hash=text_hash("text"),
)
DECIDED = Decision(id=9, answer="revise", reviews=2, by="ann", at="2026-01-01T00:00:00.000Z")
APPROVED = Known(outcome=OUTCOME)
APPROVED_BEFORE = Known(outcome=replace(OUTCOME, input_hash=item(text="another text").input_hash))
UNDECIDED = Known(progress=progress("discuss", error="Which one?"))
ANSWERED = Known(progress=progress("discuss"), decisions=(DECIDED,))


def stopped(status: str) -> Known:
    return Known(progress=progress(status))


def changed(status: str) -> Known:
    return Known(progress=progress(status, text="another text"))


@pytest.mark.parametrize(
    ("known", "choice", "step", "reason"),
    [
        (Known(), ALL, PlanAction.START, ""),
        (Known(), FRESH, PlanAction.START, ""),
        (APPROVED, ALL, PlanAction.SKIP, "approved in run run-7, unchanged since"),
        (APPROVED, FRESH, PlanAction.START_OVER, "--fresh"),
        (stopped("running"), ALL, PlanAction.RESUME, "cut off before"),
        (stopped("interrupted"), ALL, PlanAction.RESUME, "interrupted before"),
        (stopped("paused"), ALL, PlanAction.RESUME, "paused before"),
        (stopped("failed"), ALL, PlanAction.RESUME, "failed before"),
        (stopped("timed_out"), ALL, PlanAction.RESUME, "timed out before"),
        (stopped("needs_revision"), ALL, PlanAction.RESUME, "needed revision before"),
        (stopped("interrupted"), FRESH, PlanAction.START_OVER, "--fresh"),
        (changed("interrupted"), ALL, PlanAction.START_OVER, "its text has changed"),
        (changed("discuss"), ALL, PlanAction.START_OVER, "its text has changed"),
        (changed("running"), ALL, PlanAction.START_OVER, "its text has changed"),
        (APPROVED_BEFORE, ALL, PlanAction.START_OVER, "its text has changed"),
        (APPROVED_BEFORE, FRESH, PlanAction.START_OVER, "--fresh"),
        (replace(APPROVED_BEFORE, progress=progress("failed")), ALL, PlanAction.RESUME, "failed before"),
        (
            replace(APPROVED_BEFORE, progress=progress("discuss")),
            ALL,
            PlanAction.WAIT,
            "a person must decide",
        ),
        (
            replace(APPROVED, progress=progress("failed", text="x")),
            ALL,
            PlanAction.SKIP,
            "approved in run run-7, unchanged since",
        ),
        (UNDECIDED, ALL, PlanAction.WAIT, "Which one?"),
        (stopped("discuss"), ALL, PlanAction.WAIT, "a person must decide"),
        (UNDECIDED, FRESH, PlanAction.START_OVER, "--fresh"),
        (ANSWERED, ALL, PlanAction.RESUME, "decided"),
    ],
)
def test_each_item_gets_the_step_its_records_call_for(
    known: Known, choice: Choice, step: PlanAction, reason: str
) -> None:
    (entry,) = make_plan([item()], {"42": known}, choice)
    assert (entry.step, entry.reason) == (step, reason)


@pytest.mark.parametrize("choice", [ALL, FRESH])
@pytest.mark.parametrize("known", [Known(), APPROVED, stopped("failed")])
def test_an_item_with_a_problem_is_refused_with_it(known: Known, choice: Choice) -> None:
    (entry,) = make_plan([item(problem="42.md is empty")], {"42": known}, choice)
    assert (entry.step, entry.reason) == (PlanAction.REFUSE, "42.md is empty")


def test_an_item_that_goes_on_knows_from_where() -> None:
    (entry,) = make_plan([item()], {"42": stopped("interrupted")}, ALL)
    assert (entry.node, entry.reviews) == ("review", 2)


def test_a_skipped_item_knows_what_came_of_it() -> None:
    (entry,) = make_plan([item()], {"42": APPROVED}, ALL)
    assert entry.outcome == OUTCOME


def test_an_answered_item_carries_the_answer() -> None:
    (entry,) = make_plan([item()], {"42": ANSWERED}, ALL)
    assert entry.decisions == (DECIDED,)


@pytest.mark.parametrize(
    ("step", "runs"),
    [
        (PlanAction.START, True),
        (PlanAction.RESUME, True),
        (PlanAction.START_OVER, True),
        (PlanAction.REVISE, True),
        (PlanAction.FILE, False),
        (PlanAction.SKIP, False),
        (PlanAction.WAIT, False),
        (PlanAction.REFUSE, False),
    ],
)
def test_four_of_the_steps_run(step: PlanAction, runs: bool) -> None:
    assert PlannedItem(item=item(), step=step).runs is runs


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
NOT_KNOWN = "approved in run run-7, may already be filed"
NOT_FILED = "approved in run run-7, not filed"


@pytest.mark.parametrize(
    ("state", "choice", "step", "reason", "unfinished"),
    [
        (FilingState.WANTED, ALL, PlanAction.SKIP, NOT_FILED, "wanted"),
        (FilingState.WANTED, OFF, PlanAction.SKIP, NOT_FILED, None),
        (FilingState.WANTED, FILES, PlanAction.FILE, NOT_FILED, None),
        (FilingState.INTENDED, ALL, PlanAction.SKIP, NOT_KNOWN, "unknown"),
        (FilingState.INTENDED, OFF, PlanAction.SKIP, NOT_KNOWN, "unknown"),
        (FilingState.INTENDED, FILES, PlanAction.FILE, NOT_FILED, None),
        (FilingState.KEPT, ALL, PlanAction.SKIP, NOT_FILED, None),
        (FilingState.KEPT, FILES, PlanAction.SKIP, NOT_FILED, None),
        (FilingState.KEPT, Choice(filing=True, named=True), PlanAction.FILE, NOT_FILED, None),
    ],
)
def test_what_waits_to_be_filed_is_filed_or_shown_as_unfinished(
    state: FilingState, choice: Choice, step: PlanAction, reason: str, unfinished: str | None
) -> None:
    (entry,) = make_plan([item()], {"42": filing(state)}, choice)
    assert (entry.step, entry.reason, entry.filing) == (step, reason, unfinished)


# --retry-failed.


@pytest.mark.parametrize("status", list(Status))
def test_retry_failed_takes_what_failed_timed_out_or_needs_revision_and_nothing_else(status: Status) -> None:
    entries = make_plan([item()], {"42": stopped(status)}, RETRY)
    taken = status in {Status.FAILED, Status.TIMED_OUT, Status.NEEDS_REVISION}
    assert [entry.step for entry in entries] == ([PlanAction.RESUME] if taken else [])


@pytest.mark.parametrize("known", [Known(), APPROVED, UNDECIDED, stopped("running")])
def test_retry_failed_passes_over_items_that_did_not_fail(known: Known) -> None:
    assert make_plan([item()], {"42": known}, RETRY) == ()


def test_retry_failed_starts_a_failed_item_anew_where_its_text_changed() -> None:
    (entry,) = make_plan([item()], {"42": changed("failed")}, RETRY)
    assert entry.step is PlanAction.START_OVER


# Order and limit.


def test_items_keep_their_order_and_items_without_records_start() -> None:
    entries = make_plan([item("2"), item("10"), item("a")], {}, ALL)
    assert [(entry.item.id, entry.step) for entry in entries] == [
        ("2", PlanAction.START),
        ("10", PlanAction.START),
        ("a", PlanAction.START),
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


# Documents: what stands on the disk decides.


PATH = "docs/lld/active/LLD-42.md"
STAMP = Stamp(item="LLD-42", input=item().input_hash, text=text_hash("text"), by="a+b")
EARLIER = replace(STAMP, input=item(text="another text").input_hash)
BY_MOCK = replace(STAMP, by="mock")
MOCKED = Choice(mock=True)
NAMED = Choice(named=True)


def there(author: Author = Author.OURS, stamp: Stamp | None = STAMP) -> Found:
    return Found(path=PATH, author=author, stamp=None if author is Author.FOREIGN else stamp, text="text")


def having(document: Found | None, **more: Any) -> Known:
    return Known(written=True, document=document, **more)


def note(text: str = "Better.", number: int = 1, *, used: bool = False) -> Decision:
    return Decision(id=number, text=text, by="ann", at="2026-01-01", used=used)


def wished(state: FilingState, url: str | None = None) -> Filing:
    row = filing(state).filing
    assert row is not None
    return replace(row, url=url)


def plan_one(known: Known, choice: Choice = ALL, one: Item | None = None) -> PlannedItem:
    one = one or item()
    (entry,) = make_plan([one], {one.id: known}, choice)
    return entry


OURS = there()
EDITED = there(Author.EDITED)
FOREIGN = there(Author.FOREIGN)
MOCKS = there(stamp=BY_MOCK)
MOCKS_EDITED = there(Author.EDITED, BY_MOCK)
STRANGER = f"{PATH} exists and was not written by agentos; run 'agentos revise LLD-42' to start from it"
STAMPED = f"stamped: {PATH}"


@pytest.mark.parametrize(
    ("known", "choice", "step", "reason"),
    [
        # Foreign documents.
        (having(FOREIGN), ALL, PlanAction.SKIP, STRANGER),
        (having(FOREIGN), NAMED, PlanAction.REFUSE, STRANGER),
        (having(FOREIGN), FRESH, PlanAction.SKIP, STRANGER),
        (having(FOREIGN), Choice(fresh=True, named=True), PlanAction.REFUSE, STRANGER),
        (having(FOREIGN, outcome=OUTCOME), NAMED, PlanAction.REFUSE, STRANGER),
        (having(FOREIGN, progress=progress("failed")), NAMED, PlanAction.RESUME, "failed before"),
        (having(FOREIGN, progress=progress("failed", text="old")), NAMED, PlanAction.REFUSE, STRANGER),
        (having(FOREIGN, decisions=(note(),)), ALL, PlanAction.REVISE, "1 note"),
        (having(FOREIGN, decisions=(note(""),)), NAMED, PlanAction.REVISE, "your edits"),
        (having(FOREIGN, decisions=(note(),)), FRESH, PlanAction.START_OVER, "--fresh"),
        # A document of ours, for this text: done, whatever the records say.
        (having(OURS), ALL, PlanAction.SKIP, STAMPED),
        (having(OURS), NAMED, PlanAction.SKIP, STAMPED),
        (having(OURS, outcome=OUTCOME), ALL, PlanAction.SKIP, STAMPED),
        (having(OURS, outcome=APPROVED_BEFORE.outcome), ALL, PlanAction.SKIP, STAMPED),
        (having(OURS, progress=progress("failed", text="old")), ALL, PlanAction.SKIP, STAMPED),
        (having(EDITED), ALL, PlanAction.SKIP, f"{STAMPED}, edited"),
        (having(EDITED, outcome=OUTCOME), ALL, PlanAction.SKIP, f"{STAMPED}, edited"),
        (having(OURS), FRESH, PlanAction.START_OVER, "--fresh"),
        (having(EDITED), FRESH, PlanAction.START_OVER, "--fresh"),
        # Unless this home has begun it, or a person has said something.
        (having(OURS, decisions=(note(used=True),)), ALL, PlanAction.SKIP, STAMPED),
        (having(FOREIGN, decisions=(note(used=True),)), ALL, PlanAction.SKIP, STRANGER),
        (having(OURS, progress=progress("failed")), ALL, PlanAction.RESUME, "failed before"),
        (having(EDITED, progress=progress("running")), ALL, PlanAction.RESUME, "cut off before"),
        (having(OURS, progress=progress("discuss")), ALL, PlanAction.WAIT, "a person must decide"),
        (having(OURS, decisions=(note(), note(number=2))), ALL, PlanAction.REVISE, "2 notes"),
        (having(EDITED, decisions=(note(""),)), ALL, PlanAction.REVISE, "your edits"),
        (having(EDITED, decisions=(note(), note(""))), ALL, PlanAction.REVISE, "1 note and your edits"),
        (having(OURS, decisions=(DECIDED,)), ALL, PlanAction.REVISE, "decided"),
        (having(OURS, decisions=(note(),), outcome=OUTCOME), ALL, PlanAction.REVISE, "1 note"),
        # For another text: it is revised.
        (having(there(stamp=EARLIER)), ALL, PlanAction.REVISE, "its text has changed"),
        (having(there(Author.EDITED, EARLIER)), ALL, PlanAction.REVISE, "its text has changed"),
        (having(there(stamp=EARLIER), outcome=OUTCOME), ALL, PlanAction.REVISE, "its text has changed"),
        (
            having(there(stamp=EARLIER), outcome=APPROVED_BEFORE.outcome),
            ALL,
            PlanAction.REVISE,
            "its text has changed",
        ),
        (having(there(stamp=EARLIER)), FRESH, PlanAction.START_OVER, "--fresh"),
        # None is there, though one was to be.
        (having(None), ALL, PlanAction.START, ""),
        (having(None, outcome=OUTCOME), ALL, PlanAction.START_OVER, "its document is missing"),
        (having(None, outcome=APPROVED_BEFORE.outcome), ALL, PlanAction.START_OVER, "its text has changed"),
        (
            having(None, progress=progress("failed", text="old")),
            ALL,
            PlanAction.START_OVER,
            "its text has changed",
        ),
        # The mock's.
        (having(MOCKS), ALL, PlanAction.START, "replacing the mock's document"),
        (having(MOCKS, outcome=OUTCOME), ALL, PlanAction.START, "replacing the mock's document"),
        (having(MOCKS_EDITED), ALL, PlanAction.REVISE, f"{PATH} was edited by a person"),
        (having(MOCKS, decisions=(note(),)), ALL, PlanAction.REVISE, "1 note"),
        (having(MOCKS), FRESH, PlanAction.START_OVER, "--fresh"),
        # Runs of the mock.
        (having(None), MOCKED, PlanAction.START, ""),
        (having(MOCKS), MOCKED, PlanAction.SKIP, STAMPED),
        (having(there(stamp=replace(EARLIER, by="mock"))), MOCKED, PlanAction.REVISE, "its text has changed"),
        (having(MOCKS, decisions=(note(),)), MOCKED, PlanAction.REVISE, "1 note"),
        (having(MOCKS), Choice(mock=True, fresh=True), PlanAction.START_OVER, "--fresh"),
        (having(MOCKS_EDITED), MOCKED, PlanAction.SKIP, f"{PATH} was edited by a person"),
        (having(OURS), MOCKED, PlanAction.SKIP, f"{PATH} was not written by the mock"),
        (having(EDITED), MOCKED, PlanAction.SKIP, f"{PATH} was not written by the mock"),
        (having(FOREIGN), MOCKED, PlanAction.SKIP, f"{PATH} was not written by the mock"),
        (
            having(FOREIGN),
            Choice(mock=True, named=True),
            PlanAction.SKIP,
            f"{PATH} was not written by the mock",
        ),
        (having(OURS), Choice(mock=True, fresh=True), PlanAction.SKIP, f"{PATH} was not written by the mock"),
        (
            having(OURS, progress=progress("failed")),
            MOCKED,
            PlanAction.SKIP,
            f"{PATH} was not written by the mock",
        ),
        (
            having(FOREIGN, decisions=(note(),)),
            MOCKED,
            PlanAction.SKIP,
            f"{PATH} was not written by the mock",
        ),
    ],
)
def test_the_document_that_is_there_decides(
    known: Known, choice: Choice, step: PlanAction, reason: str
) -> None:
    entry = plan_one(known, choice)
    assert (entry.step, entry.reason) == (step, reason)


def test_how_to_take_a_foreign_document_is_told_for_workflows_of_others() -> None:
    entry = plan_one(having(FOREIGN), one=replace(item(), workflow="adr"))
    assert "'agentos revise LLD-42'" in entry.reason


@pytest.mark.parametrize("known", [Known(), having(OURS), APPROVED, stopped("failed")])
def test_what_the_mock_wrote_is_no_input_of_a_real_run(known: Known) -> None:
    one = replace(item(), by_mock=True, source="issues/active/42.md")
    entry = plan_one(known, one=one)
    assert (entry.step, entry.reason) == (
        PlanAction.SKIP,
        "the mock wrote issues/active/42.md; edit it if you want to use it",
    )


def test_what_the_mock_wrote_is_input_of_the_mock() -> None:
    assert plan_one(having(None), MOCKED, replace(item(), by_mock=True)).step is PlanAction.START


def test_a_problem_comes_before_everything() -> None:
    entry = plan_one(
        having(FOREIGN, decisions=(note(),)), MOCKED, replace(item(problem="empty"), by_mock=True)
    )
    assert (entry.step, entry.reason) == (PlanAction.REFUSE, "empty")


def test_where_a_workflow_writes_no_document_its_records_decide() -> None:
    assert plan_one(replace(APPROVED, written=False)).step is PlanAction.SKIP
    assert plan_one(replace(APPROVED, written=True)).step is PlanAction.START_OVER


# What people said.


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (stopped("failed"), "failed before, with 1 note"),
        (stopped("running"), "cut off before, with 1 note"),
        (UNDECIDED, "needed a decision before, with 1 note"),
        (ANSWERED, "decided, with 1 note"),
    ],
)
def test_a_note_lets_an_item_go_on(known: Known, reason: str) -> None:
    said = (*known.decisions, note())
    entry = plan_one(replace(known, decisions=said))
    assert (entry.step, entry.reason, entry.decisions) == (PlanAction.RESUME, reason, said)


def test_a_decision_that_was_used_answers_no_other_question() -> None:
    used = (replace(DECIDED, used=True), note(used=True))
    entry = plan_one(replace(UNDECIDED, decisions=used))
    assert (entry.step, entry.reason) == (PlanAction.WAIT, "Which one?")
    entry = plan_one(replace(stopped("failed"), decisions=used))
    assert (entry.step, entry.reason, entry.decisions) == (PlanAction.RESUME, "failed before", used)


def test_decisions_go_with_what_runs_and_with_nothing_else() -> None:
    said = (note(), note(number=2, used=True))
    assert plan_one(having(OURS, decisions=said)).decisions == said
    assert plan_one(having(OURS, decisions=said), FRESH).decisions == said
    assert plan_one(replace(changed("discuss"), decisions=said)).decisions == said
    assert plan_one(having(OURS, decisions=said), MOCKED).decisions == ()
    assert plan_one(Known(decisions=said), one=item(problem="empty")).decisions == ()


def test_an_entry_knows_its_document_and_its_trail() -> None:
    entry = plan_one(having(OURS, trail="42-lld.mock"))
    assert (entry.document, entry.trail) == (PATH, "42-lld.mock")
    entry = plan_one(having(None))
    assert (entry.document, entry.trail) == (None, "")


# Receipts and filings.


RECEIPT = Stamp(item="LLD-42", input=item().input_hash, filed="acme/widgets#7")
FILED = "filed as acme/widgets#7, unchanged since"


@pytest.mark.parametrize(
    ("known", "choice", "step", "reason"),
    [
        (having(None, receipt=RECEIPT), ALL, PlanAction.SKIP, FILED),
        (having(None, receipt=RECEIPT), NAMED, PlanAction.SKIP, FILED),
        (having(OURS, receipt=RECEIPT), ALL, PlanAction.SKIP, FILED),
        (having(None, receipt=RECEIPT, outcome=OUTCOME), ALL, PlanAction.SKIP, FILED),
        (having(None, receipt=RECEIPT, outcome=APPROVED_BEFORE.outcome), ALL, PlanAction.SKIP, FILED),
        (having(None, receipt=RECEIPT, progress=progress("failed")), ALL, PlanAction.RESUME, "failed before"),
        (having(None, receipt=RECEIPT, outcome=OUTCOME), FRESH, PlanAction.START_OVER, "--fresh"),
        (having(FOREIGN, receipt=RECEIPT), ALL, PlanAction.SKIP, STRANGER),
    ],
)
def test_a_receipt_means_done_in_every_clone(
    known: Known, choice: Choice, step: PlanAction, reason: str
) -> None:
    entry = plan_one(known, choice)
    assert (entry.step, entry.reason) == (step, reason)


URL = "https://github.example/acme/widgets/issues/7"
FORGED = replace(OURS, text="Another text.", stamp=replace(STAMP, text=text_hash("Another text.")))
WAITS = f"{PATH} was edited after its approval; run 'agentos revise 42' to have it reviewed"


@pytest.mark.parametrize(
    ("document", "row", "choice", "step", "reason", "unfinished"),
    [
        # As it was approved.
        (OURS, wished(FilingState.WANTED), ALL, PlanAction.SKIP, NOT_FILED, "wanted"),
        (OURS, wished(FilingState.WANTED), FILES, PlanAction.FILE, NOT_FILED, None),
        (OURS, wished(FilingState.WANTED), OFF, PlanAction.SKIP, NOT_FILED, None),
        (OURS, wished(FilingState.KEPT), FILES, PlanAction.SKIP, NOT_FILED, None),
        (OURS, wished(FilingState.KEPT), Choice(filing=True, named=True), PlanAction.FILE, NOT_FILED, None),
        # Edited since: it waits for a review, and that is unfinished.
        (EDITED, wished(FilingState.WANTED), ALL, PlanAction.SKIP, WAITS, "wanted"),
        (EDITED, wished(FilingState.WANTED), FILES, PlanAction.SKIP, WAITS, "wanted"),
        (EDITED, wished(FilingState.WANTED), OFF, PlanAction.SKIP, f"{STAMPED}, edited", None),
        (EDITED, wished(FilingState.KEPT), FILES, PlanAction.SKIP, f"{STAMPED}, edited", None),
        (EDITED, wished(FilingState.KEPT), Choice(filing=True, named=True), PlanAction.SKIP, WAITS, "wanted"),
        # Another text whose stamp fits it: anyone can write one.
        (FORGED, wished(FilingState.WANTED), ALL, PlanAction.SKIP, WAITS, "wanted"),
        (FORGED, wished(FilingState.WANTED), FILES, PlanAction.SKIP, WAITS, "wanted"),
        (FORGED, wished(FilingState.WANTED), OFF, PlanAction.SKIP, STAMPED, None),
        # Sent: GitHub has it, or may have it, whatever is there.
        (
            None,
            wished(FilingState.FILED, URL),
            ALL,
            PlanAction.SKIP,
            f"filed as {URL}, unchanged since",
            None,
        ),
        (
            EDITED,
            wished(FilingState.FILED, URL),
            ALL,
            PlanAction.SKIP,
            f"filed as {URL}, unchanged since",
            None,
        ),
        (
            OURS,
            wished(FilingState.FILED, URL),
            FILES,
            PlanAction.FILE,
            f"filed as {URL}, unchanged since",
            None,
        ),
        (None, wished(FilingState.INTENDED), ALL, PlanAction.SKIP, NOT_KNOWN, "unknown"),
        (None, wished(FilingState.INTENDED), FILES, PlanAction.FILE, NOT_FILED, None),
        # Gone before it was sent.
        (None, wished(FilingState.WANTED), FILES, PlanAction.START_OVER, "its document is missing", None),
        (None, wished(FilingState.KEPT), ALL, PlanAction.START_OVER, "its document is missing", None),
    ],
)
def test_an_approved_issue_is_filed_only_as_it_was_approved(  # noqa: PLR0917 - a table of cases
    document: Found | None, row: Filing, choice: Choice, step: PlanAction, reason: str, unfinished: str | None
) -> None:
    entry = plan_one(having(document, outcome=OUTCOME, filing=row), choice)
    assert (entry.step, entry.reason, entry.filing) == (step, reason, unfinished)


def test_what_was_filed_and_taken_away_is_not_filed_again() -> None:
    outcome = replace(OUTCOME, output=URL)
    entry = plan_one(having(None, outcome=outcome, filing=wished(FilingState.FILED, URL)), FILES)
    assert (entry.step, entry.reason) == (PlanAction.SKIP, f"filed as {URL}, unchanged since")


# Hashes of the first version, which counted an issue's stamp as its text.


OLD = replace(item(), old_hash="f" * 64)


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (Known(outcome=replace(OUTCOME, input_hash="f" * 64)), PlanAction.SKIP),
        (Known(progress=replace(progress("failed"), input_hash="f" * 64)), PlanAction.RESUME),
        (Known(progress=replace(progress("discuss"), input_hash="f" * 64)), PlanAction.WAIT),
        (having(there(stamp=replace(STAMP, input="f" * 64))), PlanAction.SKIP),
        (having(there(stamp=STAMP)), PlanAction.SKIP),
        (having(None, outcome=replace(OUTCOME, input_hash="f" * 64)), PlanAction.START_OVER),
    ],
)
def test_an_old_hash_of_the_same_text_counts_as_its_own(known: Known, step: PlanAction) -> None:
    assert plan_one(known, one=OLD).step is step


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (Known(outcome=replace(OUTCOME, input_hash="e" * 64)), PlanAction.START_OVER),
        (Known(progress=replace(progress("failed"), input_hash="e" * 64)), PlanAction.START_OVER),
        (having(there(stamp=replace(STAMP, input="e" * 64))), PlanAction.REVISE),
        (having(there(stamp=replace(STAMP, input=""))), PlanAction.REVISE),
    ],
)
def test_any_other_hash_is_of_another_text(known: Known, step: PlanAction) -> None:
    assert plan_one(known, one=OLD).step is step
    assert plan_one(known).step is step


# What a run says about skipped items: one line per reason.


def test_items_skipped_for_the_same_reason_are_counted() -> None:
    known = {"1": having(OURS), "2": having(OURS), "3": APPROVED, "4": having(FOREIGN), "5": Known()}
    found = {name: replace(one, progress=None) for name, one in known.items()}
    items = [item(name) for name in found]
    assert shared_reasons(make_plan(items, found, ALL)) == {"stamped elsewhere": 2}
    found |= {name: having(OURS, outcome=OUTCOME) for name in "14"}
    assert shared_reasons(make_plan(items, found, ALL)) == {"already approved": 3}
    assert shared_reasons(make_plan(items, found, NAMED)) == {}  # each has its own line


def test_an_item_that_is_only_filed_is_not_skipped() -> None:
    filed = PlannedItem(item=item(), step=PlanAction.FILE, shared_reason="already filed")
    assert shared_reasons([filed, filed]) == {}
