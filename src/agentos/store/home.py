"""The home folder with a project's runs, checkpoints and records, readable only by its owner."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentos.errors import ProjectError, StorageError
from agentos.store.known_homes import Register, Standing
from agentos.store.rooted_tree import PRIVATE_FILE, PRIVATE_FOLDER, Tree

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from agentos.store.records.protocols import AllRecords

FOLDER = ".agentos"
IGNORE = "# Runs, checkpoints and records of agentos; not for version control.\n*\n"


class OpenRecords(Protocol):
    """Opens the records of a project that are not in its home."""

    def __call__(self, *, mock: bool) -> "AbstractContextManager[AllRecords]": ...


@dataclass(frozen=True, kw_only=True)
class Home:
    """The paths of everything in the home folder; `create` makes it."""

    path: Path
    register: Register | None = None  # the list it is on; a home that the user names needs none
    elsewhere: OpenRecords | None = None  # opens the records that machines share, instead of those here

    @property
    def tree(self) -> Tree:
        return Tree(self.path)

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

    @property
    def models(self) -> Path:
        return self.path / "models.json"

    @property
    def used(self) -> bool:
        """Whether anything was run here."""
        return self.elsewhere is not None or self.tree.is_file(self.records)

    def open_records(self, *, write: bool = True, mock: bool = False) -> "AbstractContextManager[AllRecords]":
        """Open the records: those in this folder, or those that machines share."""
        if self.elsewhere is not None:
            return self.elsewhere(mock=mock)
        from agentos.store.records import Records  # noqa: PLC0415 - SQLite

        return Records(self.records, write=write, mock=mock)

    def checkpoint(self, workflow: str, item_id: str, *, mock: bool = False) -> Path:
        return self.checkpoints / f"{workflow}_workflow_{item_id}{'.mock' if mock else ''}.db"

    def create(self) -> "Home":
        """Create what is missing, private to the owner; a new home becomes known as this user's."""
        try:
            if self.register is None:
                self.path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            else:
                Tree(self.path.parent).make_folder(Path(self.path.name), PRIVATE_FOLDER)
            self.tree.make_private(Path())
            with self.tree.alone():  # two first runs may start at the same moment
                if self.register is not None:
                    self.register.enter(self.tree)
                for folder in (Path("checkpoints"), Path("logs"), Path("logs/parallel")):
                    self.tree.make_private(folder)
                if not self.tree.exists(Path(".gitignore")):
                    self.tree.write(Path(".gitignore"), IGNORE, mode=PRIVATE_FILE)
        except OSError as exc:
            place = exc.filename if isinstance(exc.filename, str) else self.path
            raise StorageError(
                f"Cannot create the home {self.path}: {place}: {exc.strerror or exc}."
            ) from exc
        return self

    def open(self, path: Path, flags: int = os.O_RDWR) -> int:
        """Open or create a file in the home; return its descriptor."""
        try:
            return self.tree.open(path, flags | os.O_CREAT)
        except OSError as exc:
            raise StorageError(f"Cannot open {path}: {exc.strerror or exc}.") from exc


def home_of(path: Path) -> Home:
    """Return the home of a checkpoint, or of a file directly in the home."""
    return Home(path=path.parent.parent if path.parent.name == "checkpoints" else path.parent)


def checkpoint_files(database: Path) -> tuple[Path, ...]:
    """List everything that belongs to one checkpoint database."""
    return tuple(
        database.with_name(database.name + ending) for ending in ("", "-wal", "-shm", "-journal", ".lock")
    )


def locate_home(worktree: Path, setting: Path | None, register: Register | None = None) -> Home:
    """Find the home folder: the user's setting, or the one inside the worktree."""
    inner = Path(FOLDER) if setting is None else _inside(setting, worktree)
    if setting is not None and inner is None:
        return Home(path=Path(setting).expanduser().resolve())
    assert inner is not None
    # A folder in the worktree may come from the repository, whoever named it.
    for one in (*reversed(inner.parents[:-1]), inner):
        if (path := worktree / one).is_symlink():
            raise ProjectError(
                f"{path} is a symbolic link; agentos never uses a home through a link. Remove it, or set "
                "AGENTOS_HOME to a folder outside the repository."
            )
    return Home(path=worktree / inner, register=register if setting is None else None)


def _inside(setting: Path, worktree: Path) -> Path | None:
    """Return the path from the worktree to a folder that the user named, if it is in the worktree."""
    named = Path(os.path.abspath(Path(setting).expanduser()))  # noqa: PTH100 - no link is followed
    for above in named.parents:
        with contextlib.suppress(OSError):
            if os.path.samefile(above, worktree):  # noqa: PTH121
                return named.relative_to(above)
    return None


def check_home(home: Home, worktree: Path, environment: Mapping[str, str]) -> None:
    """Refuse a home that may have come with the repository; one that the user named needs no id."""
    if not home.path.is_relative_to(worktree):
        return
    standing = Standing.KNOWN if home.register is None else home.register.standing(home.tree)
    if standing is Standing.MISSING:
        return
    tracked = is_tracked(home.path, worktree, environment)
    unknown = tracked is None and any(os.path.lexists(one / ".git") for one in (worktree, *worktree.parents))
    if standing is Standing.UNKNOWN or (standing is Standing.EARLIER and unknown):
        raise ProjectError(
            f"{home.path} was not created by you on this machine. A repository can bring one along, with "
            "forged approvals in it. If it is yours, run 'agentos home adopt'; otherwise remove it."
        )
    if tracked:
        inner = home.path.relative_to(worktree)
        raise ProjectError(
            f"git tracks files in {home.path}, so anyone who can write to the repository can write to it. "
            f"Run 'git rm -r --cached {inner}' and commit. If agentos does not know the home then, run "
            "'agentos home adopt'."
        )


def is_tracked(path: Path, worktree: Path, environment: Mapping[str, str]) -> bool | None:
    """Say whether git tracks files in a folder; None if there is no git, or git cannot say."""
    from agentos.programs import git  # noqa: PLC0415 - only if there is a home

    inner = path.relative_to(worktree)
    listed = git(["ls-files", "-z", "--", f":(literal,icase){inner}"], environment, worktree)
    return None if listed is None else bool(listed)
