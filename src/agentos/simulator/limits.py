"""The limits a simulated provider enforces: token buckets of a quota group. Pure; the time comes in."""

import math
from dataclasses import dataclass
from enum import StrEnum

from agentos.errors import UsageError

MINUTE = 60.0
DAY = 86_400.0
_TOLERANCE = 1e-9  # a bucket refilled in many small steps may lack this much of a whole call


class LimitName(StrEnum):
    """Which limit refused a call."""

    REQUESTS = "requests"  # a minute
    TOKENS = "tokens"  # a minute
    DAY = "day"  # requests a day
    CONCURRENCY = "concurrency"  # calls of one key at once


@dataclass(frozen=True, kw_only=True)
class LimitConfig:
    """What a quota group may use; None is no limit."""

    rpm: float | None = None  # requests a minute
    tpm: float | None = None  # tokens a minute, in and out together
    rpd: float | None = None  # requests a day
    burst: float | None = None  # requests at once; a minute's worth where not given
    token_burst: float | None = None  # tokens at once; a minute's worth where not given

    def __post_init__(self) -> None:
        for name in ("rpm", "tpm", "rpd", "burst", "token_burst"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"A simulated key's {name} must be a number above 0, not {value!r}.")
        if self.burst is not None and self.burst < 1:
            raise UsageError("A burst below 1 would never let a call through.")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a call is not let through, and when it would be; None is never."""

    limit: LimitName
    value: float  # what the limit is
    wait: float | None


@dataclass(frozen=True, kw_only=True)
class Level:
    """A limit as its headers tell it."""

    limit: float
    remaining: float
    reset: float  # seconds until it is full again


class QuotaBucket:
    """Fills at a steady rate up to its capacity; a call takes from it."""

    def __init__(self, *, limit: float, period: float, capacity: float, now: float) -> None:
        self.limit = limit
        self.rate = limit / period
        self.capacity = capacity
        self._level = capacity
        self._at = now

    def wait(self, amount: float, now: float) -> float | None:
        """Return the seconds until the amount is there, None if it never fits."""
        self._refill(now)
        if amount > self.capacity + _TOLERANCE:
            return None
        return max(0.0, (amount - _TOLERANCE - self._level) / self.rate)

    def take(self, amount: float) -> None:
        self._level = max(0.0, self._level - amount)

    def level(self, now: float) -> Level:
        self._refill(now)
        missing = self.capacity - self._level
        return Level(
            limit=self.limit, remaining=math.floor(self._level + _TOLERANCE), reset=missing / self.rate
        )

    def most(self, seconds: float) -> float:
        """Return what nobody can exceed in that time, starting full."""
        return self.capacity + self.rate * max(0.0, seconds)

    def _refill(self, now: float) -> None:
        self._level = min(self.capacity, self._level + self.rate * max(0.0, now - self._at))
        self._at = now


class Limits:
    """The buckets of one quota group, for one model where limits are a model's."""

    def __init__(self, config: LimitConfig, *, now: float) -> None:
        self._buckets: dict[LimitName, QuotaBucket] = {}
        if config.rpm is not None:
            capacity = config.burst if config.burst is not None else max(1.0, config.rpm)
            self._add(LimitName.REQUESTS, config.rpm, MINUTE, capacity, now)
        if config.tpm is not None:
            self._add(LimitName.TOKENS, config.tpm, MINUTE, config.token_burst or config.tpm, now)
        if config.rpd is not None:
            self._add(LimitName.DAY, config.rpd, DAY, max(1.0, config.rpd), now)

    def admit(self, tokens: int, now: float, *, refused_count: bool) -> Refusal | None:
        """Take one call from every bucket, or from none and say which is short the longest."""
        refusal = self._refusal(tokens, now)
        if refusal and not refused_count:
            return refusal
        for name, bucket in self._buckets.items():
            if not refusal or name is not LimitName.TOKENS:
                bucket.take(self._amount(name, tokens))
        return refusal and self._refusal(tokens, now)  # what had come back so far is lost to the refused call

    def levels(self, now: float) -> dict[LimitName, Level]:
        return {name: bucket.level(now) for name, bucket in self._buckets.items()}

    def most_calls(self, seconds: float, tokens_a_call: float) -> int | None:
        """Return how many whole calls the buckets allow in that time at best; None is no limit."""
        bounds = [
            bucket.most(seconds) / (max(1.0, tokens_a_call) if name is LimitName.TOKENS else 1.0)
            for name, bucket in self._buckets.items()
        ]
        return math.floor(min(bounds) + _TOLERANCE) if bounds else None

    def _refusal(self, tokens: int, now: float) -> Refusal | None:
        refusals = []
        for name, bucket in self._buckets.items():
            wait = bucket.wait(self._amount(name, tokens), now)
            if wait is None or wait > 0:
                refusals.append(Refusal(limit=name, value=bucket.limit, wait=wait))
        return max(refusals, key=lambda one: math.inf if one.wait is None else one.wait, default=None)

    def _add(self, name: LimitName, limit: float, period: float, capacity: float, now: float) -> None:
        self._buckets[name] = QuotaBucket(limit=limit, period=period, capacity=capacity, now=now)

    @staticmethod
    def _amount(name: LimitName, tokens: int) -> float:
        return float(tokens) if name is LimitName.TOKENS else 1.0
