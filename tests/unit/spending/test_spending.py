"""Spending: a run never lets out more calls than its budget has room for, and every call is counted once."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos import audit_record
from agentos.model import CallError, Usage
from agentos.money import Price, PriceTable
from agentos.spending.call import Call
from agentos.spending.spending import FIRST_GUESS, BudgetAnswer, Spending
from agentos.wire import CallSettled, Kept, LeaseWanted


@dataclass
class Prices:
    """One USD for each token that is sent, and another price for what is written."""

    output: float = 0.0
    unknown: frozenset[str] = field(default=frozenset())

    def cost(self, provider: str, model: str, usage: Usage, /) -> float | None:
        return None if model in self.unknown else usage.tokens_in + self.output * usage.tokens_out


def wanted(number: int = 1, *, tokens: int = 0, role: str = "drafter", tries: int = 0) -> LeaseWanted:
    return LeaseWanted(
        number=number, provider="p", model="m", tokens=tokens, prompt_tokens=tokens, role=role, tries=tries
    )


def call(item: str = "LLD-1", number: int = 1, *, usd: int = 0, role: str = "drafter") -> Call:
    return Call.asked(item, 1, wanted(number, tokens=usd, role=role))


def grant(spending: Spending, item: str = "LLD-1", number: int = 1, lease: int = 0) -> None:
    assert spending.granted(item, number, lease=lease or number, key="key-1", waited=0.5) is not None


def result(lease: int = 1, *, usd: int = 0, kept: bool = True, **more: Any) -> CallSettled:
    place = Kept(journal_id="life-1", number=1) if kept else None
    return CallSettled.model_validate(
        {"lease": lease, "seconds": 1.0, "tokens_in": usd, "kept": place, "served": "m"} | more
    )


def limited(**how: Any) -> Spending:
    """Budgets, with both roles known, so that calls may go out side by side."""
    return Spending(prices=Prices(), outputs={"drafter": 1, "reviewer": 1}, **how)


def test_without_a_budget_every_call_goes_out() -> None:
    spending = Spending(prices=Prices())
    assert all(spending.ask(call(number=number, usd=10**9)) is BudgetAnswer.YES for number in range(5))


def test_a_call_that_does_not_fit_waits_for_those_under_way() -> None:
    spending = limited(budget=10.0)
    assert spending.ask(call("LLD-1", usd=6)) is BudgetAnswer.YES
    grant(spending, "LLD-1")
    assert spending.ask(call("LLD-2", usd=6)) is BudgetAnswer.LATER
    spending.settle("LLD-1", result(usd=3))
    assert spending.ask(call("LLD-2", usd=6)) is BudgetAnswer.YES


def test_with_nothing_under_way_the_budget_is_reached() -> None:
    spending = limited(budget=10.0, carried=5.0)
    spending.ask(call(usd=3))
    grant(spending)
    spending.settle("LLD-1", result(usd=3))
    assert not spending.needed
    assert spending.ask(call(number=2, usd=3)) is BudgetAnswer.RUN_OVER
    assert (
        "8.0000 of 10 USD spent (5.0000 before this run); the next call may cost 3.0000 USD"
        in spending.describe()
    )
    assert spending.needed == 11.0
    assert spending.ask(call(number=2, usd=2)) is BudgetAnswer.YES


def test_an_item_has_its_own_budget_and_keeps_what_it_spent_before() -> None:
    spending = limited(item_budget=10.0, items={"LLD-1": 9.0})
    assert spending.ask(call("LLD-1", usd=2)) is BudgetAnswer.ITEM_OVER
    assert "9.0000 of 10 USD spent" in spending.describe_item("LLD-1")
    assert spending.needed_for_an_item == 11.0
    assert spending.ask(call("LLD-2", usd=2)) is BudgetAnswer.YES


def test_what_a_dead_worker_had_set_aside_is_free_again_and_its_calls_are_given_back() -> None:
    spending = limited(budget=10.0)
    assert spending.ask(call("LLD-1", usd=10)) is BudgetAnswer.YES
    assert spending.drop("LLD-1") == (), "it never had a key"
    assert spending.ask(call("LLD-1", usd=10)) is BudgetAnswer.YES
    grant(spending)
    (lost,) = spending.drop("LLD-1")
    assert (lost.error, lost.usd, lost.key) == (CallError.WORKER_GONE, None, "key-1")
    assert not spending.under_way
    assert spending.ask(call("LLD-2", usd=10)) is BudgetAnswer.YES


def test_the_first_call_of_a_role_goes_alone_because_nobody_knows_what_it_writes() -> None:
    spending = Spending(prices=Prices(output=1.0), budget=100_000.0)
    assert spending.ask(call("LLD-1")) is BudgetAnswer.YES
    assert spending.ask(call("LLD-2")) is BudgetAnswer.LATER
    assert spending.ask(call("LLD-3", role="reviewer")) is BudgetAnswer.YES
    grant(spending, "LLD-1")
    spending.settle("LLD-1", result(tokens_out=8_000))
    assert spending.ask(call("LLD-2")) is BudgetAnswer.YES
    assert spending.ask(call("LLD-4")) is BudgetAnswer.YES


def test_the_estimate_is_made_of_the_longest_answer_seen() -> None:
    spending = Spending(prices=Prices(output=1.0), budget=1e9)
    for number, tokens in enumerate((900, 100), start=1):
        spending.ask(call(number=number))
        grant(spending, number=number)
        settled = spending.settle("LLD-1", result(number, tokens_out=tokens))
        assert settled is not None
        assert settled.estimate == (FIRST_GUESS if number == 1 else 900)
    assert spending.outputs["drafter"] == 900


# One call, one story.


def test_a_call_is_one_value_from_the_ask_to_the_record() -> None:
    spending = Spending(prices=Prices())
    spending.ask(Call.asked("LLD-1", 2, wanted(7, tokens=30, tries=1)))
    grant(spending, number=7, lease=41)
    settled = spending.settle("LLD-1", result(41, usd=30, tokens_out=5, served="m-1"))
    assert settled is not None
    assert settled.as_record() == {
        "kind": "call",
        "life": "life-1",
        "number": 1,
        "node": "",
        "tries": 1,
        "prompt_version": "",
        "role": "drafter",
        "model": "p:m",
        "served": "m-1",
        "key": "key-1",
        "tokens_in": 30,
        "tokens_out": 5,
        "tokens_cached": 0,
        "tokens_cache_written": 0,
        "tokens_reasoning": 0,
        "seconds": 1.0,
        "cost_usd": 30.0,
    }
    assert (settled.attempt, settled.waited) == (2, 0.5)
    assert (settled.tokens_in, settled.tokens_out, settled.cost, spending.spent) == (30, 5, 30.0, 30.0)


@pytest.mark.parametrize(
    ("told", "cost", "spent"),
    [
        ({"error": CallError.RATE_LIMITED}, 0.0, 0.0),
        ({"error": CallError.TRANSIENT, "tokens_in": 4}, 4.0, 4.0),  # cut off after it was paid for
        ({"error": CallError.OTHER_MODEL, "tokens_in": 4}, 4.0, 4.0),
        ({"error": CallError.GIVEN_UP}, 0.0, 0.0),
    ],
)
def test_a_call_without_a_result_is_recorded_with_its_error_and_paid_for_if_it_was_counted(
    told: dict[str, Any], cost: float, spent: float
) -> None:
    spending = Spending(prices=Prices())
    spending.ask(call(usd=9))
    grant(spending)
    settled = spending.settle("LLD-1", result(kept=False, **told))
    assert settled is not None
    made = settled.as_record()
    assert (made["kind"], made["error"], made["cost_usd"]) == ("failed_call", told["error"], cost)
    assert spending.spent == settled.cost == spent


def test_a_server_that_does_not_count_is_taken_as_estimated_and_its_cost_is_not_known() -> None:
    spending = limited(budget=100.0)
    spending.ask(call(usd=9))
    grant(spending)
    settled = spending.settle("LLD-1", result())
    assert spending.spent == 9.0
    assert settled is not None
    assert settled.cost is None


def test_the_cost_of_a_model_without_a_price_is_not_known() -> None:
    spending = Spending(prices=Prices(unknown=frozenset({"m", "m-1"})))
    costs = []
    for number, served in ((1, "m-1"), (2, "priced")):
        spending.ask(call(number=number))
        grant(spending, number=number)
        settled = spending.settle("LLD-1", result(number, usd=4, served=served))
        assert settled is not None
        costs.append(settled.cost)
    assert costs == [None, 4.0]


def test_the_model_that_served_has_the_price_and_else_the_one_asked_for() -> None:
    spending = Spending(prices=Prices(unknown=frozenset({"m-1"})))
    spending.ask(call())
    grant(spending)
    settled = spending.settle("LLD-1", result(usd=4, served="m-1"))
    assert settled is not None
    assert settled.usd == 4.0


def test_another_items_lease_settles_nothing() -> None:
    spending = limited(budget=10.0)
    spending.ask(call("LLD-1", usd=6))
    grant(spending, "LLD-1", lease=5)
    assert spending.settle("LLD-2", result(5, usd=1)) is None
    assert spending.settle("LLD-1", result(6, usd=1)) is None
    assert spending.spent == 0
    assert spending.settle("LLD-1", result(5, usd=1)) is not None
    assert spending.settle("LLD-1", result(5, usd=1)) is None, "once"


def test_a_call_of_an_earlier_process_counts_when_nobody_has_counted_it() -> None:
    spending = Spending(prices=Prices())
    journal = audit_record.CallRecord(
        kind="call",
        role="drafter",
        number=3,
        model="p:m",
        tokens_in=4,
        tokens_out=1,
        journal_id="life-9",
        node="draft",
    )
    found = spending.priced(Call.from_journal("LLD-1", 2, journal))
    assert spending.spent == 0
    spending.add(found)
    assert spending.spent == found.cost == 4.0
    assert found.as_record()["life"] == "life-9"
    assert (found.kept, found.attempt) == (Kept(journal_id="life-9", number=3, node="draft"), 2)


@given(
    budget=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300), st.booleans()), max_size=60),
)
def test_calls_that_cost_what_was_estimated_never_exceed_the_budget(
    budget: int, steps: list[tuple[str, int, bool]]
) -> None:
    spending = limited(budget=float(budget))
    under_way: list[tuple[str, int, int]] = []
    for number, (item, cost, settle) in enumerate(steps, start=1):
        if spending.ask(call(item, number, usd=cost)) is BudgetAnswer.YES:
            grant(spending, item, number)
            under_way.append((item, number, cost))
        if settle and under_way:
            one, lease, paid = under_way.pop(0)
            spending.settle(one, result(lease, usd=paid))
        assert spending.spent + sum(paid for _, _, paid in under_way) <= budget
    assert spending.under_way == bool(under_way)


def test_what_came_from_a_cache_costs_its_own_price_and_the_budget_counts_that() -> None:
    own = Price(input=1_000_000, output=0, cached_input=100_000)
    spending = Spending(prices=PriceTable(own={"p:m": own}), budget=12.0)
    assert spending.ask(call(usd=10)) is BudgetAnswer.YES
    grant(spending)
    settled = spending.settle("LLD-1", result(usd=10, tokens_cached=10, tokens_reasoning=3))
    assert settled is not None
    assert settled.usd == pytest.approx(1.0)
    assert settled.as_record()["tokens_cached"] == 10
    assert spending.cached_by_key["key-1"] == 10
    assert spending.ask(call(number=2, usd=10)) is BudgetAnswer.YES, "9 USD of the estimate were not used"
