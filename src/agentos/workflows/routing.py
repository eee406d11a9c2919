"""Where the loop goes next: after the gate, after a review, and from a hold. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentos.model import counted
from agentos.review import ParsedReview, Verdict
from agentos.same_finding import identity
from agentos.workflows.state import LoopState

if TYPE_CHECKING:
    from agentos.wire import NoteData
    from agentos.workflows.registry import ItemContext

GATE_RETURNS = 3  # how many times in a row a draft may go back for missing sections
UNREADABLE_REVIEWS = 3  # how many reviews in a row may be unreadable
NO_PROGRESS_REPEATS = 2  # how many times in a row the same findings may come back


@dataclass(frozen=True, kw_only=True)
class NextNode:
    """The next node, and what changes in the state on the way."""

    goto: str
    update: LoopState


def after_gate(
    state: LoopState, context: "ItemContext", missing: Sequence[str], wrong_paths: Sequence[str] = ()
) -> NextNode:
    """Review a draft that has every section; send any other back, a few times at most.

    For wrong paths alone, a draft goes back once per item; after that, the reviewer judges them. The document
    of a person is reviewed as it is.
    """
    returns = state["returns"] + 1 if missing else 0
    update: LoopState = {"missing": list(missing), "wrong_paths": list(wrong_paths), "returns": returns}
    drafted = state["draft"] != state.get("basis")
    first = bool(wrong_paths) and not state.get("paths_returned", False)
    if first and (missing or drafted):
        update["paths_returned"] = True
    if not missing:
        return NextNode(goto="draft" if first and drafted else "review", update=update)
    if returns > GATE_RETURNS:
        reason = (
            f"the draft is still missing {', '.join(missing)} after it was sent back {GATE_RETURNS} times"
        )
        return _hold(context, update, "failed", reason)
    return NextNode(goto="draft", update=update)


def after_review(state: LoopState, context: "ItemContext", reading: ParsedReview) -> NextNode:
    """Follow the verdict, unless a person left a note that the drafter has not seen."""
    update: LoopState = {"verdict": reading.verdict.value}
    if reading.verdict is Verdict.UNREADABLE:
        return _after_unreadable(state, context, update, reading.reason)
    update |= {"unreadable": 0, "note": "", "findings": [finding.as_dict() for finding in reading.findings]}
    if any(note.text for note in unheard(state, context)):
        return NextNode(goto="draft", update=update)
    if reading.verdict is Verdict.APPROVED:
        return NextNode(goto="finalize", update=update)
    if reading.verdict is Verdict.DISCUSS:
        asked = " / ".join(reading.questions) or "the reviewer asks for a person's decision"
        return _hold(context, update, "discuss", asked)
    return _after_revise(state, context, update, reading)


def from_hold(state: LoopState, context: "ItemContext") -> NextNode | None:
    """Continue if a person or a later run makes it possible; None means wait."""
    held = state["held"]
    if held["status"] == "discuss":
        return _from_discuss(state, context)
    if held["run"] == context.run_id:
        return None
    if held["status"] == "needs_revision" and not context.retry_failed:
        # The limit may have been raised in the meantime.
        raised = not held["stuck"] and not _used_up(state, context)
        return NextNode(goto="draft", update={}) if raised else None
    again = held["status"] == "failed" and state["unreadable"] > 0
    return NextNode(goto="review" if again else "draft", update=new_allowance(state))


def unheard(state: LoopState, context: "ItemContext") -> "list[NoteData]":
    """List a person's notes that no draft has taken up yet."""
    return [note for note in context.notes if note.id > state.get("noted", 0)]


def new_allowance(state: LoopState) -> LoopState:
    """Count reviews, repeats and returns from here."""
    return {"allowance_from": state["reviews"], "repeats": 0, "returns": 0, "unreadable": 0}


def _from_discuss(state: LoopState, context: "ItemContext") -> NextNode | None:
    decision = context.decision
    if decision is None or decision.reviews != state["reviews"]:
        return None
    if decision.answer == "approve":
        return NextNode(goto="finalize", update={"verdict": Verdict.APPROVED.value})
    return NextNode(goto="draft", update=new_allowance(state) | {"note": decision.note})


def _after_unreadable(state: LoopState, context: "ItemContext", update: LoopState, why: str) -> NextNode:
    update["unreadable"] = state["unreadable"] + 1
    if update["unreadable"] >= UNREADABLE_REVIEWS:
        reason = f"the review could not be read {UNREADABLE_REVIEWS} times in a row: {why}"
        return _hold(context, update, "failed", reason)
    if _used_up(state, context):
        return _hold(context, update, "needs_revision", _limit_text(state))
    return NextNode(goto="review", update=update)


def _after_revise(
    state: LoopState, context: "ItemContext", update: LoopState, reading: ParsedReview
) -> NextNode:
    before = {identity(finding) for finding in state["findings"] if finding["tier"] < 3}
    now = {identity(finding.as_dict()) for finding in reading.findings if finding.tier < 3}
    update["repeats"] = state["repeats"] + 1 if state["reviews"] > 1 and before == now else 0
    if update["repeats"] >= NO_PROGRESS_REPEATS:
        reason = f"no progress: the same findings came back {_times(NO_PROGRESS_REPEATS)}"
        return _hold(context, update, "needs_revision", reason, stuck=True)
    if _used_up(state, context):
        return _hold(context, update, "needs_revision", _limit_text(state))
    return NextNode(goto="draft", update=update)


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def _used_up(state: LoopState, context: "ItemContext") -> bool:
    return state["reviews"] - state["allowance_from"] >= context.max_iterations


def _limit_text(state: LoopState) -> str:
    return f"not approved after {counted(state['reviews'], 'review')}"


def _hold(
    context: "ItemContext", update: LoopState, status: str, reason: str, *, stuck: bool = False
) -> NextNode:
    held = {"status": status, "reason": reason, "stuck": stuck, "run": context.run_id}
    return NextNode(goto="hold", update=update | {"held": held})
