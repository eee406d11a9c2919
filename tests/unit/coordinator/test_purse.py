"""The purse: a run never lets out more calls than its budget has room for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.coordinator.purse import FIRST_GUESS, Answer, Purse


def test_without_a_budget_every_call_goes_out() -> None:
    purse = Purse()
    assert not purse.limited
    assert purse.ask("LLD-1", 1, 1_000_000.0) is Answer.YES


def test_a_call_that_does_not_fit_waits_for_those_under_way() -> None:
    purse = Purse(budget=1.0)
    assert purse.ask("LLD-1", 1, 0.6) is Answer.YES
    assert purse.ask("LLD-2", 1, 0.6) is Answer.LATER
    purse.over("LLD-1", 1)
    purse.pay("LLD-1", 0.3)
    assert purse.ask("LLD-2", 1, 0.6) is Answer.YES


def test_with_nothing_under_way_the_budget_is_reached() -> None:
    purse = Purse(budget=1.0, carried=0.5)
    purse.pay("LLD-1", 0.3)
    assert purse.ask("LLD-1", 2, 0.25) is Answer.RUN_OVER
    assert "0.8000 of 1 USD spent (0.5000 before this run), the next call may cost 0.2500" in purse.told()
    assert purse.ask("LLD-1", 2, 0.2) is Answer.YES


def test_an_item_has_its_own_budget_and_keeps_what_it_spent_before() -> None:
    purse = Purse(item_budget=1.0, items={"LLD-1": 0.9})
    assert purse.ask("LLD-1", 1, 0.2) is Answer.ITEM_OVER
    assert "0.9000 of 1 USD spent" in purse.told_of("LLD-1")
    assert purse.ask("LLD-2", 1, 0.2) is Answer.YES


def test_what_a_dead_worker_had_set_aside_is_free_again() -> None:
    purse = Purse(budget=1.0)
    assert purse.ask("LLD-1", 1, 1.0) is Answer.YES
    purse.drop("LLD-1")
    assert not purse.under_way
    assert purse.ask("LLD-2", 1, 1.0) is Answer.YES


def test_the_guess_grows_with_what_was_seen() -> None:
    purse = Purse()
    assert purse.guess("drafter") == FIRST_GUESS
    purse.seen("drafter", 900)
    purse.seen("drafter", 100)
    assert purse.guess("drafter") == 900


@given(
    budget=st.floats(0.01, 10),
    calls=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3), st.booleans()), max_size=60),
)
def test_calls_that_cost_what_was_guessed_never_exceed_the_budget(
    budget: float, calls: list[tuple[str, float, bool]]
) -> None:
    purse = Purse(budget=budget)
    under_way: list[tuple[str, int, float]] = []
    for number, (item, cost, settle) in enumerate(calls):
        if purse.ask(item, number, cost) is Answer.YES:
            under_way.append((item, number, cost))
        if settle and under_way:
            one, asked, paid = under_way.pop(0)
            purse.over(one, asked)
            purse.pay(one, paid)
        assert purse.spent + sum(paid for _, _, paid in under_way) == pytest.approx(
            min(budget, purse.spent + sum(paid for _, _, paid in under_way)), abs=1e-6
        )
    assert purse.under_way == bool(under_way)


def test_the_first_call_of_a_role_goes_alone_because_nobody_knows_what_it_writes() -> None:
    purse = Purse(budget=100.0)
    assert purse.ask("LLD-1", 1, 0.01, role="drafter") is Answer.YES
    assert purse.ask("LLD-2", 1, 0.01, role="drafter") is Answer.LATER
    assert purse.ask("LLD-3", 1, 0.01, role="reviewer") is Answer.YES
    purse.over("LLD-1", 1)
    purse.seen("drafter", 8_000)
    assert purse.ask("LLD-2", 1, 0.01, role="drafter") is Answer.YES
    assert purse.ask("LLD-4", 1, 0.01, role="drafter") is Answer.YES
