"""Spans as the page gets them."""

from agentos.events.catalogue import WaitKind
from agentos.events.state import RunMark, WaitSpan, WorkerSpan
from agentos.report.spans import Left, span_dict, steps


def test_a_long_series_keeps_its_peaks_and_its_end() -> None:
    spans = [WorkerSpan(start=float(n), end=n + 0.5, attempt=1) for n in range(5000)]
    series = steps([*spans, WorkerSpan(start=2500.1, end=2500.2, attempt=1)], 6000.0)
    assert len(series) <= 801
    assert max(level for _, level in series) == 2
    assert series[-1] == [4999.5, 0]


def test_a_wait_says_what_for_where_it_is_not_a_key() -> None:
    assert span_dict(WaitSpan(start=1, end=2, of=WaitKind.KEY), 5) == {"kind": "wait", "start": 1, "end": 2}
    budget = WaitSpan(start=1, of=WaitKind.BUDGET, reason="r")
    assert span_dict(budget, 5) == {
        "kind": "wait", "start": 1, "end": 5, "reason": "r", "of": "budget", "open": True
    }  # fmt: skip
    retry = WaitSpan(start=1, end=3, of=WaitKind.BACKOFF, reason="cut", until=3)
    assert span_dict(retry, 2) == {"kind": "retry", "start": 1, "end": 2, "reason": "cut"}


def test_what_is_left_of_a_wait() -> None:
    left = Left.at(WaitSpan(start=1, of=WaitKind.BACKOFF, reason="cut", until=9), 4)
    assert left is not None
    assert left.as_dict() == {"reason": "cut", "seconds_left": 5, "of": "backoff"}
    pause = Left.at(RunMark(start=1, of="pause", text="every key is rate limited"), 4)
    assert pause is not None
    assert pause.as_dict() == {"reason": "every key is rate limited", "seconds_left": None}
    assert Left.at(None, 4) is None
