"""Prices and estimates: what is not known is never taken for free."""

from typing import Any

import pytest

from agentos.coordinator.estimate import ENOUGH, Work, estimate, work_of
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.decisions import Decision
from agentos.model import Item, Status, Usage
from agentos.money import MOCK_PRICE, Price, PriceTable, shown
from agentos.store.records import Taken


def used(tokens_in: int, tokens_out: int) -> Usage:
    return Usage(tokens_in=tokens_in, tokens_out=tokens_out)


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-4o-mini"), ("anthropic", "claude-sonnet-4-5"), ("gemini", "gemini-2.5-pro")],
)
def test_the_shipped_table_knows_the_usual_models(provider: str, model: str) -> None:
    table = PriceTable()
    cheap, dear = table.cost(provider, model, used(1_000, 0)), table.cost(provider, model, used(1_000, 1_000))
    assert cheap is not None
    assert dear is not None
    assert 0 < cheap < dear
    assert table.knows(f"{provider}:{model}")


@pytest.mark.parametrize("model", ["openai:no-such-model", "vllm:any", "nonsense"])
def test_an_unknown_price_is_none(model: str) -> None:
    provider, _, name = model.partition(":")
    assert PriceTable().cost(provider, name, used(1_000, 1_000)) is None
    assert not PriceTable().knows(model)


def test_the_users_own_price_comes_first() -> None:
    table = PriceTable(own={"openai:gpt-4o-mini": Price(input=10, output=20)})
    assert table.cost("openai", "gpt-4o-mini", used(1_000_000, 500_000)) == pytest.approx(20.0)


def test_the_mock_pretends_a_price() -> None:
    usage = used(2_000, 100)
    assert PriceTable().cost("mock", "drafter", usage) == pytest.approx(MOCK_PRICE.cost(usage))


@pytest.mark.parametrize(
    ("provider", "model", "read", "write"),
    [
        ("openai", "gpt-5", 0.1, 1.0),
        ("anthropic", "claude-sonnet-4-5", 0.1, 1.25),
        ("gemini", "gemini-2.5-flash", 0.1, 1.0),
    ],
)
def test_what_was_cached_has_its_own_price(provider: str, model: str, read: float, write: float) -> None:
    table = PriceTable()
    whole = table.cost(provider, model, used(100_000, 0))
    assert whole is not None
    cached = Usage(tokens_in=100_000, tokens_cached=100_000)
    assert table.cost(provider, model, cached) == pytest.approx(read * whole)
    written = Usage(tokens_in=100_000, tokens_cache_written=100_000)
    assert table.cost(provider, model, written) == pytest.approx(write * whole)


def test_the_users_own_price_of_what_was_cached() -> None:
    usage = Usage(tokens_in=1_000_000, tokens_cached=500_000, tokens_cache_written=250_000)
    assert Price(input=4, output=9).cost(usage) == pytest.approx(4.0)
    assert Price(input=4, output=9, cached_input=1, cache_write=8).cost(usage) == pytest.approx(3.5)


@pytest.mark.parametrize("model", ["gpt-4o-mini", "mine"])
def test_absurd_counts_of_a_server_never_give_money_back(model: str) -> None:
    table = PriceTable(own={"openai:mine": Price(input=1, output=1, cached_input=0, cache_write=0)})
    absurd = Usage(tokens_in=10, tokens_cached=10**9, tokens_cache_written=10**9)
    cost = table.cost("openai", model, absurd)
    assert cost is not None
    assert cost >= 0


@pytest.mark.parametrize(("usd", "text"), [(None, "unknown"), (0.01234, "0.0123 USD"), (12.346, "12.35 USD")])
def test_amounts_for_people(usd: float | None, text: str) -> None:
    assert shown(usd) == text


def a_dollar_a_token(_role: str, usage: Usage) -> float | None:
    return float(usage.tokens_in + usage.tokens_out - usage.tokens_cached)


WHOLE = Work(drafts=(1, 3), reviews=(1, 3), whole=True)
PART = Work(drafts=(0, 2), reviews=(1, 3))  # an item that resumes at its review


def taken(tokens_in: int, tokens_out: int, calls: int = 1) -> Taken:
    return Taken(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)


def test_without_history_the_estimate_states_its_assumptions() -> None:
    found = estimate([WHOLE, WHOLE, PART], history=[], rounds=3, cost=a_dollar_a_token)
    assert found.low == 2 * (4_500 + 6_000) + 6_000
    assert found.high == 2 * (4_500 + 2 * 8_500 + 3 * 6_000) + 2 * 8_500 + 3 * 6_000
    assert (found.basis, found.based_on) == ("assumed", 0)
    assert found.why.endswith("because no item has finished with these models")
    assert "1 to 3 rounds" in found.why
    one = estimate([WHOLE], history=[{}], rounds=1, cost=a_dollar_a_token)
    assert one.why == (
        "estimated from 2,500 tokens per draft, 1,000 per review and 1 round, "
        "because only 1 item has finished with these models"
    )


def test_with_history_the_estimate_is_what_most_items_took() -> None:
    history = [{"drafter": taken(0, tokens), "reviewer": taken(0, 1)} for tokens in (10, 20, 30, 40, 5_000)]
    found = estimate([WHOLE] * 10, history=history, rounds=5, cost=a_dollar_a_token)
    assert found.low == 10 * 11
    assert found.high == 10 * 5_001
    assert (found.basis, found.based_on) == ("measured", 5)
    assert found.why == "measured on 5 finished items with these models"
    few = estimate([WHOLE], history=history[: ENOUGH - 1], rounds=5, cost=a_dollar_a_token)
    assert (few.basis, few.based_on) == ("assumed", 0)
    assert few.why.endswith("because only 2 items have finished with these models")


def test_an_assumed_estimate_counts_the_map_and_the_files_of_context_in_each_call() -> None:
    without = estimate([WHOLE], history=[], rounds=3, cost=a_dollar_a_token)
    found = estimate([WHOLE], history=[], rounds=3, cost=a_dollar_a_token, repository=9_000, context=7_000)
    assert without.low is not None
    assert without.high is not None
    assert found.low == without.low + 2 * 16_000
    assert found.high == without.high + 2 * 3 * 16_000
    assert "9,000 of the repository map, 7,000 of --context" in found.why


def test_a_measured_estimate_leaves_open_whether_the_items_before_had_the_files() -> None:
    history = [{"drafter": taken(100, 10, calls=2), "reviewer": taken(50, 5, calls=2)}] * ENOUGH
    found = estimate(
        [WHOLE], history=history, rounds=3, cost=a_dollar_a_token, repository=9_000, context=7_000
    )
    assert (found.low, found.high) == (165, 165 + 4 * 7_000)
    assert "--context adds up to 7,000 tokens per call" in found.why


def test_a_measured_estimate_counts_what_came_from_a_cache() -> None:
    cached = Taken(calls=2, tokens_in=1_000, tokens_out=10, tokens_cached=800)
    found = estimate([WHOLE], history=[{"drafter": cached}] * ENOUGH, rounds=3, cost=a_dollar_a_token)
    assert (found.low, found.high) == (210, 210)


def test_what_is_left_of_an_item_costs_what_such_calls_took() -> None:
    history = [{"drafter": taken(0, 100, calls=2), "reviewer": taken(0, 20, calls=2)}] * ENOUGH
    found = estimate([PART], history=history, rounds=3, cost=a_dollar_a_token)
    assert (found.low, found.high) == (10, 2 * 50 + 2 * 10)  # as many rounds as items usually take


ITEM = Item(workflow="lld", id="1", label="LLD-1", title="", text="", source="")
NOTE, EDITS = Decision(id=1, text="Use UTC."), Decision(id=1)
SENT_BACK = Decision(id=1, answer="revise", reviews=2)
APPROVED = Decision(id=1, answer="approve", reviews=2)


@pytest.mark.parametrize(
    ("entry", "drafts", "reviews"),
    [
        ({"step": PlanAction.START}, (1, 5), (1, 5)),
        ({"step": PlanAction.REVISE}, (1, 5), (1, 5)),
        ({"step": PlanAction.REVISE, "decisions": (NOTE,)}, (1, 5), (1, 5)),
        ({"step": PlanAction.REVISE, "decisions": (EDITS,)}, (0, 4), (1, 5)),
        ({"node": "load"}, (1, 5), (1, 5)),
        ({"node": "draft", "reviews": 2}, (1, 3), (1, 3)),
        ({"node": "review"}, (0, 4), (1, 5)),
        ({"node": "review", "reviews": 2}, (0, 2), (1, 3)),
        ({"node": "judge", "reviews": 2}, (0, 2), (0, 2)),
        ({"node": "hold", "reviews": 2, "decisions": (SENT_BACK,)}, (1, 5), (1, 5)),
        ({"node": "hold", "reviews": 2, "decisions": (APPROVED,)}, (0, 0), (0, 0)),
        ({"node": "hold", "reviews": 2, "decisions": (EDITS,)}, (0, 4), (1, 5)),
        ({"node": "hold", "reviews": 5, "ended": Status.NEEDS_REVISION}, (0, 0), (0, 0)),
        ({"node": "hold", "reviews": 4, "ended": Status.NEEDS_REVISION}, (1, 1), (1, 1)),
        ({"node": "hold", "reviews": 0, "ended": Status.FAILED}, (1, 5), (1, 5)),
        ({"node": "finalize", "reviews": 2}, (0, 0), (0, 0)),
    ],
)
def test_where_an_item_resumes_decides_which_calls_are_left(
    entry: dict[str, Any], drafts: tuple[int, int], reviews: tuple[int, int]
) -> None:
    planned: dict[str, Any] = {"item": ITEM, "step": PlanAction.RESUME}
    found = work_of(PlannedItem(**planned | entry), rounds=5, retried=False)
    assert (found.drafts, found.reviews) == (drafts, reviews)


def test_with_retry_failed_the_rounds_begin_again() -> None:
    entry = PlannedItem(
        item=ITEM, step=PlanAction.RESUME, node="hold", reviews=5, ended=Status.NEEDS_REVISION
    )
    assert work_of(entry, rounds=5, retried=True) == Work(drafts=(1, 5), reviews=(1, 5))


@pytest.mark.parametrize("history", [[], [{"drafter": taken(1, 1)}] * ENOUGH])
def test_an_unknown_price_makes_no_estimate(history: list[dict[str, Taken]]) -> None:
    found = estimate([WHOLE], history=history, rounds=5, cost=lambda *_: None)
    assert found.low is None
    assert found.high is None
