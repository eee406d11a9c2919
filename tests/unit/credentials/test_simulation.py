"""The pool against a model of a provider, in virtual time: how much quota is used, how much is refused."""

import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from agentos.credentials.pool import CredentialCoordinator, KeySpec, Settlement
from agentos.events.asker import Asker
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased
from agentos.model import CallError


class TrueBucket:
    """The provider's own count, kept apart from the code under test."""

    def __init__(self, rate: float, capacity: float) -> None:
        self.rate, self.capacity, self.level, self.at = rate, capacity, capacity, 0.0

    def refill(self, now: float) -> None:
        self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
        self.at = now


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
    headers: bool = False
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
        self._requests = {key: TrueBucket(q.per_second, q.burst) for key, q in world.quotas.items()}
        self._tokens = {
            key: TrueBucket(quota.tokens_per_second, quota.token_burst)
            for key, quota in world.quotas.items()
            if quota.tokens_per_second
        }
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._numbers = itertools.count(1)
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
            self._ask(item)

    def _ask(self, item: str) -> None:
        self._take(
            self._pool.request(
                asker=Asker("run", item, 1),
                number=next(self._numbers),
                provider="p",
                model="m",
                tokens=self.world.asked,
                now=self._now,
            )
        )

    def _arrive(self, given: Leased) -> None:
        size = self._chance.randint(*self.world.tokens)
        needs = [(self._requests[given.key], 1.0)]
        if given.key in self._tokens:
            needs.append((self._tokens[given.key], float(size)))
        for bucket, _ in needs:
            bucket.refill(self._now)
        wait = max((need - bucket.level) / bucket.rate for bucket, need in needs)
        self.result.sent += 1
        if wait > 1e-9:
            self.result.refused += 1
            if self.world.refused_costs:
                self._requests[given.key].level -= 1.0
            settlement = Settlement(
                error=CallError.RATE_LIMITED,
                retry_after=self.world.retry_after(wait),
                headers=self._headers(given.key),
            )
            back = self.world.send
        else:
            for bucket, need in needs:
                bucket.level -= need
            self.result.by_key[given.key] += 1
            self.result.tokens += size
            settlement = Settlement(
                tokens_in=size // 2, tokens_out=size - size // 2, headers=self._headers(given.key)
            )
            back = self.world.service
        self._at(self._now + self._chance.uniform(*back), partial(self._answer, given, settlement))

    def _headers(self, key: str) -> dict[str, str]:
        found: dict[str, str] = {}
        buckets = {"requests": self._requests[key], "tokens": self._tokens.get(key)}
        for name, bucket in buckets.items() if self.world.headers else ():
            if bucket is not None:
                found[f"x-ratelimit-limit-{name}"] = f"{bucket.rate * 60:.0f}"
                found[f"x-ratelimit-remaining-{name}"] = str(max(0, math.floor(bucket.level)))
                missing = (bucket.capacity - bucket.level) / bucket.rate
                found[f"x-ratelimit-reset-{name}"] = f"{missing * 1000:.0f}ms"
        return found

    def _answer(self, given: Leased, settlement: Settlement) -> None:
        self._take(self._pool.settle(given.lease, asker=given.asker, settlement=settlement, now=self._now))
        if settlement.error is None:
            self._done += 1
            self.result.seconds = self._now
            self._next_call(given.item)
        else:
            self._ask(given.item)

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
            total += allowed
        return total


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
    return [KeySpec(id=key, provider="p") for key in quotas]


seeds = pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])


@seeds
@pytest.mark.parametrize("calls", [400, 1200])
@pytest.mark.parametrize("burst", [True, False])
def test_configured_limits_are_used_up_and_hardly_ever_refused(seed: int, calls: int, burst: bool) -> None:
    quotas = even()
    result = Experiment(World(quotas=quotas, keys=told(quotas, burst=burst), calls=calls, seed=seed)).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01


@seeds
@pytest.mark.parametrize("calls", [400, 1200])
def test_limits_learnt_from_headers(seed: int, calls: int) -> None:
    quotas = even()
    result = Experiment(World(quotas=quotas, keys=untold(quotas), headers=True, calls=calls, seed=seed)).run()
    assert result.goodput >= 0.90
    assert result.refused_share < 0.05


@seeds
@pytest.mark.parametrize("learn", [False, True])
def test_uneven_keys_are_each_used_up(seed: int, learn: bool) -> None:
    keys = untold(UNEVEN) if learn else told(UNEVEN)
    result = Experiment(World(quotas=UNEVEN, keys=keys, headers=learn, calls=1000, seed=seed)).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01
    assert result.by_key["key-1"] == pytest.approx(500, rel=0.03)
    assert result.by_key["key-4"] == pytest.approx(125, rel=0.03)


@seeds
@pytest.mark.parametrize("learn", [False, True])
def test_refused_calls_that_cost_quota(seed: int, learn: bool) -> None:
    quotas = even()
    keys = untold(quotas) if learn else told(quotas)
    result = Experiment(
        World(quotas=quotas, keys=keys, headers=learn, refused_costs=True, calls=400, seed=seed)
    ).run()
    assert result.goodput >= (0.90 if learn else 0.97)
    assert result.refused_share < (0.05 if learn else 0.01)


@seeds
def test_the_peers_experiment(seed: int) -> None:
    """4 keys of 10 calls a second and burst 10, 400 calls of 50 ms, 20 at once."""
    quotas = even(per_second=10.0, burst=10.0)
    world = World(quotas=quotas, keys=told(quotas), calls=400, service=(0.05, 0.05), seed=seed)
    result = Experiment(world).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01


@seeds
@pytest.mark.parametrize("asked", [1_000, 4_000, 10_000])
def test_a_token_budget_is_used_up_however_rough_the_estimate(seed: int, asked: int) -> None:
    quotas = with_tokens(2_000.0, 2_000.0)
    world = World(quotas=quotas, keys=told(quotas), tokens=(800, 1_200), asked=asked, calls=400, seed=seed)
    result = Experiment(world).run()
    assert result.goodput >= 0.97
    assert result.refused_share < 0.01


@seeds
def test_token_limits_learnt_from_headers(seed: int) -> None:
    quotas = with_tokens(2_000.0, 2_000.0)
    world = World(
        quotas=quotas,
        keys=untold(quotas),
        headers=True,
        tokens=(800, 1_200),
        asked=1_000,
        calls=400,
        seed=seed,
    )
    result = Experiment(world).run()
    assert result.goodput >= 0.90
    assert result.refused_share < 0.05


def test_long_calls_need_many_at_once_and_get_them() -> None:
    quotas = even()
    world = World(quotas=quotas, keys=told(quotas), service=(5.0, 10.0), workers=200, calls=3200)
    result = Experiment(world).run()
    # The last calls take up to 10 s after the last bit of quota is used.
    assert result.ideal / (result.seconds - 10.0) >= 0.97
    assert result.refused == 0


@seeds
def test_limits_configured_twice_too_high_are_found_out(seed: int) -> None:
    quotas = even()
    result = Experiment(
        World(quotas=quotas, keys=told(quotas, burst=False, wrong=2.0), calls=1600, seed=seed)
    ).run()
    assert result.goodput >= 0.90
    assert result.refused_share < 0.05


def test_nothing_known_and_nothing_told_still_gets_all_calls_through() -> None:
    quotas = even(1)
    world = World(quotas=quotas, keys=untold(quotas), calls=100, retry_after=lambda _: None)
    assert sum(Experiment(world).run().by_key.values()) == 100


def test_no_polling() -> None:
    quotas = even()
    result = Experiment(World(quotas=quotas, keys=told(quotas), calls=1600)).run()
    assert result.wakes <= 2 * 1600
