"""What calls cost: prices from a library's table, or the user's own. Unknown is None, never 0.

Coordinator process. Workers know tokens, not prices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

MILLION = 1_000_000
# The simulated price of the mock, so that budgets and reports work offline. Nothing is spent.
MOCK_INPUT, MOCK_OUTPUT = 1.0, 5.0
# The table's names for the vendors of our providers.
_VENDORS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "claude-cli": "anthropic",
    "gemini-cli": "google",
}


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD per million tokens."""

    input: float
    output: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        return (self.input * tokens_in + self.output * tokens_out) / MILLION


MOCK_PRICE = Price(input=MOCK_INPUT, output=MOCK_OUTPUT)


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """The user's own prices by `provider:model`; for all other models the library's table."""

    own: Mapping[str, Price] = field(default_factory=dict)

    def cost(self, provider: str, model: str, tokens_in: int, tokens_out: int) -> float | None:
        """The cost of a call, or None if the model's price is unknown."""
        if provider == "mock":
            return MOCK_PRICE.cost(tokens_in, tokens_out)
        if (own := self.own.get(f"{provider}:{model}")) is not None:
            return own.cost(tokens_in, tokens_out)
        vendor = _VENDORS.get(provider)
        if vendor is None:
            return None
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - takes 200 ms, and the mock does not need it

        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        try:
            return float(calc_price(usage, model, provider_id=vendor).total_price)
        except LookupError:
            return None

    def knows(self, model: str) -> bool:
        """Whether `provider:model` has a known price."""
        provider, _, name = model.partition(":")
        return self.cost(provider, name, 1, 1) is not None


def amount(usd: float | None) -> str:
    """USD for people, without the unit: to the cent; below a dollar, to a hundredth of a cent."""
    if usd is None:
        return "unknown"
    return f"{usd:.2f}" if usd >= 1 else f"{usd:.4f}"


def shown(usd: float | None) -> str:
    """An amount for people."""
    return amount(usd) if usd is None else f"{amount(usd)} USD"
