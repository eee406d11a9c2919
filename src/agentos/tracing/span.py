"""What a span is, and how it is written to trace.jsonl. Pure."""

import json
import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

Value = str | int | float

LONGEST_TEXT = 200  # characters of a name or an attribute
OTHER = "_OTHER"  # the name in the conventions for anything else

# Our own classes, and how a worker died. Anything else may be text of a provider and is not sent.
ERROR_CLASS = re.compile(r"[a-z]{1,20}(?:_[a-z]{1,20}){0,3}|killed by SIG[A-Z0-9+]{2,9}|exit code \w{1,5}")
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63 - 1  # the largest that OTLP can hold


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Something that happened during a span."""

    name: str
    at: int  # nanoseconds since 1970
    attributes: dict[str, Value]


@dataclass(frozen=True, kw_only=True)
class SpanContext:
    """The ids of a trace and of a span in it, in hex."""

    trace_id: str
    span_id: str


@dataclass(kw_only=True, eq=False)
class Span:
    """A stretch of time in the run; written when it ends."""

    place: SpanContext
    parent: SpanContext | None
    name: str
    start: int  # nanoseconds since 1970
    end: int = 0
    kind: Literal["internal", "client"] = "internal"
    attributes: dict[str, Value] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    links: tuple[SpanContext, ...] = ()
    failed: bool = False

    def note(self, **attributes: Value | None) -> None:
        """Set attributes; `__` stands for a dot. None, NaN and infinity are left out."""
        for name, value in attributes.items():
            if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
                self.attributes[name.replace("__", ".")] = fitting(value)

    def happened(self, name: str, at: int, **attributes: Value) -> None:
        named = {key.replace("__", "."): fitting(value) for key, value in attributes.items()}
        self.moments.append(Moment(name=name, at=at, attributes=named))

    def fail(self, error: str | None) -> None:
        self.failed = True
        self.note(error__type=error_class(error))

    def as_line(self) -> bytes:
        """The span as one line of trace.jsonl."""
        record = {
            "trace_id": self.place.trace_id,
            "span_id": self.place.span_id,
            "parent_span_id": None if self.parent is None else self.parent.span_id,
            "name": self.name,
            "kind": self.kind,
            "start": _iso(self.start),
            "end": _iso(self.end),
            "attributes": self.attributes,
            "events": [
                {"name": one.name, "time": _iso(one.at), "attributes": one.attributes} for one in self.moments
            ],
            "links": [{"trace_id": one.trace_id, "span_id": one.span_id} for one in self.links],
            "status": "error" if self.failed else "unset",
        }
        return (json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def parse_traceparent(text: str) -> SpanContext | None:
    """Read a W3C traceparent; None if it is not valid."""
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None or (found[1] == "00" and found[4]) or not int(found[2], 16) or not int(found[3], 16):
        return None
    return SpanContext(trace_id=found[2], span_id=found[3])


def error_class(text: str | None) -> str:
    """The error class, if the text is one; otherwise `_OTHER`, because the text may be anything."""
    return text if text is not None and ERROR_CLASS.fullmatch(text) else OTHER


def fitting(value: Value) -> Value:
    """The value in a form that every format can hold; one bad value would fail its whole batch."""
    if isinstance(value, str):
        return value[:LONGEST_TEXT].encode("utf-8", errors="replace").decode()
    if isinstance(value, int):
        return max(-_LARGEST, min(_LARGEST, value))
    return value


def _iso(moment: int) -> str:
    return (_EPOCH + timedelta(microseconds=moment // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
