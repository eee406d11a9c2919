"""The homes that this user created: each has a random id, which is also in the user's state folder.

A repository may come with its own `.agentos`, with forged approvals, paid reviews and disabled keys. It
cannot come with an id that is known here. The state folder has one line per home: its id and its path.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from agentos.errors import ProjectError
from agentos.store.rooted_tree import PRIVATE_FILE, PRIVATE_FOLDER, Tree, write_all

ID_FILE = Path("id")
_ID = re.compile(r"[0-9a-f]{32}")
_MOST_BYTES = 10_000_000


class Standing(Enum):
    """What is known about a home in a worktree."""

    MISSING = auto()
    KNOWN = auto()
    EARLIER = auto()  # from a version without ids: private, and owned by the user
    UNKNOWN = auto()


@dataclass(frozen=True)
class Register:
    """The list of homes in the user's state folder."""

    folder: Path | None  # None if the environment names none

    def standing(self, home: Tree) -> Standing:
        """Say whether this user created the home; only reads."""
        if not os.path.lexists(home.root):
            return Standing.MISSING
        if not home.exists(ID_FILE) and (_as_earlier(home) or _untouched(home)):
            return Standing.EARLIER
        # Read last: a run that starts at the same moment may write it in between.
        mark = _id_of(home)
        return Standing.KNOWN if mark is not None and mark in self._known() else Standing.UNKNOWN

    def enter(self, home: Tree) -> None:
        """Make the home known; does nothing if it is."""
        mark = _id_of(home)
        known = self._known()
        if mark in known:
            return
        if mark is None:
            mark = os.urandom(16).hex()
            # Listed first: a home with an unknown id would be refused.
            self._add(mark, home.root)
            home.write(ID_FILE, f"{mark}\n", mode=PRIVATE_FILE)
        else:
            self._add(mark, home.root)

    def _known(self) -> frozenset[str]:
        if self.folder is None:
            return frozenset()
        try:
            tree = Tree(self.folder.resolve())  # the user's own links are followed
            text = tree.read(Path("homes"), _MOST_BYTES).decode("utf-8", errors="replace")
        except OSError:
            return frozenset()
        return frozenset(line.partition(" ")[0] for line in text.splitlines())

    def _add(self, mark: str, path: Path) -> None:
        try:
            if self.folder is None:
                raise ProjectError(
                    "Neither HOME nor XDG_STATE_HOME is set, so agentos cannot record that this home is "
                    "yours. Name one: --home PATH, or AGENTOS_HOME=PATH."
                )
            line = f"{mark} {os.fsencode(path).decode('utf-8', errors='backslashreplace')!r}\n"
            tree = make_state_folder(self.folder)
            descriptor = tree.open(Path("homes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            try:
                write_all(descriptor, line.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as exc:
            raise ProjectError(
                f"Cannot write to {self.folder}: {exc.strerror or exc}. agentos records there which homes "
                "are yours. Name a home instead: --home PATH, or AGENTOS_HOME=PATH."
            ) from exc


def register_of(environment: Mapping[str, str]) -> Register:
    """Return the register in the user's state folder."""
    return Register(state_folder(environment))


def state_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder for the user's state, as XDG defines it; None if the environment names none."""
    base = environment.get("XDG_STATE_HOME") or ""
    if not Path(base).is_absolute():
        base = f"{environment['HOME']}/.local/state" if environment.get("HOME") else ""
    return Path(base, "agentos") if base else None


def make_state_folder(folder: Path) -> Tree:
    """Create the user's state folder; the user's own links are followed."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    return Tree(folder.resolve())


def _id_of(home: Tree) -> str | None:
    try:
        mark = home.read(ID_FILE, 100).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return mark if _ID.fullmatch(mark) else None


def _untouched(home: Tree) -> bool:
    """Say whether it is an empty folder of the user's: a first run was killed, or somebody made it."""
    return _is_mine(home, Path()) and set(home.names(Path())) <= {f".{ID_FILE}.tmp"}


def _as_earlier(home: Tree) -> bool:
    """Say whether everything is private to the owner, as in earlier versions and never in a clone."""
    if not home.is_file(Path("records.db")) and not home.is_folder(Path("logs")):
        return False
    names = ("", "records.db", "records.lock", "checkpoints", "logs", "logs/parallel", "keys.json")
    there = [Path(name) for name in names if not name or home.exists(Path(name))]
    return all(_is_mine(home, path) and _is_private(home, path) for path in there)


def _is_mine(home: Tree, path: Path) -> bool:
    found = _stat(home, path)
    return found is not None and found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode)


def _is_private(home: Tree, path: Path) -> bool:
    found = _stat(home, path)
    return found is not None and not found.st_mode & 0o077


def _stat(home: Tree, path: Path) -> os.stat_result | None:
    return home.stat(path) if path.parts else os.lstat(home.root)
