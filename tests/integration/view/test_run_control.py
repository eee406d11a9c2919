"""Starting and stopping runs over the page's routes: off by default, known actions only, one signal only."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from agentos.app.inbox import answer_discussion
from agentos.model import Item, Status
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.store.records import Records
from agentos.view import runner as module
from agentos.view.access import Door, Guard
from agentos.view.runner import Runner
from agentos.view.server import make_view
from harness.processes import wait_until
from harness.records import begin, end, hold

RUN = "2026-11-16T00-37-24.647Z"
TOKEN = "t" * 43
OURS = "http://127.0.0.1:8765"
COMMAND = "agentos --home /h lld --retry-failed --max-retries 2"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(path=tmp_path / "project" / ".agentos").create()
    run = made.runs / RUN
    run.mkdir(parents=True)
    (run / ".lock").touch()
    items = [
        {"id": "41", "label": "LLD-41", "status": "approved", "attempts": 1},
        {"id": "42", "label": "LLD-42", "status": "failed", "attempts": 1},
    ]
    summary = {"workflow": "lld", "items": items, "totals": {"failed": 1}, "exit_code": 1}
    (run / "summary.json").write_text(json.dumps(summary), "utf-8")
    flags = ["--all", "--max-retries 2"]
    started = {"event": "run_started", "run_id": RUN, "items": 2, "parallel": 1, "flags": flags}
    (run / "events.jsonl").write_text(json.dumps(started) + "\n", "utf-8")
    return made


@pytest.fixture
def runner(home: Home, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """A runner whose program prints its arguments."""
    program = "import sys; print('started', sys.argv[1:]); sys.exit(3)"
    monkeypatch.setattr(module, "AGENTOS", (sys.executable, "-c", program))
    environment = {"PATH": os.environ["PATH"]}
    return Runner(home=home, worktree=home.path.parent, environment=environment, flags=["--home", "/h"])


def client_of(home: Home, runner: Runner | None) -> TestClient:
    view = make_view(
        home=home,
        worktree=home.path.parent,
        folders=Settings().folders,
        failed=lambda *_: None,
        runner=runner,
        program="agentos --home /h",
        settings=Settings(),
    )
    return TestClient(
        Guard(view.app(), Door(port=8765, token=TOKEN)),
        base_url=OURS,
        headers={"Authorization": f"Bearer {TOKEN}", "Origin": OURS},
        raise_server_exceptions=False,
    )


@pytest.fixture
def client(home: Home, runner: Runner) -> TestClient:
    return client_of(home, runner)


def ended(client: TestClient) -> dict[str, Any]:
    def look() -> Any:
        started = client.get("/api/started").json()["started"]
        return started and started[0]["exit_code"] is not None and started[0]

    found: dict[str, Any] = wait_until(look, "the end of the command")
    return found


def test_it_is_off_unless_allowed(home: Home) -> None:
    client = client_of(home, None)
    assert client.get("/api/started").json() == {"allowed": False, "started": []}
    for path, body in (
        ("/api/start", {"action": "retry", "run": RUN, "command": COMMAND}),
        ("/api/stop", {"run": RUN}),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 403
        assert "--allow-run" in refused.json()["error"]
    assert client.get(f"/api/runs/{RUN}/commands").status_code == 403


def test_a_command_is_started_as_it_was_confirmed(client: TestClient) -> None:
    [offered] = client.get(f"/api/runs/{RUN}/commands").json()["commands"]
    assert offered["command"] == COMMAND
    assert offered["budget"] == "No budget is set: it can cost any amount."
    wanted = {"action": "retry", "run": RUN, "command": offered["command"]}
    answer = client.post("/api/start", json=wanted)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"number": 1, "command": offered["command"]}
    one = ended(client)
    assert one["exit_code"] == 3
    assert one["printed"] == "started ['--home', '/h', 'lld', '--retry-failed', '--max-retries', '2']\n"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "retry", "run": RUN, "command": "agentos lld 42; id"}, 409),
        ({"action": "retry", "run": RUN}, 409),
        ({"action": "resume", "run": RUN, "command": COMMAND}, 409),
        ({"action": "exec", "run": RUN, "command": "sh"}, 409),
        ({"action": "retry", "run": "../x", "command": COMMAND}, 404),
        ({"action": "answer", "label": "--mock", "command": COMMAND}, 409),
        ({"action": "retry", "run": RUN, "command": COMMAND, "arguments": "--mock"}, 400),
        ({"action": ["retry"], "run": RUN}, 400),
        ([], 400),
    ],
)
def test_nothing_else_is_started(client: TestClient, body: Any, status: int) -> None:
    assert client.post("/api/start", json=body).status_code == status
    assert client.get("/api/started").json()["started"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:9999"},
        {"Authorization": "Bearer wrong"},
        {"Host": "evil.example:8765"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "text/plain"},
    ],
)
@pytest.mark.parametrize("path", ["/api/start", "/api/stop"])
def test_the_guard_holds_for_starting_and_stopping(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    body = json.dumps({"action": "retry", "run": RUN, "command": COMMAND})
    kind = {"Content-Type": "application/json"}
    assert client.post(path, content=body, headers=kind | headers).status_code == 403
    assert client.get("/api/started").json()["started"] == []


def test_an_answered_item_can_be_run(client: TestClient, home: Home) -> None:
    item = Item(workflow="lld", id="43", label="x", title="x", text="text", source="x")
    with Records(home.records) as records:
        begin(records, item, RUN)
        end(records, item, Status.DISCUSS, reviews=1, error="Wait or stop?")
    command = "agentos --home /h lld 43 --max-retries 2"
    wanted = {"action": "answer", "label": "LLD-43", "command": command}
    assert "not answered" in client.post("/api/start", json=wanted).json()["error"]
    answer_discussion(home, "43", answer="approve", note="")
    [one] = client.get("/api/inbox").json()["answered"]
    assert one["run"]["command"] == command
    assert client.post("/api/start", json=wanted).status_code == 200
    assert "'lld', '43'" in ended(client)["printed"]


def test_the_same_command_is_not_started_twice(
    client: TestClient, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGENTOS", (sys.executable, "-c", "import time; time.sleep(60)"))
    [offered] = client.get(f"/api/runs/{RUN}/commands").json()["commands"]
    wanted = {"action": "retry", "run": RUN, "command": offered["command"]}
    assert client.post("/api/start", json=wanted).status_code == 200
    again = client.post("/api/start", json=wanted)
    assert (again.status_code, "already running" in again.json()["error"]) == (409, True)
    [started] = runner.running()
    started.process.kill()
    assert ended(client)["exit_code"] == -9


LIVE = "2026-11-17T00-00-00.000Z"
COORDINATOR = """
import signal, sys, time
from pathlib import Path
from agentos.store.run_folder import RunFolder

signal.signal(signal.SIGINT, lambda *_: print("asked to stop", flush=True))
folder = RunFolder(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def live(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock of a run and says when it gets a signal."""
    run = home.runs / LIVE
    run.mkdir()
    process = subprocess.Popen([sys.executable, "-c", COORDINATOR, str(run)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_run_is_asked_to_stop_once(
    client: TestClient, live: subprocess.Popen[bytes], has_pidfd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pidfd:  # as on macOS
        monkeypatch.delattr(os, "pidfd_open")
    said = client.post("/api/stop", json={"run": LIVE})
    assert said.json() == {"told": "Stopping; progress is saved. Run the same command to resume."}
    assert live.stdout is not None
    assert live.stdout.readline() == b"asked to stop\n"
    again = client.post("/api/stop", json={"run": LIVE})
    assert (again.status_code, "already stopping" in again.json()["error"]) == (409, True)


def test_a_process_of_another_machine_gets_no_signal(
    home: Home, client: TestClient, live: subprocess.Popen[bytes]
) -> None:
    lock = home.runs / LIVE / ".lock"
    lock.write_text(json.dumps({"pid": live.pid, "host": "far"}))
    refused = client.post("/api/stop", json={"run": LIVE})
    assert "The run is on far. Stop it there" in refused.json()["error"]
    assert live.poll() is None


def test_a_process_that_only_the_records_name_gets_no_signal(
    home: Home, client: TestClient, live: subprocess.Popen[bytes]
) -> None:
    """Anybody with a role in a shared database can write there."""
    (home.runs / LIVE / ".lock").write_text("")
    with Records(home.records) as records:
        hold(records, Item(workflow="lld", id="44", label="x", title="x", text="text", source="x"), LIVE)
    refused = client.post("/api/stop", json={"run": LIVE})
    assert "process is unknown" in refused.json()["error"]
    assert refused.status_code == 409


def test_what_is_over_or_unknown_cannot_be_stopped(client: TestClient) -> None:
    assert client.post("/api/stop", json={"run": RUN}).status_code == 409
    assert client.post("/api/stop", json={"run": "nothing"}).status_code == 404
    assert client.post("/api/stop", json={}).status_code == 404
    assert client.post("/api/stop", json={"run": 3}).status_code == 400


def test_what_is_started_has_a_session_and_a_private_file_of_its_own(
    home: Home, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import os; print(os.getsid(0) == os.getpid(), os.getcwd())"
    monkeypatch.setattr(module, "AGENTOS", (sys.executable, "-c", script))
    [offered] = client.get(f"/api/runs/{RUN}/commands").json()["commands"]
    client.post("/api/start", json={"action": "retry", "run": RUN, "command": offered["command"]})
    assert ended(client)["printed"] == f"True {home.path.parent}\n"
    assert (home.path / "logs" / "view-started-1.txt").stat().st_mode & 0o777 == 0o600
