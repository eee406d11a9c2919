"""Keeps the budgets of a run: what is spent, what calls under way may cost, who may call. Pure.

A call is let out only if its estimate fits beside what is spent and what is under way. One that does not fit
waits for the calls under way, whose true cost may leave room; if none is under way, the budget is reached.
"""

from dataclasses import dataclass, field
from enum import StrEnum

FIRST_GUESS = 500  # tokens of output where nothing was seen yet
CENT_FRACTION = 1e-9  # sums of fractions must not refuse what fits exactly


class Answer(StrEnum):
    """What the purse says to a call."""

    YES = "yes"  # it fits; its estimate is set aside
    LATER = "later"  # it may fit when calls under way turn out cheaper
    ITEM_OVER = "item_over"  # its item's own budget is reached
    RUN_OVER = "run_over"  # the run's budget is reached


@dataclass(kw_only=True)
class Purse:
    """Amounts in USD; `carried` is what the runs this one goes on from have spent."""

    budget: float | None = None
    item_budget: float | None = None
    carried: float = 0.0
    items: dict[str, float] = field(default_factory=dict)  # spent on each, earlier runs included
    outputs: dict[str, int] = field(default_factory=dict)  # tokens a call writes, by role, as seen so far
    spent: float = 0.0  # in this run
    too_much: float = 0.0  # what the call that did not fit was to cost
    _set_aside: dict[tuple[str, int], float] = field(default_factory=dict)
    _roles: dict[tuple[str, int], str] = field(default_factory=dict)  # of the calls under way

    @property
    def limited(self) -> bool:
        return self.budget is not None or self.item_budget is not None

    @property
    def under_way(self) -> bool:
        return bool(self._set_aside)

    def guess(self, role: str) -> int:
        """How many tokens a call of the role will write."""
        return self.outputs.get(role, FIRST_GUESS)

    def ask(self, item: str, number: int, estimate: float, *, role: str = "") -> Answer:
        """Say whether a call may go out, and set its estimate aside if so."""
        if self.item_budget is not None and not _fits(self.items.get(item, 0.0), estimate, self.item_budget):
            self.too_much = estimate
            return Answer.ITEM_OVER
        if self.limited and role and role not in self.outputs and role in self._roles.values():
            return Answer.LATER  # nobody knows yet how much such a call writes: the first one goes alone
        if self.budget is not None:
            sure = self.carried + self.spent
            if not _fits(sure + sum(self._set_aside.values()), estimate, self.budget):
                self.too_much = estimate
                return Answer.LATER if self._set_aside else Answer.RUN_OVER
        self._set_aside[item, number] = estimate
        self._roles[item, number] = role
        return Answer.YES

    def over(self, item: str, number: int) -> None:
        """A call is over, whatever came of it: what was set aside for it is free."""
        self._set_aside.pop((item, number), None)
        self._roles.pop((item, number), None)

    def drop(self, item: str) -> None:
        """The item's worker is gone, and its calls with it."""
        for one, number in [key for key in self._set_aside if key[0] == item]:
            self.over(one, number)

    def pay(self, item: str, usd: float) -> None:
        self.spent += usd
        self.items[item] = self.items.get(item, 0.0) + usd

    def seen(self, role: str, tokens_out: int) -> None:
        """Learn from a call how much the role writes; a server that does not count teaches nothing."""
        self.outputs[role] = max(tokens_out or FIRST_GUESS, self.outputs.get(role, 0))

    @property
    def needed(self) -> float:
        """The least budget with which the next call would go out."""
        return self.carried + self.spent + self.too_much

    @property
    def needed_for_an_item(self) -> float:
        return max(self.items.values(), default=0.0) + self.too_much

    def told(self) -> str:
        """Where the run's budget stands, for people."""
        before = f" ({self.carried:.4f} before this run)" if self.carried else ""
        return f"{self.carried + self.spent:.4f} of {self.budget:g} USD spent{before}, {self._next()}"

    def told_of(self, item: str) -> str:
        spent = self.items.get(item, 0.0)
        return f"its budget is reached: {spent:.4f} of {self.item_budget:g} USD spent, {self._next()}"

    def _next(self) -> str:
        return f"the next call may cost {self.too_much:.4f}"


def _fits(taken: float, estimate: float, limit: float) -> bool:
    return taken + estimate <= limit + CENT_FRACTION
