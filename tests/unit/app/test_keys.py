"""What a health file says of a key's rest, whatever stands in it."""

from typing import Any

import pytest

from agentos.app.keys import KeyPause, rest_of


def test_a_rest_is_told_with_its_kind_until_it_is_over() -> None:
    entry = {"resting": {"state": "rate_limited", "until": 130.0}}
    assert rest_of(entry, 100.0) == KeyPause(state="rate_limited", seconds=30.0)
    assert rest_of(entry, 130.0).seconds == 0


@pytest.mark.parametrize(
    "resting",
    [None, 7, [], {}, {"until": "soon"}, {"until": True}, {"until": 1e300}, {"until": float("nan")}],
)
def test_nonsense_is_no_rest(resting: Any) -> None:
    assert rest_of({"resting": resting}, 100.0).seconds == 0
