"""The trace of a run: a span the run, an item, a node, an LLM call, made from what the loop hears.

Coordinator process. Workers make none of these spans, so none is lost with a worker: docs/design/tracing.md.
"""

import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from agentos import __version__
from agentos.model import Status

if TYPE_CHECKING:
    from agentos.coordinator.otlp import Sender

Value = str | int | float

SERVICE = "agentos"
FLUSH_SECONDS = 3.0  # for the last spans to get out, at the end of a run
LONGEST_TEXT = 200  # characters of a name or an attribute
OTHER = "_OTHER"  # the conventions' word for what has no name of its own
PROVIDER_NAMES = {"gemini": "gcp.gemini"}  # where the GenAI conventions have another name than ours
FAILURES = frozenset({Status.FAILED.value, Status.TIMED_OUT.value})
PROTOCOL = "http/protobuf"

# Classes of ours, and how a worker died; whatever else comes may be a provider's text and stays here.
_ERROR_CLASS = re.compile(r"[a-z]{1,20}(?:_[a-z]{1,20}){0,3}|killed by SIG[A-Z0-9+]{2,9}|exit code \w{1,5}")
_WORD = re.compile(r"[A-Za-z_]{1,32}")
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63 - 1  # OTLP has no place for more


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Something that happened during a span."""

    name: str
    at: int  # nanoseconds since 1970
    attributes: dict[str, Value]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a span stands: its trace and its own id, in hex."""

    trace_id: str
    span_id: str


@dataclass(kw_only=True, eq=False)
class Span:
    """A stretch of the run; written down when it ends."""

    place: Place
    parent: Place | None
    name: str
    start: int  # nanoseconds since 1970
    end: int = 0
    kind: Literal["internal", "client"] = "internal"
    attributes: dict[str, Value] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    links: tuple[Place, ...] = ()
    failed: bool = False

    def note(self, **attributes: Value | None) -> None:
        """Set attributes, `__` standing for a dot; what is not known, or is no number, is left out."""
        for name, value in attributes.items():
            if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
                self.attributes[name.replace("__", ".")] = _fitting(value)

    def happened(self, name: str, at: int, **attributes: Value) -> None:
        named = {key.replace("__", "."): _fitting(value) for key, value in attributes.items()}
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


@dataclass(kw_only=True, eq=False)
class _Branch:
    """An item's span and what is open below it."""

    item: Span
    nodes: list[Span] = field(default_factory=list)  # as they started; a graph may run several at once
    calls: dict[int, Span] = field(default_factory=dict)  # by lease

    @property
    def tip(self) -> Span:
        return self.nodes[-1] if self.nodes else self.item


class RunTrace:
    """Makes the spans of a run; does nothing where tracing is off."""

    def __init__(
        self,
        *,
        run_id: str,
        workflow: str,
        parallel: int,
        items: int,
        write: Callable[[bytes], None] | None,
        environment: Mapping[str, str],
        complain: Callable[[str], None],
    ) -> None:
        self.trace_id = ""
        self._write = write
        self._run: Span | None = None
        self._branches: dict[str, _Branch] = {}
        self._sender: Sender | None = None
        self._complain = complain
        self._complained = False
        # One clock for the run: a wall clock that is set meanwhile must not turn spans around.
        self._ahead = time.time_ns() - time.monotonic_ns()
        if write is None:
            return
        self.trace_id = secrets.token_hex(16)
        resource = _resource(environment)
        self._named = {"TRACER_PROJECT": resource["service.name"], "TRACER_RUN_ID": run_id}
        theirs = parse_traceparent(environment.get("TRACEPARENT", ""))
        self._run = self._span(f"agentos {workflow}", None)
        self._run.links = () if theirs is None else (theirs,)
        self._run.note(
            agentos__run_id=run_id,
            agentos__workflow=workflow,
            agentos__parallel=parallel,
            agentos__items=items,
        )
        self._sender = self._open_sender(environment, resource)

    def item_started(self, label: str, *, item_id: str, attempt: int) -> dict[str, str]:
        """Open the item's span, or go on in it; return what its worker gets in its environment."""
        if self._run is None:
            return {}
        self._tell_trouble()
        branch = self._branches.get(label)
        if branch is None:
            branch = self._branches[label] = _Branch(item=self._span(f"item {label}", self._run))
            branch.item.note(agentos__item__id=item_id)
        else:
            branch.item.happened("attempt", self._now(), agentos__attempt=attempt)
        branch.item.note(agentos__attempts=attempt)
        span_id = branch.item.place.span_id
        return self._named | {
            "TRACEPARENT": f"00-{self.trace_id}-{span_id}-01",
            "TRACER_PARENT_SPAN_ID": span_id,
        }

    def node_started(self, label: str, node: str, *, reviews: int) -> None:
        branch = self._branches.get(label)
        if branch is not None:
            span = self._span(f"node {node}", branch.item)
            span.note(agentos__node=node, agentos__reviews=reviews)
            branch.nodes.append(span)

    def node_ended(self, label: str, node: str, *, seconds: float, error: str | None = None) -> None:
        branch = self._branches.get(label)
        if branch is None:
            return
        ended = next((one for one in branch.nodes if one.attributes["agentos.node"] == _fitting(node)), None)
        if ended is not None:
            branch.nodes.remove(ended)
            ended.note(agentos__seconds=seconds)
            if error is not None:
                ended.fail(error)
            self._end(ended)

    def call_started(
        self, label: str, *, lease: int, provider: str, model: str, key: str, waited: float
    ) -> None:
        branch = self._branches.get(label)
        if branch is not None:
            span = branch.calls[lease] = self._span(f"chat {model}", branch.tip, kind="client")
            span.note(
                gen_ai__operation__name="chat",
                gen_ai__provider__name=PROVIDER_NAMES.get(provider, provider),
                gen_ai__request__model=model,
                agentos__key_id=key,
                agentos__lease=lease,
                agentos__waited_seconds=waited,
            )

    def call_ended(
        self,
        label: str,
        *,
        lease: int,
        tokens_in: int,
        tokens_out: int,
        error: str | None,
        served: str | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """End the call of a lease; of what the provider said of an error, its class alone is kept."""
        branch = self._branches.get(label)
        span = None if branch is None else branch.calls.pop(lease, None)
        if span is None:
            return
        if error == "given_up":
            span.note(agentos__cut_off=True)
        elif error is not None:
            span.fail(error)
        if error is None or tokens_in or tokens_out:
            span.note(gen_ai__usage__input_tokens=tokens_in, gen_ai__usage__output_tokens=tokens_out)
        span.note(gen_ai__response__model=served or None, agentos__cost_usd=cost_usd)
        self._end(span)

    def verdict(self, label: str, *, review: int, verdict: str, findings: int) -> None:
        branch = self._branches.get(label)
        if branch is not None:
            word = verdict if _WORD.fullmatch(verdict) else OTHER
            for span in (branch.item, *branch.nodes[-1:]):
                span.happened(
                    "verdict",
                    self._now(),
                    agentos__review=review,
                    agentos__verdict=word,
                    agentos__findings=findings,
                )
                span.note(agentos__verdict=word, agentos__findings=findings)

    def worker_gone(self, label: str, *, error: str | None) -> None:
        """End what the worker left open; no error means that it was asked to stop."""
        branch = self._branches.get(label)
        if branch is not None:
            if error is not None:
                branch.item.happened("worker_gone", self._now(), error__type=error_class(error))
            self._end_open(branch, error)

    def item_ended(
        self, label: str, *, status: str, verdict: str | None, reviews: int, error: str | None
    ) -> None:
        """End the item's span; one that never started has none."""
        branch = self._branches.pop(label, None)
        if branch is None:
            return
        failed = status in FAILURES
        self._end_open(branch, (error or status) if failed else None)
        branch.item.note(
            agentos__status=str(status),
            agentos__verdict=verdict if verdict is None or _WORD.fullmatch(verdict) else OTHER,
            agentos__reviews=reviews,
        )
        if failed:
            branch.item.fail(error if error is not None and _ERROR_CLASS.fullmatch(error) else str(status))
        self._end(branch.item)
        self._tell_trouble()

    def close(
        self, *, exit_code: int, totals: Mapping[str, int], flush_seconds: float = FLUSH_SECONDS
    ) -> None:
        """End whatever is open, the run's span last, and give the sender a moment to get it out."""
        run, self._run = self._run, None
        if run is None:
            return
        for branch in self._branches.values():
            self._end_open(branch, None)
            branch.item.note(agentos__status=Status.INTERRUPTED.value)
            self._end(branch.item)
        self._branches.clear()
        run.note(agentos__exit_code=exit_code)
        for status, count in totals.items():
            run.note(**{f"agentos__totals__{status}": count})
        run.failed = any(totals.get(status) for status in FAILURES)
        self._end(run)
        if self._sender is not None:
            self._sender.close(flush_seconds)
            self._tell_trouble()

    def _now(self) -> int:
        return self._ahead + time.monotonic_ns()

    def _span(self, name: str, parent: Span | None, kind: Literal["internal", "client"] = "internal") -> Span:
        return Span(
            place=Place(trace_id=self.trace_id, span_id=secrets.token_hex(8)),
            parent=None if parent is None else parent.place,
            name=str(_fitting(name)),
            kind=kind,
            start=self._now(),
        )

    def _end(self, span: Span) -> None:
        assert self._write is not None
        span.end = self._now()
        if self._sender is not None:
            self._sender.send(span)
        self._write(span.as_line())

    def _end_open(self, branch: _Branch, error: str | None) -> None:
        """End calls before nodes, so that no span outlives the one it stands under."""
        left = [*reversed(branch.calls.values()), *reversed(branch.nodes)]
        branch.calls.clear()
        branch.nodes.clear()
        for span in left:
            if error is not None:
                span.fail(error)
            span.note(agentos__cut_off=True)
            self._end(span)

    def _open_sender(self, environment: Mapping[str, str], resource: Mapping[str, str]) -> "Sender | None":
        endpoint = otlp_endpoint(environment)
        if endpoint is None:
            return None
        spoken = exporter_option(environment, "PROTOCOL") or PROTOCOL
        if spoken != PROTOCOL:
            self._complain_once(f"OTEL_EXPORTER_OTLP_PROTOCOL is not {PROTOCOL}, the one that is spoken here")
            return None
        try:
            parts = urlsplit(endpoint)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            self._complain_once("the OTLP endpoint is no http:// or https:// address")
            return None
        try:
            # Not before it is needed: it takes longer to import than the coordinator.
            from agentos.coordinator.otlp import Sender  # noqa: PLC0415

            return Sender(endpoint, resource, environment)
        except Exception as exc:  # noqa: BLE001 - no trace is worth a run
            self._complain_once(f"the OTLP exporter cannot be set up ({type(exc).__name__})")
            return None

    def _tell_trouble(self) -> None:
        if self._sender is not None and (trouble := self._sender.trouble) is not None:
            self._complain_once(trouble)

    def _complain_once(self, trouble: str) -> None:
        if not self._complained:
            self._complained = True
            self._complain(f"Tracing: {trouble}; the whole trace is in trace.jsonl.")


def otlp_endpoint(environment: Mapping[str, str]) -> str | None:
    """The address that spans go to, if the user named one and did not switch the export off."""
    chosen = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if off or (chosen and "otlp" not in re.split(r"\s*,\s*", chosen)):
        return None
    whole = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return whole or (f"{base.rstrip('/')}/v1/traces" if base else None)


def parse_traceparent(text: str) -> Place | None:
    """Read a W3C traceparent; anything that is not one is nothing."""
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None or (found[1] == "00" and found[4]) or not int(found[2], 16) or not int(found[3], 16):
        return None
    return Place(trace_id=found[2], span_id=found[3])


def error_class(text: str | None) -> str:
    """The class of an error, if the text is one; else it may be anything, and is not shown."""
    return text if text is not None and _ERROR_CLASS.fullmatch(text) else OTHER


def _resource(environment: Mapping[str, str]) -> dict[str, str]:
    """What the spans say of their sender; no detector is asked, some run programs."""
    resource = {"service.name": SERVICE, "service.version": __version__}
    for pair in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        name, given, value = pair.partition("=")
        if given and name.strip():
            resource[str(_fitting(name.strip()))] = str(_fitting(unquote(value.strip())))
    if name := environment.get("OTEL_SERVICE_NAME", "").strip():
        resource["service.name"] = str(_fitting(name))
    return resource


def exporter_option(environment: Mapping[str, str], name: str) -> str:
    """An exporter's setting, the one for traces before the one for everything."""
    own = environment.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}", "").strip()
    return own or environment.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()


def _fitting(value: Value) -> Value:
    """The value as every format can hold it: one that cannot be encoded would take its whole batch along."""
    if isinstance(value, str):
        return value[:LONGEST_TEXT].encode("utf-8", errors="replace").decode()
    if isinstance(value, int):
        return max(-_LARGEST, min(_LARGEST, value))
    return value


def _iso(moment: int) -> str:
    return (_EPOCH + timedelta(microseconds=moment // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
