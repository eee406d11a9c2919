"""The state of a run, from its events: items, calls, waits, keys and marks over time. Pure.

Times are seconds from the start of the run. What is still running has no end yet: a reader passes the current
moment, `now`, so reading changes nothing and the fold can continue.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from agentos.events.catalogue import RunStarted, WaitKind
from agentos.events.fields import time_text
from agentos.lease import LeaseNumber
from agentos.model import Status

RUNNING = "running"  # an item that has not ended yet
CUT_OFF = "cut_off"  # an item that was running when its coordinator was killed
MOCK = "mock"

# Spans.


@dataclass(kw_only=True, slots=True)
class TimelineSpan:
    """Something that takes time."""

    kind: ClassVar[str]
    start: float
    end: float | None = None  # None: it has not ended

    def ends(self, now: float) -> float:
        """When it ended, or `now` if it has not. A planned end in the future does not count."""
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
    until: float | None = None  # when it should end, if known


@dataclass(kw_only=True, slots=True)
class FilingSpan(TimelineSpan):
    """An approved issue on its way to GitHub."""

    kind = "filing"


@dataclass(kw_only=True, slots=True)
class CallSpan(TimelineSpan):
    """A call to a model."""

    kind = "call"
    node: str | None
    key: str
    model: str | None
    error: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_reasoning: int = 0

    @property
    def cut_short(self) -> str | None:
        """Why it ended without a result, if neither the key nor the provider is to blame."""
        return CUT_SHORT.get(self.error or "")

    @property
    def failure(self) -> str | None:
        """What went wrong, if the call failed."""
        return None if self.cut_short else self.error


@dataclass(kw_only=True, slots=True)
class RateLimitSpan(TimelineSpan):
    """A key that its provider refuses for some time."""

    kind = "rest"
    reason: str  # the event's name
    planned: float  # seconds
    told: bool  # the server said how long
    model: str | None = None


@dataclass(kw_only=True, slots=True)
class RefusalMark(TimelineSpan):
    """The moment at which a call with a key was refused."""

    kind = "limited"
    reason: str


@dataclass(kw_only=True, slots=True)
class DisabledSpan(TimelineSpan):
    """A key that is not used again."""

    kind = "disabled"
    reason: str | None


@dataclass(kw_only=True, slots=True)
class RunMark(TimelineSpan):
    """Something that affects the whole run."""

    kind = "mark"
    of: str  # pause, outage, stopping, capacity, parallel or budget
    text: str = ""
    about: str | None = None  # the provider or the model that slows the run down
    until: float | None = None  # of a pause
    allowed: int | None = None  # items that may run


S = TypeVar("S", bound=TimelineSpan)

# Calls without a result that nobody is to blame for: the run was stopped, or the item's time was up.
CUT_SHORT = {
    "given_up": "stopped before an answer came",
    "worker_gone": "its worker ended before an answer came",
    "worker gone": "its worker ended before an answer came",
    "no answer in time": "no answer in time; its worker was stopped",
}

# Items and keys.


@dataclass(kw_only=True, slots=True)
class QueuedItem:
    """An item of the plan, as it was when the run started."""

    id: str
    label: str
    title: str | None


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
    events: int = 0  # so far; a reader that kept the item sees whether it changed
    status: str = RUNNING
    verdict: str | None = None
    reviews: int = 0
    attempts: int = 0
    error: str | None = None
    reason: str | None = None  # why it did not run
    output: str | None = None
    questions: tuple[str, ...] = ()  # still open
    dropped: tuple[str, ...] = ()  # lines of a person that the approved document lacks
    began: float | None = None  # its first start
    ended: float | None = None
    busy_seconds: float = 0.0  # in nodes
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_reasoning: int = 0
    usd: float | None = 0.0  # None once a call had no known price
    filing_state: str | None = None  # filed, wanted or unknown; None if it is not meant to be filed
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

    def seconds(self, now: float) -> float:
        """How long it took, from its first start to its end."""
        end = now if self.ended is None else self.ended
        return 0.0 if self.began is None else round(end - self.began, 3)

    def waited_seconds(self, now: float) -> float:
        """How long it waited for keys, models and money."""
        waits = (wait for wait in self.of(WaitSpan) if wait.of is not WaitKind.BACKOFF)
        return round(sum((wait.seconds(now) for wait in waits), 0.0), 3)

    def status_now(self, *, live: bool) -> str:
        """Its status; `live` says whether the run is still running."""
        return CUT_OFF if self.status == RUNNING and not live else self.status


@dataclass(kw_only=True, slots=True)
class KeyTimeline:
    """One key, without its calls: they are in the items."""

    id: str
    provider: str | None = None
    group: str | None = None
    state: str = "available"
    spans: list[RateLimitSpan | RefusalMark | DisabledSpan] = field(default_factory=list)
    unusable: RateLimitSpan | DisabledSpan | None = None  # why it cannot be used now

    def state_at(self, now: float) -> str:
        """A key whose cooldown is over can be used, even if no event says so."""
        over = (
            isinstance(self.unusable, RateLimitSpan)
            and self.unusable.end is not None
            and self.unusable.end <= now
        )
        return "available" if over else self.state


@dataclass(kw_only=True, slots=True)
class RunState:
    """The whole state of a run."""

    items: dict[str, ItemState] = field(default_factory=dict)  # by id, in the order of their first event
    keys: dict[str, KeyTimeline] = field(default_factory=dict)
    marks: list[RunMark] = field(default_factory=list)
    outages: dict[str, RunMark] = field(default_factory=dict)  # under way, by provider
    overloads: dict[str, RunMark] = field(default_factory=dict)  # the latest, by model
    queue: dict[str, QueuedItem] = field(default_factory=dict)  # by id, in the order of the plan
    begun: RunStarted | None = None
    started: float | None = None  # seconds since 1970
    last: float = 0.0  # time of the last event
    finished: bool = False
    wall_seconds: float | None = None  # how long it took, once it is finished
    exit_code: int | None = None
    stopped: str | None = None
    mock: bool = False  # a role uses the mock
    in_flight: dict[LeaseNumber, CallSpan] = field(default_factory=dict)  # by lease
    pause: RunMark | None = None

    @property
    def workflow(self) -> str | None:
        """The workflow of the run. In runs of older versions, only the labels show it."""
        if self.begun is not None and self.begun.workflow is not None:
            return self.begun.workflow
        named = (one for one in self.items.values() if one.label.endswith(f"-{one.id}"))
        return next((one.label.removesuffix(f"-{one.id}").lower() for one in named), None)

    @property
    def started_at(self) -> str | None:
        """When it started, as our logs write it."""
        return None if self.started is None else time_text(self.started)

    @property
    def finished_at(self) -> str | None:
        """When it finished, as our logs write it."""
        return None if self.started is None or not self.finished else time_text(self.started + self.last)

    @property
    def expected(self) -> int:
        """How many items the run has. Some may have no event yet."""
        return max(0 if self.begun is None else self.begun.items, len(self.items) + len(self.not_started()))

    def not_started(self) -> list[QueuedItem]:
        """The items that wait for their turn, in the order of the plan."""
        return [one for one in self.queue.values() if one.id not in self.items]

    def now(self, clock: float | None) -> float:
        """The current moment: `clock`, in seconds since 1970, or that of the last event."""
        if clock is None or self.started is None:
            return self.last
        return round(max(self.last, clock - self.started), 3)

    def totals(self, *, live: bool) -> Counter[str]:
        """The number of items by status."""
        counted = Counter(item.status_now(live=live) for item in self.items.values())
        if unseen := self.expected - len(self.items):
            counted[Status.PENDING.value] += unseen
        return counted
