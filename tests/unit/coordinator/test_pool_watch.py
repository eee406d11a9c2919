"""What the watch makes of what the key pool says: events of the run, and lines for people."""

from typing import TYPE_CHECKING, cast

from agentos.coordinator.pool_watch import PoolWatch
from agentos.credentials.outcome import InFlightChanged
from agentos.credentials.snapshot import PoolSnapshot
from agentos.events.asker import Asker
from agentos.events.catalogue import Event, ParallelChanged
from agentos.events.fold import feed
from agentos.events.keys import QuotaExhausted, RateLimited, Returned
from agentos.events.state import RunState

if TYPE_CHECKING:
    from agentos.coordinator.recorder import RunRecorder

RETURNED = Returned(at=9.0, item="LLD-42", asker=Asker("run", "LLD-42", 1), number=1, lease=3, key="k")


class Book:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.said: list[str] = []
        self.state = RunState()

    def record(self, event: Event) -> None:
        self.told.append(event)

    def say(self, line: str) -> None:
        self.said.append(line)


def watch() -> tuple[PoolWatch, Book]:
    recorder = Book()
    return PoolWatch(cast("RunRecorder", recorder), max_wait=1.0), recorder


def test_the_log_names_an_item_by_its_id() -> None:
    pool, recorder = watch()
    pool.announce(RETURNED, "42")
    pool.announce(RETURNED, None)  # an item that is not of this run
    assert [getattr(one, "item", None) for one in recorder.told] == ["42", "LLD-42"]


def test_the_slots_of_a_key_are_not_logged() -> None:
    pool, recorder = watch()
    pool.announce(InFlightChanged(at=1.0, key="k", before=1, limit=2), None)
    assert (recorder.told, recorder.said) == ([], [])


def test_a_used_up_quota_is_not_called_a_rate_limit() -> None:
    pool, recorder = watch()
    for kind in (RateLimited, QuotaExhausted):
        pool.announce(
            kind(
                at=1.0,
                key="k1",
                group="g",
                keys=("k1", "k2"),
                provider="p",
                model="m",
                until=3601.0,
                seconds=3600.0,
                told=True,
            ),
            None,
        )
    assert recorder.said == [
        "k1, k2: rate limited; retrying in 60 min",
        "k1, k2: quota exhausted; retrying in 60 min",
    ]


def limited(at: float, seconds: float) -> RateLimited:
    return RateLimited(
        at=at, key="k1", group="g", keys=("k1",), provider="p", model="m", seconds=seconds, told=True
    )


def test_a_series_of_refusals_of_a_key_is_a_few_lines_with_a_count() -> None:
    pool, recorder = watch()
    for at in range(0, 40, 8):
        pool.announce(limited(float(at), 12.0), None)
    assert len(recorder.told) == 5
    assert recorder.said == [
        "k1: rate limited; retrying in 12 s",
        "k1: rate limited 5 times; retrying in 12 s",
    ]


def pool_for(useful: int) -> PoolSnapshot:
    return PoolSnapshot(
        at=0.0,
        keys=(),
        waiting=(),
        providers=(),
        in_flight=0,
        usable_keys=0,
        exhausted=None,
        useful_parallel=useful,
    )


def test_a_pool_that_serves_all_items_changes_nothing() -> None:
    pool, recorder = watch()
    assert [pool.allowed(pool_for(useful), 4, 0.0) for useful in (9, 4, 5, 4)] == [None] * 4
    assert recorder.told == []
    assert pool.allowed(pool_for(1), 4, 0.0) == 1
    assert pool.allowed(pool_for(4), 4, 0.0) is None
    assert recorder.told == [ParallelChanged(allowed=1), ParallelChanged(allowed=4)]


def test_a_short_pool_says_what_happens_to_the_items() -> None:
    pool, recorder = watch()
    pool.allowed(pool_for(2), 4, 0.0)
    assert recorder.said == ["no key is free; running 2 items at a time for now"]
    for item in "123":
        feed(recorder.state, {"event": "started", "item": item, "label": f"LLD-{item}"})
    pool.allowed(pool_for(1), 4, 100.0)  # three run already
    assert recorder.said[1:] == ["no key is free; starting no further items for now"]
