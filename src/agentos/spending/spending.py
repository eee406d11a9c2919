"""Keeps the budgets of a run: what is spent, what calls under way may cost, which call may go out. Pure.

A call goes out only if its estimate fits beside what is spent and what is under way. One that does not fit
waits for the calls under way, whose true cost may leave room; if none is under way, the budget is reached.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from agentos import wire
from agentos.model import CallError
from agentos.spending.call import Call

FIRST_GUESS = 500  # tokens of output where nothing was seen yet
CENT_FRACTION = 1e-9  # sums of fractions must not refuse what fits exactly


class Prices(Protocol):
    """What calls cost; `agentos.money.PriceTable` is one."""

    def cost(self, provider: str, model: str, tokens_in: int, tokens_out: int, /) -> float | None: ...


class BudgetAnswer(StrEnum):
    """Whether a call may go out."""

    YES = "yes"  # it fits; its estimate is set aside
    LATER = "later"  # it may fit when calls under way turn out cheaper
    ITEM_OVER = "item_over"  # its item's own budget is reached
    RUN_OVER = "run_over"  # the run's budget is reached


@dataclass(kw_only=True)
class Spent:
    """What an item has taken in this run."""

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0  # None once a call had no known price

    def add(self, call: Call) -> None:
        self.tokens_in += call.tokens_in
        self.tokens_out += call.tokens_out
        if call.kept is not None or call.counted:
            self.usd = None if call.usd is None or self.usd is None else self.usd + call.usd


@dataclass(kw_only=True)
class Spending:
    """Amounts in USD; `carried` is what the runs this one resumes have spent."""

    prices: Prices
    budget: float | None = None
    item_budget: float | None = None
    carried: float = 0.0
    items: dict[str, float] = field(default_factory=dict)  # spent on each, earlier runs included
    outputs: dict[str, int] = field(default_factory=dict)  # tokens a call writes, by role, as seen so far
    spent: float = 0.0  # in this run
    too_much: float = 0.0  # what the call that did not fit was to cost
    _open: dict[tuple[str, int], Call] = field(default_factory=dict)  # by item and number
    _by_item: dict[str, Spent] = field(default_factory=dict)

    def ask(self, call: Call) -> BudgetAnswer:
        """Say whether a call may go out, and set its estimate aside if so."""
        if self._limited:
            call = replace(call, estimate=self._estimate(call))
            if (answer := self._check(call)) is not BudgetAnswer.YES:
                return answer
        self._open[call.item, call.number] = call
        return BudgetAnswer.YES

    def granted(self, item: str, number: int, *, lease: int, key: str, waited: float) -> Call | None:
        """A call that was asked for has its key."""
        call = self._open.get((item, number))
        if call is None:
            return None
        call = self._open[item, number] = call.granted(lease=lease, key=key, waited=waited)
        return call

    def settle(self, item: str, result: wire.CallSettled) -> Call | None:
        """A call is back: what it cost counts at once, before another is let out. None: not this item's."""
        call = next((one for one in self._of(item) if one.lease == result.lease), None)
        if call is None:
            return None
        del self._open[item, call.number]
        call = self.priced(call.settled(result))
        if call.error in {None, CallError.OTHER_MODEL}:
            # A server that does not count is not free: what it took is unknown, and taken as estimated.
            self._pay(item, call.estimate if call.usd is None else call.usd)
            seen = call.tokens_out or FIRST_GUESS
            self.outputs[call.role] = max(seen, self.outputs.get(call.role, 0))
        elif call.counted:
            self._pay(item, call.usd or 0.0)
        self.of(item).add(call)
        return call

    def priced(self, call: Call) -> Call:
        """The call with its cost, by the model that served it where its price is known."""
        usd = None
        for model in (call.served, call.model) if call.counted else ():
            if usd is None and model:
                usd = self.prices.cost(call.provider, model, call.tokens_in, call.tokens_out)
        return replace(call, usd=usd)

    def add(self, call: Call) -> None:
        """Count a call that another process of ours paid for, and nobody has counted yet."""
        self._pay(call.item, call.usd or 0.0)
        self.of(call.item).add(call)

    def drop(self, item: str) -> tuple[Call, ...]:
        """The item's worker is gone: give the calls that went with it; what they took, nobody knows."""
        calls = tuple(self._of(item))
        for call in calls:
            del self._open[item, call.number]
        return tuple(replace(call, error=CallError.WORKER_GONE) for call in calls if call.lease)

    def of(self, item: str) -> Spent:
        return self._by_item.setdefault(item, Spent())

    @property
    def under_way(self) -> bool:
        return bool(self._open)

    @property
    def needed(self) -> float | None:
        """The least budget with which the next call would go out, where one did not fit."""
        reached = self.budget is not None and self.too_much
        return self.carried + self.spent + self.too_much if reached else None

    @property
    def needed_for_an_item(self) -> float | None:
        reached = self.item_budget is not None and self.too_much
        return max(self.items.values(), default=0.0) + self.too_much if reached else None

    def describe(self) -> str:
        """Where the run's budget stands, for people."""
        before = f" ({self.carried:.4f} before this run)" if self.carried else ""
        return f"{self.carried + self.spent:.4f} of {self.budget:g} USD spent{before}, {self._next()}"

    def describe_item(self, item: str) -> str:
        spent = self.items.get(item, 0.0)
        return f"item budget reached: {spent:.4f} of {self.item_budget:g} USD spent, {self._next()}"

    def _next(self) -> str:
        return f"the next call may cost {self.too_much:.4f}"

    @property
    def _limited(self) -> bool:
        return self.budget is not None or self.item_budget is not None

    def _of(self, item: str) -> Iterable[Call]:
        return [call for (one, _), call in self._open.items() if one == item]

    def _estimate(self, call: Call) -> float:
        output = self.outputs.get(call.role, FIRST_GUESS)
        return self.prices.cost(call.provider, call.model, call.prompt_tokens, output) or 0.0

    def _check(self, call: Call) -> BudgetAnswer:
        if self.item_budget is not None and not _fits(
            self.items.get(call.item, 0.0), call.estimate, self.item_budget
        ):
            self.too_much = call.estimate
            return BudgetAnswer.ITEM_OVER
        if call.role not in self.outputs and any(one.role == call.role for one in self._open.values()):
            return (
                BudgetAnswer.LATER
            )  # nobody knows yet how much such a call writes: the first one goes alone
        under_way = sum(one.estimate for one in self._open.values())
        if self.budget is not None and not _fits(
            self.carried + self.spent + under_way, call.estimate, self.budget
        ):
            self.too_much = call.estimate
            return BudgetAnswer.LATER if self._open else BudgetAnswer.RUN_OVER
        return BudgetAnswer.YES

    def _pay(self, item: str, usd: float) -> None:
        self.spent += usd
        self.items[item] = self.items.get(item, 0.0) + usd


def _fits(taken: float, estimate: float, limit: float) -> bool:
    return taken + estimate <= limit + CENT_FRACTION
