"""The project of the command that click is carrying out."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentos.app import project
from agentos.app.project import Invocation, Project
from agentos.cli.dialog import warn

if TYPE_CHECKING:
    from agentos.store.home import Home


def invocation() -> Invocation:
    """Where this command is called, and with which global flags."""
    context = click.get_current_context(silent=True)
    given = context.find_root().obj if context is not None else None
    return Invocation(folder=Path.cwd(), environment=dict(os.environ), typed=_typed(), **(given or {}))


def program() -> str:
    """The start of every command that we suggest."""
    return invocation().program


def _typed() -> str:
    """The command line as it was typed."""
    name = Path(sys.argv[0]).name
    return shlex.join(["agentos" if name == "__main__.py" else name, *sys.argv[1:]])


def open_project(flags: Mapping[str, Any] | None = None) -> Project:
    """Find the project and read its settings; warnings go to standard error."""
    return project.open_project(invocation(), flags or {}, warn=warn)


def load_project() -> Project:
    """As `open_project`, but the home may be anybody's."""
    return project.load_project(invocation(), {}, warn=warn)


def open_home() -> "Home":
    """Find the home without reading any settings."""
    return project.open_home(invocation())
