"""What rate limit headers say: limits, what remains, when it resets. Pure.

Read are the headers of OpenAI, Anthropic, Mistral, Azure, Groq, Cerebras and Kong, those without a unit
(`x-ratelimit-limit`), and the IETF draft in all its versions. Reset times that are dates count from the
server's own `date`, so a wrong clock does not matter. An invalid value counts as a missing header.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from agentos.http_date import seconds_since_epoch

MAX_LIMIT = 1e12
MAX_RESET = 366 * 86_400.0  # seconds
MINUTE = 60.0
MINUTE_IS_OVER = (
    65.0  # seconds; a bucket per minute is full again before this, so the limit is for a longer time
)
WINDOW_LEAST = 0.001  # seconds
MAX_TEXT = 200  # characters of one header
SINCE_1970 = 1e9  # a reset above this is a date
SINCE_1970_MS = 1e11  # and above this, one in milliseconds

_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{0,12})?(?:d|h|ms|m|us|µs|ns|s))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d*)?)(d|h|ms|m|us|µs|ns|s)", re.ASCII)
_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_GO_GRAIN = 1e-3  # seconds; Go writes a duration exactly, servers round it to milliseconds
_DECIMALS = re.compile(r"\d+\.(\d+)", re.ASCII)

_UNIT = r"(?P<unit>requests|req|tokens|input-tokens|output-tokens)"
_PER = r"(?P<per>second|minute|hour|day|month)"
_WHAT = r"(?P<what>limit|remaining|reset)"
_NAMES = (
    re.compile(rf"(?:x-)?rate-?limit-{_WHAT}(?:-{_UNIT})?(?:-{_PER})?"),
    re.compile(rf"anthropic-ratelimit-{_UNIT}-{_WHAT}"),
    re.compile(rf"(?P<size>(?:x-)?ratelimitbysize)-{_WHAT}(?:-{_PER})?"),  # Mistral's, in tokens
)
_WINDOWS = {"second": 1.0, "minute": MINUTE, "hour": 3600.0, "day": 86_400.0, "month": 30 * 86_400.0}


class Limit(StrEnum):
    """What a budget counts."""

    RPM = "rpm"  # requests per minute
    RPD = "rpd"  # requests per day, or another time longer than a minute
    TPM = "tpm"  # tokens per minute, in and out together
    ITPM = "itpm"  # input tokens per minute
    OTPM = "otpm"  # output tokens per minute


_COUNTS = {
    "requests": Limit.RPM,
    "req": Limit.RPM,
    "tokens": Limit.TPM,
    "input-tokens": Limit.ITPM,
    "output-tokens": Limit.OTPM,
}


@dataclass(frozen=True, kw_only=True)
class LimitHeaders:
    """What one answer said about one limit."""

    limit: float | None
    remaining: float | None
    reset: float | None  # seconds until it is full again
    window: float | None = None  # seconds that the limit is for, if the server says so
    grain: float = 0.0  # seconds by which the reset may be rounded

    @property
    def per_minute(self) -> float | None:
        """The limit as a rate per minute. By custom, a limit without a window is a minute's."""
        return None if self.limit is None else self.limit * MINUTE / (self.window or MINUTE)


class Reset(NamedTuple):
    """Seconds until a reset, and by how much they may be rounded."""

    seconds: float | None
    grain: float


@dataclass(kw_only=True)
class _Texts:
    """The headers about one limit."""

    which: Limit
    window: float | None = None
    texts: dict[str, str] = field(default_factory=dict)  # by limit, remaining, reset


def read_headers(headers: Mapping[str, str]) -> dict[Limit, LimitHeaders]:
    """Read the headers that are present and valid; names are lower case."""
    now = seconds_since_epoch(headers.get("date", ""))
    found: dict[Limit, LimitHeaders] = {}
    for counted, reading in (*_plain(headers, now), *_drafts(headers, now)):
        # Some servers send the daily limit under the same name; only the reset time shows it.
        lasts = reading.window or reading.reset or 0.0
        which = Limit.RPD if counted is Limit.RPM and lasts > MINUTE_IS_OVER else counted
        if which is Limit.RPD or (reading.window or 0.0) <= MINUTE_IS_OVER:  # tokens have no longer limits
            before = found.get(which)
            found[which] = reading if before is None else _tighter(before, reading)
    return found


def _tighter(one: LimitHeaders, other: LimitHeaders) -> LimitHeaders:
    """Return the reading with the lower rate."""
    return min((one, other), key=lambda reading: reading.per_minute or math.inf)


def _plain(headers: Mapping[str, str], now: float | None) -> Iterable[tuple[Limit, LimitHeaders]]:
    """Yield the readings of headers with one value each."""
    groups: dict[str, _Texts] = {}
    for name, value in headers.items():
        match = next((found for one in _NAMES if (found := one.fullmatch(name))), None)
        if match is None or len(value) > MAX_TEXT:
            continue
        given = match.groupdict()
        which = Limit.TPM if given.get("size") else _COUNTS[given.get("unit") or "requests"]
        per = given.get("per") or ""
        # OpenAI's requests and the draft's have different names, and may be different limits.
        family = (name[: match.start("what")] + name[match.end("what") :]).replace("rate-limit", "ratelimit")
        group = groups.setdefault(family, _Texts(which=which, window=_WINDOWS.get(per)))
        group.texts[given["what"]] = value.strip()
    for group in groups.values():
        policies = _policies(headers, group.texts.get("limit", ""))
        text = group.texts.get("limit", "").partition(",")[0].partition(";")[0].strip()
        limit = number(text, low=1.0, high=MAX_LIMIT)
        window = group.window
        if window is None and limit is not None and "limit" in group.texts:
            window = next((one.window for one in policies if one.quota == limit), None)
        remaining = group.texts.get("remaining", "").partition(",")[0].strip()
        reset = _reset(group.texts.get("reset", "").partition(",")[0].strip(), now)
        reading = _reading(limit, number(remaining, low=0.0, high=MAX_LIMIT), reset, window)
        if reading is not None:
            yield group.which, reading


def _drafts(headers: Mapping[str, str], now: float | None) -> Iterable[tuple[Limit, LimitHeaders]]:
    """Yield the readings of `RateLimit` and `RateLimit-Policy`."""
    policies = {one.name: one for one in _policies(headers, "")}
    members = _members(headers.get("ratelimit", ""))
    # Before version 8, the field was one limit: limit=10, remaining=3, reset=1.
    old = {name: values[""] for name, values in members if "" in values}
    limit = number(old.get("limit"), low=1.0, high=MAX_LIMIT)
    remaining = number(old.get("remaining"), low=0.0, high=MAX_LIMIT)
    window = next((one.window for one in policies.values() if one.quota == limit), None)
    reading = _reading(limit, remaining, _reset(old.get("reset", ""), now), window)
    if reading is not None:
        yield Limit.RPM, reading
    told: dict[str, LimitHeaders] = {}
    for name, values in members:
        reset = _reset(values.get("t", ""), now)
        reading = _reading(None, number(values.get("r"), low=0.0, high=MAX_LIMIT), reset, None)
        if reading is not None:
            told[name] = reading
    yield from _by_policy(policies, told)


def _by_policy(
    policies: "Mapping[str, _Policy]", told: dict[str, LimitHeaders]
) -> Iterable[tuple[Limit, LimitHeaders]]:
    """Yield each policy with what was told about it, then what was told about no policy."""
    for name, policy in policies.items():
        which = {"requests": Limit.RPM, "tokens": Limit.TPM}.get(policy.unit)
        if which is None or policy.window is None:
            continue
        state = told.pop(name, None)
        if state is None or (state.remaining or 0.0) > policy.quota:
            state = LimitHeaders(limit=None, remaining=None, reset=None)
        yield which, replace(state, limit=policy.quota, window=policy.window)
    for state in told.values():
        yield Limit.RPM, state


class _Policy(NamedTuple):
    name: str
    quota: float
    window: float | None
    unit: str


def _policies(headers: Mapping[str, str], also: str) -> list[_Policy]:
    """Return the policies of `RateLimit-Policy`, and those listed behind a limit: `100, 100;w=60`."""
    found = []
    for name, values in (*_members(headers.get("ratelimit-policy", "")), *_members(also)):
        quota = number(values.get("q", name), low=1.0, high=MAX_LIMIT)
        window = number(values.get("w"), low=WINDOW_LEAST, high=MAX_RESET)
        if quota is not None and ("q" in values or window is not None):
            found.append(_Policy(name, quota, window, values.get("qu", "requests").lower()))
    return found


def _members(text: str) -> list[tuple[str, dict[str, str]]]:
    """Split a list of names with parameters. `a=b` gives the name's own value under an empty name."""
    if len(text) > MAX_TEXT:
        return []
    found = []
    for member in _split(text, ","):
        head, *parameters = _split(member, ";")
        name, equals, own = head.partition("=")
        values = {"": _bare(own)} if equals else {}
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            values[key.strip().lower()] = _bare(value)
        found.append((_bare(name) if not equals else _bare(name).lower(), values))
    return found


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that is not inside quotes."""
    parts, quoted = [""], False
    for char in text:
        quoted ^= char == '"'
        if char == mark and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _bare(text: str) -> str:
    return text.strip().strip('"')


def _reading(
    limit: float | None, remaining: float | None, reset: Reset, window: float | None
) -> LimitHeaders | None:
    if limit is None and remaining is None:
        return None
    if limit is not None and remaining is not None and remaining > limit:
        remaining = None
    return LimitHeaders(
        limit=limit, remaining=remaining, reset=reset.seconds, window=window, grain=reset.grain
    )


def _reset(text: str, now: float | None) -> Reset:
    """Read seconds, a duration, a date, or seconds or milliseconds since 1970."""
    if not text or len(text) > MAX_TEXT:
        return Reset(None, 0.0)
    plain = number(text, low=0.0, high=1e15)
    if plain is not None and plain > SINCE_1970:
        date = plain / 1000.0 if plain > SINCE_1970_MS else plain
    elif plain is not None:
        decimals = _DECIMALS.fullmatch(text)
        return Reset(seconds(plain), 10.0 ** -min(9, len(decimals[1])) if decimals else 1.0)
    elif (found := seconds(text)) is not None:
        return Reset(found, _GO_GRAIN)
    else:
        moment = seconds_since_epoch(text)
        if moment is None:
            return Reset(None, 0.0)
        date = moment
    return Reset(None if now is None else number(max(0.0, date - now), low=0.0, high=MAX_RESET), 1.0)


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
