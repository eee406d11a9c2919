"""A project in a temporary folder, the real command in it, and eyes on every process that comes of it."""

import contextlib
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent  # where the commands are installed that belong to this interpreter
METHODS = ("forkserver", "spawn")
# Starting every worker from nothing takes its time: all cases with it are in make chaos, some in make test.
USUAL_METHODS = ("forkserver", pytest.param("spawn", marks=pytest.mark.chaos))
STOP_SECONDS = 5.0  # the product's promise: from Ctrl+C to an empty process table
ORPHAN_SECONDS = 2.0  # the product's promise: from kill -9 of the coordinator to an empty process table
PREFIXED = re.compile(r"\[(?:LLD|ISSUE)-[A-Za-z0-9_-]+\] |\[COORDINATOR\] ")
_COUNT = itertools.count()


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Wait until the condition gives something true, and give that."""
    deadline = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for: {what}")
        time.sleep(0.01)


@dataclass(frozen=True)
class Process:
    """One living process of a sandbox."""

    pid: int
    parent: int
    session: int
    command: str


def _look_at(pid: int, root: bytes) -> Process | None:
    folder = Path(f"/proc/{pid}")
    try:
        stat = (folder / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        if stat[0] in {"Z", "X"}:
            return None
        marks = [os.fsencode((folder / "cwd").readlink())]
        marks += (folder / "environ").read_bytes().split(b"\0")
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None
    if not any(root in mark for mark in marks):
        return None
    return Process(pid=pid, parent=int(stat[1]), session=int(stat[3]), command=command)


class Finished:
    """A command that is over."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out[-3000:]}\n--- stderr\n{self.err[-3000:]}"

    @property
    def lines(self) -> list[str]:
        """Lines of standard output before the final summary."""
        head = re.split(r"\n\nRun \d{4}-", "\n" + self.out, maxsplit=1)[0]
        return [line for line in head.split("\n") if line]

    def assert_no_traceback(self) -> None:
        for text in (self.out, self.err):
            assert "Traceback (most recent call last)" not in text, self
            assert "This is a bug" not in text, self


class Command:
    """A command under way; its output goes to files, so that nothing blocks."""

    def __init__(self, sandbox: "Sandbox", popen: subprocess.Popen[bytes], files: tuple[Path, Path]) -> None:
        self.sandbox, self.popen = sandbox, popen
        self._files = files
        self.pid = popen.pid

    def text(self, number: int = 0) -> str:
        with self._files[number].open(encoding="utf-8", errors="replace", newline="") as file:
            return file.read()

    def wait(self, seconds: float = 90.0) -> Finished:
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            told = f"not over after {seconds:g} s:\n{self.text()[-2000:]}\n{self.text(1)[-2000:]}"
            raise AssertionError(f"{told}\n{self.sandbox.processes()}") from None
        return Finished(code, self.text(), self.text(1))

    def close(self) -> None:
        """Have nothing of it left open."""
        self.popen.wait(10)
        if self.popen.stdout is not None:
            self.popen.stdout.close()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        """What a terminal does with Ctrl+C: everyone in the foreground hears it."""
        os.killpg(self.pid, number)

    @property
    def peak_memory_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


class Sandbox:
    """A project, its home, and the environment its commands get; everything below the temporary folder."""

    def __init__(self, root: Path, method: str = "forkserver") -> None:
        self.root = root
        self._commands: list[Command] = []
        self.project = root / "project"
        self.home = root / "home"
        (self.project / ".git").mkdir(parents=True)
        (self.project / "issues" / "active").mkdir(parents=True)
        (self.project / "ideas" / "active").mkdir(parents=True)
        (root / "user").mkdir()
        # Unix sockets have short names only, and a test's own folder may be deep.
        self.tmp = root.parent / f"t{os.getpid()}-{next(_COUNT)}"
        self.tmp.mkdir()
        self.environment = {
            "PATH": f"{BIN}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": str(root / "user"),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            "AGENTOS_HOME": str(self.home),
            "AGENTOS_START_METHOD": method,
            "AGENTOS_MOCK_SHELL": "1",
        }

    def item(self, name: str | int, mock: str = "", body: str = "Do it well.") -> None:
        comment = f"\n<!-- mock: {mock} -->\n" if mock else ""
        text = f"# Item {name}\n\n{body}\n{comment}"
        (self.project / "issues" / "active" / f"{name}.md").write_bytes(text.encode("utf-8"))

    def items(self, count: int, mock: str = "") -> None:
        for number in range(1, count + 1):
            self.item(number, mock)

    def start(
        self,
        *arguments: str,
        program: str = "lld-workflow",
        env: dict[str, str] | None = None,
        stdout: int | None = None,
    ) -> Command:
        number = next(_COUNT)
        files = (self.root / f"out-{number}", self.root / f"err-{number}")
        files[0].touch()
        with files[0].open("wb") as out, files[1].open("wb") as err:
            popen = subprocess.Popen(
                [str(BIN / program), *arguments],
                cwd=self.project,
                env=self.environment | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=out if stdout is None else stdout,
                stderr=err,
                start_new_session=True,
            )
        made = Command(self, popen, files)
        self._commands.append(made)
        return made

    def run(
        self, *arguments: str, program: str = "lld-workflow", seconds: float = 90.0, **how: Any
    ) -> Finished:
        return self.start(*arguments, program=program, **how).wait(seconds)

    def shell(self, line: str, seconds: float = 90.0, **env: str) -> Finished:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.project,
            env=self.environment | env,
            capture_output=True,
            timeout=seconds,
            start_new_session=True,
            check=False,
        )
        return Finished(
            done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )

    # What there is.

    def processes(self) -> list[Process]:
        """Every living process whose folder or environment leads here."""
        root = os.fsencode(self.root)
        own = os.getpid()
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [found for pid in pids if pid != own and (found := _look_at(pid, root)) is not None]

    def workers(self, command: Command) -> list[Process]:
        """The processes that run items: session leaders that are not the command itself."""
        return [
            one
            for one in self.processes()
            if one.session == one.pid and one.pid != command.pid and "multiprocessing" in one.command
        ]

    def server(self, command: Command) -> Process | None:
        found = [one for one in self.processes() if "multiprocessing.forkserver" in one.command]
        return next((one for one in found if one.parent == command.pid), None)

    def assert_gone(self, seconds: float) -> float:
        """Wait until no process is left, as long as the product's promise goes; tell how long it took."""
        began = time.monotonic()
        while left := self.processes():
            if time.monotonic() - began > seconds:
                raise AssertionError(f"still there after {seconds:g} s: {left}")
            time.sleep(0.02)
        return time.monotonic() - began

    def kill_all(self) -> None:
        """Tidy up after a test, so that what it left cannot disturb another one."""
        for _ in range(50):
            left = self.processes()
            if not left:
                return
            for one in left:
                with contextlib.suppress(OSError):
                    os.kill(one.pid, signal.SIGKILL)
            time.sleep(0.05)

    def close(self) -> None:
        self.kill_all()
        for command in self._commands:
            command.close()
        # pytest keeps the folders of some runs; a hundred megabytes of x are not worth it.
        for path in [*self.root.glob("out-*"), *self.root.glob("home/logs/parallel/*/*.log")]:
            if path.stat().st_size > 5_000_000:
                path.unlink()

    def runs(self) -> list[Path]:
        folder = self.home / "logs" / "parallel"
        return sorted(folder.iterdir(), key=_run_order) if folder.is_dir() else []

    def summary(self, run: Path | None = None) -> dict[str, Any]:
        folder = run or self.runs()[-1]
        data: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
        return data

    def statuses(self, run: Path | None = None) -> dict[str, str]:
        return {row["id"]: row["status"] for row in self.summary(run)["items"]}

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """Events of all runs in order; a torn line is an error, but the last one of a killed run."""
        found: list[dict[str, Any]] = []
        for run in self.runs():
            path = run / "events.jsonl"
            lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
            found += [json.loads(line) for line in lines]
        return [event for event in found if name is None or event["event"] == name]

    def outcomes(self) -> Counter[str]:
        """How many outcome rows each item has."""
        with contextlib.closing(sqlite3.connect(self.home / "records.db")) as database:
            return Counter(row[0] for row in database.execute("SELECT item FROM outcome"))

    def checkpoints(self) -> list[str]:
        folder = self.home / "checkpoints"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def log(self, label: str) -> list[str]:
        return (self.runs()[-1] / f"{label}.log").read_text("utf-8").split("\n")[:-1]

    def assert_all_done_once(self, ids: Sequence[str | int]) -> None:
        """Every item is approved exactly once, whatever happened on the way."""
        wanted = dict.fromkeys(map(str, ids), 1)
        outcomes = dict(self.outcomes())
        assert outcomes == wanted, outcomes
        completed = dict(Counter(event["item"] for event in self.events("completed")))
        assert completed == wanted, completed
        for one in wanted:
            assert (self.project / "docs" / "lld" / "active" / f"LLD-{one}.md").is_file()
            done = self.project / "docs" / "lineage" / "done"
            trails = [path.name for path in done.glob(f"{one}-lld*")]
            assert trails == [f"{one}-lld"], trails
            names = sorted(path.name for path in (done / f"{one}-lld").iterdir())
            assert names == ["001-issue.md", "002-draft.md", "003-verdict.md", "004-final.md"], names
        assert self.checkpoints() == [], self.checkpoints()


def _run_order(path: Path) -> tuple[str, int]:
    moment, _, number = path.name.partition("Z")
    return moment, int(number.removeprefix("-") or 1)


@contextlib.contextmanager
def sandbox(root: Path, method: str = "forkserver") -> Iterator[Sandbox]:
    made = Sandbox(root, method)
    try:
        yield made
    finally:
        made.close()


def unprefixed(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not PREFIXED.match(line)]
