"""The item's checkpoint database: LangGraph's state and the journal of paid calls. Worker process."""

import fcntl
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from agentos.errors import ItemFailed, StorageError
from agentos.llm.provider import Reply
from agentos.store.home import home_of
from agentos.worker.journal import SafeSerializer, read_record, read_reply

LOCK_SECONDS = 10.0  # how long to wait for a worker that should be dead
_JOURNAL = (
    "CREATE TABLE IF NOT EXISTS agentos_calls"
    " (role TEXT, number INTEGER, reply TEXT, record TEXT, PRIMARY KEY (role, number))"
)
_JOURNAL_ID = "CREATE TABLE IF NOT EXISTS agentos_life (id TEXT)"


class Checkpoint:
    """One connection to one database. No one else has it open."""

    def __init__(self, connection: sqlite3.Connection, thread: str) -> None:
        self.thread = thread
        # Strict: with the default serializer, an edited database could run code when it is read.
        self.saver = SqliteSaver(connection, serde=SafeSerializer(allowed_msgpack_modules=None))
        self.saver.setup()
        with self.saver.cursor() as cursor:
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.execute(_JOURNAL)
            cursor.execute(_JOURNAL_ID)
            self.journal_id = _journal_id(cursor)

    def clear(self) -> None:
        """Delete state and journal, as if the item were new. It is on disk when this returns."""
        with self.saver.cursor() as cursor:
            for table in ("checkpoints", "writes", "agentos_calls", "agentos_life"):
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - a fixed name
            self.journal_id = _journal_id(cursor)

    def replayed(self, role: str, number: int) -> Reply | None:
        """Return the reply to a call that was already paid for."""
        with self.saver.cursor(transaction=False) as cursor:
            row = cursor.execute(
                "SELECT reply FROM agentos_calls WHERE role = ? AND number = ?", (role, number)
            ).fetchone()
        return read_reply(row[0]) if row else None

    def record(self, role: str, number: int, reply: Reply, record: dict[str, Any]) -> None:
        """Save the reply and its audit record. They are on disk when this returns."""
        stored = asdict(reply) | {"headers": {}}
        with self.saver.cursor() as cursor:
            cursor.execute(
                "INSERT OR REPLACE INTO agentos_calls VALUES (?, ?, ?, ?)",
                (role, number, json.dumps(stored), json.dumps(record)),
            )

    def paid_before(self) -> list[dict[str, Any]]:
        """Return the audit records of all calls in the journal, in order."""
        with self.saver.cursor(transaction=False) as cursor:
            rows = cursor.execute("SELECT record FROM agentos_calls ORDER BY rowid").fetchall()
        return [read_record(row[0]) for row in rows]

    def begun(self, config: Any) -> bool:
        return self.saver.get_tuple(config) is not None


def _journal_id(cursor: sqlite3.Cursor) -> str:
    """An id that separates the calls of this journal from those of an earlier one of the same item."""
    if cursor.execute("SELECT id FROM agentos_life").fetchone() is None:
        cursor.execute("INSERT INTO agentos_life VALUES (?)", (secrets.token_hex(8),))
    return str(cursor.execute("SELECT id FROM agentos_life").fetchone()[0])


@contextmanager
def open_checkpoint(database: Path, thread: str) -> Iterator[Checkpoint]:
    """Open the database and hold its lock, so that two workers can never run one item."""
    lock = _lock(database.with_name(database.name + ".lock"))
    try:
        connection = _connect(database)
        try:
            yield Checkpoint(connection, thread)
        finally:
            connection.close()
    except sqlite3.OperationalError as exc:
        raise StorageError(f"the checkpoint {database} cannot be written: {exc}. Run the item again") from exc
    except sqlite3.DatabaseError as exc:
        raise StorageError(
            f"the checkpoint {database} cannot be used: {exc}. Run the item with --fresh"
        ) from exc
    finally:
        os.close(lock)


def _connect(database: Path) -> sqlite3.Connection:
    home = home_of(database)
    os.close(home.open(database))  # so that SQLite finds it, readable only for the owner
    try:
        home.tree.check_database(database)
    except OSError as exc:
        raise StorageError(f"the checkpoint {exc.filename} cannot be used: {exc.strerror}") from exc
    connection = sqlite3.connect(database, check_same_thread=False, timeout=30)
    connection.execute("PRAGMA trusted_schema=OFF")
    odd = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view') OR tbl_name NOT IN (?, ?, ?, ?)",
        ("checkpoints", "writes", "agentos_calls", "agentos_life"),
    ).fetchone()
    if odd is not None:
        connection.close()
        raise StorageError(f"the checkpoint {database} has {odd[0]!r}, which agentos does not create")
    return connection


def _lock(path: Path) -> int:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        descriptor = home_of(path).open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise ItemFailed(
                    f"another worker still holds the lock {path.name}; see 'agentos status'"
                ) from None
            time.sleep(0.05)
            continue
        # A finished run may have removed the file between open and lock; then the lock protects nothing.
        there = home_of(path).tree.stat(path)
        if there is not None and os.path.samestat(os.fstat(descriptor), there):
            return descriptor
        os.close(descriptor)
