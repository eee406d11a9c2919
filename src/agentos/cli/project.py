"""What most commands need first: the project, its settings, its home."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from agentos.config import Config, check_folders, load_config
from agentos.console.visible import one_line
from agentos.process import leave_no_core
from agentos.project import check_owner, find_worktree
from agentos.secret import know
from agentos.store.home import Home, check_home, locate_home
from agentos.store.known import register_of


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project opened for one command."""

    worktree: Path
    config: Config
    home: Home


def _globals() -> Mapping[str, Any]:
    context = click.get_current_context(silent=True)
    found = context.find_root().obj if context is not None else None
    return found or {"home": None, "config_file": None}


def program() -> str:
    """The start of every command that we suggest: it must find the same home and settings as this one."""
    words = ["agentos"]
    for flag, name in (("--home", "home"), ("--config", "config_file")):
        if (given := _globals()[name]) is not None:
            words += [flag, str(given)]
    return shlex.join(words)


def typed_command() -> str:
    """The command line as it was typed."""
    name = Path(sys.argv[0]).name
    return shlex.join(["agentos" if name == "__main__.py" else name, *sys.argv[1:]])


def open_project(flags: Mapping[str, Any] | None = None) -> Project:
    """Find the project and read its settings; refuses one that is not this user's."""
    worktree, config, home = load_settings(flags)
    check_home(home, worktree, config.environment)
    return Project(worktree=worktree, config=config, home=home)


def load_settings(flags: Mapping[str, Any] | None = None) -> tuple[Path, Config, Home]:
    """Read the settings; warnings go to standard error. The home may be anybody's yet."""
    worktree = find_worktree(Path.cwd())
    config = load_config(flags=flags or {}, worktree=worktree, user_file=_globals()["config_file"])
    leave_no_core()
    know(config.environment, frozenset(key.env for key in config.keys if key.env is not None))
    for warning in config.warnings:
        click.echo(f"agentos: warning: {one_line(warning)}", err=True)
    home = find_home(worktree, config.environment)
    check_owner(worktree, home.path, safe=config.settings.safe_directories, environment=config.environment)
    check_folders(config, worktree, home.path)
    return worktree, config, home


def open_home() -> Home:
    """Find the home without reading any settings."""
    import os  # noqa: PLC0415 - only where the settings themselves may be what is broken

    worktree = find_worktree(Path.cwd())
    home = find_home(worktree, os.environ)
    check_owner(worktree, home.path, safe=(), environment=os.environ)
    check_home(home, worktree, os.environ)
    return home


def find_home(worktree: Path, environment: Mapping[str, str]) -> Home:
    """Where the home is, or would be; not whether it can be used."""
    given = _globals()["home"] or environment.get("AGENTOS_HOME") or None
    return locate_home(worktree, None if given is None else Path(given), register_of(environment))
