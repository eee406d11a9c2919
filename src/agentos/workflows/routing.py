"""Where the loop goes next: after the gate, after a review, and from a hold. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentos.decisions import Decision, in_one_line
from agentos.model import counted
from agentos.review import ParsedReview, Verdict
from agentos.workflows.ledger import Ledger
from agentos.workflows.state import LoopState

if TYPE_CHECKING:
    from agentos.workflows.registry import ItemContext

GATE_RETURNS = 3  # how many times in a row a draft may go back for missing sections
UNREADABLE_REVIEWS = 3  # how many reviews in a row may be unreadable
NO_PROGRESS_ROUNDS = 2  # how many reviews in a row may leave every finding open


@dataclass(frozen=True, kw_only=True)
class NextNode:
    """The next node, and what changes in the state on the way."""

    goto: str
    update: LoopState


def after_gate(state: LoopState, context: "ItemContext", missing: Sequence[str]) -> NextNode:
    """Review a draft that has every section; send any other back, a few times at most."""
    returns = state["returns"] + 1 if missing else 0
    update: LoopState = {"missing": list(missing), "returns": returns}
    if not missing:
        return NextNode(goto="review", update=update)
    if returns > GATE_RETURNS:
        reason = (
            f"the draft is still missing {', '.join(missing)} after it was sent back {GATE_RETURNS} times"
        )
        return _hold(context, update, "failed", reason)
    return NextNode(goto="draft", update=update)


def after_unreadable(state: LoopState, context: "ItemContext", why: str) -> NextNode:
    """Ask for the review again and say what was wrong, a few times at most. It does not count as a review."""
    update: LoopState = {"verdict": Verdict.UNREADABLE.value, "unreadable": state["unreadable"] + 1}
    if update["unreadable"] >= UNREADABLE_REVIEWS:
        reason = f"the review could not be read {UNREADABLE_REVIEWS} times in a row: {why}"
        return _hold(context, update, "failed", reason)
    return NextNode(goto="review", update=update | {"redo": f"It could not be read. {why}"})


def after_review(
    state: LoopState, context: "ItemContext", reading: ParsedReview, before: Ledger, now: Ledger
) -> NextNode:
    """Follow the verdict, unless a person left a note that the drafter has not seen.

    `state` counts the review already; `before` and `now` are the ledgers without and with it.
    """
    update: LoopState = {"verdict": reading.verdict.value, "unreadable": 0}
    if not all(one.asks_review for one in unheard(state, context)):
        return NextNode(goto="draft", update=update)
    if reading.verdict is Verdict.APPROVED:
        return NextNode(goto="finalize", update=update)
    if reading.verdict is Verdict.DISCUSS:
        asked = in_one_line(now.asked_in(reading)) or "the reviewer asks for a person's decision"
        return _hold(context, update, "discuss", asked)
    update["repeats"] = 0 if now.progressed(before) else state["repeats"] + 1
    if update["repeats"] >= NO_PROGRESS_ROUNDS:
        numbers = ", ".join(f"F{one.number}" for one in now.open)
        reason = f"no progress: {counted(NO_PROGRESS_ROUNDS, 'round')} resolved none of {numbers}"
        return _hold(context, update, "needs_revision", reason, stuck=True)
    if _used_up(state, context):
        return _hold(
            context, update, "needs_revision", f"not approved after {counted(state['reviews'], 'review')}"
        )
    return NextNode(goto="draft", update=update)


def from_hold(state: LoopState, context: "ItemContext") -> NextNode | None:
    """Continue if a later run makes it possible; None means wait. What a person said comes before this."""
    held = state["held"]
    if held["status"] == "discuss" or held["run"] == context.run_id:
        return None
    if held["status"] == "needs_revision" and not context.retry_failed:
        # The limit may have been raised in the meantime.
        raised = not held["stuck"] and not _used_up(state, context)
        return NextNode(goto="draft", update={}) if raised else None
    again = held["status"] == "failed" and state["unreadable"] > 0
    return NextNode(goto="review" if again else "draft", update=new_allowance(state))


def unheard(state: LoopState, context: "ItemContext") -> list[Decision]:
    """What a person said that no draft has taken up yet; an answer, only for its own discussion."""
    said = [one for one in context.decisions if one.id > state.get("noted", 0) and not one.used]
    return [one for one in said if not one.answer or one.reviews == state.get("reviews", 0)]


def approves(said: Sequence[Decision]) -> bool:
    """Whether the last thing that a person said is an approval of the draft as it is."""
    return bool(said) and said[-1].answer == "approve"


def new_allowance(state: LoopState) -> LoopState:
    """Count reviews, repeats and returns from here."""
    return {"allowance_from": state["reviews"], "repeats": 0, "returns": 0, "unreadable": 0}


def _used_up(state: LoopState, context: "ItemContext") -> bool:
    return state["reviews"] - state["allowance_from"] >= context.max_iterations


def _hold(
    context: "ItemContext", update: LoopState, status: str, reason: str, *, stuck: bool = False
) -> NextNode:
    held = {"status": status, "reason": reason, "stuck": stuck, "run": context.run_id}
    return NextNode(goto="hold", update=update | {"held": held})
