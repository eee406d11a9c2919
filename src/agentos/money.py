"""What calls cost: prices from a table shipped with a library, or the user's own; unknown is None, never 0.

Coordinator process: workers know tokens, not prices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

MILLION = 1_000_000
# What the mock pretends to cost, so that budgets and reports can be seen offline. Nothing is spent.
MOCK_INPUT, MOCK_OUTPUT = 1.0, 5.0
# How the table names the vendors behind our providers.
_VENDORS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "claude-cli": "anthropic",
    "gemini-cli": "google",
}


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD for a million tokens."""

    input: float
    output: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        return (self.input * tokens_in + self.output * tokens_out) / MILLION


MOCK_PRICE = Price(input=MOCK_INPUT, output=MOCK_OUTPUT)


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """The user's own prices by `provider:model`, and behind them the shipped table."""

    own: Mapping[str, Price] = field(default_factory=dict)

    def cost(self, provider: str, model: str, tokens_in: int, tokens_out: int) -> float | None:
        """What a call of that many tokens costs, if a price is known for the model."""
        if provider == "mock":
            return MOCK_PRICE.cost(tokens_in, tokens_out)
        if (own := self.own.get(f"{provider}:{model}")) is not None:
            return own.cost(tokens_in, tokens_out)
        vendor = _VENDORS.get(provider)
        if vendor is None:
            return None
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - 200 ms, and not for the mock

        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        try:
            return float(calc_price(usage, model, provider_id=vendor).total_price)
        except LookupError:
            return None

    def knows(self, model: str) -> bool:
        """Tell whether `provider:model` has a price."""
        provider, _, name = model.partition(":")
        return self.cost(provider, name, 1, 1) is not None


def amount(usd: float | None) -> str:
    """A number of USD for people, without the unit: cents, below a dollar hundredths of a cent."""
    if usd is None:
        return "unknown"
    return f"{usd:.2f}" if usd >= 1 else f"{usd:.4f}"


def shown(usd: float | None) -> str:
    """An amount for people."""
    return amount(usd) if usd is None else f"{amount(usd)} USD"
