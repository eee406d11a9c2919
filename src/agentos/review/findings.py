"""The entries of a list of findings or questions: boxes, titles, recommendations. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentos.review.blocks import Block, Heading, Listing, ListItem, Opaque, Paragraph
from agentos.review.parsed_review import Finding
from agentos.review.phrases import (
    says_nothing,
    split_title,
    stands_open,
    tidy,
    unescape_inline,
    unescape_line,
)
from agentos.review.sections import GENERAL, Section, category_named

SUGGESTION = "Suggestion"

_BOX = re.compile(r"\[(?P<mark>[^\[\]]{0,3})\](?![(\[:])\s*")
TICKS = frozenset({"x", "X", "\u2713", "\u2714", "\u2714\ufe0f", "\u2611", "\u2705"})
_PRAISE = ("\u2705", "\u2714", "\u2611", "\u2713")  # a tick without a box
_LABEL = re.compile(
    r"(?P<emphasis>\*\*|__|\*|_)?(?:recommendations?|recommended(?: \w+)?|suggested fix)"
    r"(?:\s*:\s*(?P=emphasis)|(?P=emphasis)\s*:)\s*"
    r"|(?:recommendations?|suggested fix)\s*:\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class ListEntry:
    """One bullet, number or box line, with what is nested below it."""

    ticked: bool
    boxed: bool
    lines: tuple[str, ...]
    nested: tuple[Block, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _EntryText:
    """An entry's words, sorted."""

    title: str
    text: str
    spoken: str  # the text without code and quotations, which are never a finding
    recommendation: str


def findings_in(section: Section) -> Iterator[Finding]:
    """Yield the open findings of a tier's section."""
    for entry in _entries(section.blocks):
        if section.boxes_only and not entry.boxed:
            continue
        yield from _findings(entry, tier=section.tier, category=section.category)


def questions_in(section: Section) -> Iterator[str]:
    """Yield the open questions of a section."""
    for entry in _entries(section.blocks):
        content = _content(entry, titled=False)
        if not entry.ticked and content.text and not says_nothing(content.text):
            yield content.text


def suggestion(text: str) -> Finding | None:
    """Turn a suggestion given as plain text into a finding."""
    first, _, more = tidy(text).partition("\n")
    titled = split_title(first)
    body = tidy(f"{titled.text}\n{more}")
    if not stands_open(title=titled.title, text=body, recommendation=""):
        return None
    return Finding(tier=3, category=SUGGESTION, title=titled.title, text=body, recommendation="")


def _findings(entry: ListEntry, *, tier: int, category: str) -> Iterator[Finding]:
    praised = tier < 3 and not entry.boxed and entry.lines[0].startswith(_PRAISE)
    if entry.ticked or praised:
        # A ticked entry is fine, but an empty box below it means that a part of it is not.
        for nested in _entries(entry.nested):
            if nested.boxed and not nested.ticked:
                yield from _findings(nested, tier=tier, category=category)
        return
    content = _content(entry, titled=True)
    title, text, spoken = content.title, content.text, content.spoken
    if tier == 3:
        category = SUGGESTION
    elif category == GENERAL and (named := category_named(title)):
        # "- **Cost:** ..." is meant as the heading of a category.
        category, title = named, ""
        own = _content(ListEntry(ticked=False, boxed=entry.boxed, lines=entry.lines), titled=True)
        if not own.text:
            for nested in _entries(entry.nested):
                yield from _findings(nested, tier=tier, category=category)
            return
    if stands_open(title=title, text=spoken, recommendation=content.recommendation):
        yield Finding(
            tier=tier, category=category, title=title, text=text, recommendation=content.recommendation
        )


def _entries(blocks: Sequence[Block]) -> Iterator[ListEntry]:
    for index, block in enumerate(blocks):
        match block:
            case Paragraph(lines=lines):
                following = blocks[index + 1] if index + 1 < len(blocks) else None
                if not (isinstance(following, Listing) and _introduces(lines)):
                    yield from _boxed(lines, ())
            case Listing(items=items):
                for item in items:
                    yield from _item(item)
            case _:
                pass


def _introduces(lines: Sequence[str]) -> bool:
    return lines[-1].rstrip(" *_").endswith(":") and not any(_BOX.match(line) for line in lines)


def _item(item: ListItem) -> Iterator[ListEntry]:
    if not item.blocks:
        return
    first, *nested = item.blocks
    match first:
        case Paragraph(lines=lines):
            yield from _boxed(lines, tuple(nested))
        case Heading(text=text):
            yield from _boxed((text,), tuple(nested))
        case _:
            yield from _entries(item.blocks)


def _boxed(lines: Sequence[str], nested: tuple[Block, ...]) -> Iterator[ListEntry]:
    """Split running lines at the boxes; nested blocks belong to the last box."""
    starts = [index for index, line in enumerate(lines) if index == 0 or _BOX.match(line.strip())]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        first = lines[start].strip()
        box = _BOX.match(first)
        mark = box["mark"].strip() if box else None
        if box and (not mark or mark in TICKS):
            first = first[box.end() :]
        else:
            mark = None
        yield ListEntry(
            ticked=bool(mark),
            boxed=mark is not None,
            lines=(first, *(line.strip() for line in lines[start + 1 : end])),
            nested=nested if end == len(lines) else (),
        )


def _content(entry: ListEntry, *, titled: bool) -> _EntryText:
    first, *more = entry.lines
    split = split_title(first) if titled else None
    title = split.title if split else ""
    # After a title a line is never escaped: it cannot be taken for structure there.
    text = [unescape_inline(split.text) if split and split.title else unescape_line(first)]
    quoted: set[int] = set()
    recommendation: list[str] = []
    _sort_lines(more, text, recommendation, titled=titled)
    for block in entry.nested:
        match block:
            case Paragraph(lines=lines):
                _sort_lines(lines, text, recommendation, titled=titled)
            case Listing(items=items):
                for item in items:
                    _sort_item(item, text, recommendation, titled=titled)
            case Heading(text=heading):
                text.append(heading)
            case Opaque(source=source):
                quoted.add(len(text))
                text.append(source)
    return _EntryText(
        title=title,
        text=tidy("\n".join(text)),
        spoken=tidy("\n".join(line for index, line in enumerate(text) if index not in quoted)),
        recommendation=tidy("\n".join(recommendation)),
    )


def _sort_lines(lines: Sequence[str], text: list[str], recommendation: list[str], *, titled: bool) -> None:
    """Add lines to the text or, after a marked label, to the recommendation."""
    into = text
    for raw in lines:
        line = raw.strip()
        label = _LABEL.match(line) if titled else None
        if label and label["emphasis"]:
            into = recommendation
            into.append(unescape_inline(line[label.end() :]))
        else:
            into.append(unescape_line(line))


def _sort_item(item: ListItem, text: list[str], recommendation: list[str], *, titled: bool) -> None:
    first = item.blocks[0] if item.blocks else None
    label = _LABEL.match(first.lines[0].strip()) if titled and isinstance(first, Paragraph) else None
    if label is None or not isinstance(first, Paragraph):
        text.append(item.source)
        return
    recommendation.append(unescape_inline(first.lines[0].strip()[label.end() :]))
    recommendation.extend(unescape_line(line.strip()) for line in first.lines[1:])
    for block in item.blocks[1:]:
        match block:
            case Paragraph(lines=lines):
                recommendation.extend(unescape_line(line.strip()) for line in lines)
            case Listing(items=items):
                recommendation.extend(nested.source for nested in items)
            case Heading(text=heading):
                recommendation.append(heading)
            case Opaque(source=source):
                recommendation.append(source)
