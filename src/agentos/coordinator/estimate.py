"""What a run will cost, as a range: from what items took here before, or from stated assumptions. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ENOUGH = 3  # finished items before history counts for more than assumptions
LOW, HIGH = 0.1, 0.9  # the share of items that were cheaper
# Tokens in and out of one call where nothing was measured; a revision also reads the draft and the findings.
DRAFT, REVISION, REVIEW = (2_000, 2_500), (6_000, 2_500), (5_000, 1_000)
ASSUMED = "assumed: 2,500 tokens a draft, 1,000 a review, 1 to {rounds} rounds"

Tokens = tuple[int, int]
Cost = Callable[[str, int, int], float | None]  # role, tokens in, tokens out


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """USD for all items; None where a model has no known price."""

    low: float | None
    high: float | None
    basis: str


def estimate(
    *, fresh: int, resumed: int, history: Sequence[Mapping[str, Tokens]], rounds: int, cost: Cost
) -> Estimate:
    """The range for so many items; of those that go on, nobody knows how much is left."""
    if len(history) >= ENOUGH:
        costs = [_total({role: [tokens] for role, tokens in item.items()}, cost) for item in history]
        basis = f"measured on {len(history)} finished items of this home"
        known = sorted(one for one in costs if one is not None)
        if len(known) < len(costs):
            return Estimate(low=None, high=None, basis=basis)
        last = len(known) - 1
        low, high = known[math.floor(LOW * last)], known[math.ceil(HIGH * last)]
    else:
        basis = ASSUMED.format(rounds=rounds)
        least = _total({"drafter": [DRAFT], "reviewer": [REVIEW]}, cost)
        most = _total({"drafter": [DRAFT, *[REVISION] * (rounds - 1)], "reviewer": [REVIEW] * rounds}, cost)
        if least is None or most is None:
            return Estimate(low=None, high=None, basis=basis)
        low, high = least, most
    return Estimate(low=round(low * fresh, 4), high=round(high * (fresh + resumed), 4), basis=basis)


def _total(calls: Mapping[str, Sequence[Tokens]], cost: Cost) -> float | None:
    total = 0.0
    for role, made in calls.items():
        for tokens_in, tokens_out in made:
            one = cost(role, tokens_in, tokens_out)
            if one is None:
                return None
            total += one
    return total
