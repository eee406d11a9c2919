"""An item's checkpoint in PostgreSQL, for a worker on another machine: LangGraph's state and the journal.

Every write checks that the attempt is still the item's current one, in the same transaction. A machine that
was stopped, or cut off, and comes back can change nothing that another one has taken over. Worker process.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, cast

from langgraph.checkpoint.postgres import PostgresSaver

from agentos.errors import StopRequested
from agentos.llm.provider import Reply
from agentos.store.postgres.attempts import FENCE
from agentos.store.postgres.connection import Cursor, PostgresDatabase
from agentos.wire import RemoteItem
from agentos.worker.desk import Desk
from agentos.worker.journal import SafeSerializer, read_record, read_reply

T = TypeVar("T")
_SAVE_FILE = (
    "INSERT INTO agentos_files (project, workflow, item, path, body)"
    " VALUES (%(project)s, %(workflow)s, %(item)s, %(path)s, %(body)s)"
    " ON CONFLICT (project, workflow, item, path) DO UPDATE SET body = EXCLUDED.body, placed = false"
)


class _Saver(PostgresSaver):
    """LangGraph's saver on our connection: with a fence, and it continues after a restart of the server."""

    def __init__(self, checkpoint: "PostgresCheckpoint") -> None:
        # Strict: with the default serializer, an edited database could run code when it is read.
        super().__init__(cast("Any", None), serde=SafeSerializer(allowed_msgpack_modules=None))
        self._checkpoint = checkpoint

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Cursor]:
        with self._checkpoint.transaction(write=pipeline) as cursor:
            yield cursor

    def put(self, *args: Any, **more: Any) -> Any:
        # First the files: the state must never know of one that is lost.
        self._checkpoint.save_files()
        return self._checkpoint.patiently(lambda: super(_Saver, self).put(*args, **more))

    def put_writes(self, *args: Any, **more: Any) -> None:
        self._checkpoint.patiently(lambda: super(_Saver, self).put_writes(*args, **more))

    def get_tuple(self, *args: Any, **more: Any) -> Any:
        return self._checkpoint.patiently(lambda: super(_Saver, self).get_tuple(*args, **more))


class PostgresCheckpoint:
    """The state of one item, as the worker of one attempt sees it."""

    def __init__(self, database: PostgresDatabase, remote: RemoteItem, desk: Path) -> None:
        self._database = database
        self._remote = remote
        self._desk = Desk(desk)
        self._alone = threading.RLock()  # LangGraph saves from threads of its own
        self.thread = remote.thread
        self.saver = _Saver(self)
        self.journal_id = self.patiently(self._journal_id)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Cursor]:
        """Open a transaction. One that writes gives up if the attempt is over: the item is another's."""
        with self._alone, self._database.transaction() as cursor:
            if write:
                cursor.execute(FENCE, {"attempt": self._remote.id})
                if cursor.fetchone() is None:
                    raise StopRequested
            yield cursor

    def patiently(self, action: Callable[[], T]) -> T:
        """Repeat idempotent work while the server is away."""
        with self._alone:
            return self._database.patiently(action)

    def save_files(self) -> None:
        changes = self._desk.changes()
        if changes:
            self._write(
                lambda cursor: cursor.executemany(
                    _SAVE_FILE,
                    [
                        {
                            **self._remote.model_dump(include={"project", "workflow", "item"}),
                            "path": path,
                            "body": body,
                        }
                        for path, body in changes.items()
                    ],
                )
            )

    def clear(self) -> None:
        def clear(cursor: Cursor) -> None:
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                cursor.execute(f"DELETE FROM {table} WHERE thread_id = %s", (self.thread,))  # noqa: S608 - a fixed name
            for table in ("agentos_calls", "agentos_journals"):
                cursor.execute(f"DELETE FROM {table} WHERE thread = %s", (self.thread,))  # noqa: S608

        self._write(clear)
        self.journal_id = self.patiently(self._journal_id)

    def replayed(self, role: str, number: int) -> Reply | None:
        rows = self._rows(
            "SELECT reply FROM agentos_calls WHERE thread = %s AND role = %s AND number = %s", role, number
        )
        return read_reply(rows[0]["reply"]) if rows else None

    def record(self, role: str, number: int, reply: Reply, record: dict[str, Any]) -> None:
        stored = json.dumps(asdict(reply) | {"headers": {}})
        values = (self.thread, role, number, stored, json.dumps(record))
        self._write(
            lambda cursor: cursor.execute(
                "INSERT INTO agentos_calls (thread, role, number, reply, record) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT (thread, role, number)"
                " DO UPDATE SET reply = EXCLUDED.reply, record = EXCLUDED.record",
                values,
            )
        )

    def paid_before(self) -> list[dict[str, Any]]:
        rows = self._rows("SELECT record FROM agentos_calls WHERE thread = %s ORDER BY place")
        return [read_record(row["record"]) for row in rows]

    def begun(self, config: Any) -> bool:
        return self.saver.get_tuple(config) is not None

    def _journal_id(self) -> str:
        with self.transaction(write=True) as cursor:
            cursor.execute(
                "INSERT INTO agentos_journals (thread, id) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (self.thread, secrets.token_hex(8)),
            )
            cursor.execute("SELECT id FROM agentos_journals WHERE thread = %s", (self.thread,))
            row = cursor.fetchone()
        assert row is not None
        return str(row["id"])

    def _write(self, action: Callable[[Cursor], Any]) -> None:
        def write() -> None:
            with self.transaction(write=True) as cursor:
                action(cursor)

        self.patiently(write)

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        def read() -> list[Any]:
            with self.transaction(write=False) as cursor:
                return cursor.execute(statement, (self.thread, *values)).fetchall()

        return self.patiently(read)


@contextmanager
def open_postgres_checkpoint(url: str, remote: RemoteItem, desk: Path) -> Iterator[PostgresCheckpoint]:
    """Open the state of an item for the worker of one attempt."""
    with PostgresDatabase(url, application_name="agentos worker") as database:
        checkpoint = PostgresCheckpoint(database, remote, desk)
        try:
            yield checkpoint
        finally:
            checkpoint.save_files()
