"""Fixtures of every test: a temporary project in which the real command is started, with a clean setting."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(sys.executable).parent
MODULE = (sys.executable, "-m", "agentos")
SCRIPT = (str(SCRIPTS / "agentos"),)
REVIEWS = Path(__file__).parent / "unit" / "reviews"


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def json(self) -> Any:
        """What standard output says; it must be one JSON document and nothing else."""
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """Everything on one line with single blanks, so that no test depends on where a line is broken."""
        return " ".join(self.text.split())


@dataclass(kw_only=True)
class Project:
    """A project below a temporary folder, and the command run in it."""

    root: Path
    environment: dict[str, str]
    home: Path = field(init=False)
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.root / ".agentos"

    # What is put in.

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def issue(self, item: str | int, text: str = "", mock: str = "") -> Path:
        """Put an issue in, with a script for the mock."""
        return self.write(f"issues/active/{item}.md", _document(str(item), text, mock))

    def brief(self, slug: str, text: str = "", mock: str = "") -> Path:
        return self.write(f"ideas/active/{slug}.md", _document(slug, text, mock))

    # What is run.

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return self.environment | dict(more or {})

    def start(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        command: Sequence[str] = MODULE,
    ) -> subprocess.Popen[str]:
        """Start the command and leave it running; it is ended with the test at the latest."""
        process = subprocess.Popen(
            [*command, *map(str, args)],
            cwd=cwd or self.root,
            env=self.env(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str], timeout: float = 60) -> Result:
        """Wait for a command; nothing it prints may be a traceback."""
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{process.args!r} took more than {timeout} s.\n{out}\n{err}")
        result = Result(code=process.returncode, out=out, err=err)
        assert "Traceback" not in result.text, result.text
        return result

    def run(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        command: Sequence[str] = MODULE,
        timeout: float = 60,
    ) -> Result:
        """Run the command to its end."""
        return self.finish(self.start(*args, env=env, cwd=cwd, command=command), timeout)

    def lld(self, *args: str | Path, **how: Any) -> Result:
        return self.run("lld", *args, "--mock", **how)

    def briefs(self, *args: str | Path, **how: Any) -> Result:
        return self.run("issue", *args, "--mock", **how)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    # What is left behind.

    def runs(self) -> list[Path]:
        folder = self.home / "logs" / "parallel"
        return sorted(folder.iterdir(), key=_run_order) if folder.is_dir() else []

    def summary(self, run: int = -1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.runs()[run] / "summary.json").read_text("utf-8"))
        return found

    def row(self, item: str, run: int = -1) -> dict[str, Any]:
        found: dict[str, Any] = next(row for row in self.summary(run)["items"] if row["id"] == item)
        return found

    def statuses(self, run: int = -1) -> dict[str, str]:
        return {row["id"]: row["status"] for row in self.summary(run)["items"]}

    def events(self, run: int | None = None) -> list[dict[str, Any]]:
        """The events of one run, or of all."""
        return self._lines("events.jsonl", run)

    def audits(self, item: str, run: int | None = None) -> list[dict[str, Any]]:
        return self._lines(f"workflow-audit-{item}.jsonl", run)

    def calls(self, item: str, run: int | None = None) -> list[tuple[str, int]]:
        """The calls that were paid for, in order."""
        return [(one["role"], one["number"]) for one in self.audits(item, run) if one["kind"] == "call"]

    def _lines(self, name: str, run: int | None) -> list[dict[str, Any]]:
        runs = self.runs() if run is None else [self.runs()[run]]
        files = [folder / name for folder in runs if (folder / name).is_file()]
        return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]

    def lineage(self, name: str, where: str = "done") -> list[str]:
        folder = self.root / "docs" / "lineage" / where / name
        return sorted(path.name for path in folder.glob("[!.]*"))

    def read(self, name: str | Path) -> str:
        return (self.root / name).read_text("utf-8")

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}

    def snapshot(self) -> dict[str, tuple[Any, ...]]:
        """Everything about every file, to tell a command that changes nothing from one that does."""
        return {str(path.relative_to(self.root)): _state(path) for path in (self.root, *self.root.rglob("*"))}


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


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Wait for something to come true; give what it came to."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come within {seconds} s")
        time.sleep(0.005)
    return found


def processes_of(root: Path) -> list[int]:
    """Every process, zombies apart, that works in the project."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()[0]
            inside = (entry / "cwd").readlink().is_relative_to(root)
        except OSError:
            continue
        if inside and state != "Z":
            found.append(int(entry.name))
    return found


def kill(pid: int) -> bool:
    """Kill without a warning; tell whether there was anything to kill."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def make_project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Project]]:
    """Make projects below the test's temporary folder; none sees anything of the user's."""
    made: list[Project] = []
    scratch = tmp_path_factory.mktemp("t")  # short: the path of a socket may have 107 characters at most
    user = tmp_path / "user"
    user.mkdir()

    def make(name: str = "project") -> Project:
        root = tmp_path / name
        root.mkdir()
        environment = {
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(user),
            "TMPDIR": str(scratch),
            "LANG": "C.UTF-8",
        }
        project = Project(root=root, environment=environment)
        made.append(project)
        return project

    yield make
    for project in made:
        project.close()


@pytest.fixture
def project(make_project: Callable[[str], Project]) -> Project:
    """An empty project: the folders and a configuration file, no item."""
    made = make_project("project")
    made.write("agentos.toml", "")
    for folder in ("issues/active", "ideas/active"):
        (made.root / folder).mkdir(parents=True)
    return made
