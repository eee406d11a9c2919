"""The live page: its ticket stands in no argument, half-open connections end, one answer counts."""

import contextlib
import html
import json
import re
import signal
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from harness.processes import wait_until
from harness.project import Command, Project

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=([A-Za-z0-9_-]{43})")
MANY = 200  # connections, far more than any browser opens
BOUND = 64


class Served:
    """The command at work."""

    def __init__(self, project: Project, *args: str, **env: str) -> None:
        self.project = project
        self.process: Command = project.start("view", *args, env=env)
        found = ADDRESS.search(self.process.line())
        assert found is not None
        self.port, self.token = int(found[1]), found[2]

    def connect(self) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(30)
        made.connect(("127.0.0.1", self.port))
        return made

    def head(self, path: str, method: str = "GET", **headers: str) -> bytes:
        told = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Origin": f"http://127.0.0.1:{self.port}",
        } | headers
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items()), "", ""]
        return "\r\n".join(lines).encode()

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        origin = f"http://127.0.0.1:{self.port}"
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Origin": origin,
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(origin + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def sockets(self) -> int:
        """How many sockets the server holds."""
        found = 0
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found += str(path.readlink()).startswith("socket:")
        return found

    def end(self) -> None:
        self.process.signal(signal.SIGINT)
        assert self.project.finish(self.process, timeout=20).code == 0


@pytest.fixture
def browser(project: Project) -> Path:
    """A browser that only writes down what it was started with, and keeps a copy of the page."""
    script = project.outside / "browser"
    script.write_text(
        '#!/bin/sh\nhere="${0%/*}"\nprintf "%s\\n" "$@" > "$here/arguments.part"\n'
        'mv "$here/arguments.part" "$here/arguments"\n',
        "utf-8",
    )
    script.chmod(0o700)
    return script


def entrance(project: Project) -> Path:
    """The page that the browser was started with."""
    arguments = project.outside / "arguments"
    wait_until(arguments.exists, "the browser", 20)
    address = urlsplit(arguments.read_text("utf-8").strip())
    assert address.scheme == "file"
    assert (address.query, address.fragment) == ("", "")
    return Path(unquote(address.path))


def test_the_ticket_stands_in_no_argument_and_in_a_page_for_the_owner_alone(
    project: Project, browser: Path
) -> None:
    served = Served(project, "--open", BROWSER=f"{browser} %s")
    page = entrance(project)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    found = ADDRESS.search(html.unescape(page.read_text("utf-8")))
    assert found is not None
    assert int(found[1]) == served.port
    assert found[2] != served.token  # the ticket is good for one visit
    arguments = (project.outside / "arguments").read_text("utf-8")
    assert found[2] not in arguments
    assert served.token not in arguments
    statuses = []
    for _ in range(2):
        statuses.append(served.ask("/login", {"token": found[2]}))
        assert not page.parent.exists()  # used, so it is gone
    assert [status for status, _ in statuses] == [200, 403]
    assert statuses[0][1] == {"token": served.token}
    served.end()


def test_a_page_that_was_not_used_is_gone_when_the_server_ends(project: Project, browser: Path) -> None:
    served = Served(project, "--open", BROWSER=str(browser))
    page = entrance(project)
    assert page.exists()
    served.end()
    assert not page.parent.exists()
    assert list(project.tmp.glob("agentos-view-*")) == []


@pytest.mark.slow
def test_half_open_connections_end_and_hold_up_nobody(project: Project) -> None:
    served = Served(project, "--no-open")
    assert served.ask("/api/runs")[0] == 200
    wait_until(lambda: served.ask("/api/runs")[0] == 200 and served.sockets() <= 5, "quiet")
    before = served.sockets()
    post = {"Content-Type": "application/json", "Content-Length": "1000"}
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(served.connect()) for _ in range(5)]
        silent, half_head, half_body, behind, deaf = clients
        half_head.sendall(served.head("/api/runs")[:-2])
        half_body.sendall(served.head("/api/inbox/LLD-1", "POST", **post) + b'{"answer"')
        behind.sendall(served.head("/api/runs") + served.head("/api/inbox/LLD-1", "POST", **post) + b"{")
        deaf.settimeout(0.2)
        with contextlib.suppress(TimeoutError):  # many answers asked for, none taken
            while True:
                deaf.sendall(served.head("/assets/run.js") * 20)
        assert served.ask("/api/runs")[0] == 200
        wait_until(lambda: served.sockets() <= before, "the end of the half-open connections", 30)
        for client in (silent, half_head, half_body):
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100_000) == b""
        assert served.ask("/api/runs")[0] == 200
    served.end()


@pytest.mark.slow
def test_a_byte_now_and_then_buys_no_time(project: Project) -> None:
    served = Served(project, "--no-open")
    with served.connect() as client:
        request = iter(served.head("/api/runs", **{f"X-{number}": "x" * 50 for number in range(100)}))
        client.settimeout(0.1)

        def is_cut_off() -> bool:
            try:
                client.send(bytes([next(request)]))
                return client.recv(100) == b""
            except TimeoutError:
                return False
            except (ConnectionResetError, BrokenPipeError):
                return True

        wait_until(is_cut_off, "the end of the connection", 30)
    served.end()


def test_the_number_of_connections_is_bounded_and_the_page_is_served_all_the_same(project: Project) -> None:
    served = Served(project, "--no-open")
    with contextlib.ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(served.connect())
        assert served.ask("/api/runs")[0] == 200
        assert served.sockets() < BOUND + 20 < MANY
    served.end()


def test_half_open_connections_do_not_hold_up_the_end(project: Project) -> None:
    served = Served(project, "--no-open")
    with served.connect() as half, served.connect() as deaf:
        half.sendall(
            served.head(
                "/api/inbox/LLD-1", "POST", **{"Content-Type": "application/json", "Content-Length": "9"}
            )
        )
        deaf.sendall(served.head("/assets/run.js") * 100)
        assert served.ask("/api/runs")[0] == 200
        served.end()


@pytest.fixture
def discussed(project: Project) -> Iterator[Served]:
    """A page over an item that waits for a decision."""
    project.issue(43, mock="verdicts=DISCUSS")
    assert project.lld("43").code == 3
    served = Served(project, "--no-open")
    yield served
    served.end()


def test_of_two_answers_from_two_pages_the_second_is_refused(discussed: Served) -> None:
    [waiting] = discussed.ask("/api/inbox")[1]["waiting"]
    shown = {"reviews": waiting["reviews"], "note": ""}
    assert discussed.ask("/api/inbox/LLD-43", shown | {"answer": "revise"})[0] == 200
    status, told = discussed.ask("/api/inbox/LLD-43", shown | {"answer": "approve"})
    assert status == 409
    assert "LLD-43 is already answered: revise" in told["error"]
    [kept] = discussed.ask("/api/inbox")[1]["answered"]
    assert kept["decided"]["answer"] == "revise"


@pytest.mark.timeout(60)
def test_texts_that_are_slow_to_read_are_shown_in_part(discussed: Served) -> None:
    trail = discussed.project.root / "docs/lineage/active/43-lld"
    nested = "> " * 90 + "\n" + "a\n" * 499_000  # each line is tried at every level
    (trail / "002-draft.md").write_text(nested, "utf-8")
    (trail / "001-issue.md").write_text(f"# A{' ' * 3_900}title\n", "utf-8")
    status, found = discussed.ask("/api/inbox")
    assert status == 200
    [waiting] = found["waiting"]
    assert waiting["draft"]["cut"]
    assert 0 < len(json.dumps(waiting["draft"]["nodes"])) < 250_000
    assert waiting["title"].startswith("A  ")
    status, run = discussed.ask(f"/api/runs/{waiting['run_id']}")
    assert (status, run["items"][0]["title"][:1]) == (200, "A")


def test_an_answer_at_the_command_line_is_not_changed_by_a_page_that_never_showed_it(
    discussed: Served,
) -> None:
    [waiting] = discussed.ask("/api/inbox")[1]["waiting"]
    assert discussed.project.run("decide", "43", "--revise").code == 0
    answer = {"answer": "approve", "reviews": waiting["reviews"]}
    assert discussed.ask("/api/inbox/LLD-43", answer)[0] == 409
    assert discussed.ask("/api/inbox")[1]["answered"][0]["decided"]["answer"] == "revise"
