"""Exports the key pool's whole live state in the form of `saved_state`. Pure.

A pool uses the clock of its machine; in the data, times are wall-clock times. Everyone who shares a state
should pass the wall clock of one machine, that of the database.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from agentos.credentials.fixed_window import FixedWindow
from agentos.credentials.headers import Limit
from agentos.credentials.key_state import Cooldown, Group, Key
from agentos.credentials.pace_guess import PaceGuess
from agentos.credentials.pool import CredentialCoordinator
from agentos.credentials.pool_state import Ask, KeySet, Lease, ModelState, PoolState
from agentos.credentials.quota import Quota, Sent
from agentos.credentials.refill import Refill
from agentos.credentials.saved_state import GUESS_TIMES, VERSION
from agentos.credentials.sharing import Sharing
from agentos.credentials.ticks import tick

_SHARING_TIMES = ("shared_until", "doubted_at")
_WINDOW_TIMES = ("first", "soonest", "latest")


def export_state(pool: CredentialCoordinator, now: float, wall: float) -> dict[str, Any]:
    """Return data, ready for JSON, from which `restore_pool` makes a pool that behaves the same."""
    return _Export(pool.pool_state, now, wall).state()


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
            "sharing": self._sharing(group.sharing),
            "budgets": [self._budget(model, budget) for model, budget in group.budgets.items()],
        }

    def _sharing(self, sharing: Sharing) -> dict[str, Any]:
        told = {
            model: {
                "at": self._time(one.at),
                "limits": {which.value: value for which, value in one.limits.items()},
            }
            for model, one in sharing.told.items()
        }
        return self._moved(sharing, _SHARING_TIMES) | {"told": told}

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
        return self._moved(guess, GUESS_TIMES)

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
