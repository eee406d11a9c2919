"""Decides by rules, and numbers from a seed, which call gets which fault. Pure."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from agentos.errors import UsageError


class FaultKind(StrEnum):
    """What goes wrong with a call."""

    RATE_LIMIT = "429"  # refused, and says when to retry as the provider would
    RATE_LIMIT_BARE = "429-bare"  # refused, without saying when to retry
    QUOTA = "quota"  # refused for good: no money or quota left
    BAD_REQUEST = "400"  # the request is reported as invalid
    KEY_REJECTED = "401"  # the key is reported as invalid
    PAYMENT = "402"  # the bill is not paid
    FORBIDDEN = "403"  # the key may not do this
    INTERNAL = "500"  # the provider failed
    HTML = "502"  # a gateway's HTML page
    UNAVAILABLE = "503"  # no capacity
    OVERLOADED = "529"  # no capacity, Anthropic's status
    LENGTH = "length"  # complete response with half the text; the finish reason is the token limit
    EMPTY = "empty"  # complete response without text
    FILTERED = "filtered"  # complete response, stopped by a content filter
    OTHER_MODEL = "other-model"  # complete response from another model than requested
    CUT = "cut"  # body or stream ends in the middle
    DRIP = "drip"  # one byte every `seconds`
    SLOW = "slow"  # `seconds` later than usual
    HUGE = "huge"  # a body of `size` bytes
    GARBAGE_BODY = "garbage-body"  # 200 and a body that is not JSON
    GARBAGE = "garbage"  # bytes that are not HTTP
    REDIRECT = "redirect"  # 307 to `to`
    RESET = "reset"  # connection reset before the response
    HANG = "hang"  # no response, for `seconds` or until the client disconnects


# Calls with these faults are served and charged to the buckets; the others are refused before that.
SERVED = frozenset(
    {
        FaultKind.LENGTH,
        FaultKind.EMPTY,
        FaultKind.FILTERED,
        FaultKind.OTHER_MODEL,
        FaultKind.CUT,
        FaultKind.DRIP,
        FaultKind.SLOW,
        FaultKind.HUGE,
        FaultKind.GARBAGE_BODY,
    }
)


@dataclass(frozen=True, kw_only=True)
class FaultRule:
    """One fault and the calls that get it. Only calls that match key, model and path are counted."""

    kind: FaultKind
    key: str | None = None  # the id of a key
    model: str | None = None  # a pattern such as *-mini or /v1/*
    path: str | None = None  # a pattern such as *-mini or /v1/*
    nth: int | None = None  # only this call, counted from 1
    first: int | None = None  # only the first N calls
    after: int = 0  # not the first N calls
    every: int | None = None  # only every Nth call
    p: float = 1.0  # probability for each call
    times: int | None = None  # at most N times
    seconds: float | None = None  # of the faults that take time
    size: int = 50_000_000  # bytes of a `huge` body
    to: str = "http://127.0.0.1:9/elsewhere"  # the target of a `redirect`

    def matches(self, key: str, model: str, path: str) -> bool:
        return (
            self.key in {None, key}
            and (self.model is None or fnmatchcase(model, self.model))
            and (self.path is None or fnmatchcase(path, self.path))
        )

    def due(self, number: int) -> bool:
        """Whether the rule applies to this call; `number` counts matching calls from 1."""
        return (
            number > self.after
            and self.nth in {None, number}
            and (self.first is None or number <= self.first)
            and (self.every is None or number % self.every == 0)
        )


class FaultPlan:
    """The active rules and how often each matched."""

    def __init__(self, rules: Iterable[FaultRule] = (), *, seed: int = 0) -> None:
        self._seed = seed
        self._rules: list[_Counted] = []
        self.add(rules)

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, rules: Iterable[FaultRule]) -> None:
        for rule in rules:
            chance = random.Random(f"{self._seed}/{len(self._rules)}")  # noqa: S311 - reproducible, not secret
            self._rules.append(_Counted(rule, chance))

    def pick(self, *, key: str, model: str, path: str) -> FaultRule | None:
        """Count the call in every rule that matches; the first rule that applies wins."""
        hits = [one for one in self._rules if one.rule.matches(key, model, path) and one.met()]
        if not hits:
            return None
        hits[0].fired += 1
        return hits[0].rule


class _Counted:
    def __init__(self, rule: FaultRule, chance: random.Random) -> None:
        self.rule = rule
        self.fired = 0
        self._seen = 0
        self._chance = chance

    def met(self) -> bool:
        self._seen += 1
        lucky = self.rule.p >= 1 or self._chance.random() < self.rule.p
        fires_left = self.rule.times is None or self.fired < self.rule.times
        return lucky and fires_left and self.rule.due(self._seen)


_INTS = frozenset({"nth", "first", "after", "every", "times", "size"})
_FLOATS = frozenset({"p", "seconds"})


def parse_fault(spec: str) -> FaultRule:
    """Read `KIND[,name=value...]`, such as `429,key=key-1,first=2,seconds=3`."""
    kind, *parts = (part.strip() for part in spec.split(","))
    values: dict[str, Any] = {"kind": kind}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or name in values:
            raise UsageError(f"Fault {spec!r}: {part!r} must be name=value, each name once.")
        values[name] = value
    return fault_from(values)


def fault_from(values: Mapping[str, Any]) -> FaultRule:
    """Make a rule from the names and values of a spec or a JSON object."""
    names = {one.name for one in fields(FaultRule)}
    if unknown := set(values) - names:
        raise UsageError(f"Fault: {min(unknown)!r} is unknown; use {', '.join(sorted(names))}.")
    clean: dict[str, Any] = {}
    for name, value in values.items():
        try:
            if name == "kind":
                clean[name] = FaultKind(str(value))
            elif name in _INTS | _FLOATS and isinstance(value, str | int | float):
                clean[name] = int(value) if name in _INTS else float(value)
            elif isinstance(value, str):
                clean[name] = value
            else:
                raise ValueError  # noqa: TRY301 - reported with the others below
        except (ValueError, OverflowError) as exc:
            kinds = f"; kinds are {', '.join(FaultKind)}" if name == "kind" else ""
            raise UsageError(f"Fault: {name}={value!r} is not valid{kinds}.") from exc
    if "kind" not in clean:
        raise UsageError("Fault: the kind is missing.")
    return _checked(FaultRule(**clean))


def _checked(rule: FaultRule) -> FaultRule:
    if any(count is not None and count < 1 for count in (rule.nth, rule.every)) or not 0 <= rule.p <= 1:
        raise UsageError("Fault: nth and every must be at least 1, and p must be between 0 and 1.")
    if rule.seconds is not None and not 0 <= rule.seconds <= 86_400:
        raise UsageError("Fault: seconds must be between 0 and 86400.")
    if not rule.to.isprintable() or not rule.to.isascii():
        raise UsageError("Fault: the target of a redirect must be printable ASCII.")
    return rule
