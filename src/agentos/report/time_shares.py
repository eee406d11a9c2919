"""Where the time of a run's workers went: in calls, in each kind of wait, and the rest. Pure.

The page draws it as one bar, and the terminal names the largest shares, so both use the words from here.
Every second of every worker counts once. A second in a call is never a wait, even if the events overlap.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum

from agentos.events.catalogue import WaitKind
from agentos.events.state import CallSpan, ItemState, RunState, WaitSpan, WorkerSpan


class TimeKind(StrEnum):
    """What a worker's time can go to, in the order in which it is shown."""

    CALLS = "calls"
    KEYS = "keys"
    OVERLOADED = "overloaded"
    DOWN = "down"
    BUDGET = "budget"
    BACKOFF = "backoff"
    REST = "rest"

    @property
    def words(self) -> str:
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        """One sentence that explains it."""
        return _WORDS[self][1]


_WORDS: Mapping[TimeKind, tuple[str, str]] = {
    TimeKind.CALLS: ("in calls", "A model was at work on the item's call."),
    TimeKind.KEYS: (
        "waiting for keys",
        "No key could take the call: all were in use or rate limited, or their quota was used up.",
    ),
    TimeKind.OVERLOADED: ("model overloaded", "The provider had no capacity for the model; no key helps."),
    TimeKind.DOWN: ("provider down", "The provider could not be reached; one call at a time tried it."),
    TimeKind.BUDGET: ("waiting for the budget", "Calls in flight could have used up the rest of the budget."),
    TimeKind.BACKOFF: ("back-off", "A call had failed and waited for its next try."),
    TimeKind.REST: (
        "start-up and rest",
        "Worker processes started, checked drafts and saved progress; no call, no wait.",
    ),
}
_OF_WAITS: Mapping[WaitKind, TimeKind] = {
    WaitKind.KEY: TimeKind.KEYS,
    WaitKind.OVERLOADED: TimeKind.OVERLOADED,
    WaitKind.OUTAGE: TimeKind.DOWN,
    WaitKind.BUDGET: TimeKind.BUDGET,
    WaitKind.BACKOFF: TimeKind.BACKOFF,
}
Stretch = tuple[float, float]  # start and end


@dataclass(frozen=True, kw_only=True)
class TimeShares:
    """Seconds of worker time by kind. Workers run side by side, so the sum can be more than the run took."""

    seconds: Mapping[TimeKind, float]

    @property
    def total(self) -> float:
        return fsum(self.seconds.values())

    def percent(self) -> dict[TimeKind, int]:
        """Whole per cents that add up to 100, or all 0 if no worker ran."""
        total = self.total
        if total <= 0:
            return dict.fromkeys(TimeKind, 0)
        exact = {kind: 100 * self.seconds[kind] / total for kind in TimeKind}
        found = {kind: int(share) for kind, share in exact.items()}
        by_remainder = sorted(TimeKind, key=lambda kind: found[kind] - exact[kind])
        for kind in by_remainder[: 100 - sum(found.values())]:
            found[kind] += 1
        return found

    def largest(self, most: int = 3) -> list[TimeKind]:
        """The kinds with the largest shares, largest first; none with less than one per cent."""
        shares = self.percent()
        return sorted((kind for kind in TimeKind if shares[kind]), key=lambda kind: -self.seconds[kind])[
            :most
        ]


def time_shares(state: RunState, *, now: float) -> TimeShares:
    """Add up the time of all workers, in seconds from the start of the run up to `now`."""
    found: dict[TimeKind, list[float]] = {kind: [] for kind in TimeKind}
    for item in state.items.values():
        for kind, seconds in _of_item(item, now):
            found[kind].append(seconds)
    return TimeShares(seconds={kind: round(fsum(parts), 3) for kind, parts in found.items()})


def _of_item(item: ItemState, now: float) -> Iterable[tuple[TimeKind, float]]:
    """The shares of one item: each moment goes to the first kind that covers it."""
    free = [(life.start, life.ends(now)) for life in item.of(WorkerSpan)]
    for kind in TimeKind:
        if kind is TimeKind.REST:
            break
        taken = _joined(_stretches(item, kind, now))
        left = _without(free, taken)
        yield kind, _length(free) - _length(left)
        free = left
    yield TimeKind.REST, _length(free)


def _stretches(item: ItemState, kind: TimeKind, now: float) -> Iterable[Stretch]:
    for span in item.spans:
        match span:
            case CallSpan() if kind is TimeKind.CALLS:
                yield span.start, span.ends(now)
            case WaitSpan(of=of) if _OF_WAITS[of] is kind:
                yield span.start, span.ends(now)


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time as stretches that do not overlap, in order."""
    joined: list[Stretch] = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _without(free: list[Stretch], taken: list[Stretch]) -> list[Stretch]:
    """What is left of some time, both in order and without overlaps."""
    left: list[Stretch] = []
    for start, end in free:
        at = start
        for begins, ends in taken:
            if begins >= end:
                break
            if begins > at:
                left.append((at, begins))
            at = max(at, ends)
        if at < end:
            left.append((at, end))
    return left


def _length(stretches: list[Stretch]) -> float:
    return fsum(end - start for start, end in stretches)
