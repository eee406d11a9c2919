"""Finds the project: the worktree that items are read from and results are written to. Checks its owner."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentos.errors import ProjectError

MARKERS = (".git", "agentos.toml")
BACKLOG_FOLDERS = ("issues/active", "ideas/active")
_READ = (*MARKERS, "pyproject.toml")  # files that settings are read from


def find_worktree(start: Path) -> Path:
    """Walk up from a folder to the first one that is a project."""
    for folder in (start, *start.parents):
        if any(os.path.lexists(folder / marker) for marker in MARKERS):
            return folder
        if folder == start and any((folder / backlog).is_dir() for backlog in BACKLOG_FOLDERS):
            return folder
    raise ProjectError(
        f"No project here: neither {start} nor a folder above it has a .git folder or an agentos.toml. "
        "Go to your repository, or run 'agentos init' to start one here."
    )


def check_owner(worktree: Path, home: Path, *, safe: Sequence[Path], environment: Mapping[str, str]) -> None:
    """Refuse a folder, settings or home that another user could have put there."""
    if any(str(one) == "*" or one.expanduser() == worktree for one in safe):
        return
    trusted = _trusted(environment)
    for path in (worktree, *(worktree / name for name in _READ), home):
        try:
            owner = os.lstat(path).st_uid
        except OSError:
            continue
        if owner not in trusted:
            what = "the home" if path == home else "the folder" if path == worktree else "the file"
            then = " and 'agentos home adopt'" if path == home else ""
            raise ProjectError(
                f"{path} belongs to another user (uid {owner}), who could spend your keys on their text. If "
                f'you trust them, take over {what} with chown{then}, or add "{worktree}" to '
                "safe_directories in your configuration file."
            )


def _trusted(environment: Mapping[str, str]) -> set[int]:
    """This user and root; under sudo, also the user who called it."""
    caller = environment.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return {os.geteuid(), 0, *([int(caller)] if caller.isdecimal() else [])}
