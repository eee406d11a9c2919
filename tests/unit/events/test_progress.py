"""How far a run is, from its events: counts, cost, rate, and a time left that is a range or nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.events.fold import fold
from agentos.events.progress import RunProgress, progress_of
from agentos.events.state import RunState
from unit.events.histories import RECORDS, record


def begun(items: int, parallel: int = 2, **more: Any) -> dict[str, Any]:
    return record(0, "run_started", run_id="r", items=items, parallel=parallel, **more)


def ran(item: str, start: float, end: float, status: str = "approved") -> list[dict[str, Any]]:
    return [started(item, start), record(end, status, item=item, label=f"LLD-{item}", status=status)]


def started(item: str, when: float) -> dict[str, Any]:
    return record(when, "started", item=item, label=f"LLD-{item}", attempt=1, pid=5)


def call(item: str, lease: int, start: float, end: float, error: str | None = None) -> list[dict[str, Any]]:
    return [
        record(start, "leased", item=item, lease=lease, key="k1", provider="p", model="m"),
        record(end, "settled", item=item, lease=lease, key="k1", tokens_in=1, usd=0.25, error=error),
    ]


def waiting(item: str, when: float, kind: str) -> dict[str, Any]:
    return record(when, "waiting", item=item, reason="why", until_seconds=30.0, kind=kind)


def state_of(*parts: dict[str, Any] | list[dict[str, Any]]) -> RunState:
    records = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    return fold(sorted(records, key=lambda one: str(one["time"])))


def seen(now: float, *parts: dict[str, Any] | list[dict[str, Any]]) -> RunProgress:
    return progress_of(state_of(*parts), now=now)


THREE = [*ran("1", 0, 10), *ran("2", 0, 12), *ran("3", 10, 20)]


# What is done.


def test_skipped_items_are_not_part_of_the_work() -> None:
    skipped = record(0, "skipped", item="9", label="LLD-9", status="skipped", reason="done before")
    progress = seen(21, begun(6), skipped, ran("1", 0, 10), ran("2", 0, 9, "failed"), started("3", 10))
    assert (progress.done, progress.total, progress.skipped) == (2, 5, 1)
    assert (progress.running, progress.queued) == (1, 2)
    assert dict(progress.counts) == {"approved": 1, "failed": 1}


def test_the_cost_includes_what_earlier_runs_spent_of_the_same_budget() -> None:
    progress = seen(9, begun(1, budget=5.0, carried=1.5), started("1", 0), call("1", 1, 1, 2))
    assert (progress.spent, progress.carried, progress.budget) == (1.75, 1.5, 5.0)


def test_a_cost_with_an_unknown_price_is_unknown() -> None:
    priceless = record(3, "call_counted", item="1", tokens_in=1, tokens_out=1, usd=None)
    progress = seen(9, begun(1, budget=5.0), started("1", 0), call("1", 1, 1, 2), priceless)
    assert progress.spent is None
    assert progress.budget == 5.0


def test_money_of_the_mock_is_not_real() -> None:
    assert not seen(9, begun(1), started("1", 0), call("1", 1, 1, 2)).simulated
    lease = record(3, "leased", item="1", lease=2, key="mock-1", provider="mock", model="mock")
    assert seen(9, begun(1), started("1", 0), lease).simulated
    assert not seen(9, begun(1), started("1", 0), call("1", 1, 1, 2), lease).simulated


# The rate.


def test_the_rate_counts_the_answers_of_the_last_minute() -> None:
    calls = [
        *call("1", 1, 1, 2),
        *call("1", 2, 50, 70),
        *call("1", 3, 71, 80),
        *call("1", 4, 81, 82, "capacity"),
    ]
    assert seen(120, begun(1), started("1", 0), calls).calls_per_minute == 2.0


def test_a_young_run_has_its_own_time_as_the_window() -> None:
    assert seen(20, begun(1), started("1", 0), call("1", 1, 1, 2)).calls_per_minute == 3.0
    assert seen(5, begun(1), started("1", 0), call("1", 1, 1, 2)).calls_per_minute is None


def test_items_that_ended_long_ago_do_not_count() -> None:
    assert seen(200, begun(2), ran("1", 0, 10), call("1", 1, 1, 2), started("2", 10)).calls_per_minute == 0.0


# The time left.


def test_nothing_is_said_after_the_first_items() -> None:
    assert seen(13, begun(9), THREE[:4]).left is None
    assert seen(21, begun(9), THREE).left is not None


def test_items_of_one_length_give_a_narrow_range() -> None:
    same = [*ran("1", 0, 10), *ran("2", 0, 10), *ran("3", 10, 20), *ran("4", 10, 20)]
    left = seen(25, begun(10), same, started("5", 20), started("6", 20)).left
    assert left is not None
    assert (left.least, left.most) == pytest.approx((25.0, 25.0))


def test_the_range_holds_what_is_left_and_is_wider_if_items_differ() -> None:
    mixed = [*ran("1", 0, 5), *ran("2", 0, 30), *ran("3", 5, 25)]
    left = seen(31, begun(9), mixed, started("4", 25), started("5", 30)).left
    assert left is not None
    assert left.least < 6 * 18 / 2 < left.most
    assert left.most > 2 * left.least


@pytest.mark.parametrize("now", [32.5, 40, 120, 3600])
def test_nobody_knows_when_the_last_item_ends_if_it_is_slower_than_any_before(now: float) -> None:
    assert seen(25, begun(4, 1), THREE, started("4", 20)).left is not None
    assert seen(now, begun(4, 1), THREE, started("4", 20)).left is None
    assert seen(now, begun(5, 2), THREE, started("4", 20), started("5", now - 1)).left is None


def test_a_slow_item_does_not_matter_while_the_queue_takes_longer() -> None:
    left = seen(40, begun(30, 2), THREE, started("4", 20), started("5", 35)).left
    assert left is not None
    assert left.most > 13 * 10
    # Once it may outlast the queue, it does.
    assert seen(2000, begun(7, 2), THREE, started("4", 20), started("5", 1999)).left is None


def test_the_estimate_never_grows_while_the_last_items_run() -> None:
    fast = [one for number in range(1, 6) for one in ran(str(number), number - 1, number - 0.4)]
    history = [begun(6, 2), *fast, started("6", 4.0)]
    most = [left.most for tenth in range(50, 300) if (left := seen(tenth / 10, *history).left) is not None]
    assert most == sorted(most, reverse=True)
    assert seen(29.9, *history).left is None


def test_fewer_slots_for_now_make_the_worst_case_longer() -> None:
    low = record(20, "parallel_changed", allowed=1)
    usual = seen(21, begun(9, 4), THREE).left
    slowed = seen(21, begun(9, 4), THREE, low).left
    assert usual is not None
    assert slowed is not None
    assert slowed.most > usual.most
    assert slowed.least == usual.least


@pytest.mark.parametrize(
    "reason",
    [
        [record(21, "paused", reason="no key", seconds=30.0)],
        [record(21, "provider_down", provider="p", reason="no connection")],
        [record(21, "stopping", reason="interrupted")],
        [started("4", 20), waiting("4", 21, "budget")],
        [started("4", 20), waiting("4", 21, "key"), started("5", 20), waiting("5", 21, "overloaded")],
        [record(21, "run_finished", exit_code=0, totals={}, stopped=None)],
    ],
)
def test_nothing_is_said_while_the_run_stands_still(reason: list[dict[str, Any]]) -> None:
    assert seen(22, begun(9), THREE, reason).left is None


def test_one_waiting_item_among_others_does_not_hide_the_range() -> None:
    waits = [started("4", 20), waiting("4", 21, "key"), started("5", 20)]
    assert seen(22, begun(9), THREE, waits).left is not None
    backs_off = [started("4", 20), waiting("4", 21, "backoff")]
    assert seen(22, begun(9), THREE, backs_off).left is not None


def test_nothing_is_left_when_all_is_done() -> None:
    assert seen(21, begun(3), THREE).left is None


# What holds for anything.


@given(records=RECORDS, later=st.floats(0, 100))
def test_any_records_give_a_progress_that_makes_sense(records: list[dict[str, Any]], later: float) -> None:
    state = fold(records)
    progress = progress_of(state, now=state.last + later)
    assert 0 <= progress.done <= progress.total
    assert sum(progress.counts.values()) == progress.done
    assert progress.total + progress.skipped == state.expected
    assert progress.left is None or 0 <= progress.left.least <= progress.left.most
    assert progress.calls_per_minute is None or progress.calls_per_minute >= 0
