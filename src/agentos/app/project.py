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
from urllib.parse import urlsplit

from agentos import redact
from agentos.app.invocation import Invocation
from agentos.config import Config, Origin, check_folders, load_config
from agentos.os_process import leave_no_core
from agentos.project import check_owner, find_worktree
from agentos.secret import DATABASE_VARIABLE, know, know_password
from agentos.settings import variable_of
from agentos.store.home import Home, check_home, locate_home
from agentos.store.known_homes import register_of
from agentos.store.run_folder import engine_of_latest

if TYPE_CHECKING:
    from agentos.store.records.protocols import AllRecords

_SERVER_SCHEMES = {"http", "https", "ssh", "git", "git+ssh", "ssh+git", "git+https"}
_TOKEN_AS_USER = re.compile(r"[\w+.:-]*//([^/@:]{16,})@")
_SHORT_FORM = re.compile(r"(?:[^@:/]+@)?([\w.-]+):(?!//)(.+)")  # user@host:path


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
    return "engine" not in flags and latest_was_elsewhere(config, home)


def latest_was_elsewhere(config: Config, home: Home) -> bool:
    """Whether the user chose no engine, and the latest run of this clone was on other machines."""
    if config.sources["engine"].origin is not Origin.DEFAULT or not config.environment.get(DATABASE_VARIABLE):
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

    Made from its origin; without one, from its first commit; without any, from the folder on this machine. Of
    an address, it has the last word and a hash: the user, the path and the rest may have tokens in them.
    """
    from agentos.programs import git  # noqa: PLC0415 - only if records are shared

    def asked(*words: str) -> str:
        return (git(words, environment, worktree) or b"").decode("utf-8", "replace").strip()

    origin = asked("config", "--get", "remote.origin.url")
    know_password("origin", origin)
    if token := _TOKEN_AS_USER.match(origin):
        redact.learn("origin", token[1])
    if place := _place_of(origin):
        return _named(place.rpartition("/")[2], place)
    first = min(asked("rev-list", "--max-parents=0", "HEAD").splitlines(), default="")
    if first:
        return first[:12]
    return _named(worktree.name.lower(), f"{socket.gethostname()}:{os.path.realpath(worktree)}")


def _place_of(origin: str) -> str | None:
    """Host and path of a repository on a server, the same for all ways to reach it; None if it is on none."""
    if found := _SHORT_FORM.fullmatch(origin):
        host, path = found[1], found[2]
    else:
        try:
            parts = urlsplit(origin)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return None
        if parts.scheme.lower() not in _SERVER_SCHEMES:
            return None
    path = path.strip("/").removesuffix(".git").strip("/")
    # With an @, a / in a password has torn the address apart.
    return f"{host}/{path}".lower() if host and path and "@" not in path else None


def _named(word: str, place: str) -> str:
    shown = word if re.fullmatch(r"[a-z0-9._-]{1,60}", word) else "project"
    return f"{shown}-{hashlib.sha256(place.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


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
