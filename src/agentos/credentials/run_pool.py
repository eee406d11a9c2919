"""The key pool as one run uses it: its own keys, requests and leases, in a state that other runs may share.

Coordinator process. Whoever opens the state grants what can be granted, also to the requests of other runs.
So a run looks at the state while one of its requests waits. Pure: the store has the clock and the data.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agentos.credentials.key_state import Key, KeyState, Settlement
from agentos.credentials.pool import WAKE_LEAST, CredentialCoordinator, PoolSnapshot
from agentos.credentials.pool_state import KeySet, Lease, PoolState
from agentos.credentials.pool_store import LoadedPool, PoolStore
from agentos.credentials.snapshot import take_snapshot
from agentos.credentials.ticks import tick
from agentos.errors import StorageBusy
from agentos.events.asker import Asker
from agentos.events.catalogue import AskerEvent, PoolEvent
from agentos.events.keys import (
    AskRefused,
    GroupLimited,
    KeyDisabled,
    KeyRecovered,
    Leased,
    LeaseExpired,
    QuotaExhausted,
    RateLimited,
    Refused,
)
from agentos.lease import LeaseNumber
from agentos.model import CallError

BUSY_SECONDS = 0.005  # until the next try if another run has the state
SAME_SECONDS = 1.0  # two ends of a cooldown that differ by less are the same

_Step = Callable[[CredentialCoordinator, float], list[PoolEvent]]


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """A request for a lease."""

    asker: Asker
    number: int
    provider: str
    model: str
    tokens: int
    keys: KeySet  # that may serve it


class _Seen(NamedTuple):
    """What the run last knew about a key."""

    disabled: str | None
    until: float | None


class RunPool:
    """One run's part of a pool. What another run delays is done later, in the same order."""

    def __init__(self, store: PoolStore, *, run: str, keys: KeySet = None) -> None:
        self._store = store
        self._run = run
        self._keys = keys  # this run's; None: all keys are
        self._steps: list[_Step] = []
        self._waiting: dict[tuple[str, str], _Wanted] = {}  # by run and item
        self._leases: dict[LeaseNumber, Asker] = {}
        self._expired: set[LeaseNumber] = set()  # leases that are known to have expired
        self._seen: dict[str, _Seen] | None = None
        self._wake: float | None = -math.inf  # the first look is at once
        self._look_at: float | None = None
        self._busy_until = -math.inf
        self._last: LoadedPool | None = None

    def request(
        self,
        *,
        item: str,
        attempt: int,
        number: int,
        provider: str,
        model: str,
        tokens: int,
        only: KeySet = None,
    ) -> None:
        """Queue for a lease; `advance` returns the answer. So the requests of one turn go together.

        `only` are the ids of the keys that may serve it, if not all of the run's keys may.
        """
        asker = Asker(self._run, item, attempt)
        keys = self._keys if only is None else only if self._keys is None else self._keys & only
        wanted = _Wanted(asker=asker, number=number, provider=provider, model=model, tokens=tokens, keys=keys)
        self._waiting[asker.work] = wanted
        self._steps.append(lambda pool, at: self._ask(pool, wanted, at))

    def settle(
        self, lease: LeaseNumber, item: str, attempt: int, settlement: Settlement, now: float
    ) -> list[PoolEvent]:
        """End a lease with the result of its call."""
        asker = Asker(self._run, item, attempt)
        self._leases.pop(lease, None)
        self._steps.append(lambda pool, at: pool.settle(lease, asker=asker, settlement=settlement, now=at))
        return self.advance(now)

    def withdraw(self, item: str, attempt: int, now: float) -> list[PoolEvent]:
        """Take back the waiting request of an attempt; it may ask again."""
        asker = Asker(self._run, item, attempt)
        wanted = self._waiting.get(asker.work)
        if wanted is None or wanted.asker != asker:
            return []
        del self._waiting[asker.work]
        self._steps.append(lambda pool, at: self._take_back(pool, wanted, at))
        return self.advance(now)

    def drop(self, item: str, attempt: int, now: float) -> list[PoolEvent]:
        """Forget an attempt whose worker is gone."""
        asker = Asker(self._run, item, attempt)
        waiting = self._waiting.get(asker.work)
        is_waiting = waiting is not None and waiting.asker == asker
        if is_waiting:
            del self._waiting[asker.work]
        elif self._keys is not None and asker not in self._leases.values():
            return []  # a shared state knows nothing about it
        self._leases = {lease: holder for lease, holder in self._leases.items() if holder != asker}
        self._steps.append(lambda pool, at: pool.drop(asker, at))
        return self.advance(now)

    def restore(self, data: object, now: float, wall: float) -> list[PoolEvent]:
        """Take over the health that a home keeps, see `health`."""
        self._steps.append(lambda pool, at: pool.restore(data, at, wall))
        return self.advance(now)

    def advance(self, now: float) -> list[PoolEvent]:
        """Do what is due, and return what happened to this run's keys and requests."""
        if now < self._busy_until:
            return []
        events: list[PoolEvent] = []
        try:
            if not self._steps and self._may_have_changed(now):
                events = self._look(now)
            if self._steps or self._is_due(now):
                events += self._step(now)
        except StorageBusy:
            self._busy_until = now + BUSY_SECONDS
        return events

    def next_wake(self, now: float) -> float | None:
        """Return when `advance` could next change anything; None if only an outside event can."""
        times = [one for one in (self._wake, self._look_at if self._waiting else None) if one is not None]
        if self._steps:
            times.append(now)
        return max(min(times), self._busy_until) if times else None

    def snapshot(self, now: float) -> PoolSnapshot:
        """Return the state of this run's keys, as last seen."""
        pool_state = self.pool(now).pool_state
        return take_snapshot(pool_state, max(pool_state.now, tick(now)), keys=self._keys, run=self._run)

    def pool(self, now: float) -> CredentialCoordinator:
        """Return the pool, as last seen."""
        return (self._last or self._store.look(now)).pool

    def _is_due(self, now: float) -> bool:
        return self._wake is not None and now >= self._wake

    def _may_have_changed(self, now: float) -> bool:
        if self._look_at is None or not self._waiting:
            return False
        return now >= self._look_at or self._is_due(now) or self._store.heard()

    def _look(self, now: float) -> list[PoolEvent]:
        """See what other runs have done."""
        loaded = self._store.look(now)
        if not loaded.changed:
            self._keep(loaded)
            return []
        events = self._finish(loaded, self._news(loaded))
        for wanted in self._lost(loaded.pool):
            self._steps.append(lambda pool, at, wanted=wanted: self._ask(pool, wanted, at))  # type: ignore[misc]
        if self._wake is not None and self._wake <= loaded.now + WAKE_LEAST:
            self._wake = now  # what other runs have done may allow a call at once
        return events

    def _step(self, now: float) -> list[PoolEvent]:
        """Do everything that is queued in one transaction; if that fails, nothing was done."""
        with self._store.transaction(now) as loaded:
            events = self._news(loaded)
            for step in self._steps:
                events += step(loaded.pool, loaded.now)
            events += loaded.pool.advance(loaded.now)
            refused = {event.asker for event in events if isinstance(event, Refused | AskRefused)}
            for wanted in self._lost(loaded.pool):
                if wanted.asker not in refused:
                    events += self._ask(loaded.pool, wanted, loaded.now)
        self._steps.clear()
        return self._finish(loaded, events)

    def _ask(self, pool: CredentialCoordinator, wanted: _Wanted, now: float) -> list[PoolEvent]:
        return pool.request(
            asker=wanted.asker,
            number=wanted.number,
            provider=wanted.provider,
            model=wanted.model,
            tokens=wanted.tokens,
            now=now,
            keys=wanted.keys,
        )

    def _take_back(self, pool: CredentialCoordinator, wanted: _Wanted, now: float) -> list[PoolEvent]:
        """Remove a request. If another run granted it in the meantime, nobody knows: give the lease back."""
        events = pool.withdraw(wanted.asker, now)
        if (lease := self._lease_of(pool, wanted)) is not None:
            unused = Settlement(error=CallError.GIVEN_UP)
            pool.settle(lease.number, asker=wanted.asker, settlement=unused, now=now)
        return events

    def _lost(self, pool: CredentialCoordinator) -> list[_Wanted]:
        """Return the waiting requests that the state has no answer to: it was damaged and started over."""
        return [
            wanted
            for work, wanted in self._waiting.items()
            if work not in pool.pool_state.asks and self._lease_of(pool, wanted) is None
        ]

    def _lease_of(self, pool: CredentialCoordinator, wanted: _Wanted) -> Lease | None:
        leases = pool.pool_state.held.get(wanted.asker, {}).values()
        return next((lease for lease in leases if lease.call == wanted.number), None)

    def _finish(self, loaded: LoadedPool, events: list[PoolEvent]) -> list[PoolEvent]:
        """Return what is this run's business, with the answers that other runs' transactions gave it."""
        pool_state = loaded.pool.pool_state
        mine = [one for event in events if (one := self._mine(event)) is not None]
        for event in mine:
            if isinstance(event, Leased | Refused | AskRefused):
                self._answered(event)
        for wanted in list(self._waiting.values()):
            if (lease := self._lease_of(loaded.pool, wanted)) is not None:
                mine.append(lease.leased())
                self._answered(lease.leased())
        mine += self._expiries(pool_state, mine)
        self._seen = {key.spec.id: _Seen(key.disabled, key.group.cooldown.until) for key in self._own(loaded)}
        self._keep(loaded)
        times = [loaded.pool.next_wake(loaded.now), loaded.check_at if self._waiting else None]
        self._wake = min((time for time in times if time is not None), default=None)
        return mine

    def _expiries(self, pool_state: PoolState, events: list[PoolEvent]) -> list[PoolEvent]:
        """Return the leases of this run that expired in another run's transaction."""
        self._expired &= self._leases.keys()
        self._expired |= {event.lease for event in events if isinstance(event, LeaseExpired)}
        expired = self._leases.keys() & pool_state.expired.keys()
        new = [pool_state.expired[number] for number in sorted(expired - self._expired)]
        self._expired |= {lease.number for lease in new}
        return [
            LeaseExpired(
                at=pool_state.now,
                item=lease.asker.item,
                asker=lease.asker,
                number=lease.call,
                lease=lease.number,
                key=lease.key.spec.id,
            )
            for lease in new
        ]

    def _keep(self, loaded: LoadedPool) -> None:
        self._last = loaded
        self._look_at = None if loaded.look_again is None else loaded.now + loaded.look_again

    def _answered(self, event: Leased | Refused | AskRefused) -> None:
        wanted = self._waiting.get(event.asker.work)
        if wanted is not None and (wanted.asker, wanted.number) == (event.asker, event.number):
            del self._waiting[event.asker.work]
        if isinstance(event, Leased):
            self._leases[event.lease] = event.asker

    def _mine(self, event: PoolEvent) -> PoolEvent | None:
        """Return the event as this run sees it; None if it is about other runs or their keys."""
        if isinstance(event, AskerEvent):
            return event if event.asker.run_id == self._run else None
        if self._keys is None:
            return event
        if isinstance(event, GroupLimited):
            own = tuple(key for key in event.keys if key in self._keys)
            return replace(event, keys=own) if own else None
        key = getattr(event, "key", None)
        return event if key is None or key in self._keys else None

    def _own(self, loaded: LoadedPool) -> Iterable[Key]:
        keys = loaded.pool.pool_state.keys.values()
        return keys if self._keys is None else [key for key in keys if key.spec.id in self._keys]

    def _news(self, loaded: LoadedPool) -> list[PoolEvent]:
        """Return what other runs, or runs before this one, found out about this run's keys."""
        if not loaded.changed and self._seen is not None:
            return []
        events: list[PoolEvent] = []
        groups: set[int] = set()
        for key in self._own(loaded):
            before = (self._seen or {}).get(key.spec.id, _Seen(None, None))
            events += _key_news(key, before, loaded.now)
            if id(key.group) not in groups and _is_longer(key, before, loaded.now):
                groups.add(id(key.group))
                events.append(_limited(key, loaded.now))
        return events


def _key_news(key: Key, before: _Seen, now: float) -> Iterator[PoolEvent]:
    named: dict[str, Any] = {"at": now, "key": key.spec.id, "provider": key.spec.provider}
    if key.disabled is not None:
        if before.disabled is None:
            yield KeyDisabled(reason=key.disabled, **named)
    elif before.disabled is not None:
        yield KeyRecovered(reason="enabled by hand", **named)
    elif before.until is not None and key.group.cooldown.until is None:
        yield KeyRecovered(reason="cooldown is over", **named)


def _is_longer(key: Key, before: _Seen, now: float) -> bool:
    until = key.group.cooldown.until
    # Another run's clock may differ by a moment.
    return until is not None and until > now and (before.until is None or until > before.until + SAME_SECONDS)


def _limited(key: Key, now: float) -> PoolEvent:
    group = key.group
    until = group.cooldown.until or now
    named: dict[str, Any] = {
        "at": now,
        "key": key.spec.id,
        "group": group.name,
        "keys": group.key_ids,
        "provider": group.provider,
        "model": None,
        "until": until,
        "seconds": until - now,
        "told": group.cooldown.told,
    }
    if group.cooldown.state is KeyState.RATE_LIMITED:
        return RateLimited(**named)
    return QuotaExhausted(**named, credit=group.cooldown.is_repairable)
