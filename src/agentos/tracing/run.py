"""The trace of a run: one span for the run, and one per item, node and LLM call. Made by the loop.

Coordinator process. Workers make no spans, so none is lost with a worker: docs/design/tracing.md.
"""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentos.lease import LeaseNumber
from agentos.model import Status
from agentos.tracing.otel_settings import Export, resource_of
from agentos.tracing.span import (
    ERROR_CLASS,
    OTHER,
    Span,
    SpanContext,
    error_class,
    fitting,
    parse_traceparent,
)

FLUSH_SECONDS = 3.0  # to send the last spans, at the end of a run
PROVIDER_NAMES = {"gemini": "gcp.gemini"}  # names that differ in the GenAI conventions
FAILURES = frozenset({Status.FAILED.value, Status.TIMED_OUT.value})
_WORD = re.compile(r"[A-Za-z_]{1,32}")


@dataclass(kw_only=True, eq=False)
class _ItemSpans:
    """The span of an item and the open spans below it."""

    item: Span
    nodes: list[Span] = field(
        default_factory=list
    )  # in the order they started; a graph may run several in parallel
    calls: dict[LeaseNumber, Span] = field(default_factory=dict)  # by lease

    @property
    def innermost(self) -> Span:
        return self.nodes[-1] if self.nodes else self.item


class RunTrace:
    """Makes the spans of a run. Does nothing if tracing is off."""

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
        self._open_items: dict[str, _ItemSpans] = {}
        # One clock for the run: a wall clock that is changed meanwhile must not make spans negative.
        self._ahead = time.time_ns() - time.monotonic_ns()
        if write is None:
            return
        self.trace_id = secrets.token_hex(16)
        resource = resource_of(environment)
        self._named = {"TRACER_PROJECT": resource["service.name"], "TRACER_RUN_ID": run_id}
        outer = parse_traceparent(environment.get("TRACEPARENT", ""))
        self._run = self._span(f"agentos {workflow}", None)
        self._run.links = () if outer is None else (outer,)
        self._run.note(
            agentos__run_id=run_id,
            agentos__workflow=workflow,
            agentos__parallel=parallel,
            agentos__items=items,
        )
        self._export = Export(environment, resource, complain)

    def item_started(self, label: str, *, item_id: str, attempt: int) -> dict[str, str]:
        """Open or continue the item's span; return the environment variables for its worker."""
        if self._run is None:
            return {}
        self._export.report_problem()
        spans = self._open_items.get(label)
        if spans is None:
            spans = self._open_items[label] = _ItemSpans(item=self._span(f"item {label}", self._run))
            spans.item.note(agentos__item__id=item_id)
        else:
            spans.item.happened("attempt", self._now(), agentos__attempt=attempt)
        spans.item.note(agentos__attempts=attempt)
        span_id = spans.item.place.span_id
        return self._named | {
            "TRACEPARENT": f"00-{self.trace_id}-{span_id}-01",
            "TRACER_PARENT_SPAN_ID": span_id,
        }

    def node_started(self, label: str, node: str, *, reviews: int) -> None:
        spans = self._open_items.get(label)
        if spans is not None:
            span = self._span(f"node {node}", spans.item)
            span.note(agentos__node=node, agentos__reviews=reviews)
            spans.nodes.append(span)

    def node_ended(self, label: str, node: str, *, seconds: float, error: str | None = None) -> None:
        spans = self._open_items.get(label)
        if spans is None:
            return
        ended = next((one for one in spans.nodes if one.attributes["agentos.node"] == fitting(node)), None)
        if ended is not None:
            spans.nodes.remove(ended)
            ended.note(agentos__seconds=seconds)
            if error is not None:
                ended.fail(error)
            self._end(ended)

    def call_started(
        self, label: str, *, lease: LeaseNumber, provider: str, model: str, key: str, waited: float
    ) -> None:
        spans = self._open_items.get(label)
        if spans is not None:
            span = spans.calls[lease] = self._span(f"chat {model}", spans.innermost, kind="client")
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
        lease: LeaseNumber,
        tokens_in: int,
        tokens_out: int,
        error: str | None,
        served: str | None = None,
        cost_usd: float | None = None,
        tokens_cached: int = 0,
    ) -> None:
        """End the call of a lease. Only the class of an error is kept, not the provider's text."""
        spans = self._open_items.get(label)
        span = None if spans is None else spans.calls.pop(lease, None)
        if span is None:
            return
        if error == "given_up":
            span.note(agentos__cut_off=True)
        elif error is not None:
            span.fail(error)
        if error is None or tokens_in or tokens_out:
            span.note(gen_ai__usage__input_tokens=tokens_in, gen_ai__usage__output_tokens=tokens_out)
        if tokens_cached:
            span.note(gen_ai__usage__cache_read__input_tokens=tokens_cached)
        span.note(gen_ai__response__model=served or None, agentos__cost_usd=cost_usd)
        self._end(span)

    def verdict(self, label: str, *, review: int, verdict: str, findings: int) -> None:
        spans = self._open_items.get(label)
        if spans is not None:
            word = verdict if _WORD.fullmatch(verdict) else OTHER
            for span in (spans.item, *spans.nodes[-1:]):
                span.happened(
                    "verdict",
                    self._now(),
                    agentos__review=review,
                    agentos__verdict=word,
                    agentos__findings=findings,
                )
                span.note(agentos__verdict=word, agentos__findings=findings)

    def worker_gone(self, label: str, *, error: str | None) -> None:
        """End what the worker left open. No error means that it was asked to stop."""
        spans = self._open_items.get(label)
        if spans is not None:
            if error is not None:
                spans.item.happened("worker_gone", self._now(), error__type=error_class(error))
            self._end_open(spans, error)

    def item_ended(
        self, label: str, *, status: str, verdict: str | None, reviews: int, error: str | None
    ) -> None:
        """End the item's span. An item that never started has none."""
        spans = self._open_items.pop(label, None)
        if spans is None:
            return
        failed = status in FAILURES
        self._end_open(spans, (error or status) if failed else None)
        spans.item.note(
            agentos__status=str(status),
            agentos__verdict=verdict if verdict is None or _WORD.fullmatch(verdict) else OTHER,
            agentos__reviews=reviews,
        )
        if failed:
            spans.item.fail(error if error is not None and ERROR_CLASS.fullmatch(error) else str(status))
        self._end(spans.item)
        self._export.report_problem()

    def close(
        self, *, exit_code: int, totals: Mapping[str, int], flush_seconds: float = FLUSH_SECONDS
    ) -> None:
        """End everything that is open, the run's span last, and give the sender time to send it."""
        run, self._run = self._run, None
        if run is None:
            return
        for spans in self._open_items.values():
            self._end_open(spans, None)
            spans.item.note(agentos__status=Status.INTERRUPTED.value)
            self._end(spans.item)
        self._open_items.clear()
        run.note(agentos__exit_code=exit_code)
        for status, count in totals.items():
            run.note(**{f"agentos__totals__{status}": count})
        run.failed = any(totals.get(status) for status in FAILURES)
        self._end(run)
        self._export.close(flush_seconds)

    def _now(self) -> int:
        return self._ahead + time.monotonic_ns()

    def _span(self, name: str, parent: Span | None, kind: Literal["internal", "client"] = "internal") -> Span:
        return Span(
            place=SpanContext(trace_id=self.trace_id, span_id=secrets.token_hex(8)),
            parent=None if parent is None else parent.place,
            name=str(fitting(name)),
            kind=kind,
            start=self._now(),
        )

    def _end(self, span: Span) -> None:
        assert self._write is not None
        span.end = self._now()
        self._export.send(span)
        self._write(span.as_line())

    def _end_open(self, spans: _ItemSpans, error: str | None) -> None:
        """End calls before nodes, so that no span outlives its parent."""
        left = [*reversed(spans.calls.values()), *reversed(spans.nodes)]
        spans.calls.clear()
        spans.nodes.clear()
        for span in left:
            if error is not None:
                span.fail(error)
            span.note(agentos__cut_off=True)
            self._end(span)
