"""Finds the files that several designs change, so that nobody builds them in parallel unaware. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WANTED = re.compile(r"(?:[\d.]+\s+)?(?:\W*)files? (?:changed|to change|affected)\W*", re.IGNORECASE)
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_CODE = re.compile(r"`+([^`\n]+)`+")
_PATH = re.compile(r"[\w.@+\-()\[\]{}*/]+")
_ENDS = re.compile(r"\s*(?:[:,;|]|\s[-\u2013\u2014]\s|\()|\s*$|\s+\(")
_FILE = re.compile(r"\S*\.\w+|Makefile|Dockerfile|LICENSE")
_NUMBERS = re.compile(r"(\d+)")
_MOST_FILES = 500  # of one document
_MOST_LENGTH = 300


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Items whose designs change the same files."""

    items: tuple[str, ...]  # labels, two or more, in natural order
    files: tuple[str, ...]


def overlaps(documents: Mapping[str, str]) -> tuple[Overlap, ...]:
    """Compare designs by label. Files shared by the same items form one group; most items first."""
    users: dict[str, list[str]] = {}
    for label in sorted(documents, key=_natural):
        for file in files_changed(documents[label]):
            users.setdefault(file, []).append(label)
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in sorted(users):
        if len(users[file]) > 1:
            groups.setdefault(tuple(users[file]), []).append(file)
    ordered = sorted(groups, key=lambda items: (-len(items), [_natural(label) for label in items]))
    return tuple(Overlap(items=items, files=tuple(groups[items])) for items in ordered)


def files_changed(document: str) -> tuple[str, ...]:
    """The files listed under a heading "Files changed"; prose is skipped."""
    found: dict[str, None] = {}
    for line in _section(document):
        for path in _paths(line):
            found[path] = None
            if len(found) >= _MOST_FILES:
                return tuple(found)
    return tuple(found)


def _section(document: str) -> Iterator[str]:
    """The lines under the heading and its sub-headings, up to the next heading of the same level."""
    level = 0  # of the heading; 0 outside of it
    fence = ""
    for line in document.splitlines():
        if match := _FENCE.match(line):
            if not fence:
                fence = match[1]
            elif match[1].startswith(fence):
                fence = ""
            continue
        heading = None if fence else _HEADING.fullmatch(line)
        if heading is not None:
            depth = len(heading[1])
            if level == 0 or depth <= level:
                level = depth if _WANTED.fullmatch(heading[2].replace("*", "").replace("`", "")) else 0
        elif level and not fence:
            yield line


def _paths(line: str) -> Iterator[str]:
    if line.lstrip().startswith("|"):
        # Any cell may hold the path: in some tables it comes first, in others after a number.
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        for cell in cells:
            if (path := _leading_path(cell, bare=True)) is not None:
                yield path
                return
        return
    if (item := _LIST_ITEM.fullmatch(line)) is not None:
        text = item[1].strip()
        codes = [match[1] for match in _CODE.finditer(text.split(":", 1)[0])]
        if codes:
            yield from filter(None, map(_normalised, codes))
        elif (path := _leading_path(text, bare=True)) is not None:
            yield path
        return
    if (path := _leading_path(line.strip(), bare=False)) is not None:
        yield path


def _leading_path(text: str, *, bare: bool) -> str | None:
    """The path at the start of a text: in backticks, or bare if `bare` (in a list or table)."""
    text = text.lstrip("*_ ")
    if (code := _CODE.match(text)) is not None:
        # Prose may begin with a path too; then more words follow without punctuation in between.
        rest = text[code.end() :].lstrip("*_ ")
        return _normalised(code[1]) if bare or not rest or rest[0] in ":,;(-\u2013\u2014" else None
    if not bare or (match := _PATH.match(text)) is None:
        return None
    return _normalised(match[0].strip()) if _ENDS.match(text, match.end()) else None


def _normalised(text: str) -> str | None:
    """One spelling per file; None if the text is not a path inside the repository."""
    path = text.strip().replace("\\", "/")
    if "://" in path or path.startswith(("/", "~")) or len(path) > _MOST_LENGTH or ":" in path:
        return None
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if not parts or ".." in parts or any(part != part.strip() for part in parts):
        return None
    # A word without a folder or an extension is prose, except for a few well-known file names.
    if len(parts) == 1 and not _FILE.fullmatch(parts[0]):
        return None
    return "/".join(parts)


def _natural(label: str) -> list[tuple[int, int, str]]:
    """A sort key that puts LLD-9 before LLD-10."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part.casefold())
        for part in _NUMBERS.split(label)
        if part
    ]
