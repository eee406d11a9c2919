"""Grants leases to waiting requests, first come, first served. Pure."""

from collections.abc import Sequence

from agentos.credentials.key_state import Key, key_blocker
from agentos.credentials.pool_state import Ask, Lease, ModelState, PoolState, model_blocker, order
from agentos.credentials.quota import Cost
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased


def grant_all(pool_state: PoolState) -> list[PoolEvent]:
    """Grant everything that can go out now. A model that is stuck does not hold up the others."""
    if not pool_state.asks:
        return []
    events: list[PoolEvent] = []
    waiting = [queue for model_state in pool_state.models.values() for queue in model_state.queues.values()]
    wanted: dict[ModelState, set[Key]] = {}  # keys that an older request for the model waits for
    while waiting:
        queue = waiting[0] if len(waiting) == 1 else min(waiting, key=order)
        model_state, ask = queue.model_state, queue.head()
        cost = model_state.estimate.cost(ask.tokens)
        keys = queue.keys
        if model_state in wanted:
            keys = [key for key in keys if key not in wanted[model_state]]
        key = _choose(model_state, keys, cost, pool_state.now)
        if key is None:
            waiting.remove(queue)
            if len(model_state.queues) > 1:
                wanted.setdefault(model_state, set()).update(queue.keys)
            continue
        pool_state.remove_ask(ask)
        events.append(_grant(pool_state, ask, key, cost))
        if not queue.asks:
            waiting.remove(queue)
    return events


def _choose(model_state: ModelState, keys: Sequence[Key], cost: Cost, now: float) -> Key | None:
    """Return the key with the most room; among equals, the one that was idle longest."""
    if model_blocker(model_state, now) is not None:
        return None
    best: Key | None = None
    best_room = (0.0, 0)
    for key in keys:
        if key_blocker(key, model_state.model, cost, now) is not None:
            continue
        free = (key.call_limit - key.in_flight) / key.call_limit
        room = (min(free, key.group.budget(model_state.model, now).fullness(now)), -key.last_lease)
        if best is None or room > best_room:
            best, best_room = key, room
    return best


def _grant(pool_state: PoolState, ask: Ask, key: Key, cost: Cost) -> Leased:
    pool_state.last_lease += 1
    key.calls += 1
    key.last_lease = pool_state.last_lease
    budget = key.group.budget(ask.model_state.model, pool_state.now)
    lease = Lease(
        number=pool_state.last_lease,
        asker=ask.asker,
        call=ask.number,
        key=key,
        model_state=ask.model_state,
        asked=ask.tokens,
        cost=cost,
        grant=budget.charge(cost, pool_state.now),
        since=pool_state.now,
        waited=pool_state.now - ask.since,
        expires=pool_state.now + ask.lease_seconds,
    )
    pool_state.add_lease(lease)
    return lease.leased()
