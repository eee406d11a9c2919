"""The project of the current click command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentos.app import project
from agentos.app.project import Project
from agentos.cli.dialog import warn
from agentos.cli.invocation import invocation

if TYPE_CHECKING:
    from agentos.store.home import Home


def open_project(flags: Mapping[str, Any] | None = None) -> Project:
    """Find the project and read its settings; warnings go to standard error."""
    return project.open_project(invocation(), flags or {}, warn=warn)


def load_project() -> Project:
    """As `open_project`, but without checking whose home it is."""
    return project.load_project(invocation(), {}, warn=warn)


def open_home() -> "Home":
    """Find the home without reading any settings."""
    return project.open_home(invocation())
