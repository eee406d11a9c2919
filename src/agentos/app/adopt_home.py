"""Adopts a home that agentos does not know, such as one from a backup or from another machine."""

from dataclasses import dataclass

from agentos.app.project import Project
from agentos.errors import ProjectError, UsageError
from agentos.store.home import is_tracked
from agentos.store.known_homes import Standing
from agentos.store.records import Records
from agentos.store.run_folder import list_runs


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """What an adopted home holds."""

    runs: int
    unfinished: int  # items


def adopt_home(project: Project) -> Adopted | None:
    """Note that the home is the user's own; None if that is already known."""
    home = project.home
    if home.register is None:
        raise UsageError(f"You named {home.path} yourself, so there is no need to adopt it.")
    standing = home.register.standing(home.tree)
    if standing is Standing.MISSING:
        raise UsageError(f"{home.path} does not exist; the first run creates it.")
    if is_tracked(home.path, project.worktree, project.config.environment):
        raise ProjectError(
            f"git tracks files in {home.path}, so anyone who can change the repository can change it. "
            "Run 'git rm -r --cached .agentos' and commit, then adopt it."
        )
    if standing is Standing.KNOWN:
        return None
    # Raises before anything is written if the records cannot be read.
    with Records(home.records, write=False) as records:
        unfinished = sum(len(records.of(mock=mock).progress()) for mock in (False, True))
    home.create()
    return Adopted(runs=len(list_runs(home)), unfinished=unfinished)
