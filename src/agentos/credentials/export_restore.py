"""Exports the key pool's whole live state in the form of `saved_state`, and restores a pool from it. Pure.

A pool uses the clock of its machine; in the data, times are wall-clock times. Everyone who shares a state
should pass the wall clock of one machine, that of the database. If the wall clock is set back, no time is
added: the pool continues as of the export. If it jumps ahead, that counts as time passed: leases and
cooldowns end early by as much, and a budget gains at most one full bucket.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from agentos.credentials.bucket import Bucket
from agentos.credentials.fixed_window import FixedWindow
from agentos.credentials.headers import Limit
from agentos.credentials.key_state import Cooldown, Group, Key, KeySpec, KeyState, TokenEstimate
from agentos.credentials.pace_guess import PaceGuess
from agentos.credentials.pool import CredentialCoordinator
from agentos.credentials.pool_state import Ask, KeySet, Lease, ModelState, PoolState
from agentos.credentials.quota import Cost, Quota, Sent
from agentos.credentials.refill import Refill
from agentos.credentials.saved_state import (
    VERSION,
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
from agentos.credentials.sharing import Sharing
from agentos.credentials.ticks import tick
from agentos.events.asker import Asker

_GUESS_TIMES = ("since", "anchor", "refused_at")
_SHARING_TIMES = ("shared_until", "doubted_at")
_WINDOW_TIMES = ("first", "soonest", "latest")
SAME_TIME = 1.0  # seconds by which the two clocks may differ, before it counts as a jump

Move = Callable[[float], float]  # turns a time of one clock into the same time of another


def export_state(pool: CredentialCoordinator, now: float, wall: float) -> dict[str, Any]:
    """Return data, ready for JSON, from which `restore_pool` makes a pool that behaves the same."""
    return _Export(pool.pool_state, now, wall).state()


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


class _Export:
    """One export. It knows how far the wall clock is ahead of the clock of the pool."""

    def __init__(self, pool_state: PoolState, now: float, wall: float) -> None:
        self._pool_state = pool_state
        self._at = tick(wall)
        self._ahead = self._at - max(pool_state.now, tick(now))
        self._models = {model_state: number for number, model_state in enumerate(pool_state.models.values())}
        self._key_sets: dict[KeySet, int] = {}

    def state(self) -> dict[str, Any]:
        pool_state = self._pool_state
        asks = [self._ask(ask) for ask in pool_state.asks.values()]
        leases = sorted(
            (*pool_state.leases.values(), *pool_state.expired.values()), key=lambda lease: lease.number
        )
        return {
            "version": VERSION,
            "at": self._at,
            "now": self._time(pool_state.now),
            "last_lease": pool_state.last_lease,
            "last_ask": pool_state.last_ask,
            "keys": [self._key(key) for key in pool_state.keys.values()],
            "groups": [self._group(name, group) for (_, name), group in pool_state.groups.items()],
            "lanes": [self._model(model_state) for model_state in pool_state.models.values()],
            "key_sets": [sorted(key_ids) for key_ids in self._key_sets if key_ids is not None],
            "asks": asks,
            "leases": [self._lease(lease) for lease in leases],
            "over": [
                {"run_id": run_id, "item": item, "attempt": attempt}
                for (run_id, item), attempt in pool_state.over.items()
            ],
        }

    def _time(self, time: float | None) -> float | None:
        return None if time is None or math.isinf(time) else time + self._ahead

    def _key(self, key: Key) -> dict[str, Any]:
        return {
            **vars(key.spec),
            "slots": key.slots,
            "fast": key.fast,
            "disabled": key.disabled,
            "disabled_at": self._time(key.disabled_at),
            "calls": key.calls,
            "rate_limited": key.rate_limited,
            "tokens_in": key.tokens_in,
            "tokens_out": key.tokens_out,
            "last_lease": key.last_lease,
        }

    def _group(self, name: str, group: Group) -> dict[str, Any]:
        return {
            "provider": group.provider,
            "name": name,
            "rest": self._cooldown(group.cooldown),
            "halved_at": self._time(group.halved_at),
            "sharing": self._moved(group.sharing, _SHARING_TIMES),
            "budgets": [self._budget(model, budget) for model, budget in group.budgets.items()],
        }

    def _cooldown(self, cooldown: Cooldown) -> dict[str, Any]:
        return {
            "until": self._time(cooldown.until),
            "state": cooldown.state.value,
            "told": cooldown.told,
            "strikes": cooldown.strikes,
            "fence": cooldown.fence,
            "woke": self._time(cooldown.woke),
            "opened": cooldown.opened,
        }

    def _budget(self, model: str, budget: Quota) -> dict[str, Any]:
        return {
            "model": model,
            "charged_at": self._time(budget.charged_at),
            "learnt": {which.value: value for which, value in budget.learnt.items()},
            "buckets": [
                {"limit": which.value, "level": bucket.held, "at": self._time(bucket.at)}
                for which, bucket in budget.buckets.items()
            ],
            "grants": budget.grants,
            "known_since": budget.known_since,
            "long_rate": budget.long_rate,
            "sizes": {which.value: size for which, size in budget.sizes.items()},
            "refills": [self._refill(which, refill) for which, refill in budget.refills.items()],
            "guess": None if budget.guess is None else self._guess(budget.guess),
            "jitter": budget.jitter,
            "answered": budget.answered,
            "history": [self._sent(sent) for sent in budget.history],
            "held_until": self._time(budget.held_until),
            "held_for": None if budget.held_for is None else budget.held_for.value,
            "ease": budget.ease,
            "refused_ease": budget.refused_ease,
            "burst_share": budget.burst_share,
            "strikes": budget.strikes,
            "struck_at": self._time(budget.struck_at),
            "eased_at": self._time(budget.eased_at),
        }

    def _refill(self, which: Limit, refill: Refill) -> dict[str, Any]:
        bounds = {name: value for name, value in asdict(refill).items() if value != math.inf}
        window = self._moved(refill.window, _WINDOW_TIMES)
        return {"which": which.value, "size_high": None, "rate_high": None, **bounds, "window": window}

    def _guess(self, guess: PaceGuess) -> dict[str, Any]:
        return self._moved(guess, _GUESS_TIMES)

    def _moved(self, state: PaceGuess | FixedWindow | Sharing, times: Iterable[str]) -> dict[str, Any]:
        """Return all fields, with the times of the wall clock."""
        return asdict(state) | {name: self._time(getattr(state, name)) for name in times}

    def _sent(self, sent: Sent) -> dict[str, Any]:
        return {
            "at": self._time(sent.at),
            "tokens": sent.cost.tokens,
            "tokens_in": sent.cost.tokens_in,
            "tokens_out": sent.cost.tokens_out,
        }

    def _model(self, model_state: ModelState) -> dict[str, Any]:
        return {
            "provider": model_state.provider,
            "model": model_state.model,
            "rest": self._cooldown(model_state.cooldown),
            "estimate": asdict(model_state.estimate),
            "seconds": model_state.seconds,
        }

    def _ask(self, ask: Ask) -> dict[str, Any]:
        key_ids = ask.queue.key_ids
        return {
            **ask.asker._asdict(),
            "number": ask.number,
            "tokens": ask.tokens,
            "lane": self._models[ask.model_state],
            "key_set": None if key_ids is None else self._key_sets.setdefault(key_ids, len(self._key_sets)),
            "order": ask.order,
            "since": self._time(ask.since),
            "lease_seconds": ask.lease_seconds,
        }

    def _lease(self, lease: Lease) -> dict[str, Any]:
        return {
            **lease.asker._asdict(),
            "number": lease.number,
            "call": lease.call,
            "key": lease.key.spec.id,
            "lane": self._models[lease.model_state],
            "asked": lease.asked,
            "tokens": lease.cost.tokens,
            "tokens_in": lease.cost.tokens_in,
            "tokens_out": lease.cost.tokens_out,
            "spread": lease.cost.spread,
            "grant": lease.grant,
            "since": self._time(lease.since),
            "waited": lease.waited,
            "expires": self._time(lease.expires),
            "expired": lease.number in self._pool_state.expired,
        }


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
        theirs = (key for key in self._saved.keys if (key.quota_group or f"={key.id}") == saved.name)
        rpd = min((key.rpd or math.inf for key in theirs), default=math.inf)
        for one in saved.budgets:
            self._fill_budget(group.budget(one.model, self._at), one, rpd)

    def _sharing(self, saved: SavedSharing | None) -> Sharing:
        if saved is None:
            return Sharing()
        return Sharing(
            shared_until=None if saved.shared_until is None else self._move(saved.shared_until),
            apart=saved.apart,
            told={
                model: {Limit(which): value for which, value in limits.items()}
                for model, limits in saved.told.items()
            },
            doubts=saved.doubts,
            doubted_at=self._past(saved.doubted_at),
        )

    def _keep_cooldown(self, saved: SavedKey) -> None:
        """Let a key wait as long as before if it now belongs to another group."""
        name = saved.quota_group or f"={saved.id}"
        if (saved.provider, name) in self._pool_state.groups:
            return
        before = next((one.rest for one in self._saved.groups if one.name == name), None)
        cooldown = self._pool_state.keys[saved.id].group.cooldown
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
        if saved.guess is None or budget.guess is None:
            budget.guess = None
        else:
            values = saved.guess.model_dump()
            times = {name: values[name] for name in _GUESS_TIMES}
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
