"""An in-memory engine for tests of the loop: workers are scripts, time is a number.

A script is a generator that gets its job. It yields steps and gets back what the coordinator sent:

    def script(job):
        yield Say(Hello(pid=1, resumed=False))
        leased = yield Receive()
        yield Wait(2.0)
        yield Say(Ended(status="approved"))

A script that returns is a worker that exits. A script that yields `Die` is a worker that crashes.
"""

import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from agentos import wire
from agentos.engine.protocol import Ending, EngineEvent, Gone, Printed, Said
from agentos.errors import StartFailed

BEAT_SECONDS = 5.0  # as real workers do


@dataclass(frozen=True)
class Say:
    """Send a message to the coordinator."""

    message: wire.ToCoordinator


@dataclass(frozen=True)
class Print:
    """Print lines."""

    lines: tuple[str, ...]
    error: bool = False


@dataclass(frozen=True)
class WaitFor:
    """Wait for a message, at most this long, and send beats; the script gets the message, or None."""

    seconds: float


@dataclass(frozen=True)
class Freeze:
    """Receive and send nothing for this long."""

    seconds: float


def Receive() -> WaitFor:  # noqa: N802 - reads as a step
    """Wait for a message without a limit."""
    return WaitFor(inf)


@dataclass(frozen=True)
class Die:
    """Crash: end without a result."""

    how: str = "killed by SIGKILL"


@dataclass(frozen=True)
class Lie:
    """Send something that is not a message."""

    what: str = "not a message"


Step = Say | Print | WaitFor | Freeze | Die | Lie
Script = Generator[Step, wire.Message | None, None]


@dataclass(kw_only=True, eq=False)
class _Worker:
    script: Script
    attempt: int
    due: float  # when it continues by itself
    wait_ends: float = 0.0
    inbox: deque[wire.Message] = field(default_factory=deque)
    waits: bool = False
    ends: str | None = None  # how it was killed


@dataclass(kw_only=True)
class FakeSignals:
    """Stop signals that arrive at given times."""

    clock: Callable[[], float]
    planned: list[tuple[float, int]] = field(default_factory=list)

    def at(self, seconds: float, number: int = signal.SIGINT) -> None:
        self.planned.append((seconds, number))
        self.planned.sort()

    def next(self) -> float:
        return self.planned[0][0] if self.planned else inf

    def read(self) -> list[int]:
        come = [number for at, number in self.planned if at <= self.clock()]
        del self.planned[: len(come)]
        return come


class FakeEngine:
    """Plays one script per start; `scripts` lists them per item: for its first start, its second and so on.

    A script of None is a start that fails. `stubborn` items ignore SIGTERM.
    """

    def __init__(
        self,
        scripts: Mapping[str, Sequence[Callable[[wire.Job], Script] | None]],
        *,
        stubborn: frozenset[str] = frozenset(),
    ) -> None:
        self._scripts = {item: deque(starts) for item, starts in scripts.items()}
        self._stubborn = stubborn
        self._workers: dict[str, _Worker] = {}
        self._now = 0.0
        self._pid = 0
        self.signals = FakeSignals(clock=self.clock)
        self.jobs: list[tuple[float, str, wire.Job]] = []
        self.sent: list[tuple[float, str, wire.Message]] = []
        self.ended: list[tuple[float, str, Ending]] = []

    def clock(self) -> float:
        return self._now

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(self._workers)

    def start(self, item: str, job: wire.Job) -> int:
        script = self._scripts[item].popleft()
        if script is None:
            raise StartFailed("its process could not be started")
        assert item not in self._workers, f"{item} runs already"
        self.jobs.append((self._now, item, job))
        self._workers[item] = _Worker(script=script(job), attempt=job.attempt, due=self._now)
        self._pid += 1
        return self._pid

    def send(self, item: str, message: wire.Message) -> None:
        self.sent.append((self._now, item, message))
        worker = self._workers.get(item)
        if worker is not None:
            worker.inbox.append(message)
            if worker.waits:
                worker.due = self._now

    def end(self, item: str, how: Ending) -> None:
        self.ended.append((self._now, item, how))
        worker = self._workers.get(item)
        if worker is None or how is Ending.STACKS or (how is Ending.TERMINATE and item in self._stubborn):
            return
        worker.ends = "killed by SIGTERM" if how is Ending.TERMINATE else "killed by SIGKILL"
        worker.due = self._now

    def events(self, until: float) -> Iterator[EngineEvent]:
        due = min((worker.due for worker in self._workers.values()), default=inf)
        now = min(due, until, self.signals.next())
        assert now < inf, "nothing will ever happen"
        self._now = max(self._now, now)
        for item, worker in list(self._workers.items()):
            if worker.due <= self._now and self._workers.get(item) is worker:
                yield from self._play(item, worker)

    def _play(self, item: str, worker: _Worker) -> Iterator[EngineEvent]:  # noqa: C901 - one case per step
        """Take a worker's steps until it waits or is gone."""
        if worker.waits and not worker.inbox and worker.ends is None and worker.wait_ends > self._now:
            yield Said(item=item, attempt=worker.attempt, message=wire.Beat())
            worker.due = min(worker.wait_ends, self._now + BEAT_SECONDS)
            return
        while worker.ends is None:
            message = worker.inbox.popleft() if worker.waits and worker.inbox else None
            worker.waits = False
            try:
                step = worker.script.send(message)
            except StopIteration:
                worker.ends = "exit code 0"
                break
            match step:
                case Say(message):
                    yield Said(item=item, attempt=worker.attempt, message=message)
                case Print(lines, error):
                    yield Printed(item=item, attempt=worker.attempt, lines=lines, error=error)
                case WaitFor(seconds):
                    worker.waits = True
                    if not worker.inbox:
                        worker.wait_ends = self._now + seconds
                        worker.due = min(worker.wait_ends, self._now + BEAT_SECONDS)
                        return
                case Freeze(seconds):
                    worker.due = self._now + seconds
                    return
                case Die(how):
                    worker.ends = how
                case Lie(what):
                    del self._workers[item]
                    yield Gone(item=item, attempt=worker.attempt, how="killed by SIGKILL", broken=what)
                    return
        del self._workers[item]
        yield Gone(item=item, attempt=worker.attempt, how=worker.ends or "")
