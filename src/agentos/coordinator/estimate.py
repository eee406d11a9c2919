"""What a run will cost, as a range: from earlier items, or from stated assumptions. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.model import Status, Usage, counted
from agentos.store.records import Taken

ENOUGH = 3  # finished items needed before history replaces assumptions
LOW, HIGH = 0.1, 0.9  # share of items that were cheaper
# One call if nothing was measured; a revision also reads the draft and the findings.
DRAFT = Taken(calls=1, tokens_in=2_000, tokens_out=2_500)
REVISION = Taken(calls=1, tokens_in=6_000, tokens_out=2_500)
REVIEW = Taken(calls=1, tokens_in=5_000, tokens_out=1_000)
LOOK = Taken(calls=1, tokens_in=3_000, tokens_out=300)  # what the model wants to read

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


@dataclass(frozen=True, kw_only=True)
class Work:
    """How many calls an item takes, at least and at most."""

    drafts: tuple[int, int] = (0, 0)
    reviews: tuple[int, int] = (0, 0)
    looks: tuple[int, int] = (0, 0)  # of the drafter
    checks: tuple[int, int] = (0, 0)  # the reviewer's look
    whole: bool = False  # from its first draft on

    @property
    def least(self) -> int:
        return self.drafts[0] + self.reviews[0] + self.looks[0] + self.checks[0]

    @property
    def most(self) -> int:
        return self.drafts[1] + self.reviews[1] + self.looks[1] + self.checks[1]

    def with_looks(self, rounds: int) -> "Work":
        """The same with up to so many looks before its drafts; some may have been made already."""
        least = int(self.whole)
        looks = (least, rounds) if self.drafts[1] else (0, 0)
        return replace(self, looks=looks, checks=(least, 1) if self.reviews[1] else (0, 0))


def work_of(entry: PlannedItem, *, rounds: int, retried: bool) -> Work:  # noqa: PLR0911 - a table of cases
    """What is left to do for an item that runs; `retried`: with --retry-failed."""
    said = [one for one in entry.decisions if not one.used]
    rewritten = Work(drafts=(1, rounds), reviews=(1, rounds))
    reviewed = Work(drafts=(0, rounds - 1), reviews=(1, rounds))  # what is there, as it is
    as_it_is = bool(said) and all(one.asks_review for one in said)
    if entry.step is not PlanAction.RESUME:
        revises = entry.step is PlanAction.REVISE
        return reviewed if revises and as_it_is else replace(rewritten, whole=not revises)
    # A person's word begins a new allowance; which reviews came after it is not known here.
    left = rounds if entry.decisions else rounds - entry.reviews % rounds
    match entry.node:
        case "hold" | "finalize" if said:
            if said[-1].answer == "approve" and said[-1].reviews == entry.reviews:
                return Work()
            return reviewed if as_it_is else rewritten
        case "hold" if entry.ended == Status.NEEDS_REVISION and not retried:
            left = max(0, rounds - entry.reviews)  # unless --max-iterations was raised, it stays as it is
            return Work(drafts=(min(1, left), left), reviews=(min(1, left), left))
        case "hold":
            return rewritten
        case "finalize":
            return Work()
        case "judge":
            return Work(drafts=(0, left - 1), reviews=(0, left - 1))
        case "gate" | "check" | "review":
            return Work(drafts=(0, left - 1), reviews=(1, left))
        case _:
            return Work(drafts=(1, left), reviews=(1, left), whole=not entry.reviews and not entry.revises)


def estimate(
    work: Sequence[Work],
    *,
    history: Sequence[Mapping[str, Taken]],
    rounds: int,
    cost: Cost,
    repository: int = 0,
    context: int = 0,
    read: int = 0,
) -> CostEstimate:
    """The range for all items.

    `history` is from the same workflow and models. Each call also sends `repository` tokens of the map,
    `context` tokens that the user adds, and at most `read` tokens that the models ask for.
    """
    if len(history) >= ENOUGH:
        basis: Basis = "measured"
        why = f"measured on {len(history)} finished items with these models"
        why += f"; --context adds up to {context:,} tokens per call" if context else ""
        # Earlier items had a map; whether they had the user's files, too, is unknown.
        price = _measured(history, cost, context)
    else:
        basis = "assumed"
        why = _assumption(rounds, repository, context, read, finished=len(history))
        price = _assumed(cost, repository + context, read)
    ranges = [price(one) for one in work]
    return CostEstimate(
        low=_sum(low for low, _ in ranges),
        high=_sum(high for _, high in ranges),
        basis=basis,
        based_on=len(history) if basis == "measured" else 0,
        why=why,
    )


Range = tuple[float | None, float | None]


def _assumed(cost: Cost, sent: int, read: int) -> Callable[[Work], Range]:
    def price(one: Work) -> Range:
        low, high = (
            _total(
                {
                    "drafter": [LOOK] * one.looks[at] + _drafts(one.drafts[at], one),
                    "reviewer": [LOOK] * one.checks[at] + [REVIEW] * one.reviews[at],
                },
                cost,
                sent + (read if at and one.looks[1] else 0),
            )
            for at in (0, 1)
        )
        return low, high

    return price


def _drafts(count: int, one: Work) -> list[Taken]:
    return ([DRAFT] + [REVISION] * (count - 1) if one.whole else [REVISION] * count) if count else []


def _measured(history: Sequence[Mapping[str, Taken]], cost: Cost, context: int) -> Callable[[Work], Range]:
    """What items took so far: as a whole, or for each call if only a part is left."""
    items = [{role: [taken] for role, taken in item.items()} for item in history]
    whole = (
        _share([_total(item, cost) for item in items], LOW, math.floor),
        _share([_total(item, cost, context) for item in items], HIGH, math.ceil),
    )

    def price(one: Work) -> Range:
        if one.whole:
            return whole
        low = high = 0.0
        for role, ranges in (("drafter", (one.drafts, one.looks)), ("reviewer", (one.reviews, one.checks))):
            least, most = (sum(ends) for ends in zip(*ranges, strict=True))
            taken = [item.get(role, Taken(calls=0)) for item in history]
            calls = [each.calls for each in taken]
            cheap, dear = _total({role: taken}, cost), _total({role: taken}, cost, context)
            if cheap is None or dear is None:
                return None, None
            usual = sorted(calls)[math.ceil(HIGH * (len(calls) - 1))]
            low += least * cheap / max(1, sum(calls))
            high += max(least, min(most, usual)) * dear / max(1, sum(calls))
        return low, high

    return price


def _assumption(rounds: int, repository: int, context: int, read: int, *, finished: int) -> str:
    per_round = f"{DRAFT.tokens_out:,} tokens per draft, {REVIEW.tokens_out:,} per review"
    per_round += f", {repository:,} of the repository map" if repository else ""
    per_round += f", {context:,} of --context" if context else ""
    per_round += f", up to {read:,} that the models ask to read" if read else ""
    total = f"1 to {rounds} rounds" if rounds > 1 else "1 round"
    few = f"only {counted(finished, 'item')}" if finished else "no item"
    verb = "have" if finished > 1 else "has"
    return f"estimated from {per_round} and {total}, because {few} {verb} finished with these models"


def _sum(costs: Iterable[float | None]) -> float | None:
    """What all of them cost; None if one price is unknown."""
    every = list(costs)
    known = [one for one in every if one is not None]
    return round(sum(known), 4) if len(known) == len(every) else None


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
