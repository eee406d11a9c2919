"""Durations in words."""

import pytest

from agentos.duration import between, clock, rounded, words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3.0, "0 s"), (0.4, "0 s"), (119.4, "119 s"), (120, "2 min"), (7199, "120 min"), (9000, "2.5 h")],
)
def test_a_span_is_told_in_the_unit_people_would_use(seconds: float, text: str) -> None:
    assert words(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "<1 s"), (1.4, "1 s"), (61.0, "61 s"), (180.0, "3 min"), (9000.0, "2.5 h")]
)
def test_what_took_time_never_took_none(seconds: float, text: str) -> None:
    assert rounded(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0:00"), (65.0, "1:05"), (7261.0, "2:01:01")])
def test_a_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (0.0, 0.0, "under 5 s"),
        (0.0, 44.0, "under 45 s"),
        (21.0, 44.0, "20-45 s"),
        (42.0, 44.0, "about 45 s"),
        (20.0, 200.0, "under 4 min"),
        (190.0, 330.0, "3-6 min"),
        (200.0, 210.0, "about 4 min"),
        (6000.0, 9000.0, "1.5-2.5 h"),
    ],
)
def test_a_range_is_rounded_outwards(least: float, most: float, text: str) -> None:
    assert between(least, most) == text
