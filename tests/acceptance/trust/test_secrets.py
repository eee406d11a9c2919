"""No key is ever written down: a server echoes what it was sent, in every form, through whole runs."""

import contextlib
import itertools
import json
import os
import re
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import agentos
from agentos.errors import Exit
from agentos.simulator.responder import DefaultResponder
from harness.echo import FORMS, leaked
from harness.github import FakeGitHub, Fault, refusal, running_fakegithub
from harness.processes import Process, kill, wait_until
from harness.project import METHODS, MODULE, Command, Project, Result

KEY = "canary-8Fq2ZtVw_6LmXr4-NbKp/9Hs+DyJc3Ua"
TOKEN = "ghp_Tz7WqLx2RvN9cYm4KdJf8BsP6hGaQe1u"
PLACES = ("error body", "finish reason", "model", "header", "limit header", "draft", "review", "refusal")
IN_A_HEADER = re.compile(r"[\x20-\x7e]+")
Answer = tuple[int, dict[str, str], dict[str, Any]]


@dataclass(kw_only=True)
class Echo:
    """A server with OpenAI's protocol that gives the key back, at a place and in a form for each item."""

    url: str = ""
    places: dict[str, tuple[str, str]] = field(default_factory=dict)  # by item: place and form
    echoed: str = ""  # this and not the key that was sent
    once: bool = False  # an error comes first, and then all is well
    hang: str = ""  # a role whose calls get no answer
    during: Callable[[str], None] | None = None  # done in a call, with its role
    keys: set[str] = field(default_factory=set)
    prompts: list[str] = field(default_factory=list)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)
    _write: DefaultResponder = field(default_factory=DefaultResponder)

    def answer(self, key: str, request: dict[str, Any]) -> Answer:
        role, (system, prompt) = request["model"], [one["content"] for one in request["messages"]]
        self.keys.add(key)
        self.prompts.append(prompt)
        found = re.search(r"Title of (\d+)", prompt)
        item = found[1] if found else ""
        self.calls[item, role] += 1
        if self.during is not None:
            self.during(role)
        place, form = self.places.get(item, ("", "plain"))
        echo = FORMS[form](self.echoed or key)
        if self.once and self.calls[item, role] == 1:
            headers = {"retry-after-ms": "1", "x-request-id": key}
            return 500, headers, {"error": {"message": f"You sent {echo}", "code": key}}
        if role == self.hang:
            self.over.wait(60)
        wanted = request["response_format"]["json_schema"]["name"] if "response_format" in request else ""
        return self._spoilt(place, echo, role, self._write(role, system, prompt, wanted))

    def _spoilt(self, place: str, echo: str, role: str, text: str) -> Answer:
        at = {name: echo if place == name else None for name in PLACES}
        headers: dict[str, str] = {}
        shown = echo if IN_A_HEADER.fullmatch(echo) else quote(echo)
        if place == "error body":
            return 400, {}, {"error": {"message": f"You sent {echo}", "type": echo, "code": echo}}
        if place == "header":
            headers = {"x-request-id": shown}
        elif place == "limit header":
            headers = {"x-ratelimit-remaining-requests": shown, "retry-after": shown}
        if place == "draft" and role == "drafter":
            text += f"\nThe key is {echo}.\n"
        if place == "review" and role == "reviewer":
            text = json.dumps(json.loads(text) | {"summary": f"The key is {echo}."})
        message = {"role": "assistant", "content": text, "refusal": at["refusal"]}
        choice = {"index": 0, "message": message, "finish_reason": at["finish reason"] or "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 20}
        return 200, headers, {"model": at["model"] or role, "choices": [choice], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    echo: Echo

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = self.headers["authorization"].removeprefix("Bearer ")
        status, headers, body = self.echo.answer(key, request)
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers | {"content-length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is part of the test."""


@dataclass(kw_only=True)
class Lab:
    """A project, the echoing server, and all that a run leaves."""

    project: Project
    echo: Echo
    env: dict[str, str]
    secrets: tuple[str, ...] = (KEY,)

    @property
    def config(self) -> Path:
        return self.project.outside / "user.toml"

    def items(self, pairs: list[tuple[str, str]]) -> None:
        for number, pair in enumerate(pairs, start=1):
            self.project.issue(number)
            self.echo.places[str(number)] = pair

    def start(self, *args: str, command: tuple[str, ...] | None = None) -> Command:
        return self.project.start("--config", self.config, *args, env=self.env, command=command)

    def run(self, *args: str) -> Result:
        return self.project.finish(self.start(*args))

    def assert_nothing_written(self, *results: Result) -> None:
        """Look into every byte of every file, and of the output."""
        places = {f"output {number}": result.text.encode() for number, result in enumerate(results)}
        for root in (self.project.outside, self.project.tmp):
            places |= {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        leaks = {
            place: leak
            for place, data in places.items()
            for secret in self.secrets
            if (leak := leaked(secret, data)) is not None
        }
        assert not leaks
        assert any(path.endswith("records.db") for path in places), "the home was looked at"


@pytest.fixture
def lab(project: Project) -> Iterator[Lab]:
    echo = Echo()
    handler = type("Handler", (_Handler,), {"echo": echo})
    with _Server(("127.0.0.1", 0), handler) as server:
        echo.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        made = Lab(project=project, echo=echo, env={"OPENAI_API_KEY": KEY, "GH_TOKEN": TOKEN})
        made.config.write_text(
            'drafter = "openai:drafter"\nreviewer = "openai:reviewer"\ntrace = true\n'
            f'[providers.openai]\nbase_url = "{echo.url}/v1"\n'
        )
        yield made
        echo.over.set()
        server.shutdown()


def pairs(shift: int) -> list[tuple[str, str]]:
    """Every form once and every place; with each shift other pairs of them."""
    places = itertools.cycle(PLACES[shift:] + PLACES[:shift])
    return list(zip(places, FORMS, strict=False))


# A server that echoes.


@pytest.mark.parametrize(
    "shift", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, len(PLACES)))]
)
@pytest.mark.slow
def test_an_answer_with_the_key_in_it_is_refused_and_nothing_of_it_kept(lab: Lab, shift: int) -> None:
    lab.items(pairs(shift))
    result = lab.run("lld", "--all", "-j6", "-v")
    assert lab.echo.keys == {KEY}
    assert result.code == Exit.FAILED, result
    told = {row["id"]: row["error"] or "" for row in lab.project.summary()["items"]}
    for number, (place, form) in enumerate(pairs(shift), start=1):
        error = told[str(number)]
        assert "the server's reply contains the key openai" in error, (place, form, error)
        assert ("refused the request: HTTP 400" in error) == (place == "error body")
    # Asked once for each, and the money is counted.
    assert set(lab.echo.calls.values()) == {1}
    assert all(
        row["tokens_out"] for row in lab.project.summary()["items"] if told[row["id"]][-7:] == "refused"
    )
    assert lab.project.checkpoints(), "they are kept, and looked into"
    report = lab.run("report", "--json")
    lab.assert_nothing_written(result, report, lab.run("status"), lab.run("logs", "1"))


@pytest.mark.slow
def test_a_key_that_the_worker_was_never_given_is_refused_too(lab: Lab) -> None:
    other = KEY[::-1]
    lab.config.write_text(
        lab.config.read_text()
        + '[[keys]]\nid = "one"\nprovider = "openai"\nenv = "OPENAI_API_KEY"\nmax_in_flight = 1\n'
        + '[[keys]]\nid = "two"\nprovider = "gemini"\nenv = "OTHER"\n'
    )
    lab.env["OTHER"] = lab.echo.echoed = other
    lab.secrets = (KEY, other)
    lab.items([(place, form) for place in PLACES for form in ("base64-2",)])
    result = lab.run("lld", "--all", "-j4", "-v")
    assert result.code == Exit.FAILED, result
    failed = [row["error"] for row in lab.project.summary()["items"] if row["status"] == "failed"]
    assert len(failed) >= len(PLACES) - 2, "but for a header, of which nothing is kept"
    assert all("contains the key OTHER" in error for error in failed)
    lab.assert_nothing_written(result)


def test_errors_with_the_key_in_them_cost_a_try_and_the_item_is_approved(lab: Lab) -> None:
    lab.echo.once = True
    lab.items([("", form) for form in list(FORMS)[::4]])
    result = lab.run("lld", "--all", "-j3", "-v")
    assert result.code == Exit.OK, result
    assert ": transient" in result.out
    lab.assert_nothing_written(result)


def test_a_run_that_is_interrupted_keeps_nothing_of_the_key(lab: Lab) -> None:
    lab.echo.once, lab.echo.hang = True, "reviewer"
    lab.items([("", "base64-1"), ("", "zero-width")])
    command = lab.start("lld", "--all", "-j2", "-v")
    wait_until(lambda: sum(lab.echo.calls[item, "reviewer"] for item in "12") >= 4, "the reviews")
    command.signal(signal.SIGINT)
    result = lab.project.finish(command)
    assert result.code == Exit.INTERRUPTED
    assert len([name for name in lab.project.checkpoints() if name.endswith(".db")]) == 2
    lab.assert_nothing_written(result)


@pytest.mark.slow
def test_a_worker_that_is_killed_and_one_that_times_out_keep_nothing_of_the_key(lab: Lab) -> None:
    lab.echo.once = True
    killed = threading.Event()

    def during(role: str) -> None:
        if role == "reviewer" and not killed.is_set():
            killed.set()
            (worker,) = {event["pid"] for event in lab.project.events("started")}
            kill(worker)
            wait_until(lambda: len(lab.project.events("started")) == 2, "the next attempt")

    lab.echo.during = during
    lab.items([("", "percent-in-part")])
    first = lab.run("lld", "1", "-v")
    assert first.code == Exit.OK, first
    assert "killed by SIGKILL" in first.out
    lab.assert_nothing_written(first)
    lab.echo.during, lab.echo.hang = None, "drafter"
    lab.project.issue(2)
    lab.echo.places["2"] = ("", "json")
    second = lab.run("lld", "2", "-v", "--timeout", "1s")
    assert lab.project.row("2")["status"] == "timed_out"
    lab.assert_nothing_written(second)


@pytest.mark.slow
def test_a_user_who_wrote_a_key_into_an_issue_gets_it_back_nowhere(lab: Lab) -> None:
    text = f"# Title of 1\n\nIt fails with {KEY} and with {TOKEN}.\n"
    lab.project.issue(1, text)
    result = lab.run("lld", "1", "-v")
    assert result.code == Exit.OK, result
    assert all(KEY not in prompt and TOKEN not in prompt for prompt in lab.echo.prompts)
    noted = lab.run("revise", "1", "--note", f"Do not use {KEY}.")
    assert noted.code == Exit.OK, noted
    revised = lab.run("lld", "1", "-v")
    assert "Do not use [secret: OPENAI_API_KEY]." in lab.echo.prompts[-1]
    (lab.project.root / "issues/active/1.md").unlink()
    lab.secrets = (KEY, TOKEN)
    lab.assert_nothing_written(result, noted, revised)


def test_a_key_that_is_typed_by_mistake_is_not_shown(lab: Lab) -> None:
    for words in ([KEY], ["logs", KEY], ["verdict", KEY], ["lld", KEY], ["lld", "--limit", KEY, "--json"]):
        result = lab.run(*words)
        assert result.code == Exit.USAGE, result
        assert leaked(KEY, result.text.encode()) is None, result


# Programs that a workflow starts, and what processes show.


def test_lines_of_programs_are_redacted_also_where_a_line_is_cut(lab: Lab) -> None:
    script = lab.project.tmp / "say.py"
    coded = KEY.encode().hex()
    script.write_text(
        "import sys\n"
        f"key = bytes.fromhex('{coded[:40]}' + '{coded[40:]}').decode()\n"
        "sys.stdout.write('a' * (16384 - 9) + key + 'b' * 30000 + key)\n"
        "print(key, file=sys.stderr)\n"
    )
    lab.project.issue(1, mock=f'sh="python3 {script}"')
    lab.env["AGENTOS_MOCK_SHELL"] = "1"
    result = lab.run("lld", "1", "--mock")
    assert result.code == Exit.OK, result
    log = "".join(lab.project.log("LLD-1"))
    assert log.count("[secret:") == 3
    script.unlink()
    lab.assert_nothing_written(result)
    assert KEY[:9] not in log


@pytest.mark.slow
@pytest.mark.cold
@pytest.mark.parametrize("method", METHODS)
def test_no_argument_or_environment_of_a_child_holds_a_key(lab: Lab, method: str) -> None:
    lab.env["AGENTOS_START_METHOD"] = method
    lab.items([("", "plain")])
    seen: dict[int, bytes] = {}
    children: list[Process] = []

    def during(_role: str) -> None:
        children.extend(one for one in lab.project.processes() if one.pid != command.pid)
        for one in lab.project.processes():
            folder = Path(f"/proc/{one.pid}")
            seen[one.pid] = (folder / "cmdline").read_bytes()
            if one.pid != command.pid:
                seen[one.pid] += (folder / "environ").read_bytes()
            limits = (folder / "limits").read_text()
            if "forkserver" not in one.command and "resource_tracker" not in one.command:
                assert re.search(r"Max core file size +0 ", limits), limits

    lab.echo.during = during
    command = lab.start("lld", "1")
    assert lab.project.finish(command).code == Exit.OK
    assert children
    assert not [pid for pid, text in seen.items() if leaked(KEY, text) or leaked(TOKEN, text)]


@pytest.mark.slow
@pytest.mark.cold
def test_a_coordinator_or_worker_that_crashes_leaves_no_core(lab: Lab) -> None:
    lab.items([("", "plain")])
    lab.echo.hang = "drafter"
    with_cores = ("bash", "-c", 'ulimit -c unlimited && exec "$@"', "-", *MODULE)
    command = lab.start("lld", "1", command=with_cores)
    wait_until(lambda: lab.echo.calls, "the call")
    (worker,) = {event["pid"] for event in lab.project.events("started")}
    for pid in (worker, command.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
    assert command.wait().code == -signal.SIGABRT
    assert not [path for path in lab.project.outside.rglob("core*") if path.is_file()]
    lab.assert_nothing_written()


# Keys as users paste them.

BAD = {
    "zero-width": (f"{KEY[:11]}\u200b{KEY[11:]}", 12),
    "smart quotes": (f"\u201c{KEY}\u201d", 1),
    "line break": (f"{KEY[:20]}\n{KEY[20:]}", 21),
    "blank": (f"{KEY[:5]} {KEY[5:]}", 6),
    "accent": (f"{KEY}é", len(KEY) + 1),
}


@pytest.mark.parametrize("how", BAD)
def test_a_key_that_cannot_be_one_is_refused_by_position(lab: Lab, how: str) -> None:
    text, position = BAD[how]
    lab.items([("", "plain")])
    lab.env["OPENAI_API_KEY"] = text
    results = [lab.run("lld", "1"), lab.run("keys"), lab.run("doctor"), lab.run("doctor", "--live", "--json")]
    assert results[0].code == Exit.USAGE, results[0]
    for result in results:
        assert re.search(rf"character {position} (of OPENAI_API_KEY )?is ", result.said), result
        assert "OPENAI_API_KEY" in result.said
    assert lab.echo.calls == Counter()
    lab.run("lld", "1", "--mock")
    lab.assert_nothing_written(*results)


def test_a_bad_key_does_not_stop_the_others_but_is_told(lab: Lab) -> None:
    bad = lab.project.outside / "bad.txt"
    lab.config.write_text(
        lab.config.read_text()
        + '[[keys]]\nid = "good"\nprovider = "openai"\nenv = "OPENAI_API_KEY"\n'
        + f'[[keys]]\nid = "bad"\nprovider = "openai"\nfile = "{bad}"\n'
    )
    bad.write_text(BAD["zero-width"][0])
    lab.items([("", "plain")])
    result = lab.run("lld", "1")
    assert result.code == Exit.OK, result
    assert "warning: Key 'bad': the file" in result.said
    assert "character 12 is" in result.said
    shown = lab.run("keys", "--json").json
    assert {row["id"]: row["state"] for row in shown} == {"good": "available", "bad": "unusable"}
    reason = f"character 12 of {bad} is a space or is not printable ASCII. Copy the key again."
    assert f"unusable: {reason}\n" in lab.run("keys").out
    bad.unlink()
    lab.assert_nothing_written(result)


def test_a_github_token_that_cannot_be_one_is_refused_by_position(lab: Lab) -> None:
    lab.project.shell("git init -q && git remote add origin https://github.com/acme/widgets")
    lab.env["GH_TOKEN"] = f"{TOKEN[:7]}\u200b{TOKEN[7:]}"
    result = lab.run("lld", "--all", "--source", "github")
    assert result.code == Exit.USAGE, result
    assert "The GitHub token in GH_TOKEN cannot be used: character 8 is" in result.said
    assert leaked(TOKEN, result.text.encode()) is None


# GitHub that echoes.


@pytest.fixture
def github(lab: Lab) -> Iterator[FakeGitHub]:
    with running_fakegithub(FakeGitHub(token=TOKEN)) as fake:
        lab.project.shell("git init -q && git remote add origin https://github.com/acme/widgets")
        lab.env |= {"GITHUB_API_URL": fake.url}
        lab.secrets = (KEY, TOKEN)
        yield fake


def test_issues_with_the_token_in_them_are_read_without_it(lab: Lab, github: FakeGitHub) -> None:
    for number, form in enumerate(FORMS, start=1):
        if number <= 6:
            github.add(f"Title of {number} {FORMS[form](TOKEN)}", body=f"The token is {FORMS[form](TOKEN)}.")
    result = lab.run("lld", "--all", "-j3", "-v", "--source", "github")
    assert result.code == Exit.OK, result
    assert not [prompt for prompt in lab.echo.prompts if TOKEN in prompt]
    planned = lab.run("lld", "--all", "--dry-run", "--source", "github")
    lab.assert_nothing_written(result, planned)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "base64", "percent", "zero-width", "piece"])
def test_github_errors_are_told_without_the_token(lab: Lab, github: FakeGitHub, form: str) -> None:
    echo = FORMS[form](TOKEN)
    lab.project.brief("one")
    lab.project.brief("two")
    answered = json.dumps({"number": 7, "title": echo, "html_url": f"https://github.test/{TOKEN}/7"})
    github.next_posts(refusal(422, f"You sent {echo}"), Fault(creates=True, status=201, body=answered))
    result = lab.run("issue", "--all", "--file", "--yes", "-v")
    assert result.code == Exit.ATTENTION, result
    assert "You sent" in result.said
    with contextlib.closing(sqlite3.connect(lab.project.home / "records.db")) as database:
        assert database.execute("SELECT count(*) FROM filing WHERE number = 7").fetchone() == (1,)
    github.next_lists(refusal(403, f"You sent {echo}"))
    listed = lab.run("lld", "--all", "--source", "github")
    assert listed.code == Exit.FAILED, listed
    lab.assert_nothing_written(result, listed)


# The code itself.


def test_a_secret_is_revealed_in_four_places_only() -> None:
    source = Path(agentos.__file__).parent
    places = {
        str(path.relative_to(source)): len(re.findall(r"\breveal\b(?!\(self\))", path.read_text("utf-8")))
        for path in source.rglob("*.py")
    }
    assert {path: count for path, count in places.items() if count} == {
        "github/client.py": 1,  # the header of a call
        "github/exchange.py": 1,  # the login of a proxy
        "llm/http.py": 1,  # headers and the login of a proxy
        "wire.py": 1,  # the lease or the job that brings it to a worker
    }
