"""Where the loop goes next: every ending, and every way out of a hold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentos.decisions import Decision
from agentos.model import Item
from agentos.review import Finding, ParsedReview, Verdict
from agentos.review.parsed_review import EarlierAnswer
from agentos.workflows.ledger import Ledger
from agentos.workflows.registry import ItemContext
from agentos.workflows.routing import (
    GATE_RETURNS,
    NO_PROGRESS_ROUNDS,
    UNREADABLE_REVIEWS,
    NextNode,
    after_gate,
    after_review,
    after_unreadable,
    approves,
    from_hold,
    unheard,
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
    return ParsedReview(verdict=Verdict.REVISE, findings=findings, structured=True)


def reviewed(
    state: LoopState, context: ItemContext, reading: ParsedReview, before: Ledger | None = None
) -> NextNode:
    ledger = before or Ledger()
    return after_review(state, context, reading, ledger, ledger.reviewed(reading))


def note(number: int, text: str = "Be brief.") -> Decision:
    return Decision(id=number, text=text, by="me", at="2026-01-01T00:00:00Z")


def decided(answer: Any, *, reviews: int = 1) -> Decision:
    return replace(note(5, "Go."), reviews=reviews, answer=answer)


def held(status: str, *, run: str = "run-1", stuck: bool = False, **changes: Any) -> LoopState:
    return at(held={"status": status, "reason": "why", "stuck": stuck, "run": run}, **changes)


def test_a_whole_draft_is_reviewed() -> None:
    step = after_gate(at(returns=2), CONTEXT, ())
    assert (step.goto, step.update) == ("review", {"missing": [], "returns": 0})


def test_a_draft_goes_back_a_few_times_then_the_item_fails() -> None:
    state, steps = at(), []
    for _time in range(GATE_RETURNS + 1):
        steps.append(after_gate(state, CONTEXT, ["Context"]))
        state |= steps[-1].update
    assert [step.goto for step in steps] == ["draft"] * GATE_RETURNS + ["hold"]
    assert state["held"]["status"] == "failed"
    assert "Context" in state["held"]["reason"]


def test_an_approval_ends_the_loop() -> None:
    step = reviewed(at(unreadable=2), CONTEXT, ParsedReview(verdict=Verdict.APPROVED))
    assert step.goto == "finalize"
    assert step.update == {"verdict": "APPROVED", "unreadable": 0}


def test_an_approval_of_a_draft_without_the_latest_note_does_not() -> None:
    approved = ParsedReview(verdict=Verdict.APPROVED)
    noted = replace(CONTEXT, decisions=(note(1), note(2)))
    assert reviewed(at(noted=1), noted, approved).goto == "draft"
    assert reviewed(at(noted=2), noted, approved).goto == "finalize"
    used = replace(CONTEXT, decisions=(replace(note(3), used=True),))
    assert reviewed(at(noted=2), used, approved).goto == "finalize"
    assert reviewed(at(), replace(CONTEXT, decisions=(note(1, text=""),)), approved).goto == "finalize"


def test_a_question_waits_for_a_person() -> None:
    step = reviewed(at(), CONTEXT, ParsedReview(verdict=Verdict.DISCUSS, questions=("Who pays?", "When?")))
    assert step.goto == "hold"
    assert step.update["held"] == {
        "status": "discuss",
        "reason": "Q1: Who pays? / Q2: When?",
        "stuck": False,
        "run": "run-2",
    }


def test_a_review_goes_back_to_the_drafter_until_the_limit() -> None:
    assert reviewed(at(reviews=4), CONTEXT, revise(LOOP)).goto == "draft"
    step = reviewed(at(reviews=5), CONTEXT, revise(LOOP))
    assert step.goto == "hold"
    assert step.update["held"]["status"] == "needs_revision"
    assert step.update["held"]["reason"] == "not approved after 5 reviews"
    assert reviewed(at(reviews=5, allowance_from=1), CONTEXT, revise(LOOP)).goto == "draft"


def test_rounds_that_resolve_no_finding_are_no_progress() -> None:
    context, goes = replace(CONTEXT, max_iterations=50), []
    state, ledger = at(reviews=0), Ledger()
    for number in range(NO_PROGRESS_ROUNDS + 1):
        state |= {"reviews": number + 1}
        said = revise(replace(LOOP, title=f"Loop, in words {number}"), HINT)
        step = reviewed(state, context, said, ledger)
        ledger = ledger.reviewed(said)
        goes.append(step.goto)
        state |= step.update
    assert goes == ["draft"] * NO_PROGRESS_ROUNDS + ["hold"]
    assert state["held"]["stuck"]
    resolved = replace(revise(), answers=(EarlierAnswer(number="F2", state="resolved"),))
    moved = reviewed(state, context, resolved, ledger)
    assert (moved.goto, moved.update["repeats"]) == ("draft", 0)


def test_an_unreadable_review_is_asked_for_again_then_the_item_fails() -> None:
    state, goes = at(reviews=5), []  # the limit of reviews does not count it
    for _ in range(UNREADABLE_REVIEWS):
        step = after_unreadable(state, CONTEXT, "No verdict.")
        goes.append(step.goto)
        state |= step.update
    assert goes == ["review"] * (UNREADABLE_REVIEWS - 1) + ["hold"]
    assert state["held"]["status"] == "failed"
    assert state["redo"] == "It could not be read. No verdict."


def test_a_decision_is_for_the_review_it_was_made_on() -> None:
    state = held("discuss", repeats=1)
    assert from_hold(state, CONTEXT) is None
    assert unheard(state, replace(CONTEXT, decisions=(decided("approve", reviews=2),))) == []
    said = unheard(state, replace(CONTEXT, decisions=(note(1), decided("approve"))))
    assert approves(said)
    assert not approves(unheard(state, replace(CONTEXT, decisions=(decided("approve"), note(9)))))
    assert not approves(unheard(state, replace(CONTEXT, decisions=(decided("revise"),))))


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
