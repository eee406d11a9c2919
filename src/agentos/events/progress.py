"""How far a run is: done of total, cost of budget, calls per minute, and a range for the time left. Pure.

The terminal's footer and the live page show the same numbers.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from agentos.events.catalogue import WaitKind
from agentos.events.state import MOCK, RUNNING, CallSpan, ItemState, RunState
from agentos.model import Status

LEAST_FINISHED = 3  # items; with fewer, nobody knows how long an item takes
RATE_SECONDS = 60.0  # the calls of this time are "now"
_LEAST_RATE_SECONDS = 10.0
_MARGIN = 1.3  # standard errors: about four of five runs end within the range
_SLOWER = 1.5  # an item that runs longer than any before it may take half as long again
_RAN = frozenset({Status.APPROVED, Status.NEEDS_REVISION, Status.DISCUSS, Status.FAILED, Status.TIMED_OUT})


@dataclass(frozen=True, kw_only=True)
class TimeLeft:
    """How long the run will probably still take, in seconds."""

    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """How far a run is. Skipped items are not part of it: there was nothing to do for them."""

    done: int
    total: int
    skipped: int
    running: int
    counts: Mapping[str, int]  # items that ended, by status, without the skipped ones
    spent: float | None  # USD, with `carried`; None: the price of a call is unknown
    carried: float  # the part that the runs which this run resumes have spent
    budget: float | None
    simulated: bool  # the money: the mock made every call
    calls_per_minute: float | None  # answered; None: the run has just started, or is over
    left: TimeLeft | None  # None: unknown

    @property
    def queued(self) -> int:
        """Items that have not started."""
        return max(0, self.total - self.done - self.running)


def progress_of(state: RunState, *, now: float) -> RunProgress:
    """How far the run is at `now`, in seconds from its start."""
    ended = Counter(item.status for item in state.items.values() if item.status != RUNNING)
    skipped = ended.pop(Status.SKIPPED.value, 0)
    running = [item for item in state.items.values() if item.status == RUNNING and item.began is not None]
    costs = [item.usd for item in state.items.values()]
    carried = 0.0 if state.begun is None else state.begun.carried
    known = [usd for usd in costs if usd is not None]
    progress = RunProgress(
        done=ended.total(),
        total=state.expected - skipped,
        skipped=skipped,
        running=len(running),
        counts={status.value: ended[status.value] for status in Status if ended[status.value]},
        spent=carried + sum(known) if len(known) == len(costs) else None,
        carried=carried,
        budget=None if state.begun is None else state.begun.budget,
        simulated=bool(state.keys) and all(key.provider == MOCK for key in state.keys.values()),
        calls_per_minute=_rate(state, now),
        left=None,
    )
    if state.finished or state.stopped or state.pause is not None or state.outages:
        return progress
    if running and all(_stands_still(item) for item in running):
        return progress
    finished = [item.seconds(now) for item in state.items.values() if _has_run(item)]
    left = _left(
        finished, [item.seconds(now) for item in running], queued=progress.queued, slots=_slots(state)
    )
    return replace(progress, left=left)


def _rate(state: RunState, now: float) -> float | None:
    """Calls that were answered in the last minute, or since the start if that is less."""
    if state.finished or now < _LEAST_RATE_SECONDS:
        return None
    since = max(0.0, now - RATE_SECONDS)
    answered = 0
    for item in state.items.values():
        if item.ended is not None and item.ended < since:
            continue
        for span in reversed(item.spans):
            if isinstance(span, CallSpan) and span.end is not None and span.error is None:
                if span.end < since:
                    break  # those before it ended earlier: an item makes one call at a time
                answered += 1
    return 60.0 * answered / (now - since)


def _stands_still(item: ItemState) -> bool:
    return item.wait is not None and item.wait.of is not WaitKind.BACKOFF


def _has_run(item: ItemState) -> bool:
    return item.began is not None and item.ended is not None and item.status in _RAN


def _slots(state: RunState) -> tuple[int, int]:
    """How many items may run at the same time: in the worst case, as now; in the best, as requested."""
    parallel = max(1, 1 if state.begun is None else state.begun.parallel)
    allowed = next((mark.allowed for mark in reversed(state.marks) if mark.of == "parallel"), None)
    return max(1, min(parallel, allowed or parallel)), parallel


def _left(
    finished: Sequence[float], running: Sequence[float], *, queued: int, slots: tuple[int, int]
) -> TimeLeft | None:
    """A range from the items that finished; items that still run show what the fast ones hide."""
    open_items = queued + len(running)
    if len(finished) < LEAST_FINISHED or not open_items:
        return None
    margin = _MARGIN * _spread(finished) * sqrt(1 / len(finished) + 1 / open_items)
    short = max(0.0, _mean(finished) - margin)
    least = _makespan([max(0.0, short - took) for took in running], [short] * queued, slots[1])
    most = _at_most(finished, running, queued=queued, slots=slots[0], margin=margin)
    usual = [took for took in running if took <= max(finished)]
    if len(usual) < len(running):
        # An item is slower than any before it. If the end of the run depends on it, nobody knows it.
        without = _at_most(finished, usual, queued=queued, slots=slots[0], margin=margin)
        if not queued or most > _SLOWER * without:
            return None
    return TimeLeft(least=min(least, most), most=max(least, most))


def _at_most(
    finished: Sequence[float], running: Sequence[float], *, queued: int, slots: int, margin: float
) -> float:
    """At worst the slowest comes last, and what runs takes as long as the slowest so far."""
    slowest = max(finished)
    long = _mean([*finished, *(_expected(took, finished) for took in running)]) + margin
    rest = [slowest - took if took < slowest else took * (_SLOWER - 1) for took in running]
    queue = [long] * (queued - 1) + [max(long, slowest)] * bool(queued)
    return _makespan(rest, queue, slots)


def _expected(took: float, finished: Sequence[float]) -> float:
    """How long an item takes in all that runs for this long."""
    longer = [seconds for seconds in finished if seconds > took]
    return _mean(longer) if longer else took * _SLOWER


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _spread(numbers: Sequence[float]) -> float:
    """The standard deviation."""
    mean = _mean(numbers)
    return sqrt(sum((one - mean) ** 2 for one in numbers) / max(1, len(numbers) - 1))


def _makespan(rest: Sequence[float], queue: Sequence[float], slots: int) -> float:
    """When the last item ends, if the next one starts as soon as a slot is free."""
    free = sorted(rest)[-slots:] + [0.0] * max(0, slots - len(rest))
    heapq.heapify(free)
    for seconds in queue:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)
