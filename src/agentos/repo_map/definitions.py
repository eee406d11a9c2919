"""A file taken apart: functions, methods, class heads, sections, and what is between them. Pure.

Every line belongs to exactly one unit. A class that contains others is a unit up to its first member.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from agentos.repo_map.tags import Definition
from agentos.repo_map.words import DEFINITION

MAX_SIGNATURE = 160  # characters, after which annotations go, then parameters
LONG_UNIT = 400  # lines; a longer one is shown in parts
PART_LINES = 60
_HEADING = re.compile(r"#{1,4}[ \t]+(.{1,200})")
_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+])\1{3,}\s*")  # below a title, as in reStructuredText
_COMMENT = re.compile(r"\s*(?:#(?!\[)|//|/\*|\*(?:[\s/]|$)|--)")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Some lines of a file that are shown together."""

    name: str  # with the names around it, such as "Client.send"; empty: between definitions
    kind: str  # as the parser says; "section" of a document; "" between definitions
    first: int
    head: int  # the last line of the signature
    last: int
    opens: bool = False  # others follow inside it: these lines are only its beginning

    @property
    def own_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def around(self) -> str:
        """The class that contains it."""
        return self.name.rpartition(".")[0] if self.kind else self.name


def take_apart(lines: Sequence[str], definitions: Sequence[Definition], *, prose: bool) -> list[Unit]:
    """All units of a file, in order."""
    known = definitions or (_sections(lines) if prose else _by_words(lines))
    found = [one for unit in _within(1, len(lines), known, "") for one in _in_parts(unit)]
    return [unit for unit in found if any(line.strip() for line in lines[unit.first - 1 : unit.last])]


def _within(first: int, last: int, known: Sequence[Definition], around: str) -> Iterator[Unit]:
    at, number = first, 0
    while number < len(known):
        outer = known[number]
        inner = number + 1
        while inner < len(known) and known[inner].head <= outer.last:  # a comment above it may touch
            inner += 1
        start = max(outer.first, at)
        if start > at:
            yield Unit(name=around, kind="", first=at, head=at, last=start - 1)
        name = f"{around}.{outer.name}" if around else outer.name
        members = [one for one in known[number + 1 : inner] if one.last <= outer.last]
        if members and outer.last > start:
            begin = max(start + 1, members[0].first)
            head = min(max(outer.head, start), begin - 1)
            yield Unit(name=name, kind=outer.kind, first=start, head=head, last=begin - 1, opens=True)
            yield from _within(begin, outer.last, members, name)
        elif outer.last >= start:
            head = min(max(outer.head, start), outer.last)
            yield Unit(name=name, kind=outer.kind, first=start, head=head, last=outer.last)
        at, number = max(at, outer.last + 1), inner
    if at <= last:
        yield Unit(name=around, kind="", first=at, head=at, last=last)


def _in_parts(unit: Unit) -> Iterator[Unit]:
    """A unit, or its parts if it is very long."""
    if unit.last - unit.first < LONG_UNIT:
        yield unit
        return
    for first in range(unit.first, unit.last + 1, PART_LINES):
        last = min(first + PART_LINES - 1, unit.last)
        head = unit.head if unit.first == first else first
        yield Unit(name=unit.name, kind=unit.kind, first=first, head=min(head, last), last=last)


def _sections(lines: Sequence[str]) -> list[Definition]:
    """The sections of a document, by its headings."""
    starts: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(lines, 1):
        title = lines[number - 2].strip() if number > 1 else ""
        fence = _FENCE.match(line) is not None
        if title and not fenced and _UNDERLINE.fullmatch(line) and (not fence or len(line) >= len(title)):
            starts.append((number - 1, title[:200]))
        elif fence:
            fenced = not fenced
        elif not fenced and (found := _HEADING.fullmatch(line.rstrip())):
            starts.append((number, found[1]))
    return _up_to_the_next(starts, len(lines), "section")


def _by_words(lines: Sequence[str]) -> list[Definition]:
    """What looks like a definition, for languages without a parser."""
    found = [(number, one[1]) for number, line in enumerate(lines, 1) if (one := DEFINITION.match(line))]
    return _up_to_the_next(found, len(lines), "definition")


def _up_to_the_next(starts: Sequence[tuple[int, str]], last: int, kind: str) -> list[Definition]:
    return [
        Definition(name, kind, start, start, end)
        for (start, name), (after, _) in pairwise([*starts, (last + 1, "")])
        if (end := after - 1) >= start
    ]


def signature(lines: Sequence[str], unit: Unit, *, most: int = MAX_SIGNATURE) -> str:
    """The head of a definition on one line, with its decorators; what is cut is said."""
    head = lines[unit.first - 1 : unit.head]
    code = [line for line in head if not _COMMENT.match(line)] or head[-1:]
    indent = min((len(line) - len(line.lstrip()) for line in code if line.strip()), default=0)
    text = _BLANKS.sub(" ", " ".join(code)).strip().removesuffix("{").rstrip().removesuffix(":")
    return " " * min(indent, 40) + _shortened(text, unit.own_name, most)


def _shortened(text: str, name: str, most: int) -> str:
    if len(text) <= most:
        return text
    # Behind the name: a decorator or a receiver in front of it may have parentheses, too.
    opened = re.search(rf"\b{re.escape(name)}\b[^()]*\(", text)
    start = opened.end() - 1 if opened else text.find("(")
    end = _end_of_list(text, start) if start >= 0 else -1
    if end < 0:
        return f"{text[:most]} [... {len(text) - most} more characters]"
    before, after = text[: start + 1], text[end:]
    parameters = _parameters(text[start + 1 : end])
    bare = [_without_annotation(one) for one in parameters]
    if len(before) + sum(len(one) + 2 for one in bare) + len(after) <= most:
        return f"{before}{', '.join(bare)}{after}"
    kept: list[str] = []
    room = most - len(before) - 30
    for one in bare:
        room -= len(one) + 2
        if room < 0:
            break
        kept.append(one)
    left = f"[... {len(bare) - len(kept)} more parameters]"
    return f"{before[:most]}{', '.join((*kept, left))})"


def _end_of_list(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    return -1


def _parameters(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    return [one for one in (*found, text[start:].strip()) if one]


def _without_annotation(parameter: str) -> str:
    name, colon, rest = parameter.partition(":")
    _, equals, default = rest.rpartition("=")
    if not colon or "=" in name:  # a colon in a default
        return parameter
    return f"{name.strip()}={default.strip()}" if equals and len(default) < 20 else name.strip()


def list_signatures(lines: Sequence[str], units: Sequence[Unit]) -> str:
    """The signatures of some units, one per line, each with the lines of the whole definition."""
    return "".join(f"{signature(lines, one)}  [{one.first}-{one.last}]\n" for one in units)


def joined(lines: Sequence[str], units: Sequence[Unit]) -> list[list[Unit]]:
    """Units in order, those with nothing but blank lines between them together."""
    ordered = sorted(units, key=lambda one: one.first)
    groups = [[one] for one in ordered[:1]]
    for before, after in pairwise(ordered):
        if any(line.strip() for line in lines[before.last : after.first - 1]):
            groups.append([])
        groups[-1].append(after)
    return groups


def called_in(text: str, names: AbstractSet[str]) -> list[str]:
    """Those of the names that a source seems to call, in order, each once."""
    return list(dict.fromkeys(name for name in _CALL.findall(text) if name in names))


_CALL = re.compile(r"\b([^\W\d]\w{2,80})\s?\(")
