"""What is known about each key: its limits, and whether it can be used. Never the key itself."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentos.app.known_keys import KeyUser, key_value, known_health, shared_rows
from agentos.app.project import Project
from agentos.config import Config
from agentos.coordinator.keys import key_references, login_keys, read_key, spec_of
from agentos.coordinator.shared_pools import enable_in
from agentos.credentials.headers import MAX_LIMIT, number
from agentos.errors import ConfigError, UsageError
from agentos.key_tables import KeyReference
from agentos.model import available
from agentos.model_access import COMMAND_PROVIDERS
from agentos.secret import BadCharacterError
from agentos.store.key_health import HealthFile

MAX_WALL = 1e11  # seconds since 1970; later than any key can wait
_LIMITS = ("rpm", "tpm", "rpd", "burst", "max_in_flight")


@dataclass(frozen=True, kw_only=True)
class KeyInfo:
    """One key, from the configuration and from what is known about it."""

    id: str
    provider: str
    group: str
    state: str  # available, missing, unusable, disabled, or why it waits
    reason: str | None
    seconds_left: float  # until it can be used
    limits: Mapping[str, float]
    source: str  # the variable or file that holds it
    disabled_since: str | None = None
    users: tuple[KeyUser, ...] = ()  # the runs that use it now, in whatever repository


@dataclass(frozen=True, kw_only=True)
class KeyPause:
    """Why a key must wait, and for how long."""

    state: str
    seconds: float  # 0: it need not wait


def list_keys(project: Project, say: Callable[[str], None]) -> tuple[KeyInfo, ...]:
    """Every key that a run of this project could use."""
    config, now = project.config, time.time()
    health = known_health(config, project.home, _references(config), say)
    shown = (*key_references(config), *login_keys(config, known=health))
    return tuple(_info(one, health.get(one.id, {}), config.environment, now) for one in shown)


def enable_key(project: Project, key_id: str, say: Callable[[str], None]) -> bool:
    """Clear the rate limit, quota or rejection of a key, for all runs; return whether there was any."""
    references = {one.id: one for one in _references(project.config)}
    if key_id not in references:
        raise UsageError(f"No key {key_id!r}. {available(sorted(references), none='There are no keys.')}")
    home, config, reference = project.home, project.config, references[key_id]
    with shared_rows(config, home, say) as rows:
        cleared = home.tree.exists(home.key_health) and HealthFile(home.create().key_health).clear(key_id)
        if rows is None:
            return cleared
        try:
            secret = key_value(reference, config.environment)
        except ConfigError:
            return cleared
        return enable_in(rows, spec_of(reference, config), secret, config.base_urls, say) or cleared


def _references(config: Config) -> tuple[KeyReference, ...]:
    """The configured keys and the command providers, of which a run may use any."""
    return (*key_references(config), *login_keys(config, known=COMMAND_PROVIDERS))


def rest_of(entry: Mapping[str, Any], now: float) -> KeyPause:
    """How long a key must wait, from its entry in the health file, however damaged the entry is."""
    pause = _table(entry.get("resting"))
    until = number(pause.get("until"), low=0.0, high=MAX_WALL) or 0.0
    return KeyPause(state=str(pause.get("state", "waiting"))[:40], seconds=max(0.0, until - now))


def _info(
    reference: KeyReference, entry: Mapping[str, Any], environment: Mapping[str, str], now: float
) -> KeyInfo:
    pause = rest_of(entry, now)
    state, reason = "available", None
    if reference.env is not None and not environment.get(reference.env, "").strip():
        state, reason = "missing", f"the variable {reference.env} is not set"
    elif (problem := _problem(reference, environment)) is not None:
        state, reason = "unusable", problem
    elif entry.get("disabled"):
        state, reason = "disabled", str(entry["disabled"])[:200]
    elif pause.seconds:
        state = pause.state
    since = number(entry.get("disabled_at"), low=0.0, high=MAX_WALL) if state == "disabled" else None
    configured = {name: getattr(reference, name) for name in _LIMITS}
    learnt = {
        f"{model} {name}": value
        for model, known in _table(entry.get("models")).items()
        for name, raw in _table(_table(known).get("limits")).items()
        if (value := number(raw, low=1.0, high=MAX_LIMIT)) is not None
    }
    return KeyInfo(
        id=reference.id,
        provider=reference.provider,
        group=reference.quota_group or reference.id,
        state=state,
        reason=reason,
        seconds_left=round(pause.seconds, 1),
        limits={name: value for name, value in configured.items() if value is not None} | learnt,
        source=reference.env or reference.file or _without_key(reference.provider),
        disabled_since=None if since is None else moment(since),
        users=tuple(entry.get("users", ())),
    )


def _without_key(provider: str) -> str:
    return "its own login" if provider in COMMAND_PROVIDERS else f"[providers.{provider}], no key needed"


def moment(wall: float) -> str:
    """A time in words, for people."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _problem(reference: KeyReference, environment: Mapping[str, str]) -> str | None:
    """Why a key cannot be used, or None if it can."""
    if reference.env is None and reference.file is None:
        return None
    try:
        read_key(reference, environment)
    except BadCharacterError as exc:
        where = f"character {exc.position} of {reference.env or reference.file}"
        return f"{where} is a space or is not printable ASCII. Copy the key again."
    except ConfigError as exc:
        return str(exc).removeprefix(f"Key {reference.id!r}: ")
    return None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
