"""The drafts of an item from its lineage, and the diffs between them. Reads the worktree."""

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentos.report.rounds import GateCheck
from agentos.store.rooted_tree import worktree_tree

MOST_BYTES = 200_000  # of one draft
MOST_DIFF_LINES = 400
_MOST_LINES = 3000  # of one draft, for the diff
_MOST_DRAFTS = 40  # of one item
_LINE = 400  # longest line shown
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_DRAFT = re.compile(r"(\d{3,6})-draft\.md")
_HEADING = re.compile(r"#{1,6}\s")


@dataclass(frozen=True, kw_only=True)
class Trail:
    """The lineage folder of one item."""

    worktree: Path
    folder: Path  # relative to the worktree

    def read(self, name: str, most: int = MOST_BYTES) -> str | None:
        """The text of a file of the lineage; None if it is missing, not a regular file, or leads outside."""
        try:
            with os.fdopen(worktree_tree(self.worktree).open(self.folder / name), "rb") as file:
                return file.read(most).decode("utf-8", errors="replace")
        except OSError:
            return None

    def names(self) -> list[str]:
        return worktree_tree(self.worktree).names(self.folder)


def find_trail(
    worktree: Path, folder: str, *, item: str, workflow: str, lineage: str | None, approved: bool
) -> Trail | None:
    """The lineage of an item: the done one that its audit trail names, else the active one."""
    name = f"{item}-{workflow}"
    if not _NAME.fullmatch(name):
        return None
    root = Path(folder)
    places = [root / "active" / name]
    if lineage is not None and _NAME.fullmatch(lineage):
        places.insert(0, root / "done" / lineage)
    elif approved:
        # Older audit trails do not name the lineage: the latest one belongs to this item.
        done = Trail(worktree=worktree, folder=root / "done").names()
        numbers = [int(one[len(name) + 1 :]) for one in done if re.fullmatch(rf"{name}-\d{{1,4}}", one)]
        places.insert(0, root / "done" / (f"{name}-{max(numbers)}" if numbers else name))
    trails = (Trail(worktree=worktree, folder=place) for place in places)
    return next((trail for trail in trails if trail.names()), None)


def title_of(trail: Trail) -> str | None:
    """The title of the item: the first heading of its source text."""
    texts = (trail.read(name, 4000) for name in ("001-issue.md", "001-brief.md"))
    return next((title for text in texts if (title := first_heading(text or ""))), None)


def first_heading(text: str) -> str | None:
    """The words of the first heading, without its marks."""
    lines = (line.strip() for line in text.splitlines())
    titles = (line.strip("#").strip()[:160] for line in lines if _HEADING.match(line))
    return next(filter(None, titles), None)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One draft and its changes."""

    file: str
    number: int
    lines: int
    added: int = 0
    removed: int = 0
    diff: str | None = None
    cut: bool = False  # the diff was shortened
    left_out: bool = False  # there is a diff, but it does not fit on the page

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"file": self.file, "number": self.number, "lines": self.lines}
        if self.diff is not None:
            data |= {"added": self.added, "removed": self.removed, "diff": self.diff}
        return data | {name: True for name in ("cut", "left_out") if getattr(self, name)}


def read_drafts(trail: Trail, gates: Sequence[GateCheck]) -> list[Draft]:
    """The drafts up to the last one of this run, each with its diff to the previous one."""
    names = [name for name in trail.names() if _DRAFT.fullmatch(name)]
    files = {gate.file: gate.draft for gate in gates if gate.file}
    if files and max(files) in names:
        names = names[: names.index(max(files)) + 1]
    drafts: list[Draft] = []
    before: list[str] | None = None
    for number, name in enumerate(names[:_MOST_DRAFTS], 1):
        text = trail.read(name)
        if text is None:
            continue
        lines = text.splitlines()
        draft = Draft(file=name, number=files.get(name) or number, lines=len(lines))
        drafts.append(draft if before is None else _compared(draft, before, lines))
        before = lines
    return drafts


def _compared(draft: Draft, before: Sequence[str], after: Sequence[str]) -> Draft:
    diff = list(difflib.unified_diff(before[:_MOST_LINES], after[:_MOST_LINES], lineterm="", n=2))[2:]
    shown = [line if len(line) <= _LINE else line[:_LINE] + " …" for line in diff[:MOST_DIFF_LINES]]
    return replace(
        draft,
        added=sum(line.startswith("+") for line in diff),
        removed=sum(line.startswith("-") for line in diff),
        diff="\n".join(shown),
        cut=len(diff) > MOST_DIFF_LINES,
    )
