"""The state of the keys in PostgreSQL, shared by several machines. Coordinator process.

One row per provider, locked while a run changes it. Only the clock of the database counts, whatever the
clocks of the machines say: it is read with the lock, and the times in the row are moved to the machine's own
clock by the difference. The moment of the answer counts as the moment of the reading, so a machine is never
ahead of the database, and whoever gets the lock next finds no time that has not come yet.

If that clock is set back, no time is added: the row is as old as when it was written. If it jumps ahead, that
counts as time passed.
"""

import math
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentos.errors import StorageBusy, StorageError
from agentos.lease import NUMBERS_PER_ROW, LeaseNumber
from agentos.store.key_pool import pulse
from agentos.store.key_pool.rows import BUSY_SECONDS, ActiveRun, PoolUser, StateRow
from agentos.store.postgres.connection import Connection, PostgresDatabase
from agentos.store.records.statements import read_queries

LOOK_SECONDS = 0.5  # between two looks while a request waits, in case that a notification is lost
OLDEST_SECONDS = 10 * 365 * 86_400.0  # of a state; how old it is beyond that makes no difference
TICKS = 2.0**20  # per second; the pool's own times are whole ticks, and moving them changes nothing

_QUERIES = {name: sql.encode() for name, sql in read_queries("postgres-pool").items()}


class PostgresPool:
    """The rows as one run uses them. After a connection is lost, StorageBusy is raised until it is back."""

    look_seconds = LOOK_SECONDS

    def __init__(
        self,
        url: str,
        *,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._wake = wake
        self.clock = clock
        self._database = PostgresDatabase(url, application_name="agentos pool")
        self._transaction: Connection | None = None
        self._saving: list[tuple[str, dict[str, Any]]] = []  # sent with the commit
        self._locked: dict[str, Any] | None = None
        self._ahead = 0.0  # of the database's clock, in seconds
        self._lock_seconds = BUSY_SECONDS
        self._pulse: pulse.Pulse | None = None
        self._own = ""  # the token of this run
        self._alive: dict[str, bool] = {}
        try:
            self.salt = self._read_salt()
        except StorageError:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect. A run that was not removed looks alive for some seconds more."""
        self._stop_pulse()
        self._database.close()

    def wait_at_most(self, seconds: float) -> None:
        """Set how long to wait for another run before StorageBusy is raised."""
        self._lock_seconds = seconds

    # The clock.

    def wall(self) -> float:
        """Return the database's time, as of the latest reading."""
        return self.clock() + self._ahead

    def _read_clock(self, now: float) -> None:
        # Rounded down, so that this machine is not ahead.
        self._ahead = math.floor((now - self.clock()) * TICKS) / TICKS

    # One transaction: two round trips.

    def begin(self, provider: str, known: int = 0) -> None:
        """Let nobody else write the provider's row until `commit` or `rollback`."""
        assert self._transaction is None
        self._check()
        self._saving.clear()
        wait = {"milliseconds": str(round(self._lock_seconds * 1000))}
        values = {"provider": provider, "known": known, "per_row": NUMBERS_PER_ROW}
        with self._database.session() as connection:
            self._transaction = connection
            try:
                with connection.pipeline():
                    connection.execute("BEGIN")
                    connection.execute(_QUERIES["limit_wait"], wait)
                    cursor = connection.execute(_QUERIES["lock"], values)
                self._locked = cursor.fetchone()
                if self._locked is None:
                    connection.execute(_QUERIES["add_row"], values)
                    self._locked = connection.execute(_QUERIES["lock"], values).fetchone()
            except BaseException:
                self.rollback()
                raise
        assert self._locked is not None
        self._read_clock(self._locked["now"])

    def commit(self) -> None:
        self._check()
        with self._database.session() as connection, connection.pipeline():
            for statement, values in self._saving:
                connection.execute(_QUERIES[statement], values)
            connection.execute("COMMIT")
        self._end()

    def rollback(self) -> None:
        connection = self._transaction
        self._end()
        if connection is not None and not connection.closed:
            with suppress(StorageError), self._database.session() as current:
                current.execute("ROLLBACK")

    def _end(self) -> None:
        self._transaction = self._locked = None
        self._saving.clear()

    def _check(self) -> None:
        """Raise StorageBusy if the lock went with the connection, or if connecting would block the loop."""
        if self._transaction is None:
            if self._pulse is not None and not self._pulse.connected:
                raise StorageBusy(f"Cannot reach the database {self._database.name}.")
        elif self._transaction.closed:
            raise StorageBusy(f"The connection to the database {self._database.name} was lost.")

    # The state of a provider.

    def state(self, provider: str, known: int = 0) -> StateRow | None:
        """Return the state, or None if its version is the known one; version 0 if there is none."""
        row = self._locked
        if self._transaction is None:
            found = self._rows("look", provider=provider, known=known)
            row = found[0] if found else None
            if row is not None:
                self._read_clock(row["now"])
        if row is None or not row["version"]:
            return None if known > 0 else StateRow(version=0, state="", written=None)
        if row["version"] == known:
            return None
        # Otherwise the clock was set back, or somebody wrote nonsense.
        past = row["now"] - OLDEST_SECONDS <= row["written"] <= row["now"]
        written = row["written"] - self._ahead if past else None
        return StateRow(version=row["version"], state=row["state"], written=written)

    def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in self._rows("states")}

    def save(self, provider: str, row: StateRow, *, last_lease: LeaseNumber) -> None:
        """Save the state, together with the commit."""
        assert row.written is not None
        written = math.floor(row.written * TICKS) / TICKS + self._ahead
        values = {"version": row.version, "state": row.state, "written": written, "last_lease": last_lease}
        self._saving.append(("save", {"provider": provider, **values}))

    def last_lease(self) -> LeaseNumber:
        """Return the highest number of a lease of this provider; no other provider has the same numbers."""
        assert self._locked is not None
        return int(self._locked["last_lease"])

    # Runs.

    def add_run(self, run: ActiveRun) -> None:
        """Enter a run; it counts as alive until this process ends or `remove_run` is called."""
        place = run.place.encode(errors="replace").decode()
        run = replace(run, place=place, host=socket.gethostname())
        self._rows("enter", **vars(run))
        database = PostgresDatabase(self._url, application_name="agentos pulse")
        self._pulse = pulse.Pulse(database, run, clock=self.clock, wake=self._wake)
        self._own = run.token

    def remove_run(self, token: str) -> None:
        """Remove a run that has ended, inside a transaction."""
        if self._pulse is not None and token == self._own:
            self._stop_pulse()  # or else its next beat would enter it again
        self._rows("remove_run", token=token)
        self._rows("remove_keys", token=token)

    def is_alive(self, token: str) -> bool:
        """Say whether a run was alive when `users` or `runs` last read it."""
        if self._pulse is not None and not self._pulse.may_judge():
            return True
        return self._alive.get(token, False)

    def runs(self) -> tuple[ActiveRun, ...]:
        """Return the runs that have not been removed; some may have been killed."""
        rows = self._rows("runs", alive_seconds=pulse.ALIVE_SECONDS)
        self._alive = {row["token"]: row.pop("alive") for row in rows}
        return tuple(ActiveRun(**row) for row in rows)

    def set_keys(self, token: str, provider: str, keys: str) -> None:
        if self._pulse is not None:
            self._pulse.keys[provider] = keys
        self._rows("set_keys", token=token, provider=provider, keys=keys)

    def users(self, provider: str) -> tuple[PoolUser, ...]:
        rows = self._rows("users", provider=provider, alive_seconds=pulse.ALIVE_SECONDS)
        # While the server was down nobody could beat.
        self._alive = {row["token"]: row["alive"] or row["just_started"] for row in rows}
        return tuple(PoolUser(token=row["token"], keys=row["keys"]) for row in rows)

    def told(self) -> int:
        """Return how often another run has answered a request of this one, or may have."""
        return 0 if self._pulse is None else self._pulse.told

    def tell(self, tokens: Iterable[str]) -> None:
        """Let these runs look at the state after the commit."""
        self._saving += [("tell", {"token": token}) for token in tokens]

    # Shared by the methods above.

    def _read_salt(self) -> bytes:
        if not (rows := self._rows("salt")):
            self._rows("add_salt", value=os.urandom(32))
            rows = self._rows("salt")
        return bytes(rows[0]["value"])

    def _stop_pulse(self) -> None:
        beating, self._pulse = self._pulse, None
        if beating is not None:
            beating.stop()

    def _rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        self._check()
        with self._database.session() as connection:
            cursor = connection.execute(_QUERIES[statement], values)
            return cursor.fetchall() if cursor.description else []
