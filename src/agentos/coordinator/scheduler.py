"""Decides what starts, what stops and how each item ended. Pure.

Events and time in, actions out.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from agentos.model import Status

MAX_RELEASES = 20  # how often a machine may give an item back; that is not the item's fault
MAX_ATTEMPTS = 3  # a worker that crashes is started again from its checkpoint, up to this many attempts
DRAIN_SECONDS = 2.0  # from the request to stop to SIGTERM
STACKS_SECONDS = 0.3  # from printing stack traces to SIGTERM
SILENCE_SECONDS = (
    20.0  # a running worker that is silent for this long is frozen; workers send a beat every 5 s
)
START_SECONDS = 60.0  # for the first message of a new process, however short --timeout is
TERMINATE_SECONDS = 1.0  # from SIGTERM to SIGKILL


class Stop(StrEnum):
    """Why a run stops early."""

    INTERRUPTED = "interrupted"  # SIGINT
    TERMINATED = "terminated"  # SIGTERM
    RUN_TIMEOUT = "run_timeout"  # --run-timeout
    FAIL_FAST = "fail_fast"  # --fail-fast and an item failed
    QUOTA = "quota"  # no key is usable within --max-wait
    OUTAGE = "outage"  # a provider is down for longer than --max-wait
    BUDGET = "budget"  # --budget
    NO_KEY = "no_key"  # no usable key is left
    MISCONFIGURED = "misconfigured"  # a model, an address or a certificate that no item can use
    STORAGE = "storage"  # records cannot be written


PAUSING = frozenset({Stop.QUOTA, Stop.OUTAGE, Stop.BUDGET, Stop.NO_KEY, Stop.MISCONFIGURED})


class Stage(Enum):
    """The stage of ending a worker."""

    RUNNING = auto()  # not being ended
    DRAINING = auto()  # asked to stop
    STACKS = auto()  # hung; asked to print its stack traces
    TERMINATED = auto()  # SIGTERM sent to its group
    KILLED = auto()  # SIGKILL sent to its group


@dataclass(frozen=True, kw_only=True)
class Action:
    item: str


class Start(Action):
    """Start a worker for the item."""


class AskToStop(Action):
    """Ask the worker to stop; it gives up a call in flight."""


class PrintStacks(Action):
    """Have the worker print its stack traces."""


class Terminate(Action):
    """Send SIGTERM to the worker's group."""


class Kill(Action):
    """Send SIGKILL to the worker's group."""


@dataclass(frozen=True, kw_only=True)
class StartAgain(Action):
    """The worker crashed; another one resumes from its checkpoint."""

    attempt: int
    error: str
    released: bool = False  # it did not crash: its machine gave it back


@dataclass(frozen=True, kw_only=True)
class Finish(Action):
    """The item is done in this run."""

    status: Status
    error: str | None = None


@dataclass(kw_only=True)
class _ItemClock:
    time_left: float  # of --timeout, without waits for a lease
    since: float | None  # when the --timeout clock last started; None while waiting
    stage: Stage = Stage.RUNNING
    stage_ends: float = 0.0
    heard: float | None = None  # time of its last message; None until it is running
    timed_out: bool = False


@dataclass(kw_only=True)
class Scheduler:
    """The state of a run, as far as decisions need it."""

    items: Iterable[str]
    parallel: int
    timeout: float
    run_ends: float | None = None
    fail_fast: bool = False
    allowed: int | None = None  # how many items the key pool allows
    held: bool = False  # the only running item waits to see how another one fares
    stopping: Stop | None = None
    attempts: dict[str, int] = field(default_factory=dict)
    _releases: Counter[str] = field(default_factory=Counter)
    _pending: deque[str] = field(init=False)
    _running: dict[str, _ItemClock] = field(default_factory=dict)
    _quitting: bool = False
    _sparing: bool = False  # some items finish the call that they are making

    def __post_init__(self) -> None:
        self._pending = deque(self.items)

    @property
    def done(self) -> bool:
        return not self._running and not self._pending

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(self._running)

    @property
    def pending(self) -> int:
        return len(self._pending)

    def fill(self, now: float) -> list[Action]:
        """Start as many items as there are free slots."""
        slots = self.parallel if self.allowed is None else max(1, min(self.parallel, self.allowed))
        slots += self.held and slots == 1
        actions: list[Action] = []
        while self.stopping is None and self._pending and len(self._running) < slots:
            item = self._pending.popleft()
            self._running[item] = _ItemClock(time_left=max(self.timeout, START_SECONDS), since=now)
            self.attempts[item] = self.attempts.get(item, 0) + 1
            actions.append(Start(item=item))
        return actions

    def ready(self, item: str, now: float) -> None:
        """The worker is running: its time limit starts now, not when its process was started."""
        running = self._running[item]
        running.since, running.time_left = now, self.timeout
        running.heard = now

    def heard(self, item: str, now: float) -> None:
        """The worker sent a message, even if only a beat."""
        running = self._running[item]
        if running.heard is not None:
            running.heard = now

    def waiting(self, item: str, now: float) -> None:
        """The item waits for a lease or a machine: its time limit does not run."""
        running = self._running[item]
        if running.since is not None:
            running.time_left -= now - running.since
            running.since = None

    def served(self, item: str, now: float) -> None:
        """The item has what it waited for: its time limit runs again."""
        running = self._running[item]
        if running.since is None:
            running.since = now

    def gone(
        self, item: str, now: float, *, status: Status | None, error: str | None, released: bool = False
    ) -> list[Action]:
        """A worker is gone. `status` is how it said the item ended; None if it crashed before.

        `released`: its machine gave it back, so it does not count as a crash.
        """
        self._releases[item] += released and self._releases[item] < MAX_RELEASES
        running = self._running.pop(item)
        actions: list[Action]
        if running.timed_out and status is not Status.APPROVED:
            reason = f"timed out after {self.timeout:g} s; stack trace in the log"
            actions = [Finish(item=item, status=Status.TIMED_OUT, error=reason)]
        elif status is Status.INTERRUPTED or (status is None and self.stopping is not None):
            ending = Status.PAUSED if self.stopping in PAUSING else Status.INTERRUPTED
            actions = [Finish(item=item, status=ending, error=error)]
        elif status is None:
            actions = self._died(item, error or "it exited without a result", released=released)
        else:
            actions = [Finish(item=item, status=status, error=error)]
        failed = any(
            isinstance(one, Finish) and one.status in {Status.FAILED, Status.TIMED_OUT} for one in actions
        )
        if failed and self.fail_fast:
            actions += self.stop(Stop.FAIL_FAST, now)
        return actions + self.fill(now)

    def _died(self, item: str, error: str, *, released: bool) -> list[Action]:
        attempt = self.attempts[item]
        crashes = attempt - self._releases[item]
        if crashes >= MAX_ATTEMPTS:
            reason = f"its worker crashed {crashes} times (last: {error})"
            return [Finish(item=item, status=Status.FAILED, error=reason)]
        self._pending.appendleft(item)
        return [StartAgain(item=item, attempt=attempt, error=error, released=released)]

    def stop(self, reason: Stop, now: float, *, sparing: Collection[str] = ()) -> list[Action]:
        """Start nothing more and end what is running. A second stop by a person kills it immediately.

        `sparing` are items in the middle of a paid call: they finish it, and end when they ask for the next.
        """
        by_person = reason in {Stop.INTERRUPTED, Stop.TERMINATED}
        if self.stopping is None:
            self.stopping = reason
        elif by_person:
            self._quitting = self.stopping in {Stop.INTERRUPTED, Stop.TERMINATED}
            self.stopping = reason
        elif not (self._sparing and reason is Stop.RUN_TIMEOUT):
            return []
        self._sparing = bool(sparing)
        actions: list[Action] = [self._left(item) for item in self._pending]
        self._pending.clear()
        for item, running in self._running.items():
            if self._quitting and running.stage is not Stage.KILLED:
                actions.append(self._advance(item, running, Stage.KILLED, now))
            elif running.stage is Stage.RUNNING and item not in sparing:
                actions.append(self._advance(item, running, Stage.DRAINING, now))
        return actions

    def not_started(self, item: str) -> Action:
        """The run stopped before this item could be started, although its turn had come."""
        del self._running[item]
        self.attempts[item] -= 1
        return self._left(item)

    def _left(self, item: str) -> Action:
        """An item waiting for its next attempt had been started; the others never started."""
        begun = self.attempts.get(item, 0) > 0
        return Finish(item=item, status=Status.INTERRUPTED if begun else Status.PENDING)

    def tick(self, now: float) -> list[Action]:
        """Do what is due at this time."""
        actions: list[Action] = []
        if self.run_ends is not None and now >= self.run_ends and (self.stopping is None or self._sparing):
            actions += self.stop(Stop.RUN_TIMEOUT, now)
        for item, running in self._running.items():
            if running.stage is Stage.RUNNING:
                if running.since is not None and now - running.since >= running.time_left:
                    running.timed_out = True
                    actions.append(self._advance(item, running, Stage.STACKS, now))
                elif running.heard is not None and now - running.heard >= SILENCE_SECONDS:
                    actions.append(self._advance(item, running, Stage.KILLED, now))
            elif now >= running.stage_ends and running.stage is not Stage.KILLED:
                next_stage = Stage.KILLED if running.stage is Stage.TERMINATED else Stage.TERMINATED
                actions.append(self._advance(item, running, next_stage, now))
        return actions + self.fill(now)

    def next_deadline(self) -> float | None:
        """When tick must be called next, if nothing else happens."""
        ends = self.run_ends if self.stopping is None or self._sparing else None
        times = [] if ends is None else [ends]
        for running in self._running.values():
            if running.stage is Stage.RUNNING:
                if running.since is not None:
                    times.append(running.since + running.time_left)
                if running.heard is not None:
                    times.append(running.heard + SILENCE_SECONDS)
            elif running.stage is not Stage.KILLED:
                times.append(running.stage_ends)
        return min(times, default=None)

    def _advance(self, item: str, running: _ItemClock, stage: Stage, now: float) -> Action:
        seconds, action = _STAGES[stage]
        running.stage = stage
        running.stage_ends = now + seconds
        return action(item=item)


_STAGES: dict[Stage, tuple[float, type[Action]]] = {
    Stage.DRAINING: (DRAIN_SECONDS, AskToStop),
    Stage.STACKS: (STACKS_SECONDS, PrintStacks),
    Stage.TERMINATED: (TERMINATE_SECONDS, Terminate),
    Stage.KILLED: (0.0, Kill),
}
