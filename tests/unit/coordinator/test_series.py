"""A series of similar things gets few lines, and none of them is lost in the count."""

from hypothesis import given
from hypothesis import strategies as st

from agentos.coordinator.series import QUIET_SECONDS, Repeats, times


def test_the_first_is_said_and_the_next_ones_are_counted() -> None:
    repeats = Repeats()
    said = [repeats.count("k", now=float(at), seconds=1.0) for at in range(0, 66, 5)]
    assert said == [1, None, None, None, None, None, 7, None, None, None, None, None, 13, None]


def test_each_thing_has_its_own_series() -> None:
    repeats = Repeats()
    assert [repeats.count(what, now=1.0) for what in ("a", "b", "a", "b")] == [1, 1, None, None]


def test_after_a_quiet_time_a_new_series_begins() -> None:
    repeats = Repeats()
    assert repeats.count("k", now=0.0, seconds=10.0) == 1
    assert repeats.count("k", now=5.0, seconds=10.0) is None
    assert repeats.count("k", now=15.0 + QUIET_SECONDS + 1, seconds=10.0) == 1


def test_a_much_longer_wait_is_said_at_once() -> None:
    repeats = Repeats()
    assert repeats.count("k", now=0.0, seconds=1.0) == 1
    assert repeats.count("k", now=1.0, seconds=20.0) is None
    assert repeats.count("k", now=2.0, seconds=600.0) == 3
    assert repeats.count("k", now=3.0, seconds=900.0) is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1000)), min_size=1))
def test_the_first_is_always_said_and_a_count_never_goes_back(gaps: list[tuple[float, float]]) -> None:
    repeats, now, last = Repeats(), 0.0, 0
    for number, (gap, seconds) in enumerate(gaps):
        now += gap
        count = repeats.count("k", now=now, seconds=seconds)
        assert number or count == 1
        assert count is None or count == 1 or count > last
        last = count or last


def test_how_often_in_words() -> None:
    assert [f"limited{times(count)}" for count in (1, 2, 5)] == [
        "limited",
        "limited 2 times",
        "limited 5 times",
    ]
