"""Where the time of the workers went."""

from typing import Any

import pytest
from hypothesis import given

from agentos.events.fold import fold
from agentos.events.state import WorkerSpan
from agentos.report.time_shares import TimeKind, TimeShares, time_shares
from unit.events.histories import RECORDS, record


def started(when: float, item: str = "1") -> dict[str, Any]:
    return record(when, "started", item=item, label=f"LLD-{item}", attempt=1, pid=5)


def waiting(when: float, kind: str, left: float | None = None) -> dict[str, Any]:
    return record(when, "waiting", item="1", reason="r", until_seconds=left, kind=kind)


def leased(when: float, lease: int, item: str = "1") -> dict[str, Any]:
    return record(when, "leased", item=item, lease=lease, key="k", provider="p", model="m")


def settled(when: float, lease: int, item: str = "1") -> dict[str, Any]:
    return record(when, "settled", item=item, lease=lease, key="k")


def shares(*records: dict[str, Any], now: float = 0.0) -> dict[str, float]:
    state = fold([record(0, "run_started", run_id="r", items=2, parallel=2), *records])
    found = time_shares(state, now=max(now, state.last)).seconds
    return {kind.value: seconds for kind, seconds in found.items() if seconds}


def test_each_second_of_a_worker_goes_to_what_it_did() -> None:
    assert shares(
        started(0),
        waiting(1, "budget"),
        waiting(3, "key"),
        leased(6, 1),
        settled(10, 1),
        waiting(10, "backoff", left=2),
        waiting(12, "overloaded"),
        waiting(13, "outage"),
        leased(20, 2),
        settled(21, 2),
        record(22, "completed", item="1", label="LLD-1", status="approved"),
    ) == {
        "calls": 5.0, "keys": 3.0, "overloaded": 1.0, "down": 7.0, "budget": 2.0, "backoff": 2.0, "rest": 2.0
    }  # fmt: skip


def test_workers_at_the_same_time_add_up() -> None:
    both = [started(0), started(0, "2"), leased(0, 1), leased(0, 2, "2"), settled(10, 1), settled(10, 2, "2")]
    assert shares(*both) == {"calls": 20.0}


def test_what_is_still_going_on_counts_up_to_now() -> None:
    assert shares(started(0), leased(1, 1), now=5) == {"calls": 4.0, "rest": 1.0}
    assert shares(started(0), waiting(1, "key"), now=5) == {"keys": 4.0, "rest": 1.0}


def test_a_call_is_never_also_a_wait() -> None:
    assert shares(started(0), waiting(1, "backoff", left=30), leased(2, 1), now=9) == {
        "calls": 7.0,
        "backoff": 1.0,
        "rest": 1.0,
    }


@given(records=RECORDS)
def test_never_more_time_than_the_workers_had(records: list[dict[str, Any]]) -> None:
    state = fold(records)
    now = state.last + 3
    lived = sum(span.seconds(now) for item in state.items.values() for span in item.of(WorkerSpan))
    found = time_shares(state, now=now)
    assert found.total == pytest.approx(lived, abs=0.01 * len(TimeKind))
    assert all(seconds >= 0 for seconds in found.seconds.values())


def test_per_cents_add_up_to_a_hundred() -> None:
    third = TimeShares(seconds=dict.fromkeys(TimeKind, 0.0) | dict.fromkeys(list(TimeKind)[:3], 1.0))
    assert sorted(third.percent().values()) == [0, 0, 0, 0, 33, 33, 34]
    assert set(TimeShares(seconds=dict.fromkeys(TimeKind, 0.0)).percent().values()) == {0}


def test_the_largest_shares() -> None:
    seconds = dict.fromkeys(TimeKind, 0.0) | {TimeKind.REST: 60.0, TimeKind.CALLS: 40.0, TimeKind.KEYS: 0.1}
    assert TimeShares(seconds=seconds).largest() == [TimeKind.REST, TimeKind.CALLS]
    assert [kind.words for kind in TimeKind] == [
        "in calls",
        "waiting for keys",
        "model overloaded",
        "provider down",
        "waiting for the budget",
        "back-off",
        "start-up and rest",
    ]
