"""The folder that a worker on another machine has instead of the worktree. Worker process.

It holds the few files that the item depends on. What the worker writes there goes into the database before
the state that knows of it, and the submitter puts it in place.
"""

from dataclasses import dataclass, field
from pathlib import Path, PurePath

from agentos.store.postgres.attempts import LARGEST_FILE
from agentos.store.rooted_tree import Tree, worktree_tree

MAX_FILES = 5_000


@dataclass
class Desk:
    """Knows what has changed since it was last asked."""

    folder: Path
    _known: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._known = self._read()

    def changes(self) -> dict[str, bytes | None]:
        """What was written since the last call, by path; None was removed."""
        now = self._read()
        changed: dict[str, bytes | None] = {
            path: text for path, text in now.items() if self._known.get(path) != text
        }
        changed |= dict.fromkeys(self._known.keys() - now.keys())
        self._known = now
        return changed

    def _read(self) -> dict[str, bytes]:
        tree = worktree_tree(self.folder)
        return {str(path): tree.read(path, LARGEST_FILE) for path in _files(tree, PurePath())}


def _files(tree: Tree, folder: PurePath) -> list[PurePath]:
    found: list[PurePath] = []
    for entry in tree.entries(folder):
        path = folder / entry.name
        if entry.is_folder:
            found += _files(tree, path)
        elif tree.is_file(path):
            found.append(path)
        if len(found) > MAX_FILES:
            break
    return found
