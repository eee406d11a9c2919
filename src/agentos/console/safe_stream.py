"""A stream that can neither fail a run nor block it forever. Coordinator process.

The reader of our output may be slow, stopped, or gone. We wait for a slow one. If a stop is requested while
nobody reads, what cannot be written now is not shown on the terminal; the logs have everything.
"""

import os
import select
import stat
from typing import TextIO

from agentos.console.screen import Line, painted
from agentos.console.visible import LineGuard, one_line
from agentos.redact import redact

PATIENCE_MS = 500  # wait for a reader, once a stop is requested
_PART = 4096  # what a ready pipe takes without blocking


class SafeStream:
    """Behaves like a text stream, as far as rich and print need it."""

    encoding = "utf-8"

    def __init__(self, stream: TextIO, interrupt: int | None = None, *, commands: bool = False) -> None:
        self._stream = stream
        self._guard = LineGuard(commands=commands)
        self._descriptor = stream.fileno()
        self._interrupt = interrupt  # readable when a stop is requested
        self._plain_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._stuck = False

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._descriptor

    def flush(self) -> None:
        """Nothing to do: every write is immediate."""

    def write(self, text: str) -> int:
        """Write a text; its control characters are shown, not obeyed."""
        self._send(self._guard(text))
        return len(text)

    def paint(self, line: Line, *, colour: bool) -> None:
        self._send(painted((*line, "\n"), self._guard, colour=colour))

    def command(self, name: str, value: str = "", **properties: str) -> None:
        """Send a command to GitHub Actions; a value may have several lines."""
        named = ",".join(f"{key}={_escaped_property(text)}" for key, text in properties.items())
        shown = "%0A".join(_escaped(line) for line in value.split("\n"))
        self._send(f"::{name}{' ' * bool(named)}{named}::{shown}\n")

    def _send(self, text: str) -> None:
        view = memoryview(redact(text).encode("utf-8", errors="backslashreplace"))
        while view and self._ready():
            try:
                view = view[os.write(self._descriptor, view if self._plain_file else view[:_PART]) :]
            except BlockingIOError:
                continue
            except OSError:
                self._give_up()
                break

    def _ready(self) -> bool:
        if self._plain_file:
            return True
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLOUT)
        if self._stuck:
            self._stuck = not waiting.poll(0)
            return not self._stuck
        if self._interrupt is not None:
            waiting.register(self._interrupt, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll()}
        if self._descriptor not in ready:
            waiting.unregister(self._interrupt or 0)
            self._stuck = not waiting.poll(PATIENCE_MS)
        return not self._stuck

    def _give_up(self) -> None:
        """Discard all further output, including the interpreter's last flush."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._descriptor)
        os.close(null)


class FooterStream(SafeStream):
    """The same for the footer, whose control sequences are our own and whose texts are already visible."""

    def write(self, text: str) -> int:
        self._send(text)
        return len(text)


def _escaped(text: str) -> str:
    """One line of foreign text, as the value of a command."""
    # Redacted first: no secret is found once its characters are escaped. GitHub obeys `##[` in any place.
    return one_line(redact(text)).replace("##[", "##\\[").replace("%", "%25")


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
