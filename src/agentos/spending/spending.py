"""Keeps the budgets of a run: what is spent, what calls in flight may cost, which call may go out. Pure.

A call goes out only if its estimate fits, given what is spent and what is in flight. If it does not fit, it
waits for the calls in flight, which may turn out cheaper. If none is in flight, the budget is reached.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from agentos import wire
from agentos.lease import LeaseNumber
from agentos.model import ANSWERED, CallError, Usage
from agentos.spending.call import Call

FIRST_GUESS = 500  # tokens of output before any call was seen
CENT_FRACTION = 1e-9  # rounding errors must not refuse what fits exactly


class Prices(Protocol):
    """What calls cost, such as `agentos.money.PriceTable`."""

    def cost(self, provider: str, model: str, usage: Usage, /) -> float | None: ...


class BudgetAnswer(StrEnum):
    """Whether a call may go out."""

    YES = "yes"  # it fits; its estimate is set aside
    LATER = "later"  # it may fit if calls in flight turn out cheaper
    ITEM_OVER = "item_over"  # the budget of its item is reached
    RUN_OVER = "run_over"  # the budget of the run is reached


@dataclass(kw_only=True)
class Spending:
    """Amounts in USD; `carried` is what the runs this one resumes have spent."""

    prices: Prices
    budget: float | None = None
    item_budget: float | None = None
    carried: float = 0.0
    items: dict[str, float] = field(default_factory=dict)  # spent on each item, including earlier runs
    outputs: dict[str, int] = field(default_factory=dict)  # most tokens that a call wrote so far, by role
    spent: float = 0.0  # in this run
    too_much: float = 0.0  # the estimate of the call that did not fit
    _open: dict[tuple[str, int], Call] = field(default_factory=dict)  # by item and number
    cached_by_key: Counter[str] = field(default_factory=Counter)  # tokens read from a cache in this run

    def ask(self, call: Call) -> BudgetAnswer:
        """Say whether a call may go out, and set its estimate aside if so."""
        if self._limited:
            call = replace(call, estimate=self._estimate(call))
            if (answer := self._check(call)) is not BudgetAnswer.YES:
                return answer
        self._open[call.item, call.number] = call
        return BudgetAnswer.YES

    def granted(self, item: str, number: int, *, lease: LeaseNumber, key: str, waited: float) -> Call | None:
        """A requested call has its key."""
        call = self._open.get((item, number))
        if call is None:
            return None
        call = self._open[item, number] = call.granted(lease=lease, key=key, waited=waited)
        return call

    def settle(self, item: str, result: wire.CallSettled) -> Call | None:
        """A call is back: count its cost before another call goes out. None if it is not this item's."""
        call = next((one for one in self._of(item) if one.lease == result.lease), None)
        if call is None:
            return None
        del self._open[item, call.number]
        call = self.priced(call.settled(result))
        if call.error in ANSWERED:
            self._pay_answered(call)
            seen = call.tokens_out or FIRST_GUESS
            self.outputs[call.role] = max(seen, self.outputs.get(call.role, 0))
        elif call.counted:
            self._pay(item, call.usd or 0.0)
        self.cached_by_key[call.key] += call.tokens_cached
        return call

    def priced(self, call: Call) -> Call:
        """The call with its cost, by the model that served it if its price is known."""
        usd = None
        for model in (call.served, call.model) if call.counted else ():
            if usd is None and model:
                usd = self.prices.cost(call.provider, model, call)
        return replace(call, usd=usd)

    def add(self, call: Call) -> None:
        """Count a call that an earlier process paid for and that was not counted yet."""
        self._pay(call.item, call.usd or 0.0)

    def drop(self, item: str, error: CallError = CallError.WORKER_GONE) -> tuple[Call, ...]:
        """The item's worker is gone: return its open calls. What they used is unknown."""
        calls = tuple(replace(call, error=error) for call in self._of(item))
        for call in calls:
            del self._open[item, call.number]
            if call.lease and error in ANSWERED:
                self._pay_answered(call)
        return tuple(call for call in calls if call.lease)

    def waiting(self, item: str) -> Call | None:
        """The item's call that waits for a key."""
        return next((one for one in self._of(item) if not one.lease), None)

    def withdraw(self, call: Call) -> None:
        """Take back a call that waits for a key, with its estimate."""
        del self._open[call.item, call.number]

    @property
    def in_flight(self) -> frozenset[str]:
        """The items whose calls are at a provider."""
        return frozenset(call.item for call in self._open.values() if call.lease)

    @property
    def under_way(self) -> bool:
        return bool(self._open)

    @property
    def needed(self) -> float | None:
        """The smallest budget with which the next call would go out, if one did not fit."""
        reached = self.budget is not None and self.too_much
        return self.carried + self.spent + self.too_much if reached else None

    @property
    def needed_for_an_item(self) -> float | None:
        reached = self.item_budget is not None and self.too_much
        return max(self.items.values(), default=0.0) + self.too_much if reached else None

    def describe(self) -> str:
        """How much of the run's budget is spent, in words."""
        before = f" ({self.carried:.4f} before this run)" if self.carried else ""
        return f"{self.carried + self.spent:.4f} of {self.budget:g} USD spent{before}; {self._next()}"

    def describe_item(self, item: str) -> str:
        spent = self.items.get(item, 0.0)
        return f"item budget reached: {spent:.4f} of {self.item_budget:g} USD spent; {self._next()}"

    def _next(self) -> str:
        return f"the next call may cost {self.too_much:.4f} USD"

    @property
    def _limited(self) -> bool:
        return self.budget is not None or self.item_budget is not None

    def _of(self, item: str) -> Iterable[Call]:
        return [call for (one, _), call in self._open.items() if one == item]

    def _estimate(self, call: Call) -> float:
        # Nothing counts as cached: whether a cache will be hit is known only afterwards.
        guess = Usage(tokens_in=call.prompt_tokens, tokens_out=self.outputs.get(call.role, FIRST_GUESS))
        return self.prices.cost(call.provider, call.model, guess) or 0.0

    def _check(self, call: Call) -> BudgetAnswer:
        if self.item_budget is not None and not _fits(
            self.items.get(call.item, 0.0), call.estimate, self.item_budget
        ):
            self.too_much = call.estimate
            return BudgetAnswer.ITEM_OVER
        if call.role not in self.outputs and any(one.role == call.role for one in self._open.values()):
            return BudgetAnswer.LATER  # how much such a call writes is unknown, so the first one goes alone
        under_way = sum(one.estimate for one in self._open.values())
        if self.budget is not None and not _fits(
            self.carried + self.spent + under_way, call.estimate, self.budget
        ):
            self.too_much = call.estimate
            return BudgetAnswer.LATER if self._open else BudgetAnswer.RUN_OVER
        return BudgetAnswer.YES

    def _pay_answered(self, call: Call) -> None:
        # A server that reports no usage is not free: the cost is unknown, so the estimate counts.
        self._pay(call.item, call.estimate if call.usd is None else call.usd)

    def _pay(self, item: str, usd: float) -> None:
        self.spent += usd
        self.items[item] = self.items.get(item, 0.0) + usd


def _fits(taken: float, estimate: float, limit: float) -> bool:
    return taken + estimate <= limit + CENT_FRACTION
