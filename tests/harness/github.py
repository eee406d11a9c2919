"""A fake GitHub for tests: issues of one repository, over HTTP on 127.0.0.1, with faults on demand.

In a test: `with running_fakegithub() as fake: ...`, then `GITHUB_API_URL=fake.url GH_TOKEN=fake.token`.
Standalone: `python tests/harness/github.py --port 8123 --issues 250`.
"""

import argparse
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

REPOSITORY = "acme/widgets"
TOKEN = "ghp_fake0123456789"
_NUMERIC = "/repositories/4711"  # GitHub's own links use the number of the repository


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one request instead of a normal answer."""

    creates: bool = False  # create the issue before anything else
    status: int | None = None  # then answer with this; None is the normal answer
    headers: dict[str, str] = field(default_factory=dict)
    body: str | bytes | None = None
    drips: str = ""  # then send a "head" or a "body" byte by byte, without end
    floods: int = 0  # then send a body of this many bytes
    closes: bool = False  # then close the connection without an answer
    hangs: bool = False  # then send nothing until the server ends or `released` is set
    late: bool = False  # create the issue after hanging


LIMIT = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."

OK = Fault(creates=True)
CREATE_502 = Fault(creates=True, status=502)
CREATE_HANG = Fault(creates=True, hangs=True)
CREATE_CLOSE = Fault(creates=True, closes=True)
CREATE_GARBLED = Fault(creates=True, status=201, body="<html>")
REFUSE_502 = Fault(status=502)
REFUSE_CLOSE = Fault(closes=True)
HANG = Fault(hangs=True)
DRIP_HEAD = Fault(drips="head")
DRIP_BODY = Fault(drips="body")
HANG_THEN_CREATE = Fault(hangs=True, late=True)


def refusal(status: int, message: str = "", **headers: str) -> Fault:
    """An answer with this status; no issue is created."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(status=status, headers=named, body=json.dumps({"message": message}))


def secondary_limit(retry_after: int = 1, status: int = 403) -> Fault:
    return refusal(status, LIMIT, retry_after=str(retry_after))


MODES = {
    "ok": OK,
    "create-502": CREATE_502,
    "create-hang": CREATE_HANG,
    "create-close": CREATE_CLOSE,
    "create-garbled": CREATE_GARBLED,
    "502": REFUSE_502,
    "close": REFUSE_CLOSE,
    "hang": HANG,
    "secondary": secondary_limit(),
}


def _no_skew() -> datetime:
    return datetime.now(UTC)


@dataclass(kw_only=True)
class FakeGitHub:
    """The state of the server; tests read and change it while it runs."""

    repository: str = REPOSITORY
    token: str = TOKEN
    url: str = ""
    has_issues: bool = True
    push: bool = True
    login: str | None = "ann"  # of the token's user; None: the token of an app, which cannot ask
    now: Callable[[], datetime] = _no_skew
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    unused_labels: tuple[str, ...] = ()  # labels that no issue has
    requests: list[tuple[str, str]] = field(default_factory=list)  # method and path with query
    write_times: list[float] = field(default_factory=list)  # monotonic, when each POST arrived
    agents: set[str] = field(default_factory=set)
    released: threading.Event = field(default_factory=threading.Event)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _posts: deque[Fault] = field(default_factory=deque)
    _lists: deque[Fault] = field(default_factory=deque)
    _list_always: Fault | None = None
    endless: Callable[[int], list[dict[str, Any]]] | None = None  # the rows of each page of an endless list

    # Setting up.

    def add(
        self,
        title: str = "An issue",
        *,
        body: str | None = "What is wanted.",
        labels: tuple[str, ...] = (),
        state: str = "open",
        pull_request: bool = False,
        author: str | None = None,
    ) -> int:
        """Add an issue or a pull request; return its number."""
        with self._lock:
            number = len(self.issues) + 1
            kind = "pull" if pull_request else "issues"
            moment = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            self.issues[number] = {
                "number": number,
                "url": f"{self.url}/repos/{self.repository}/issues/{number}",
                "html_url": f"https://github.test/{self.repository}/{kind}/{number}",
                "title": title,
                "body": body,
                "state": state,
                "labels": [{"id": 1, "name": name} for name in labels],
                "user": self.user(author or self.login),
                "created_at": moment,
                "updated_at": moment,
            }
            if pull_request:
                self.issues[number]["pull_request"] = {"url": f"{self.url}/pulls/{number}"}
            return number

    def user(self, login: str | None) -> dict[str, str]:
        return {"login": login or "github-actions[bot]", "type": "User" if login else "Bot"}

    def fill(self, count: int, *, labels: tuple[str, ...] = ()) -> None:
        for number in range(1, count + 1):
            self.add(f"Issue {number}", labels=labels)

    def next_posts(self, *faults: Fault) -> None:
        """What happens to the next writes; after those, everything works again."""
        with self._lock:
            self._posts.extend(faults)

    def next_lists(self, *faults: Fault) -> None:
        with self._lock:
            self._lists.extend(faults)

    def fail_lists(self, status: int | None, **headers: str) -> None:
        """Fail every list with this status; None makes lists work again."""
        self._list_always = None if status is None else refusal(status, "Server says no", **headers)

    # Checking.

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for one, path in self.requests if one == method and part in path)

    def holding(self, text: str) -> list[int]:
        """The numbers of the issues whose body contains a text."""
        with self._lock:
            return [number for number, issue in self.issues.items() if text in (issue["body"] or "")]

    # Used by the server.

    def take_post(self) -> Fault:
        with self._lock:
            self.write_times.append(time.monotonic())
            return self._posts.popleft() if self._posts else OK

    def take_list(self) -> Fault:
        with self._lock:
            if self._lists:
                return self._lists.popleft()
            return self._list_always or OK

    def all_labels(self) -> list[dict[str, Any]]:
        with self._lock:
            used = {label["name"] for issue in self.issues.values() for label in issue["labels"]}
        return [{"id": 1, "name": name} for name in sorted(used | set(self.unused_labels))]

    def select(self, query: dict[str, str]) -> list[dict[str, Any]]:
        state, labels = query.get("state", "open"), query.get("labels", "")
        wanted = {name.lower() for name in labels.split(",") if name}
        with self._lock:
            found = [
                issue
                for issue in self.issues.values()
                if state in {"all", issue["state"]}
                and wanted <= {label["name"].lower() for label in issue["labels"]}
                and issue["updated_at"] >= query.get("since", "")
            ]
        key = "updated_at" if query.get("sort") == "updated" else "created_at"
        found.sort(key=lambda issue: (issue[key], issue["number"]))
        return found if query.get("direction") == "asc" else found[::-1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    fake: FakeGitHub

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(self.fake.now().timestamp() if timestamp is None else timestamp)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path, query = parts.path, dict(parse_qsl(parts.query))
        fake = self.fake
        if not self._admitted():
            return
        if path == f"/repos/{fake.repository}":
            rights = {"pull": True, "push": fake.push}
            self._answer(
                200, {"full_name": fake.repository, "has_issues": fake.has_issues, "permissions": rights}
            )
        elif path == "/user" and fake.login is None:
            self._answer(403, {"message": "Resource not accessible by integration"})
        elif path == "/user":
            self._answer(200, fake.user(fake.login))
        elif path in {f"/repos/{fake.repository}/issues", f"{_NUMERIC}/issues"}:
            fault = fake.take_list()
            if not self._spoilt(fault):
                self._list(query, "issues", fake.select(query))
        elif path in {f"/repos/{fake.repository}/labels", f"{_NUMERIC}/labels"}:
            fault = fake.take_list()
            if not self._spoilt(fault):
                self._list(query, "labels", fake.all_labels())
        elif path.startswith(f"/repos/{fake.repository}/issues/"):
            number = path.rpartition("/")[2]
            issue = fake.issues.get(int(number)) if number.isdecimal() else None
            self._answer(200, issue) if issue else self._answer(404, {"message": "Not Found"})
        else:
            self._answer(404, {"message": "Not Found"})

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
        fake = self.fake
        if not self._admitted():
            return
        if self.path != f"/repos/{fake.repository}/issues":
            self._answer(404, {"message": "Not Found"})
            return
        fault = fake.take_post()
        if not fake.has_issues:
            self._answer(410, {"message": "Issues are disabled for this repo"})
            return
        made = self._make(content) if fault.creates else None
        if self._spoilt(fault):
            if fault.late:
                self._make(content)
            return
        self._answer(201, fake.issues[made or self._make(content)])

    def _make(self, content: dict[str, Any]) -> int:
        labels = tuple(content.get("labels", ())) if self.fake.push else ()
        return self.fake.add(content["title"], body=content.get("body"), labels=labels)

    def _admitted(self) -> bool:
        fake = self.fake
        with fake._lock:
            fake.requests.append((self.command, self.path))
            fake.agents.add(self.headers.get("user-agent", ""))
        if self.headers.get("authorization") in {f"token {fake.token}", f"Bearer {fake.token}"}:
            return True
        self._answer(401, {"message": "Bad credentials"})
        return False

    def _spoilt(self, fault: Fault) -> bool:
        """Do what the fault says instead of a normal answer; return whether it did."""
        if fault.hangs:
            self.fake.released.wait()
        if fault.drips:
            self._drip(fault.drips)
        elif fault.floods:
            self._flood(fault.floods)
        if fault.hangs or fault.closes or fault.drips or fault.floods:
            self.close_connection = True
            return True
        if fault.status is None:
            return False
        text = fault.body if fault.body is not None else json.dumps({"message": "Server Error"})
        self._send(fault.status, text, fault.headers)
        return True

    def _drip(self, part: str) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        self.wfile.write(b"x-drip: " if part == "head" else b"content-length: 1000000\r\n\r\n")
        while not self.fake.released.wait(0.02):
            self.wfile.write(b"a")

    def _flood(self, size: int) -> None:
        self.wfile.write(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
        for _part in range(size // 1_000_000):
            self.wfile.write(b" " * 1_000_000)

    def _list(self, query: dict[str, str], what: str, found: list[dict[str, Any]]) -> None:
        size = min(100, int(query.get("per_page", "30")))
        page = int(query.get("page", "1"))
        if self.fake.endless is not None:
            link = f'<{self.fake.url}{_NUMERIC}/{what}?page={page + 1}>; rel="next"'
            self._answer(200, self.fake.endless(page), {"link": link})
            return
        last = max(1, -(-len(found) // size))
        links: dict[str, int] = {}
        if page < last:
            links |= {"next": page + 1, "last": last}
        if page > 1:
            links |= {"prev": page - 1, "first": 1}
        link = ", ".join(
            f'<{self.fake.url}{_NUMERIC}/{what}?{urlencode(query | {"page": str(number)})}>; rel="{name}"'
            for name, number in links.items()
        )
        self._answer(200, found[(page - 1) * size : page * size], {"link": link} if link else {})

    def _answer(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(data), headers or {})

    def _send(self, status: int, text: str | bytes, headers: dict[str, str]) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignored: tests kill clients in mid-request on purpose."""


@contextmanager
def running_fakegithub(fake: FakeGitHub | None = None, *, port: int = 0) -> Iterator[FakeGitHub]:
    """Serve until the block ends."""
    fake = fake or FakeGitHub()
    handler = type("Handler", (_Handler,), {"fake": fake})
    with _Server(("127.0.0.1", port), handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            fake.released.set()
            server.shutdown()
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--repository", default=REPOSITORY)
    parser.add_argument("--token", default=TOKEN)
    parser.add_argument("--issues", type=int, default=0, help="how many open issues there are")
    parser.add_argument("--post", action="append", default=[], choices=sorted(MODES), help="the next writes")
    given = parser.parse_args()
    fake = FakeGitHub(repository=given.repository, token=given.token)
    fake.fill(given.issues)
    fake.next_posts(*(MODES[name] for name in given.post))
    with running_fakegithub(fake, port=given.port), suppress(KeyboardInterrupt):
        print(fake.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
