"""The lineage of an item: numbered files in one folder, from its source to its final text. Worker process.

Every operation can be repeated after a crash with the same result. A finished trail has a unique name in
`done/`, so that trails from two branches of a repository never end up in one folder.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from agentos.stamp import Stamp, split
from agentos.store.rooted_tree import Tree, worktree_tree

_NUMBERED = re.compile(r"(\d{3,})-([a-z]+)\.md")
_KEPT = ("-edited.md", "-replaced.md")
_MAX_BYTES = 1_000_000  # of a file that is read again


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The trail of one item; `name` is, for example, `42-lld`."""

    worktree: Path
    folder: str  # for example docs/lineage
    name: str

    @property
    def tree(self) -> Tree:
        return worktree_tree(self.worktree)

    @property
    def active(self) -> Path:
        return Path(self.folder, "active", self.name)

    def done(self, name: str) -> Path:
        """The folder of a finished trail."""
        return Path(self.folder, "done", name)

    def begin(self, kind: str, text: str, run_id: str) -> str:
        """Start the trail with the item's text; return the name it will have when done."""
        first = self.active / file_name(1, kind)
        if self.tree.exists(self.active):
            # Only the item's text and kept documents: a run was interrupted before its first draft.
            there = self.tree.entries(self.active)
            others = {one.name for one in there if one.name.endswith(".md")} - {first.name}
            if not all(name.endswith(_KEPT) for name in others):
                # An earlier run of this item was abandoned; its trail is kept, separate from the new one.
                self._move(self._free_name(run_id and f"{run_id} before"))
        self.tree.write(first, text)
        return self._free_name(run_id)

    def write(self, number: int, kind: str, text: str) -> None:
        self.tree.write(self.active / file_name(number, kind), text)

    def keep(self, kind: str, text: str) -> str:
        """Keep a document in the trail, once; return the name of its file."""
        for path in self._numbered(self.active):
            if kind in path.name and self._read(path) == text:
                return path.name
        name = file_name(self.next_number(), kind)
        self.tree.write(self.active / name, text)
        return name

    def take(self, path: Path, kind: str) -> Path:
        """Move a file into the trail, whatever it is."""
        kept = self.active / file_name(self.next_number(), kind)
        self.tree.move(path, kept)
        return kept

    def rename(self, path: Path, kind: str) -> str:
        """Give a file of the trail another kind."""
        name = file_name(self.next_number(), kind)
        self.tree.move(path, path.with_name(name))
        return name

    def has_copy_of(self, path: Path) -> bool:
        """Say whether another file of the trail has the same text."""
        text = self._read(path)
        return text is not None and any(
            other != path and "-draft" not in other.name and self._read(other) == text
            for other in self._numbered(self.active)
        )

    def next_number(self) -> int:
        return max((_number(path) for path in self._numbered(self.active)), default=0) + 1

    def finish(self, done_name: str, number: int, text: str) -> Path:
        """Write the final document and move the trail to done; does nothing if that has already happened."""
        done = self.done(done_name)
        if not self.is_done(done_name):
            self.write(max(number, self._final_number()), "final", text)
            self._move(done_name)
        return done

    def is_done(self, done_name: str) -> bool:
        return self.tree.exists(self.done(done_name))

    def _final_number(self) -> int:
        """Return the number of the final document: the existing one's, or the next."""
        there = [_number(path) for path in self._numbered(self.active) if path.name.endswith("-final.md")]
        return there[0] if there else self.next_number()

    def finals(self) -> Iterator[str]:
        """Yield every document of the item that was ever approved."""
        yield from self._texts("final")

    def last_in(self, folder: str, kind: str) -> str | None:
        """The last text of a kind in a finished trail of this item."""
        place = Path(folder)
        found = [path for path in self._numbered(place) if path.name.endswith(f"-{kind}.md")]
        return self._read(found[-1]) if found and self.has_finished(place) else None

    def source_with(self, digest: str) -> str | None:
        """Find the item's text that has this hash."""
        for kind in ("issue", "brief"):
            for text in self._texts(kind):
                if digest in {
                    hashlib.sha256(text.encode()).hexdigest(),
                    hashlib.sha256(split(text).body.encode()).hexdigest(),
                }:
                    return text
        return None

    def _texts(self, kind: str) -> Iterator[str]:
        for folder in self.folders():
            for path in self._numbered(folder):
                if path.name.endswith(f"-{kind}.md") and (text := self._read(path)) is not None:
                    yield text

    def folders(self) -> list[Path]:
        """Return the folders of this item's trails: its name alone, or with a suffix for the run."""
        names = _trails(self.tree, Path(self.folder, "done"))
        return [self.active, *(done for name in names if self.has_finished(done := self.done(name)))]

    def has_finished(self, folder: Path) -> bool:
        """Say whether a finished trail of this item would be in this folder."""
        own = re.compile(re.escape(self.name) + r"(-[0-9a-f]+|-\d+)?")
        return folder == self.done(folder.name) and own.fullmatch(folder.name) is not None

    def write_receipt(self, stamp: Stamp, text: str, run_id: str) -> None:
        """Record, once, that a text of this item was filed; the receipt travels with the repository."""
        if any(split(known).stamp == stamp for known in self._texts("filed")):
            return
        done = [folder for folder in self.folders() if folder != self.active]
        mine = [folder for folder in done if self._has_source(folder, stamp.input)]
        folder = (mine or [self.done(self._free_name(run_id))])[-1]
        number = max((_number(path) for path in self._numbered(folder)), default=0) + 1
        self.tree.write(folder / file_name(number, "filed"), f"{text}\n\n{stamp}\n")

    def _free_name(self, run_id: str) -> str:
        """Return a unique name for every real run; the mock's trails are numbered instead."""
        if not run_id:
            counted = (self.name if number == 1 else f"{self.name}-{number}" for number in count(1))
            return next(name for name in counted if not self.is_done(name))
        digest = hashlib.sha256(f"{run_id} {self.name}".encode()).hexdigest()
        names = (f"{self.name}-{digest[:length]}" for length in range(6, 64))
        return next(name for name in names if not self.is_done(name))

    def _move(self, done_name: str) -> None:
        self.tree.move(self.active, self.done(done_name))

    def _has_source(self, folder: Path, digest: str) -> bool:
        texts = [self._read(path) for path in self._numbered(folder)[:1]]
        return any(text is not None and hashlib.sha256(text.encode()).hexdigest() == digest for text in texts)

    def _numbered(self, folder: Path) -> list[Path]:
        return _numbered(self.tree, folder)

    def _read(self, path: Path) -> str | None:
        return _read(self.tree, path)


def receipts(worktree: Path, folder: str, workflow: str) -> dict[str, list[Stamp]]:
    """Find where texts of a workflow's items were filed, by label, from all finished trails."""
    tree, place = worktree_tree(worktree), Path(folder, "done")
    found: dict[str, list[Stamp]] = {}
    for trail in _trails(tree, place):
        if f"-{workflow}" not in trail:
            continue
        for path in _numbered(tree, place / trail):
            stamp = split(_read(tree, path) or "").stamp if path.name.endswith("-filed.md") else None
            if stamp is not None and stamp.filed:
                found.setdefault(stamp.item, []).append(stamp)
    return found


def _trails(tree: Tree, place: Path) -> list[str]:
    try:
        return [one.name for one in tree.entries(place) if one.is_folder]
    except OSError:
        return []


def file_name(number: int, kind: str) -> str:
    return f"{number:03d}-{kind}.md"


def _numbered(tree: Tree, folder: Path) -> list[Path]:
    return [folder / name for name in tree.names(folder) if _NUMBERED.fullmatch(name)]


def _number(path: Path) -> int:
    found = _NUMBERED.fullmatch(path.name)
    return int(found[1]) if found else 0


def _read(tree: Tree, path: Path) -> str | None:
    """Read a file of a trail; None if it is not a readable text file."""
    try:
        return tree.text(path, _MAX_BYTES)
    except (OSError, UnicodeDecodeError):
        return None
