"""Finding the project: the worktree that items are read from and results are written to."""

from pathlib import Path

from agentos.errors import ProjectError

MARKERS = (".git", "agentos.toml")
BACKLOG_FOLDERS = ("issues/active", "ideas/active")


def find_worktree(start: Path) -> Path:
    """Walk up from the folder to the first one that is a project."""
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
        if folder == start and any((folder / backlog).is_dir() for backlog in BACKLOG_FOLDERS):
            return folder
    raise ProjectError(
        f"No project here: neither {start} nor a folder above it has a .git folder or an agentos.toml. "
        "Go to your repository, or type 'agentos init' to start one here."
    )
