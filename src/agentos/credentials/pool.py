"""The key pool: leases keys to items, keeps every key below its limits, and pauses keys that are refused.

A pure state machine, used in the coordinator: time is an argument, what happened is returned as events. It
never sees a secret.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from agentos.credentials import health
from agentos.credentials.granting import grant_all
from agentos.credentials.key_state import (
    UNUSABLE,
    Backoff,
    Group,
    Key,
    KeySpec,
    KeyState,
    Settlement,
    token_count,
)
from agentos.credentials.outcome import BACKOFF, Judge
from agentos.credentials.pool_state import Ask, KeySet, PoolState
from agentos.credentials.snapshot import (
    PoolSnapshot,
    take_snapshot,
    useful_parallel,
    why_not_served,
    why_waiting,
)
from agentos.credentials.ticks import tick, tick_span
from agentos.events.asker import Asker
from agentos.events.catalogue import PoolEvent, Waiting
from agentos.events.keys import (
    AskRefused,
    KeyDisabled,
    KeyRecovered,
    LeaseExpired,
    QuotaExhausted,
    RateLimited,
    Refused,
    Returned,
    Settled,
    SettleRefused,
)
from agentos.lease import LeaseNumber
from agentos.model import CallError

WAKE_LEAST = 1 / 1024  # seconds; waking up sooner would be a busy loop

__all__ = ["Backoff", "CredentialCoordinator", "KeySpec", "KeyState", "PoolSnapshot", "Settlement"]


class CredentialCoordinator:
    """Owns the state of every key. Every method takes the time and returns what happened."""

    def __init__(
        self,
        keys: Sequence[KeySpec],
        *,
        lease_seconds: float = 900.0,
        backoff: Backoff = BACKOFF,
        capacity_backoff: Backoff = BACKOFF,
    ) -> None:
        self.pool_state = PoolState(keys)
        self._lease_seconds = tick_span(lease_seconds)
        self._backoff = backoff
        self._capacity_backoff = capacity_backoff

    def request(
        self,
        *,
        asker: Asker,
        number: int,
        provider: str,
        model: str,
        tokens: int,
        now: float,
        keys: frozenset[str] | None = None,
    ) -> list[PoolEvent]:
        """Queue for a lease. The same request again changes nothing; another request replaces it.

        `keys` are the ids of the keys that may serve it, if not every key of the provider may.
        """
        events = self._tick(now)
        pool_state = self.pool_state
        work = asker.work
        if pool_state.is_over(asker):
            over = AskRefused(
                at=pool_state.now, item=asker.item, asker=asker, number=number, reason="the attempt is over"
            )
            return [*events, over, *self._grant()]
        if asker.attempt > 1:
            pool_state.end_attempts(work, asker.attempt - 1)
        if (waiting := pool_state.asks.get(work)) is not None:
            if (waiting.asker, waiting.number) == (asker, number):
                return events + self._grant()
            pool_state.remove_ask(waiting)
        for lease in pool_state.held.get(asker, {}).values():
            if lease.call == number and lease.number in pool_state.leases:
                return [*events, lease.leased(), *self._grant()]
        if (reason := self._why_unservable(provider, keys)) is not None:
            return [*events, *self._grant(), self._refuse(asker, number, provider, model, reason)]
        pool_state.last_ask += 1
        ask = Ask(
            asker=asker,
            number=number,
            tokens=token_count(tokens),
            queue=pool_state.model_state(provider, model).queue(keys),
            order=pool_state.last_ask,
            since=pool_state.now,
            lease_seconds=self._lease_seconds,
        )
        pool_state.add_ask(ask)
        events += self._grant()
        if pool_state.asks.get(work) is ask:
            why = why_waiting(ask.queue, pool_state.now)
            left = None if why.until is None else round(max(0.0, why.until - pool_state.now), 3)
            events.append(
                Waiting(
                    at=pool_state.now,
                    item=asker.item,
                    asker=asker,
                    number=number,
                    provider=provider,
                    model=model,
                    reason=why.reason,
                    until_seconds=left,
                    kind=why.kind,
                    until=why.until,
                )
            )
        return events

    def settle(
        self, lease: LeaseNumber, *, asker: Asker, settlement: Settlement, now: float
    ) -> list[PoolEvent]:
        """End a lease with the result of its call."""
        events = self._tick(now)
        held = self.pool_state.leases.get(lease)
        if held is None or held.asker != asker or self.pool_state.is_over(asker):
            reason = self._why_not_held(lease, asker)
            events.append(
                SettleRefused(
                    at=self.pool_state.now, item=asker.item, asker=asker, lease=lease, reason=reason
                )
            )
            return events + self._grant()
        key, error = held.key, settlement.error
        settlement = replace(
            settlement,
            tokens_in=token_count(settlement.tokens_in),
            tokens_out=token_count(settlement.tokens_out),
            tokens_cached=token_count(settlement.tokens_cached),
            tokens_exempt=token_count(settlement.tokens_exempt),
        )
        key.tokens_in += settlement.tokens_in
        key.tokens_out += settlement.tokens_out
        events.append(
            Settled(
                at=self.pool_state.now,
                item=asker.item,
                asker=asker,
                number=held.call,
                lease=lease,
                key=key.spec.id,
                tokens_in=settlement.tokens_in,
                tokens_out=settlement.tokens_out,
                tokens_cached=settlement.tokens_cached,
                error=None if error is None else error.value,
                seconds=self.pool_state.now - held.since,
            )
        )
        events += self._judge().judge(held, settlement)
        if error is CallError.KEY_REJECTED:
            events += self._disable(key, "rejected by the provider")
        self.pool_state.remove_lease(held)
        return events + self._grant()

    def withdraw(self, asker: Asker, now: float) -> list[PoolEvent]:
        """Take back the waiting request of an attempt. Its leases stay, and it may ask again.

        Nothing is granted yet: others may be taken back as well.
        """
        events = self._tick(now)
        if (ask := self.pool_state.asks.get(asker.work)) is not None and ask.asker == asker:
            self.pool_state.remove_ask(ask)
        return events

    def drop(self, asker: Asker, now: float) -> list[PoolEvent]:
        """Forget an attempt whose worker is gone: its leases, expired ones too, end now."""
        events = self._tick(now)
        pool_state = self.pool_state
        pool_state.end_attempts(asker.work, asker.attempt)
        if (ask := pool_state.asks.get(asker.work)) is not None and ask.asker == asker:
            pool_state.remove_ask(ask)
        for lease in list(pool_state.held.get(asker, {}).values()):
            pool_state.remove_lease(lease)
            events.append(
                Returned(
                    at=pool_state.now,
                    item=asker.item,
                    asker=asker,
                    number=lease.call,
                    lease=lease.number,
                    key=lease.key.spec.id,
                )
            )
        return events + self._grant()

    def forget_run(self, run_id: str, now: float) -> list[PoolEvent]:
        """Forget a run that has ended or was killed: nothing stays reserved for it."""
        pool_state = self.pool_state
        askers = {ask.asker for ask in pool_state.asks.values()} | set(pool_state.held)
        events: list[PoolEvent] = []
        for asker in sorted(asker for asker in askers if asker.run_id == run_id):
            events += self.drop(asker, now)
        for work in [work for work in pool_state.over if work[0] == run_id]:
            del pool_state.over[work]
        return events

    def advance(self, now: float) -> list[PoolEvent]:
        """Let time pass: expire leases, end cooldowns, grant what can be granted."""
        return self._tick(now) + self._grant()

    def next_wake(self, now: float) -> float | None:
        """Return when `advance` could next change anything; None if only an outside event can."""
        now = self._time(now)
        times = [
            group.cooldown.until
            for group in self.pool_state.groups.values()
            if group.cooldown.until is not None
        ]
        if (lease := self.pool_state.next_expiry()) is not None:
            times.append(lease.expires)
        turns = (turn for model_state in self.pool_state.models.values() for turn in model_state.turns())
        times += [until for turn in turns if (until := why_not_served(turn, now).until) is not None]
        return max(min(times), now + WAKE_LEAST) if times else None

    def snapshot(self, now: float) -> PoolSnapshot:
        """Return the state of everything, without changing it."""
        return take_snapshot(self.pool_state, self._time(now))

    def useful_parallel(self, now: float) -> int:
        """Return how many calls could be in flight with the current keys and budgets."""
        return useful_parallel(self.pool_state, self._time(now))

    def export(self, now: float, wall: float) -> dict[str, Any]:
        """Return the health of the keys, ready for JSON, with wall-clock times."""
        return health.export(self.pool_state, self._time(now), wall)

    def restore(self, data: object, now: float, wall: float) -> list[PoolEvent]:
        """Take over health that was exported before. It can add a cooldown, never end one."""
        events = self._tick(now)
        for found in health.read(data, self.pool_state, wall):
            events += self._take_over(found)
        return events + self._grant()

    def enable(self, key_id: str, now: float) -> list[PoolEvent]:
        """Enable a key and end the cooldown of its group; KeyError for an unknown id."""
        events = self._tick(now)
        key = self.pool_state.keys[key_id]
        group = key.group
        idle = [one for one in group.keys if one.state(self.pool_state.now) in UNUSABLE]
        group.renew(self.pool_state.now)
        key.enable()
        group.cooldown.clear()
        return events + self._recovered(idle, "enabled by hand") + self._grant()

    def _judge(self) -> Judge:
        return Judge(
            now=self.pool_state.now,
            last_lease=self.pool_state.last_lease,
            groups=self.pool_state.groups.values(),
            backoff=self._backoff,
            capacity_backoff=self._capacity_backoff,
        )

    def _take_over(self, found: health.KeyHealth) -> list[PoolEvent]:
        key, group, events = found.key, found.key.group, list[PoolEvent]()
        health.restore_budgets(found, self.pool_state.now)
        if found.disabled is not None:
            events += self._disable(key, found.disabled)
        if found.cooldown is None:
            return events
        until = self.pool_state.now + tick_span(found.cooldown.seconds)
        if self._judge().cool_down(group, found.cooldown.state, until):
            kind = RateLimited if found.cooldown.state is KeyState.RATE_LIMITED else QuotaExhausted
            events.append(
                kind(
                    at=self.pool_state.now,
                    key=key.spec.id,
                    group=group.name,
                    keys=group.key_ids,
                    provider=group.provider,
                    model=None,
                    until=until,
                    seconds=found.cooldown.seconds,
                    told=True,
                )
            )
        return events

    def _disable(self, key: Key, reason: str) -> list[PoolEvent]:
        """Stop using a key, and refuse the requests that no key can serve any more."""
        if key.disabled is not None:
            return []
        key.disable(reason, self.pool_state.now)
        provider = key.spec.provider
        events: list[PoolEvent] = [
            KeyDisabled(at=self.pool_state.now, key=key.spec.id, provider=provider, reason=reason)
        ]
        reasons: dict[KeySet, str | None] = {}
        for ask in [ask for ask in self.pool_state.asks.values() if ask.model_state.provider == provider]:
            key_ids = ask.queue.key_ids
            if key_ids not in reasons:
                reasons[key_ids] = self._why_unservable(provider, key_ids)
            if (why := reasons[key_ids]) is not None:
                self.pool_state.remove_ask(ask)
                events.append(self._refuse(ask.asker, ask.number, provider, ask.model_state.model, why))
        return events

    def _refuse(self, asker: Asker, number: int, provider: str, model: str, reason: str) -> Refused:
        return Refused(
            at=self.pool_state.now,
            item=asker.item,
            asker=asker,
            number=number,
            provider=provider,
            model=model,
            reason=reason,
        )

    def _grant(self) -> list[PoolEvent]:
        return grant_all(self.pool_state)

    def _time(self, now: float) -> float:
        """Return the time to use. If the clock went back, time stands still."""
        return max(self.pool_state.now, tick(now))

    def _tick(self, now: float) -> list[PoolEvent]:
        """Move the state to now."""
        self.pool_state.now = now = self._time(now)
        events: list[PoolEvent] = []
        while (lease := self.pool_state.next_expiry()) is not None and lease.expires <= now:
            self.pool_state.expire(lease)
            events.append(
                LeaseExpired(
                    at=now,
                    item=lease.asker.item,
                    asker=lease.asker,
                    number=lease.call,
                    lease=lease.number,
                    key=lease.key.spec.id,
                )
            )
        for group in self.pool_state.groups.values():
            if group.cooldown.until is not None and group.cooldown.until <= now:
                events += self._recover(group)
            if (shared := group.sharing.shared_until) is not None and shared <= now:
                group.separate()
        for model_state in self.pool_state.models.values():
            if model_state.cooldown.until is not None and model_state.cooldown.until <= now:
                model_state.cooldown.wake(now)
        return events

    def _recover(self, group: Group) -> list[PoolEvent]:
        if group.cooldown.state is KeyState.QUOTA_EXHAUSTED:
            group.renew(self.pool_state.now)
        group.cooldown.wake(self.pool_state.now)
        return self._recovered(group.keys, "cooldown is over")

    def _recovered(self, keys: Iterable[Key], reason: str) -> list[PoolEvent]:
        now = self.pool_state.now
        return [
            KeyRecovered(at=now, key=key.spec.id, provider=key.spec.provider, reason=reason)
            for key in keys
            if key.disabled is None
        ]

    def _why_unservable(self, provider: str, key_ids: KeySet) -> str | None:
        """Return why none of these keys can ever serve a request, or None."""
        keys = self.pool_state.by_provider.get(provider)
        if not keys:
            return f"no key for {provider}"
        if key_ids is not None:
            keys = [key for key in keys if key.spec.id in key_ids]
            if not keys:
                return f"no key for {provider} on the machine that runs this item"
        if any(key.disabled is None for key in keys):
            return None
        return "all keys disabled: " + ", ".join(f"{key.spec.id} ({key.disabled})" for key in keys)

    def _why_not_held(self, number: LeaseNumber, asker: Asker) -> str:
        lease = self.pool_state.leases.get(number)
        if lease is None:
            if number in self.pool_state.expired:
                return "expired"
            return "already ended" if 0 < number <= self.pool_state.last_lease else "never granted"
        if lease.asker == asker:
            return "the attempt is over"
        same_item = lease.asker.work == asker.work
        return "held by another attempt" if same_item else "held by another item"
