"""Chooses the code that an item gets to see: bodies of the best definitions, signatures around them. Pure.

docs/design/context.md says what each constant is worth.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from agentos.model import counted
from agentos.repo_map.definitions import Unit, called_in, joined, list_signatures, take_apart
from agentos.repo_map.file_kinds import shown
from agentos.repo_map.parts import LETTERS_A_TOKEN, Budget, Part, PartKind, ranges_of
from agentos.repo_map.path_kinds import FileKind, kind_of
from agentos.repo_map.ranking import Query, Ranked
from agentos.repo_map.tags import Tags
from agentos.repo_map.word_index import rarity, weight
from agentos.repo_map.words import Words

FLOOR = 0.01  # of the best definition's score; what has less is not worth the second half of the tokens
BODIES = 0.94  # of an item's tokens; the rest is for signatures
SMALL_FILE = 500  # tokens; if a part of it is shown, all of it is
MAX_DOCUMENT = 1_000  # tokens of a document that is shown whole because the item names it
MAX_OUTLINE = 600  # tokens for the signatures of one file
# How a definition is scored: BM25 over its words, with some words counted more often.
_NAME_TIMES, _AROUND_TIMES, _PATH_TIMES = 5, 1, 1
_BY_LENGTH = 0.4  # how much BM25 counts the length
_ANY = 0.15  # that each definition has in a file, whatever it says
_BETWEEN = 0.1  # for lines between definitions
_HEAD = 0.3  # for the beginning of a file: its imports
_OPENING = 0.25  # for the beginning of a class
_SIZE_POWER = 0.15  # how much the size counts against a definition
_SMALLEST = 60  # tokens; less is no advantage
_FEW = 3  # definitions with the same name; of a more common one, nobody knows which is called
_NAMES_SHOWN = 3  # before some lines
_MARK = 10  # tokens of the line before a body
_CHANGELOG = re.compile(r"(?:change|changes|changelog|history|news|releases?)(?:[._-].*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A file, taken apart."""

    path: str
    lines: Sequence[str]
    units: Sequence[Unit]
    counts: Sequence[Mapping[str, int]]  # the words of each unit
    titles: Sequence[Mapping[str, int]]  # the words of its name and its path, as often as they count

    @classmethod
    def of(cls, path: str, text: str, tags: Tags, words: Words) -> "Source":
        lines = text.removesuffix("\n").split("\n")
        units = take_apart(lines, tags.definitions, prose=kind_of(path) is FileKind.DOCUMENT)
        counts = [words.count("\n".join(lines[one.first - 1 : one.last])) for one in units]
        in_path = dict.fromkeys(words.in_prose(path.rpartition(".")[0] or path), _PATH_TIMES)
        titles = []
        for one in units:
            titles.append(Counter(in_path))
            titles[-1].update(dict.fromkeys(words.in_prose(one.around), _AROUND_TIMES))
            titles[-1].update(dict.fromkeys(words.in_prose(one.own_name if one.kind else ""), _NAME_TIMES))
        return cls(path, lines, units, counts, titles)

    @property
    def is_changelog(self) -> bool:
        return kind_of(self.path) is FileKind.DOCUMENT and bool(
            _CHANGELOG.fullmatch(self.path.rpartition("/")[2])
        )

    @cached_property  # asked for with each definition
    def tokens(self) -> int:
        return sum(len(line) + 1 for line in self.lines) // LETTERS_A_TOKEN

    def text(self, first: int, last: int) -> str:
        return "\n".join(self.lines[first - 1 : last])

    def size(self, unit: Unit) -> int:
        """The tokens of a unit, with the line that introduces it."""
        return (
            sum(len(line) + 1 for line in self.lines[unit.first - 1 : unit.last]) // LETTERS_A_TOKEN + _MARK
        )

    def whole(self, why: str) -> Part:
        text = "\n".join(self.lines)
        return Part(
            kind=PartKind.FILE, path=shown(self.path), text=text, why=why, first=1, last=len(self.lines)
        )

    def bodies(self, units: Sequence[Unit], why: Callable[[Unit], str]) -> list[Part]:
        """Some units as they are, those that touch each other together; `why` is asked about one of them."""
        return [
            self.lines_from(group[0].first, group[-1].last, why=why(group[0]), names=group)
            for group in joined(self.lines, units)
        ]

    def lines_from(self, first: int, last: int, *, why: str, names: Iterable[Unit]) -> Part:
        """Some lines as they are, below a line that says which."""
        defines = list(dict.fromkeys(one.name for one in names if one.name))
        few = f": {', '.join(defines)}" if 0 < len(defines) <= _NAMES_SHOWN else ""
        return Part(
            kind=PartKind.BODY,
            path=shown(self.path),
            text=f"[lines {first}-{last}{few}]\n{self.text(first, last)}\n",
            why=why,
            name=", ".join(defines),
            first=first,
            last=last,
        )

    def signatures(self, units: Sequence[Unit], why: str, *, most: int, all_of: int = 0) -> Part | None:
        """The signatures of some units in at most so many tokens; what does not fit is counted."""
        units = sorted(units, key=lambda one: one.first)
        text = list_signatures(self.lines, units)
        dropped = 0
        while units and len(text) > most * LETTERS_A_TOKEN - 60:
            dropped += 1 + len(units) // 10
            units = units[: -(1 + len(units) // 10)]
            text = list_signatures(self.lines, units)
        if not units:
            return None
        left = dropped + max(0, all_of)
        more = f"[... and {counted(left, 'more definition')}]\n" if left else ""
        return Part(
            kind=PartKind.SIGNATURE,
            path=shown(self.path),
            text=f"[signatures, with the lines of each definition]\n{text}{more}",
            why=why,
            name=", ".join(one.name for one in units),
            first=units[0].first,
            last=units[-1].last,
        )


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A unit, and how much it matters; the best one has about 1."""

    source: Source
    unit: Unit
    score: float
    why: str


Files = Sequence[tuple[Ranked, Source]]


def score_units(query: Query, files: Files) -> list[Scored]:
    """Score every unit of the best files by what the item says."""
    best_file = max((file.score for file, _ in files if not file.named), default=0.0) or 1.0
    every = [count for _, source in files for count in source.counts]
    average = sum(sum(count.values()) for count in every) / max(1, len(every))
    having = Counter(word for count in every for word in count.keys() & query.words.keys())
    rare = {word: times * rarity(len(every), having[word]) for word, times in query.words.items()}
    found: list[tuple[float, dict[str, float], Ranked, Source, Unit]] = []
    for file, source in files:
        for unit, counts, title in zip(source.units, source.counts, source.titles, strict=True):
            length = sum(counts.values())
            points = {
                word: rare[word]
                * weight(counts.get(word, 0) + title.get(word, 0), length, average, by_length=_BY_LENGTH)
                for word in rare.keys() & (counts.keys() | title.keys())
            }
            found.append((sum(points.values()), points, file, source, unit))
    most = max((total for total, *_ in found), default=0.0) or 1.0
    scored = []
    for total, points, file, source, unit in found:
        share = min(1.0, file.score / best_file)
        score = (total / most + _ANY) * share
        score *= _HEAD if unit.first == 1 else _BETWEEN if not unit.kind else _OPENING if unit.opens else 1.0
        score *= (_SMALLEST / max(source.size(unit), _SMALLEST)) ** _SIZE_POWER
        said = sorted(points, key=lambda word: (-points[word], word))[:3]
        why = f"text: {', '.join(query.written(said))}" if said else file.why
        scored.append(Scored(source=source, unit=unit, score=score, why=why))
    return scored


def add_up(each: Iterable[Sequence[Scored]]) -> list[Scored]:
    """Score units by what several items say together."""
    total: dict[tuple[str, int], Scored] = {}
    for scored in each:
        for one in scored:
            key = one.source.path, one.unit.first
            before = total.get(key)
            total[key] = one if before is None else replace(before, score=before.score + one.score)
    return list(total.values())


@dataclass(kw_only=True)
class Selection:
    """What is chosen of some files, for the items of a run together or for one of them."""

    files: Files
    known: Sequence[Part] = ()  # what is shown already
    _chosen: dict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))
    _whole: dict[str, str] = field(default_factory=dict)  # why, by path
    _lines: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # shown already, by path

    def __post_init__(self) -> None:
        for path, first, last in ranges_of(self.known):
            self._lines[path].update(range(first, last + 1))

    def fill(self, budget: Budget, scored: Sequence[Scored]) -> None:
        """Take parts: the best bodies, the signatures around them, and bodies again if there is room."""
        left = [
            one
            for one in sorted(scored, key=lambda one: (-one.score, one.source.path, one.unit.first))
            if not self._knows(one.source, one.unit)
        ]
        room = self._named(budget.left)
        rest = self._choose(left, int(room * BODIES)) + room - int(room * BODIES)
        outlines = self._outlines(rest)
        listed = sum(part.tokens for part in outlines.values())
        # Once more, because nothing of what was chosen last is to be listed, too.
        outlines = self._outlines(listed + self._choose(left, rest - listed))
        for _, source in sorted(self.files, key=lambda one: self._place(one[1].path)):
            if source.path in self._whole:
                budget.take(source.whole(self._whole[source.path]))
                continue
            why = {one.unit: one.why for one in self._chosen.get(source.path, ())}
            for part in source.bodies(list(why), why.__getitem__):
                budget.take(part)
            if source.path in outlines:
                budget.take(outlines[source.path])

    def _knows(self, source: Source, unit: Unit) -> bool:
        return unit.first in self._lines[shown(source.path)]

    def _place(self, path: str) -> int:
        """Files in the order in which something of them was chosen, others by rank."""
        order = [*self._whole, *self._chosen]
        return order.index(path) if path in order else len(order)

    def _named(self, room: int) -> int:
        """Take the small files that the item names whole; return the tokens that are left."""
        for file, source in self.files:
            if self._lines[shown(source.path)]:
                continue
            most = MAX_DOCUMENT if kind_of(source.path) is FileKind.DOCUMENT else room // 4
            if file.named and source.tokens <= most and not source.is_changelog:
                self._whole[source.path] = file.why
                room -= source.tokens + _MARK
        return max(0, room)

    def _choose(self, scored: Sequence[Scored], room: int) -> int:
        """Choose bodies as long as they fit; return the tokens that are left."""
        enough, least = room // 2, FLOOR * (scored[0].score if scored else 0.0)
        for one in scored:
            if one.score < least and room < enough:
                break
            path = one.source.path
            if path in self._whole or one.source.is_changelog or one in self._chosen.get(path, ()):
                continue
            size, all_of_it = one.source.size(one.unit), one.source.tokens + _MARK
            partly = path in self._chosen or self._lines[shown(path)]
            if all_of_it <= min(SMALL_FILE, room) and not partly:
                self._whole[path] = one.why
                room -= all_of_it
            elif size <= room:
                self._chosen[path].append(one)
                room -= size
        return room

    def _outlines(self, room: int) -> dict[str, Part]:
        """The signatures around what was chosen: the rest of its classes, callers and callees, its files."""
        neighbours = self._neighbours()
        listed = {part.path for part in self.known if part.kind in {PartKind.SIGNATURE, PartKind.FILE}}
        found: dict[str, Part] = {}
        for file, source in self.files:
            if (
                file.score == 0.0
                and kind_of(source.path) is FileKind.TEST
                and shown(source.path) not in listed
            ):
                tests = [unit for unit in source.units if unit.kind]
                part = source.signatures(tests, file.why, most=min(room // 4, MAX_OUTLINE))
                if part is not None:
                    found[source.path] = part
                    room -= part.tokens
        for _, source in sorted(self.files, key=lambda one: self._place(one[1].path)):
            if {source.path} & (self._whole.keys() | found.keys()) or shown(source.path) in listed:
                continue
            if room < _MARK:
                break
            bodies = [one.unit for one in self._chosen.get(source.path, ())]
            rest = [
                one
                for one in source.units
                if one.kind
                and one.name not in {body.name for body in bodies}
                and not self._knows(source, one)
            ]
            classes = {body.around for body in bodies if body.around}
            near = [one for one in rest if one.around in classes or one.name in classes or one in neighbours]
            fits = len(list_signatures(source.lines, rest)) <= min(MAX_OUTLINE, room) * LETTERS_A_TOKEN - 60
            units = rest if fits else near or rest
            most = min(room, MAX_OUTLINE if not near else 2 * MAX_OUTLINE)
            part = source.signatures(units, "beside what is shown", most=most, all_of=len(rest) - len(units))
            if part is not None:
                found[source.path] = part
                room -= part.tokens
        return found

    def _neighbours(self) -> set[Unit]:
        """The units that the chosen ones call, and those that call them."""
        by_name: dict[str, list[Unit]] = defaultdict(list)
        for _, source in self.files:
            for unit in source.units:
                if unit.kind and not unit.name.startswith("__"):
                    by_name[unit.own_name].append(unit)
        few = {name for name, found in by_name.items() if len(found) <= _FEW}
        chosen = [one for found in self._chosen.values() for one in found]
        mine = few & {one.unit.own_name for one in chosen}
        called = {
            name for one in chosen for name in called_in(one.source.text(one.unit.first, one.unit.last), few)
        }
        calling = {
            unit
            for _, source in self.files
            for unit in source.units
            if unit.kind and called_in(source.text(unit.first, unit.last), mine)
        }
        return calling.union(*(by_name[name] for name in called))
