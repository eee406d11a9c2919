"""A thread beside the loop: says that the run is alive, and hears that another run answered a request.

It has its own connection, so a loop that is busy or waits for the database does not look dead.
"""

import select
import socket
import threading
import time
from collections.abc import Callable

from agentos.errors import StorageError
from agentos.store.key_pool.rows import ActiveRun
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.records.statements import read_queries

CHANNEL = "agentos_pool"
ALIVE_SECONDS = 10.0  # after its last beat a run counts as dead
BEAT_SECONDS = 2.0
RETRY_SECONDS = 0.5  # while the database cannot be reached
STOP_SECONDS = 1.0  # how long to wait for the thread

_QUERIES = read_queries("postgres-pool")


class Pulse:
    """The thread of one run. `wake` is called in it."""

    def __init__(
        self,
        database: PostgresDatabase,
        run: ActiveRun,
        *,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._run = run
        self._clock = clock
        self._wake = wake
        self.keys: dict[str, str] = {}  # what `set_keys` entered, by provider
        self.connected = True
        self.last_beat = clock()
        self._trusted_from = clock()  # since when the beats of others can be judged
        self.told = 0  # how often another run answered a request of this one, or may have
        self._ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._work, name="agentos-pool", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the run looks alive until its last beat is too old."""
        self._theirs.close()
        self._thread.join(STOP_SECONDS)

    def may_judge(self) -> bool:
        """Say whether another run without a beat is dead: not if this one could not beat either."""
        now = self._clock()
        return now - self.last_beat <= ALIVE_SECONDS and now >= self._trusted_from

    def _work(self) -> None:
        while not self._is_stopped(0.0):
            try:
                self._database.listen(CHANNEL)
                self._beat()
                if not self.connected:
                    self.connected = True
                    self._hear()  # what was told in the meantime is lost
                self._listen(time.monotonic() + BEAT_SECONDS)
            except StorageError:
                self.connected = False
                self._is_stopped(RETRY_SECONDS)
        self._ours.close()
        self._database.close()

    def _beat(self) -> None:
        with self._database.transaction() as cursor:
            cursor.execute(_QUERIES["beat"].encode(), {"token": self._run.token})
            if not cursor.rowcount:  # others took it for dead, and forgot its requests
                cursor.execute(_QUERIES["enter"].encode(), vars(self._run))
                for provider, keys in self.keys.copy().items():
                    values = {"token": self._run.token, "provider": provider, "keys": keys}
                    cursor.execute(_QUERIES["set_keys"].encode(), values)
        now = self._clock()
        if now - self.last_beat > ALIVE_SECONDS:
            self._trusted_from = now + ALIVE_SECONDS
        self.last_beat = now

    def _listen(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            told = self._database.notifications(0)
            if any(payload == self._run.token for _channel, payload in told):
                self._hear()
            if not told and self._is_stopped(left, self._database.fileno()):
                return

    def _hear(self) -> None:
        self.told += 1
        self._wake()

    def _is_stopped(self, seconds: float, *others: int) -> bool:
        """Wait until `stop` is called, or one of the other descriptors can be read, but not for longer."""
        ready = select.poll()
        for descriptor in (self._ours.fileno(), *others):
            ready.register(descriptor, select.POLLIN)
        return any(found == self._ours.fileno() for found, _what in ready.poll(seconds * 1000))
