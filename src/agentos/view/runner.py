"""Starts and stops runs for the page. Server process.

A started command is a process of its own: it keeps running when the page is closed and when the server
ends. What it prints goes to a private file of the home.
"""

import contextlib
import itertools
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.errors import UsageError
from agentos.programs import DetachedProcess, start_detached
from agentos.redact import redact
from agentos.store.home import Home
from agentos.store.rooted_tree import PRIVATE_FILE
from agentos.store.run_folder import Holder, holder_of, is_live
from agentos.view.run_commands import RunCommand

AGENTOS = (sys.executable, "-P", "-m", "agentos")  # -P: nothing is imported from the project
MOST_RUNNING = 4
MOST_SHOWN = 4_000  # characters of what a command printed last
_KEPT_OUTPUTS = 20


@dataclass(frozen=True, kw_only=True)
class StartedCommand:
    """A command that the page started."""

    number: int
    command: str
    process: DetachedProcess
    output: Path


class Runner:
    """Runs commands of this home for the page."""

    def __init__(
        self, *, home: Home, worktree: Path, environment: Mapping[str, str], flags: Sequence[str] = ()
    ) -> None:
        self._home = home
        self._worktree = worktree
        self._environment = environment
        self._flags = tuple(flags)  # for home and settings, as `agentos view` was called
        self._numbers = itertools.count(1)
        self._started: list[StartedCommand] = []
        self._stopped: set[str] = set()  # runs that got a signal: a second one would end them at once
        self._lock = threading.Lock()

    @property
    def program(self) -> str:
        return shlex.join(["agentos", *self._flags])

    def start(self, command: RunCommand) -> StartedCommand:
        with self._lock:
            running = [one for one in self._started if one.process.poll() is None]
            shown = command.command
            if any(one.command == shown for one in running):
                raise UsageError(f"'{shown}' is already running.")
            if len(running) >= MOST_RUNNING:
                raise UsageError(f"{len(running)} commands of this page are running. Wait until one is over.")
            number = next(self._numbers)
            output = self._home.create().path / "logs" / f"view-started-{number % _KEPT_OUTPUTS}.txt"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            descriptor = self._home.tree.open(output, flags, PRIVATE_FILE)
            try:
                arguments = [*AGENTOS, *self._flags, *command.arguments(self.program)]
                process = start_detached(
                    arguments, self._environment, folder=self._worktree, output=descriptor
                )
            finally:
                os.close(descriptor)
            started = StartedCommand(number=number, command=shown, process=process, output=output)
            self._started = [*self._started, started][-_KEPT_OUTPUTS:]
            return started

    def mark(self) -> tuple[Any, ...]:
        """A value that changes when a command is started or ends."""
        return tuple((one.number, one.process.poll()) for one in self._started)

    def commands(self) -> list[dict[str, Any]]:
        """What was started, the latest first."""
        return [
            {
                "number": one.number,
                "command": one.command,
                "exit_code": one.process.poll(),
                "printed": self._printed(one.output),
            }
            for one in reversed(self._started)
        ]

    def running(self) -> list[StartedCommand]:
        return [one for one in self._started if one.process.poll() is None]

    def stop(self, run: Path) -> str:
        """Ask a run to stop, once: what a second Ctrl+C does must not happen from a page."""
        with self._lock:
            if run.name in self._stopped:
                raise UsageError("The run is already stopping; its items save their progress.")
            _interrupt(run)
            self._stopped.add(run.name)
        return "Stopping; progress is saved. Run the same command to resume."

    def _printed(self, path: Path) -> str:
        with contextlib.suppress(OSError), os.fdopen(self._home.tree.open(path), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - MOST_SHOWN))
            return redact(file.read(MOST_SHOWN).decode("utf-8", errors="replace"))
        return ""


def _interrupt(run: Path) -> None:
    """Send one SIGINT to the process that holds the run's lock, and to no other."""
    holder = holder_of(run)
    if holder is None:
        raise UsageError(
            "The run's process is unknown. Stop it where it was started, with Ctrl+C."
            if is_live(run)
            else "The run is over."
        )
    if holder.host != socket.gethostname():
        raise UsageError(f"The run is on {holder.host}. Stop it there with Ctrl+C.")
    try:
        if hasattr(os, "pidfd_open"):
            process = os.pidfd_open(holder.pid)
            try:
                _check_still_held(run, holder)  # so the descriptor is of the holder, not of a later process
                signal.pidfd_send_signal(process, signal.SIGINT)
            finally:
                os.close(process)
        else:  # macOS
            _check_still_held(run, holder)
            os.kill(holder.pid, signal.SIGINT)
    except OSError as exc:
        raise UsageError(f"The run's process {holder.pid} cannot be stopped: {exc.strerror}.") from exc


def _check_still_held(run: Path, holder: Holder) -> None:
    if holder_of(run) != holder:
        raise UsageError("The run is over.")
