"""How the key pool stands at a moment, for people, scheduler and report. Pure, changes nothing."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from agentos.credentials.headers import Limit
from agentos.credentials.key_state import Group, Hurdle, Key, KeyState, key_hurdle
from agentos.credentials.pool_state import PoolState, Queue, Turn, lane_hurdle
from agentos.credentials.ticks import tick_span
from agentos.events.catalogue import WaitKind

BETWEEN = 2.0  # an item spends about as long between its calls as in them
SOON = 60.0  # seconds; a budget with no room for longer than this takes part in nothing now
_RESTS = frozenset({KeyState.RATE_LIMITED, KeyState.QUOTA_EXHAUSTED})
_DAY_SPENT = f"{Limit.RPD} budget"


@dataclass(frozen=True, kw_only=True)
class BudgetView:
    """One limit of a key's group for one model."""

    model: str
    limit: str  # "rpm"
    value: float  # the one that counts
    learnt: bool  # told by the provider, and lower than what is configured if anything is
    room: float  # left at this moment; below 0 is debt
    capacity: float  # most that may go at once


@dataclass(frozen=True, kw_only=True)
class KeyView:
    """One key."""

    id: str
    provider: str
    group: str
    state: KeyState
    until: float | None
    reason: str | None
    in_flight: int
    limit: int  # calls at once, now
    calls: int
    rate_limited: int
    tokens_in: int
    tokens_out: int
    budgets: tuple[BudgetView, ...]


@dataclass(frozen=True, kw_only=True)
class WaitingView:
    """One item that waits for a lease."""

    item: str
    number: int
    provider: str
    model: str
    since: float
    position: int  # 0 is next, among those that the same keys may serve
    reason: str
    until: float | None  # estimate; None where it depends on calls in flight


@dataclass(frozen=True, kw_only=True)
class Exhausted:
    """Nobody can be served until a time; None where no time helps."""

    until: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class ProviderView:
    """What is left of one provider."""

    provider: str
    keys: int
    usable_keys: int
    exhausted: Exhausted | None


@dataclass(frozen=True, kw_only=True)
class PoolSnapshot:
    """The whole pool."""

    at: float
    keys: tuple[KeyView, ...]
    waiting: tuple[WaitingView, ...]
    providers: tuple[ProviderView, ...]
    in_flight: int
    usable_keys: int  # neither resting nor disabled
    exhausted: Exhausted | None  # of every provider that is waited for; of all, where nobody waits
    useful_parallel: int


class Why(NamedTuple):
    """What the next request of a queue waits for."""

    reason: str
    until: float | None
    kind: WaitKind = WaitKind.KEY


def why_waiting(queue: Queue, now: float) -> Why:
    """Return what keeps the first request of a queue back, and the earliest time at which that may end."""
    return why_not_served(next(turn for turn in queue.lane.turns() if turn.queue is queue), now)


def why_not_served(turn: Turn, now: float) -> Why:
    """Return the same of a queue and the keys that it may have."""
    lane = turn.queue.lane
    if (hurdle := lane_hurdle(lane, now)) is not None:
        return Why(f"{lane.model} is overloaded", hurdle.until, WaitKind.OVERLOADED)
    if not turn.keys:
        return Why("earlier requests", None)
    cost = lane.estimate.cost(turn.queue.head().tokens)
    hurdles: dict[Key, Hurdle] = {}
    for key in turn.keys:
        hurdle = key_hurdle(key, lane.model, cost, now)
        if hurdle is None:
            return Why("about to be served", now)
        if hurdle.kind != KeyState.DISABLED:
            hurdles[key] = hurdle
    times = [hurdle.until for hurdle in hurdles.values() if hurdle.until is not None]
    return Why(_in_words(hurdles), min(times, default=None))


def take_snapshot(pool_state: PoolState, now: float) -> PoolSnapshot:
    keys = tuple(_key_view(key, now) for key in pool_state.keys.values())
    providers = tuple(_provider_view(pool_state, name, now) for name in pool_state.by_provider)
    wanted = {ask.lane.provider for ask in pool_state.asks.values()}
    relevant = [one for one in providers if one.provider in wanted or not wanted]
    return PoolSnapshot(
        at=now,
        keys=keys,
        waiting=tuple(_waiting(pool_state, now)),
        providers=providers,
        in_flight=sum(key.in_flight for key in keys),
        usable_keys=sum(one.usable_keys for one in providers),
        exhausted=_worst(relevant),
        useful_parallel=useful_parallel(pool_state, now),
    )


def useful_parallel(pool_state: PoolState, now: float) -> int:
    """Return how many calls could be in flight: places of the usable keys, less where budgets are tighter."""
    return sum(_group_parallel(pool_state, group, now) for group in pool_state.groups.values())


def _group_parallel(pool_state: PoolState, group: Group, now: float) -> int:
    places = group.places()
    if group.rest.until is not None and group.rest.until > now:
        return 0
    paced, used = 0, False
    for model, budget in group.budgets.items():
        lane = pool_state.lanes.get((group.provider, model))
        if lane is None:
            continue
        used = True
        mean = lane.estimate.mean()
        if budget.room_at(mean, now).at > now + SOON:
            continue
        rate = budget.calls_per_second(mean)
        if rate is None or lane.seconds is None:
            return places
        paced += max(1, math.ceil(BETWEEN * rate * lane.seconds + budget.calls_at_once(mean)))
    return min(places, paced) if used else places


def _in_words(hurdles: dict[Key, Hurdle]) -> str:
    by_kind: dict[str, list[str]] = {}
    for key, hurdle in hurdles.items():
        by_kind.setdefault(hurdle.kind, []).append(key.spec.id)
    if not by_kind:
        return "all keys disabled"
    parts = []
    for kind, ids in by_kind.items():
        words = kind.replace("_", " ")
        who = ids[0] if len(ids) == 1 else f"{len(ids)} keys"
        if len(by_kind) == 1 and len(ids) > 1:
            who = "all keys"
        parts.append(words if kind.endswith("budget") and len(by_kind) == 1 else f"{who} {words}")
    return ", ".join(parts)


def _key_view(key: Key, now: float) -> KeyView:
    state = key.state(now)
    resting = state in _RESTS
    return KeyView(
        id=key.spec.id,
        provider=key.spec.provider,
        group=key.group.name,
        state=state,
        until=key.group.rest.until if resting else None,
        reason=key.disabled if state is KeyState.DISABLED else state.replace("_", " ") if resting else None,
        in_flight=key.in_flight,
        limit=key.places,
        calls=key.calls,
        rate_limited=key.rate_limited,
        tokens_in=key.tokens_in,
        tokens_out=key.tokens_out,
        budgets=tuple(_budget_views(key.group, now)),
    )


def _budget_views(group: Group, now: float) -> Iterable[BudgetView]:
    for model, budget in group.budgets.items():
        for which, value in budget.limits().items():
            bucket = budget.buckets[which]
            yield BudgetView(
                model=model,
                limit=which.value,
                value=value,
                learnt=budget.learnt.get(which) == value,
                room=bucket.level(now),
                capacity=bucket.capacity,
            )


def _waiting(pool_state: PoolState, now: float) -> Iterable[WaitingView]:
    for turn in (turn for lane in pool_state.lanes.values() for turn in lane.turns()):
        lane = turn.queue.lane
        why = why_not_served(turn, now)
        rate = _rate(turn.queue, now)
        for position, ask in enumerate(turn.queue.asks.values()):
            later = why.until if position == 0 else None
            if position and why.until is not None and rate:
                later = why.until + tick_span(position / rate)
            yield WaitingView(
                item=ask.asker.item,
                number=ask.number,
                provider=lane.provider,
                model=lane.model,
                since=ask.since,
                position=position,
                reason=why.reason,
                until=later,
            )


def _rate(queue: Queue, now: float) -> float | None:
    """Return the calls a second that all usable groups allow together, where all of them have limits."""
    groups = {id(key.group): key.group for key in queue.keys if key.disabled is None}
    total = 0.0
    for group in groups.values():
        if group.rest.until is not None and group.rest.until > now:
            continue
        rate = group.budget(queue.lane.model, now).calls_per_second(queue.lane.estimate.mean())
        if rate is None:
            return None
        total += rate
    return total or None


def _provider_view(pool_state: PoolState, provider: str, now: float) -> ProviderView:
    keys = pool_state.by_provider[provider]
    return ProviderView(
        provider=provider,
        keys=len(keys),
        usable_keys=sum(key.state(now) in {KeyState.AVAILABLE, KeyState.RESERVED} for key in keys),
        exhausted=_exhausted(pool_state, provider, now),
    )


def _exhausted(pool_state: PoolState, provider: str, now: float) -> Exhausted | None:
    """Return why a provider is of no use and until when; calls in flight and the pace do not count."""
    keys = [key for key in pool_state.by_provider[provider] if key.disabled is None]
    if not keys:
        return Exhausted(until=None, reason=f"all keys of {provider} disabled")
    queues = [
        queue
        for (name, _), lane in pool_state.lanes.items()
        if name == provider
        for queue in lane.queues.values()
    ]
    if queues:
        wanted = {key for queue in queues for key in queue.keys}
        keys = [key for key in keys if key in wanted] or keys
    hurdles: dict[Key, Hurdle] = {}
    for key in keys:
        found = [_hurdle(queue, key, now) for queue in queues if key in queue.keys]
        if not queues and key.state(now) in _RESTS:
            found = [Hurdle(key.state(now), key.group.rest.until)]
        lasting = [one for one in found if one is not None and one.kind in {*_RESTS, _DAY_SPENT}]
        if not found or len(lasting) < len(found):
            return None
        hurdles[key] = min(lasting, key=_end)
    return Exhausted(until=min(map(_end, hurdles.values())), reason=_in_words(hurdles))


def _hurdle(queue: Queue, key: Key, now: float) -> Hurdle | None:
    lane = queue.lane
    return key_hurdle(key, lane.model, lane.estimate.cost(queue.head().tokens), now)


def _end(hurdle: Hurdle) -> float:
    return math.inf if hurdle.until is None else hurdle.until


def _worst(providers: list[ProviderView]) -> Exhausted | None:
    found = [one.exhausted for one in providers if one.exhausted is not None]
    if not found or len(found) < len(providers):
        return None
    times = [one.until for one in found if one.until is not None]
    reason = "; ".join(dict.fromkeys(one.reason for one in found))
    return Exhausted(until=min(times, default=None), reason=reason)
