"""Durations in words."""

import pytest

from agentos.duration import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3.0, "0 s"), (0.4, "0 s"), (119.4, "119 s"), (120, "2 min"), (7199, "120 min"), (9000, "2.5 h")],
)
def test_a_span_is_told_in_the_unit_people_would_use(seconds: float, text: str) -> None:
    assert words(seconds) == text
