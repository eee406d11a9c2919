"""Prices and estimates: what is not known is never taken for free."""

import pytest

from agentos.coordinator.estimate import ENOUGH, estimate
from agentos.money import MOCK_PRICE, Price, PriceTable, shown


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-4o-mini"), ("anthropic", "claude-sonnet-4-5"), ("gemini", "gemini-2.5-pro")],
)
def test_the_shipped_table_knows_the_usual_models(provider: str, model: str) -> None:
    table = PriceTable()
    cheap, dear = table.cost(provider, model, 1_000, 0), table.cost(provider, model, 1_000, 1_000)
    assert cheap is not None
    assert dear is not None
    assert 0 < cheap < dear
    assert table.knows(f"{provider}:{model}")


@pytest.mark.parametrize("model", ["openai:no-such-model", "vllm:any", "nonsense"])
def test_an_unknown_price_is_none(model: str) -> None:
    provider, _, name = model.partition(":")
    assert PriceTable().cost(provider, name, 1_000, 1_000) is None
    assert not PriceTable().knows(model)


def test_the_users_own_price_comes_first() -> None:
    table = PriceTable(own={"openai:gpt-4o-mini": Price(input=10, output=20)})
    assert table.cost("openai", "gpt-4o-mini", 1_000_000, 500_000) == pytest.approx(20.0)


def test_the_mock_pretends_a_price() -> None:
    assert PriceTable().cost("mock", "drafter", 2_000, 100) == pytest.approx(MOCK_PRICE.cost(2_000, 100))


@pytest.mark.parametrize(("usd", "text"), [(None, "unknown"), (0.01234, "0.0123 USD"), (12.346, "12.35 USD")])
def test_amounts_for_people(usd: float | None, text: str) -> None:
    assert shown(usd) == text


def a_dollar_a_token(_role: str, tokens_in: int, tokens_out: int) -> float | None:
    return float(tokens_in + tokens_out)


def test_without_history_the_estimate_states_its_assumptions() -> None:
    found = estimate(fresh=2, resumed=1, history=[], rounds=3, cost=a_dollar_a_token)
    assert found.low == 2 * (4_500 + 6_000)
    assert found.high == 3 * (4_500 + 2 * 8_500 + 3 * 6_000)
    assert "assumed" in found.basis
    assert "1 to 3 rounds" in found.basis


def test_with_history_the_estimate_is_what_most_items_took() -> None:
    history = [{"drafter": (0, tokens), "reviewer": (0, 1)} for tokens in (10, 20, 30, 40, 5_000)]
    found = estimate(fresh=10, resumed=0, history=history, rounds=5, cost=a_dollar_a_token)
    assert found.low == 10 * 11
    assert found.high == 10 * 5_001
    assert "5 finished items" in found.basis
    few = estimate(fresh=1, resumed=0, history=history[: ENOUGH - 1], rounds=5, cost=a_dollar_a_token)
    assert "assumed" in few.basis


@pytest.mark.parametrize("history", [[], [{"drafter": (1, 1)}] * ENOUGH])
def test_an_unknown_price_makes_no_estimate(history: list[dict[str, tuple[int, int]]]) -> None:
    found = estimate(fresh=1, resumed=0, history=history, rounds=5, cost=lambda *_: None)
    assert found.low is None
    assert found.high is None
