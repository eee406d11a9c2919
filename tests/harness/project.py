"""A project in a temporary folder: runs the real command and reads all it leaves behind."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agentos.store.home import Home
from agentos.store.known_homes import register_of
from harness.processes import Process, kill_all_below, processes_below, wait_until
from harness.warm import WarmProcess, WarmServer

SCRIPTS = Path(sys.executable).parent  # the commands of this interpreter's environment
MODULE = (sys.executable, "-m", "agentos")
SCRIPT = (str(SCRIPTS / "agentos"),)
METHODS = ("forkserver", "spawn")
STOP_SECONDS = 5.0  # the product's promise: from Ctrl+C to an empty process table
ORPHAN_SECONDS = 2.0  # the product's promise: from kill -9 of the coordinator to an empty process table
PREFIXED = re.compile(r"\[(?:LLD|ISSUE)-[A-Za-z0-9_-]+\] |\[COORDINATOR\] ")
_LARGE_FILE = 5_000_000


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out[-3000:]}\n--- stderr\n{self.err[-3000:]}"

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def json(self) -> Any:
        """Standard output as JSON; it must be one document and nothing else."""
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """Everything on one line with single spaces, so that no test depends on line breaks."""
        return " ".join(self.text.split())

    @property
    def lines(self) -> list[str]:
        """Lines of standard output before the final summary."""
        # No line of a run is empty, so the first empty one is where the ending begins.
        head = re.split(_ENDING, "\n" + self.out, maxsplit=1)[0]
        return [line for line in head.split("\n") if line]

    def assert_no_traceback(self) -> None:
        for text in (self.out, self.err):
            assert "Traceback (most recent call last)" not in text, self
            assert "This is a bug" not in text, self


_ENDING = r"\n\n(?:Needs you: |Approved:|This run:|Next:|nothing pending|\d+ )"


class Command:
    """A running command; its output goes to files, so that nothing blocks."""

    def __init__(self, process: subprocess.Popen[bytes] | WarmProcess, files: tuple[Path, Path]) -> None:
        self._process = process
        self._files = files
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def text(self, number: int = 0) -> str:
        """What it has printed so far on standard output (0) or standard error (1)."""
        with self._files[number].open(encoding="utf-8", errors="replace", newline="") as file:
            return file.read()

    def line(self, number: int = 0) -> str:
        """Wait for its first whole line."""
        wait_until(lambda: "\n" in self.text(number) or self.poll() is not None, "its first line")
        return self.text(number).partition("\n")[0]

    def wait(self, seconds: float = 90.0) -> Result:
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            shown = f"{self.text()[-2000:]}\n{self.text(1)[-2000:]}"
            raise AssertionError(f"still running after {seconds:g} s:\n{shown}") from None
        return Result(code=code, out=self.text(), err=self.text(1))

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        """Ctrl+C as a terminal does it: every foreground process gets the signal."""
        os.killpg(self.pid, number)

    def close(self) -> None:
        """Leave nothing of it running or open."""
        if self.poll() is None:
            self.signal(signal.SIGKILL)
        self._process.wait(10)
        if isinstance(self._process, subprocess.Popen) and self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def peak_memory_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


@dataclass(kw_only=True)
class Project:
    """A project in a temporary folder, and the command run in it."""

    root: Path
    outside: Path  # the folder around it; it also belongs to the test
    environment: dict[str, str]
    warm: WarmServer | None = None  # forks commands, unless a test is about their start
    command: Sequence[str] = MODULE
    home: Path = field(init=False)
    _started: list[Command] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.home = self.root / ".agentos"

    # Setting up.

    def init(self) -> Self:
        """Make it a project: folders and a configuration file, no items."""
        self.write("agentos.toml", "")
        for folder in ("issues/active", "ideas/active"):
            (self.root / folder).mkdir(parents=True)
        return self

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def issue(self, item: str | int, text: str = "", mock: str = "") -> Path:
        """Add an issue, with a script for the mock."""
        return self.write(f"issues/active/{item}.md", _document(str(item), text, mock))

    def issues(self, count: int, mock: str = "") -> None:
        """Add the issues 1, 2, ..., all with the same script."""
        for number in range(1, count + 1):
            self.issue(number, mock=mock)

    def brief(self, slug: str, text: str = "", mock: str = "") -> Path:
        return self.write(f"ideas/active/{slug}.md", _document(slug, text, mock))

    def make_home(self) -> Path:
        """Make the home that the first run would make: empty, and registered to this user."""
        Home(path=self.home, register=register_of(self.environment)).create()
        return self.home

    # Running.

    @property
    def tmp(self) -> Path:
        """The temporary folder of the commands."""
        return Path(self.environment["TMPDIR"])

    def start(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        command: Sequence[str] | None = None,
        stdout: int | None = None,
    ) -> Command:
        """Start the command and leave it running; the test ends it at the latest."""
        number = next(self._numbers)
        files = (self.tmp / f"out-{number}", self.tmp / f"err-{number}")
        environment = self.environment | dict(env or {})
        words = [str(word) for word in args]
        process: subprocess.Popen[bytes] | WarmProcess
        with files[0].open("wb") as out, files[1].open("wb") as err, Path(os.devnull).open("rb") as null:
            if self.warm and not command and stdout is None and not any(map(_cold_only, env or {})):
                streams = [file.fileno() for file in (null, out, err)]
                process = self.warm.start(words, cwd=cwd or self.root, env=environment, streams=streams)
            else:
                process = subprocess.Popen(
                    [*(command or self.command), *words],
                    cwd=cwd or self.root,
                    env=environment,
                    stdin=null,
                    stdout=out if stdout is None else stdout,
                    stderr=err,
                    start_new_session=True,
                )
        self._started.append(Command(process, files))
        return self._started[-1]

    def finish(self, command: Command, timeout: float = 60) -> Result:
        """Wait for a command; it must not print a traceback."""
        result = command.wait(timeout)
        result.assert_no_traceback()
        return result

    def run(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        command: Sequence[str] | None = None,
        timeout: float = 90,
    ) -> Result:
        """Run the command and wait for it."""
        return self.finish(self.start(*args, env=env, cwd=cwd, command=command), timeout)

    def lld(self, *args: str | Path, **how: Any) -> Result:
        return self.run("lld", *args, "--mock", **how)

    def briefs(self, *args: str | Path, **how: Any) -> Result:
        return self.run("issue", *args, "--mock", **how)

    def shell(self, line: str, seconds: float = 90.0, **env: str) -> Result:
        """Run a line of bash."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.root,
            env=self.environment | env,
            capture_output=True,
            timeout=seconds,
            start_new_session=True,
            check=False,
        )
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return Result(code=done.returncode, out=out, err=err)

    def close(self) -> None:
        kill_all_below(self.outside)
        for command in self._started:
            command.close()
        # pytest keeps the folders of some runs; large outputs are not worth keeping.
        for path in [*self.tmp.glob("out-*"), *self.home.glob("logs/parallel/*/*.log")]:
            if path.lstat().st_size > _LARGE_FILE:
                path.unlink()

    # Processes.

    def processes(self) -> list[Process]:
        """Every living process of the test."""
        return processes_below(self.outside)

    def server(self, command: Command) -> Process | None:
        """The server process that a run forks its workers from."""
        found = [one for one in self.processes() if "multiprocessing.forkserver" in one.command]
        return next((one for one in found if one.parent == command.pid), None)

    def assert_gone(self, seconds: float) -> None:
        """Wait until no process is left; fail after the time that the product promises."""
        began = time.monotonic()
        while left := self.processes():
            assert time.monotonic() - began <= seconds, f"still there after {seconds:g} s: {left}"
            time.sleep(0.02)

    # Results.

    def runs(self) -> list[Path]:
        folder = self.home / "logs" / "parallel"
        return sorted(folder.iterdir(), key=_run_order) if folder.is_dir() else []

    def summary(self, run: int | Path = -1) -> dict[str, Any]:
        folder = run if isinstance(run, Path) else self.runs()[run]
        found: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
        return found

    def row(self, item: str, run: int | Path = -1) -> dict[str, Any]:
        found: dict[str, Any] = next(row for row in self.summary(run)["items"] if row["id"] == item)
        return found

    def statuses(self, run: int | Path = -1) -> dict[str, str]:
        return {row["id"]: row["status"] for row in self.summary(run)["items"]}

    def events(self, name: str | None = None, *, run: int | None = None) -> list[dict[str, Any]]:
        """The events of one run, or of all. A torn line is an error, except the last one of a killed run."""
        return [one for one in self._lines("events.jsonl", run) if name is None or one["event"] == name]

    def audits(self, item: str, run: int | None = None) -> list[dict[str, Any]]:
        return self._lines(f"workflow-audit-{item}.jsonl", run)

    def calls(self, item: str, run: int | None = None) -> list[tuple[str, int]]:
        """The calls that were paid for, in order."""
        return [(one["role"], one["number"]) for one in self.audits(item, run) if one["kind"] == "call"]

    def _lines(self, name: str, run: int | None) -> list[dict[str, Any]]:
        runs = self.runs() if run is None else [self.runs()[run]]
        files = [folder / name for folder in runs if (folder / name).is_file()]
        return [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n")[:-1]]

    def log(self, label: str) -> list[str]:
        """The lines of an item's log in the latest run."""
        return (self.runs()[-1] / f"{label}.log").read_text("utf-8").split("\n")[:-1]

    def outcomes(self) -> Counter[str]:
        """How many outcome rows each item has."""
        with contextlib.closing(sqlite3.connect(self.home / "records.db")) as database:
            return Counter(row[0] for row in database.execute("SELECT item FROM outcome"))

    def checkpoints(self) -> list[str]:
        folder = self.home / "checkpoints"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def trails(self, name: str) -> list[Path]:
        """The finished lineages of an item, one per run."""
        own = re.compile(re.escape(name) + r"(-[0-9a-f]+)?")
        done = self.root / "docs" / "lineage" / "done"
        return sorted(path for path in done.glob("*") if own.fullmatch(path.name))

    def lineage(self, name: str, where: str = "done") -> list[str]:
        """The files of an item's lineage: the finished one, or the active one."""
        folder = self.root / "docs" / "lineage" / where / name
        if where == "done":
            found = self.trails(name)
            assert len(found) <= 1, found
            folder = found[0] if found else folder
        return sorted(path.name for path in folder.glob("[!.]*"))

    def read(self, name: str | Path) -> str:
        return (self.root / name).read_text("utf-8")

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}

    def snapshot(self) -> dict[str, tuple[Any, ...]]:
        """Everything about every file, to check that a command changes nothing."""
        return {str(path.relative_to(self.root)): _state(path) for path in (self.root, *self.root.rglob("*"))}

    def assert_all_done_once(self, ids: Sequence[str | int]) -> None:
        """Check that every item is approved exactly once, whatever happened on the way."""
        wanted = dict.fromkeys(map(str, ids), 1)
        outcomes = dict(self.outcomes())
        assert outcomes == wanted, outcomes
        completed = dict(Counter(event["item"] for event in self.events("completed")))
        assert completed == wanted, completed
        for one in wanted:
            assert (self.root / "docs" / "lld" / "active" / f"LLD-{one}.md").is_file()
            done = (self.root / "docs" / "lineage" / "done").glob(f"{one}-lld*")
            trails = [path.name for path in done]
            assert trails == [f"{one}-lld"], trails
            names = self.lineage(f"{one}-lld")
            assert names == ["001-issue.md", "002-draft.md", "003-verdict.md", "004-final.md"], names
        assert self.checkpoints() == [], self.checkpoints()


@contextlib.contextmanager
def new_project(
    outside: Path,
    *,
    name: str = "project",
    env: Mapping[str, str] | None = None,
    warm: WarmServer | None = None,
) -> Iterator[Project]:
    """Make an empty folder, and an environment without anything of the user."""
    root = outside / name
    root.mkdir()
    (outside / "user").mkdir(exist_ok=True)
    # Short: a socket path has at most 107 characters, and a test's own folder may be deep.
    tmp = outside.parent / f"t{os.getpid()}-{next(_COUNT)}"
    tmp.mkdir()
    environment = {
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(outside / "user"),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
    } | dict(env or {})
    project = Project(root=root, outside=outside, environment=environment, warm=warm)
    try:
        yield project
    finally:
        project.close()
        shutil.rmtree(tmp, ignore_errors=True)


_COUNT = itertools.count()


def unprefixed(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not PREFIXED.match(line)]


def _cold_only(variable: str) -> bool:
    """Whether the interpreter, or C, reads this variable when it starts."""
    return variable.startswith(("PYTHON", "LC_", "LANG", "LD_", "TZ"))


def _document(name: str, text: str, mock: str) -> str:
    body = text or f"# Title of {name}\n\nWhat is wanted of {name}.\n"
    return f"{body}\n<!-- mock: {mock} -->\n" if mock else body


def _run_order(path: Path) -> tuple[str, int]:
    moment, _, number = path.name.partition("Z")
    return moment, int(number.lstrip("-") or 1)


def _state(path: Path) -> tuple[Any, ...]:
    info = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return info.st_mode, info.st_mtime_ns, info.st_size if path.is_file() else 0, info.st_ino, content
