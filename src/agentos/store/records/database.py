"""The SQLite database of one home: opened safely, written by one process at a time, checked when read."""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from agentos import redact
from agentos.errors import StorageError
from agentos.store.home import Home
from agentos.store.records.migrations import MIGRATIONS, check_schema, migrate
from agentos.store.records.rows import check_numbers
from agentos.store.records.statements import read_queries

BUSY_SECONDS = 30.0

T = TypeVar("T")

_QUERIES = read_queries("items", "spending", "filings")


class Database:
    """An open database, with its statements by name.

    Runs that share a home write one at a time, behind a file lock: older SQLite versions have a known
    bug with two writers on one write-ahead log.
    """

    def __init__(self, path: Path, *, write: bool) -> None:
        self.home = Home(path=path.parent)
        self._path = path
        self._lock: int | None = None
        self._db: sqlite3.Connection
        try:
            if write:
                self._lock = self.home.open(path.with_suffix(".lock"))
                self._db = _open_for_writing(path, self.home)
                with self.writing():
                    migrate(self._db, self.home)
            else:
                self._db = _open_for_reading(path, self.home)
        except (sqlite3.Error, OSError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise StorageError(f"Cannot use the records in {path}: {reason}.") from exc

    def close(self) -> None:
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)

    def write(self, work: Callable[[], T], *, durable: bool = False) -> T:
        """Do the work in one transaction."""
        with self.writing(durable=durable):
            return work()

    @contextmanager
    def writing(self, *, durable: bool = False) -> Iterator[None]:
        """Open a transaction; nobody else writes during it."""
        assert self._lock is not None
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            # A process that dies loses nothing either way; `durable` data must also survive a power cut.
            self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as exc:
            raise StorageError(f"Cannot write the records in {self._path}: {exc}.") from exc
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def change(self, statement: str, values: Mapping[str, Any]) -> int:
        """Run a statement inside `writing`; return the number of rows it changed."""
        return self._db.execute(_QUERIES[statement], values).rowcount

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a query; an impossible number in them is an error and is never used."""
        try:
            cursor = self._db.execute(_QUERIES[statement], values)
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except (sqlite3.Error, OverflowError) as exc:
            raise StorageError(f"Cannot read the records in {self._path}: {exc}.") from exc
        check_numbers(rows, str(self._path))
        return rows


class _Connection(sqlite3.Connection):
    """Stores no secret, wherever it comes from: a server, or a person's note."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return super().execute(sql, redact.clean(parameters))


def _open_for_writing(path: Path, home: Home) -> sqlite3.Connection:
    os.close(home.open(path))
    home.tree.check_database(path)
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, factory=_Connection)
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def _open_for_reading(path: Path, home: Home) -> sqlite3.Connection:
    """Open the records without writing; records of an older version are read through a copy in memory."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    if home.tree.exists(path):
        home.tree.check_database(path)
        # A read-only connection to a database that nobody has open would leave a log file behind.
        how = "mode=ro" if home.tree.exists(path.with_name(path.name + "-wal")) else "immutable=1"
        uri = f"file:{quote(str(path))}?{how}"
        db = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        db.execute("PRAGMA trusted_schema=OFF")
        if check_schema(db) == len(MIGRATIONS):
            memory.close()
            return db
        db.backup(memory)
        db.close()
    migrate(memory, home, files=False)
    return memory
