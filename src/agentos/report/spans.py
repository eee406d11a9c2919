"""The spans of a run as the page draws them, and how many of them are open at each moment. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentos.events.catalogue import WaitKind
from agentos.events.state import (
    CallSpan,
    DisabledSpan,
    FilingSpan,
    NodeSpan,
    RateLimitSpan,
    RefusalMark,
    RunMark,
    TimelineSpan,
    WaitSpan,
    WorkerSpan,
)

Steps = list[list[float]]  # [seconds, number] at each change of the number

_MOST_STEPS = 800  # points of a step series that a page a thousand pixels wide can show


@dataclass(frozen=True, kw_only=True)
class PaidCall:
    """A call, with the facts that only the audit trail has."""

    call: CallSpan
    cost_usd: float | None = None
    served: str | None = None  # the model that answered
    kept: str | None = None  # the name of its prompt and answer, such as "drafter-2", if they are kept


@dataclass(frozen=True, kw_only=True)
class Left:
    """What an item or the run is waiting for, and about how much longer."""

    reason: str | None
    seconds_left: float | None
    of: WaitKind = WaitKind.KEY

    @classmethod
    def at(cls, span: WaitSpan | RunMark | None, now: float) -> "Left | None":
        if span is None:
            return None
        left = None if span.until is None else round(max(0.0, span.until - now), 3)
        if isinstance(span, RunMark):
            return cls(reason=span.text, seconds_left=left)
        return cls(reason=span.reason, seconds_left=left, of=span.of)

    def as_dict(self) -> dict[str, Any]:
        return {"reason": self.reason, "seconds_left": self.seconds_left} | _named(self.of)


def span_dict(span: TimelineSpan, now: float) -> dict[str, Any]:  # noqa: PLR0911 - one case per kind
    """A span as the page gets it, at the time `now`."""
    data: dict[str, Any] = {"kind": span.kind, "start": span.start, "end": span.ends(now)}
    unfinished = {"open": True} if span.end is None else {}
    match span:
        case WorkerSpan():
            seen = {"ready": span.ready, "resumed": span.resumed or None}
            ended = {"ended": span.ended, "error": span.error}
            return data | {"attempt": span.attempt} | _known(seen | ended) | unfinished
        case NodeSpan():
            return data | {"node": span.node, "round": span.round} | unfinished
        case WaitSpan(of=WaitKind.BACKOFF):
            return data | {"kind": "retry", "reason": span.reason}
        case WaitSpan():
            known = _known({"reason": span.reason, "model": span.model, "until": span.until})
            return data | known | _named(span.of) | unfinished
        case FilingSpan():
            return data | unfinished
        case RateLimitSpan():
            rest = {"reason": span.reason, "seconds": span.planned, "told": span.told}
            return data | rest | _known({"model": span.model})
        case RefusalMark() | DisabledSpan():
            return data | {"reason": span.reason}
        case RunMark():
            known = _known({"until": span.until, "allowed": span.allowed, "about": span.about})
            return data | {"kind": span.of, "text": span.text} | known | unfinished
    return data


def call_dict(paid: PaidCall, now: float) -> dict[str, Any]:
    call = paid.call
    data: dict[str, Any] = {"kind": call.kind, "start": call.start, "end": call.ends(now)}
    data |= {"node": call.node, "key": call.key, "model": call.model}
    names = ("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning")
    used = {name: getattr(call, name) or None for name in names}
    ended = {"error": call.failure, "cut": call.cut_short}
    audited = {"cost_usd": paid.cost_usd, "served": paid.served, "kept": paid.kept}
    known = _known(ended | used | audited)
    return data | known | ({"open": True} if call.end is None else {})


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _named(wait: WaitKind) -> dict[str, str]:
    """What is waited for, unless it is a key."""
    return {} if wait is WaitKind.KEY else {"of": wait.value}


def steps(spans: Iterable[TimelineSpan], now: float) -> Steps:
    """How many of the spans are open at each moment."""
    changes: dict[float, int] = {}
    for span in spans:
        end = span.ends(now)
        changes[span.start] = changes.get(span.start, 0) + 1
        changes[end] = changes.get(end, 0) - 1
    series: Steps = []
    level = 0
    for at in sorted(changes):
        if changes[at]:
            level += changes[at]
            series.append([at, level])
    return _thinned(series)


def mean_level(spans: Iterable[TimelineSpan], now: float) -> float:
    """How many of the spans are open on average."""
    total = math.fsum(span.seconds(now) for span in spans)
    return round(total / now, 2) if now > 0 else 0.0


def _thinned(series: Steps) -> Steps:
    """Keep only the peak and the last level of each time slice, so that a long run stays small."""
    if len(series) <= _MOST_STEPS:
        return series
    first, width = series[0][0], (series[-1][0] - series[0][0]) / (_MOST_STEPS / 2) or 1.0
    kept: Steps = []
    slices: dict[int, Steps] = {}
    for step in series:
        slices.setdefault(int((step[0] - first) / width), []).append(step)
    for inside in slices.values():
        peak = max(inside, key=lambda step: step[1])
        kept += [peak] if peak is inside[-1] else [peak, inside[-1]]
    return kept


def without_calls(keys: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The keys of a page without their calls: its script fills them in from the items."""
    return [{**key, "spans": [span for span in key["spans"] if span["kind"] != "call"]} for key in keys]
