"""Gives a model what it wishes to read, by the rules of the map. Coordinator process.

A wish is a path, `path#Name`, `path:120-180`, a folder, or words to search for. Whatever cannot be given has
an answer that says why: the model reads it, and so does whoever looks at the audit trail.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Protocol

from agentos.model import counted
from agentos.repo_map.definitions import Unit
from agentos.repo_map.file_kinds import shown
from agentos.repo_map.file_tree import draw_tree
from agentos.repo_map.item_parts import Source
from agentos.repo_map.parts import MAX_WISHES, Answer, Budget, Part, PartKind, Range, Reading

MAX_WISH = 300  # characters
MAX_FILE = 6_000  # tokens of a file or class that is given whole; of a longer one, signatures
MAX_LINES = 400  # for one wish
MAX_FOUND = 25  # lines of one search
MAX_SEARCHED = 8  # files in which a definition is looked for
MIN_SEARCH = 3  # characters
MAX_LISTED = 3_000  # characters of a folder's listing
_MAX_LINE = 200  # characters of a line that a search shows
_FEW = 3  # definitions with the same name that are given
_LINES = re.compile(r"(?P<path>.+?):(?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))?")
_NAME = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#)[^\W\d]\w*)*(?:\(\))?")
_PATH = re.compile(
    r"\S*/\S*|\.\S+|[\w.-]+\.(?:cfg|css|html|ini|json|lock|md|rst|sh|toml|txt|ya?ml|[a-z]{1,2})"
)


class Library(Protocol):
    """The repository, as far as reading goes."""

    @property
    def files(self) -> frozenset[str]: ...

    def why_not(self, path: str) -> str | None:
        """Why a tracked file may not be read."""

    def source(self, path: str) -> Source | None: ...

    def resolve(self, name: str) -> str | None:
        """The only file whose path ends so."""

    def lines_with(self, texts: Sequence[str]) -> list[tuple[str, int, str]]:
        """Path, number and text of the lines that contain one of the texts, in any case."""

    def defining(self, name: str) -> list[str]:
        """The files that seem to define a name."""

    def absent(self, names: Iterable[str]) -> set[str]:
        """Those of the names that occur in no tracked file."""


@dataclass
class Reader:
    """Reads for one item; nothing that is shown already is given again."""

    library: Library
    budget: Budget
    known: Iterable[Range] = ()
    _lines: dict[str, set[int]] = field(default_factory=dict)  # shown already, by path

    def __post_init__(self) -> None:
        for path, first, last in self.known:
            self._lines.setdefault(path, set()).update(range(first, last + 1))

    def read(self, wishes: Sequence[str]) -> list[Answer]:
        """Answer every wish; the parts are in the budget."""
        answers = [self._answer(wish) for wish in dict.fromkeys(wishes[:MAX_WISHES])]
        if len(wishes) > MAX_WISHES:
            left = len(wishes) - MAX_WISHES
            said = f"not looked at: only the first {MAX_WISHES} wishes count"
            answers.append(Answer(wish=f"{left} more", said=said, refused=True))
        return answers

    def definitions(self, names: Iterable[str]) -> None:
        """Take the definitions of some names, as far as there is room."""
        for name in names:
            self._defined(name)

    def _answer(self, wish: str) -> Answer:
        valid = wish.encode("utf-8", "replace").decode()  # JSON can contain half a character
        text = " ".join(valid.split()).strip("`'\"")
        if len(text) > MAX_WISH:
            return Answer(wish=shown(text[:60]), said=f"longer than {MAX_WISH} characters", refused=True)
        before = self.budget.left
        try:
            said = self._given(text)
        except _RefusedWish as exc:
            return Answer(wish=shown(text), said=str(exc), refused=True)
        used = before - self.budget.left
        return Answer(wish=shown(text), said=f"{said} ({used:,} tokens)" if used else said)

    def _given(self, text: str) -> str:
        if not text:
            raise _RefusedWish("an empty wish")
        path, name, lines = _split(text)
        if path.startswith(("/", "~")) or ".." in path.split("/") or "\\" in path:
            raise _RefusedWish("only paths inside the repository, relative to its root")
        found = path if path in self.library.files else None
        folder = path.rstrip("/")
        inside = [one for one in self.library.files if folder in {"", "."} or one.startswith(f"{folder}/")]
        if found is None and inside and not name:
            return self._listed(folder or ".", inside)
        found = found or self.library.resolve(path)
        if found is not None:
            return self._from_file(found, name, lines)
        if name or lines or _PATH.fullmatch(path):
            near = get_close_matches(path, self.library.files, n=3, cutoff=0.6)
            nearest = f"; the nearest are {', '.join(map(shown, near))}" if near else ""
            raise _RefusedWish(f"no tracked file has this path{nearest}")
        return self._searched(text)

    def _from_file(self, path: str, name: str, lines: tuple[int, int] | None) -> str:
        if (why := self.library.why_not(path)) is not None:
            raise _RefusedWish(f"not sent: {why}")
        source = self.library.source(path)
        if source is None:
            raise _RefusedWish("not sent: it cannot be read")
        if name:
            units = _named(source, name)
            if not units:
                names = list(dict.fromkeys(unit.name for unit in source.units if unit.kind))
                near = get_close_matches(name, names, n=5, cutoff=0.4) or names[:5]
                defines = f"; it defines {', '.join(near)}" if near else ""
                raise _RefusedWish(f"{shown(path)} defines no {name}{defines}")
            return self._units(source, units)
        first, last = lines or (1, len(source.lines))
        if first > len(source.lines) or last < first:
            raise _RefusedWish(f"{shown(path)} has {counted(len(source.lines), 'line')}")
        last = min(last, len(source.lines))
        if lines is None and source.tokens > MAX_FILE:
            return self._outlined(source, [unit for unit in source.units if unit.kind], "the file")
        cut = min(last, first + MAX_LINES - 1) if lines else last
        more = (
            f"; at most {MAX_LINES} lines for one wish, so lines {cut + 1}-{last} are missing"
            if cut < last
            else ""
        )
        return self._taken(source, first, cut) + more

    def _units(self, source: Source, units: Sequence[Unit]) -> str:
        first, last = units[0].first, units[-1].last
        size = sum(source.size(unit) for unit in units)
        if size > MAX_FILE and len(units) > 1:
            return self._outlined(source, units, units[0].name)
        return self._taken(source, first, last)

    def _outlined(self, source: Source, units: Sequence[Unit], what: str) -> str:
        part = source.signatures(units, "asked for", most=min(MAX_FILE // 3, self.budget.left))
        if part is None or not self.budget.take(part):
            return self._taken(source, 1, min(MAX_LINES, len(source.lines)))
        path, lines = shown(source.path), counted(len(source.lines), "line")
        return f"{what} is too long ({lines}), here are signatures; ask for {path}#Name or {path}:first-last"

    def _taken(self, source: Source, first: int, last: int) -> str:
        """Take some lines, except those that are shown already."""
        path = shown(source.path)
        seen = self._lines.setdefault(path, set())
        ranges = _missing(first, last, seen, source.lines)
        if not ranges:
            return "already shown"
        for start, end in ranges:
            names = [unit for unit in source.units if start <= unit.first <= end]
            part = source.lines_from(start, end, why="asked for", names=names)
            if not self.budget.take(part):
                raise _RefusedWish(f"{part.tokens:,} tokens, but only {self.budget.left:,} are left to read")
            seen.update(range(start, end + 1))
        said = ", ".join(f"lines {start}-{end}" for start, end in ranges)
        return said if ranges == [(first, last)] else f"{said}; the rest is shown already"

    def _listed(self, folder: str, inside: Sequence[str]) -> str:
        start = 0 if folder == "." else len(folder) + 1
        text = draw_tree([path[start:] for path in inside], most=MAX_LISTED)
        part = Part(kind=PartKind.FOUND, path=shown(folder), text=text, why="asked for")
        if not self.budget.take(part):
            raise _RefusedWish("no tokens are left to read")
        return f"a folder with {counted(len(inside), 'file')}"

    def _searched(self, text: str) -> str:
        """Give the definitions of a name, and the lines that contain the text."""
        if len(text) < MIN_SEARCH:
            raise _RefusedWish(f"a search needs at least {MIN_SEARCH} characters")
        found = self._found(text)
        defined = self._defined(text, [path for path, _, _ in found]) if _NAME.fullmatch(text) else 0
        if not found and not defined:
            raise _RefusedWish("nothing in the tracked files that may be sent contains this")
        by_file = Counter(path for path, _, _ in found)
        most = max(2, MAX_FOUND // max(1, len(by_file)))  # of one file, so that many files are seen
        lines: list[str] = []
        given: Counter[str] = Counter()
        for path, number, line in found:
            given[path] += 1
            if given[path] <= most and len(lines) < MAX_FOUND:
                lines.append(f"{shown(path)}:{number}: {line.strip()[:_MAX_LINE]}\n")
        part = Part(
            kind=PartKind.FOUND, path=f"lines with {shown(text)}", text="".join(lines), why="asked for"
        )
        if lines and not self.budget.take(part):
            raise _RefusedWish("no tokens are left to read")
        several = f"{len(lines)} of {counted(len(found), 'line')} in {counted(len(by_file), 'file')}"
        said = [counted(defined, "definition")] * bool(defined) + [several] * bool(lines)
        return " and ".join(said)

    def _found(self, text: str) -> list[tuple[str, int, str]]:
        """The lines with this text; if there is none, with the last part of a name, or with all the words."""
        words = text.lower().split()
        if len(words) == 1:
            name = re.split(r"\.|::|#", text.removesuffix("()"))[-1]
            return self.library.lines_with([text]) or (
                self.library.lines_with([name]) if name != text else []
            )
        near = self.library.lines_with([max(words, key=len)])
        return [one for one in near if text.lower() in one[2].lower()] or [
            one for one in near if all(word in one[2].lower() for word in words)
        ]

    def _defined(self, name: str, also: Iterable[str] = ()) -> int:
        """Take the definitions of a name; return how many there are. They may also be in these files."""
        clean = re.sub(r"::|#", ".", name.removesuffix("()"))
        count = 0
        paths = dict.fromkeys([*self.library.defining(clean.rpartition(".")[2]), *also])
        for path in list(paths)[:MAX_SEARCHED]:
            if count == _FEW:
                break
            source = self.library.source(path) if self.library.why_not(path) is None else None
            units = _named(source, clean, strict="." in clean) if source else []
            if source and units:
                try:
                    self._units(source, units)
                except _RefusedWish:
                    continue
                count += 1
        return count


class _RefusedWish(Exception):  # noqa: N818 - an answer, not an error
    """The wish cannot be met; the text says why."""


def _split(wish: str) -> tuple[str, str, tuple[int, int] | None]:
    """The path of a wish, with a name or with lines."""
    if found := _LINES.fullmatch(wish):
        first = max(1, int(found["first"]))
        return found["path"], "", (first, int(found["last"] or first))
    path, _, name = wish.partition("#") if not wish.startswith("#") else (wish, "", "")
    return path.strip().removeprefix("./"), name.strip().removesuffix("()"), None


def _named(source: Source, name: str, *, strict: bool = False) -> list[Unit]:
    """The units of a definition: a function, or a class with its members, without gaps."""
    clean = name.replace("::", ".")
    whole = [unit for unit in source.units if unit.kind and unit.name == clean]
    ends = [unit for unit in source.units if unit.kind and unit.name.endswith(f".{clean}")]
    own = [unit for unit in source.units if unit.kind and unit.own_name == clean.rpartition(".")[2]]
    matching = whole or ends or ([] if strict and clean.count(".") else own)
    if not matching:
        return []
    first, name = matching[0], matching[0].name
    last = max(
        unit.last for unit in source.units if unit.name == name or unit.name.startswith(f"{name}.")
    ) if first.opens else max(unit.last for unit in matching if unit.name == name)  # fmt: skip
    return [unit for unit in source.units if first.first <= unit.first and unit.last <= last]


def _missing(first: int, last: int, seen: set[int], lines: Sequence[str]) -> list[tuple[int, int]]:
    """The ranges within these lines that are not shown yet, without blank lines around them."""
    found: list[tuple[int, int]] = []
    for number in range(first, last + 1):
        if number in seen:
            continue
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return [one for one in found if any(line.strip() for line in lines[one[0] - 1 : one[1]])]


def look_up(
    library: Library, *, wishes: Sequence[str], names: Sequence[str], known: Iterable[Range], tokens: int
) -> Reading:
    """Answer the wishes of a model, and find the definitions of names that a document mentions."""
    reader = Reader(library, Budget(tokens), known)
    answers = reader.read(wishes)
    absent = library.absent(name.removesuffix("()").rpartition(".")[2] for name in names)
    reader.definitions(name for name in names if name.removesuffix("()").rpartition(".")[2] not in absent)
    missing = tuple(name for name in names if name.removesuffix("()").rpartition(".")[2] in absent)
    return Reading(parts=tuple(reader.budget.parts), answers=tuple(answers), absent=missing)
