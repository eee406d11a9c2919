"""What a run will cost, as a range: from earlier items, or from stated assumptions. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agentos.model import Usage, counted
from agentos.store.records import Taken

ENOUGH = 3  # finished items needed before history replaces assumptions
LOW, HIGH = 0.1, 0.9  # share of items that were cheaper
# One call if nothing was measured; a revision also reads the draft and the findings.
DRAFT = Taken(calls=1, tokens_in=2_000, tokens_out=2_500)
REVISION = Taken(calls=1, tokens_in=6_000, tokens_out=2_500)
REVIEW = Taken(calls=1, tokens_in=5_000, tokens_out=1_000)

Basis = Literal["measured", "assumed"]
Cost = Callable[[str, Usage], float | None]  # of a role


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """USD for all items; None if a model has no known price."""

    low: float | None
    high: float | None
    basis: Basis
    based_on: int  # finished items; 0 if nothing was measured
    why: str  # the basis, for people


def estimate(
    *,
    fresh: int,
    resumed: int,
    history: Sequence[Mapping[str, Taken]],
    rounds: int,
    cost: Cost,
    repository: int = 0,
    context: int = 0,
) -> CostEstimate:
    """The range for this many items. For resumed items it is unknown how much is left.

    `history` is from the same workflow and models. Each call also sends `repository` tokens of the map, and
    `context` tokens that the user adds.
    """
    if len(history) >= ENOUGH:
        basis: Basis = "measured"
        why = f"measured on {len(history)} finished items with these models"
        why += f"; --context adds up to {context:,} tokens per call" if context else ""
        items = [{role: [taken] for role, taken in item.items()} for item in history]
        # Earlier items had a map; whether they had the user's files, too, is unknown.
        low = _share([_total(item, cost) for item in items], LOW, math.floor)
        high = _share([_total(item, cost, context) for item in items], HIGH, math.ceil)
    else:
        basis = "assumed"
        why = _assumption(rounds, repository, context, finished=len(history))
        sent = repository + context
        low = _total({"drafter": [DRAFT], "reviewer": [REVIEW]}, cost, sent)
        drafts = [DRAFT, *[REVISION] * (rounds - 1)]
        high = _total({"drafter": drafts, "reviewer": [REVIEW] * rounds}, cost, sent)
    if low is None or high is None:
        low = high = None
    else:
        low, high = round(low * fresh, 4), round(high * (fresh + resumed), 4)
    based_on = len(history) if basis == "measured" else 0
    return CostEstimate(low=low, high=high, basis=basis, based_on=based_on, why=why)


def _assumption(rounds: int, repository: int, context: int, *, finished: int) -> str:
    per_round = f"{DRAFT.tokens_out:,} tokens per draft, {REVIEW.tokens_out:,} per review"
    per_round += f", {repository:,} of the repository map" if repository else ""
    per_round += f", {context:,} of --context" if context else ""
    total = f"1 to {rounds} rounds" if rounds > 1 else "1 round"
    few = f"only {counted(finished, 'item')}" if finished else "no item"
    verb = "have" if finished > 1 else "has"
    return f"estimated from {per_round} and {total}, because {few} {verb} finished with these models"


def _share(costs: Sequence[float | None], share: float, rounded: Callable[[float], int]) -> float | None:
    """The cost that this share of the items stays below; None if one price is unknown."""
    known = sorted(one for one in costs if one is not None)
    return known[rounded(share * (len(known) - 1))] if len(known) == len(costs) else None


def _total(item: Mapping[str, Sequence[Taken]], cost: Cost, context: int = 0) -> float | None:
    """What an item costs if each call sends `context` more tokens."""
    total = 0.0
    for role, calls in item.items():
        for taken in calls:
            one = cost(role, replace(taken, tokens_in=taken.tokens_in + context * taken.calls))
            if one is None:
                return None
            total += one
    return total
