"""How the key pool shows itself, and what of it survives a run."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.credentials.pool import KeyState, Settlement
from agentos.events.keys import KeyDisabled, Leased, QuotaExhausted, RateLimited, Refused
from agentos.model import CallError
from unit.credentials.pool_kit import Desk, key, of

WALL = 1_800_000_000.0


def limited(retry_after: float) -> Settlement:
    return Settlement(error=CallError.RATE_LIMITED, retry_after=retry_after)


REJECTED = Settlement(error=CallError.KEY_REJECTED)


def test_a_fresh_pool() -> None:
    desk = Desk(key(1), key(2))
    snapshot = desk.snapshot()
    assert [one.state for one in snapshot.keys] == [KeyState.AVAILABLE, KeyState.AVAILABLE]
    assert snapshot.usable_keys == 2
    assert snapshot.exhausted is None
    assert snapshot.waiting == ()
    assert snapshot.useful_parallel == 20


def test_all_reserved_is_not_exhausted() -> None:
    desk = Desk(key(1, max_in_flight=1), key(2, max_in_flight=1))
    desk.lease("a")
    desk.lease("b")
    desk.ask("c")
    snapshot = desk.snapshot()
    assert snapshot.waiting[0].reason == "all keys reserved"
    assert snapshot.exhausted is None
    assert snapshot.usable_keys == 2
    assert snapshot.in_flight == 2


def test_all_resting_is_exhausted_until_the_first_comes_back() -> None:
    desk = Desk(key(1), key(2))
    first, second = desk.lease("a"), desk.lease("b")
    desk.settle(first, limited(3600.0))
    assert desk.snapshot().exhausted is None
    desk.settle(second, limited(1800.0))
    snapshot = desk.snapshot()
    assert snapshot.exhausted is not None
    assert (snapshot.exhausted.until, snapshot.exhausted.reason) == (desk.now + 1800, "all keys rate limited")
    assert snapshot.usable_keys == 0
    assert snapshot.useful_parallel == 0
    desk.wait(1800)
    assert desk.snapshot().exhausted is None


def test_only_the_providers_that_are_waited_for_count() -> None:
    desk = Desk(key(1), key(2, provider="q"))
    desk.settle(desk.lease("a"), limited(60.0))
    assert desk.snapshot().exhausted is None
    desk.ask("a")
    snapshot = desk.snapshot()
    assert snapshot.exhausted is not None
    assert snapshot.exhausted.until == desk.now + 60
    assert [(one.provider, one.usable_keys, one.exhausted is None) for one in snapshot.providers] == [
        ("p", 0, False),
        ("q", 1, True),
    ]


def test_all_disabled_is_exhausted_for_good() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), REJECTED)
    exhausted = desk.snapshot().exhausted
    assert exhausted is not None
    assert (exhausted.until, exhausted.reason) == (None, "all keys of p disabled")


def test_disabled_keys_do_not_hide_that_the_rest_is_resting() -> None:
    desk = Desk(key(1), key(2))
    first, second = desk.lease("a"), desk.lease("b")
    desk.settle(first, REJECTED)
    desk.settle(second, limited(60.0))
    desk.ask("c")
    exhausted = desk.snapshot().exhausted
    assert exhausted is not None
    assert exhausted.until == desk.now + 60


def test_a_day_used_up_by_our_own_count_is_exhausted() -> None:
    desk = Desk(key(rpd=1))
    desk.settle(desk.lease("a"))
    desk.ask("a")
    exhausted = desk.snapshot().exhausted
    assert exhausted is not None
    assert exhausted.reason == "rpd budget"
    assert exhausted.until == pytest.approx(desk.now + 86_400, rel=0.01)
    assert desk.snapshot().useful_parallel == 0


def test_the_pace_of_a_minute_is_not_exhaustion() -> None:
    desk = Desk(key(rpm=6))
    desk.settle(desk.lease("a"))
    desk.ask("a")
    assert desk.snapshot().exhausted is None


def test_reasons_that_differ_are_named_by_key() -> None:
    desk = Desk(key(1, max_in_flight=1), key(2, max_in_flight=1), key(3, max_in_flight=1), key(4))
    given = [desk.lease(item) for item in "abc"]
    assert [one.key for one in given] == ["key-1", "key-2", "key-3"]
    desk.settle(desk.lease("d"), limited(60.0))
    desk.ask("e")
    assert desk.waiting("e").reason == "3 keys reserved, key-4 rate limited"
    assert desk.waiting("e").until == desk.now + 60


def test_those_further_back_are_told_a_later_time() -> None:
    desk = Desk(key(rpm=60))
    desk.lease("x")
    for item in "abc":
        desk.ask(item)
    times = [one.until for one in desk.snapshot().waiting]
    assert times == pytest.approx([desk.now + 1, desk.now + 2, desk.now + 3], rel=0.02)
    assert [one.position for one in desk.snapshot().waiting] == [0, 1, 2]


def test_where_no_limit_is_known_no_time_is_made_up() -> None:
    desk = Desk(key(max_in_flight=1))
    desk.lease("x")
    desk.ask("a")
    desk.ask("b")
    assert [one.until for one in desk.snapshot().waiting] == [None, None]


def test_useful_parallel_follows_the_budget() -> None:
    desk = Desk(key(rpm=6))
    for _ in range(4):
        given = desk.ask("a") or of(Leased, desk.wake())[0]
        desk.now += 20.0
        desk.settle(given)
    assert 3 <= desk.snapshot().useful_parallel <= 6  # a call each 10 s, 20 s long, and as long between


def test_useful_parallel_of_short_calls_leaves_room_for_the_burst() -> None:
    desk = Desk(key(1, rpm=240), key(2, rpm=240))
    for _ in range(20):
        given = desk.ask("a") or of(Leased, desk.wake())[0]
        desk.now += 0.1
        desk.settle(given)
    assert 8 <= desk.pool.useful_parallel(desk.now) <= 12


def test_a_snapshot_changes_nothing() -> None:
    desk = Desk(key(1, rpm=60), key(2))
    desk.lease("a")
    desk.settle(desk.lease("b"), limited(5.0))
    desk.ask("c")
    first = desk.pool.snapshot(desk.now + 100)
    assert desk.pool.snapshot(desk.now + 100) == first
    assert desk.key("key-2").state is KeyState.RATE_LIMITED


def moved(desk: Desk, other: Desk, *, later: float = 0.0, set_back: float = 0.0) -> Desk:
    """Carry health through a file into another pool, whose clock has another zero."""
    data = json.loads(json.dumps(desk.pool.export(desk.now, WALL)))
    other.note(other.pool.restore(data, other.now, WALL + later - set_back))
    return other


def test_rests_survive_by_the_wall_clock() -> None:
    desk = Desk(key(1), key(2), key(3))
    given = {one.key: one for one in (desk.lease(item) for item in "abc")}
    desk.settle(given["key-1"], limited(600.0))
    desk.settle(given["key-2"], Settlement(error=CallError.QUOTA_EXHAUSTED, quota_reset=40_000.0))
    desk.settle(given["key-3"], REJECTED)
    other = moved(desk, Desk(key(1), key(2), key(3), now=5.0), later=100.0)
    states = {one.id: (one.state, one.until, one.reason) for one in other.snapshot().keys}
    assert states == {
        "key-1": (KeyState.RATE_LIMITED, 505.0, "rate limited"),
        "key-2": (KeyState.QUOTA_EXHAUSTED, 39_905.0, "quota exhausted"),
        "key-3": (KeyState.DISABLED, None, "rejected by the provider"),
    }
    assert {type(one) for one in other.events} == {RateLimited, QuotaExhausted, KeyDisabled}


def test_a_rest_that_is_over_is_over() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), limited(60.0))
    assert moved(desk, Desk(key()), later=60.0).key().state is KeyState.AVAILABLE


def test_a_clock_set_back_makes_no_rest_longer() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), limited(60.0))
    other = moved(desk, Desk(key(), now=5.0), set_back=7200.0)
    assert other.key().until == 65.0


def test_learnt_limits_and_the_days_count_survive() -> None:
    desk = Desk(key(rpd=10))
    for _ in range(8):
        given = desk.lease("a")
        desk.now += 1.0
        desk.settle(given, Settlement(headers={"x-ratelimit-limit-requests": "600"}))
    other = moved(desk, Desk(key(rpd=10)), later=3_600.0)
    rooms = {one.limit: (one.value, one.learnt, one.room) for one in other.key().budgets}
    assert rooms["rpm"][:2] == (600.0, True)
    assert rooms["rpd"][2] == pytest.approx(2 + 10 / 24, rel=0.01)


def test_restoring_only_ever_adds() -> None:
    old = Desk(key(1), key(2)).pool.export(1000.0, WALL)
    desk = Desk(key(1), key(2))
    desk.settle(desk.lease("a"), REJECTED)
    desk.settle(desk.lease("b"), limited(60.0))
    before = desk.snapshot()
    assert desk.pool.restore(old, desk.now, WALL) == []
    assert desk.snapshot() == before


def test_restoring_twice_is_as_good_as_once() -> None:
    desk = Desk(key(1, rpd=5), key(2))
    desk.settle(desk.lease("a"), limited(60.0))
    other = moved(desk, Desk(key(1, rpd=5), key(2)))
    once = other.snapshot()
    assert moved(desk, other).snapshot() == once


def test_a_restored_group_rests_as_one() -> None:
    desk = Desk(key(1, group="g"), key(2, group="g"))
    desk.settle(desk.lease("a"), limited(60.0))
    other = moved(desk, Desk(key(1, group="g"), key(2, group="g")))
    assert len(of(RateLimited, other.events)) == 1
    assert other.snapshot().usable_keys == 0


def test_restoring_a_disabled_key_refuses_those_who_wait_for_it() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), REJECTED)
    other = Desk(key(max_in_flight=1))
    other.lease("x")
    other.ask("y")
    assert [one.item for one in of(Refused, moved(desk, other).events)] == ["y"]


def test_enabled_keys_are_exported_as_well() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), REJECTED)
    desk.pool.enable("key-1", desk.now)
    assert moved(desk, Desk(key())).key().state is KeyState.AVAILABLE


def entry(**changes: Any) -> dict[str, Any]:
    good = {
        "provider": "p",
        "disabled": None,
        "resting": {"state": "rate_limited", "until": WALL + 60},
        "models": {},
    }
    return {"version": 1, "at": WALL, "keys": {"key-1": good | changes}}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "text",
        {},
        {"version": 2, "at": WALL, "keys": {}},
        {"version": 1, "at": "x", "keys": {}},
        {"version": 1, "at": WALL, "keys": []},
        {"version": 1, "at": WALL, "keys": {"key-1": None, "key-9": {}, 5: {}}},
        entry(provider="other"),
        entry(resting={"state": "disabled", "until": WALL + 60}),
        entry(resting={"state": ["rate_limited"], "until": WALL + 60}),
        entry(resting={"state": "rate_limited", "until": float("nan")}),
        entry(resting={"state": "rate_limited", "until": "soon"}),
        entry(resting={"state": "rate_limited"}),
        entry(resting=[1], disabled=7, models={"m": 5, "n": {"limits": {"rpm": -1}, "used_today": "x"}}),
        entry(resting=None, models=[1, 2]),
    ],
)
def test_bad_data_is_left_out(data: object) -> None:
    desk = Desk(key())
    before = desk.snapshot()
    assert desk.pool.restore(data, desk.now, WALL) == []
    assert desk.snapshot() == before


def test_a_bad_key_does_not_spoil_a_good_one() -> None:
    desk = Desk(key(1), key(2))
    data = entry()
    data["keys"]["key-2"] = "rubbish"
    desk.pool.restore(data, desk.now, WALL)
    assert desk.key("key-1").until == desk.now + 60


def test_absurd_rests_are_capped() -> None:
    desk = Desk(key())
    desk.pool.restore(entry(resting={"state": "rate_limited", "until": WALL + 1e9}), desk.now, WALL)
    assert desk.key().until == desk.now + 3600


NAMES = ["key-1", "provider", "resting", "until", "state", "models", "limits", "rpm", "used_today", "m"]
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)


@given(json_values, st.floats(), st.floats(min_value=0, max_value=1e10))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_no_data_whatsoever_raises(value: Any, at: float, wall: float) -> None:
    desk = Desk(key(rpd=5))
    desk.pool.restore(value, desk.now, wall)
    desk.pool.restore({"version": 1, "at": at, "keys": value}, desk.now, wall)
    desk.pool.restore({"version": 1, "at": at, "keys": {"key-1": value}}, desk.now, wall)
    desk.pool.export(desk.now, wall)
    desk.snapshot()


def test_an_export_holds_nothing_but_what_it_says() -> None:
    desk = Desk(key(1, group="g"))
    desk.settle(desk.lease("a"), limited(60.0))
    assert desk.pool.export(desk.now, WALL) == {
        "version": 1,
        "at": WALL,
        "keys": {
            "key-1": {
                "provider": "p",
                "group": "g",
                "disabled": None,
                "resting": {"state": "rate_limited", "until": WALL + 60.0},
                "models": {},
            }
        },
    }
