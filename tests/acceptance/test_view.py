"""`agentos view`, the real command: its address, its responses, and how it stops."""

import http.client
import json
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.report.markdown_tree import markdown_tree
from harness.processes import wait_until
from harness.project import Project

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([A-Za-z0-9_-]{43})$")


class Served:
    """The running command, and requests to it."""

    def __init__(self, project: Project, *args: str, env: Mapping[str, str] | None = None) -> None:
        self.project = project
        self.process = project.start("view", *args, env=env)
        self.line = self.process.line()
        found = ADDRESS.search(self.line)
        assert found is not None, self.line
        self.port, self.token = int(found[1]), found[2]

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        origin = f"http://127.0.0.1:{self.port}"
        request = urllib.request.Request(
            origin + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Origin": origin,
                "Content-Type": "application/json",
            }
            | headers,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    @contextmanager
    def events(self) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/events", headers={"Authorization": f"Bearer {self.token}"})
        with connection.getresponse() as stream:
            yield stream
        connection.close()

    def end(self, number: int = signal.SIGINT) -> None:
        self.process.signal(number)
        result = self.project.finish(self.process, timeout=20)
        assert (result.code, result.out, result.err) == (0, f"{self.line}\n", "")


def heard(stream: http.client.HTTPResponse, event: str) -> None:
    """Read until the event arrives."""
    while (line := stream.readline()) != f"event: {event}\n".encode():
        assert line, f"the stream ended before {event!r}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_works_before_anything_was_run_and_ends_at_once_with_a_page_open(
    project: Project, number: int
) -> None:
    before = project.snapshot()
    served = Served(project)
    assert served.ask("/api/runs") == (200, {"project": "project", "runs": []})
    assert served.ask("/api/inbox") == (200, {"waiting": [], "answered": []})
    assert served.ask("/api/runs", Authorization="Bearer wrong")[0] == 403
    assert served.ask("/api/runs", Host=f"evil.example:{served.port}")[0] == 403
    assert served.ask("/api/runs", Origin="http://evil.example")[0] == 403
    silent = socket.create_connection(("127.0.0.1", served.port))
    with silent, served.events() as stream:
        heard(stream, "hello")
        served.end(number)
        while stream.readline():  # it ends normally
            pass
    assert project.snapshot() == before  # it only reads


def test_only_the_loopback_interface_is_bound(project: Project) -> None:
    served = Served(project)
    addresses = {
        parts[1]
        for name in ("tcp", "tcp6")
        for parts in (line.split() for line in Path(f"/proc/net/{name}").read_text("ascii").splitlines())
        if parts[1].endswith(f":{served.port:04X}") and parts[3] == "0A"
    }
    assert addresses == {f"0100007F:{served.port:04X}"}
    served.end()


def test_a_taken_port_is_told_in_one_line(project: Project) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = project.run("view", "--no-open", "--port", str(port))
    assert refused.code == 2
    assert (refused.out, len(refused.err.splitlines())) == ("", 1)
    assert f"port {port}" in refused.err


def test_a_browser_is_started_only_at_a_terminal_or_when_asked_for(project: Project) -> None:
    script = project.outside / "browser"
    script.write_text('#!/bin/sh\n: > "$(dirname "$0")/opened"\n', "utf-8")
    script.chmod(0o700)
    served = Served(project, env={"BROWSER": str(script)})
    assert served.ask("/api/runs")[0] == 200
    served.end()
    assert not (project.outside / "opened").exists()
    served = Served(project, "--open", env={"BROWSER": str(script)})
    wait_until((project.outside / "opened").exists, "the browser")
    served.end()


def test_a_run_is_followed_and_an_answer_makes_the_next_run_go_on(project: Project) -> None:
    served = Served(project, "--no-open")
    with served.events() as stream:
        heard(stream, "hello")
        project.issue(43, mock="verdicts=DISCUSS")
        running = project.start("lld", "43", "--mock")
        heard(stream, "run")
        heard(stream, "inbox")
        assert project.finish(running).code == 3
    # The run's folder may be read while the summary is being written; the page still gets the end of the run.
    [run] = wait_until(
        lambda: [run for run in served.ask("/api/runs")[1]["runs"] if run["exit_code"] == 3],
        "the end of the run",
    )
    assert (run["workflow"], run["items"], run["totals"], run["live"]) == ("lld", 1, {"discuss": 1}, False)
    status, data = served.ask(f"/api/runs/{run['run_id']}")
    assert (status, data["items"][0]["status"]) == (200, "discuss")
    status, part = served.ask(f"/api/runs/{run['run_id']}/log/LLD-43")
    assert "review 1: DISCUSS" in part["text"]

    [waiting] = served.ask("/api/inbox")[1]["waiting"]
    draft = "docs/lineage/active/43-lld/002-draft.md"
    assert (waiting["label"], waiting["draft"]["path"]) == ("LLD-43", draft)
    assert waiting["draft"]["nodes"] == markdown_tree(project.read(draft))
    answer = {"answer": "approve", "note": "Wait an hour.", "reviews": waiting["reviews"]}
    status, said = served.ask("/api/inbox/LLD-43", answer)
    assert (status, said["command"]) == (200, "agentos lld 43 --mock")
    assert served.ask("/api/inbox")[1]["waiting"] == []
    assert project.run(*said["command"].split()[1:]).code == 0
    assert project.statuses() == {"43": "approved"}
    assert "Wait an hour." in project.read("docs/lld/active/LLD-43.md")
    assert served.ask("/api/inbox") == (200, {"waiting": [], "answered": []})
    served.end()


def test_the_help_says_what_it_is_about(project: Project) -> None:
    helped = project.run("view", "--help")
    assert helped.code == 0
    for word in ("--port", "--open", "--allow-run", "127.0.0.1", "token"):
        assert word in helped.out
