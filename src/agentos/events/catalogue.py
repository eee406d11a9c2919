"""Every event that can be in events.jsonl, with its meaning. Pure.

`name` is the event's name in the file. Seconds are durations; the record adds the time of the event. Fields
with a default may be missing in the records of an older version. Fields that are `unrecorded` are used only
during the run and are not in the file.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from agentos.events.asker import NOBODY, Asker
from agentos.model import Status

T = TypeVar("T")


def unrecorded(default: T) -> T:
    """A field that is not in the record; an event that is read has the default."""
    return field(default=default, metadata={"recorded": False})


def is_recorded(one: Field[Any]) -> bool:
    """Return whether the field is in the record."""
    return bool(one.metadata.get("recorded", True))


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    name: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class ItemEvent(Event):
    """Something that happened to one item."""

    item: str  # its id; in events of the key pool its label, until it is recorded


@dataclass(frozen=True, kw_only=True)
class PoolEvent(Event):
    """Something that the key pool reports."""

    at: float = unrecorded(0.0)  # monotonic seconds, as are `until` and `expires`


@dataclass(frozen=True, kw_only=True)
class AskerEvent(PoolEvent, ItemEvent):
    """Something that the key pool reports about a request."""

    asker: Asker = unrecorded(NOBODY)  # noqa: RUF009 - a tuple cannot change


# The run.


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """The run starts; this is its first event."""

    name = "run_started"
    run_id: str
    items: int  # in the plan
    parallel: int
    mock: bool | None = None  # a role uses the mock; None: the record does not say
    command: str | None = None  # as it was typed
    ids: tuple[str, ...] = ()  # items that were named
    flags: tuple[str, ...] | None = None  # that a command to continue may repeat: "--budget 2"
    workflow: str | None = None
    drafter: str | None = None  # "openai:gpt-5"
    reviewer: str | None = None
    budget: float | None = None  # USD, as are all amounts
    item_budget: float | None = None
    carried: float = 0.0  # spent by the runs that this run resumes; counts towards the budget
    timeout: float | None = None  # of one item
    run_timeout: float | None = None
    max_iterations: int | None = None
    max_wait: float | None = None
    version: str | None = None  # of agentos
    keep_prompts: bool | None = None  # prompts and answers are kept in the run's folder
    commit: str | None = None  # that the worktree stands on; None: unknown
    engine: str | None = None  # that ran the items, if not this machine's own: "postgres"


@dataclass(frozen=True, kw_only=True)
class RunFinished(Event):
    """The run is over; this is its last event."""

    name = "run_finished"
    exit_code: int | None
    totals: Mapping[str, int]  # items by status
    stopped: str | None  # why it ended early
    seconds: float | None = None  # how long the run took


@dataclass(frozen=True, kw_only=True)
class Stopping(Event):
    """The run ends early; running items save their progress."""

    name = "stopping"
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Paused(Event):
    """Every item waits, and no key can be used for some time."""

    name = "paused"
    reason: str | None
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Resumed(Event):
    """A pause is over."""

    name = "resumed"
    seconds: float  # how long the pause was


@dataclass(frozen=True, kw_only=True)
class ProviderDown(Event):
    """The provider cannot be reached; its calls wait, and one at a time tries it."""

    name = "provider_down"
    provider: str
    reason: str  # host and cause


@dataclass(frozen=True, kw_only=True)
class ProviderBack(Event):
    """The provider answers again."""

    name = "provider_back"
    provider: str
    seconds: float  # how long it was down


@dataclass(frozen=True, kw_only=True)
class ParallelChanged(Event):
    """More or fewer items may run at the same time."""

    name = "parallel_changed"
    allowed: int


@dataclass(frozen=True, kw_only=True)
class BudgetReached(Event):
    """The run's budget has no room for the next call."""

    name = "budget_reached"
    spent: float
    carried: float  # spent by the runs that this run resumes


# One item: its worker, its nodes, its waits.


@dataclass(frozen=True, kw_only=True)
class Queued(ItemEvent):
    """The item is in the plan and waits for its turn."""

    name = "queued"
    label: str | None
    title: str | None = None


@dataclass(frozen=True, kw_only=True)
class Started(ItemEvent):
    """A worker process was started for the item."""

    name = "started"
    label: str | None
    attempt: int
    pid: int
    took: float = 0.0  # seconds from the decision to the start of the process


@dataclass(frozen=True, kw_only=True)
class Ready(ItemEvent):
    """The worker has imported what it needs and starts."""

    name = "ready"
    pid: int
    resumed: bool  # from a checkpoint
    warm: bool  # forked from a process that had everything imported


@dataclass(frozen=True, kw_only=True)
class NodeEntered(ItemEvent):
    """The workflow of the item enters a node."""

    name = "node"
    node: str | None
    reviews: int  # finished so far


class WaitKind(StrEnum):
    """What an item can wait for."""

    KEY = "key"  # a key that can be used now
    OVERLOADED = "overloaded"  # a model that is overloaded
    OUTAGE = "outage"  # a provider that is down
    BUDGET = "budget"  # calls in flight that may use up the budget
    BACKOFF = "backoff"  # the retry of a failed call


@dataclass(frozen=True, kw_only=True)
class Waiting(AskerEvent):
    """The item waits. Its next `leased`, `waiting` or `refused` event, or its end, ends the wait."""

    name = "waiting"
    number: int | None = None  # of its call
    provider: str | None = None
    model: str | None = None
    reason: str
    until_seconds: float | None  # None: unknown
    kind: WaitKind = WaitKind.KEY
    until: float | None = unrecorded(None)  # set only by the key pool, like `at` and `asker`


@dataclass(frozen=True, kw_only=True)
class Crashed(ItemEvent):
    """The worker crashed; the item gets another attempt."""

    name = "crashed"
    attempt: int
    error: str | None


# One item: its end. One event per status.


@dataclass(frozen=True, kw_only=True)
class ItemEnded(ItemEvent):
    """The item is done in this run."""

    status: ClassVar[Status]
    label: str | None = None
    verdict: str | None = None
    reviews: int = 0
    output: str | None = None
    error: str | None = None
    reason: str | None = None  # why it did not run
    attempts: int = 0
    busy_seconds: float = 0.0  # in nodes, as its workers measured it
    filing: str | None = None  # wanted or unknown; None if it is not meant to be filed
    questions: tuple[str, ...] = ()  # of its reviews, still open: "Q1: ..."
    dropped: tuple[str, ...] = ()  # lines of a person that the approved document lacks
    repaired: bool = (
        False  # added by a later run, because the run that approved the item was killed too early
    )


@dataclass(frozen=True, kw_only=True)
class Completed(ItemEnded):
    """The item was approved, and its document is saved."""

    name, status = "completed", Status.APPROVED


@dataclass(frozen=True, kw_only=True)
class NeedsRevision(ItemEnded):
    """The review loop ended without an approval."""

    name, status = "needs_revision", Status.NEEDS_REVISION


@dataclass(frozen=True, kw_only=True)
class Discuss(ItemEnded):
    """A person must decide about the item."""

    name, status = "discuss", Status.DISCUSS


@dataclass(frozen=True, kw_only=True)
class Failed(ItemEnded):
    """The item could not continue."""

    name, status = "failed", Status.FAILED


@dataclass(frozen=True, kw_only=True)
class TimedOut(ItemEnded):
    """The item reached its time limit and was killed."""

    name, status = "timed_out", Status.TIMED_OUT


@dataclass(frozen=True, kw_only=True)
class Interrupted(ItemEnded):
    """The item was stopped by a person or by --run-timeout; it resumes."""

    name, status = "interrupted", Status.INTERRUPTED


@dataclass(frozen=True, kw_only=True)
class ItemPaused(ItemEnded):
    """The item was stopped for quota or budget; it resumes."""

    name, status = "item_paused", Status.PAUSED


@dataclass(frozen=True, kw_only=True)
class NotStarted(ItemEnded):
    """The run ended before the item could start."""

    name, status = "not_started", Status.PENDING


@dataclass(frozen=True, kw_only=True)
class Skipped(ItemEnded):
    """There was nothing to do for the item."""

    name, status = "skipped", Status.SKIPPED


ENDINGS: Mapping[Status, type[ItemEnded]] = {
    one.status: one
    for one in (
        Completed,
        NeedsRevision,
        Discuss,
        Failed,
        TimedOut,
        Interrupted,
        ItemPaused,
        NotStarted,
        Skipped,
    )
}
