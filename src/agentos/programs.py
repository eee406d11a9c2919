"""Starts programs: where they are searched, and which variables they get.

A repository can influence neither. A program is searched only on absolute entries of PATH outside the
project, and never gets a key: git, gh and command models get what they need; the user's own programs get
everything that does not look secret. No other module starts a program; ruff enforces that.
"""

import contextlib
import os
import re
import selectors
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from agentos.os_process import TOKEN_VARIABLE

TOOL_SECONDS = 5.0  # for git and gh, which answer one small question each
MAX_OUTPUT_BYTES = 64_000_000  # of git and gh
LAUNCH_SECONDS = 2.0  # a program that runs longer works

_CHUNK = 1 << 20
_SECRET = re.compile(
    r"(?:^|_|PG)"
    r"(?:API_?KEYS?|ACCESS_KEY|PRIVATE_KEY|TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|PASSFILE|CREDENTIALS?"
    r"|DATABASE_URL|DSN|HEADERS)(?:_|$)",
    re.IGNORECASE,
)
# What git and gh need to find the user's settings and language.
_TOOLS_NEED = re.compile(r"HOME|USER|LOGNAME|LANG|LANGUAGE|TZ|TMPDIR|SYSTEMROOT|LC_\w+|XDG_\w+")
_GIT_NEEDS = re.compile(r"GIT_CONFIG(?:_\w+)?|GIT_CEILING_DIRECTORIES|GIT_DISCOVERY_ACROSS_FILESYSTEM")
_GH_NEEDS = re.compile(r"GH_CONFIG_DIR|DBUS_SESSION_BUS_ADDRESS")
_MODELS_NEED = re.compile(rf"SHELL|NO_COLOR|SSL_CERT_FILE|SSL_CERT_DIR|{TOKEN_VARIABLE}")
# The repository's own git configuration can name programs: hooks, watchers, pagers.
_GIT_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
    # A folder in the worktree can look like a bare repository with its own settings and index.
    *("-c", "safe.bareRepository=explicit"),
)
_GIT_VARIABLES = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}

Environment = Mapping[str, str]
_Folders = frozenset[tuple[int, int]]  # by device and inode, since a folder can have many names


def find_program(name: str, environment: Environment, worktree: Path | None) -> str | None:
    """Find a program outside the project, by an absolute path or on the allowed entries of PATH."""
    project = _project(worktree, environment)
    if os.sep in name:
        places = [Path(name)] if Path(name).is_absolute() else []
    else:
        places = [Path(folder, name) for folder in _entries(environment, project)]
    return next((str(path) for path in places if _can_run(path) and not _inside(path, project)), None)


def search_path(environment: Environment, worktree: Path | None) -> str:
    """The PATH for a started program: only absolute entries outside the project."""
    return os.pathsep.join(_entries(environment, _project(worktree, environment))) or os.defpath


def personal_environment(
    environment: Environment, worktree: Path | None, *, keys: Iterable[str]
) -> dict[str, str]:
    """The variables for the user's own program: all except key variables and those that look secret."""
    hidden = set(keys)
    kept = {
        name: text for name, text in environment.items() if name not in hidden and not _SECRET.search(name)
    }
    return kept | {"PATH": search_path(environment, worktree)}


def model_environment(environment: Environment, worktree: Path | None) -> dict[str, str]:
    """The variables for a command model: enough to find its login, and the worker's token."""
    return _tool_environment(environment, worktree, _MODELS_NEED)


def git(
    arguments: Sequence[str],
    environment: Environment,
    worktree: Path | None,
    *,
    seconds: float = TOOL_SECONDS,
    given: bytes = b"",
    most: int = MAX_OUTPUT_BYTES,
) -> bytes | None:
    """Ask git about the worktree; None if git is missing or fails, takes too long or prints too much."""
    place = [] if worktree is None else ["-C", str(worktree.absolute())]
    variables = _tool_environment(environment, worktree, _GIT_NEEDS) | _GIT_VARIABLES
    program = find_program("git", environment, worktree)
    if program is None:
        return None
    return _ask([program, *_GIT_OPTIONS, *place, *arguments], variables, seconds, given=given, most=most)


def gh(
    arguments: Sequence[str],
    environment: Environment,
    worktree: Path | None,
    *,
    also: Iterable[str] = (),
    seconds: float = TOOL_SECONDS,
) -> bytes | None:
    """Ask gh, which also gets the variables in `also`; None if gh is missing or fails."""
    variables = _tool_environment(environment, worktree, _GH_NEEDS) | {"GH_PROMPT_DISABLED": "1"}
    variables |= {name: environment[name] for name in also if name in environment}
    program = find_program("gh", environment, worktree)
    return None if program is None else _ask([program, *arguments], variables, seconds)


def attend(command: Sequence[str], environment: Environment) -> int:
    """Run a program on the user's terminal until it ends; return its exit code."""
    return subprocess.run(command, env=dict(environment), check=False).returncode


def launch(command: Sequence[str], environment: Environment) -> bool:
    """Start a program in the background, detached from the terminal; return whether it seems to work."""
    try:
        started = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=os.sep,  # not in the project: some programs read files from the current folder
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return started.wait(LAUNCH_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return True
    except (OSError, ValueError):
        return False


def start(
    command: Sequence[str], environment: Environment, *, folder: Path, stdin: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a program in a folder, in its own process group, with its output on pipes."""
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


DetachedProcess = subprocess.Popen[bytes]


def start_detached(
    command: Sequence[str], environment: Environment, *, folder: Path, output: int
) -> DetachedProcess:
    """Start a program that outlives us, in its own session; it writes to an open file."""
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def start_filter(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program of our own that answers on pipes; it knows nothing of the environment."""
    return subprocess.Popen(
        command,
        env={"LC_ALL": "C.UTF-8"},
        cwd=os.sep,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        process_group=0,  # Ctrl+C is for us; it ends with its input
    )


def shell(line: str, environment: Environment, worktree: Path | None) -> None:
    """Run a shell line that the user allowed; it shares our output streams."""
    found = find_program("sh", environment, worktree) or "/bin/sh"
    subprocess.run([found, "-c", line], env=dict(environment), stdin=subprocess.DEVNULL, check=False)


def work_folder(environment: Environment, worktree: Path | None) -> tempfile.TemporaryDirectory[str]:
    """Create a work folder for a program where as few others as possible can write to the folders above.

    Programs read settings from every folder above theirs: a project's, and what anyone puts into /tmp.
    """
    project = _project(worktree, environment)
    usual = Path(tempfile.gettempdir())
    places = [usual]
    if (home := Path(environment.get("HOME", ""))).is_absolute() and home.is_dir():
        places.append(home / ".cache" / "agentos")
    allowed = [place for place in places if not _inside(place, project)] or [usual]
    chosen = min(allowed, key=_shared_above)
    try:
        chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        chosen = usual
    return tempfile.TemporaryDirectory(prefix="agentos-", dir=chosen, ignore_cleanup_errors=True)


def _tool_environment(
    environment: Environment, worktree: Path | None, more: re.Pattern[str]
) -> dict[str, str]:
    kept = {
        name: text
        for name, text in environment.items()
        if _TOOLS_NEED.fullmatch(name) or more.fullmatch(name)
    }
    return kept | {"PATH": search_path(environment, worktree)}


def _ask(
    command: Sequence[str],
    environment: Environment,
    seconds: float,
    *,
    given: bytes = b"",
    most: int = MAX_OUTPUT_BYTES,
) -> bytes | None:
    """Run a program that reads `given` and prints at most `most` bytes."""
    try:
        # A file, not a pipe: a program that prints before it has read everything cannot block us.
        with tempfile.TemporaryFile() if given else contextlib.nullcontext() as stdin:
            if stdin is not None:
                stdin.write(given)
                stdin.seek(0)
            asked = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=os.sep,
                stdin=stdin or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            with asked:
                try:
                    printed = _printed(asked, time.monotonic() + seconds, most)
                finally:
                    asked.kill()  # does nothing to one that has ended
            return printed if asked.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _printed(asked: subprocess.Popen[bytes], deadline: float, most: int) -> bytes:
    """Read everything until the program ends. Raises ValueError or TimeoutExpired."""
    assert asked.stdout is not None
    printed = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(asked.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise subprocess.TimeoutExpired(asked.args, left)
            data = os.read(asked.stdout.fileno(), _CHUNK)
            if not data:
                asked.wait(max(0.0, deadline - time.monotonic()))
                return bytes(printed)
            printed += data
            if len(printed) > most:
                raise ValueError("too much output")


def _entries(environment: Environment, project: _Folders) -> list[str]:
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    return [one for one in entries if Path(one).is_absolute() and not _inside(Path(one), project)]


def _project(worktree: Path | None, environment: Environment) -> _Folders:
    """The project's folder and the root of its git repository."""
    if worktree is None:
        return frozenset()
    real = worktree.resolve()
    repository = next((one for one in (real, *real.parents) if os.path.lexists(one / ".git")), real)
    home = environment.get("HOME")
    if home and Path(home).resolve().is_relative_to(repository):
        repository = real  # the whole home folder is in git; its programs are the user's own
    return frozenset(one for one in map(_identity, (real, repository)) if one is not None)


def _inside(path: Path, folders: _Folders) -> bool:
    """Whether a path leads into one of the folders, also through links."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):
        return True
    return any(_identity(one) in folders for one in (real, *real.parents))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _can_run(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _shared_above(folder: Path) -> int:
    """Count the folders, from this one upwards, that someone else can write to."""
    real = folder.resolve()
    return sum(_is_shared(one) for one in (real, *real.parents))


def _is_shared(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False  # does not exist yet, and will be ours
    group = found.st_mode & stat.S_IWGRP and found.st_gid not in {0, os.getgid()}
    return bool(found.st_mode & stat.S_IWOTH or group) or found.st_uid not in {0, os.getuid()}
