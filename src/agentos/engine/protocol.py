"""The interface between the coordinator's loop and what runs the items.

The loop starts an item with a job, sends it messages, ends it in stages, and reads what happened. It never
sees a process or a socket. `local.py` runs items in local processes, `postgres.py` on other machines, and
`fake.py` plays scripts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from agentos import wire


class Ending(Enum):
    """A stage of ending a worker, from mild to final; asking it to stop is a message, not a stage."""

    STACKS = auto()  # print the stack trace of every thread
    TERMINATE = auto()  # SIGTERM to the worker and the programs it started
    KILL = auto()  # SIGKILL to the same


@dataclass(frozen=True, kw_only=True)
class WorkerEvent:
    """Something about the worker of one attempt; the loop ignores attempts that are over."""

    item: str
    attempt: int  # the one of its job


@dataclass(frozen=True, kw_only=True)
class AttemptTaken(WorkerEvent):
    """A machine has taken an attempt that waited for one; its worker should be heard of soon."""


@dataclass(frozen=True, kw_only=True)
class Said(WorkerEvent):
    """A worker sent a message."""

    message: wire.ToCoordinator


@dataclass(frozen=True, kw_only=True)
class Printed(WorkerEvent):
    """A worker, or a program that it started, printed complete lines."""

    lines: tuple[str, ...]
    error: bool  # on standard error


@dataclass(frozen=True, kw_only=True)
class Gone(WorkerEvent):
    """A worker is gone, with every program that it started. The last event of this attempt."""

    how: str  # such as "exit code 0" or "killed by SIGKILL"
    broken: str | None = None  # what it sent that is invalid; everything after that was ignored
    released: bool = False  # its machine gave it back: nothing is wrong with the item
    begun: bool = True  # otherwise it ended before any machine had taken it


@dataclass(frozen=True, kw_only=True)
class Unable(WorkerEvent):
    """No machine that is alive can run this attempt; it still waits for one."""

    reason: str
    fix: str  # what to do


EngineEvent = AttemptTaken | Said | Printed | Gone | Unable


class Engine(Protocol):
    """Runs items, each in isolation. Items are identified by their labels."""

    def start(self, item: str, job: wire.Job) -> int:
        """Start a worker for the job and return its process id, 0 if it has none; may raise StartFailed."""
        ...

    def send(self, item: str, message: wire.Message) -> None:
        """Send a message; it is dropped if the worker is gone."""
        ...

    def end(self, item: str, how: Ending) -> None:
        """Do one stage of ending; `Gone` follows when the worker is really gone."""
        ...

    def events(self, until: float) -> Iterator[EngineEvent]:
        """Wait for an event, a stop signal or the time `until`; yield what happened.

        The iterator ends soon, because the loop checks its deadlines between two calls.
        """
        ...
