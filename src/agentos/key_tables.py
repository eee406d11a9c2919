"""Reads [[keys]] and [prices] of the user's file; a mistake is an error that names the fix.

No message quotes a key's reference: people put the key itself there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentos import parse_value
from agentos.access_tables import refuse_unknown, shortened
from agentos.errors import ConfigError
from agentos.model_access import ProviderSpec, known_providers, no_provider, provider_of
from agentos.money import Price
from agentos.parse_value import Rejected

MAX_LIMIT = 1e12  # of a key, whatever the limit counts
MAX_PRICE = 1e9  # USD per million tokens
_NUMBERS = {"rpm": float, "tpm": float, "rpd": float, "burst": int, "max_in_flight": int}
_PRICE_NAMES = frozenset({"input", "output", "cached_input", "cache_write"})


@dataclass(frozen=True, kw_only=True)
class KeyReference:
    """One `[[keys]]` entry: how to find a key, never the key itself."""

    id: str
    provider: str
    env: str | None = None
    file: str | None = None
    quota_group: str | None = None
    rpm: float | None = None
    tpm: float | None = None
    rpd: float | None = None
    burst: int | None = None
    max_in_flight: int | None = None


def read_keys(entries: Any, where: str, named: Mapping[str, ProviderSpec]) -> tuple[KeyReference, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"keys in {where} must be [[keys]] tables.")
    keys = tuple(_read_key(entry, index, where) for index, entry in enumerate(entries, start=1))
    ids = [key.id for key in keys]
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        raise ConfigError(f"Two [[keys]] in {where} have the id {twice!r}. Give each its own.")
    known = known_providers(named)
    for key in keys:
        if key.provider not in known:
            raise ConfigError(f"The key {key.id!r} in {where}: {no_provider(key.provider, named)}")
        if key.id in known and key.id != key.provider:
            raise ConfigError(f"The key {key.id!r} in {where} has the name of another provider as its id.")
    return keys


def _read_key(entry: dict[str, Any], index: int, where: str) -> KeyReference:
    place = f"[[keys]] number {index} in {where}"
    refuse_unknown(entry, ("id", "provider", "env", "file", "quota_group", *_NUMBERS), place)
    for name, raw in entry.items():
        if name in _NUMBERS:
            whole = _NUMBERS[name] is int
            fits = isinstance(raw, int if whole else int | float) and not isinstance(raw, bool)
            if not fits or not 0 < raw <= MAX_LIMIT:
                kind = "whole number" if whole else "number"
                raise ConfigError(f"{name} of {place} must be a {kind} above 0, not {shortened(repr(raw))}.")
            continue
        try:
            parse_value.text(raw)
        except Rejected as exc:
            raise ConfigError(f"{name} of {place} must be {exc}.") from exc  # never shown: may be a key
    for needed in ("id", "provider"):
        if needed not in entry:
            raise ConfigError(f"{place} is missing {needed!r}.")
    if ("env" in entry) == ("file" in entry):
        raise ConfigError(f"{place} needs either env or file: a reference to the key, never the key itself.")
    numbers = {name: kind(entry[name]) for name, kind in _NUMBERS.items() if name in entry}
    texts = {name: raw for name, raw in entry.items() if name not in _NUMBERS}
    return KeyReference(**texts, **numbers)


def read_prices(tables: Any, where: str, named: Mapping[str, ProviderSpec]) -> dict[str, Price]:
    prices: dict[str, Price] = {}
    if not isinstance(tables, dict):
        raise ConfigError(f'prices in {where} must be tables such as [prices."openai:my-model"].')
    for model, table in tables.items():
        place = f'[prices."{model}"] in {where}'
        if not isinstance(table, dict) or not {"input", "output"} <= set(table) <= _PRICE_NAMES:
            raise ConfigError(
                f"{place} needs input and output, and may have cached_input and cache_write, all in USD per "
                "million tokens."
            )
        for name, raw in table.items():
            if not isinstance(raw, int | float) or isinstance(raw, bool) or not 0 <= raw <= MAX_PRICE:
                shown = shortened(repr(raw))
                raise ConfigError(
                    f"{name} of {place} must be a price in USD per million tokens, not {shown}."
                )
        try:
            parse_value.model(model)
        except Rejected as exc:
            raise ConfigError(f"{place}: the name must be {exc}.") from exc
        if (provider := provider_of(model)) not in known_providers(named):
            raise ConfigError(f"{place}: {no_provider(provider, named)}")
        prices[model] = Price(**{name: float(raw) for name, raw in table.items()})
    return prices
