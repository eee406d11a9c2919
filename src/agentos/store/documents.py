"""Documents in the worktree: who wrote the one that is there, and replacing it without losing a word."""

import contextlib
import os
import stat as stat_modes
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentos.errors import ItemFailed, StorageError
from agentos.stamp import Stamp, Stamped, split, without_stamps
from agentos.store.files import inside, sync_folder, unfinished, write_new
from agentos.store.lineage import Lineage

MAX_DOCUMENT_BYTES = 1_000_000
REVIEW_LOG = "## Review Log"
_LOG_LINES = ("|", "### Follow-ups", "- Tier ")
_TRIES = 5  # to put a document in its place while somebody else keeps writing there


class Author(StrEnum):
    """Who wrote a document as it is now."""

    OURS = "ours"  # as we wrote it
    EDITED = "edited"  # a person changed it since
    FOREIGN = "foreign"  # no stamp, or the stamp of another item


@dataclass(frozen=True, kw_only=True)
class Found:
    """A document that is in its place."""

    path: str  # from the worktree
    author: Author
    stamp: Stamp | None
    text: str | None  # None where it cannot be read as text
    body: str = ""  # the text without its stamp

    @property
    def by_mock(self) -> bool:
        return self.stamp is not None and self.stamp.by == "mock"

    @property
    def basis(self) -> str:
        """What a drafter revises: the document without our review log."""
        return without_review_log(self.body)


def find_document(worktree: Path, path: Path, label: str, lineage: Lineage) -> Found | None:
    """Look at a document's place; None where nothing is."""
    target = inside(worktree, path)
    try:
        text = read_text(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return Found(path=str(path), author=Author.FOREIGN, stamp=None, text=None)
    taken = split(text)
    author = _author(taken, label, lineage)
    stamp = None if author is Author.FOREIGN else taken.stamp
    return Found(path=str(path), author=author, stamp=stamp, text=text, body=taken.body)


def _author(taken: Stamped, label: str, lineage: Lineage) -> Author:
    if taken.stamp is None or taken.stamp.item != label:
        return Author.FOREIGN
    unchanged = taken.unchanged
    if unchanged is None:
        # The first version wrote no hash of the text; its lineage has the text that was approved.
        approved = without_review_log(taken.body).strip("\n")
        unchanged = any(without_stamps(text).strip("\n") == approved for text in lineage.finals())
    return Author.OURS if unchanged else Author.EDITED


def without_review_log(body: str) -> str:
    """Cut our review log out; whatever a person wrote in it or after it stays."""
    before, found, log = ("\n" + body).partition(f"\n{REVIEW_LOG}\n")
    if not found:
        return body
    lines = log.split("\n")
    while lines and (not lines[0].strip() or lines[0].startswith(_LOG_LINES)):
        del lines[0]
    after = "\n".join(lines).strip("\n")
    return before.removeprefix("\n").rstrip("\n") + "\n" + (f"\n{after}\n" if after else "")


def read_text(path: Path) -> str:
    """Read a regular file of bounded size, never through a link. Raises OSError or ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat_modes.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError("too large")
    return data.decode("utf-8")


def put_in_place(worktree: Path, path: Path, text: str, *, label: str, lineage: Lineage) -> list[str]:
    """Put a document in its place; give the files of the lineage in which what was there is kept.

    What is there is moved away whole, so that nothing written up to that moment is lost, and the new document
    never takes the place of anything: should somebody put a file there meanwhile, it is moved away, too.
    """
    target = inside(worktree, path)
    kept: list[str] = []
    for _ in range(_TRIES):
        with contextlib.suppress(OSError, ValueError):
            if read_text(target) == text:
                # A run that was killed right after it had put it there.
                unfinished(target).unlink(missing_ok=True)
                return kept
        if os.path.lexists(target):
            kept += _move_away(worktree, path, target, label, lineage)
        try:
            write_new(target, text)
        except FileExistsError:
            continue
        return kept
    raise ItemFailed(f"{path} is changed again and again by somebody else; run the item again later.")


def _move_away(worktree: Path, path: Path, target: Path, label: str, lineage: Lineage) -> list[str]:
    if target.is_dir() and not target.is_symlink():
        raise ItemFailed(f"{path} is a folder; move it away, then run the item again.")
    found = find_document(worktree, path, label, lineage)
    if found is None:
        return []
    try:
        if found.by_mock and found.author is Author.OURS:
            # Nobody's work; but only if it is still that when it is gone from its place.
            aside = lineage.take(target, "mock")
            with contextlib.suppress(ValueError):
                if read_text(aside) == found.text:
                    aside.unlink()
                    return []
            return [lineage.rename(aside, "edited")]
        name = lineage.take(target, "replaced" if found.author is Author.OURS else "edited")
        sync_folder(target.parent)
        if lineage.has_copy_of(name):
            name.unlink()  # it was kept when the run began
            return []
    except OSError as exc:
        raise StorageError(f"Cannot keep {path} in the lineage: {exc.strerror or exc}.") from exc
    return [name.name]
