"""The key pool: leases calls to items, paces every key ahead of its limits, and rests what is refused.

A pure state machine, used in the coordinator: time comes in as an argument, what happened goes out as events,
and no secret is ever seen here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentos.credentials import health
from agentos.credentials.budget import Cost
from agentos.credentials.events import (
    Event,
    Granted,
    KeyDisabled,
    KeyRecovered,
    LeaseExpired,
    QuotaExhausted,
    RateLimited,
    Refused,
    Returned,
    Settled,
    SettleRefused,
    Waiting,
)
from agentos.credentials.outcome import BACKOFF, Judge
from agentos.credentials.snapshot import PoolSnapshot, take_snapshot, useful_parallel, why_waiting
from agentos.credentials.states import (
    UNUSABLE,
    Ask,
    Backoff,
    Book,
    Group,
    Key,
    KeySpec,
    KeyState,
    Lane,
    Lease,
    Settlement,
    key_hurdle,
    lane_hurdle,
    token_count,
)
from agentos.llm.provider import ErrorClass

WAKE_LEAST = 0.001  # seconds; a wake sooner than this would be a busy loop

__all__ = ["Backoff", "CredentialCoordinator", "KeySpec", "KeyState", "PoolSnapshot", "Settlement"]


class CredentialCoordinator:
    """Owns the state of every key; every method says what time it is and gets back what happened."""

    def __init__(
        self,
        keys: Sequence[KeySpec],
        *,
        lease_seconds: float = 900.0,
        backoff: Backoff = BACKOFF,
        capacity_backoff: Backoff = BACKOFF,
    ) -> None:
        self._book = Book(keys)
        self._lease_seconds = lease_seconds
        self._backoff = backoff
        self._capacity_backoff = capacity_backoff
        self._now = float("-inf")
        self._last_lease = 0
        self._last_ask = 0

    def request(
        self, *, item: str, number: int, provider: str, model: str, tokens: int, now: float
    ) -> list[Event]:
        """Queue an item for a lease; the same request again changes nothing, another one takes its place."""
        events = self._tick(now)
        book = self._book
        if (waiting := book.asks.get(item)) is not None:
            if waiting.number == number:
                return events + self._pump()
            self._forget(waiting)
        for lease in book.held.get(item, {}).values():
            if lease.call == number and lease.number in book.leases:
                return [*events, lease.granted, *self._pump()]
        if (reason := self._unservable(provider)) is not None:
            return [*events, *self._pump(), self._refuse(item, number, provider, model, reason)]
        self._last_ask += 1
        lane = book.lane(provider, model)
        ask = Ask(item, number, token_count(tokens), lane, self._last_ask, self._now)
        lane.queue[item] = book.asks[item] = ask
        events += self._pump()
        if book.asks.get(item) is ask:
            why = why_waiting(lane, self._now)
            events.append(
                Waiting(
                    at=self._now,
                    item=item,
                    number=number,
                    provider=provider,
                    model=model,
                    reason=why.reason,
                    until=why.until,
                    overloaded=why.overloaded,
                )
            )
        return events

    def settle(self, lease: int, *, item: str, settlement: Settlement, now: float) -> list[Event]:
        """Take back a lease with what came of its call."""
        events = self._tick(now)
        held = self._book.leases.get(lease)
        if held is None or held.item != item:
            reason = self._why_not_held(lease, held)
            events.append(SettleRefused(at=self._now, item=item, lease=lease, reason=reason))
            return events + self._pump()
        key, error = held.key, settlement.error
        settlement = replace(
            settlement,
            tokens_in=token_count(settlement.tokens_in),
            tokens_out=token_count(settlement.tokens_out),
        )
        key.tokens_in += settlement.tokens_in
        key.tokens_out += settlement.tokens_out
        events.append(
            Settled(
                at=self._now,
                item=item,
                number=held.call,
                lease=lease,
                key=key.spec.id,
                tokens_in=settlement.tokens_in,
                tokens_out=settlement.tokens_out,
                error=None if error is None else error.value,
                seconds=self._now - held.since,
            )
        )
        events += self._judge().judge(held, settlement)
        if error is ErrorClass.KEY_REJECTED:
            events += self._disable(key, "rejected by the provider")
        self._release(held)
        return events + self._pump()

    def drop(self, item: str, now: float) -> list[Event]:
        """Forget an item whose worker is gone for sure: its leases, expired ones too, return at once."""
        events = self._tick(now)
        if (ask := self._book.asks.get(item)) is not None:
            self._forget(ask)
        for lease in list(self._book.held.get(item, {}).values()):
            self._release(lease)
            events.append(
                Returned(
                    at=self._now, item=item, number=lease.call, lease=lease.number, key=lease.key.spec.id
                )
            )
        return events + self._pump()

    def advance(self, now: float) -> list[Event]:
        """Let time pass: expire leases, wake rested keys, grant what can be granted."""
        return self._tick(now) + self._pump()

    def next_wake(self, now: float) -> float | None:
        """Return when `advance` could next change anything; None where only an outside event can."""
        now = max(now, self._now)
        times = [group.rest.until for group in self._book.groups.values() if group.rest.until is not None]
        if self._book.leases:
            times.append(next(iter(self._book.leases.values())).expires)
        whys = (why_waiting(lane, now) for lane in self._book.lanes.values() if lane.queue)
        times += [why.until for why in whys if why.until is not None]
        return max(min(times), now + WAKE_LEAST) if times else None

    def snapshot(self, now: float) -> PoolSnapshot:
        """Return how everything stands, without changing it."""
        return take_snapshot(self._book, max(now, self._now))

    def useful_parallel(self, now: float) -> int:
        """Return how many calls could be in flight, given the keys and budgets of now."""
        return useful_parallel(self._book, max(now, self._now))

    def export(self, now: float, wall: float) -> dict[str, Any]:
        """Return the keys' health as JSON-able data with wall-clock times."""
        return health.export(self._book, max(now, self._now), wall)

    def restore(self, data: object, now: float, wall: float) -> list[Event]:
        """Take over health that was exported before; only ever adds rests, never ends one."""
        events = self._tick(now)
        for found in health.read(data, self._book, wall):
            events += self._take_over(found)
        return events + self._pump()

    def enable(self, key_id: str, now: float) -> list[Event]:
        """Clear what is held against a key, and the rest of its group; KeyError for an unknown id."""
        events = self._tick(now)
        key = self._book.keys[key_id]
        group = key.group
        idle = [one for one in group.keys if one.state(self._now) in UNUSABLE]
        if group.rest.until is not None and group.rest.state is KeyState.QUOTA_EXHAUSTED:
            group.renew(self._now)
        key.disabled = None
        group.rest.clear()
        events += [
            KeyRecovered(at=self._now, key=one.spec.id, provider=group.provider, reason="enabled by hand")
            for one in idle
            if one.disabled is None
        ]
        return events + self._pump()

    def _judge(self) -> Judge:
        return Judge(
            now=self._now,
            last_lease=self._last_lease,
            backoff=self._backoff,
            capacity_backoff=self._capacity_backoff,
        )

    def _take_over(self, found: health.KeyHealth) -> list[Event]:
        key, group, events = found.key, found.key.group, list[Event]()
        health.restore_budgets(found, self._now)
        if found.disabled is not None:
            events += self._disable(key, found.disabled)
        if found.rest is not None and self._judge().rest(
            group, found.rest.state, self._now + found.rest.seconds
        ):
            kind = RateLimited if found.rest.state is KeyState.RATE_LIMITED else QuotaExhausted
            events.append(
                kind(
                    at=self._now,
                    key=key.spec.id,
                    group=group.name,
                    keys=group.key_ids,
                    provider=group.provider,
                    model=None,
                    until=self._now + found.rest.seconds,
                    seconds=found.rest.seconds,
                    told=True,
                )
            )
        return events

    def _disable(self, key: Key, reason: str) -> list[Event]:
        """Stop using a key; requests that no key can serve any more are refused."""
        if key.disabled is not None:
            return []
        key.disabled = reason
        provider = key.spec.provider
        events: list[Event] = [KeyDisabled(at=self._now, key=key.spec.id, provider=provider, reason=reason)]
        if (why := self._unservable(provider)) is None:
            return events
        for ask in [ask for ask in self._book.asks.values() if ask.lane.provider == provider]:
            self._forget(ask)
            events.append(self._refuse(ask.item, ask.number, provider, ask.lane.model, why))
        return events

    def _refuse(self, item: str, number: int, provider: str, model: str, reason: str) -> Refused:
        return Refused(at=self._now, item=item, number=number, provider=provider, model=model, reason=reason)

    def _tick(self, now: float) -> list[Event]:
        """Bring the state to now; a clock that went back has not moved."""
        self._now = now = max(self._now, now)
        events: list[Event] = []
        leases = self._book.leases
        while leases and (lease := next(iter(leases.values()))).expires <= now:
            del leases[lease.number]
            self._book.expired[lease.number] = lease
            events.append(
                LeaseExpired(
                    at=now, item=lease.item, number=lease.call, lease=lease.number, key=lease.key.spec.id
                )
            )
        for group in self._book.groups.values():
            if group.rest.until is not None and group.rest.until <= now:
                events += self._woken(group)
        for lane in self._book.lanes.values():
            if lane.rest.until is not None and lane.rest.until <= now:
                lane.rest.wake(now)
        return events

    def _woken(self, group: Group) -> list[Event]:
        if group.rest.state is KeyState.QUOTA_EXHAUSTED:
            group.renew(self._now)
        group.rest.wake(self._now)
        return [
            KeyRecovered(at=self._now, key=key.spec.id, provider=group.provider, reason="rested")
            for key in group.keys
            if key.disabled is None
        ]

    def _pump(self) -> list[Event]:
        """Grant all that can go out now, first come first served; a lane that is stuck holds up no other."""
        events: list[Event] = []
        open_lanes = [lane for lane in self._book.lanes.values() if lane.queue]
        while open_lanes:
            lane = min(open_lanes, key=_oldest)
            ask = lane.head()
            cost = lane.estimate.cost(ask.tokens)
            key = self._choose(lane, cost)
            if key is None:
                open_lanes.remove(lane)
                continue
            self._forget(ask)
            events.append(self._grant(ask, key, cost))
            if not lane.queue:
                open_lanes.remove(lane)
        return events

    def _choose(self, lane: Lane, cost: Cost) -> Key | None:
        """Return the key with the most room; between equals the one that was idle longest."""
        if lane_hurdle(lane, self._now) is not None:
            return None
        best: Key | None = None
        best_room = (0.0, 0)
        for key in lane.keys:
            if key_hurdle(key, lane.model, cost, self._now) is not None:
                continue
            free = (key.places - key.in_flight) / key.places
            room = (min(free, key.group.budget(lane.model, self._now).fullness(self._now)), -key.last_lease)
            if best is None or room > best_room:
                best, best_room = key, room
        return best

    def _grant(self, ask: Ask, key: Key, cost: Cost) -> Granted:
        self._last_lease += 1
        number = self._last_lease
        expires = self._now + self._lease_seconds
        granted = Granted(
            at=self._now,
            item=ask.item,
            number=ask.number,
            lease=number,
            key=key.spec.id,
            provider=key.spec.provider,
            model=ask.lane.model,
            tokens=round(cost.tokens),
            waited=self._now - ask.since,
            expires=expires,
        )
        budget = key.group.budget(ask.lane.model, self._now)
        lease = Lease(
            number=number,
            item=ask.item,
            call=ask.number,
            key=key,
            lane=ask.lane,
            asked=ask.tokens,
            budget=budget,
            cost=cost,
            grant=budget.charge(cost, self._now),
            granted=granted,
            since=self._now,
            expires=expires,
        )
        key.in_flight += 1
        key.calls += 1
        key.last_lease = number
        key.group.rest.given()
        ask.lane.rest.given()
        self._book.leases[number] = lease
        self._book.held.setdefault(ask.item, {})[number] = lease
        return granted

    def _release(self, lease: Lease) -> None:
        self._book.leases.pop(lease.number, None)
        self._book.expired.pop(lease.number, None)
        held = self._book.held[lease.item]
        del held[lease.number]
        if not held:
            del self._book.held[lease.item]
        lease.key.in_flight -= 1
        lease.key.group.rest.returned(lease.number)
        lease.lane.rest.returned(lease.number)

    def _forget(self, ask: Ask) -> None:
        del self._book.asks[ask.item]
        del ask.lane.queue[ask.item]

    def _unservable(self, provider: str) -> str | None:
        """Return why no key of a provider will ever serve, if that is so."""
        keys = self._book.by_provider.get(provider)
        if not keys:
            return f"no key for {provider}"
        if any(key.disabled is None for key in keys):
            return None
        return "all keys disabled: " + ", ".join(f"{key.spec.id} ({key.disabled})" for key in keys)

    def _why_not_held(self, number: int, held: Lease | None) -> str:
        if held is not None:
            return "held by another item"
        if number in self._book.expired:
            return "expired"
        return "ended before" if 0 < number <= self._last_lease else "never given"


def _oldest(lane: Lane) -> int:
    return lane.head().order
