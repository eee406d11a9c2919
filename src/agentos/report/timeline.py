"""What the events of a run say of its items and keys over time: spans, points and step series. Pure.

Times are seconds from the start of the run. A log that is cut off, or still being written, is read like any
other: what is open at its end is closed at `ends` and marked `open`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
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
    # Half of a surrogate pair has no place in a file's name, nor in a page.
    return shortened(value.encode("utf-8", errors="replace").decode(), most)


def shortened(text: str, most: int) -> str:
    """A text of about so many characters, cut where a word ends."""
    if len(text) <= most:
        return text
    kept = text[: most + 1]
    words = kept.rstrip() if kept[-1].isspace() else kept.rpartition(" ")[0].rstrip()
    # Without a space near the end there is no word to keep whole.
    return (words if len(words) > most // 2 else text[:most]) + " …"


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
    output: str | None = None
    node: str | None = None
    filed: dict[str, Any] | None = None
    spans: list[Span] = field(default_factory=list)
    life: Span | None = None
    at_node: Span | None = None
    retry: Span | None = None
    wait: Span | None = None  # for a lease
    filing: Span | None = None

    def end_retry(self, at: float) -> None:
        if self.retry is not None:
            self.retry["end"] = max(self.retry["start"], min(self.retry["end"], at))
            self.retry = None

    def end_wait(self, at: float) -> bool:
        """End the wait for a lease; tell whether there was one."""
        if (wait := self.wait) is None:
            return False
        wait["end"], self.wait = at, None
        if at - wait["start"] < _LEAST_WAIT:
            self.spans = [span for span in self.spans if span is not wait]
        return True

    def end_life(self, at: float, **more: Any) -> None:
        self.end_retry(at)
        self.end_wait(at)
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
    calls: dict[int, Span] = field(default_factory=dict)  # in flight, by lease
    pause: Span | None = None

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
    if (handle := _OF_AN_ITEM.get(name)) is not None:
        handle(line, item, event, at)
    elif text_of(event, "status", 40) in STATUSES:
        _ended(item, event, at)


def _started(_line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    item.end_life(at)
    item.attempts = count_of(event, "attempt") or item.attempts + 1
    item.status, item.node = RUNNING, None
    item.life = {"kind": "life", "start": at, "end": at, "attempt": item.attempts}
    item.spans.append(item.life)


def _ready(_line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    if item.life is not None:
        item.life["ready"] = at
        if event.get("resumed"):
            item.life["resumed"] = True


def _at_node(_line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    item.node, item.reviews = text_of(event, "node", 80), count_of(event, "reviews")
    if item.at_node is not None:
        item.at_node["end"] = at
    # The verdict on a round comes after its review is counted.
    number = item.reviews + (item.node not in _AFTER_REVIEW) or 1
    item.at_node = {"kind": "node", "start": at, "end": at, "node": item.node, "round": number}
    item.spans.append(item.at_node)


def _waiting(_line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    item.end_retry(at)
    if item.wait is None:
        item.wait = {"kind": "wait", "start": at, "end": at}
        item.spans.append(item.wait)
    told = {"reason": text_of(event, "reason"), "model": text_of(event, "model", 100)}
    item.wait.update({name: value for name, value in told.items() if value is not None})
    item.wait.pop("until", None)
    if (seconds := number_of(event, "until_seconds")) is not None:
        item.wait["until"] = round(at + max(0.0, seconds), 3)


def _leased(line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    item.end_retry(at)
    waited = number_of(event, "waited") or 0.0
    if not item.end_wait(at) and waited >= _LEAST_WAIT:
        item.spans.append({"kind": "wait", "start": max(0.0, round(at - waited, 3)), "end": at})
    key = text_of(event, "key", 80) or "?"
    call: Span = {"kind": "call", "start": at, "end": at, "node": item.node, "key": key, "open": True}
    call["model"] = text_of(event, "model", 100)
    item.spans.append(call)
    line.calls[count_of(event, "lease")] = call
    line.key(key).provider = text_of(event, "provider", 80) or line.key(key).provider


def _settled(line: Timeline, _item: ItemLine, event: Record, at: float) -> None:
    call = line.calls.pop(count_of(event, "lease"), None)
    if call is None:
        return
    call["end"] = at
    del call["open"]
    error = _LOST.get(str(event["event"])) or text_of(event, "error", 80)
    if error is not None:
        call["error"] = error
    for tokens in ("tokens_in", "tokens_out"):
        if event.get(tokens):
            call[tokens] = count_of(event, tokens)


def _retrying(_line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    item.end_retry(at)
    ends = round(at + max(0.0, number_of(event, "seconds") or 0.0), 3)
    item.retry = {"kind": "retry", "start": at, "end": ends, "reason": text_of(event, "reason")}
    item.spans.append(item.retry)


def _crashed(_line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    item.end_life(at, ended="crashed", error=text_of(event, "error"))


def _filing(_line: Timeline, item: ItemLine, _event: Record, at: float) -> None:
    item.filing = {"kind": "filing", "start": at, "end": at}
    item.spans.append(item.filing)


def _filed(_line: Timeline, item: ItemLine, event: Record, at: float) -> None:
    if item.filing is not None:
        item.filing["end"] = at
        item.filing = None
    number = event.get("number")
    item.filed = {"number": number if isinstance(number, int) else None, "url": web_address(event, "url")}


def _ended(item: ItemLine, event: Record, at: float) -> None:
    item.status = str(event["status"])
    item.verdict = text_of(event, "verdict", 40)
    item.reviews = count_of(event, "reviews") or item.reviews
    item.error = text_of(event, "error")
    item.output = text_of(event, "output", 500)
    item.end_life(at, ended=item.status, error=item.error)


_LOST = {"returned": "worker gone", "lease_expired": "no answer in time"}
_OF_AN_ITEM: dict[str, Callable[[Timeline, ItemLine, Record, float], None]] = {
    "started": _started,
    "ready": _ready,
    "node": _at_node,
    "waiting": _waiting,
    "leased": _leased,
    "settled": _settled,
    "returned": _settled,
    "lease_expired": _settled,
    "retrying": _retrying,
    "crashed": _crashed,
    "filing": _filing,
    "filed": _filed,
}


def _run_event(line: Timeline, name: str, event: Record, at: float) -> None:
    if (handle := _OF_THE_RUN.get(name)) is not None:
        handle(line, event, at)


def _run_started(line: Timeline, event: Record, _at: float) -> None:
    line.expected, line.parallel = count_of(event, "items"), count_of(event, "parallel")
    line.workflow = text_of(event, "workflow", 80)


def _run_finished(line: Timeline, event: Record, at: float) -> None:
    code = number_of(event, "exit_code")
    line.exit_code = None if code is None else int(code)
    line.stopped = text_of(event, "stopped", 80) or line.stopped
    line.finished = at


def _paused(line: Timeline, event: Record, at: float) -> None:
    line.pause = _mark("pause", at, text_of(event, "reason") or "no key can be used") | {"open": True}
    if (seconds := number_of(event, "seconds")) is not None:
        line.pause["until"] = round(at + max(0.0, seconds), 3)
    line.marks.append(line.pause)


def _resumed(line: Timeline, _event: Record, at: float) -> None:
    if line.pause is not None:
        line.pause["end"] = at
        del line.pause["open"]
        line.pause = None


def _stopping(line: Timeline, event: Record, at: float) -> None:
    line.stopped = text_of(event, "reason", 80)
    line.marks.append(_mark("stopping", at, (line.stopped or "stopping").replace("_", " ")))


def _capacity(line: Timeline, event: Record, at: float) -> None:
    told = f"{text_of(event, 'provider', 80)}:{text_of(event, 'model', 100)} is overloaded"
    seconds = max(0.0, number_of(event, "seconds") or 0.0)
    line.marks.append(_mark("capacity", at, told) | {"end": round(at + seconds, 3)})


def _parallel_changed(line: Timeline, event: Record, at: float) -> None:
    line.marks.append(_mark("parallel", at, "") | {"allowed": count_of(event, "allowed")})


def _budget_reached(line: Timeline, _event: Record, at: float) -> None:
    line.marks.append(_mark("budget", at, "the budget is reached"))


def _recovered(line: Timeline, event: Record, at: float) -> None:
    key = line.key(text_of(event, "key", 80) or "?")
    key.end_rest(at)
    key.state = "available"


def _disabled(line: Timeline, event: Record, at: float) -> None:
    _recovered(line, event, at)
    key = line.key(text_of(event, "key", 80) or "?")
    key.state = "disabled"
    key.rest = {"kind": "disabled", "start": at, "end": _HUGE, "reason": text_of(event, "reason")}
    key.spans.append(key.rest)


def _refused(line: Timeline, event: Record, at: float) -> None:
    name = str(event["event"])
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


_OF_THE_RUN: dict[str, Callable[[Timeline, Record, float], None]] = {
    "run_started": _run_started,
    "run_finished": _run_finished,
    "paused": _paused,
    "resumed": _resumed,
    "stopping": _stopping,
    "capacity": _capacity,
    "parallel_changed": _parallel_changed,
    "budget_reached": _budget_reached,
    "rate_limited": _refused,
    "quota_exhausted": _refused,
    "key_recovered": _recovered,
    "key_disabled": _disabled,
}


def _mark(kind: str, at: float, text: str) -> Span:
    return {"kind": kind, "start": at, "end": at, "text": text}


def web_address(record: Record, name: str) -> str | None:
    """The address in a field, if it is one that a page may link to."""
    url = text_of(record, name, 500)
    return url if url is not None and url.startswith(("https://", "http://")) else None


def _close(line: Timeline, over: float, *, live: bool) -> None:
    """End at the run's end whatever is open."""
    for item in line.items.values():
        if item.status == RUNNING:
            for span in (item.life, item.at_node, item.filing, item.wait):
                if span is not None:
                    span["open"] = True
            waits = item.wait
            item.end_life(over)
            item.wait = waits  # what it waits for is still to be told
            item.status = RUNNING if live else CUT_OFF
        for span in item.spans:
            _end(span, over)
    for key in line.keys.values():
        if key.rest is not None and key.rest["kind"] == "rest" and key.rest["end"] <= over:
            key.state = "available"
        for span in key.spans:
            _end(span, over)
    for mark in line.marks:
        _end(mark, over)
    line.last = over


def _end(span: Span, over: float) -> None:
    span["end"] = max(span["start"], over if span.get("open") else min(span["end"], over))


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
