"""What most commands need first: the project, its settings, its home."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.app.invocation import Invocation
from agentos.config import Config, check_folders, load_config
from agentos.os_process import leave_no_core
from agentos.project import check_owner, find_worktree
from agentos.secret import know
from agentos.store.home import Home, check_home, locate_home
from agentos.store.known_homes import register_of


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project opened for one command."""

    worktree: Path
    config: Config
    home: Home


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
    check_owner(worktree, home.path, safe=config.settings.safe_directories, environment=config.environment)
    check_folders(config, worktree, home.path)
    return Project(worktree=worktree, config=config, home=home)


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
