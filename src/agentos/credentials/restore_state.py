"""Restores a key pool from data that `export_state` made. Pure.

If the wall clock is set back, no time is added: the pool continues as of the export. If it jumps ahead, that
counts as time passed: leases and cooldowns end early by as much, and a budget gains at most one full bucket.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields

from agentos.credentials.bucket import Bucket
from agentos.credentials.fixed_window import FixedWindow
from agentos.credentials.headers import Limit
from agentos.credentials.key_state import Cooldown, KeySpec, KeyState, TokenEstimate
from agentos.credentials.pool import CredentialCoordinator
from agentos.credentials.pool_state import Ask, Lease, PoolState
from agentos.credentials.quota import Cost, Quota, Sent
from agentos.credentials.refill import Refill
from agentos.credentials.saved_state import (
    GUESS_TIMES,
    PoolStateError,
    SavedBudget,
    SavedCooldown,
    SavedGroup,
    SavedKey,
    SavedPool,
    SavedRefill,
    SavedSharing,
    read_state,
)
from agentos.credentials.sharing import Sharing, Told
from agentos.credentials.ticks import tick
from agentos.events.asker import Asker

SAME_TIME = 1.0  # seconds by which the two clocks may differ, before it counts as a jump

Move = Callable[[float], float]  # turns a time of one clock into the same time of another


def restore_pool(
    data: object,
    *,
    now: float,
    wall: float,
    keys: Sequence[KeySpec] = (),
    lease_seconds: float = 900.0,
    exported: float | None = None,
) -> CredentialCoordinator:
    """Make a pool from data that was exported before; PoolStateError if it is invalid.

    `keys` are the keys of this machine: new ones join the pool; for known ones, their configuration is used.
    `exported` is when it was exported by the clock of `now`, if that clock has run ever since. Then leases
    and requests go by it, so that a jump of the wall clock does not end them; and so does everything else
    unless the wall clock has jumped.
    """
    saved = read_state(data)
    pool = CredentialCoordinator(_specs(saved, keys), lease_seconds=lease_seconds)
    ahead = tick(now) - max(tick(wall), saved.at)
    steady = ahead if exported is None else tick(exported) - saved.at
    if abs(ahead - steady) < SAME_TIME:
        ahead = steady  # exact; two clocks are never read at the same moment
    _Restore(pool.pool_state, saved, lambda time: time + ahead, lambda time: time + steady).fill()
    return pool


def _specs(saved: SavedPool, keys: Sequence[KeySpec]) -> list[KeySpec]:
    own = {spec.id: spec for spec in keys}
    specs = []
    for key in saved.keys:
        spec = own.pop(key.id, None) or _spec(key)
        if spec.provider != key.provider:
            raise PoolStateError(f"Key {key.id!r} belongs to {key.provider} in the shared key pool.")
        specs.append(spec)
    return [*specs, *own.values()]


def _spec(key: SavedKey) -> KeySpec:
    return KeySpec(**{field.name: getattr(key, field.name) for field in fields(KeySpec)})


class _Restore:
    """Fills the state of a new pool, which has only its keys so far."""

    def __init__(self, pool_state: PoolState, saved: SavedPool, move: Move, move_call: Move) -> None:
        self._pool_state = pool_state
        self._saved = saved
        self._move = move
        self._move_call = move_call  # for the times of requests and leases
        self._at = move(saved.at)

    def fill(self) -> None:
        pool_state, saved = self._pool_state, self._saved
        pool_state.now = self._past(saved.now)
        pool_state.last_lease, pool_state.last_ask = saved.last_lease, saved.last_ask
        pool_state.over = {(one.run_id, one.item): one.attempt for one in saved.over}
        for key in saved.keys:
            self._fill_key(key)
        for group in saved.groups:
            self._fill_group(group)
        for key in saved.keys:
            self._keep_cooldown(key)
        self._fill_models()
        self._add_asks()
        self._add_leases()

    def _past(self, time: float | None) -> float:
        return -math.inf if time is None else self._move(time)

    def _fill_key(self, saved: SavedKey) -> None:
        key = self._pool_state.keys[saved.id]
        key.slots, key.fast = saved.slots, saved.fast
        key.disabled = saved.disabled
        key.disabled_at = None if saved.disabled_at is None else self._move(saved.disabled_at)
        key.calls, key.rate_limited = saved.calls, saved.rate_limited
        key.tokens_in, key.tokens_out = saved.tokens_in, saved.tokens_out
        key.last_lease = saved.last_lease

    def _fill_group(self, saved: SavedGroup) -> None:
        group = self._pool_state.groups.get((saved.provider, saved.name))
        if group is None:
            return  # its keys now belong to another group
        group.cooldown = self._cooldown(saved.rest)
        group.halved_at = self._past(saved.halved_at)
        group.sharing = self._sharing(saved.sharing)
        theirs = (key for key in self._saved.keys if _group_of(key) == (saved.provider, saved.name))
        rpd = min((key.rpd or math.inf for key in theirs), default=math.inf)
        first: SavedBudget | None = None
        for one in saved.budgets:
            budget = group.budget(one.model, self._at)
            if first is None or not group.is_shared:
                self._fill_budget(budget, one, rpd)
            elif one.model_copy(update={"model": first.model}) != first:
                other = Quota(group.plan, self._at)  # they had budgets of their own before
                self._fill_budget(other, one, rpd)
                budget.join(other, self._at)
            first = first or one

    def _sharing(self, saved: SavedSharing | None) -> Sharing:
        if saved is None:
            return Sharing()
        return Sharing(
            shared_until=None if saved.shared_until is None else self._move(saved.shared_until),
            apart=saved.apart,
            told={
                model: Told(self._move(one.at), {Limit(which): value for which, value in one.limits.items()})
                for model, one in saved.told.items()
            },
            doubts=saved.doubts,
            doubted_at=self._past(saved.doubted_at),
        )

    def _keep_cooldown(self, saved: SavedKey) -> None:
        """Let a key wait as long as before if it now belongs to another group."""
        name = _group_of(saved)
        group = self._pool_state.keys[saved.id].group
        if self._pool_state.groups.get(name) is group:
            return
        before = next((one.rest for one in self._saved.groups if (one.provider, one.name) == name), None)
        cooldown = group.cooldown
        if before is not None and before.until is not None:
            found = self._cooldown(before)
            if cooldown.until is None or (found.until or 0.0) > cooldown.until:
                cooldown.state, cooldown.until, cooldown.told = found.state, found.until, found.told

    def _cooldown(self, saved: SavedCooldown) -> Cooldown:
        return Cooldown(
            until=None if saved.until is None else self._move(saved.until),
            state=KeyState(saved.state),
            told=saved.told,
            strikes=saved.strikes,
            fence=saved.fence,
            woke=None if saved.woke is None else self._move(saved.woke),
            opened=saved.opened,
        )

    def _fill_budget(self, budget: Quota, saved: SavedBudget, rpd: float) -> None:
        budget.learnt = {Limit(which): value for which, value in saved.learnt.items()}
        budget.long_rate = saved.long_rate
        budget.sizes = {Limit(which): size for which, size in saved.sizes.items()}
        budget.refills = {Limit(one.which): self._refill(one) for one in saved.refills}
        budget.jitter = saved.jitter
        budget.charged_at = self._past(saved.charged_at)
        if saved.guess is not None and budget.guess is not None:
            values = saved.guess.model_dump()
            times = {name: values[name] for name in GUESS_TIMES}
            moved = {name: None if time is None else self._move(time) for name, time in times.items()}
            for name, value in (values | moved).items():
                setattr(budget.guess, name, value)  # models share it
        budget.ease, budget.refused_ease = saved.ease, saved.refused_ease
        budget.burst_share = saved.burst_share
        budget.strikes, budget.struck_at = saved.strikes, self._past(saved.struck_at)
        budget.eased_at = self._move(saved.eased_at)
        budget.held_until = self._past(saved.held_until)
        budget.held_for = None if saved.held_for is None else Limit(saved.held_for)
        budget.grants, budget.known_since = saved.grants, saved.known_since
        budget.answered = saved.answered
        budget.history.clear()
        for sent in saved.history:
            cost = Cost(1.0, sent.tokens, sent.tokens_in, sent.tokens_out)
            budget.history.append(Sent(self._move(sent.at), cost))
        budget.buckets = {}
        for one in saved.buckets:
            which = Limit(one.limit)
            if (limit := budget.limit(which)) is not None:
                rate, capacity = budget.shape(which, limit)
                bucket = Bucket(rate=rate, capacity=capacity, now=self._move(one.at))
                before = min(rpd, saved.learnt.get("rpd", math.inf))
                # What was used today stays used, however many calls a day are allowed now.
                more = capacity - max(1.0, before) if which is Limit.RPD and before < math.inf else 0.0
                bucket.held = min(capacity, one.level + more)
                budget.buckets[which] = bucket
        budget.pace(self._at)  # for limits that are newly configured

    def _refill(self, saved: SavedRefill) -> Refill:
        values = saved.model_dump(exclude={"which", "window"})
        values |= {name: math.inf for name in ("size_high", "rate_high") if values[name] is None}
        window = FixedWindow()
        if saved.window is not None:
            kept = saved.window
            window = FixedWindow(**kept.model_dump())
            window.first = None if kept.first is None else self._move(kept.first)
            window.soonest, window.latest = self._past(kept.soonest), self._past(kept.latest)
        return Refill(**values, window=window)

    def _fill_models(self) -> None:
        for saved in self._saved.lanes:
            model_state = self._pool_state.model_state(saved.provider, saved.model)
            model_state.cooldown = self._cooldown(saved.rest)
            model_state.seconds = saved.seconds
            model_state.estimate = TokenEstimate(**saved.estimate.model_dump())

    def _add_asks(self) -> None:
        models = list(self._pool_state.models.values())
        key_sets = [frozenset(ids) for ids in self._saved.key_sets]
        for saved in sorted(self._saved.asks, key=lambda ask: ask.order):
            key_ids = None if saved.key_set is None else key_sets[saved.key_set]
            ask = Ask(
                asker=Asker(saved.run_id, saved.item, saved.attempt),
                number=saved.number,
                tokens=saved.tokens,
                queue=models[saved.lane].queue(key_ids),
                order=saved.order,
                since=self._move_call(saved.since),
                lease_seconds=saved.lease_seconds,
            )
            self._pool_state.add_ask(ask)

    def _add_leases(self) -> None:
        models = list(self._pool_state.models.values())
        for saved in sorted(self._saved.leases, key=lambda lease: lease.number):
            key, model_state = self._pool_state.keys[saved.key], models[saved.lane]
            lease = Lease(
                number=saved.number,
                asker=Asker(saved.run_id, saved.item, saved.attempt),
                call=saved.call,
                key=key,
                model_state=model_state,
                asked=saved.asked,
                cost=Cost(1.0, saved.tokens, saved.tokens_in, saved.tokens_out, saved.spread),
                grant=saved.grant,
                since=self._move_call(saved.since),
                waited=saved.waited,
                expires=self._move_call(saved.expires),
            )
            self._pool_state.add_lease(lease, expired=saved.expired)


def _group_of(key: SavedKey) -> tuple[str, str]:
    """Provider and name of a key's group: two providers may have groups of one name."""
    return key.provider, key.quota_group or f"={key.id}"
