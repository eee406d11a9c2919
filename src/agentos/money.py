"""What calls cost: prices from a library's table, or the user's own. Unknown is None, never 0.

Coordinator process. Workers know tokens, not prices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentos.model import Usage

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
    cached_input: float | None = None  # None: as any input
    cache_write: float | None = None  # None: as any input

    def cost(self, usage: Usage) -> float:
        cached, written = usage.tokens_cached, usage.tokens_cache_written
        read = self.input if self.cached_input is None else self.cached_input
        write = self.input if self.cache_write is None else self.cache_write
        fresh = max(0, usage.tokens_in - cached - written)
        whole = self.input * fresh + read * cached + write * written + self.output * usage.tokens_out
        return whole / MILLION


MOCK_PRICE = Price(input=MOCK_INPUT, output=MOCK_OUTPUT)


@dataclass(frozen=True, kw_only=True)
class PriceTable:
    """The user's own prices by `provider:model`; for all other models the library's table."""

    own: Mapping[str, Price] = field(default_factory=dict)

    def cost(self, provider: str, model: str, usage: Usage) -> float | None:
        """The cost of a call, or None if the model's price is unknown."""
        if provider == "mock":
            return MOCK_PRICE.cost(usage)
        if (own := self.own.get(f"{provider}:{model}")) is not None:
            return own.cost(usage)
        vendor = _VENDORS.get(provider)
        if vendor is None:
            return None
        import genai_prices  # noqa: PLC0415 - takes 200 ms, and the mock does not need it

        cached = min(usage.tokens_cached, usage.tokens_in)  # the library refuses more
        counted = genai_prices.Usage(
            input_tokens=usage.tokens_in,
            output_tokens=usage.tokens_out,
            cache_read_tokens=cached,
            cache_write_tokens=min(usage.tokens_cache_written, usage.tokens_in - cached),
        )
        try:
            return float(genai_prices.calc_price(counted, model, provider_id=vendor).total_price)
        except LookupError:
            return None

    def knows(self, model: str) -> bool:
        """Whether `provider:model` has a known price."""
        provider, _, name = model.partition(":")
        return self.cost(provider, name, Usage(tokens_in=1, tokens_out=1)) is not None


def amount(usd: float | None) -> str:
    """USD for people, without the unit: to the cent; below a dollar, to a hundredth of a cent."""
    if usd is None:
        return "unknown"
    return f"{usd:.2f}" if usd >= 1 else f"{usd:.4f}"


def shown(usd: float | None) -> str:
    """An amount for people."""
    return amount(usd) if usd is None else f"{amount(usd)} USD"
