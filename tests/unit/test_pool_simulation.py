"""The pool against a model of a provider, in virtual time: how much of the quota is used, how much is refused."""

import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from agentos.credentials.events import Granted
from agentos.credentials.pool import CredentialCoordinator, KeySpec, Settlement
from agentos.llm.provider import ErrorClass

MODEL = "m"


class TrueBucket:
    """The provider's own count, kept apart from the code under test."""

    def __init__(self, rate: float, capacity: float) -> None:
        self.rate, self.capacity, self.level, self.at = rate, capacity, capacity, 0.0

    def refill(self, now: float) -> None:
        self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
        self.at = now


@dataclass(kw_only=True)
class Quota:
    """The true limits of one key (a group of its own)."""

    per_second: float
    burst: float
    tokens_per_second: float | None = None
    token_burst: float = 0.0


@dataclass(kw_only=True)
class World:
    """Keys, workers and a network of one experiment."""

    quotas: dict[str, Quota]
    keys: list[KeySpec]
    calls: int = 1600
    workers: int = 20
    send: tuple[float, float] = (0.0, 0.05)  # seconds from the grant to the provider
    service: tuple[float, float] = (0.05, 0.1)
    headers: bool = False
    retry_after: Callable[[float], float | None] = lambda wait: float(max(1, math.ceil(wait)))
    refused_costs: bool = False
    tokens: tuple[int, int] = (0, 0)  # of a call, really
    asked: int = 100  # tokens, as estimated
    seed: int = 1


@dataclass(kw_only=True)
class Result:
    seconds: float = 0.0
    ideal: float = 0.0
    sent: int = 0
    refused: int = 0
    wakes: int = 0
    tokens: int = 0  # of calls that were served
    by_key: dict[str, int] = field(default_factory=dict)

    @property
    def goodput(self) -> float:
        return self.ideal / self.seconds

    @property
    def refused_share(self) -> float:
        return self.refused / self.sent


def run(world: World) -> Result:
    chance = random.Random(world.seed)
    pool = CredentialCoordinator(world.keys)
    requests = {key: TrueBucket(q.per_second, q.burst) for key, q in world.quotas.items()}
    tokens = {
        key: TrueBucket(q.tokens_per_second, q.token_burst)
        for key, q in world.quotas.items()
        if q.tokens_per_second
    }
    result = Result(by_key=dict.fromkeys(world.quotas, 0))
    agenda: list[tuple[float, int, Callable[[], None]]] = []
    order = itertools.count()
    numbers = itertools.count(1)
    state = {"now": 0.0, "left": world.calls, "done": 0, "wake": math.inf}

    def at(when: float, what: Callable[[], None]) -> None:
        heapq.heappush(agenda, (when, next(order), what))

    def take(events: list) -> None:
        for event in events:
            if isinstance(event, Granted):
                at(state["now"] + chance.uniform(*world.send), lambda granted=event: arrive(granted))
        wake = pool.next_wake(state["now"])
        if wake is not None and wake < state["wake"]:
            state["wake"] = wake
            at(wake, lambda: advance(wake))

    def advance(wake: float) -> None:
        if wake == state["wake"]:
            state["wake"] = math.inf
            result.wakes += 1
            take(pool.advance(state["now"]))

    def ask(item: str) -> None:
        if state["left"] > 0:
            state["left"] -= 1
            ask_again(item)

    def ask_again(item: str) -> None:
        take(
            pool.request(
                item=item,
                number=next(numbers),
                provider="p",
                model=MODEL,
                tokens=world.asked,
                now=state["now"],
            )
        )

    def arrive(granted: Granted) -> None:
        now, key = state["now"], granted.key
        result.sent += 1
        bucket, size = requests[key], chance.randint(*world.tokens)
        needs = [(bucket, 1.0)] + ([(tokens[key], float(size))] if key in tokens else [])
        for one, _ in needs:
            one.refill(now)
        wait = max((need - one.level) / one.rate for one, need in needs)
        if wait > 1e-9:
            result.refused += 1
            if world.refused_costs:
                bucket.level -= 1.0
            settlement = Settlement(
                error=ErrorClass.RATE_LIMITED, retry_after=world.retry_after(wait), headers=headers(key)
            )
            at(now + chance.uniform(*world.send), lambda: answer(granted, settlement))
            return
        for one, need in needs:
            one.level -= need
        result.by_key[key] += 1
        result.tokens += size
        settlement = Settlement(tokens_in=size // 2, tokens_out=size - size // 2, headers=headers(key))
        at(now + chance.uniform(*world.service), lambda: answer(granted, settlement))

    def headers(key: str) -> dict[str, str]:
        if not world.headers:
            return {}
        found = {}
        for name, bucket in (("requests", requests[key]), ("tokens", tokens.get(key))):
            if bucket is not None:
                found[f"x-ratelimit-limit-{name}"] = f"{bucket.rate * 60:.0f}"
                found[f"x-ratelimit-remaining-{name}"] = str(max(0, math.floor(bucket.level)))
                full = (bucket.capacity - bucket.level) / bucket.rate
                found[f"x-ratelimit-reset-{name}"] = f"{full * 1000:.0f}ms"
        return found

    def answer(granted: Granted, settlement: Settlement) -> None:
        take(pool.settle(granted.lease, item=granted.item, settlement=settlement, now=state["now"]))
        if settlement.error is None:
            state["done"] += 1
            result.seconds = state["now"]
            ask(granted.item)
        else:
            ask_again(granted.item)

    for worker in range(world.workers):
        at(0.0, lambda item=f"item-{worker}": ask(item))
    while agenda and state["done"] < world.calls:
        state["now"], _, what = heapq.heappop(agenda)
        what()
    assert state["done"] == world.calls, "the pool stalled"
    result.ideal = _ideal(world, result.tokens / world.calls)
    return result


def _ideal(world: World, mean: float) -> float:
    """The shortest time in which the buckets let all calls of this mean size through."""

    def let_through(seconds: float) -> float:
        total = 0.0
        for quota in world.quotas.values():
            allowed = quota.burst + quota.per_second * seconds
            if quota.tokens_per_second:
                allowed = min(allowed, (quota.token_burst + quota.tokens_per_second * seconds) / mean)
            total += allowed
        return total

    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if let_through(middle) < world.calls else (low, middle)
    return high


def even(count: int, per_second: float = 4.0, burst: float = 4.0) -> dict[str, Quota]:
    return {f"key-{n}": Quota(per_second=per_second, burst=burst) for n in range(1, count + 1)}


def told(quotas: dict[str, Quota], **extra) -> list[KeySpec]:
    return [
        KeySpec(id=key, provider="p", rpm=quota.per_second * 60, burst=int(quota.burst), **extra)
        for key, quota in quotas.items()
    ]


def untold(quotas: dict[str, Quota]) -> list[KeySpec]:
    return [KeySpec(id=key, provider="p") for key in quotas]
