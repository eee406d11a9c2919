"""The records of one project in a PostgreSQL that machines share. Submitter process."""

import socket
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from agentos import redact
from agentos.errors import StorageError
from agentos.model import Item
from agentos.store.postgres.connection import Cursor, PostgresDatabase
from agentos.store.records.rows import Claim, Filing, check_numbers
from agentos.store.records.sql_records import SqlRecords
from agentos.store.records.statements import read_postgres_queries

BEAT_SECONDS = 2.0  # how often a submitter beats
THIS_PROCESS = uuid.uuid4().hex  # the owner of the runs of this process
ALIVE_SECONDS = 10.0  # a run without a beat for this long is dead, by the database's clock

_QUERIES = read_postgres_queries("items", "spending", "filings")

T = TypeVar("T")


class PostgresRecords(SqlRecords):
    """Reads and writes the records of one project; a run is alive while its submitter beats.

    Every write is repeated while the server is gone or restarting, for half a minute.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        project: str,
        mock: bool = False,
        alive: Callable[[str], bool] | None = None,
        owner: str | None = None,
        host: str | None = None,
    ) -> None:
        self._rows_of_project = ProjectRows(database, project)
        super().__init__(self._rows_of_project, mock=mock, alive=alive or self.is_alive)
        self._owner = owner or uuid.uuid4().hex
        self._host = socket.gethostname() if host is None else host

    def beat(self, run_id: str) -> None:
        """Say that the run is alive; it counts as alive for ALIVE_SECONDS.

        Raises StorageError if a run of another submitter has the same name.
        """
        if not self._rows_of_project.change_alone("beat", {"run_id": run_id, "owner": self._owner}):
            raise StorageError(f"Another machine has a run {run_id} of this project. Run the command again.")

    def is_alive(self, run_id: str, seconds: float = ALIVE_SECONDS) -> bool:
        return bool(self._rows("alive", run_id=run_id, seconds=seconds))

    def claim(self, items: Iterable[Item | Filing], run_id: str) -> dict[str, Claim]:
        self.beat(run_id)
        return super().claim(items, run_id)

    def release(self, run_id: str) -> None:
        """Give up all claims of a run, which has ended: the same command resumes at once."""
        ours = self._rows_of_project.change_alone("stop_beating", {"run_id": run_id, "owner": self._owner})
        if ours:  # not those of another submitter's run that has the same name
            super().release(run_id)


class ProjectRows:
    """The statements of the records, on the rows of one project."""

    def __init__(self, database: PostgresDatabase, project: str) -> None:
        self._database = database
        self._project = project
        self._cursor: Cursor | None = None
        self._write = ""  # names the write under way, also if it is repeated

    def write(self, work: Callable[[], T], *, durable: bool = False) -> T:  # noqa: ARG002 - always durable
        name = uuid.uuid4().hex

        def once() -> T:
            with self._database.transaction() as cursor:
                self._cursor, self._write = cursor, name
                self._execute("lock_project", {})
                return work()

        return self._database.patiently(once)

    def change_alone(self, statement: str, values: Mapping[str, Any]) -> int:
        """Run one statement without waiting for other writes: a run must not seem dead because one hangs."""

        def once() -> int:
            with self._database.transaction() as cursor:
                return cursor.execute(_QUERIES[statement], self._all(values)).rowcount

        return self._database.patiently(once)

    def change(self, statement: str, values: Mapping[str, Any]) -> int:
        return self._execute(statement, values)

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        query, known = _QUERIES[statement], self._all(values)
        rows = self._database.patiently(lambda: self._database.rows(query, known))
        check_numbers(rows, self._database.name)
        return rows

    def _execute(self, statement: str, values: Mapping[str, Any]) -> int:
        assert self._cursor is not None
        return self._cursor.execute(_QUERIES[statement], self._all(values)).rowcount

    def _all(self, values: Mapping[str, Any]) -> dict[str, Any]:
        everything = {**values, "project": self._project, "write": self._write}
        return {name: _stored(redact.clean(value)) for name, value in everything.items()}


def _stored(value: Any) -> Any:
    """Text as PostgreSQL can store it: psycopg writes an enum's name, and there is no NUL in a text."""
    return str(value).replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value
