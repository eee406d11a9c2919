"""The SQLite database with the state of the user's keys, in the user's state folder. Coordinator process.

It contains no key, only salted fingerprints of keys. What is in it can be found out again, by calls that are
refused. So a commit does not wait for the disk, and a damaged database is set aside and started over.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentos.errors import StorageBusy, StorageError
from agentos.lease import MOST, LeaseNumber
from agentos.os_process import boot_id
from agentos.store.key_pool.rows import BUSY_SECONDS, ActiveRun, PoolUser, StateRow
from agentos.store.records.migrations import check_tables
from agentos.store.records.statements import read_queries, read_script
from agentos.store.rooted_tree import SIDE_FILES, Tree
from agentos.store.run_folder import hold_lock, is_locked

FOLDER = Path("keys")
DATABASE = FOLDER / "pool.db"
MIGRATIONS = ("key-pool/001-pool.sql",)
LOOK_SECONDS = 0.02  # between two looks while a request waits; calls may arrive unevenly by more than this
OPENING_SECONDS = 10.0
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# The last two: our statements are valid, and the file is writable, so only its own header can disagree.
_DAMAGE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY}
)
# Even the text of an SQLite error may contain bytes of the file that are not UTF-8.
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError, StorageError)

Check = Callable[[str], object]
"""Reads the state of a provider; raises StorageError if it cannot be used."""

_QUERIES = read_queries("key-pool")


class PoolDatabase:
    """An open database; a run in it is alive while its lock file is held."""

    look_seconds = LOOK_SECONDS

    def __init__(
        self,
        tree: Tree,
        db: sqlite3.Connection,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._tree = tree
        self._db = db
        self.clock = clock
        self.wall = wall
        self._boot = boot_id()
        self._locks: dict[str, int] = {}
        self.wait_at_most(BUSY_SECONDS)
        with _translated():
            row = db.execute(_QUERIES["salt"]).fetchone()
        self.salt: bytes = row[0] if row else b""  # of the fingerprints

    def close(self) -> None:
        for descriptor in self._locks.values():
            os.close(descriptor)
        self._db.close()

    def wait_at_most(self, seconds: float) -> None:
        """Set how long to wait for another process before StorageBusy is raised."""
        with _translated():
            self._db.execute(f"PRAGMA busy_timeout={round(seconds * 1000)}")

    # One transaction.

    def begin(self, _provider: str = "", _known: int = 0) -> None:
        """Let nobody else write until `commit` or `rollback`, whatever the provider."""
        with _translated():
            self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        with _translated():
            self._db.execute("COMMIT")

    def rollback(self) -> None:
        with suppress(sqlite3.Error):
            self._db.execute("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Let nobody else write during this block."""
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            self.rollback()
            raise

    # The state of a provider.

    def state(self, provider: str, known: int = 0) -> StateRow | None:
        """Return the state, or None if its version is the known one; version 0 if there is none."""
        rows = self._rows("state", provider=provider, known=known)
        if not rows:
            return None if known > 0 else StateRow(version=0, state="", written=None)
        row = rows[0]
        same = row["boot"] == self._boot and row["written"] <= self.clock()
        return StateRow(version=row["version"], state=row["state"], written=row["written"] if same else None)

    def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in self._rows("states")}

    def save(self, provider: str, row: StateRow, *, last_lease: LeaseNumber) -> None:
        values = {"version": row.version, "state": row.state, "written": row.written}
        self._change("save_state", provider=provider, boot=self._boot, last_lease=last_lease, **values)

    def last_lease(self) -> LeaseNumber:
        """Return the highest number of a lease of any provider."""
        with _translated():
            return int(self._db.execute(_QUERIES["last_lease"]).fetchone()[0])

    # Runs.

    def add_run(self, run: ActiveRun) -> None:
        """Enter a run; it counts as alive until this process ends or `remove_run` is called."""
        path = _lock_file(run.token)
        try:
            self._locks[run.token] = hold_lock(self._tree, path)
        except OSError as exc:
            raise StorageError(f"Cannot lock {self._tree.root / path}: {exc.strerror or exc}.") from exc
        with self.transaction():
            self._change("add_run", **vars(run))

    def remove_run(self, token: str) -> None:
        """Remove a run that has ended, inside a transaction."""
        self._change("remove_run", token=token)
        self._change("remove_keys", token=token)
        if (lock := self._locks.pop(token, None)) is not None:
            os.close(lock)
        with suppress(OSError):
            self._tree.remove(_lock_file(token))

    def is_alive(self, token: str) -> bool:
        return token in self._locks or is_locked(self._tree, _lock_file(token))

    def runs(self) -> tuple[ActiveRun, ...]:
        """Return the runs that have not been removed; some may have been killed."""
        return tuple(ActiveRun(**row) for row in self._rows("runs"))

    def set_keys(self, token: str, provider: str, keys: str) -> None:
        self._change("set_keys", token=token, provider=provider, keys=keys)

    def users(self, provider: str) -> tuple[PoolUser, ...]:
        return tuple(PoolUser(**row) for row in self._rows("users", provider=provider))

    def told(self) -> int:
        return 0  # every run looks by itself

    def tell(self, _tokens: Iterable[str]) -> None:
        """Do nothing: every run looks by itself."""

    def _change(self, statement: str, **values: Any) -> None:
        with _translated():
            self._db.execute(_QUERIES[statement], values)

    def _rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with _translated():
            cursor = self._db.execute(_QUERIES[statement], values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def open_pool_database(
    tree: Tree, say: Callable[[str], None], check: Check = str, /, **clocks: Callable[[], float]
) -> PoolDatabase:
    """Open the database for a run, and create it if it is missing. A damaged one is set aside.

    Raises StorageError if that is not possible.
    """
    place = tree.root / DATABASE
    try:
        tree.make_private(FOLDER)
        with Tree(tree.root / FOLDER).alone():  # two first runs may start at the same moment
            try:
                db = _open(tree, check)
            except _UNREADABLE as exc:
                if not _is_damage(exc):
                    raise
                aside = _set_aside(tree)
                why = str(exc).rstrip(".")
                say(
                    f"{place} is damaged ({why}). It is now {aside.name}; the state of your keys starts over."
                )
                db = _open(tree, check)
            return PoolDatabase(tree, db, **clocks)
    except (sqlite3.Error, OSError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise StorageError(f"Cannot use {place}: {reason}.") from exc


def read_pool_database(tree: Tree, say: Callable[[str], None], check: Check = str) -> PoolDatabase | None:
    """Open the database; None if there is none that can be read. It is written only if it is damaged."""
    if not tree.is_file(DATABASE):
        return None
    uri = f"file:{quote(str(tree.root / DATABASE))}"
    for how in ("mode=ro", "immutable=1"):  # the second if a killed run left a journal: only writers undo it
        try:
            tree.check_database(DATABASE)
            db = sqlite3.connect(f"{uri}?{how}", uri=True, timeout=OPENING_SECONDS, isolation_level=None)
        except (sqlite3.Error, OSError):
            continue
        try:
            if _prepared(db, check):
                return PoolDatabase(tree, db)
        except _UNREADABLE as exc:
            if _is_damage(exc):
                db.close()
                with suppress(StorageError):
                    return open_pool_database(tree, say, check)
        db.close()
    return None


def _open(tree: Tree, check: Check) -> sqlite3.Connection:
    os.close(tree.open(DATABASE, os.O_RDWR | os.O_CREAT))
    tree.check_database(DATABASE)
    db = sqlite3.connect(tree.root / DATABASE, timeout=OPENING_SECONDS, isolation_level=None)
    try:
        # Not a write-ahead log: older SQLite versions have a known bug with two writers on one.
        db.execute("PRAGMA journal_mode=PERSIST")
        # A killed process damages nothing. A power cut may, and then the state starts over.
        db.execute("PRAGMA synchronous=OFF")
        db.execute("BEGIN IMMEDIATE")
        for number, name in enumerate(MIGRATIONS[_prepared(db, check) :], start=1):
            for statement in read_script(name):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={number}")
        db.execute(_QUERIES["add_salt"], {"value": os.urandom(32)})
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _prepared(db: sqlite3.Connection, check: Check) -> int:
    """Check everything in the database, so that whatever is damaged is found now; return its version."""
    db.text_factory = bytes.decode  # strict, and its error is always the same
    db.execute("PRAGMA trusted_schema=OFF")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise sqlite3.NotSupportedError("a newer version of agentos wrote it")
    check_tables(db, MIGRATIONS[: max(0, version)])
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok" or version < 0:
        raise sqlite3.DatabaseError(found)
    for query in ("salt", "runs", "all_keys") if version else ():
        db.execute(_QUERIES[query]).fetchall()
    for _name, number, state, _boot, last_lease in db.execute(_QUERIES["all_states"]) if version else ():
        check(state)
        if not (0 < number < MOST and 0 <= last_lease < MOST):
            raise sqlite3.DatabaseError("a number in it is impossible")
    return int(version)


def _is_damage(exc: Exception) -> bool:
    if not isinstance(exc, sqlite3.Error):
        return True
    if isinstance(exc, sqlite3.NotSupportedError):
        return False
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code in _DAMAGE or code & 0xFF == sqlite3.SQLITE_CORRUPT


def _set_aside(tree: Tree) -> Path:
    """Give the database another name; only the latest damaged one is kept."""
    aside = DATABASE.with_suffix(".damaged")
    tree.remove(aside)
    tree.move(DATABASE, aside)
    for ending in SIDE_FILES:
        tree.remove(DATABASE.with_name(DATABASE.name + ending))
    return aside


def _lock_file(token: str) -> Path:
    return FOLDER / f"{token}.lock"


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as exc:
        busy = getattr(exc, "sqlite_errorcode", 0) & 0xFF in _BUSY
        raise (StorageBusy if busy else StorageError)(f"The state of your keys: {exc}.") from exc
