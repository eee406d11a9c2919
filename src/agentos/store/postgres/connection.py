"""One connection to the database: opened when it is first needed, and again after it is lost.

Every psycopg error leaves this file as a StorageError: a StorageBusy if the same work may succeed a moment
later, because the server is gone, restarting or busy. For one thread.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.rows import DictRow, dict_row

from agentos.errors import StorageBusy, StorageError
from agentos.redact import redact
from agentos.store.postgres.address import read_address

CONNECT_SECONDS = 5
STATEMENT_SECONDS = 30.0
PATIENCE_SECONDS = 30.0  # longer than a restart of the server takes
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between two tries

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # otherwise its warnings are printed

# A peer that is cut off is noticed within about 11 s, by both sides: until then its locks are held.
CLIENT_SETTINGS = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "connect_timeout": CONNECT_SECONDS,
    "client_encoding": "utf8",
}
_SERVER = {
    "statement_timeout": f"{STATEMENT_SECONDS:.0f}s",
    "idle_in_transaction_session_timeout": "10s",
    "default_transaction_isolation": "read committed",
    "timezone": "UTC",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_SET_ALL = sql.SQL("SELECT {}").format(
    sql.SQL(", ").join(
        sql.SQL("set_config({}, {}, false)").format(sql.Literal(name), sql.Placeholder(name))
        for name in _SERVER
    )
)
_LOST = (psycopg.OperationalError, psycopg.InterfaceError)
_BEFORE_REASON = re.compile(r"^.*\b(?:FATAL: +|ERROR: +|failed: )")

Connection = psycopg.Connection[DictRow]
Cursor = psycopg.Cursor[DictRow]
T = TypeVar("T")


class PostgresDatabase:
    """The database at an address; `application_name` is what the server's own views show of us."""

    def __init__(self, url: str, *, application_name: str) -> None:
        self.address = read_address(url)
        self._application_name = application_name
        self._connection: Connection | None = None
        self._channels: list[str] = []
        self._depth = 0  # how many blocks need this very connection
        self.say: Callable[[str], None] = lambda _: None  # reports a long wait to the user

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Host, port and database: never the password."""
        return self.address.shown

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """Open a transaction, or a savepoint inside one; rows are dicts.

        A connection that was lost since the last transaction is replaced. If it is lost during this one,
        StorageBusy is raised: nothing was committed, or, if it was lost during the commit, that is unknown.
        """
        used = self._connection is not None
        with ExitStack() as stack:
            stack.enter_context(self._translated())
            try:
                connection = stack.enter_context(_transaction(self._open()))
            except _LOST:
                if self._depth or not used:
                    raise
                self.close()  # nothing was sent in this transaction yet
                connection = stack.enter_context(_transaction(self._open()))
            stack.enter_context(self._pinned())
            yield stack.enter_context(connection.cursor())

    def patiently(self, action: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
        """Run idempotent work, again and again while the server is gone or busy, for this long at most.

        Inside a transaction the work runs once: the whole transaction has to be repeated.
        """
        end = time.monotonic() + seconds
        pause = FIRST_PAUSE
        waited = False
        while True:
            try:
                with self._translated():
                    result = action()
            except StorageBusy as exc:
                if self._depth or time.monotonic() + pause > end:
                    raise
                if not waited:
                    waited = True
                    self.say(f"{exc} Waiting for it, {seconds:g} s at most.")
            else:
                if waited:
                    self.say("The database is back.")
                return result
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def rows(self, query: str, values: Mapping[str, Any]) -> list[DictRow]:
        """Return the rows of a query: of its own, patiently, or as part of the transaction under way."""

        def once() -> list[DictRow]:
            return self._open().execute(query, values).fetchall()

        return self.patiently(once)

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Yield the connection, for work that cannot be in a transaction; a lost one is not replaced."""
        with self._translated():
            connection = self._open()
            with self._pinned():
                yield connection

    # Notifications.

    def listen(self, channel: str) -> None:
        """Receive the notifications of a channel from now on, also after a reconnection."""
        if channel not in self._channels:
            self._channels.append(channel)
        with self._translated():
            _listen(self._open(), channel)

    def notifications(self, seconds: float) -> list[tuple[str, str]]:
        """Wait for notifications this long at most; return each channel and payload. Empty: none came.

        Those sent while there was no connection are lost, so look into the tables now and then as well.
        """
        with self._translated():
            return [
                (one.channel, one.payload) for one in self._open().notifies(timeout=seconds, stop_after=1)
            ]

    def fileno(self) -> int:
        """The socket: readable when a notification arrives. Another one after a reconnection.

        One that arrived during a transaction has already been read from the socket: call `notifications(0)`
        before waiting for the socket.
        """
        with self._translated():
            return self._open().fileno()

    # Shared by the methods above.

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            if self._depth:
                raise psycopg.OperationalError("the connection was lost")
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(
            self.address.url,
            autocommit=True,
            row_factory=dict_row,
            application_name=self._application_name,
            **CLIENT_SETTINGS,  # type: ignore[arg-type]
        )
        try:
            connection.execute(_SET_ALL, _SERVER)
            for channel in self._channels:
                _listen(connection, channel)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _pinned(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as exc:
            lost = self._connection is None or self._connection.closed
            again = lost or isinstance(exc, (*_LOST, ReadOnlySqlTransaction))
            if isinstance(exc, ReadOnlySqlTransaction):
                self.close()  # this server is no longer the primary: the next connection finds the new one
            message = f"Cannot use the database {self.name}: {reason(exc)}."
            raise (StorageBusy if again else StorageError)(message) from exc


def reason(exc: psycopg.Error) -> str:
    """The server's or libpq's own words, in one line and without a secret."""
    text = exc.diag.message_primary or str(exc)
    lines = [_BEFORE_REASON.sub("", line).strip() for line in text.splitlines()]
    first = next((line for line in lines if line), type(exc).__name__)
    return redact(first).rstrip(".")


@contextmanager
def _transaction(connection: Connection) -> Iterator[Connection]:
    with connection.transaction():
        yield connection


def _listen(connection: Connection, channel: str) -> None:
    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
