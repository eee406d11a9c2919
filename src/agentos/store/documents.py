"""Documents in the worktree: finds who wrote one, and replaces it without losing a person's words."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentos.end_matter import NO_END, EndMatter, take_end
from agentos.errors import ItemFailed, StorageError, UsageError
from agentos.files_changed import marked_headings
from agentos.stamp import Stamp, Stamped, split, text_hash, without_stamps
from agentos.store.lineage import Lineage
from agentos.store.rooted_tree import PathRefused, Tree, unfinished, worktree_tree

MAX_DOCUMENT_BYTES = 1_000_000
MAX_OTHERS = 1_000
_TRIES = 5  # to put a document in place while somebody else keeps writing there


class Author(StrEnum):
    """Who wrote the current version of a document."""

    OURS = "ours"  # as agentos wrote it
    EDITED = "edited"  # changed by a person since then
    FOREIGN = "foreign"  # no stamp, or the stamp of another item


@dataclass(frozen=True, kw_only=True)
class Found:
    """A document in the worktree."""

    path: str  # relative to the worktree
    author: Author
    stamp: Stamp | None
    text: str | None  # None if it cannot be read as text
    basis: str = ""  # what a drafter revises: the text without stamp and end
    end: EndMatter = NO_END

    @property
    def seen(self) -> str:
        """A hash of the whole file, to see whether it has changed."""
        return text_hash(self.text or "")

    @property
    def by_mock(self) -> bool:
        return self.stamp is not None and self.stamp.by == "mock"

    @property
    def text_hash(self) -> str:
        return text_hash(split(self.text or "").body)


def find_document(worktree: Path, path: Path, label: str, lineage: Lineage) -> Found | None:
    """Read the document at its path; None if there is none."""
    tree = worktree_tree(worktree)
    try:
        text = tree.text(path, MAX_DOCUMENT_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as exc:
        if isinstance(exc, PathRefused) and not tree.exists(
            path
        ):  # a folder above it, not the document, is refused
            raise UsageError(f"Cannot read {path}: {exc.strerror}.") from exc
        return Found(path=str(path), author=Author.FOREIGN, stamp=None, text=None)
    taken = split(text)
    author = _author(taken, label, lineage)
    stamp = None if author is Author.FOREIGN else taken.stamp
    basis, end = take_end(taken.body)
    return Found(path=str(path), author=author, stamp=stamp, text=text, basis=basis, end=end)


def other_documents(worktree: Path, path: Path) -> Iterator[str]:
    """Read the documents beside the one at this path; what cannot be read is skipped."""
    tree = worktree_tree(worktree)
    names = [name for name in tree.names(path.parent) if name.endswith(".md") and name != path.name]
    for name in names[:MAX_OTHERS]:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield tree.text(path.with_name(name), MAX_DOCUMENT_BYTES)


def file_headings(worktree: Path, template: str | None) -> frozenset[str]:
    """The headings under which designs list their files, if the repo's own template marks one."""
    if template is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return marked_headings(worktree_tree(worktree).text(Path(template), MAX_DOCUMENT_BYTES))
    return frozenset()


def _author(taken: Stamped, label: str, lineage: Lineage) -> Author:
    if taken.stamp is None or taken.stamp.item != label:
        return Author.FOREIGN
    unchanged = taken.unchanged
    if unchanged is None:
        # The first version wrote no hash of the text; its lineage has the approved text.
        approved = take_end(taken.body)[0].strip("\n")
        unchanged = any(without_stamps(text).strip("\n") == approved for text in lineage.finals())
    return Author.OURS if unchanged else Author.EDITED


def put_in_place(worktree: Path, path: Path, text: str, *, label: str, lineage: Lineage) -> list[str]:
    """Put a document in place; return the lineage files that keep what was there before.

    The existing file is moved away whole, so that nothing written up to that moment is lost. The new document
    never overwrites anything: if somebody puts a file there in the meantime, it is moved away too.
    """
    tree = worktree_tree(worktree)
    kept: list[str] = []
    for _ in range(_TRIES):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if tree.text(path, MAX_DOCUMENT_BYTES) == text:
                # A run was killed right after it put the document there.
                tree.remove(path.with_name(unfinished(path.name)))
                return kept
        if tree.exists(path):
            kept += _move_away(tree, path, label, lineage)
        try:
            tree.create(path, text)
        except FileExistsError:
            continue
        return kept
    raise ItemFailed(f"{path} keeps changing while agentos writes it; run the item again later")


def _move_away(tree: Tree, path: Path, label: str, lineage: Lineage) -> list[str]:
    if tree.is_folder(path):
        raise ItemFailed(f"{path} is a folder. Move it, then run the item again")
    found = find_document(tree.root, path, label, lineage)
    if found is None:
        return []
    try:
        if found.by_mock and found.author is Author.OURS:
            # Nobody's work, but only if it is still unchanged once it has been moved away.
            aside = lineage.take(path, "mock")
            with contextlib.suppress(UnicodeDecodeError):
                if tree.text(aside, MAX_DOCUMENT_BYTES) == found.text:
                    tree.remove(aside)
                    return []
            return [lineage.rename(aside, "edited")]
        kept = lineage.take(path, "replaced" if found.author is Author.OURS else "edited")
        if lineage.has_copy_of(kept):
            tree.remove(kept)  # it was kept when the run began
            return []
    except OSError as exc:
        raise StorageError(f"Cannot keep {path} in the lineage: {exc.strerror or exc}.") from exc
    return [kept.name]
