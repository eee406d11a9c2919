"""The seam between the coordinator's loop and whatever runs items.

The loop starts an item with a job, sends it messages, ends it in stages, and reads what happened. It never
sees a process or a socket. `local.py` runs items in processes of this machine; `fake.py` plays scripts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from agentos import wire


class Ending(Enum):
    """A stage of ending a worker, from mild to final; asking it to stop is a message, not a stage."""

    STACKS = auto()  # print where every thread is
    TERMINATE = auto()  # SIGTERM to the worker and the programs it started
    KILL = auto()  # SIGKILL to the same


@dataclass(frozen=True, kw_only=True)
class Said:
    """A worker sent a message."""

    item: str
    message: wire.ToCoordinator


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A worker or a program it started printed whole lines."""

    item: str
    lines: tuple[str, ...]
    error: bool  # on standard error


@dataclass(frozen=True, kw_only=True)
class Gone:
    """A worker is gone, with every program it started; the last event of this start."""

    item: str
    how: str  # such as "exit code 0" or "killed by SIGKILL"
    broken: str | None = None  # what it sent that makes no sense; nothing of it was heard after that


EngineEvent = Said | Printed | Gone


class Engine(Protocol):
    """Runs items, each in isolation; an item is known by its label."""

    def start(self, item: str, job: wire.Job) -> int:
        """Start a worker on the job and return its process id, 0 where it has none; may raise StartFailed."""
        ...

    def send(self, item: str, message: wire.Message) -> None:
        """Send a message; one to a worker that is gone is dropped."""
        ...

    def end(self, item: str, how: Ending) -> None:
        """Take one stage of ending; `Gone` follows when the worker is really gone."""
        ...

    def events(self, until: float) -> Iterator[EngineEvent]:
        """Wait until something happens, a stop signal comes or the clock reaches `until`; give what happened.

        The iterator ends soon: the loop looks after its deadlines between two calls.
        """
        ...
