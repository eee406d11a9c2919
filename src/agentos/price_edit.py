"""Puts a model's price into the text of a user's file, and changes nothing else. Pure."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from agentos.money import Price

_TABLE = re.compile(r"\s*\[")
_VALUE = r"(\s*{name}\s*=\s*)[^#]*?(\s*(?:#.*)?)"


class NotEditable(ValueError):  # noqa: N818 - the name says what happened
    """The price cannot be put into this text without the risk of changing something else."""


def price_lines(model: str, price: Price) -> list[str]:
    """The table of a price as it stands in a file."""
    return [_header(model), *(f"{name} = {value!r}" for name, value in _values(price).items())]


def with_price(text: str, model: str, price: Price) -> str:
    """Return the text with the price and nothing else changed; NotEditable if that is not certain."""
    before = _parsed(text)
    tables = before.get("prices", {})
    old = tables.get(model) if isinstance(tables, dict) else None
    changed = _appended(text, model, price) if old is None else _replaced(text, model, price)
    expected = dict(before)
    expected["prices"] = {**tables, model: {**(old or {}), **_values(price)}}
    if _parsed(changed) != expected:
        raise NotEditable(model)
    return changed


def named_providers(text: str) -> tuple[str, ...]:
    """The providers that the text defines: a price for any other would be an error in the file."""
    tables = _parsed(text).get("providers", {})
    return tuple(tables) if isinstance(tables, dict) else ()


def _values(price: Price) -> dict[str, float]:
    named = {
        "input": price.input,
        "output": price.output,
        "cached_input": price.cached_input,
        "cache_write": price.cache_write,
    }
    return {name: value for name, value in named.items() if value is not None}


def _header(model: str) -> str:
    return f'[prices."{model}"]'


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise NotEditable("not valid TOML") from exc


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _appended(text: str, model: str, price: Price) -> str:
    end = _line_end(text)
    gap = "" if not text else end if text.endswith("\n") else 2 * end
    return text + gap + "".join(line + end for line in price_lines(model, price))


def _replaced(text: str, model: str, price: Price) -> str:
    """Change the values in the table that is there; those it does not have yet come after its header."""
    lines = text.splitlines(keepends=True)
    quoted = re.escape(model)
    header = re.compile(rf"\s*\[\s*prices\s*\.\s*(?:\"{quoted}\"|'{quoted}')\s*\]\s*(?:#.*)?")
    starts = [number for number, line in enumerate(lines) if header.fullmatch(line.rstrip("\r\n"))]
    if len(starts) != 1:
        raise NotEditable(model)
    start = starts[0] + 1
    stop = next((one for one in range(start, len(lines)) if _TABLE.match(lines[one])), len(lines))
    new: list[str] = []
    for name, value in _values(price).items():
        pattern = re.compile(_VALUE.format(name=name))
        for number in range(start, stop):
            line = lines[number].rstrip("\r\n")
            if (found := pattern.fullmatch(line)) is not None:
                lines[number] = f"{found[1]}{value!r}{found[2]}" + lines[number][len(line) :]
                break
        else:
            new.append(f"{name} = {value!r}{_line_end(text)}")
    if new and not lines[start - 1].endswith("\n"):
        lines[start - 1] += _line_end(text)
    return "".join([*lines[:start], *new, *lines[start:]])
