"""A read-only view of the key pool at one moment, for the scheduler, the footer and the report. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentos.credentials.headers import Limit
from agentos.credentials.key_state import Blocker, Group, Key, KeyState, key_blocker
from agentos.credentials.pool_state import KeySet, PoolState, Queue, Turn, model_blocker
from agentos.credentials.quota import Quota  # noqa: TC001 - as others here
from agentos.credentials.ticks import tick_span
from agentos.events.catalogue import WaitKind

BETWEEN = 2.0  # an item spends about as much time between its calls as in them
SOON = 60.0  # seconds; a budget that has no room for longer than this does not count now
_LIMITED = frozenset({KeyState.RATE_LIMITED, KeyState.QUOTA_EXHAUSTED})
_DAY_SPENT = f"{Limit.RPD} budget"


@dataclass(frozen=True, kw_only=True)
class BudgetView:
    """One limit of a key's group for one model."""

    model: str
    limit: str  # "rpm"
    value: float  # the one that counts
    learnt: bool  # named by the provider, and lower than the configured limit, if there is one
    room: float  # left now; below 0 is debt
    capacity: float  # the most that may go out together


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
    limit: int  # calls in flight allowed now
    calls: int
    rate_limited: int
    tokens_in: int
    tokens_out: int
    budgets: tuple[BudgetView, ...]


@dataclass(frozen=True, kw_only=True)
class WaitingView:
    """One item that is waiting for a lease."""

    item: str
    number: int
    provider: str
    model: str
    since: float
    position: int  # 0 is next, among the requests that the same keys may serve
    reason: str
    until: float | None  # estimate; None if it depends on calls in flight


@dataclass(frozen=True, kw_only=True)
class Exhausted:
    """No request can be served until this time; None if waiting does not help."""

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
    usable_keys: int  # neither rate limited, quota exhausted nor disabled
    exhausted: Exhausted | None  # of every provider that requests wait for; of all providers if nothing waits
    useful_parallel: int


class Why(NamedTuple):
    """What the next request of a queue is waiting for."""

    reason: str
    until: float | None
    kind: WaitKind = WaitKind.KEY


def why_waiting(queue: Queue, now: float) -> Why:
    """Return what blocks the first request of a queue, and the earliest time at which that may end."""
    return why_not_served(next(turn for turn in queue.model_state.turns() if turn.queue is queue), now)


def why_not_served(turn: Turn, now: float) -> Why:
    """Return the same for a queue and the keys that it may use."""
    model_state = turn.queue.model_state
    if (blocker := model_blocker(model_state, now)) is not None:
        return Why(f"{model_state.model} is overloaded", blocker.until, WaitKind.OVERLOADED)
    if not turn.keys:
        return Why("earlier requests", None)
    cost = model_state.estimate.cost(turn.queue.head().tokens)
    blockers: dict[Key, Blocker] = {}
    for key in turn.keys:
        blocker = key_blocker(key, model_state.model, cost, now)
        if blocker is None:
            return Why("about to be served", now)
        if blocker.kind != KeyState.DISABLED:
            blockers[key] = blocker
    times = [blocker.until for blocker in blockers.values() if blocker.until is not None]
    return Why(_in_words(blockers), min(times, default=None))


def take_snapshot(
    pool_state: PoolState, now: float, *, keys: KeySet = None, run: str | None = None
) -> PoolSnapshot:
    """Return the state of everything; of these keys and the requests of this run, if they are given."""
    own = [key for key in pool_state.keys.values() if keys is None or key.spec.id in keys]
    by_provider: dict[str, list[Key]] = {}
    for key in own:
        by_provider.setdefault(key.spec.provider, []).append(key)
    in_flight = sum(len(held) for asker, held in pool_state.held.items() if run in {None, asker.run_id})
    return _whole(
        at=now,
        keys=tuple(_key_view(key, now) for key in own),
        waiting=tuple(_waiting(pool_state, now, run)),
        providers=tuple(_provider_view(pool_state, theirs, run, now) for theirs in by_provider.values()),
        in_flight=in_flight,
        useful_parallel=useful_parallel(pool_state, now, keys),
    )


def combine(snapshots: Sequence[PoolSnapshot]) -> PoolSnapshot:
    """Return one snapshot of several pools."""
    return _whole(
        at=max(one.at for one in snapshots),
        keys=tuple(key for one in snapshots for key in one.keys),
        waiting=tuple(ask for one in snapshots for ask in one.waiting),
        providers=tuple(provider for one in snapshots for provider in one.providers),
        in_flight=sum(one.in_flight for one in snapshots),
        useful_parallel=sum(one.useful_parallel for one in snapshots),
    )


def _whole(
    *,
    at: float,
    keys: tuple[KeyView, ...],
    waiting: tuple[WaitingView, ...],
    providers: tuple[ProviderView, ...],
    in_flight: int,
    useful_parallel: int,
) -> PoolSnapshot:
    wanted = {ask.provider for ask in waiting}
    return PoolSnapshot(
        at=at,
        keys=keys,
        waiting=waiting,
        providers=providers,
        in_flight=in_flight,
        usable_keys=sum(one.usable_keys for one in providers),
        exhausted=_worst([one for one in providers if one.provider in wanted or not wanted]),
        useful_parallel=useful_parallel,
    )


def useful_parallel(pool_state: PoolState, now: float, keys: KeySet = None) -> int:
    """Return how many calls could be in flight with the usable keys, or fewer if the budgets are tighter."""
    groups = [
        group
        for group in pool_state.groups.values()
        if keys is None or not keys.isdisjoint(key.spec.id for key in group.keys)
    ]
    return sum(_group_parallel(pool_state, group, now) for group in groups)


def _group_parallel(pool_state: PoolState, group: Group, now: float) -> int:
    call_limit = group.call_limit()
    if group.cooldown.until is not None and group.cooldown.until > now:
        return 0
    calls: dict[Quota, int] = {}  # several models may share one budget: the one with the longest calls counts
    for model, budget in group.budgets.items():
        model_state = pool_state.models.get((group.provider, model))
        if model_state is None:
            continue
        calls.setdefault(budget, 0)
        mean = model_state.estimate.mean()
        if budget.room_at(mean, now).at > now + SOON:
            continue
        rate = budget.calls_per_second(mean)
        if rate is None or model_state.seconds is None:
            return call_limit
        paced = max(1, math.ceil(BETWEEN * rate * model_state.seconds + budget.calls_at_once(mean)))
        calls[budget] = max(calls[budget], paced)
    return min(call_limit, sum(calls.values())) if calls else call_limit


def _in_words(blockers: dict[Key, Blocker]) -> str:
    by_kind: dict[str, list[str]] = {}
    for key, blocker in blockers.items():
        by_kind.setdefault(blocker.kind, []).append(key.spec.id)
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
    limited = state in _LIMITED
    return KeyView(
        id=key.spec.id,
        provider=key.spec.provider,
        group=key.group.name,
        state=state,
        until=key.group.cooldown.until if limited else None,
        reason=key.disabled if state is KeyState.DISABLED else state.replace("_", " ") if limited else None,
        in_flight=key.in_flight,
        limit=key.call_limit,
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


def _waiting(pool_state: PoolState, now: float, run: str | None) -> Iterable[WaitingView]:
    for turn in (turn for model_state in pool_state.models.values() for turn in model_state.turns()):
        model_state = turn.queue.model_state
        why = why_not_served(turn, now)
        rate = _rate(turn.queue, now)
        for position, ask in enumerate(turn.queue.asks.values()):
            if run not in {None, ask.asker.run_id}:
                continue
            later = why.until if position == 0 else None
            if position and why.until is not None and rate:
                later = why.until + tick_span(position / rate)
            yield WaitingView(
                item=ask.asker.item,
                number=ask.number,
                provider=model_state.provider,
                model=model_state.model,
                since=ask.since,
                position=position,
                reason=why.reason,
                until=later,
            )


def _rate(queue: Queue, now: float) -> float | None:
    """Return the calls per second that all usable groups allow together, if all of them have limits."""
    groups = {id(key.group): key.group for key in queue.keys if key.disabled is None}
    total = 0.0
    for group in groups.values():
        if group.cooldown.until is not None and group.cooldown.until > now:
            continue
        rate = group.budget(queue.model_state.model, now).calls_per_second(queue.model_state.estimate.mean())
        if rate is None:
            return None
        total += rate
    return total or None


def _provider_view(pool_state: PoolState, keys: list[Key], run: str | None, now: float) -> ProviderView:
    """Return the state of a provider with these keys, for the requests of a run, or of all."""
    return ProviderView(
        provider=keys[0].spec.provider,
        keys=len(keys),
        usable_keys=sum(key.state(now) in {KeyState.AVAILABLE, KeyState.RESERVED} for key in keys),
        exhausted=_exhausted(pool_state, keys, run, now),
    )


def _exhausted(pool_state: PoolState, keys: list[Key], run: str | None, now: float) -> Exhausted | None:
    """Return why a provider cannot be used and until when. Calls in flight and the pace do not count."""
    provider = keys[0].spec.provider
    keys = [key for key in keys if key.disabled is None]
    if not keys:
        return Exhausted(until=None, reason=f"all keys of {provider} disabled")
    queues = [
        queue
        for (name, _), model_state in pool_state.models.items()
        if name == provider
        for queue in model_state.queues.values()
        if run is None or any(ask.asker.run_id == run for ask in queue.asks.values())
    ]
    if queues:
        wanted = {key for queue in queues for key in queue.keys}
        keys = [key for key in keys if key in wanted] or keys
    blockers: dict[Key, Blocker] = {}
    for key in keys:
        found = [_blocker(queue, key, now) for queue in queues if key in queue.keys]
        if not queues and key.state(now) in _LIMITED:
            found = [Blocker(key.state(now), key.group.cooldown.until)]
        lasting = [one for one in found if one is not None and one.kind in {*_LIMITED, _DAY_SPENT}]
        if not found or len(lasting) < len(found):
            return None
        blockers[key] = min(lasting, key=_end)
    return Exhausted(until=min(map(_end, blockers.values())), reason=_in_words(blockers))


def _blocker(queue: Queue, key: Key, now: float) -> Blocker | None:
    model_state = queue.model_state
    return key_blocker(key, model_state.model, model_state.estimate.cost(queue.head().tokens), now)


def _end(blocker: Blocker) -> float:
    return math.inf if blocker.until is None else blocker.until


def _worst(providers: list[ProviderView]) -> Exhausted | None:
    found = [one.exhausted for one in providers if one.exhausted is not None]
    if not found or len(found) < len(providers):
        return None
    times = [one.until for one in found if one.until is not None]
    reason = "; ".join(dict.fromkeys(one.reason for one in found))
    return Exhausted(until=min(times, default=None), reason=reason)
