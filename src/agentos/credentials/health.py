"""What survives a run about each key: cooldowns, disabled keys, learned limits, daily counts. Pure.

Times are wall-clock seconds here and nowhere else. Invalid entries are skipped, key by key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentos.credentials.headers import MAX_LIMIT, Limit, LimitHeaders, number
from agentos.credentials.key_state import Key, KeyState
from agentos.credentials.outcome import QUOTA_LONGEST, RATE_LIMIT_LONGEST
from agentos.credentials.pool_state import PoolState

VERSION = 1
MODELS_MOST = 200  # anyone may have written the file
_LONGEST = {KeyState.RATE_LIMITED: RATE_LIMIT_LONGEST, KeyState.QUOTA_EXHAUSTED: QUOTA_LONGEST}
_MAX_WALL = 1e11


@dataclass(frozen=True, kw_only=True)
class CooldownLeft:
    """How long a key is still not usable."""

    state: KeyState
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ModelHealth:
    """What is known about a key's group for one model."""

    limits: dict[Limit, float] = field(default_factory=dict)
    used_today: float | None = None


@dataclass(frozen=True, kw_only=True)
class KeyHealth:
    """What the file says about a key that exists."""

    key: Key
    disabled: str | None
    cooldown: CooldownLeft | None
    models: dict[str, ModelHealth]
    age: float  # seconds since it was written


def export(pool_state: PoolState, now: float, wall: float) -> dict[str, Any]:
    """Return data about every key, ready for JSON."""
    return {
        "version": VERSION,
        "at": wall,
        "keys": {key.spec.id: _export_key(key, now, wall) for key in pool_state.keys.values()},
    }


def _export_key(key: Key, now: float, wall: float) -> dict[str, Any]:
    cooldown = key.group.cooldown
    # The next run tries at once what a person may have repaired by then.
    active = cooldown.until is not None and cooldown.until > now and not cooldown.is_repairable
    models: dict[str, Any] = {}
    for model, budget in key.group.budgets.items():
        entry: dict[str, Any] = {}
        if budget.learnt:
            entry["limits"] = {which.value: value for which, value in budget.learnt.items()}
        if (day := budget.buckets.get(Limit.RPD)) is not None:
            entry["used_today"] = day.capacity - day.level(now)
        if entry:
            models[model] = entry
    return {
        "provider": key.spec.provider,
        "group": key.group.name,
        "disabled": key.disabled,
        "resting": {"state": cooldown.state.value, "until": wall + (cooldown.until - now)}
        if active and cooldown.until is not None
        else None,
        "models": models,
    }


def read(data: object, pool_state: PoolState, wall: float) -> list[KeyHealth]:
    """Return what the data says about keys that exist; never raises."""
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        return []
    written = number(data.get("at"), low=0.0, high=_MAX_WALL)
    keys = data.get("keys")
    if written is None or not isinstance(keys, Mapping):
        return []
    # A clock that was set back must not make a cooldown longer.
    age = max(0.0, wall - written)
    found = []
    for key_id, entry in keys.items():
        key = pool_state.keys.get(key_id) if isinstance(key_id, str) else None
        if key is None or not isinstance(entry, Mapping) or entry.get("provider") != key.spec.provider:
            continue
        disabled = entry.get("disabled")
        found.append(
            KeyHealth(
                key=key,
                disabled=disabled[:200] if isinstance(disabled, str) and disabled else None,
                cooldown=_read_cooldown(entry.get("resting"), written, age),
                models=dict(_read_models(entry.get("models"))),
                age=age,
            )
        )
    return found


def _read_cooldown(value: object, written: float, age: float) -> CooldownLeft | None:
    if not isinstance(value, Mapping):
        return None
    until = number(value.get("until"), low=0.0, high=_MAX_WALL)
    state = next((one for one in _LONGEST if one.value == value.get("state")), None)
    if until is None or state is None:
        return None
    left = min(until - written, _LONGEST[state]) - age
    return CooldownLeft(state=state, seconds=left) if left > 0 else None


def _read_models(value: object) -> Iterable[tuple[str, ModelHealth]]:
    for model, entry in list(value.items())[:MODELS_MOST] if isinstance(value, Mapping) else ():
        if not isinstance(model, str) or not isinstance(entry, Mapping):
            continue
        given = entry.get("limits")
        limits = {
            which: limit
            for which in Limit
            if isinstance(given, Mapping)
            and (limit := number(given.get(which.value), low=1.0, high=MAX_LIMIT)) is not None
        }
        used = number(entry.get("used_today"), low=0.0, high=MAX_LIMIT)
        if limits or used is not None:
            yield model, ModelHealth(limits=limits, used_today=used)


def restore_budgets(found: KeyHealth, now: float) -> None:
    """Take over learnt limits and the daily count. What this run has learnt itself takes precedence."""
    group = found.key.group
    for model, entry in found.models.items():
        budget = group.budget(model, now)
        news = {
            which: LimitHeaders(limit=value, remaining=None, reset=None)
            for which, value in entry.limits.items()
            if which not in budget.learnt
        }
        budget.learn(news, age=0.0, now=now)
        day = budget.buckets.get(Limit.RPD)
        if day is not None and entry.used_today is not None:
            day.lower(day.capacity - entry.used_today + found.age * day.rate, now)
