"""A local OTLP/HTTP receiver of traces: accepts spans, or misbehaves on demand. Importable, and a program.

python tests/harness/otlp.py [--port 4318]     prints its address, then every span as a line of JSON
"""

import argparse
import gzip
import json
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status as WireStatus

DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
}
WAIT_SECONDS = 30.0  # for a condition that must become true


@dataclass(frozen=True, kw_only=True)
class ReceivedSpan:
    trace_id: str
    span_id: str
    parent_span_id: str  # "" for a root
    name: str
    kind: str  # "internal", "client"
    start: int
    end: int
    attributes: dict[str, Any]
    events: tuple[tuple[str, dict[str, Any]], ...]
    links: tuple[tuple[str, str], ...]
    status: str  # "unset", "ok", "error"
    resource: dict[str, Any]
    scope: str


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    path: str
    headers: dict[str, str]
    body: bytes = field(repr=False)  # decompressed


class OtlpReceiver:
    """Listens while it is open; answers with `status`, or, with `hang`, never."""

    def __init__(self, *, port: int = 0, status: int = 200, hang: bool = False) -> None:
        self.status = status
        self.hang = hang
        self.on_span: Callable[[ReceivedSpan], None] | None = None
        self._requests: list[ReceivedRequest] = []
        self._spans: list[ReceivedSpan] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = False  # closing waits for every handler
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="otlp-receiver")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """The value for OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[ReceivedRequest]:
        with self._changed:
            return list(self._requests)

    @property
    def spans(self) -> list[ReceivedSpan]:
        with self._changed:
            return list(self._spans)

    def wait_for(self, ready: Callable[["OtlpReceiver"], bool], seconds: float = WAIT_SECONDS) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: ready(self), seconds):
                raise AssertionError(f"condition not met within {seconds:g} s; got {len(self._spans)} spans")

    def take(self, request: ReceivedRequest) -> int | None:
        """Record a request and return the status to answer with; None is never."""
        status, hang = self.status, self.hang
        spans = decode(request.body) if status == 200 and not hang else []
        with self._changed:
            self._requests.append(request)
            self._spans += spans
            self._changed.notify_all()
        for span in spans if self.on_span is not None else ():
            assert self.on_span is not None
            self.on_span(span)
        if hang:
            self._closing.wait()
        return None if hang else status


def _handler(receiver: OtlpReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds, for a caller that sends nothing

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = DECODERS[headers.get("content-encoding", "")](raw)
            status = receiver.take(ReceivedRequest(path=self.path, headers=headers, body=body))
            if status is None:
                return
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.send_header("Set-Cookie", "who=user-1; Path=/")
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_words: object) -> None:
            pass

    return Handler


def decode(body: bytes) -> list[ReceivedSpan]:
    """Read the spans of an export request."""
    found: list[ReceivedSpan] = []
    for one in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _plain(one.resource.attributes)
        for part in one.scope_spans:
            found += [_received(span, resource, part.scope.name) for span in part.spans]
    return found


def roots(spans: Sequence[ReceivedSpan]) -> list[ReceivedSpan]:
    return [span for span in spans if not span.parent_span_id]


def orphans(spans: Sequence[ReceivedSpan]) -> list[ReceivedSpan]:
    """The spans whose parent has not arrived."""
    known = {(span.trace_id, span.span_id) for span in spans}
    return [
        span for span in spans if span.parent_span_id and (span.trace_id, span.parent_span_id) not in known
    ]


def _received(span: WireSpan, resource: dict[str, Any], scope: str) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        name=span.name,
        kind=WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes=_plain(span.attributes),
        events=tuple((one.name, _plain(one.attributes)) for one in span.events),
        links=tuple((one.trace_id.hex(), one.span_id.hex()) for one in span.links),
        status=WireStatus.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_").lower(),
        resource=resource,
        scope=scope,
    )


def _plain(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [_value(one) for one in value.array_value.values]
    return None if which is None else getattr(value, which)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 is any free port")
    receiver = OtlpReceiver(port=parser.parse_args().port)
    receiver.on_span = lambda span: print(json.dumps(asdict(span)), flush=True)
    with receiver:
        print(f"OTEL_EXPORTER_OTLP_ENDPOINT={receiver.endpoint}", file=sys.stderr, flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
