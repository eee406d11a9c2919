"""The trace of a run: its tree from histories of events, and the lines it writes."""

import re
import threading
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentos.model import CallError
from agentos.tracing.otel_settings import otlp_endpoint
from agentos.tracing.span import error_class, parse_traceparent
from harness.traces import KEYS, THEIRS, Kept, approved, begin, call, finish, judged, node

TEXT = "The reviewer's words: reject §4 of the draft"


class TestTree:
    def test_a_run_of_two_items(self) -> None:
        kept = Kept().play(*approved("LLD-1", 1), *approved("LLD-2", 3)).close(totals={"approved": 2})
        item = "agentos lld > item LLD-"
        assert kept.tree() == [
            *(
                f"{item}{number}{rest}"
                for number in (1, 2)
                for rest in (
                    " > node draft > chat gem-2",
                    " > node draft",
                    " > node review > chat gem-2",
                    " > node review",
                    "",
                )
            ),
            "agentos lld",
        ]
        assert {span["trace_id"] for span in kept.spans} == {kept.trace.trace_id}
        assert re.fullmatch("[0-9a-f]{32}", kept.trace.trace_id)
        assert len({span["span_id"] for span in kept.spans}) == len(kept.spans)
        assert {span["status"] for span in kept.spans} == {"unset"}
        assert kept.writers == {threading.current_thread().name}

    def test_attributes(self) -> None:
        kept = Kept().play(*approved("LLD-42", 8)).close(exit_code=3, totals={"approved": 1, "discuss": 2})
        first, last = (span for span in kept.spans if span["name"] == "chat gem-2")
        assert first["attributes"] == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "gcp.gemini",
            "gen_ai.request.model": "gem-2",
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.usage.output_tokens": 7,
            "agentos.key_id": "key-1",
            "agentos.lease": 8,
            "agentos.waited_seconds": 0.25,
        }
        assert first["kind"] == "client"
        cached = Kept().play(begin("LLD-1"), *call("LLD-1", 3, tokens_cached=25), finish("LLD-1")).close()
        assert cached.named("chat gem-2")["attributes"]["gen_ai.usage.cache_read.input_tokens"] == 25
        assert last["attributes"]["gen_ai.response.model"] == "gem-2-0626"
        assert last["attributes"]["agentos.cost_usd"] == 0.0125
        assert kept.named("node review")["attributes"] == {
            "agentos.node": "review",
            "agentos.reviews": 0,
            "agentos.seconds": 1.5,
            "agentos.verdict": "APPROVED",
            "agentos.findings": 2,
        }
        assert "agentos.verdict" not in kept.named("node draft")["attributes"]
        assert kept.named("item LLD-42")["attributes"] == {
            "agentos.item.id": "42",
            "agentos.attempts": 1,
            "agentos.status": "approved",
            "agentos.verdict": "APPROVED",
            "agentos.findings": 2,
            "agentos.reviews": 1,
        }
        assert kept.named("agentos lld")["attributes"] == {
            "agentos.run_id": "run-7",
            "agentos.workflow": "lld",
            "agentos.parallel": 3,
            "agentos.items": 2,
            "agentos.exit_code": 3,
            "agentos.totals.approved": 1,
            "agentos.totals.discuss": 2,
        }

    def test_a_verdict_is_an_event_of_item_and_node(self) -> None:
        steps = node("LLD-1", "review", judged("LLD-1", "REVISE"), reviews=1)
        kept = Kept().play(begin("LLD-1"), *steps, finish("LLD-1", "needs_revision", "REVISE")).close()
        for name in ("item LLD-1", "node review"):
            (event,) = kept.named(name)["events"]
            assert event["name"] == "verdict"
            assert event["attributes"] == {
                "agentos.review": 1,
                "agentos.verdict": "REVISE",
                "agentos.findings": 2,
            }

    def test_a_line_is_pinned(self) -> None:
        kept = Kept().play(begin("LLD-1"), judged("LLD-1"), finish("LLD-1")).close()
        stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
        for line, span in zip(kept.lines, kept.spans, strict=True):
            assert list(span) == KEYS
            assert line.endswith(b"\n")
            assert line.count(b"\n") == 1
            assert b'": ' not in line
            assert re.fullmatch(stamp, span["start"])
            assert re.fullmatch(stamp, span["end"])
            assert span["start"] <= span["end"]
            assert re.fullmatch("[0-9a-f]{16}", span["span_id"])
        (event,) = kept.named("item LLD-1")["events"]
        assert list(event) == ["name", "time", "attributes"]
        assert re.fullmatch(stamp, event["time"])

    @pytest.mark.parametrize("status", ["failed", "timed_out"])
    def test_an_item_that_failed_is_an_error(self, status: str) -> None:
        kept = Kept().play(begin("LLD-1"), finish("LLD-1", status, None)).close(totals={status: 1})
        assert kept.named("item LLD-1")["status"] == "error"
        assert kept.named("item LLD-1")["attributes"]["error.type"] == status
        assert kept.named("agentos lld")["status"] == "error"

    @pytest.mark.parametrize("status", ["approved", "needs_revision", "discuss", "interrupted", "paused"])
    def test_no_other_ending_is(self, status: str) -> None:
        kept = Kept().play(begin("LLD-1"), finish("LLD-1", status, None, error=TEXT))
        kept.close(totals={status: 1, "failed": 0})
        assert {span["status"] for span in kept.spans} == {"unset"}
        assert kept.named("item LLD-1")["attributes"]["agentos.status"] == status

    def test_a_failed_call_tells_its_class(self) -> None:
        kept = Kept().play(begin("LLD-1"), *call("LLD-1", 1, error="rate_limited", tokens_in=0, tokens_out=0))
        (span,) = kept.spans
        assert span["status"] == "error"
        assert span["attributes"]["error.type"] == "rate_limited"
        assert "gen_ai.usage.input_tokens" not in span["attributes"]
        kept.close()

    def test_a_node_that_raised_is_an_error(self) -> None:
        (start, end) = node("LLD-1", "draft")
        kept = Kept().play(begin("LLD-1"), start, (*end[:2], {**end[2], "error": TEXT})).close()
        assert kept.named("node draft")["status"] == "error"
        assert kept.named("node draft")["attributes"]["error.type"] == "_OTHER"

    @pytest.mark.parametrize("known", [*CallError, "given_up", "worker_died"])
    def test_every_class_is_known(self, known: str) -> None:
        assert error_class(str(known)) == str(known)

    def test_a_crash_and_a_second_attempt(self) -> None:
        (asked, _) = call("LLD-1", 1)
        kept = Kept().play(
            begin("LLD-1"),
            ("node_started", "LLD-1", {"node": "draft", "reviews": 0}),
            asked,
            ("worker_gone", "LLD-1", {"error": "killed by SIGKILL"}),
            begin("LLD-1", 2),
            *approved("LLD-1", 2)[1:],
        )
        kept.close(totals={"approved": 1})
        item = "agentos lld > item LLD-1"
        assert kept.tree()[:2] == [f"{item} > node draft > chat gem-2", f"{item} > node draft"]
        assert kept.tree().count(item) == 1
        crashed = kept.spans[:2]
        assert [span["status"] for span in crashed] == ["error", "error"]
        assert {span["attributes"]["error.type"] for span in crashed} == {"killed by SIGKILL"}
        whole = kept.named("item LLD-1")
        assert [event["name"] for event in whole["events"]] == ["worker_gone", "attempt", "verdict"]
        assert whole["events"][1]["attributes"] == {"agentos.attempt": 2}
        assert whole["attributes"]["agentos.attempts"] == 2
        assert whole["status"] == "unset"
        assert kept.environments[0] == kept.environments[1]

    def test_a_worker_asked_to_stop_is_no_error(self) -> None:
        kept = Kept().play(
            begin("LLD-1"),
            ("node_started", "LLD-1", {"node": "draft", "reviews": 0}),
            ("worker_gone", "LLD-1", {"error": None}),
            finish("LLD-1", "interrupted", None),
        )
        assert kept.named("node draft")["status"] == "unset"
        assert kept.named("node draft")["attributes"]["agentos.cut_off"] is True
        assert kept.named("item LLD-1")["events"] == []
        kept.close()

    def test_nodes_and_calls_at_once(self) -> None:
        """A graph of the user's own may fan out, even into nodes of one name."""
        (one_asked, one_told), (two_asked, two_told) = call("LLD-1", 1), call("LLD-1", 2)
        start = ("node_started", "LLD-1", {"node": "part", "reviews": 0})
        end = ("node_ended", "LLD-1", {"node": "part", "seconds": 1.0})
        kept = Kept().play(
            begin("LLD-1"), start, one_asked, start, two_asked, one_told, end, two_told, end, finish("LLD-1")
        )
        kept.close()
        item = "agentos lld > item LLD-1"
        assert Counter(kept.tree()) == {
            f"{item} > node part > chat gem-2": 2,
            f"{item} > node part": 2,
            item: 1,
            "agentos lld": 1,
        }
        assert len({span["parent_span_id"] for span in kept.spans if span["kind"] == "client"}) == 2

    def test_a_call_outside_of_a_node_stands_under_the_item(self) -> None:
        kept = Kept().play(begin("LLD-1"), *call("LLD-1", 1), finish("LLD-1")).close()
        assert kept.tree()[0] == "agentos lld > item LLD-1 > chat gem-2"

    def test_ctrl_c_leaves_nothing_open(self) -> None:
        (asked, _) = call("LLD-1", 1)
        kept = Kept().play(
            begin("LLD-1"), ("node_started", "LLD-1", {"node": "draft", "reviews": 0}), asked, begin("LLD-2")
        )
        assert kept.lines == []
        kept.close(exit_code=130, totals={"interrupted": 2})
        assert kept.tree() == [
            "agentos lld > item LLD-1 > node draft > chat gem-2",
            "agentos lld > item LLD-1 > node draft",
            "agentos lld > item LLD-1",
            "agentos lld > item LLD-2",
            "agentos lld",
        ]
        assert kept.named("item LLD-2")["attributes"]["agentos.status"] == "interrupted"
        assert kept.named("agentos lld")["attributes"]["agentos.exit_code"] == 130

    def test_what_is_not_open_is_passed_over(self) -> None:
        stray = [*approved("LLD-9", 1)[1:], ("worker_gone", "LLD-9", {"error": "exit code 1"})]
        kept = Kept().play(*stray, begin("LLD-1"), call("LLD-1", 5)[1], node("LLD-1", "draft")[1])
        assert kept.lines == []
        kept.close()
        kept.close()
        kept.play(*approved("LLD-2", 7))
        assert kept.tree() == ["agentos lld > item LLD-1", "agentos lld"]

    def test_a_clock_set_back_turns_no_span_around(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = Kept().play(begin("LLD-1"))
        monkeypatch.setattr(time, "time_ns", lambda: 0)
        kept.play(finish("LLD-1")).close()
        assert kept.named("item LLD-1")["start"] <= kept.named("item LLD-1")["end"]


class TestEnvironment:
    def test_a_worker_goes_on_in_the_trace(self) -> None:
        kept = Kept().play(begin("LLD-1"), finish("LLD-1")).close()
        (given_,) = kept.environments
        span = kept.named("item LLD-1")
        assert given_ == {
            "TRACEPARENT": f"00-{kept.trace.trace_id}-{span['span_id']}-01",
            "TRACER_PROJECT": "agentos",
            "TRACER_RUN_ID": "run-7",
            "TRACER_PARENT_SPAN_ID": span["span_id"],
        }
        context = TraceContextTextMapPropagator().extract({"traceparent": given_["TRACEPARENT"]})
        read = trace.get_current_span(context).get_span_context()
        assert (f"{read.trace_id:032x}", f"{read.span_id:016x}") == (kept.trace.trace_id, span["span_id"])
        assert read.trace_flags.sampled

    def test_the_project_is_the_service(self) -> None:
        kept = Kept(OTEL_SERVICE_NAME="specs").play(begin("LLD-1")).close()
        assert kept.environments[0]["TRACER_PROJECT"] == "specs"

    def test_the_callers_trace_is_linked_and_no_parent(self) -> None:
        run = Kept(TRACEPARENT=THEIRS).close().named("agentos lld")
        assert run["parent_span_id"] is None
        assert run["trace_id"] not in THEIRS
        assert run["links"] == [{"trace_id": THEIRS[3:35], "span_id": THEIRS[36:52]}]

    @pytest.mark.parametrize(
        ("text", "valid"),
        [
            (THEIRS, True),
            (f" {THEIRS} ", True),
            ("01" + THEIRS[2:] + "-what-comes-later", True),
            (THEIRS + "-more", False),
            ("01" + THEIRS[2:] + "more", False),
            ("ff" + THEIRS[2:], False),
            (THEIRS.upper(), False),
            (f"00-{'0' * 32}-b7ad6b7169203331-01", False),
            (f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", False),
            (THEIRS[:-1], False),
            ("", False),
        ],
    )
    def test_a_traceparent_is_read_strictly(self, text: str, valid: bool) -> None:
        assert (parse_traceparent(text) is not None) == valid
        assert bool(Kept(TRACEPARENT=text).close().named("agentos lld")["links"]) == valid

    @pytest.mark.parametrize(
        ("environment", "endpoint"),
        [
            ({}, None),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:1/"}, "http://h:1/v1/traces"),
            ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:1/in"}, "http://h:1/in"),
            (
                {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h"},
                "http://t",
            ),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "True"}, None),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "none"}, None),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "console"}, None),
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "console, otlp"},
                "http://h/v1/traces",
            ),
        ],
    )
    def test_spans_leave_only_where_the_user_says(
        self, environment: dict[str, str], endpoint: str | None
    ) -> None:
        assert otlp_endpoint(environment) == endpoint


class TestNoText:
    def test_words_of_providers_and_models_stay_here(self) -> None:
        kept = Kept().play(
            begin("LLD-1"),
            ("node_started", "LLD-1", {"node": "review", "reviews": 1}),
            *call("LLD-1", 1, error=TEXT),
            judged("LLD-1", TEXT),
            ("worker_gone", "LLD-1", {"error": TEXT}),
            finish("LLD-1", "failed", TEXT, error=TEXT),
        )
        kept.close(exit_code=1, totals={"failed": 1})
        assert "reviewer" not in b"".join(kept.lines).decode()
        assert kept.named("chat gem-2")["attributes"]["error.type"] == "_OTHER"
        assert kept.named("item LLD-1")["attributes"]["error.type"] == "failed"

    @pytest.mark.parametrize(
        "key", ["sk-ant-api03-abcdefghijklmnop", "AIzaSyA1234567890abcdefghijklmnopqrstuv"]
    )
    def test_a_key_is_no_class_of_errors(self, key: str) -> None:
        assert error_class(key) == "_OTHER"

    @settings(derandomize=True, database=None, deadline=None)
    @given(name=st.text(min_size=1), tokens=st.integers(), cost=st.floats())
    def test_a_line_is_a_line_whatever_is_told(self, name: str, tokens: int, cost: float) -> None:
        kept = Kept().play(
            begin("LLD-1"), *node("LLD-1", name, *call("LLD-1", 1, tokens_in=tokens, cost_usd=cost))
        )
        kept.close()
        assert len(kept.spans) == 4
        for line in kept.lines:
            assert line.count(b"\n") == 1
            assert b"NaN" not in line
            assert b"Infinity" not in line
