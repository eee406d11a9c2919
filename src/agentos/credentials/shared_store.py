"""The pool's state in rows that several runs share: load, apply, save, in one transaction. Pure.

In the rows, a key is named by the fingerprint of its value, in a run by its id. So two configuration files
may give one key two ids, and a key with a new value is a new key.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from agentos.credentials.export_state import export_state
from agentos.credentials.key_state import KeySpec
from agentos.credentials.pool import CredentialCoordinator
from agentos.credentials.pool_store import LoadedPool
from agentos.credentials.restore_state import restore_pool
from agentos.credentials.saved_state import PoolStateError
from agentos.errors import StorageBusy, StorageError
from agentos.events.asker import Asker
from agentos.lease import LeaseNumber
from agentos.store.key_pool.rows import PoolUser, StateRow

LOOK_ALONE_SECONDS = 0.5  # the same while no other run uses the keys
ALIVE_SECONDS = 1.0  # between two checks whether the other runs are alive
EXPIRED_SECONDS = 30.0  # how long the run of an expired lease has to end its call
UNUSED_KEYS = 16  # that are remembered although no run uses them now

UNKNOWN = -1  # the version of a state that must be loaded again

_LOWEST = ("rpm", "tpm", "rpd", "burst", "max_in_flight")


class StateRows(Protocol):
    """A database with one row per provider. Every method may raise StorageBusy or StorageError."""

    def clock(self) -> float: ...
    def wall(self) -> float: ...
    def begin(self, provider: str, known: int = 0) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def state(self, provider: str, known: int = 0) -> StateRow | None: ...
    def save(self, provider: str, row: StateRow, *, last_lease: LeaseNumber) -> None: ...
    def last_lease(self) -> LeaseNumber: ...
    def users(self, provider: str) -> tuple[PoolUser, ...]: ...
    def set_keys(self, token: str, provider: str, keys: str) -> None: ...
    def remove_run(self, token: str) -> None: ...
    def is_alive(self, token: str) -> bool: ...
    def told(self) -> int: ...
    def tell(self, tokens: Iterable[str]) -> None: ...
    @property
    def look_seconds(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class SharedKeys:
    """The keys of one provider that a run uses."""

    row: str  # the name of the provider's row
    specs: tuple[KeySpec, ...]
    fingerprints: Mapping[str, str]  # by id


class SharedStore:
    """The state of one provider's keys, for one run. If the database fails, the run continues without it."""

    def __init__(
        self, rows: StateRows, keys: SharedKeys, *, run: str, lease_seconds: float, say: Callable[[str], None]
    ) -> None:
        self._rows = rows
        self._row = keys.row
        self._run = run
        self.specs = keys.specs
        self._names = {keys.fingerprints[spec.id]: spec.id for spec in keys.specs}
        self._fingerprints = {name: mark for mark, name in self._names.items()}
        self._lease_seconds = lease_seconds
        self._say = say
        self._pool = self._new_pool()
        self._version = 0
        self._others = False
        self._checked_at: float | None = None
        self._told = 0
        self._asking: set[Asker] = set()  # for other runs, when the transaction began
        self._failed = False

    def join(self) -> None:
        """Enter the run's keys. All that earlier runs learnt about them stays, except for the pace.

        The user may have added credit or repaired a server since: that is tried at once.
        """
        keys = {self._fingerprints[spec.id]: _limits(spec) for spec in self.specs}
        with self._alone() as now:
            self._rows.set_keys(self._run, self._row, json.dumps(keys))
            self._end_dead_runs(now)
            self._configure()
            pool_state = self._pool.pool_state
            if not self._others:
                pool_state.forget_pace()
            pool_state.try_again((spec.id for spec in self.specs), now, alone=not self._others)

    def leave(self) -> None:
        """Forget the run's requests and leases."""
        if not self._failed:
            with self._alone() as now:
                self._pool.forget_run(self._run, now)
                self._rows.remove_run(self._run)
                self._configure()

    def look(self, now: float) -> LoadedPool:
        if not self._failed:
            try:
                return self._load(now)
            except StorageBusy:
                raise
            except StorageError as exc:
                self._fail(exc)
        return LoadedPool(pool=self._pool, now=now)

    def heard(self) -> bool:
        return not self._failed and self._rows.told() != self._told

    @contextmanager
    def transaction(self, now: float) -> Iterator[LoadedPool]:
        loaded = self._begin(now)
        if loaded is None:
            yield LoadedPool(pool=self._pool, now=now)
            return
        try:
            yield loaded
        except BaseException:
            self._undo()
            raise
        try:
            self._save()
            self._rows.commit()
        except StorageBusy:
            self._undo()
            raise
        except StorageError as exc:
            self._fail(exc)

    def _begin(self, now: float) -> LoadedPool | None:
        """Begin a transaction and load the state; None if the run continues without the database."""
        if self._failed:
            return None
        try:
            self._rows.begin(self._row, self._version)
            loaded = self._load(now)
            self._asking = self._other_askers()
            self._pool.pool_state.last_lease = max(self._pool.pool_state.last_lease, self._rows.last_lease())
            if self._checked_at is None or loaded.now - self._checked_at >= ALIVE_SECONDS:
                self._end_dead_runs(loaded.now)
        except StorageBusy:
            self._undo()
            raise
        except StorageError as exc:
            self._fail(exc)
            return None
        return self._loaded(loaded.now, changed=loaded.changed)

    @contextmanager
    def _alone(self) -> Iterator[float]:
        """Open a transaction that must not fail."""
        self._rows.begin(self._row, self._version)
        try:
            now = self._load(self._rows.clock()).now
            self._asking = self._other_askers()
            yield now
            self._save()
            self._rows.commit()
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        self._rows.rollback()
        self._version = UNKNOWN  # the pool has changes that are not saved, so it is loaded again

    def _fail(self, exc: StorageError) -> None:
        self._failed = True
        self._rows.rollback()
        self._say(f"{exc} This run no longer shares limits with your other runs.")

    def _loaded(self, now: float, *, changed: bool) -> LoadedPool:
        check_at = None if self._checked_at is None else self._checked_at + ALIVE_SECONDS
        return LoadedPool(
            pool=self._pool,
            now=now,
            changed=changed,
            check_at=check_at if self._others else None,
            look_again=self._rows.look_seconds if self._others else LOOK_ALONE_SECONDS,
        )

    def _load(self, now: float) -> LoadedPool:
        # The time after a wait for other runs: theirs has passed, too.
        now = max(now, self._rows.clock())
        self._told = self._rows.told()
        row = self._rows.state(self._row, self._version)
        if row is not None:
            self._others = self._others or self._version > 0
            self._pool = self._restored(row, now)
            self._version = row.version
        return self._loaded(now, changed=row is not None)

    def _restored(self, row: StateRow, now: float) -> CredentialCoordinator:
        if row.version == 0:
            return self._new_pool()
        try:
            data = renamed(json.loads(row.state), self._names)
            known = {key["id"] for key in data["keys"]}
            return restore_pool(
                data,
                now=now,
                wall=self._rows.wall(),
                keys=[spec for spec in self.specs if spec.id not in known],
                lease_seconds=self._lease_seconds,
                exported=row.written,
            )
        except (PoolStateError, ValueError, RecursionError) as exc:
            self._say(f"The state of your keys for {self._row} cannot be used and starts over: {exc}")
            return self._new_pool()

    def _save(self) -> None:
        pool_state = self._pool.pool_state
        # A run speaks for all of its attempts, and never for one that is over.
        pool_state.over.clear()
        now = self._rows.clock()
        state = renamed(export_state(self._pool, now, self._rows.wall()), self._fingerprints)
        row = StateRow(version=self._version + 1, state=json.dumps(state), written=now)
        self._rows.save(self._row, row, last_lease=pool_state.last_lease)
        self._rows.tell(sorted({asker.run_id for asker in self._asking - self._other_askers()}))
        self._version = row.version

    def _other_askers(self) -> set[Asker]:
        asks = self._pool.pool_state.asks.values()
        return {ask.asker for ask in asks if ask.asker.run_id != self._run}

    def _end_dead_runs(self, now: float) -> None:
        """Forget the runs that were killed, and leases that expired long ago."""
        self._checked_at = now
        users = {user.token for user in self._rows.users(self._row)} | {self._run}
        dead = {token for token in users if token != self._run and not self._rows.is_alive(token)}
        pool_state = self._pool.pool_state
        asking = {ask.asker.run_id for ask in pool_state.asks.values()}
        asking |= {asker.run_id for asker in pool_state.held}
        for token in sorted(dead | (asking - users)):
            self._pool.forget_run(token, now)
        for lease in list(pool_state.expired.values()):
            if lease.asker.run_id != self._run and lease.expires + EXPIRED_SECONDS < now:
                pool_state.remove_lease(lease)
        self._others = len(users - dead) > 1
        if dead:
            for token in sorted(dead):
                self._rows.remove_run(token)
            self._configure()

    def _configure(self) -> None:
        """Apply the limits in the configuration of all runs: if they differ, the lowest."""
        found: dict[str, list[KeySpec]] = {}
        provider = self.specs[0].provider
        for user in self._rows.users(self._row):
            for mark, spec in _read_limits(user.keys, provider):
                found.setdefault(mark, []).append(spec)
        specs = [
            _lowest(replace(one, id=self._names.get(mark, mark)) for one in theirs)
            for mark, theirs in found.items()
        ]
        now, wall = self._rows.clock(), self._rows.wall()
        data = export_state(self._pool, now, wall)
        data["keys"] = _without_old_keys(data["keys"], {spec.id for spec in specs})
        self._pool = restore_pool(
            data, now=now, wall=wall, keys=specs, lease_seconds=self._lease_seconds, exported=now
        )

    def _new_pool(self) -> CredentialCoordinator:
        return CredentialCoordinator(self.specs, lease_seconds=self._lease_seconds)


def renamed(data: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Return an exported state with other names for its keys; PoolStateError if it has no keys."""

    def new(name: str) -> str:
        return names.get(name, name)

    try:
        keys = [{**key, "id": new(key["id"])} for key in data["keys"]]
        # The group of a single key has the key's name.
        groups = [
            {**group, "name": "=" + new(group["name"][1:])} if group["name"].startswith("=") else group
            for group in data["groups"]
        ]
        leases = [{**lease, "key": new(lease["key"])} for lease in data["leases"]]
        key_sets = [sorted(map(new, key_set)) for key_set in data["key_sets"]]
    except (TypeError, KeyError, AttributeError):
        raise PoolStateError("The key pool's state cannot be used: its keys have no names.") from None
    return {**data, "keys": keys, "groups": groups, "leases": leases, "key_sets": key_sets}


def _limits(spec: KeySpec) -> dict[str, Any]:
    return {name: value for name, value in asdict(spec).items() if name not in {"id", "provider"}}


def _read_limits(text: str, provider: str) -> Iterator[tuple[str, KeySpec]]:
    """Yield the keys of a run; what is damaged is skipped."""
    with suppress(ValueError, TypeError, AttributeError, RecursionError):
        for mark, limits in json.loads(text).items():
            yield mark, KeySpec(**limits, id=mark, provider=provider)


def _lowest(specs: Iterable[KeySpec]) -> KeySpec:
    """Return one key as several runs configured it: the lowest limits, and the latest quota group."""
    *earlier, latest = specs

    def lowest(name: str) -> Any:
        given = [getattr(spec, name) for spec in (*earlier, latest)]
        return min((value for value in given if value is not None), default=None)

    return replace(latest, **{name: lowest(name) for name in _LOWEST})


def _without_old_keys(keys: Sequence[dict[str, Any]], used: set[str]) -> list[dict[str, Any]]:
    """Leave out keys that no run uses, except for the last ones that were used."""
    unused = sorted((key for key in keys if key["id"] not in used), key=lambda key: -key["last_lease"])
    kept = used | {key["id"] for key in unused[:UNUSED_KEYS]}
    return [key for key in keys if key["id"] in kept]
