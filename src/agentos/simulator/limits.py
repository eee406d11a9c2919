"""The limits that the simulator enforces: token buckets per quota group. Pure."""

import math
from dataclasses import dataclass
from enum import StrEnum

from agentos.errors import UsageError

MINUTE = 60.0
DAY = 86_400.0
_TOLERANCE = 1e-9  # after many small refills, a bucket may be this much short of a whole call


class LimitName(StrEnum):
    """Which limit refused a call."""

    REQUESTS = "requests"  # per minute
    TOKENS = "tokens"  # per minute
    DAY = "day"  # requests per day
    CONCURRENCY = "concurrency"  # calls of one key at the same time


@dataclass(frozen=True, kw_only=True)
class LimitConfig:
    """The limits of a quota group; None: no limit."""

    rpm: float | None = None  # requests per minute
    tpm: float | None = None  # tokens per minute, in and out together
    rpd: float | None = None  # requests per day
    burst: float | None = None  # requests at the same moment; None is a minute's worth
    token_burst: float | None = None  # tokens at the same moment; None is a minute's worth

    def __post_init__(self) -> None:
        for name in ("rpm", "tpm", "rpd", "burst", "token_burst"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"A simulated key's {name} must be a number above 0, not {value!r}.")
        if self.burst is not None and self.burst < 1:
            raise UsageError("The burst must be at least 1; a smaller one never admits a call.")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a call is refused, and how long to wait; None is forever."""

    limit: LimitName
    value: float  # of the limit
    wait: float | None


@dataclass(frozen=True, kw_only=True)
class Level:
    """A limit as the headers report it."""

    limit: float
    remaining: float
    reset: float  # seconds until it is full again
    size: float  # of the bucket
    rate: float  # per second


class QuotaBucket:
    """Fills at a steady rate up to its capacity; a call takes from it."""

    def __init__(self, *, limit: float, period: float, capacity: float, now: float) -> None:
        self.limit = limit
        self.rate = limit / period
        self.capacity = capacity
        self._level = capacity
        self._at = now

    def wait(self, amount: float, now: float) -> float | None:
        """Return the seconds until the amount is available; None if it never fits."""
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
            limit=self.limit,
            remaining=math.floor(self._level + _TOLERANCE),
            reset=missing / self.rate,
            size=self.capacity,
            rate=self.rate,
        )

    def most(self, seconds: float) -> float:
        """Return the most that can be taken in that time, starting full."""
        return self.capacity + self.rate * max(0.0, seconds)

    def _refill(self, now: float) -> None:
        self._level = min(self.capacity, self._level + self.rate * max(0.0, now - self._at))
        self._at = now


class Limits:
    """The buckets of one quota group; for one model if limits are per model."""

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
        """Take one call from every bucket, or from none and return the one with the longest wait."""
        refusal = self._refusal(tokens, now)
        if refusal and not refused_count:
            return refusal
        for name, bucket in self._buckets.items():
            if not refusal or name is not LimitName.TOKENS:
                bucket.take(self._amount(name, tokens))
        return refusal and self._refusal(tokens, now)  # the refused call used up what had refilled

    def levels(self, now: float) -> dict[LimitName, Level]:
        return {name: bucket.level(now) for name, bucket in self._buckets.items()}

    def most_calls(self, seconds: float, tokens_per_call: float) -> int | None:
        """Return the most whole calls that the buckets allow in that time; None: no limit."""
        bounds = [
            bucket.most(seconds) / (max(1.0, tokens_per_call) if name is LimitName.TOKENS else 1.0)
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
