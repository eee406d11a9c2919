"""What came of a call, and what that means for its key, its quota group and its model. Pure."""

from dataclasses import dataclass

from agentos.credentials.budget import Cost
from agentos.credentials.headers import read_headers
from agentos.credentials.key_state import Backoff, Group, Key, KeyState, Settlement, usable_delay
from agentos.credentials.pool_state import Lease
from agentos.credentials.ticks import tick_span
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Capacity, CapacityRecovered, LimitLearnt, QuotaExhausted, RateLimited
from agentos.model import CallError

RATE_LIMIT_LONGEST = 3600.0  # seconds; a server that asks for more than this is asked again after it
QUOTA_LONGEST = 7 * 86_400.0
QUOTA_UNKNOWN = 3600.0  # seconds to rest where nobody says when the quota comes back
HALVE_COOLDOWN = 10.0  # seconds between two halvings of a group's calls at once
BACKOFF = Backoff(first=10.0, last=300.0)

# Calls that the provider turned away before it read them, so that they took no tokens.
_UNREAD = frozenset({CallError.BAD_REQUEST, CallError.CAPACITY, CallError.KEY_REJECTED})


@dataclass(frozen=True, kw_only=True)
class InFlightChanged(PoolEvent):
    """A key takes more or fewer calls at the same time; this is not recorded."""

    name = "in_flight_changed"
    key: str
    before: int
    limit: int


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Draws the consequences of calls; one a moment."""

    now: float
    last_lease: int
    backoff: Backoff = BACKOFF
    capacity_backoff: Backoff = BACKOFF

    def judge(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        """Take in one settlement, all but a rejected key."""
        self._correct(lease, settlement)
        events = self._learn(lease, settlement)
        match settlement.error:
            case None:
                events += self._succeeded(lease, settlement)
            case CallError.RATE_LIMITED:
                events += self._rate_limited(lease, settlement)
            case CallError.QUOTA_EXHAUSTED:
                events += self._quota_exhausted(lease, settlement)
            case CallError.CAPACITY:
                events += self._overloaded(lease, settlement)
            case _:
                pass  # the request or the network is at fault, not the key
        return events

    def rest(self, group: Group, state: KeyState, until: float) -> bool:
        """Rest a group until then or longer; says whether that is longer than before."""
        rest = group.rest
        if rest.until is None:
            rest.state = state
            rest.begin(until, self.last_lease)
            return True
        if until <= rest.until:
            return False
        rest.state, rest.until = state, until
        return True

    def _correct(self, lease: Lease, settlement: Settlement) -> None:
        """Charge what the call took; where nobody knows, what was charged stands."""
        tokens_in, tokens_out = settlement.tokens_in, settlement.tokens_out
        if tokens_in + tokens_out > 0 or settlement.error in _UNREAD:
            actual = Cost(1.0, tokens_in + tokens_out, tokens_in, tokens_out)
            lease.budget.correct(lease.cost, actual, self.now)

    def _learn(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        readings = read_headers(settlement.headers) if settlement.headers else None
        if not readings:
            return []
        new = lease.budget.learn(readings, age=self.now - lease.since, now=self.now)
        if new and lease.budget.is_paced:
            for key in lease.key.group.keys:
                key.fast = True
        used = lease.budget.limits()
        return [
            LimitLearnt(
                at=self.now,
                provider=lease.lane.provider,
                group=lease.key.group.name,
                model=lease.lane.model,
                limit=which.value,
                value=value,
                used=used[which],
            )
            for which, value in new.items()
        ]

    def _succeeded(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        events: list[PoolEvent] = []
        key, lane = lease.key, lease.lane
        lease.budget.succeeded(self.now)
        lane.estimate.learn(lease.asked, settlement.tokens_in, settlement.tokens_out)
        lane.took(self.now - lease.since)
        key.group.rest.succeeded(lease.number)
        if lane.rest.succeeded(lease.number):
            events.append(CapacityRecovered(at=self.now, provider=lane.provider, model=lane.model))
        if key.group.rest.until is None:
            before = key.places
            key.grow()
            events += self._in_flight(key, before)
        return events

    def _rate_limited(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        key, group = lease.key, lease.key.group
        key.rate_limited += 1
        told = usable_delay(settlement.retry_after, RATE_LIMIT_LONGEST)
        delay = told or 0.0
        events: list[PoolEvent] = []
        # Calls that were already out when the group was stopped tell nothing new about it.
        if group.rest.is_news(lease.number):
            group.rest.strikes += 1
            delay = told or self.backoff.delay(group.rest.strikes, f"{group.provider}/{group.name}")
            explained = lease.budget.refused(lease.grant, self.now)
            events += self._halve(group, explained=explained)
        if delay:
            self.rest(group, KeyState.RATE_LIMITED, self.now + tick_span(delay))
        until = group.rest.until or self.now
        return [
            RateLimited(
                at=self.now,
                key=key.spec.id,
                group=group.name,
                keys=group.key_ids,
                provider=group.provider,
                model=lease.lane.model,
                until=until,
                seconds=until - self.now,
                told=told is not None,
            ),
            *events,
        ]

    def _quota_exhausted(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        group = lease.key.group
        told = usable_delay(settlement.quota_reset, QUOTA_LONGEST) or usable_delay(
            settlement.retry_after, QUOTA_LONGEST
        )
        known = group.rest.until is not None and group.rest.state is KeyState.QUOTA_EXHAUSTED
        if told or not known:
            self.rest(group, KeyState.QUOTA_EXHAUSTED, self.now + tick_span(told or QUOTA_UNKNOWN))
        until = group.rest.until or self.now
        return [
            QuotaExhausted(
                at=self.now,
                key=lease.key.spec.id,
                group=group.name,
                keys=group.key_ids,
                provider=group.provider,
                model=lease.lane.model,
                until=until,
                seconds=until - self.now,
                told=told is not None,
            )
        ]

    def _overloaded(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        lane, rest = lease.lane, lease.lane.rest
        told = usable_delay(settlement.retry_after, self.capacity_backoff.last)
        delay = told or 0.0
        if rest.is_news(lease.number):
            rest.strikes += 1
            delay = told or self.capacity_backoff.delay(rest.strikes, f"{lane.provider}:{lane.model}")
        if delay and rest.until is None:
            rest.begin(self.now + tick_span(delay), self.last_lease)
        elif delay and rest.until is not None:
            rest.until = max(rest.until, self.now + tick_span(delay))
        until = rest.until or self.now
        return [
            Capacity(
                at=self.now,
                provider=lane.provider,
                model=lane.model,
                until=until,
                seconds=until - self.now,
                strikes=rest.strikes,
                told=told is not None,
            )
        ]

    def _halve(self, group: Group, *, explained: bool) -> list[PoolEvent]:
        if self.now - group.halved_at < HALVE_COOLDOWN:
            return []
        group.halved_at = self.now
        events: list[PoolEvent] = []
        for key in group.keys:
            before = key.places
            key.halve(explained=explained)
            events += self._in_flight(key, before)
        return events

    def _in_flight(self, key: Key, before: int) -> list[PoolEvent]:
        if key.places == before:
            return []
        return [InFlightChanged(at=self.now, key=key.spec.id, before=before, limit=key.places)]
