"""A model of a provider in virtual time, to measure how much of a quota the pool uses and has refused."""

import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial

from agentos.credentials.headers import Limit
from agentos.credentials.pool import CredentialCoordinator, KeySpec, Settlement
from agentos.events.asker import Asker
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased
from agentos.model import CallError

WALL = 1_800_000_000.0


class TrueBucket:
    """The provider's own count, kept apart from the code under test."""

    def __init__(self, rate: float, capacity: float) -> None:
        self.rate, self.capacity, self.level, self.at = rate, capacity, capacity, 0.0

    def refill(self, now: float) -> None:
        self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
        self.at = now

    def wait(self, need: float, now: float) -> float:
        """Return the seconds until there is room."""
        return (need - self.level) / self.rate

    def full(self, now: float) -> float:
        """Return the seconds until it is full again."""
        return (self.capacity - self.level) / self.rate


class TrueWindow(TrueBucket):
    """The same for fixed windows: at the end of each, all of it is there again."""

    def __init__(self, rate: float, capacity: float, *, offset: float) -> None:
        super().__init__(rate, capacity)
        self.length = capacity / rate
        self.end = self.length * offset

    def refill(self, now: float) -> None:
        if now >= self.end:
            self.end += self.length * (1 + (now - self.end) // self.length)
            self.level = self.capacity
        self.at = now

    def wait(self, need: float, now: float) -> float:
        return self.end - now if self.level < need else 0.0

    def full(self, now: float) -> float:
        return self.end - now


@dataclass(frozen=True, kw_only=True)
class Quota:
    """The true limits of one key, which is a group of its own."""

    per_second: float
    burst: float
    tokens_per_second: float | None = None
    token_burst: float = 0.0


def whole_seconds(wait: float) -> float:
    return float(max(1, math.ceil(wait)))


@dataclass(frozen=True, kw_only=True)
class World:
    """Keys, workers and network of one experiment."""

    quotas: dict[str, Quota]
    keys: list[KeySpec]
    calls: int = 800
    workers: int = 20
    send: tuple[float, float] = (0.0, 0.05)  # seconds from the grant to the provider
    service: tuple[float, float] = (0.05, 0.1)
    style: str = ""  # how the provider names its limits: openai, anthropic, burst, ietf, gemini, window
    models: tuple[str, ...] = ("m",)  # called in turn
    per_model: bool = False  # whether each model has limits of its own
    retry_after: Callable[[float], float | None] = whole_seconds
    refused_costs: bool = False
    tokens: tuple[int, int] = (50, 150)  # of a call, really
    asked: int = 100  # of a call, by estimate
    seed: int = 1


@dataclass(kw_only=True)
class Result:
    seconds: float = 0.0
    ideal: float = 0.0
    sent: int = 0
    refused: int = 0
    wakes: int = 0
    tokens: int = 0
    by_key: dict[str, int] = field(default_factory=dict)

    @property
    def goodput(self) -> float:
        return self.ideal / self.seconds

    @property
    def refused_share(self) -> float:
        return self.refused / self.sent


class Experiment:
    def __init__(self, world: World) -> None:
        self.world = world
        self.result = Result(by_key=dict.fromkeys(world.quotas, 0))
        self._pool = CredentialCoordinator(world.keys)
        self._chance = random.Random(world.seed)
        self._requests: dict[tuple[str, str], TrueBucket] = {}
        self._tokens: dict[tuple[str, str], TrueBucket] = {}
        for model in world.models if world.per_model else ("",):
            for key, quota in world.quotas.items():
                self._requests[key, model] = self._bucket(quota)
                if quota.tokens_per_second:
                    self._tokens[key, model] = TrueBucket(quota.tokens_per_second, quota.token_burst)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._numbers = itertools.count(1)
        self._models = itertools.cycle(world.models)
        self._now = 0.0
        self._wake = math.inf
        self._left = world.calls
        self._done = 0

    def run(self) -> Result:
        for worker in range(self.world.workers):
            self._at(0.0, partial(self._next_call, f"item-{worker}"))
        while self._agenda and self._done < self.world.calls:
            self._now, _, what = heapq.heappop(self._agenda)
            what()
        assert self._done == self.world.calls, "the pool stalled"
        self.result.ideal = self._ideal(self.result.tokens / self.world.calls)
        return self.result

    def _bucket(self, quota: Quota) -> TrueBucket:
        if self.world.style.startswith("window"):
            return TrueWindow(quota.per_second, quota.burst, offset=self._chance.random())
        return TrueBucket(quota.per_second, quota.burst)

    def _owner(self, given: Leased) -> tuple[str, str]:
        """Return whose limits a call counts against."""
        return given.key, given.model if self.world.per_model else ""

    def _at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._order), what))

    def _take(self, events: list[PoolEvent]) -> None:
        for event in events:
            if isinstance(event, Leased):
                self._at(self._now + self._chance.uniform(*self.world.send), partial(self._arrive, event))
        wake = self._pool.next_wake(self._now)
        if wake is not None and wake < self._wake:
            self._wake = wake
            self._at(wake, partial(self._advance, wake))

    def _advance(self, wake: float) -> None:
        if wake == self._wake:
            self._wake = math.inf
            self.result.wakes += 1
            self._take(self._pool.advance(self._now))

    def _next_call(self, item: str) -> None:
        if self._left:
            self._left -= 1
            self._ask(item, next(self._models))

    def _ask(self, item: str, model: str) -> None:
        self._take(
            self._pool.request(
                asker=Asker("run", item, 1),
                number=next(self._numbers),
                provider="p",
                model=model,
                tokens=self.world.asked,
                now=self._now,
            )
        )

    def _arrive(self, given: Leased) -> None:
        size = self._chance.randint(*self.world.tokens)
        owner = self._owner(given)
        needs = [(self._requests[owner], 1.0)]
        if owner in self._tokens:
            needs.append((self._tokens[owner], float(size)))
        for bucket, _ in needs:
            bucket.refill(self._now)
        wait = max(bucket.wait(need, self._now) for bucket, need in needs)
        self.result.sent += 1
        if wait > 1e-9:
            self.result.refused += 1
            if self.world.refused_costs:
                self._requests[owner].level -= 1.0
            settlement = Settlement(
                error=CallError.RATE_LIMITED,
                retry_after=self.world.retry_after(wait),
                headers=self._headers(owner),
                limits=self._violated(owner) if self.world.style == "gemini" else {},
            )
            back = self.world.send
        else:
            for bucket, need in needs:
                bucket.level -= need
            self.result.by_key[given.key] += 1
            self.result.tokens += size
            settlement = Settlement(
                tokens_in=size // 2, tokens_out=size - size // 2, headers=self._headers(owner)
            )
            back = self.world.service
        self._at(self._now + self._chance.uniform(*back), partial(self._answer, given, settlement))

    def _headers(self, key: tuple[str, str]) -> dict[str, str]:
        """Return what the provider says about a key's buckets, in its style."""
        found: dict[str, str] = {}
        buckets = {"requests": self._requests[key], "tokens": self._tokens.get(key)}
        for name, bucket in buckets.items():
            if bucket is not None:
                found |= self._named(name, bucket)
        return found

    def _violated(self, key: tuple[str, str]) -> dict[Limit, float]:
        """Return the limit that refuses a call, as Gemini names it."""
        tokens = self._tokens.get(key)
        if tokens is not None and self._requests[key].level >= 1.0:
            return {Limit.TPM: tokens.rate * 60}
        return {Limit.RPM: self._requests[key].rate * 60}

    def _named(self, name: str, bucket: TrueBucket) -> dict[str, str]:
        remaining = str(max(0, math.floor(bucket.level)))
        missing = bucket.full(self._now)
        match self.world.style:
            case "openai":
                return _three(
                    "x-ratelimit-{}-" + name, bucket.rate * 60, remaining, f"{missing * 1000:.0f}ms"
                )
            case "window-dates":
                today = format_datetime(datetime.fromtimestamp(WALL + self._now, UTC), usegmt=True)
                end = str(math.ceil(WALL + self._now + missing))
                return _three("x-ratelimit-{}", bucket.capacity, remaining, end) | {"date": today}
            case "burst" | "window":
                return _three("x-ratelimit-{}-" + name, bucket.capacity, remaining, f"{missing:.3f}s")
            case "anthropic":
                date = datetime.fromtimestamp(WALL + self._now, UTC)
                full = datetime.fromtimestamp(math.ceil(WALL + self._now + missing), UTC)
                texts = _three(
                    f"anthropic-ratelimit-{name}-{{}}", bucket.rate * 60, remaining, full.isoformat()
                )
                return texts | {"date": format_datetime(date, usegmt=True)}
            case "ietf" if name == "requests":
                window = bucket.capacity / bucket.rate
                return {
                    "ratelimit-policy": f'"default";q={bucket.capacity:.0f};w={window:.0f}',
                    "ratelimit": f'"default";r={remaining};t={math.ceil(missing)}',
                }
            case _:
                return {}

    def _answer(self, given: Leased, settlement: Settlement) -> None:
        self._take(self._pool.settle(given.lease, asker=given.asker, settlement=settlement, now=self._now))
        if settlement.error is None:
            self._done += 1
            self.result.seconds = self._now
            self._next_call(given.item)
        else:
            self._ask(given.item, given.model)

    def _ideal(self, mean: float) -> float:
        """Return the shortest time in which the buckets let all calls of this mean size through."""
        low, high = 0.0, 1e6
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if self._most(middle, mean) < self.world.calls else (low, middle)
        return high

    def _most(self, seconds: float, mean: float) -> float:
        total = 0.0
        for quota in self.world.quotas.values():
            allowed = quota.burst + quota.per_second * seconds
            if quota.tokens_per_second:
                allowed = min(allowed, (quota.token_burst + quota.tokens_per_second * seconds) / mean)
            total += allowed * (len(self.world.models) if self.world.per_model else 1)
        return total


def _three(name: str, limit: float, remaining: str, reset: str) -> dict[str, str]:
    return {
        name.format("limit"): f"{limit:.0f}",
        name.format("remaining"): remaining,
        name.format("reset"): reset,
    }


def even(count: int = 4, *, per_second: float = 4.0, burst: float = 4.0) -> dict[str, Quota]:
    return {f"key-{n}": Quota(per_second=per_second, burst=burst) for n in range(1, count + 1)}


def with_tokens(per_second: float, burst: float) -> dict[str, Quota]:
    quota = Quota(per_second=4.0, burst=4.0, tokens_per_second=per_second, token_burst=burst)
    return {f"key-{n}": quota for n in range(1, 5)}


UNEVEN = {
    f"key-{n}": Quota(per_second=rate, burst=rate) for n, rate in enumerate((20.0, 10.0, 5.0, 5.0), start=1)
}


def told(quotas: dict[str, Quota], *, burst: bool = True, wrong: float = 1.0) -> list[KeySpec]:
    return [
        KeySpec(
            id=key,
            provider="p",
            rpm=quota.per_second * 60 * wrong,
            tpm=quota.tokens_per_second * 60 if quota.tokens_per_second else None,
            burst=int(quota.burst) if burst else None,
        )
        for key, quota in quotas.items()
    ]


def untold(quotas: dict[str, Quota]) -> list[KeySpec]:
    return [KeySpec(id=key, provider="p", gentle=True) for key in quotas]
