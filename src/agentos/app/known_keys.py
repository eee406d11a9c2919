"""What is known about the user's keys: from the state that all runs share, or else from the home.

With the engine `postgres`, or if the records of this clone are in the database, it is the state that machines
share there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from agentos.app.db import open_pool
from agentos.config import Config
from agentos.coordinator.keys import read_key
from agentos.coordinator.shared_pools import RunRows, row_name
from agentos.credentials.saved_state import PoolStateError, SavedKey, SavedPool, read_text
from agentos.errors import ConfigError
from agentos.key_tables import KeyReference
from agentos.secret import Secret
from agentos.store.home import Home
from agentos.store.key_health import HealthFile
from agentos.store.key_pool import (
    DATABASE,
    ActiveRun,
    PoolDatabase,
    PoolUser,
    open_pool_database,
    read_pool_database,
)
from agentos.store.known_homes import make_state_folder, state_folder
from agentos.store.rooted_tree import Tree


@dataclass(frozen=True, kw_only=True)
class KeyUser:
    """A run that uses a key now."""

    run: str
    place: str  # the folder it runs in
    pid: int
    in_flight: int  # its calls with this key
    host: str = ""  # the machine it runs on, if several share the keys


def known_health(
    config: Config, home: Home | None, references: Iterable[KeyReference], say: Callable[[str], None]
) -> dict[str, Mapping[str, Any]]:
    """What is known about each key, by its id, in the form of the home's health file.

    Raises ConfigError if it is in a database that cannot be reached.
    """
    if _in_database(config, home):
        with closing(open_pool(config.environment)) as pool:
            return _Overview(pool, config).entries(references)
    database = _open(config, say)
    if database is None:
        found = {} if home is None else HealthFile(home.key_health).read().get("keys", {})
        return {name: entry for name, entry in found.items() if isinstance(entry, dict)}
    with closing(database):
        return _Overview(database, config).entries(references)


class KnownRows(Protocol):
    """A database with the state of keys, for reading: `PoolDatabase` or `PostgresPool`."""

    @property
    def salt(self) -> bytes: ...
    def states(self) -> dict[str, str]: ...
    def runs(self) -> tuple[ActiveRun, ...]: ...
    def users(self, provider: str) -> tuple[PoolUser, ...]: ...
    def is_alive(self, token: str) -> bool: ...


def key_value(reference: KeyReference, environment: Mapping[str, str]) -> Secret:
    """Read a key; a program with its own login has an empty one."""
    if reference.env is None and reference.file is None:
        return Secret(reference.id, "")
    return read_key(reference, environment)


@contextmanager
def shared_rows(config: Config, home: Home, say: Callable[[str], None]) -> Iterator[RunRows | None]:
    """Open the state that all runs share, for writing; None if there is none."""
    folder = state_folder(config.environment)
    if _in_database(config, home):
        with closing(open_pool(config.environment)) as pool:
            yield pool
    elif folder is not None and Tree(folder.resolve()).is_file(DATABASE):
        with closing(open_pool_database(make_state_folder(folder), say, read_text)) as database:
            yield database
    else:
        yield None


def _in_database(config: Config, home: Home | None) -> bool:
    return config.settings.engine == "postgres" or (home is not None and home.elsewhere is not None)


def _open(config: Config, say: Callable[[str], None]) -> PoolDatabase | None:
    folder = state_folder(config.environment)
    return None if folder is None else read_pool_database(Tree(folder.resolve()), say, read_text)


class _Overview:
    """The shared state at one moment."""

    def __init__(self, database: KnownRows, config: Config) -> None:
        self._database = database
        self._config = config
        self._states = database.states()
        self._alive = {run.token: run for run in database.runs() if database.is_alive(run.token)}
        self._pools: dict[str, SavedPool | None] = {}

    def entries(self, references: Iterable[KeyReference]) -> dict[str, Mapping[str, Any]]:
        return {one.id: entry for one in references if (entry := self._entry(one)) is not None}

    def _entry(self, reference: KeyReference) -> Mapping[str, Any] | None:
        try:
            secret = key_value(reference, self._config.environment)
        except ConfigError:
            return None
        row = row_name(self._database.salt, reference.provider, self._config.base_urls)
        mark = secret.fingerprint(self._database.salt)
        pool = self._pool(row)
        key = None if pool is None else next((one for one in pool.keys if one.id == mark), None)
        if pool is None or key is None:
            return None
        return _health(pool, key) | {"users": self._users(row, mark, pool)}

    def _pool(self, row: str) -> SavedPool | None:
        if row not in self._pools:
            try:
                self._pools[row] = read_text(self._states.get(row, "null"))
            except PoolStateError:
                self._pools[row] = None
        return self._pools[row]

    def _users(self, row: str, mark: str, pool: SavedPool) -> list[KeyUser]:
        tokens = [user.token for user in self._database.users(row) if f'"{mark}"' in user.keys]
        return [
            _user(self._alive[token], pool, mark) for token in dict.fromkeys(tokens) if token in self._alive
        ]


def _user(run: ActiveRun, pool: SavedPool, mark: str) -> KeyUser:
    calls = sum(lease.run_id == run.token and lease.key == mark for lease in pool.leases)
    return KeyUser(run=run.run_id, place=run.place, pid=run.pid, in_flight=calls, host=run.host)


def _health(pool: SavedPool, key: SavedKey) -> dict[str, Any]:
    name = key.quota_group or f"={key.id}"
    group = next((one for one in pool.groups if one.name == name), None)
    budgets = [] if group is None else group.budgets
    resting = group is not None and group.rest.until is not None
    return {
        "disabled": key.disabled,
        "disabled_at": key.disabled_at,
        "resting": {"state": group.rest.state, "until": group.rest.until} if group and resting else None,
        "models": {budget.model: {"limits": budget.learnt} for budget in budgets if budget.learnt},
    }
