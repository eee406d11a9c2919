"""Catches SIGINT and SIGTERM during a run, so that the loop can read them. Coordinator process.

They are caught from before the run writes its first file until after it writes its last.
"""

import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Any, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Catches the signals while it is open, and restores the handlers afterwards.

    After a stop request it ignores the signals instead: the process is about to end, and holding down Ctrl+C
    must not interrupt that.
    """

    _stopped = False
    _woken = False

    def __enter__(self) -> Self:
        self._ours, self._theirs = socket.socketpair()
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        # In this order: a signal that is caught but not written to the socket would be lost.
        self._wakeup = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, lambda *_: None) for number in STOP_SIGNALS}
        return self

    def __exit__(self, *_exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._stopped else handler)
        signal.set_wakeup_fd(self._wakeup)
        self._ours.close()
        self._theirs.close()

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Raise KeyboardInterrupt on a signal, for code that waits but cannot watch a descriptor.

        A signal that arrived earlier counts, too, unless it has been read. `read` still returns it.
        """
        armed = True

        def interrupt(*_: Any) -> None:
            nonlocal armed
            if armed:
                armed = False
                raise KeyboardInterrupt

        before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
        try:
            with contextlib.suppress(BlockingIOError):
                if any(number in STOP_SIGNALS for number in self._ours.recv(64, socket.MSG_PEEK)):
                    interrupt()
            yield
        finally:
            armed = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def wake(self) -> None:
        """End the wait of a loop that watches `fileno`, from another thread.

        One byte at most is in the buffer: there must be room for signals.
        """
        if not self._woken:
            self._woken = True
            with contextlib.suppress(OSError):  # it is closed
                self._theirs.send(b"\0")

    def fileno(self) -> int:
        return self._ours.fileno()

    def read(self) -> list[int]:
        """The signals since the last call."""
        try:
            found = [number for number in self._ours.recv(64) if number in STOP_SIGNALS]
        except BlockingIOError:
            return []
        finally:
            self._woken = False  # whoever calls `wake` from now on wakes the next wait
        self._stopped = self._stopped or bool(found)
        return found
