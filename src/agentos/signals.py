"""SIGINT and SIGTERM as something the loop can read, from before a run's first file to after its last."""

import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Any, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Catches the signals while it is open, and puts the handlers back afterwards.

    Unless a stop was asked for: then the process is about to end, and a Ctrl+C held down must not cut it off.
    """

    _stopped = False

    def __enter__(self) -> Self:
        self._ours, self._theirs = socket.socketpair()
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        self._before = {number: signal.signal(number, lambda *_: None) for number in STOP_SIGNALS}
        self._wakeup = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._stopped else handler)
        self._ours.close()
        self._theirs.close()

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at a signal, where something waits that cannot watch a descriptor."""

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def fileno(self) -> int:
        return self._ours.fileno()

    def read(self) -> list[int]:
        """The signals that have come since the last look."""
        try:
            found = [number for number in self._ours.recv(64) if number in STOP_SIGNALS]
        except BlockingIOError:
            return []
        self._stopped = self._stopped or bool(found)
        return found
