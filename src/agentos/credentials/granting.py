"""Gives leases to those who wait, first come first served. Pure."""

from collections.abc import Sequence

from agentos.credentials.budget import Cost
from agentos.credentials.key_state import Key, key_hurdle
from agentos.credentials.pool_state import Ask, Lane, Lease, PoolState, lane_hurdle, order
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased


def grant_all(pool_state: PoolState) -> list[PoolEvent]:
    """Grant all that can go out now; a model that is stuck holds up no other."""
    if not pool_state.asks:
        return []
    events: list[PoolEvent] = []
    waiting = [queue for lane in pool_state.lanes.values() for queue in lane.queues.values()]
    wanted: dict[Lane, set[Key]] = {}  # keys that an older request for the model waits for
    while waiting:
        queue = waiting[0] if len(waiting) == 1 else min(waiting, key=order)
        lane, ask = queue.lane, queue.head()
        cost = lane.estimate.cost(ask.tokens)
        keys = queue.keys
        if lane in wanted:
            keys = [key for key in keys if key not in wanted[lane]]
        key = _choose(lane, keys, cost, pool_state.now)
        if key is None:
            waiting.remove(queue)
            if len(lane.queues) > 1:
                wanted.setdefault(lane, set()).update(queue.keys)
            continue
        pool_state.remove_ask(ask)
        events.append(_grant(pool_state, ask, key, cost))
        if not queue.asks:
            waiting.remove(queue)
    return events


def _choose(lane: Lane, keys: Sequence[Key], cost: Cost, now: float) -> Key | None:
    """Return the key with the most room; between equals the one that was idle longest."""
    if lane_hurdle(lane, now) is not None:
        return None
    best: Key | None = None
    best_room = (0.0, 0)
    for key in keys:
        if key_hurdle(key, lane.model, cost, now) is not None:
            continue
        free = (key.places - key.in_flight) / key.places
        room = (min(free, key.group.budget(lane.model, now).fullness(now)), -key.last_lease)
        if best is None or room > best_room:
            best, best_room = key, room
    return best


def _grant(pool_state: PoolState, ask: Ask, key: Key, cost: Cost) -> Leased:
    pool_state.last_lease += 1
    key.calls += 1
    key.last_lease = pool_state.last_lease
    budget = key.group.budget(ask.lane.model, pool_state.now)
    lease = Lease(
        number=pool_state.last_lease,
        asker=ask.asker,
        call=ask.number,
        key=key,
        lane=ask.lane,
        asked=ask.tokens,
        budget=budget,
        cost=cost,
        grant=budget.charge(cost, pool_state.now),
        since=pool_state.now,
        waited=pool_state.now - ask.since,
        expires=pool_state.now + ask.lease_seconds,
    )
    pool_state.add_lease(lease)
    return lease.leased()
