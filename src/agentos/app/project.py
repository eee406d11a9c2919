"""What most commands need first: the project, its settings, its home."""

import hashlib
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos.app.invocation import Invocation
from agentos.config import Config, Origin, check_folders, load_config
from agentos.os_process import leave_no_core
from agentos.project import check_owner, find_worktree
from agentos.secret import DATABASE_VARIABLE, know
from agentos.settings import variable_of
from agentos.store.home import Home, check_home, locate_home
from agentos.store.known_homes import register_of
from agentos.store.run_folder import engine_of_latest

if TYPE_CHECKING:
    from agentos.store.records.protocols import AllRecords

# https://host/path, ssh://user@host:22/path or user@host:path; never the user, who may be a token.
_ORIGIN = re.compile(
    r"(?!file:|[.~])(?:[a-z][a-z0-9+.-]*://)?(?:[^/]*@)?(?P<host>[^/:@]+)(?::\d+)?[:/]+(?P<path>.+?)(?:\.git)?/*",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project opened for one command."""

    worktree: Path
    config: Config
    home: Home

    @property
    def follows(self) -> bool:
        """Whether the records are shared only because the latest run's are: runs need the engine named."""
        return self.home.elsewhere is not None and self.config.settings.engine == "local"

    def start(self, program: str) -> str:
        """The start of the commands to type that run items."""
        return f"{variable_of('engine')}=postgres {program}" if self.follows else program


def open_project(invocation: Invocation, flags: Mapping[str, Any], *, warn: Callable[[str], None]) -> Project:
    """Find the project and read its settings; refuse one that does not belong to this user."""
    project = load_project(invocation, flags, warn=warn)
    check_home(project.home, project.worktree, project.config.environment)
    return project


def load_project(invocation: Invocation, flags: Mapping[str, Any], *, warn: Callable[[str], None]) -> Project:
    """Find the project and read its settings, without checking whose home it is."""
    worktree = find_worktree(invocation.folder)
    config = load_config(
        flags=_from_root(flags, invocation.folder, worktree),
        worktree=worktree,
        user_file=invocation.config_file,
        environment=invocation.environment,
    )
    leave_no_core()
    know(config.environment, config.key_variables)
    for warning in config.warnings:
        warn(warning)
    home = find_home(invocation, worktree)
    if config.settings.engine == "postgres" or _follows(config, flags, home):
        home = replace(home, elsewhere=partial(_shared_records, worktree, config.environment))
    check_owner(worktree, home.path, safe=config.settings.safe_directories, environment=config.environment)
    check_folders(config, worktree, home.path)
    return Project(worktree=worktree, config=config, home=home)


def _follows(config: Config, flags: Mapping[str, Any], home: Home) -> bool:
    """Whether a command that runs no items uses the shared records, because the latest run did."""
    if "engine" in flags or config.sources["engine"].origin is not Origin.DEFAULT:
        return False
    if not config.environment.get(DATABASE_VARIABLE):
        return False
    return engine_of_latest(home) == "postgres"


@contextmanager
def _shared_records(worktree: Path, environment: Mapping[str, str], *, mock: bool) -> "Iterator[AllRecords]":
    from agentos.app.db import open_prepared  # noqa: PLC0415 - only if records are shared

    with open_prepared(environment, application_name="agentos") as database:
        from agentos.store.records.postgres import THIS_PROCESS, PostgresRecords  # noqa: PLC0415 - an extra

        name = shared_name(worktree, environment)
        yield PostgresRecords(database, project=name, mock=mock, owner=THIS_PROCESS)


def shared_name(worktree: Path, environment: Mapping[str, str]) -> str:
    """The name that all clones of a repository share, and no other repository has.

    That of its origin; without one, its first commit says who it is; without any, the folder on this machine.
    """
    from agentos.programs import git  # noqa: PLC0415 - only if records are shared

    def asked(*words: str) -> str:
        return (git(words, environment, worktree) or b"").decode("utf-8", "replace").strip()

    if found := _ORIGIN.fullmatch(asked("config", "--get", "remote.origin.url")):
        return f"{found['host']}/{found['path']}".lower()
    first = min(asked("rev-list", "--max-parents=0", "HEAD").splitlines(), default="")
    which = (
        first or hashlib.sha256(f"{socket.gethostname()}:{os.path.realpath(worktree)}".encode()).hexdigest()
    )
    return which[:12] if first else f"{worktree.name.lower()}-{which[:12]}"


def _from_root(flags: Mapping[str, Any], folder: Path, worktree: Path) -> Mapping[str, Any]:
    """Read the paths of --context from the folder where the command was typed; settings start at the root."""
    if not flags.get("context"):
        return flags
    here = Path(os.path.realpath(folder))
    root = Path(os.path.realpath(worktree))
    named = [(one, Path(os.path.normpath(here / one))) for one in flags["context"]]
    # A path outside stays as typed, for the message that refuses it.
    inside = [str(path.relative_to(root)) if path.is_relative_to(root) else one for one, path in named]
    return {**flags, "context": inside}


def open_home(invocation: Invocation) -> Home:
    """Find and check the home without reading settings, since they may be what is broken."""
    worktree = find_worktree(invocation.folder)
    home = find_home(invocation, worktree)
    check_owner(worktree, home.path, safe=(), environment=invocation.environment)
    check_home(home, worktree, invocation.environment)
    return home


def find_home(invocation: Invocation, worktree: Path) -> Home:
    """Where the home is or would be, whether or not it can be used."""
    given = invocation.home or invocation.environment.get("AGENTOS_HOME") or None
    return locate_home(worktree, None if given is None else Path(given), register_of(invocation.environment))
