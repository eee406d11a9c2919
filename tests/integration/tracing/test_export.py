"""The trace of a run: what it loads, and the way out to an OTLP endpoint."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from opentelemetry import trace

from agentos import __version__
from harness.otlp import WAIT_SECONDS, OtlpReceiver, orphans, roots
from harness.traces import THEIRS, Kept, approved, begin, call, node

SECRET = "Bearer-hush-hush"
THREADS = ("OtelBatchSpan", "trace-end")


class TestOff:
    def test_nothing_is_done(self) -> None:
        kept = Kept(off=True, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", TRACEPARENT=THEIRS)
        kept.play(*approved("LLD-1", 1)).close()
        assert kept.trace.trace_id == ""
        assert kept.environments == [{}]
        assert kept.lines == []
        assert kept.complaints == []

    def test_no_library_is_loaded_for_the_file_alone(self) -> None:
        program = """if True:
            import sys
            from agentos.tracing.run import RunTrace
            lines = []
            trace = RunTrace(run_id="r", workflow="lld", parallel=1, items=1, write=lines.append,
                             environment={}, complain=print)
            trace.item_started("LLD-1", item_id="1", attempt=1)
            trace.close(exit_code=0, totals={})
            heavy = [name for name in sys.modules if name.partition(".")[0] in ("opentelemetry", "requests")]
            print(len(lines), heavy)
        """
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "2 []\n"


class TestExport:
    def test_the_whole_trace_arrives(self) -> None:
        with OtlpReceiver() as receiver:
            kept = Kept(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, TRACEPARENT=THEIRS)
            (asked, _) = call("LLD-3", 9)
            kept.play(*approved("LLD-1", 1), *approved("LLD-2", 3), begin("LLD-3"), asked)
            kept.close(exit_code=130, totals={"failed": 1})
            spans = receiver.spans
        assert kept.complaints == []
        assert len(spans) == len(kept.lines) == 13
        (root,) = roots(spans)
        assert root.name == "agentos lld"
        assert root.status == "error"
        assert root.links == ((THEIRS[3:35], THEIRS[36:52]),)
        assert orphans(spans) == []
        for got, written in zip(spans, kept.spans, strict=True):
            assert got.trace_id == kept.trace.trace_id == written["trace_id"]
            assert got.span_id == written["span_id"]
            assert (got.parent_span_id or None) == written["parent_span_id"]
            assert (got.name, got.kind, got.status) == (written["name"], written["kind"], written["status"])
            assert got.attributes == written["attributes"]
            assert got.events == tuple((one["name"], one["attributes"]) for one in written["events"])
            assert 0 < got.start <= got.end
            assert got.scope == "agentos"
            assert got.resource == {"service.name": "agentos", "service.version": __version__}
        assert {request.path for request in receiver.requests} == {"/v1/traces"}
        assert (
            trace.get_tracer_provider().__class__.__module__ == "opentelemetry.trace"
        )  # the global one is not ours

    def test_spans_go_out_while_the_run_goes_on(self) -> None:
        with OtlpReceiver() as receiver:
            kept = Kept(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint).play(*approved("LLD-1", 1))
            receiver.wait_for(lambda one: len(one.spans) == 5)
            kept.close()
            assert len(receiver.spans) == 6
            assert len(receiver.requests) == 2
            assert not any("cookie" in request.headers for request in receiver.requests)

    def test_the_users_settings_count(self) -> None:
        with OtlpReceiver() as receiver:
            kept = Kept(
                OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{receiver.endpoint}/in",
                OTEL_EXPORTER_OTLP_HEADERS="x-other=1",
                OTEL_EXPORTER_OTLP_TRACES_HEADERS=f"authorization=Bearer%20{SECRET},x-team=a b",
                OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
                OTEL_EXPORTER_OTLP_TIMEOUT="10000",
                OTEL_SERVICE_NAME="specs",
                OTEL_RESOURCE_ATTRIBUTES="service.name=not-me,team=a%20b,broken,=,env=prod",
            )
            kept.close()
        (request,) = receiver.requests
        assert request.path == "/in"
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        assert request.headers["x-team"] == "a b"
        assert "x-other" not in request.headers
        assert request.headers["content-encoding"] == "gzip"
        (span,) = receiver.spans
        assert span.resource == {
            "service.name": "specs",
            "service.version": __version__,
            "team": "a b",
            "env": "prod",
        }

    def test_no_proxy_sees_what_goes_to_this_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with OtlpReceiver() as receiver:
            Kept(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint).close()
            assert len(receiver.spans) == 1

    def test_what_no_format_holds_takes_nothing_along(self) -> None:
        with OtlpReceiver() as receiver:
            kept = Kept(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint)
            kept.play(
                begin("LLD-1"), *node("LLD-1", "half \ud83d", *call("LLD-1", 1, tokens_in=10**30))
            ).close()
            assert len(receiver.spans) == len(kept.lines) == 4
        assert receiver.spans[0].attributes["gen_ai.usage.input_tokens"] == 2**63 - 1
        assert kept.complaints == []


class TestTrouble:
    """Whatever the endpoint does: the file is whole, there is one complaint, and the run ends."""

    def test_a_dead_endpoint(self, capfd: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        kept = Kept(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://user:{SECRET}@127.0.0.1:{port}")
        kept.play(*approved("LLD-1", 1)).close()
        assert len(kept.lines) == 6
        reason = f"spans did not reach 127.0.0.1:{port} (ConnectionError)"
        assert kept.complaints == [f"Tracing: {reason}; the full trace is in trace.jsonl."]
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize("status", [500, 503, 302, 401])
    def test_an_endpoint_that_refuses(
        self, status: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        with OtlpReceiver(status=status) as receiver:
            kept = Kept(
                OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
                OTEL_EXPORTER_OTLP_HEADERS=f"authorization={SECRET},unreadable \x07 {SECRET}",
            )
            kept.play(*approved("LLD-1", 1)).close()
            assert receiver.requests[0].headers["authorization"] == SECRET
        assert len(kept.lines) == 6
        (complaint,) = kept.complaints
        assert f"(HTTP {status})" in complaint
        assert SECRET not in complaint + caplog.text
        assert capfd.readouterr() == ("", "")

    def test_a_complaint_comes_during_the_run_and_once(self) -> None:
        with OtlpReceiver(status=500) as receiver:
            kept = Kept(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint).play(*approved("LLD-1", 1))
            receiver.wait_for(lambda one: bool(one.requests))
            deadline = time.monotonic() + WAIT_SECONDS
            number = 2
            while not kept.complaints and time.monotonic() < deadline:
                kept.play(*approved(f"LLD-{number}", number * 10))
                number += 1
            assert len(kept.complaints) == 1
            kept.play(*approved("LLD-1", 5)).close()
            assert len(kept.complaints) == 1

    def test_an_endpoint_that_comes_back_gets_what_ended_since(self) -> None:
        with OtlpReceiver(status=400) as receiver:
            kept = Kept(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint).play(*approved("LLD-1", 1))
            receiver.wait_for(lambda one: bool(one.requests))
            receiver.status = 200
            kept.play(*approved("LLD-2", 3)).close()
            names = [span.name for span in receiver.spans]
            assert names[-2:] == ["item LLD-2", "agentos lld"]

    def test_an_endpoint_that_hangs_does_not_hold_up_the_end(self) -> None:
        with OtlpReceiver(hang=True) as receiver:
            kept = Kept(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, OTEL_EXPORTER_OTLP_TIMEOUT="30")
            kept.play(*approved("LLD-1", 1))
            receiver.wait_for(lambda one: bool(one.requests))  # its time limit began before the hurry
            kept.close(flush_seconds=0.2)
            assert any(
                one.name.startswith(THREADS) for one in threading.enumerate()
            )  # it still waits, we do not
            assert len(kept.lines) == 6
            (complaint,) = kept.complaints
            assert "no answer within 0.2 s" in complaint

    def test_the_process_ends_though_the_endpoint_hangs(self) -> None:
        program = """if True:
            import sys
            from agentos.tracing.run import RunTrace
            trace = RunTrace(run_id="r", workflow="lld", parallel=1, items=1, write=lambda line: None,
                             environment={"OTEL_EXPORTER_OTLP_ENDPOINT": sys.argv[1],
                                          "OTEL_EXPORTER_OTLP_TIMEOUT": "30"}, complain=print)
            trace.item_started("LLD-1", item_id="1", attempt=1)
            trace.item_ended("LLD-1", status="approved", verdict=None, reviews=0, error=None)
            sys.stdin.readline()
            trace.close(exit_code=0, totals={}, flush_seconds=0.2)
        """
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with OtlpReceiver(hang=True) as receiver:
            command = [sys.executable, "-W", "error", "-c", program, receiver.endpoint]
            with subprocess.Popen(command, text=True, **pipes) as started:  # type: ignore[call-overload]
                try:
                    receiver.wait_for(lambda one: bool(one.requests))
                    out, err = started.communicate("go\n", timeout=WAIT_SECONDS / 2)
                finally:
                    started.kill()
        assert out.startswith("Tracing: spans did not reach 127.0.0.1:")
        assert err == ""
        assert started.returncode == 0

    @pytest.mark.parametrize(
        "environment",
        [
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": f"ftp://{SECRET}@h"},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://"},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1"},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:99999999"},
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        ],
    )
    def test_an_endpoint_that_cannot_be_used(self, environment: dict[str, str]) -> None:
        before = set(threading.enumerate())
        kept = Kept(off=False, **environment)
        assert set(threading.enumerate()) <= before
        kept.close()
        assert len(kept.lines) == 1
        (complaint,) = kept.complaints
        assert complaint.startswith("Tracing: ")
        assert SECRET not in complaint

    def test_certificates_that_are_not_there(self) -> None:
        """The exporter finds out at its first request; the run goes on."""
        kept = Kept(
            OTEL_EXPORTER_OTLP_ENDPOINT="https://127.0.0.1:9",
            OTEL_EXPORTER_OTLP_CERTIFICATE=os.devnull + "/none.pem",
        )
        kept.close()
        assert len(kept.complaints) == 1
