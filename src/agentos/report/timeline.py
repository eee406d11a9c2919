"""What the events of a run say of its items and keys over time: spans, points and step series. Pure.

Times are seconds from the start of the run. A log that is cut off, or still being written, is read like any
other: what is open at its end is closed at `ends` and marked `open`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agentos.model import Status

Record = Mapping[str, Any]
Span = dict[str, Any]
Steps = list[list[float]]

STATUSES = frozenset(status.value for status in Status)
RUNNING = "running"  # of an item whose worker is at work; no ending yet
CUT_OFF = "cut_off"  # of an item that was at work when its coordinator was killed
_TEXT = 2000  # longest text taken over from a record
_LEAST_WAIT = 0.005  # seconds; shorter waits for a lease are no waits to a person
_MOST_STEPS = 800  # points of a step series that a page a thousand pixels wide can show
_AFTER_REVIEW = frozenset({"judge", "hold", "finalize"})
_HUGE = 1e12


def text_of(record: Record, name: str, most: int = _TEXT) -> str | None:
    """The text of a field, cut; None where there is none."""
    value = record.get(name)
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= most else value[:most] + " …"


def number_of(record: Record, name: str) -> float | None:
    """The number of a field, as JSON can carry it."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _HUGE:
        return None
    return value


def count_of(record: Record, name: str) -> int:
    return max(0, int(number_of(record, name) or 0))


def moment(text: object) -> float | None:
    """Seconds since 1970 of a time as our logs write it."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        return None


@dataclass(kw_only=True)
class ItemLine:
    """One item over time."""

    id: str
    label: str
    status: str = RUNNING
    verdict: str | None = None
    reviews: int = 0
    attempts: int = 0
    error: str | None = None
    node: str | None = None
    filed: dict[str, Any] | None = None
    spans: list[Span] = field(default_factory=list)
    life: Span | None = None
    at_node: Span | None = None
    retry: Span | None = None
    filing: Span | None = None

    def end_retry(self, at: float) -> None:
        if self.retry is not None:
            self.retry["end"] = max(self.retry["start"], min(self.retry["end"], at))
            self.retry = None

    def end_life(self, at: float, **more: Any) -> None:
        self.end_retry(at)
        for span in (self.at_node, self.life, self.filing):
            if span is not None:
                span["end"] = at
        if self.life is not None:
            self.life.update({name: value for name, value in more.items() if value is not None})
        self.life = self.at_node = self.filing = None

    def of(self, kind: str) -> list[Span]:
        return [span for span in self.spans if span["kind"] == kind]


@dataclass(kw_only=True)
class KeyLine:
    """One key over time, but for its calls: those are the items'."""

    id: str
    provider: str | None = None
    group: str | None = None
    state: str = "available"
    spans: list[Span] = field(default_factory=list)
    rest: Span | None = None

    def end_rest(self, at: float) -> None:
        if self.rest is not None:
            self.rest["end"] = max(self.rest["start"], min(self.rest["end"], at))
            self.rest = None


@dataclass(kw_only=True)
class Timeline:
    """All of a run over time."""

    items: dict[str, ItemLine] = field(default_factory=dict)
    keys: dict[str, KeyLine] = field(default_factory=dict)
    marks: list[Span] = field(default_factory=list)  # pauses and other things that concern the whole run
    started: float | None = None  # seconds since 1970
    finished: float | None = None
    last: float = 0.0  # of the last event
    workflow: str | None = None
    expected: int = 0  # items of the plan
    parallel: int = 0
    exit_code: int | None = None
    stopped: str | None = None
    _calls: dict[int, Span] = field(default_factory=dict)
    _pause: Span | None = None

    def item(self, event: Record) -> ItemLine | None:
        name = text_of(event, "item", 80)
        if name is None:
            return None
        line = self.items.setdefault(name, ItemLine(id=name, label=name))
        line.label = text_of(event, "label", 100) or line.label
        return line

    def key(self, name: str) -> KeyLine:
        return self.keys.setdefault(name, KeyLine(id=name))


def read_timeline(events: Iterable[Record], *, ends: float | None = None) -> Timeline:
    """Read the events of a run; `ends` is the present moment of a live run, in seconds since 1970."""
    line = Timeline()
    at = 0.0
    for event in events:
        name, now = event.get("event"), moment(event.get("time"))
        if not isinstance(name, str):
            continue
        if line.started is None:
            line.started = now
        if now is not None and line.started is not None:
            # A clock that was set back must not turn a span inside out.
            at = max(at, round(now - line.started, 3)) if not event.get("repaired") else at
        line.last = at
        if (item := line.item(event)) is not None:
            _item_event(line, item, name, event, at)
        else:
            _run_event(line, name, event, at)
    over = line.last if ends is None or line.started is None else max(line.last, ends - line.started)
    _close(line, round(over, 3), live=ends is not None)
    return line


def _item_event(line: Timeline, item: ItemLine, name: str, event: Record, at: float) -> None:
    match name:
        case "started":
            item.end_life(at)
            item.attempts = count_of(event, "attempt") or item.attempts + 1
            item.status, item.node = RUNNING, None
            item.life = {"kind": "life", "start": at, "end": at, "attempt": item.attempts}
            item.spans.append(item.life)
        case "ready" if item.life is not None:
            item.life["ready"] = at
            if event.get("resumed"):
                item.life["resumed"] = True
        case "node":
            item.node, item.reviews = text_of(event, "node", 80), count_of(event, "reviews")
            if item.at_node is not None:
                item.at_node["end"] = at
            item.at_node = {
                "kind": "node",
                "start": at,
                "end": at,
                "node": item.node,
                # The verdict on a round comes after its review is counted.
                "round": item.reviews + (item.node not in _AFTER_REVIEW) or 1,
            }
            item.spans.append(item.at_node)
        case "leased":
            item.end_retry(at)
            _leased(line, item, event, at)
        case "settled" | "returned" | "lease_expired":
            _settled(line, name, event, at)
        case "retrying":
            item.end_retry(at)
            seconds = number_of(event, "seconds") or 0.0
            item.retry = {
                "kind": "retry",
                "start": at,
                "end": round(at + max(0.0, seconds), 3),
                "reason": text_of(event, "reason"),
            }
            item.spans.append(item.retry)
        case "crashed":
            item.end_life(at, ended="crashed", error=text_of(event, "error"))
        case "filing":
            item.filing = {"kind": "filing", "start": at, "end": at}
            item.spans.append(item.filing)
        case "filed":
            if item.filing is not None:
                item.filing["end"] = at
                item.filing = None
            number = event.get("number")
            item.filed = {"number": number if isinstance(number, int) else None, "url": _url(event)}
        case _ if event.get("status") in STATUSES:
            item.status = str(event["status"])
            item.verdict = text_of(event, "verdict", 40)
            item.reviews = count_of(event, "reviews") or item.reviews
            item.error = text_of(event, "error")
            item.end_life(at, ended=item.status, error=item.error)
        case "budget" | "refused":
            line.marks.append(_mark(name, at, text_of(event, "reason") or name, item=item.label))
        case _:
            pass


def _leased(line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    waited = number_of(event, "waited") or 0.0
    if waited >= _LEAST_WAIT:
        item.spans.append({"kind": "wait", "start": max(0.0, round(at - waited, 3)), "end": at})
    key = text_of(event, "key", 80) or "?"
    call: Span = {
        "kind": "call",
        "start": at,
        "end": at,
        "node": item.node,
        "key": key,
        "model": text_of(event, "model", 100),
        "open": True,
    }
    item.spans.append(call)
    line._calls[count_of(event, "lease")] = call  # noqa: SLF001 - the reader's own
    found = line.key(key)
    found.provider = text_of(event, "provider", 80) or found.provider


def _settled(line: Timeline, name: str, event: Record, at: float) -> None:
    call = line._calls.pop(count_of(event, "lease"), None)  # noqa: SLF001
    if call is None:
        return
    call["end"] = at
    del call["open"]
    error = {"returned": "worker gone", "lease_expired": "no answer in time"}.get(name)
    if error := error or text_of(event, "error", 80):
        call["error"] = error
    for tokens in ("tokens_in", "tokens_out"):
        if event.get(tokens):
            call[tokens] = count_of(event, tokens)


def _run_event(line: Timeline, name: str, event: Record, at: float) -> None:
    match name:
        case "run_started":
            line.expected, line.parallel = count_of(event, "items"), count_of(event, "parallel")
            line.workflow = text_of(event, "workflow", 80)
        case "rate_limited" | "quota_exhausted":
            _refused(line, name, event, at)
        case "key_recovered" | "key_enabled":
            key = line.key(text_of(event, "key", 80) or "?")
            key.end_rest(at)
            key.state = "available"
        case "key_disabled":
            key = line.key(text_of(event, "key", 80) or "?")
            key.end_rest(at)
            key.state = "disabled"
            key.rest = {"kind": "disabled", "start": at, "end": _HUGE, "reason": text_of(event, "reason")}
            key.spans.append(key.rest)
        case "paused":
            line._pause = _mark("pause", at, text_of(event, "reason") or "no key can be used")  # noqa: SLF001
            line._pause["open"] = True  # noqa: SLF001
            line.marks.append(line._pause)  # noqa: SLF001
        case "resumed" if line._pause is not None:  # noqa: SLF001
            line._pause["end"] = at  # noqa: SLF001
            del line._pause["open"]  # noqa: SLF001
            line._pause = None  # noqa: SLF001
        case "stopping":
            line.stopped = text_of(event, "reason", 80)
            line.marks.append(_mark("stopping", at, (line.stopped or "stopping").replace("_", " ")))
        case "capacity":
            told = f"{text_of(event, 'provider', 80)}:{text_of(event, 'model', 100)} is overloaded"
            seconds = max(0.0, number_of(event, "seconds") or 0.0)
            line.marks.append(_mark("capacity", at, told) | {"end": round(at + seconds, 3)})
        case "parallel_changed":
            line.marks.append(_mark("parallel", at, "") | {"allowed": count_of(event, "allowed")})
        case "budget":
            line.marks.append(_mark("budget", at, text_of(event, "reason") or "the budget is reached"))
        case "run_finished":
            code = number_of(event, "exit_code")
            line.exit_code = None if code is None else int(code)
            line.stopped = text_of(event, "stopped", 80) or line.stopped
            line.finished = at
        case _:
            pass


def _refused(line: Timeline, name: str, event: Record, at: float) -> None:
    seconds = max(0.0, number_of(event, "seconds") or 0.0)
    told = event.get("keys")
    names = [one for one in told if isinstance(one, str)] if isinstance(told, list) else []
    hit = text_of(event, "key", 80) or (names[0] if names else "?")
    for one in dict.fromkeys([hit, *names]):
        key = line.key(one[:80])
        key.provider = text_of(event, "provider", 80) or key.provider
        key.group = text_of(event, "group", 80) or key.group
        if key.state != "disabled":
            key.end_rest(at)
            key.state = name
            rest: Span = {"kind": "rest", "start": at, "end": round(at + seconds, 3), "reason": name}
            rest |= {"seconds": round(seconds, 3), "told": bool(event.get("told"))}
            if (model := text_of(event, "model", 100)) is not None:
                rest["model"] = model
            key.rest = rest
            key.spans.append(rest)
        if one == hit:
            key.spans.append({"kind": "limited", "start": at, "end": at, "reason": name})


def _mark(kind: str, at: float, text: str, **more: Any) -> Span:
    return {"kind": kind, "start": at, "end": at, "text": text, **more}


def _url(event: Record) -> str | None:
    url = text_of(event, "url", 500)
    return url if url is not None and url.startswith(("https://", "http://")) else None


def _close(line: Timeline, over: float, *, live: bool) -> None:
    """End at the run's end whatever is open."""
    for item in line.items.values():
        if item.status == RUNNING:
            for span in (item.life, item.at_node, item.filing):
                if span is not None:
                    span["open"] = True
            item.end_life(over)
            if not live:
                item.status = CUT_OFF
        for span in item.spans:
            if span["kind"] == "call" and span.get("open"):
                span["end"] = over
            span["end"] = min(span["end"], max(over, span["start"]))
    for key in line.keys.values():
        if key.rest is not None and key.rest["kind"] == "rest" and key.rest["end"] <= over:
            key.state = "available"
        for span in key.spans:
            span["end"] = max(span["start"], min(span["end"], over))
    for mark in line.marks:
        mark["end"] = max(mark["start"], over if mark.get("open") else min(mark["end"], over))
    line.last = over


def steps(spans: Iterable[Span]) -> Steps:
    """How many of the spans are open at each moment, as [seconds, number] where it changes."""
    changes: dict[float, int] = {}
    for span in spans:
        changes[span["start"]] = changes.get(span["start"], 0) + 1
        changes[span["end"]] = changes.get(span["end"], 0) - 1
    series: Steps = []
    level = 0
    for at in sorted(changes):
        if changes[at]:
            level += changes[at]
            series.append([at, level])
    return _thinned(series)


def mean_level(spans: Iterable[Span], seconds: float) -> float:
    """How many of the spans are open on average."""
    total = math.fsum(span["end"] - span["start"] for span in spans)
    return round(total / seconds, 2) if seconds > 0 else 0.0


def _thinned(series: Steps) -> Steps:
    """Keep the peak and the last level of each slice of time, so that a long run stays small."""
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
