"""What rate limit headers say: limits, what remains, when it resets. Pure.

Reset times that are dates (Anthropic) are ignored: they need a wall clock, and the limit alone gives the
pace. An invalid value counts as a missing header.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MAX_LIMIT = 1e12
MAX_RESET = 366 * 86_400.0  # seconds
MINUTE_IS_OVER = (
    65.0  # seconds; a bucket per minute is full again before this, so the limit is for a longer time
)

_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{0,12})?(?:h|ms|m|us|µs|ns|s))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d*)?)(h|ms|m|us|µs|ns|s)", re.ASCII)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class Limit(StrEnum):
    """What a budget counts."""

    RPM = "rpm"  # requests per minute
    RPD = "rpd"  # requests per day, or another time longer than a minute
    TPM = "tpm"  # tokens per minute, in and out together
    ITPM = "itpm"  # input tokens per minute
    OTPM = "otpm"  # output tokens per minute


@dataclass(frozen=True, kw_only=True)
class LimitHeaders:
    """What one answer said about one limit."""

    limit: float | None
    remaining: float | None
    reset: float | None  # seconds until it is full again


_NAMES = (
    (Limit.RPM, "x-ratelimit-{}-requests"),
    (Limit.TPM, "x-ratelimit-{}-tokens"),
    (Limit.RPM, "anthropic-ratelimit-requests-{}"),
    (Limit.TPM, "anthropic-ratelimit-tokens-{}"),
    (Limit.ITPM, "anthropic-ratelimit-input-tokens-{}"),
    (Limit.OTPM, "anthropic-ratelimit-output-tokens-{}"),
)
_HEADERS = tuple(
    (which, name.format("limit"), name.format("remaining"), name.format("reset")) for which, name in _NAMES
)


def read_headers(headers: Mapping[str, str]) -> dict[Limit, LimitHeaders]:
    """Read the headers that are present and valid; names are lower case."""
    found: dict[Limit, LimitHeaders] = {}
    for which, limit_name, remaining_name, reset_name in _HEADERS:
        limit = number(headers.get(limit_name), low=1.0, high=MAX_LIMIT)
        remaining = number(headers.get(remaining_name), low=0.0, high=MAX_LIMIT)
        if limit is None and remaining is None:
            continue
        if limit is not None and remaining is not None and remaining > limit:
            remaining = None
        reading = LimitHeaders(limit=limit, remaining=remaining, reset=seconds(headers.get(reset_name)))
        # Some servers send the daily limit under the same name; only the reset time shows it.
        daily = which is Limit.RPM and reading.reset is not None and reading.reset > MINUTE_IS_OVER
        found[Limit.RPD if daily else which] = reading
    return found


def number(value: object, *, low: float, high: float) -> float | None:
    """Return a finite number within bounds, or None."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) and low <= parsed <= high else None


def seconds(value: object) -> float | None:
    """Return a Go duration ("6m0s", "20ms") or a plain number as seconds, or None."""
    if isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        value = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(value))
    return number(value, low=0.0, high=MAX_RESET)
