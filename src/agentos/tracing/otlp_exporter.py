"""Sends ended spans to the user's OTLP endpoint, from its own thread. Coordinator process.

Imported only if an endpoint is set. Nothing the endpoint does may delay the run or print more than one line.
Headers may contain a secret, so only the class of an error is shown.
"""

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import requests
import requests.utils
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.util.re import parse_env_headers

from agentos import __version__
from agentos.cookies import NO_COOKIES
from agentos.loopback import on_this_machine
from agentos.tracing.otel_settings import exporter_option
from agentos.tracing.span import Span, SpanContext

BATCH_SPANS = 512
MOST_WAITING = 16_384  # spans; above that, the oldest are dropped
BATCH_MILLISECONDS = 1_000
DEFAULT_TIMEOUT = 10.0  # seconds per batch, including the exporter's retries
LONGEST_TIMEOUT = 30.0  # some people set the variable in milliseconds
MOST_TRIES = 4  # in a row; after that each batch gets one try, until one succeeds
LAST_TRIES = 2  # the same, after the run has ended
KINDS = {"internal": trace.SpanKind.INTERNAL, "client": trace.SpanKind.CLIENT}
_SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)


class Sender:
    """Sends spans to one endpoint."""

    def __init__(self, endpoint: str, resource: Mapping[str, str], environment: Mapping[str, str]) -> None:
        _silence()

        def option(name: str) -> str:
            return exporter_option(environment, name)

        parts = urlsplit(endpoint)
        self._host = parts.netloc.rpartition("@")[2]  # without a user name and password
        self._resource = Resource(dict(resource))
        self._scope = InstrumentationScope("agentos", __version__)
        self._session = _Session(endpoint)
        nothing_measured = NoOpMeterProvider()
        # Pass everything: the exporter would look up anything missing in os.environ.
        inner = OTLPSpanExporter(
            endpoint=endpoint,
            certificate_file=option("CERTIFICATE") or environment.get("REQUESTS_CA_BUNDLE") or None,
            client_key_file=option("CLIENT_KEY") or None,
            client_certificate_file=option("CLIENT_CERTIFICATE") or None,
            headers=parse_env_headers(option("HEADERS"), liberal=True),
            timeout=_timeout(option("TIMEOUT")),
            compression=_compression(option("COMPRESSION")),
            session=self._session,
            meter_provider=nothing_measured,
        )
        self._exporter = _Exporter(inner, self._session)
        self._batches = BatchSpanProcessor(
            self._exporter,
            max_queue_size=MOST_WAITING,
            max_export_batch_size=BATCH_SPANS,
            schedule_delay_millis=BATCH_MILLISECONDS,
            meter_provider=nothing_measured,
        )
        self._made = 0
        self._late: str | None = None

    def send(self, span: Span) -> None:
        """Queue an ended span for sending."""
        self._made += 1
        self._batches.on_end(self._readable(span))

    @property
    def problem(self) -> str | None:
        """Why spans did not arrive, if any did not."""
        reason = self._exporter.failure or self._late
        return None if reason is None else f"spans did not reach {self._host} ({reason})"

    def close(self, seconds: float) -> None:
        """Send what is left, for at most this long."""
        self._session.hurry(seconds)
        # The processor's own shutdown waits half a minute for an endpoint that does not answer.
        ending = threading.Thread(target=self._batches.shutdown, name="trace-end", daemon=True)
        ending.start()
        ending.join(seconds)
        if ending.is_alive():
            self._exporter.shutdown()
            self._late = f"no answer within {seconds:g} s"
        elif self._exporter.sent < self._made:
            self._late = f"{self._made - self._exporter.sent} of {self._made} lost"

    def _readable(self, span: Span) -> ReadableSpan:
        """The span as the exporter needs it. Not from a tracer, because its ids and times are already set."""
        return ReadableSpan(
            name=span.name,
            context=_context(span.place),
            parent=None if span.parent is None else _context(span.parent),
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(one.name, one.attributes, one.at) for one in span.moments],
            links=[trace.Link(_context(one, remote=True)) for one in span.links],
            kind=KINDS[span.kind],
            status=trace.Status(trace.StatusCode.ERROR if span.failed else trace.StatusCode.UNSET),
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=self._scope,
        )


class _Session(requests.Session):
    """An HTTP session that remembers why a request failed, and limits the exporter's retries."""

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        # While a worker is started, os.environ is the worker's; ~/.netrc would override the user's headers.
        self.trust_env = False
        self.cookies.set_policy(NO_COOKIES)
        host = urlsplit(endpoint).hostname or ""
        local = on_this_machine(host) or host.endswith(".localhost")  # no proxy must see local traffic
        self.proxies = {} if local else requests.utils.get_environ_proxies(endpoint)
        self.failure = ""
        self._strikes = 0  # failures in a row
        self._seconds_left: float | None = None

    def hurry(self, seconds: float) -> None:
        self._seconds_left = seconds

    def request(  # type: ignore[override]  # the exporter gives names only
        self, method: str, url: str, *, timeout: float | None = None, **rest: object
    ) -> requests.Response:
        left = self._seconds_left
        if left is not None:
            timeout = left if timeout is None else min(timeout, left)
        try:
            response = super().request(method, url, timeout=timeout, **rest)  # type: ignore[arg-type]
        except Exception as exc:
            if self._strike(type(exc).__name__):
                raise _NoMoreTries from None
            raise
        if 200 <= response.status_code < 300:
            self._strikes = 0
        elif self._strike(f"HTTP {response.status_code}") or response.status_code < 400:
            # The exporter would treat a redirect, which is not followed, as success.
            raise _NoMoreTries
        return response

    def _strike(self, failure: str) -> bool:
        """Count a failure; return whether there were too many."""
        self.failure = failure
        self._strikes += 1
        return self._strikes >= (MOST_TRIES if self._seconds_left is None else LAST_TRIES)


class _NoMoreTries(Exception):  # noqa: N818
    """An error that the exporter does not retry."""


class _Exporter(SpanExporter):
    """Counts the spans that arrive, and remembers why others did not."""

    def __init__(self, inner: OTLPSpanExporter, session: _Session) -> None:
        self._inner = inner
        self._session = session
        self._closed = False
        self.sent = 0
        self.failure: str | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._closed:
            return SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        except Exception as exc:  # noqa: BLE001 - nothing of it may reach the terminal
            self._session.failure, result = type(exc).__name__, SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.failure = self._session.failure or "cannot be encoded"
        return result

    def shutdown(self) -> None:
        if not self._closed:
            self._closed = True
            self._inner.shutdown()  # type: ignore[no-untyped-call]


def _silence() -> None:
    """Keep the library's log off the terminal; it would show stack traces and unreadable headers."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)


def _context(place: SpanContext, *, remote: bool = False) -> trace.SpanContext:
    return trace.SpanContext(int(place.trace_id, 16), int(place.span_id, 16), remote, _SAMPLED)


def _timeout(text: str) -> float:
    """Seconds, as this exporter reads the variable."""
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if seconds > 0:
            return min(seconds, LONGEST_TIMEOUT)
    return DEFAULT_TIMEOUT


def _compression(text: str) -> Compression:
    with contextlib.suppress(ValueError):
        return Compression(text.lower())
    return Compression.NoCompression
