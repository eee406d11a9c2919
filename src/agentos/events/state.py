"""The state of a run as its events tell it: items, calls, waits, keys and marks over time. Pure.

Times are seconds from the start of the run. What goes on has no end yet: a reader asks with the moment it
looks at, `now`, so that reading changes nothing and the fold can continue.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from agentos.events.catalogue import RunStarted, WaitKind
from agentos.events.fields import time_text
from agentos.model import Status

RUNNING = "running"  # of an item that has no end yet
CUT_OFF = "cut_off"  # of an item that was running when its coordinator was killed
MOCK = "mock"

# Spans.


@dataclass(kw_only=True, slots=True)
class TimelineSpan:
    """Something that takes time."""

    kind: ClassVar[str]
    start: float
    end: float | None = None  # None: it goes on

    def ends(self, now: float) -> float:
        """When it ends, or `now` where it goes on; a planned end that is not reached yet does not count."""
        return max(self.start, now if self.end is None else min(self.end, now))

    def seconds(self, now: float) -> float:
        return self.ends(now) - self.start


@dataclass(kw_only=True, slots=True)
class WorkerSpan(TimelineSpan):
    """A worker process of an item."""

    kind = "life"
    attempt: int
    ready: float | None = None
    resumed: bool = False  # from a checkpoint
    ended: str | None = None  # the status of the item, or "crashed"
    error: str | None = None


@dataclass(kw_only=True, slots=True)
class NodeSpan(TimelineSpan):
    """An item at a node of its workflow."""

    kind = "node"
    node: str | None
    round: int


@dataclass(kw_only=True, slots=True)
class WaitSpan(TimelineSpan):
    """An item that waits."""

    kind = "wait"
    of: WaitKind
    reason: str | None = None
    model: str | None = None
    until: float | None = None  # when it should end, if somebody knows


@dataclass(kw_only=True, slots=True)
class FilingSpan(TimelineSpan):
    """An approved issue on its way to GitHub."""

    kind = "filing"


@dataclass(kw_only=True, slots=True)
class CallSpan(TimelineSpan):
    """A call of a model."""

    kind = "call"
    node: str | None
    key: str
    model: str | None
    error: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(kw_only=True, slots=True)
class RateLimitSpan(TimelineSpan):
    """A key that its provider refuses for some time."""

    kind = "rest"
    reason: str  # the event's name
    planned: float  # seconds
    told: bool  # by the server
    model: str | None = None


@dataclass(kw_only=True, slots=True)
class RefusalMark(TimelineSpan):
    """The moment at which a call with a key was refused."""

    kind = "limited"
    reason: str


@dataclass(kw_only=True, slots=True)
class DisabledSpan(TimelineSpan):
    """A key that is not tried again."""

    kind = "disabled"
    reason: str | None


@dataclass(kw_only=True, slots=True)
class RunMark(TimelineSpan):
    """Something that concerns the whole run."""

    kind = "mark"
    of: str  # pause, stopping, capacity, parallel or budget
    text: str = ""
    until: float | None = None  # of a pause
    allowed: int | None = None  # items that may run


S = TypeVar("S", bound=TimelineSpan)

# Items and keys.


@dataclass(kw_only=True, slots=True)
class FiledAs:
    """Where an issue is on GitHub."""

    number: int | None
    url: str | None


@dataclass(kw_only=True, slots=True)
class ItemState:
    """One item."""

    id: str
    label: str
    status: str = RUNNING
    verdict: str | None = None
    reviews: int = 0
    attempts: int = 0
    error: str | None = None
    output: str | None = None
    filed: FiledAs | None = None
    spans: list[TimelineSpan] = field(default_factory=list)  # in the order of the events
    worker: WorkerSpan | None = None
    node: NodeSpan | None = None  # the latest
    wait: WaitSpan | None = None
    call: CallSpan | None = None  # the latest
    filing: FilingSpan | None = None

    def of(self, kind: type[S]) -> list[S]:
        """Its spans of one kind."""
        return [span for span in self.spans if isinstance(span, kind)]

    def status_now(self, *, live: bool) -> str:
        """Its status, in a run that goes on or does not."""
        return CUT_OFF if self.status == RUNNING and not live else self.status


@dataclass(kw_only=True, slots=True)
class KeyTimeline:
    """One key, but for its calls: those are the items'."""

    id: str
    provider: str | None = None
    group: str | None = None
    state: str = "available"
    spans: list[RateLimitSpan | RefusalMark | DisabledSpan] = field(default_factory=list)
    unusable: RateLimitSpan | DisabledSpan | None = None  # why it cannot be used now

    def state_at(self, now: float) -> str:
        """A key whose rest is over can be used, though nobody has tried it."""
        over = (
            isinstance(self.unusable, RateLimitSpan)
            and self.unusable.end is not None
            and self.unusable.end <= now
        )
        return "available" if over else self.state


@dataclass(kw_only=True, slots=True)
class RunState:
    """All of a run."""

    items: dict[str, ItemState] = field(default_factory=dict)  # by id, in the order they came up
    keys: dict[str, KeyTimeline] = field(default_factory=dict)
    marks: list[RunMark] = field(default_factory=list)
    begun: RunStarted | None = None
    started: float | None = None  # seconds since 1970
    last: float = 0.0  # of the last event
    finished: bool = False
    exit_code: int | None = None
    stopped: str | None = None
    mock: bool = False  # the mock is used for a role
    in_flight: dict[int, CallSpan] = field(default_factory=dict)  # calls in flight, by lease
    pause: RunMark | None = None

    @property
    def workflow(self) -> str | None:
        """The run's workflow; runs of older versions tell it by their labels alone."""
        if self.begun is not None and self.begun.workflow is not None:
            return self.begun.workflow
        named = (one for one in self.items.values() if one.label.endswith(f"-{one.id}"))
        return next((one.label.removesuffix(f"-{one.id}").lower() for one in named), None)

    @property
    def started_at(self) -> str | None:
        """When it started, as our logs write it."""
        return None if self.started is None else time_text(self.started)

    @property
    def expected(self) -> int:
        """How many items the run has; some may not have come up yet."""
        return max(0 if self.begun is None else self.begun.items, len(self.items))

    def now(self, clock: float | None) -> float:
        """The moment a reader looks at: `clock`, in seconds since 1970, or that of the last event."""
        if clock is None or self.started is None:
            return self.last
        return round(max(self.last, clock - self.started), 3)

    def totals(self, *, live: bool) -> Counter[str]:
        """How many items there are of each status."""
        counted = Counter(item.status_now(live=live) for item in self.items.values())
        if unseen := self.expected - len(self.items):
            counted[Status.PENDING.value] += unseen
        return counted
