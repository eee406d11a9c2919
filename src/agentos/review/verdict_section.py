"""The verdict of a review document: the boxes of its last Verdict section. Pure.

A verdict is never guessed: if there is any doubt it is unreadable, and the doubt is the reason.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentos.review.blocks import Block, Heading, Listing, Opaque, Paragraph, visible
from agentos.review.findings import TICKS
from agentos.review.parsed_review import Verdict, VerdictReason
from agentos.review.sections import Section, SectionKind
from agentos.review.verdict_words import (
    VerdictWord,
    contradicts,
    label_of,
    stated_in,
    states_other,
    takes_back,
)

_BOX = re.compile(r"(?:^|(?<=\s))(?P<bold>\*\*|__)?\[(?P<mark>[^\[\]]{0,3})\](?![(\[:])")
_CUT_BOX = re.compile(r"\[[ xX]?$")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_REFUSES = re.compile(
    r"(?:\bnot|\bcannot|\bnever|n['\u2019]t) (?:\w+ ){0,2}?approv|\b(?:dis|un)approv"
    r"|\bi (?:must |have to )?reject\b",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[A-Za-z/!?]")


@dataclass(frozen=True, kw_only=True)
class _Box:
    """One box and its label."""

    mark: str  # "" if it is empty
    label: VerdictWord
    leading: bool  # is at the start of its line, or after a box that is

    @property
    def ticked(self) -> bool:
        return self.mark in TICKS


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """The lines below a heading."""

    own: tuple[str, ...]  # paragraphs and top-level list items
    nested: tuple[str, ...]  # anything further in


def gate_failed(section: Section) -> bool:
    """Say whether a Pre-Flight section reports that the draft did not pass."""
    lines = _lines(section.blocks).own
    first = section.rest or next((line for line in lines if not _BOX.match(line)), "")
    boxes = [box for line in lines for box in _boxes(line) if box.leading and box.ticked]
    words = [label.word.split(" ")[0] for label in (label_of(first), *(box.label for box in boxes))]
    return not {"FAIL", "FAILED"}.isdisjoint(words)


def decide(sections: Sequence[Section], *, bare_approval: bool) -> VerdictReason:
    """Read the verdict of a document; without boxes it is an approval only if the caller allows it."""
    places = [index for index, section in enumerate(sections) if section.kind is SectionKind.VERDICT]
    if not places:
        return VerdictReason.unreadable("There is no Verdict section.")
    last, after = sections[places[-1]], sections[places[-1] + 1 :]
    if any(section.kind is SectionKind.GATE or section.tier in {1, 2} for section in after):
        return VerdictReason.unreadable("The Verdict section is not the last part of the review.")
    if any(map(_holds_html, sections[: places[-1] + 1])):
        return VerdictReason.unreadable("There is HTML before the verdict, which may hide it.")
    decision = _read(last, after, bare_approval=bare_approval)
    if sections[0].level == 0 and _speaks_against(_all_lines(sections[0].blocks), decision.verdict):
        return VerdictReason.unreadable("The text before the review gives another verdict.")
    # An earlier one on a deeper level, such as a coverage table's, is about something else.
    rival = any(sections[index].level <= last.level for index in places[:-1])
    if decision.verdict is Verdict.APPROVED and rival:
        return VerdictReason.unreadable("There is more than one Verdict section.")
    return decision


def states_other_verdict(text: str, verdict: Verdict) -> bool:
    """Say whether a text around a review gives a verdict, and not this one."""
    return _speaks_against(text.split("\n"), verdict)


def _speaks_against(lines: Iterable[str], verdict: Verdict) -> bool:
    return any(
        states_other(line, verdict)
        or any(box.ticked and box.label.verdict not in {None, verdict} for box in _boxes(line))
        or (verdict is Verdict.APPROVED and _REFUSES.search(line) is not None)
        for line in lines
    )


def _read(section: Section, after: Sequence[Section], *, bare_approval: bool) -> VerdictReason:
    lines = _lines(section.blocks)
    shown = (_BREAK.sub("", line).strip() for line in (section.rest, *lines.own))
    own = [line for line in shown if line]
    if any("~~" in line or _TAG.search(line) or _opens_code(line) for line in own):
        return VerdictReason.unreadable("The Verdict section has struck-out, hidden or code text.")
    elsewhere = [*lines.nested, *(line for other in after for line in _all_lines(other.blocks))]
    boxes = [box for line in own for box in _boxes(line)]
    listed = [box for box in boxes if box.leading and (box.ticked or not box.mark or box.label.verdict)]
    aside = [box for box in boxes if not box.leading] + [box for line in elsewhere for box in _boxes(line)]
    ticked = [box for box in listed if box.ticked] + [
        box for box in aside if box.ticked and box.label.verdict
    ]
    if not listed and not ticked:
        return _read_bare(section, own, approval=bare_approval)
    for doubt in _doubts(listed, ticked):
        return VerdictReason.unreadable(doubt)
    decision = ticked[0].label.decision()
    if decision.verdict is Verdict.UNREADABLE:
        return decision
    for doubt in _doubts_beside(section, own, decision.verdict):
        return VerdictReason.unreadable(doubt)
    return decision


def _doubts(listed: Sequence[_Box], ticked: Sequence[_Box]) -> Iterator[str]:
    """Yield what is wrong with the boxes themselves, worst first."""
    if not all(box.label.word for box in listed):
        yield "The list of verdicts is cut off."
    if any(box.mark and not box.ticked for box in listed):
        yield "A verdict box is neither ticked nor empty."
    if not ticked:
        yield "No verdict box is ticked."
    if len(ticked) > 1:
        yield f"More than one verdict box is ticked: {', '.join(box.label.shown for box in ticked[:3])}."
    label = ticked[0].label
    if label.verdict is None:
        yield f'The ticked verdict "{label.shown}" is not a known verdict.'
    empty = {box.label.word for box in listed if not box.ticked and box.label.verdict}
    if label.word in empty:
        yield f"The verdict {label.word} is both ticked and not ticked."
    if not empty:
        yield "The ticked box is the only one, so the list of verdicts may be cut off."


def _doubts_beside(section: Section, own: Sequence[str], verdict: Verdict) -> Iterator[str]:
    """Yield what in the rest of the section contradicts the ticked box."""
    if _CUT_BOX.match(own[-1]):
        yield "The list of verdicts is cut off."
    words = [line for line in own if not _BOX.match(line)]
    if any(contradicts(line, verdict) for line in words) or _speaks_against(words, verdict):
        yield f"The Verdict section ticks {verdict} but also states another verdict."
    unclear = section.rest and not _BOX.match(section.rest) and label_of(section.rest).verdict is None
    if verdict is Verdict.APPROVED and unclear:
        yield "The Verdict heading does not agree with the ticked APPROVED."


def _read_bare(section: Section, own: Sequence[str], *, approval: bool) -> VerdictReason:
    """Read a Verdict section without boxes: one word, and nothing against it."""
    first, *others = own or [""]
    label = label_of(first) if section.rest else stated_in(first)
    if label.verdict is None:
        return VerdictReason.unreadable("The Verdict section has no ticked box and no plain verdict word.")
    if any(contradicts(line, label.verdict) for line in others):
        return VerdictReason.unreadable("The Verdict section gives more than one verdict.")
    if label.verdict is Verdict.APPROVED:
        if not approval:
            return VerdictReason.unreadable("APPROVED comes without its boxes, so the review may be cut off.")
        if any(map(takes_back, others)):
            return VerdictReason.unreadable("The approval is followed by words that may take it back.")
    return label.decision()


def _boxes(line: str) -> Iterator[_Box]:
    line = line.strip()
    marks = list(_BOX.finditer(line))
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(line)
        words = line[mark.end() : end]
        if mark["bold"]:
            words = words.replace(mark["bold"], "", 1)
        yield _Box(mark=mark["mark"].strip(), label=label_of(words), leading=marks[0].start() == 0)


def _opens_code(line: str) -> bool:
    """Say whether a code span may continue on the next line."""
    return "``" in line or line.count("`") % 2 == 1


def _holds_html(section: Section) -> bool:
    """Say whether a section has an HTML block; a comment does not count."""
    return any(
        isinstance(block, Opaque) and block.kind == "html" and _TAG.search(visible(block.source)) is not None
        for block in section.blocks
    )


def _lines(blocks: Sequence[Block]) -> _Lines:
    own: list[str] = []
    nested: list[str] = []
    for block in blocks:
        if isinstance(block, Paragraph):
            own.extend(block.lines)
        elif isinstance(block, Listing):
            for item in block.items:
                start = 1 if item.blocks and isinstance(item.blocks[0], Paragraph) else 0
                own.extend(_all_lines(item.blocks[:start]))
                nested.extend(_all_lines(item.blocks[start:]))
    return _Lines(own=tuple(own), nested=tuple(nested))


def _all_lines(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph(lines=lines):
                yield from lines
            case Heading(text=text):
                yield text
            case Listing(items=items):
                for item in items:
                    yield from _all_lines(item.blocks)
            case Opaque():
                pass
