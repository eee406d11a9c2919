"""The documents of an item: which ones there are, and their texts for the page. Reads the worktree.

They are the numbered files of its lineage and the document in its place. Texts are read only through the
worktree's tree, and never more than the limit.
"""

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agentos.events.fields import Record, count_of, text_of
from agentos.redact import redact
from agentos.report.drafts import Trail
from agentos.report.page import calm
from agentos.stamp import split
from agentos.store.rooted_tree import worktree_tree

MOST_BYTES = 200_000  # of one document
MOST_LINES = 10_000  # of one document: reading Markdown takes a while for each line, however short it is
MOST_PAGE_BYTES = 250_000  # of all texts in a report
MOST_DOCUMENTS = 100  # of one item
_NUMBERED = re.compile(r"(\d{3,6})-([a-z]{1,20})\.md")
_COUNTED = ("draft", "verdict")  # the records that name the file: gate and verdict


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document of an item; `file` is a name in its lineage, or the path of the document in its place."""

    file: str
    size: int  # bytes
    number: int | None = None  # of the draft or the review


def list_documents(
    trail: Trail | None, records: Iterable[Record], *, worktree: Path, output: str | None, whole: bool
) -> tuple[Document, ...]:
    """The documents of an item in one run, oldest first; `whole`: the trail ended in this run."""
    numbers = _numbers(records)
    found: list[Document] = []
    counts = dict.fromkeys(_COUNTED, 0)
    for name, size in () if trail is None else _files(trail):
        match = _NUMBERED.fullmatch(name)
        if match is None or (numbers and not whole and int(match[1]) > max(map(_place, numbers))):
            continue
        number = None
        if match[2] in counts:
            counts[match[2]] += 1
            number = numbers.get(name) or counts[match[2]]
        found.append(Document(file=name, size=size, number=number))
    found = found[-MOST_DOCUMENTS:]
    if output is not None and (there := _size(worktree, output)) is not None:
        found.append(Document(file=output, size=there))
    return tuple(found)


def _numbers(records: Iterable[Record]) -> dict[str, int]:
    """The number of the draft or of the review in each file that the run wrote."""
    found: dict[str, int] = {}
    for record in records:
        name, kind = text_of(record, "file", 80), record.get("kind")
        if name is not None and kind in {"gate", "verdict"} and _NUMBERED.fullmatch(name):
            found[name] = count_of(record, "draft" if kind == "gate" else "review")
    return found


def _place(name: str) -> int:
    return int(name.split("-", 1)[0])


def _files(trail: Trail) -> list[tuple[str, int]]:
    try:
        entries = worktree_tree(trail.worktree).entries(trail.folder)
    except OSError:
        return []
    return sorted((one.name, one.size) for one in entries if one.is_file)


def _size(worktree: Path, output: str) -> int | None:
    """The size of a document in its place; None if it is not a Markdown file of the worktree."""
    path = PurePosixPath(output)
    if "://" in output or path.suffix != ".md" or path.is_absolute() or ".." in path.parts:
        return None
    info = worktree_tree(worktree).stat(path)
    return info.st_size if info is not None and stat.S_ISREG(info.st_mode) else None


@dataclass(frozen=True, kw_only=True)
class DocumentText:
    """The text of a document as far as it is shown, as nodes (see markdown_tree)."""

    nodes: list[Any]
    cut: bool  # there is more in the file

    def as_dict(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "cut": self.cut}


def read_text(worktree: Path, path: str, most: int = MOST_BYTES) -> DocumentText | None:
    """The text of one document; None if it is missing, not a regular file, or leads outside."""
    try:
        with os.fdopen(worktree_tree(worktree).open(PurePosixPath(path)), "rb") as file:
            data = file.read(most + 1)
    except OSError:
        return None
    return document_text(data[:most].decode("utf-8", errors="replace"), cut=len(data) > most)


def document_text(text: str, *, cut: bool = False) -> DocumentText:
    """The beginning of a document as safe nodes; `cut`: the text is not all of it."""
    from agentos.report.markdown_tree import markdown_tree  # noqa: PLC0415 - only where a text is shown

    lines = text[:MOST_BYTES].splitlines(keepends=True)
    shown = "".join(lines[:MOST_LINES]).replace("\0", "\ufffd")
    cut = cut or len(text) > MOST_BYTES or len(lines) > MOST_LINES
    return DocumentText(nodes=markdown_tree(redact(split(shown).body)), cut=cut)


def path_of(trail: str | None, file: str) -> str:
    """The path of a document in the worktree; `trail` is the lineage folder of its item."""
    return file if "/" in file or trail is None else f"{trail}/{file}"


def with_texts(
    data: dict[str, Any], *, run: Path, worktree: Path, most: int = MOST_PAGE_BYTES
) -> dict[str, Any]:
    """The data of a page together with the texts of documents, until they are `most` bytes.

    First the latest documents of the items with problems, then of the others, then the earlier ones.
    """
    texts: dict[str, Any] = {}
    left_out = 0
    for path, size in _by_need(data["items"]):
        if path in texts:
            continue
        text = read_text(worktree, path) if size <= most else None
        if text is None:
            left_out += 1
            continue
        most -= size
        texts[path] = text.as_dict()
    base = _way(run, worktree)
    return data | {"documents": {"base": base, "texts": texts, "left_out": left_out}}


def _by_need(items: Sequence[dict[str, Any]]) -> Iterable[tuple[str, int]]:
    ordered = sorted(items, key=calm)
    for wanted in (slice(-2, None), slice(None, -2)):
        for item in ordered:
            for one in reversed(item["documents"][wanted]):
                yield path_of(item["trail"], one["file"]), one["size"]


def _way(run: Path, worktree: Path) -> str:
    """The relative address of the worktree, as seen from the run's folder."""
    return Path(os.path.relpath(worktree, run)).as_posix()
