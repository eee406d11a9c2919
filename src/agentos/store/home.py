"""The home folder: where a project's runs, checkpoints and records live, for the owner's eyes alone."""

import os
from dataclasses import dataclass
from pathlib import Path

from agentos.errors import ProjectError
from agentos.store.files import open_private, private_folder, write_all

FOLDER = ".agentos"
IGNORE = b"# Runs, checkpoints and records of agentos; not for version control.\n*\n"


@dataclass(frozen=True, kw_only=True)
class Home:
    """Names of everything below the home folder; `create` makes it."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def runs(self) -> Path:
        return self.path / "logs" / "parallel"

    @property
    def records(self) -> Path:
        return self.path / "records.db"

    @property
    def key_health(self) -> Path:
        return self.path / "keys.json"

    @property
    def mock_key_health(self) -> Path:
        return self.path / "keys.mock.json"

    def checkpoint(self, workflow: str, item_id: str, *, mock: bool = False) -> Path:
        return self.checkpoints / f"{workflow}_workflow_{item_id}{'.mock' if mock else ''}.db"

    def create(self) -> "Home":
        for folder in (self.path, self.checkpoints, self.path / "logs", self.runs):
            private_folder(folder)
        ignore = self.path / ".gitignore"
        if not ignore.exists():
            descriptor = open_private(ignore, os.O_WRONLY)  # two runs may do this at once, and write the same
            write_all(descriptor, IGNORE)
            os.close(descriptor)
        return self


def checkpoint_files(database: Path) -> tuple[Path, ...]:
    """List everything that belongs to one checkpoint database."""
    return tuple(
        database.with_name(database.name + ending) for ending in ("", "-wal", "-shm", "-journal", ".lock")
    )


def locate_home(worktree: Path, setting: Path | None) -> Home:
    """Find the home folder: the user's setting, else inside the worktree."""
    if setting is not None:
        return Home(path=Path(setting).expanduser().resolve())
    path = worktree / FOLDER
    if path.is_symlink():
        raise ProjectError(
            f"{path} is a symbolic link; a home is never used through a link. Remove it, or set AGENTOS_HOME."
        )
    return Home(path=path)
