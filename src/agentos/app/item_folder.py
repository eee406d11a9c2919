"""The files of items that run on other machines: sends what they depend on, puts in place what comes back.

A worker elsewhere has a folder of its own instead of the worktree. It gets the item's document, its lineage
and the other documents beside it. What it writes is put in place here, by the rules that hold for local
workers, too: a person's words are never overwritten.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from agentos import wire
from agentos.errors import ItemFailed
from agentos.model import Item
from agentos.store.documents import MAX_DOCUMENT_BYTES, MAX_OTHERS, put_in_place
from agentos.store.lineage import Lineage
from agentos.store.postgres.attempts import Attempts, FilesOf, WrittenFile
from agentos.store.rooted_tree import Tree, worktree_tree
from agentos.workflows.registry import Workflow

_NAME = re.compile(r"\d{3,}-[a-z]+\.md")  # of a file in a trail; nothing else comes back from a worker
T = TypeVar("T")
MAX_SENT_BYTES = 4_000_000  # of all files with one item


class Patience(Protocol):
    """Repeats work for some seconds."""

    def __call__(self, action: Callable[[], T]) -> T: ...


@dataclass(frozen=True, kw_only=True)
class SubmittersFolder:
    """The worktree of the submitter, as far as items need it."""

    attempts: Attempts
    patiently: Patience  # repeats idempotent work while the database is away
    project: str
    flow: Workflow
    worktree: Path
    folders: Mapping[str, str]

    def send(self, job: wire.Job) -> dict[str, str]:
        """The files that an item depends on, by path: first what earlier attempts wrote is put in place."""
        self._fetch(job, missing=True)
        tree, lineage = worktree_tree(self.worktree), self._lineage(job)
        found: dict[str, str] = {}
        for folder in lineage.folders():
            for name in tree.names(folder):
                self._add(found, tree, folder / name)
        if (target := self._target(job)) is not None:
            self._add(found, tree, target)
            for name in [name for name in tree.names(target.parent) if name.endswith(".md")][:MAX_OTHERS]:
                self._add(found, tree, target.parent / name)
        return found

    def fetch(self, job: wire.Job) -> None:
        """Put in place what the item's workers wrote."""
        self._fetch(job)

    def _fetch(self, job: wire.Job, *, missing: bool = False) -> None:
        """Put in place what is new; with `missing` also the part of the trail that another clone has."""
        of = FilesOf(project=self.project, workflow=job.item.workflow, item=job.item.id, run_id=job.run_id)
        written = self.patiently(lambda: self.attempts.files(of, placed=missing))
        if written is None:
            raise ItemFailed("another run has taken this item over")
        tree, lineage, target = worktree_tree(self.worktree), self._lineage(job), self._target(job)
        new = [file for file in written if not file.placed]
        lacking = [file for file in written if missing and file.placed and not tree.exists(Path(file.path))]
        trail = [file for file in (*new, *lacking) if _is_of_trail(file, target)]
        finished = _write_trail(trail, tree, lineage)
        for file in new:
            if file.body is not None and Path(file.path) == target:
                words = file.body.decode("utf-8", "replace")
                put_in_place(self.worktree, target, words, label=job.item.label, lineage=lineage)
        for folder in sorted(finished):
            if tree.exists(lineage.active):
                tree.move(lineage.active, folder)
        if new:
            kept = {file.path for file in new if _is_of_trail(file, target)}
            self.patiently(lambda: self.attempts.files_placed(of, new, keep=kept))

    def _add(self, found: dict[str, str], tree: Tree, path: Path) -> None:
        room = MAX_SENT_BYTES - sum(map(len, found.values()))
        try:
            text = tree.text(path, min(MAX_DOCUMENT_BYTES, max(0, room)))
        except (OSError, UnicodeDecodeError):
            return
        found[str(path)] = text

    def _lineage(self, job: wire.Job) -> Lineage:
        name = job.trail or f"{job.item.id}-{job.item.workflow}"
        return Lineage(worktree=self.worktree, folder=self.folders["lineage"], name=name)

    def _target(self, job: wire.Job) -> Path | None:
        target = getattr(self.flow, "target", None)  # other workflows need not write documents
        return None if target is None else target(Item(**job.item.model_dump()), self.folders)


def _is_of_trail(file: WrittenFile, target: Path | None) -> bool:
    place = Path(file.path)
    return file.body is not None and place != target and _NAME.fullmatch(place.name) is not None


def _write_trail(files: Iterable[WrittenFile], tree: Tree, lineage: Lineage) -> set[Path]:
    """Write the files of a trail; return the folders that a finished one must be moved to."""
    finished: set[Path] = set()
    for file in files:
        place = Path(file.path)
        assert file.body is not None
        if place.parent == lineage.active:
            tree.write(place, file.body)
        elif lineage.has_finished(place.parent) and not tree.exists(place.parent):
            tree.write(lineage.active / place.name, file.body)  # moved to its place as a whole
            finished.add(place.parent)
    return finished
