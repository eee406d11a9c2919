"""What the result of a call means for its key, its quota group and its model. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agentos.credentials.headers import MAX_LIMIT, MINUTE, Limit, LimitHeaders, number, read_headers
from agentos.credentials.key_state import Backoff, Group, Key, KeyState, Settlement, usable_delay
from agentos.credentials.pool_state import Lease
from agentos.credentials.quota import DAY, Cost
from agentos.credentials.ticks import tick_span
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Capacity, CapacityRecovered, LimitLearnt, QuotaExhausted, RateLimited
from agentos.lease import LeaseNumber
from agentos.model import SAME_FOR_ALL, CallError

RATE_LIMIT_LONGEST = 3600.0  # seconds; if a server asks for more, it is asked again after this
QUOTA_LONGEST = 7 * 86_400.0
QUOTA_UNKNOWN = 3600.0  # seconds to wait if the provider does not say when the quota resets
REFUSED_AGAIN = 0.0002  # seconds to wait at least after a refusal; doubles with each one in a row
HALVE_COOLDOWN = 10.0  # seconds between two halvings of a group's calls in flight
BACKOFF = Backoff(first=10.0, last=300.0)
CREDIT_BACKOFF = Backoff(first=60.0, last=QUOTA_UNKNOWN)  # short at first: people add credit and run again

# The provider refused these calls before it read them, so they used no tokens.
_UNREAD = SAME_FOR_ALL | {
    CallError.BAD_REQUEST,
    CallError.CAPACITY,
    CallError.CORRECTED,
    CallError.DECLINED,
    CallError.KEY_REJECTED,
    CallError.NO_CREDIT,
    CallError.UNREACHABLE,
}


@dataclass(frozen=True, kw_only=True)
class InFlightChanged(PoolEvent):
    """A key may have more or fewer calls in flight. Not recorded."""

    name = "in_flight_changed"
    key: str
    before: int
    limit: int


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Applies the results of calls to the pool, at one moment."""

    now: float
    last_lease: LeaseNumber
    groups: Iterable[Group] = ()  # all of the pool
    backoff: Backoff = BACKOFF
    capacity_backoff: Backoff = BACKOFF

    def judge(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        """Apply one settlement, except for a rejected key."""
        self._correct(lease, settlement)
        events = self._learn(lease, settlement)
        match settlement.error:
            case None:
                events += self._succeeded(lease, settlement)
            case CallError.RATE_LIMITED:
                events += self._rate_limited(lease, settlement)
            case CallError.QUOTA_EXHAUSTED | CallError.NO_CREDIT:
                events += self._quota_exhausted(lease, settlement)
            case CallError.CAPACITY:
                events += self._overloaded(lease, settlement)
            case _:
                pass  # the request or the network is at fault, not the key
        return events

    def cool_down(self, group: Group, state: KeyState, until: float, *, told: bool = True) -> bool:
        """Stop using a group until then or longer; return whether that is longer than before."""
        cooldown = group.cooldown
        if cooldown.until is None:
            cooldown.state, cooldown.told = state, told
            cooldown.begin(until, self.last_lease)
            return True
        if until <= cooldown.until:
            return False
        cooldown.state, cooldown.until, cooldown.told = state, until, told
        return True

    def _correct(self, lease: Lease, settlement: Settlement) -> None:
        """Charge what the call used. If that is unknown, keep what was charged."""
        tokens_in, tokens_out = settlement.limited_in, settlement.tokens_out
        if tokens_in + tokens_out > 0 or settlement.error in _UNREAD:
            actual = Cost(1.0, tokens_in + tokens_out, tokens_in, tokens_out)
            lease.budget.correct(lease.cost, actual, self.now)

    def _learn(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        readings = read_headers(settlement.headers) if settlement.headers else {}
        readings |= {
            which: LimitHeaders(
                limit=limit, remaining=None, reset=None, window=DAY if which is Limit.RPD else MINUTE
            )
            for which, value in settlement.limits.items()
            if which not in readings and (limit := number(value, low=1.0, high=MAX_LIMIT)) is not None
        }
        if not readings:
            return []
        served = settlement.error is None
        told = {which: one.limit for which, one in readings.items() if one.limit is not None}
        lease.key.group.told(lease.model_state.model, told, self.now)
        new = lease.budget.learn(readings, age=self.now - lease.since, now=self.now, served=served)
        if new and lease.budget.is_paced:
            for key in lease.key.group.keys:
                key.fast = True
        used = lease.budget.limits()
        return [
            LimitLearnt(
                at=self.now,
                provider=lease.model_state.provider,
                group=lease.key.group.name,
                model=lease.model_state.model,
                limit=which.value,
                value=value,
                used=used[which],
            )
            for which, value in new.items()
        ]

    def _succeeded(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        events: list[PoolEvent] = []
        key, model_state = lease.key, lease.model_state
        lease.budget.succeeded(self.now)
        model_state.estimate.learn(lease.asked, settlement.limited_in, settlement.tokens_out)
        model_state.took(self.now - lease.since)
        key.group.cooldown.succeeded(lease.number)
        if model_state.cooldown.succeeded(lease.number):
            events.append(
                CapacityRecovered(at=self.now, provider=model_state.provider, model=model_state.model)
            )
        if key.group.cooldown.until is None:
            before = key.call_limit
            key.grow()
            events += self._in_flight(key, before)
        return events

    def _rate_limited(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        key, group = lease.key, lease.key.group
        key.rate_limited += 1
        requested = usable_delay(settlement.retry_after, RATE_LIMIT_LONGEST)
        delay = requested or 0.0
        events: list[PoolEvent] = []
        # Calls that were in flight when the group was stopped say nothing new about it.
        if group.cooldown.is_news(lease.number):
            group.cooldown.strikes += 1
            explained = lease.budget.refused(lease.grant, self.now, told=requested)
            if not (explained or lease.budget.is_uneven(requested)) and group.refused(lease.budget, self.now):
                # What one key of a provider shows is true for its others.
                for one in self.groups:
                    if one.provider == group.provider:
                        one.share(self.now)
            delay = requested or self._backoff(lease).delay(
                group.cooldown.strikes, f"{group.provider}/{group.name}"
            )
            # However soon the server wants to be asked again: each refusal in a row makes the wait longer.
            again = REFUSED_AGAIN * 2.0 ** min(group.cooldown.strikes - 1, 16)
            delay = max(delay, min(again, self.backoff.last))
            events += self._halve(group, explained=explained)
        else:
            lease.budget.refused_before()
        if delay:
            self.cool_down(
                group, KeyState.RATE_LIMITED, self.now + tick_span(delay), told=requested is not None
            )
        until = group.cooldown.until or self.now
        return [
            RateLimited(
                at=self.now,
                key=key.spec.id,
                group=group.name,
                keys=group.key_ids,
                provider=group.provider,
                model=lease.model_state.model,
                until=until,
                seconds=until - self.now,
                told=requested is not None,
            ),
            *events,
        ]

    def _backoff(self, lease: Lease) -> Backoff:
        """Return how long to wait if the server does not say: less, if a pace is known or being guessed."""
        first = lease.budget.untold_wait()
        return self.backoff if first is None else replace(self.backoff, first=min(first, self.backoff.first))

    def _quota_exhausted(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        group = lease.key.group
        requested = usable_delay(settlement.quota_reset, QUOTA_LONGEST) or usable_delay(
            settlement.retry_after, QUOTA_LONGEST
        )
        known = group.cooldown.until is not None and group.cooldown.state is KeyState.QUOTA_EXHAUSTED
        delay = requested or QUOTA_UNKNOWN
        no_credit = settlement.error is CallError.NO_CREDIT
        if no_credit:
            group.cooldown.strikes += group.cooldown.is_news(lease.number)
            delay = CREDIT_BACKOFF.delay(max(1, group.cooldown.strikes), f"{group.provider}/{group.name}")
        if requested or not known:
            told = requested is not None and not no_credit
            self.cool_down(group, KeyState.QUOTA_EXHAUSTED, self.now + tick_span(delay), told=told)
        until = group.cooldown.until or self.now
        return [
            QuotaExhausted(
                at=self.now,
                key=lease.key.spec.id,
                group=group.name,
                keys=group.key_ids,
                provider=group.provider,
                model=lease.model_state.model,
                until=until,
                seconds=until - self.now,
                told=requested is not None,
                credit=no_credit,
            )
        ]

    def _overloaded(self, lease: Lease, settlement: Settlement) -> list[PoolEvent]:
        model_state, cooldown = lease.model_state, lease.model_state.cooldown
        requested = usable_delay(settlement.retry_after, self.capacity_backoff.last)
        delay = requested or 0.0
        if cooldown.is_news(lease.number):
            cooldown.strikes += 1
            delay = requested or self.capacity_backoff.delay(
                cooldown.strikes, f"{model_state.provider}:{model_state.model}"
            )
        if delay and cooldown.until is None:
            cooldown.told = requested is not None
            cooldown.begin(self.now + tick_span(delay), self.last_lease)
        elif delay and cooldown.until is not None:
            cooldown.until = max(cooldown.until, self.now + tick_span(delay))
            cooldown.told = cooldown.told or requested is not None
        until = cooldown.until or self.now
        return [
            Capacity(
                at=self.now,
                provider=model_state.provider,
                model=model_state.model,
                until=until,
                seconds=until - self.now,
                strikes=cooldown.strikes,
                told=requested is not None,
            )
        ]

    def _halve(self, group: Group, *, explained: bool) -> list[PoolEvent]:
        if self.now - group.halved_at < HALVE_COOLDOWN:
            return []
        group.halved_at = self.now
        events: list[PoolEvent] = []
        for key in group.keys:
            before = key.call_limit
            key.halve(explained=explained)
            events += self._in_flight(key, before)
        return events

    def _in_flight(self, key: Key, before: int) -> list[PoolEvent]:
        if key.call_limit == before:
            return []
        return [InFlightChanged(at=self.now, key=key.spec.id, before=before, limit=key.call_limit)]
