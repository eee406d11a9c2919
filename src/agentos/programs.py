"""Programs that are started: where they are looked for, and what they get to know. Every process.

A repository has no say in either. A program is found on absolute entries of PATH outside the project only,
and gets no key: git, gh and command models get what they need, a person's own programs all that does not look
secret. No other module starts a program; ruff sees to it.
"""

import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from agentos.process import TOKEN_VARIABLE

TOOL_SECONDS = 5.0  # for git and gh, which are asked one small thing each
LAUNCH_SECONDS = 2.0  # a program that stays longer is at work

_SECRET = re.compile(
    r"(?:^|_|PG)"
    r"(?:API_?KEYS?|ACCESS_KEY|PRIVATE_KEY|TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|PASSFILE|CREDENTIALS?"
    r"|DATABASE_URL|DSN|HEADERS)(?:_|$)",
    re.IGNORECASE,
)
# What git and gh need to find the user's own settings and to speak the user's language.
_TOOLS_NEED = re.compile(r"HOME|USER|LOGNAME|LANG|LANGUAGE|TZ|TMPDIR|SYSTEMROOT|LC_\w+|XDG_\w+")
_GIT_NEEDS = re.compile(r"GIT_CONFIG(?:_\w+)?|GIT_CEILING_DIRECTORIES|GIT_DISCOVERY_ACROSS_FILESYSTEM")
_GH_NEEDS = re.compile(r"GH_CONFIG_DIR|DBUS_SESSION_BUS_ADDRESS")
_MODELS_NEED = re.compile(rf"SHELL|NO_COLOR|SSL_CERT_FILE|SSL_CERT_DIR|{TOKEN_VARIABLE}")
# The repository's own configuration names programs, too: hooks, watchers, pagers.
_GIT_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
    # A folder of the worktree can look like a bare repository, with settings and an index of its own.
    *("-c", "safe.bareRepository=explicit"),
)
_GIT_VARIABLES = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}

Environment = Mapping[str, str]
_Folders = frozenset[tuple[int, int]]  # by device and inode: a folder may have many names


def find_program(name: str, environment: Environment, worktree: Path | None) -> str | None:
    """Find a program outside the project: by an absolute path, or on the entries of PATH that may be used."""
    project = _project(worktree, environment)
    if os.sep in name:
        places = [Path(name)] if Path(name).is_absolute() else []
    else:
        places = [Path(folder, name) for folder in _entries(environment, project)]
    return next((str(path) for path in places if _can_run(path) and not _inside(path, project)), None)


def search_path(environment: Environment, worktree: Path | None) -> str:
    """The PATH of a program that is started: absolute entries outside the project."""
    return os.pathsep.join(_entries(environment, _project(worktree, environment))) or os.defpath


def personal_environment(
    environment: Environment, worktree: Path | None, *, keys: Iterable[str]
) -> dict[str, str]:
    """What a person's own program gets: all but what looks secret and what keys are read from."""
    hidden = set(keys)
    kept = {
        name: text for name, text in environment.items() if name not in hidden and not _SECRET.search(name)
    }
    return kept | {"PATH": search_path(environment, worktree)}


def model_environment(environment: Environment, worktree: Path | None) -> dict[str, str]:
    """What a command model gets: enough to find its own login, and what leads back to the worker."""
    return _tool_environment(environment, worktree, _MODELS_NEED)


def git(
    arguments: Sequence[str],
    environment: Environment,
    worktree: Path | None,
    *,
    seconds: float = TOOL_SECONDS,
) -> bytes | None:
    """Ask git about the worktree; None where there is no git or it fails."""
    place = [] if worktree is None else ["-C", str(worktree.absolute())]
    told = _tool_environment(environment, worktree, _GIT_NEEDS) | _GIT_VARIABLES
    program = find_program("git", environment, worktree)
    return None if program is None else _ask([program, *_GIT_OPTIONS, *place, *arguments], told, seconds)


def gh(
    arguments: Sequence[str],
    environment: Environment,
    worktree: Path | None,
    *,
    also: Iterable[str] = (),
    seconds: float = TOOL_SECONDS,
) -> bytes | None:
    """Ask gh; it gets the variables that `also` names. None where there is no gh or it fails."""
    told = _tool_environment(environment, worktree, _GH_NEEDS) | {"GH_PROMPT_DISABLED": "1"}
    told |= {name: environment[name] for name in also if name in environment}
    program = find_program("gh", environment, worktree)
    return None if program is None else _ask([program, *arguments], told, seconds)


def attend(command: Sequence[str], environment: Environment) -> int:
    """Run a program at the user's terminal to its end; return its exit code."""
    return subprocess.run(command, env=dict(environment), check=False).returncode


def launch(command: Sequence[str], environment: Environment) -> bool:
    """Start a program beside this one, apart from the terminal; tell whether it seems to work."""
    try:
        started = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=os.sep,  # not in the project: some programs look around where they are
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
    """Start a program in a folder and a process group of its own; its output is ours to read."""
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def shell(line: str, environment: Environment, worktree: Path | None) -> None:
    """Run a line of the user's own in a shell that has our streams."""
    found = find_program("sh", environment, worktree) or "/bin/sh"
    subprocess.run([found, "-c", line], env=dict(environment), stdin=subprocess.DEVNULL, check=False)


def work_folder(environment: Environment, worktree: Path | None) -> tempfile.TemporaryDirectory[str]:
    """Make a folder for a program's work, where as few others as possible can put files into folders above.

    Programs read settings from every folder above theirs: a project's, and what anybody puts into /tmp.
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


def _ask(command: Sequence[str], environment: Environment, seconds: float) -> bytes | None:
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _entries(environment: Environment, project: _Folders) -> list[str]:
    entries = environment.get("PATH", os.defpath).split(os.pathsep)
    return [one for one in entries if Path(one).is_absolute() and not _inside(Path(one), project)]


def _project(worktree: Path | None, environment: Environment) -> _Folders:
    """The project's folder and that of the git repository it lies in."""
    if worktree is None:
        return frozenset()
    real = worktree.resolve()
    repository = next((one for one in (real, *real.parents) if os.path.lexists(one / ".git")), real)
    home = environment.get("HOME")
    if home and Path(home).resolve().is_relative_to(repository):
        repository = real  # somebody keeps the whole home folder in git; its programs are the user's own
    return frozenset(one for one in map(_identity, (real, repository)) if one is not None)


def _inside(path: Path, folders: _Folders) -> bool:
    """Whether a path leads into one of the folders, whatever links it goes through."""
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
    """Count the folders, this one and those above, into which somebody else can put something."""
    real = folder.resolve()
    return sum(_is_shared(one) for one in (real, *real.parents))


def _is_shared(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False  # it is not there yet, and will be ours
    group = found.st_mode & stat.S_IWGRP and found.st_gid not in {0, os.getgid()}
    return bool(found.st_mode & stat.S_IWOTH or group) or found.st_uid not in {0, os.getuid()}
