"""Reads which files a design changes, and compares them with the files of the repository. Pure."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from heapq import nsmallest

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.{1,300})")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")  # makes the line above it a heading
_NO_TITLE = re.compile(r"\s*(?:[-*+>|]|\d{1,3}[.)]\s|$)")  # a list, a table, a quotation, an empty line
_NUMBER = re.compile(
    r"(?:section\s+)?(?:\d{1,3}(?:\.\d{1,3}){0,5}(?:[.):\uff0e\u3001]\s*|\s+)|[a-z][.)]\s+)", re.IGNORECASE
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WHAT = "changed|modified|affected|touched"
_WANTED = re.compile(
    rf"(?:[\d.]+\s+)?\W*(?:files? (?:{_WHAT}|to (?:be )?(?:change|modify)d?)|(?:{_WHAT}) files?)"
    r"(?: \([^()]*\))?\W*",
    re.IGNORECASE,
)
_FILES_MARK = re.compile(r"<!--\s*files\s*-->", re.IGNORECASE)  # in a template, at a heading in any language
_COMMENT = re.compile(r"<!--[^<>]{0,100}-->")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]{1,300}\)")
_BOLD = re.compile(r"(?<![\w/*])\*\*([^*\n]{1,300})\*\*(?![\w/*])|(?<![\w/])__(\S{1,300}?)__(?![\w./])")
_LINES = re.compile(r"(?:#L\d|:\d|\s*\((?:lines?|l\.)\s*\d)[\s\d,L)-]*$", re.IGNORECASE)  # where in the file
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_CODE = re.compile(r"`{1,9}([^`\n]{1,400})`{1,9}")
_PATH = re.compile(r"[\w.@+\-()\[\]{}*/]+")
_WIDE = str.maketrans(  # East Asian texts have their own punctuation
    {"\uff1a": ":", "\uff0c": ",", "\u3001": ",", "\uff1b": ";", "\uff08": " (", "\uff09": ")", "\uff5c": "|"}
)
_ENDS = re.compile(r"\s*(?:[:,;|]|\s[-\u2013\u2014]\s|\()|\s*$|\s+\(")
_FILE = re.compile(r"\S*\.\w+|Makefile|Dockerfile|LICENSE")
_MOST_FILES = 500  # of one document
_MOST_LENGTH = 300
_MOST_NEAREST = 3
_MOST_WRONG = 20
_MOST_COMPARED = 1_000  # names, letter by letter


class Mark(StrEnum):
    """What a design does with a file."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    UNKNOWN = "unknown"  # the design does not say


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """One file that a design lists."""

    path: str
    mark: Mark = Mark.UNKNOWN


@dataclass(frozen=True, kw_only=True)
class WrongPath:
    """A path that does not fit the files of the repository."""

    path: str
    nearest: tuple[str, ...] = ()  # paths that exist
    exists: bool = False  # it exists, but the design adds it

    def __str__(self) -> str:
        if self.exists:
            return f"{self.path} (exists already)"
        return f"{self.path} (nearest: {', '.join(self.nearest)})" if self.nearest else self.path


# Words that open the description of a file. "Added" must stand alone: "added a retry" changes a file.
_STOPS = r"(?=\s*(?:$|[;:,.)\]|\u2013\u2014-]))"
_NEW = (
    rf"(?:(?:newly )?(?:added|created)|new|add|create){_STOPS}"
    r"|new (?:[\w-]+ )?(?:file|module|script|package|page|test|tests|document|template)\b"
)
_GONE = r"(?:removed|deleted|remove|delete|dropped)\b"
_OTHER = r"(?:changed|modified|updated|edited|extended|change|modify|update|edit|extend|existing)\b"
_LEAD = r"[\s:;,|(\[*_\u2013\u2014-]*(?:(?:is|are|to be|will be|status|change|action)\b[\s:]*)?"
_AFTER: tuple[tuple[Mark, re.Pattern[str]], ...] = tuple(
    (mark, re.compile(_LEAD + rf"(?:{words})", re.IGNORECASE))
    for mark, words in ((Mark.ADDED, _NEW), (Mark.REMOVED, _GONE), (Mark.CHANGED, _OTHER))
)
# Before a path, and as a sub-heading, a verb is enough: "Add `a.py`", "#### New files".
_BEFORE: tuple[tuple[Mark, re.Pattern[str]], ...] = (
    (Mark.ADDED, re.compile(r"\W*(?:add|added|create|created|new)(?: files?)?\W*", re.IGNORECASE)),
    (Mark.REMOVED, re.compile(r"\W*(?:removed?|deleted?)(?: files?)?\W*", re.IGNORECASE)),
    (
        Mark.CHANGED,
        re.compile(
            r"\W*(?:changed?|modify|modified|updated?|edit|edited|existing)(?: files?)?\W*", re.IGNORECASE
        ),
    ),
)
_MOVED = re.compile(r"->|=>|\u2192|\b(?:moved?|renamed?)\b", re.IGNORECASE)


def changes_in(document: str, headings: Collection[str] = ()) -> tuple[FileChange, ...]:
    """The files listed under a heading "Files changed", each once per mark; prose is skipped.

    `headings` are others that a template uses instead, from `marked_headings`.
    """
    found: dict[FileChange, None] = {}
    for group, line in _section(document, headings):
        for change in _changes(line, group):
            found[change] = None
            if len(found) >= _MOST_FILES:
                return tuple(found)
    return tuple(found)


def marked_headings(template: str) -> frozenset[str]:
    """The headings that a template marks with `<!-- files -->`, beside them or alone below them."""
    found: set[str] = set()
    heading = ""
    for depth, line in _lines(template):
        if depth:
            heading = _title(line).casefold()
        if heading and (_FILES_MARK.search if depth else _FILES_MARK.fullmatch)(line.strip()):
            found.add(heading)
    return frozenset(found)


def files_changed(document: str, headings: Collection[str] = ()) -> tuple[str, ...]:
    """The paths of these files."""
    return tuple(dict.fromkeys(change.path for change in changes_in(document, headings)))


def added_in(documents: Iterable[str], headings: Collection[str] = ()) -> frozenset[str]:
    """The files that any of these designs adds."""
    changes = (change for text in documents for change in changes_in(text, headings))
    return frozenset(change.path for change in changes if change.mark is Mark.ADDED)


def check_paths(
    changes: Sequence[FileChange], tracked: Collection[str], added_by_others: Collection[str] = ()
) -> tuple[WrongPath, ...]:
    """Name the files that are changed or removed but do not exist, or are added but do.

    A file that another design adds counts as existing. A file that this design adds or removes may be listed
    twice. Where nothing is tracked, nothing is wrong.
    """
    if not tracked:
        return ()
    files = _Files(tracked)
    marks: dict[str, set[Mark]] = {}
    for change in changes:
        marks.setdefault(change.path, set()).add(change.mark)
    wrong: list[WrongPath] = []
    for path, of in marks.items():
        if of == {Mark.ADDED}:
            if path in files.known:
                wrong.append(WrongPath(path=path, exists=True))
        elif (
            Mark.ADDED not in of
            and of & {Mark.CHANGED, Mark.REMOVED}
            and path not in added_by_others
            and not files.covers(path)
        ):
            wrong.append(WrongPath(path=path, nearest=files.nearest(path)))
        if len(wrong) >= _MOST_WRONG:
            break
    return tuple(wrong)


class _Files:
    """The files of the repository, and the folders they are in."""

    def __init__(self, tracked: Collection[str]) -> None:
        self.known = frozenset(tracked)
        self._sorted = sorted(self.known)
        self._by_name: dict[str, list[str]] = {}
        for one in self._sorted:
            self._by_name.setdefault(_name(one), []).append(one)
        self._endings = {_ending(name) for name in self._by_name}

    def covers(self, path: str) -> bool:
        """Whether a path is a file, a folder with files, or a pattern that matches some.

        `Foo.bar` may be a name in the code: without a folder, its ending must be one that files here have.
        """
        if path in self.known or ("/" not in path and _ending(path) not in self._endings):
            return True
        at = bisect_left(self._sorted, f"{path}/")
        if at < len(self._sorted) and self._sorted[at].startswith(f"{path}/"):
            return True
        if any(letter in path for letter in "*?{["):
            pattern = re.sub(r"\*+|\{[^{}]*\}", "*", path)
            return any(fnmatchcase(one, pattern) for one in self._sorted)
        return False

    def nearest(self, path: str) -> tuple[str, ...]:
        """Existing paths that may be meant: of that name elsewhere, spelt alike, or else in its folder."""
        same = self._by_name.get(_name(path))
        if same:
            return tuple(_closest(path, same))
        alike: dict[str, list[str]] = {}  # by the name without its ending
        stem, ending = _stem(path), f".{_ending(path)}"
        for name, paths in self._by_name.items():
            if name.endswith(ending) and (name[:1] == stem[:1] or _folder(paths[0]) == _folder(path)):
                alike[_stem(name)] = paths
                if len(alike) >= _MOST_COMPARED:
                    break
        close = get_close_matches(stem, alike, n=_MOST_NEAREST)
        beside = [one for one in self._sorted if _folder(one) and _folder(one) == _folder(path)]
        begun = [one for one in beside if _stem(one).startswith(stem)]  # "auth.md" for "authentication.md"
        found = (*begun, *(one for name in close for one in _closest(path, alike[name])))
        return tuple(dict.fromkeys(found or beside))[:_MOST_NEAREST]


def _closest(path: str, paths: Sequence[str]) -> list[str]:
    """Of paths with one name, those that have the most folders in common with this one."""
    folders = path.split("/")[:-1]
    return nsmallest(_MOST_NEAREST, paths, key=lambda one: -_shared(folders, one.split("/")))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _stem(path: str) -> str:
    return _name(path).rpartition(".")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2].casefold()


def _ending(path: str) -> str:
    return _name(path).rpartition(".")[2]


def _shared(folders: Sequence[str], parts: Sequence[str]) -> int:
    """How many folders two paths have in common, from the root."""
    pairs = zip(folders, parts, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(folders), len(parts)))


def _section(document: str, headings: Collection[str]) -> Iterator[tuple[Mark, str]]:
    """The lines under the heading and its sub-headings, up to the next heading of the same level.

    Each comes with the mark of the group it is in: a sub-heading, or a line such as `**Added:**`.
    """
    level = 0  # of the heading; 0 outside of it
    group = Mark.UNKNOWN
    for depth, line in _lines(document):
        if depth:
            title = _title(line)
            if level == 0 or depth <= level:
                level = depth if title.casefold() in headings or _WANTED.fullmatch(title) else 0
            group = _mark(_BEFORE, title)
        elif level:
            if (named := _mark(_BEFORE, line)) is not Mark.UNKNOWN:
                group = named
            yield group, line


def _lines(document: str) -> Iterator[tuple[int, str]]:
    """The lines outside code, each with its depth if it is a heading, else 0."""
    fence = ""
    lines = document.splitlines()
    for number, line in enumerate(lines):
        if match := _FENCE.match(line):
            if not fence:
                fence = match[1]
            elif match[1].startswith(fence):
                fence = ""
        elif fence:
            continue
        elif (heading := _HEADING.fullmatch(line)) is not None:
            yield len(heading[1]), heading[2]
        else:
            alone = number == 0 or not lines[number - 1].strip()
            below = lines[number + 1] if alone and number + 1 < len(lines) else ""
            under = None if _NO_TITLE.match(line) else _UNDERLINE.fullmatch(below)
            yield (0 if under is None else 1 if under[1][0] == "=" else 2), line


def _title(heading: str) -> str:
    """The words of a heading, without its number."""
    plain = _COMMENT.sub("", unicodedata.normalize("NFC", heading))
    plain = plain.replace("*", "").replace("`", "").strip(" \t#")
    number = _NUMBER.match(plain)
    return plain[number.end() if number else 0 :].rstrip(" \t:.\uff1a")


def _mark(patterns: Sequence[tuple[Mark, re.Pattern[str]]], text: str) -> Mark:
    return next((mark for mark, pattern in patterns if pattern.fullmatch(text)), Mark.UNKNOWN)


def _mark_after(text: str) -> Mark:
    return next((mark for mark, pattern in _AFTER if pattern.match(text)), Mark.UNKNOWN)


def _changes(line: str, group: Mark) -> Iterator[FileChange]:
    # Of links and bold words, only what is shown.
    line = _BOLD.sub(lambda found: found[1] or found[2], _LINK.sub(r"\1", line))
    if not line.isascii():
        line = "".join(part if code else part.translate(_WIDE) for code, part in _spans(line))
    if line.lstrip().startswith("|"):
        yield from _row(line, group)
    elif (item := _LIST_ITEM.fullmatch(line)) is not None:
        yield from _item(item[1].strip(), group)
    elif (found := _leading_path(line.strip(), bare=False)) is not None:
        yield FileChange(path=found.path, mark=_first(found.mark, group))


def _spans(line: str) -> Iterator[tuple[bool, str]]:
    """A line in pieces, each with whether it is code: there, every letter may belong to a path."""
    at = 0
    for code in _CODE.finditer(line):
        yield False, line[at : code.start()]
        yield True, code[0]
        at = code.end()
    yield False, line[at:]


def _row(line: str, group: Mark) -> Iterator[FileChange]:
    # Any cell may hold the path: in some tables it comes first, in others after a number.
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    for at, cell in enumerate(cells):
        if (found := _leading_path(cell, bare=True)) is not None:
            others = (_mark_after(one) for one in (*cells[at + 1 :], *cells[:at]))
            yield FileChange(path=found.path, mark=_first(found.mark, *others, group))
            return


def _item(text: str, group: Mark) -> Iterator[FileChange]:
    codes = list(_CODE.finditer(text.split(":", 1)[0]))
    paths = [(code, path) for code in codes if (path := _normalised(code[1])) is not None]
    if not codes:
        # "New: `a.py`": the colon comes before the path.
        verb, colon, rest = text.partition(":")
        before = _mark(_BEFORE, verb) if colon else Mark.UNKNOWN
        if before is not Mark.UNKNOWN:
            text = rest.strip()
        if (found := _leading_path(text, bare=True)) is not None:
            yield FileChange(path=found.path, mark=_first(found.mark, before, group))
        return
    if not paths:
        return
    rest = text[codes[-1].end() :]
    before = _mark(_BEFORE, text[: codes[0].start()])
    # "Add `a.py` handling: changed": what is said at the end counts more than a verb.
    mark = _first(_mark_after(rest), _mark_after(rest.partition(":")[2]), before, group)
    if len(paths) == 2 and mark is Mark.UNKNOWN and _MOVED.search(text):
        yield FileChange(path=paths[0][1], mark=Mark.REMOVED)
        yield FileChange(path=paths[1][1], mark=Mark.ADDED)
        return
    for _, path in paths:
        yield FileChange(path=path, mark=mark)


def _first(*marks: Mark) -> Mark:
    return next((mark for mark in marks if mark is not Mark.UNKNOWN), Mark.UNKNOWN)


def _leading_path(text: str, *, bare: bool) -> FileChange | None:
    """The path at the start of a text: in backticks, or bare if `bare` (in a list or table)."""
    text = text.lstrip("*_ ")
    if (code := _CODE.match(text)) is not None:
        # Prose may begin with a path too; then more words follow without punctuation in between.
        rest = text[code.end() :].lstrip("*_ ")
        usable = bare or not rest or rest[0] in ":,;(-\u2013\u2014"
        path, after = (_normalised(code[1]) if usable else None), rest
    elif bare and (match := _PATH.match(text)) is not None:
        path = _normalised(match[0].strip()) if _ENDS.match(text, match.end()) else None
        after = text[match.end() :]
    else:
        return None
    return None if path is None else FileChange(path=path, mark=_mark_after(after))


def _normalised(text: str) -> str | None:
    """One spelling per file; None if the text is not a path inside the repository."""
    path = _LINES.sub("", text.strip()).replace("\\", "/")
    if "://" in path or path.startswith(("/", "~")) or len(path) > _MOST_LENGTH or ":" in path:
        return None
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if not parts or ".." in parts or any(part != part.strip() for part in parts):
        return None
    # A word without a folder or an extension is prose, except for a few well-known file names.
    if len(parts) == 1 and not _FILE.fullmatch(parts[0]):
        return None
    return "/".join(parts)
