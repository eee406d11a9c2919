"""Records of runs, made by hand or by chance."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from agentos.events.record import CATALOGUE, _plan

START = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)
FIELDS = sorted({name for event in CATALOGUE for name, _take, _default in _plan(event)})


def at(seconds: float) -> str:
    moment = START + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record(when: float, name: str, /, **fields: Any) -> dict[str, Any]:
    return {"time": at(when), "event": name, **fields}


_WORDS = ["1", "2", "LLD-1", "k1", "k2", "p", "mock", "judge", "approved", "running", "backoff", "", "\ud83d"]
_VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, True, False, -1, 10**30, float("nan"), float("inf"), -0.5, {"a": 1}, [[]]]),
    st.integers(0, 4),
    st.floats(0, 30),
    st.sampled_from(_WORDS),
    st.lists(st.sampled_from(["k1", "k2", "k3", 5, None]), max_size=3),
)
_TIMES = st.one_of(st.integers(-5, 1000).map(at), st.sampled_from([None, 5, "never", "9999-12-31T23:59:59Z"]))
_NAMES = st.sampled_from([*CATALOGUE, "retrying", "of_another_version", None, 5])


def _record(time: object, name: object, item: object, others: dict[str, Any]) -> dict[str, Any]:
    return others | {"time": time, "event": name} | ({} if item is None else {"item": item})


# Records that may stand in a file, and some that nobody should have written.
RECORDS = st.lists(
    st.builds(
        _record,
        _TIMES,
        _NAMES,
        st.sampled_from(["1", "2", None, 5]),
        st.dictionaries(st.sampled_from([*FIELDS, "status"]), _VALUES, max_size=5),
    ),
    max_size=20,
)
