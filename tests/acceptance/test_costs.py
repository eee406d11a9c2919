"""What calls cost, with servers that tell it badly: unknown is never 0, and what was paid is counted."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentos.errors import Exit
from agentos.llm import mock_documents
from harness.project import Project

USAGE = {"prompt_tokens": 1_000, "completion_tokens": 500}


@contextmanager
def server(usage: dict[str, int] | None, served: str | None = None) -> Iterator[str]:
    """An OpenAI-compatible server that drafts and approves."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            drafts = asked["model"] == "gpt-4o"
            text = (
                mock_documents.draft("lld", "1", "Title", 1, complete=True, resolved=())
                if drafts
                else mock_documents.review("lld", 1, "APPROVED", ())
            )
            answer: dict[str, Any] = {
                "model": asked["model"] if drafts else served or asked["model"],
                "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            }
            if usage is not None:
                answer["usage"] = usage
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/v1"
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def run(project: Project, url: str, *flags: str) -> Any:
    config = project.write(
        "user.toml",
        'drafter = "openai:gpt-4o"\nreviewer = "openai:gpt-4o-mini"\n'
        f'[providers.openai]\nbase_url = "{url}"\n',
    )
    return project.run(
        "--config", config, "lld", "--all", *flags, env={"OPENAI_API_KEY": "a-key-of-some-length"}
    )


def test_a_server_that_does_not_count_tokens_is_not_free(project: Project) -> None:
    project.issue(1)
    with server(None) as url:
        assert run(project, url).code == Exit.OK
        assert project.row("1")["cost_usd"] is None
        assert project.summary()["cost_usd"] is None
        project.issue(2)
        project.issue(3)
        assert run(project, url, "--budget", "0.008").code == Exit.BUDGET


def test_a_review_by_another_model_is_paid_for_and_audited_but_not_taken(project: Project) -> None:
    project.issue(1)
    with server(USAGE, served="gpt-4o-audio") as url:
        assert run(project, url).code == Exit.FAILED
    row = project.row("1")
    assert "replied, so the review was rejected" in row["error"]
    kinds = {record["kind"]: record for record in project.audits("1")}
    assert kinds["failed_call"]["key"] == "openai"
    assert kinds["failed_call"]["served"] == "gpt-4o-audio"
    known = kinds["call"]["cost_usd"]
    assert row["cost_usd"] is None or row["cost_usd"] > known


def test_an_estimate_is_measured_on_items_of_the_same_models_alone(project: Project) -> None:
    project.issues(4)
    with server(USAGE) as url:
        for one in ("1", "2", "3"):
            assert run(project, url, "--limit", "1").code == Exit.OK, one
        same = run(project, url, "--dry-run", "--json").json
        other = run(project, url, "--dry-run", "--json", "--reviewer", "openai:gpt-4o").json
        mock = run(project, url, "--dry-run", "--json", "--mock").json
    assert (same["cost_basis"], same["cost_based_on"]) == ("measured", 3)
    paid = [project.row(one, run=number)["cost_usd"] for number, one in enumerate(("1", "2", "3"))]
    assert same["cost_usd"] == {"low": round(min(paid), 4), "high": round(max(paid), 4)}
    assert (other["cost_basis"], other["cost_based_on"]) == ("assumed", 0)
    assert (mock["cost_basis"], mock["cost_based_on"]) == ("assumed", 0)
    assert project.summary()["mock"] is False
    assert project.run("status", "--json").json["mock"] is False
    assert "with the mock" not in project.run("status").out


@pytest.mark.parametrize("latency", ["1", "0.1"])
def test_the_overhead_is_never_less_than_nothing(project: Project, latency: str) -> None:
    project.issue(1, mock=f"latency={latency}")
    for number in range(2, 6):
        project.issue(number, mock="latency=0.2")
    assert project.lld("--all", "-j2").code == Exit.OK
    assert project.summary()["coordination_overhead_percent"] >= 0


def test_every_role_needs_a_key_before_the_first_call_is_paid(project: Project) -> None:
    project.issue(1)
    with server(USAGE) as url:
        refused = run(project, url, "--reviewer", "anthropic:claude-haiku-4-5")
    assert refused.code == Exit.NO_KEY
    assert "ANTHROPIC_API_KEY" in refused.said
    assert project.runs() == []


def test_a_context_file_that_holds_a_key_in_use_is_refused(project: Project) -> None:
    project.issue(1)
    project.write("docs/notes.md", "The value is a-key-of-some-length today.\n")
    with server(USAGE) as url:
        refused = run(project, url, "--context", "docs/notes.md")
    assert refused.code == Exit.USAGE
    assert "docs/notes.md" in refused.said
    assert "a-key-of-some-length" not in refused.text
