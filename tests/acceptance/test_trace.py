"""One trace a run, through the real command: whole at a collector, carried to workers, silent by default."""

import json
import signal
from collections import Counter
from typing import Any

import pytest

from acceptance.conftest import USUAL_METHODS
from agentos.errors import Exit
from harness.otlp import OtlpReceiver, orphans, roots
from harness.processes import wait_until
from harness.project import Project


def lines(project: Project) -> list[dict[str, Any]]:
    path = project.runs()[-1] / "trace.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("method", USUAL_METHODS)
def test_a_collector_gets_one_tree_with_every_worker_under_the_run(project: Project, method: str) -> None:
    project.issue(1, mock="verdicts=REVISE,APPROVED")
    project.issue(2)
    project.issue(3, mock="crash=SIGKILL")
    with OtlpReceiver() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "AGENTOS_START_METHOD": method}
        assert project.lld("--all", "-j3", env=env).code == Exit.FAILED
        spans = collector.spans
    (root,) = roots(spans)
    assert root.name == "agentos lld"
    assert orphans(spans) == []
    assert len({span.trace_id for span in spans}) == 1
    names = Counter(span.name for span in spans)
    assert {name for name in names if name.startswith("item ")} == {"item LLD-1", "item LLD-2", "item LLD-3"}
    assert names["chat drafter"] == 3 + 3, "two drafts of 1, one of 2, one cut off on each attempt of 3"
    assert names["chat reviewer"] == 3
    calls = [span for span in spans if span.name.startswith("chat ")]
    assert all(span.attributes["agentos.key_id"].startswith("mock-") for span in calls)
    (first,) = [span for span in spans if span.name == "item LLD-1"]
    assert first.attributes["agentos.verdict"] == "APPROVED"
    assert {span.span_id for span in spans} == {line["span_id"] for line in lines(project)}
    audit = project.audits("1")
    assert {record["trace_id"] for record in audit} == {root.trace_id}


def test_no_span_is_lost_at_ctrl_c(project: Project) -> None:
    for number in range(1, 5):
        project.issue(number, mock="latency=30")
    with OtlpReceiver() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
        process = project.start("lld", "--all", "--mock", "-j4", env=env)
        wait_until(lambda: sum(event["event"] == "leased" for event in project.events()) == 4, "four calls")
        process.signal(signal.SIGINT)
        assert project.finish(process).code == Exit.INTERRUPTED
        spans = collector.spans
    assert len(roots(spans)) == 1
    assert orphans(spans) == []
    assert sum(span.name == "chat drafter" for span in spans) == 4
    assert sum(span.name.startswith("item ") for span in spans) == 4


def test_a_collector_that_is_gone_changes_nothing_but_a_line(project: Project) -> None:
    project.issue(1)
    result = project.lld("--all", env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert result.code == Exit.OK
    assert lines(project)


@pytest.mark.slow
def test_workers_get_the_trace_and_langsmith_only_where_it_is_asked_for(project: Project) -> None:
    project.issue(1, mock='sh="env"')
    env = {
        "AGENTOS_MOCK_SHELL": "1",
        "LANGSMITH_API_KEY": "ls-test",
        "LANGSMITH_ENDPOINT": "http://127.0.0.1:1",
    }
    assert project.lld("1", env=env).code == Exit.OK
    seen = (project.runs()[-1] / "LLD-1.log").read_text("utf-8")
    item = next(line for line in lines(project) if line["name"] == "item LLD-1")
    assert f"TRACEPARENT=00-{item['trace_id']}-{item['span_id']}-01" in seen
    assert f"TRACER_PARENT_SPAN_ID={item['span_id']}" in seen
    assert f"TRACER_RUN_ID={project.runs()[-1].name}" in seen
    assert "TRACER_PROJECT=" in seen
    assert "LANGSMITH_API_KEY" not in seen
    assert "LANGSMITH_TRACING=false" in seen

    assert project.lld("1", "--fresh", env=env | {"AGENTOS_LANGSMITH": "1"}).code == Exit.OK
    assert "LANGSMITH_API_KEY=ls-test" in (project.runs()[-1] / "LLD-1.log").read_text("utf-8")


def test_tracing_can_be_off(project: Project) -> None:
    project.issue(1)
    assert project.lld("1", env={"AGENTOS_TRACE": "0"}).code == Exit.OK
    assert not (project.runs()[-1] / "trace.jsonl").exists()


def test_designs_that_change_the_same_files_are_listed(project: Project) -> None:
    project.issue(1, mock="files=src/shared.py")
    project.issue(2, mock="files=src/shared.py,src/own.py")
    project.issue(3)
    result = project.lld("--all", "-j3")
    assert project.summary()["overlaps"] == [{"items": ["LLD-1", "LLD-2"], "files": ["src/shared.py"]}]
    assert "src/shared.py: changed by LLD-1, LLD-2" in result.said
    assert "src/shared.py" in (project.runs()[-1] / "report.html").read_text("utf-8")
    project.issue(4, mock="files=src/own.py")
    assert "src/own.py: changed by LLD-2, LLD-4" in project.lld("--all").said
    assert "changed by" not in project.lld("--all").said
