"""Where the loop goes next: every ending, and every way out of a hold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentos.model import Item
from agentos.review import Finding, ParsedReview, Verdict
from agentos.wire import Decision, NoteData
from agentos.workflows.registry import ItemContext
from agentos.workflows.routing import (
    GATE_RETURNS,
    NO_PROGRESS_REPEATS,
    UNREADABLE_REVIEWS,
    after_gate,
    after_review,
    from_hold,
)
from agentos.workflows.state import LoopState, start_state

ITEM = Item(workflow="lld", id="7", label="LLD-7", title="A title", text="A text", source="7.md")
CONTEXT = ItemContext(item=ITEM, worktree=Path("/nowhere"), run_id="run-2", max_iterations=5)
LOOP = Finding(tier=1, category="Cost", title="Loop", text="It never ends.", recommendation="Bound it.")
HINT = Finding(tier=3, category="Suggestion", title="", text="Add a label.", recommendation="")


def at(**changes: Any) -> LoopState:
    state: LoopState = start_state()
    return state | {"drafts": 1, "reviews": 1, **changes}  # type: ignore[return-value]


def revise(*findings: Finding) -> ParsedReview:
    return ParsedReview(verdict=Verdict.REVISE, findings=findings)


def note(number: int, text: str = "Be brief.") -> NoteData:
    return NoteData(id=number, text=text, by="me", at="2026-01-01T00:00:00Z")


def decided(answer: Any, *, reviews: int = 1) -> Decision:
    return Decision(reviews=reviews, answer=answer, note="Go.", by="me", at="2026-01-01T00:00:00Z")


def held(status: str, *, run: str = "run-1", stuck: bool = False, **changes: Any) -> LoopState:
    return at(held={"status": status, "reason": "why", "stuck": stuck, "run": run}, **changes)


def test_a_whole_draft_is_reviewed() -> None:
    step = after_gate(at(returns=2), CONTEXT, ())
    assert (step.goto, step.update) == ("review", {"missing": [], "wrong_paths": [], "returns": 0})


def test_wrong_paths_send_a_draft_back_once_and_never_fail_it() -> None:
    state, steps = at(draft="# D", returns=GATE_RETURNS), []
    for _time in range(3):
        steps.append(after_gate(state, CONTEXT, (), ["a.py"]))
        state |= steps[-1].update
    assert [step.goto for step in steps] == ["draft", "review", "review"]
    assert state["returns"] == 0
    assert state["wrong_paths"] == ["a.py"]
    assert after_gate(state, CONTEXT, (), ()).update["wrong_paths"] == []


def test_wrong_paths_of_an_incomplete_draft_go_back_with_what_is_missing() -> None:
    step = after_gate(at(draft="# D"), CONTEXT, ["Context"], ["a.py"])
    assert (step.goto, step.update["returns"], step.update["paths_returned"]) == ("draft", 1, True)


def test_the_document_of_a_person_is_not_sent_back_for_its_paths() -> None:
    step = after_gate(at(draft="# Mine", basis="# Mine"), CONTEXT, (), ["a.py"])
    assert step.goto == "review"
    assert "paths_returned" not in step.update


def test_a_draft_goes_back_a_few_times_then_the_item_fails() -> None:
    state, steps = at(), []
    for _time in range(GATE_RETURNS + 1):
        steps.append(after_gate(state, CONTEXT, ["Context"]))
        state |= steps[-1].update
    assert [step.goto for step in steps] == ["draft"] * GATE_RETURNS + ["hold"]
    assert state["held"]["status"] == "failed"
    assert "Context" in state["held"]["reason"]


def test_an_approval_ends_the_loop() -> None:
    step = after_review(at(unreadable=2, note="said"), CONTEXT, ParsedReview(verdict=Verdict.APPROVED))
    assert step.goto == "finalize"
    assert step.update == {"verdict": "APPROVED", "unreadable": 0, "note": "", "findings": []}


def test_an_approval_of_a_draft_without_the_latest_note_does_not() -> None:
    approved = ParsedReview(verdict=Verdict.APPROVED)
    noted = replace(CONTEXT, notes=(note(1), note(2)))
    assert after_review(at(noted=1), noted, approved).goto == "draft"
    assert after_review(at(noted=2), noted, approved).goto == "finalize"
    assert after_review(at(), replace(CONTEXT, notes=(note(1, text=""),)), approved).goto == "finalize"


def test_a_question_waits_for_a_person() -> None:
    step = after_review(
        at(), CONTEXT, ParsedReview(verdict=Verdict.DISCUSS, questions=("Who pays?", "When?"))
    )
    assert step.goto == "hold"
    assert step.update["held"] == {
        "status": "discuss",
        "reason": "Who pays? / When?",
        "stuck": False,
        "run": "run-2",
    }


def test_a_review_goes_back_to_the_drafter_until_the_limit() -> None:
    assert after_review(at(reviews=4), CONTEXT, revise(LOOP)).goto == "draft"
    step = after_review(at(reviews=5), CONTEXT, revise(LOOP))
    assert step.goto == "hold"
    assert step.update["held"]["status"] == "needs_revision"
    assert step.update["held"]["reason"] == "not approved after 5 reviews"
    assert after_review(at(reviews=5, allowance_from=1), CONTEXT, revise(LOOP)).goto == "draft"


def test_the_same_findings_again_and_again_are_no_progress() -> None:
    context, goes = replace(CONTEXT, max_iterations=50), []
    state = at(reviews=0)
    for number in range(NO_PROGRESS_REPEATS + 1):
        state |= {"reviews": number + 1}
        # However it is written, and whatever is suggested beside it.
        other = replace(LOOP, title=LOOP.title.upper(), category="cost")
        step = after_review(state, context, revise(other if number % 2 else LOOP, HINT))
        goes.append(step.goto)
        state |= step.update
    assert goes == ["draft"] * NO_PROGRESS_REPEATS + ["hold"]
    assert state["held"]["stuck"]
    moved = after_review(state, context, revise(replace(LOOP, text="It ends late.")))
    assert (moved.goto, moved.update["repeats"]) == ("draft", 0)


def test_an_unreadable_review_is_asked_for_again_then_the_item_fails() -> None:
    state, goes = at(findings=[LOOP.as_dict()], note="said"), []
    for number in range(UNREADABLE_REVIEWS):
        state |= {"reviews": number + 1}
        step = after_review(state, CONTEXT, ParsedReview.unreadable("No verdict."))
        goes.append(step.goto)
        state |= step.update
    assert goes == ["review"] * (UNREADABLE_REVIEWS - 1) + ["hold"]
    assert state["held"]["status"] == "failed"
    assert (state["findings"], state["note"]) == ([LOOP.as_dict()], "said")


def test_an_unreadable_review_counts_towards_the_limit() -> None:
    step = after_review(at(reviews=5), CONTEXT, ParsedReview.unreadable("No verdict."))
    assert (step.goto, step.update["held"]["status"]) == ("hold", "needs_revision")


@pytest.mark.parametrize("run", ["run-1", "run-2"])
def test_a_decision_is_for_the_review_it_was_made_on(run: str) -> None:
    state = held("discuss", run=run, repeats=1)
    assert from_hold(state, CONTEXT) is None
    assert from_hold(state, replace(CONTEXT, decision=decided("approve", reviews=2))) is None
    approved = from_hold(state, replace(CONTEXT, decision=decided("approve")))
    assert approved is not None
    assert (approved.goto, approved.update) == ("finalize", {"verdict": "APPROVED"})
    sent_back = from_hold(state, replace(CONTEXT, decision=decided("revise")))
    assert sent_back is not None
    assert sent_back.goto == "draft"
    assert sent_back.update["note"] == "Go."
    assert (sent_back.update["repeats"], sent_back.update["allowance_from"]) == (0, 1)


@pytest.mark.parametrize(
    ("state", "how", "goto"),
    [
        (held("failed", run="run-2"), {}, None),
        (held("failed"), {}, "draft"),
        (held("failed", unreadable=3), {}, "review"),
        (held("needs_revision", run="run-2"), {"retry_failed": True}, None),
        (held("needs_revision"), {"retry_failed": True}, "draft"),
        (held("needs_revision", unreadable=1), {"retry_failed": True}, "draft"),
        (held("needs_revision", reviews=5), {}, None),
        (held("needs_revision", reviews=5), {"max_iterations": 6}, "draft"),
        (held("needs_revision", reviews=5, stuck=True), {"max_iterations": 6}, None),
    ],
)
def test_only_a_later_run_goes_on(state: LoopState, how: dict[str, Any], goto: str | None) -> None:
    step = from_hold(state, replace(CONTEXT, **how))
    assert (None if step is None else step.goto) == goto
