"""The sections of a review document: which heading opens what. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from agentos.review.blocks import Block, Heading, Paragraph
from agentos.review.phrases import heading_name

GENERAL = "General"  # the category of a finding directly below a tier's heading

CATEGORIES = ("Cost", "Safety", "Security", "Legal", "Architecture", "Observability", "Quality")
_CATEGORY = re.compile(
    rf"({'|'.join(CATEGORIES)})(?: (?:issues?|concerns?|findings?|considerations?|review))?:?", re.IGNORECASE
)

_TIER = re.compile(
    r"(?P<before>(?:[\w-]{1,30} ){0,2})tier[ #:-]{0,3}(?P<number>[123]|one|two|three|i{1,3})\b", re.IGNORECASE
)
_TIER_ONLY = re.compile(
    r"tier[ -]?[123](?:[ :()\u2013\u2014-]|blocking|high|priority|suggestions?|issues?|findings?){0,12}",
    re.IGNORECASE,
)
_SETTLED = frozenset({"resolved", "previous", "previously", "prior", "earlier", "fixed", "closed", "past"})
_RESOLVED = re.compile(r"(?:previously |already )?(?:resolved|fixed|closed)\b", re.IGNORECASE)
_TIER_NUMBERS = {"1": 1, "one": 1, "i": 1, "2": 2, "two": 2, "ii": 2, "3": 3, "three": 3, "iii": 3}
_UNNUMBERED_TIERS = (
    (1, re.compile(r"blocking(?: (?:issues?|findings?|concerns?)\b|:?$)", re.IGNORECASE)),
    (2, re.compile(r"high[- ]priority(?: (?:issues?|findings?|concerns?)\b|:?$)", re.IGNORECASE)),
    (3, re.compile(r"suggestions?(?:$|:| \()", re.IGNORECASE)),
)

_BOLD_LINE = re.compile(r"\*\*(?P<words>[^*]+)\*\*:?")
_BOLD_LEVEL = 6  # below any real heading


class SectionKind(StrEnum):
    """What a section of a review is for."""

    IDENTITY = "identity"  # who reviews
    GATE = "gate"  # whether the draft could be reviewed at all
    SUMMARY = "summary"
    TIER = "tier"  # findings of one tier, or of one category in it
    QUESTIONS = "questions"
    VERDICT = "verdict"
    OTHER = "other"  # anything else, such as a coverage table


# Whole names only: "Identity and Access" is a category of findings, "Verdict History" is not the verdict.
_NAMES = (
    (SectionKind.IDENTITY, r"identity(?: confirmation| check)?:?$"),
    (SectionKind.GATE, r"pre[- ]?flight(?: gate)?(?: checks?)?(?:$| ?[:\u2013\u2014]| -)"),
    (SectionKind.SUMMARY, r"(?:review |executive )?summary:?$"),
    (SectionKind.QUESTIONS, r"(?:open |clarifying )?questions?(?: for (?:the )?\w+)?:?$"),
    (SectionKind.VERDICT, r"(?:final |overall |review )?verdict(?:$| ?[:\u2013\u2014]| -)"),
)
_PATTERNS = tuple((part, re.compile(pattern, re.IGNORECASE)) for part, pattern in _NAMES)
# Taken from the heading as written, so that a cross before the word does not get lost.
_REST = {
    SectionKind.GATE: re.compile(r"flight(?: gate)?(?: checks?)?", re.IGNORECASE),
    SectionKind.VERDICT: re.compile(r"verdict", re.IGNORECASE),
}


@dataclass(kw_only=True)
class Section:
    """A heading and the blocks up to the next one; filled while the document is walked."""

    kind: SectionKind
    level: int = 0
    tier: int = 0
    heads_tier: bool = False  # opens a tier, not a category of it
    numbered: bool = False  # a real heading that says "Tier N"
    category: str = GENERAL
    boxes_only: bool = False  # perhaps not part of the tier, or settled: only an empty box is a finding
    rest: str = ""  # what follows the name in the heading: "PASSED", "APPROVED"
    blocks: list[Block] = field(default_factory=list)


def split(blocks: Iterable[Block]) -> list[Section]:
    """Cut the blocks of a document at its headings."""
    sections = [Section(kind=SectionKind.OTHER)]
    tier: Section | None = None  # the tier that categories belong to
    for block in blocks:
        section = _opened_by(block, tier)
        if section is None:
            # An underlined sentence is not a heading: a finding must not vanish as one.
            sections[-1].blocks.append(
                Paragraph(lines=(block.text,)) if isinstance(block, Heading) else block
            )
            continue
        if section.heads_tier or section.kind is not SectionKind.TIER:
            tier = section if section.heads_tier else None
        sections.append(section)
    return sections


def category_named(text: str) -> str:
    """Return the usual category that a text names, or an empty string."""
    match = _CATEGORY.fullmatch(text)
    return match[1].capitalize() if match else ""


def _opened_by(block: Block, tier: Section | None) -> Section | None:
    if isinstance(block, Paragraph):
        return _opened_by_bold(block, tier)
    if not isinstance(block, Heading):
        return None
    name = heading_name(block.text)
    known = _known(block, name)
    return known if known or block.underlined else _category(block.level, name, tier)


def _opened_by_bold(paragraph: Paragraph, tier: Section | None) -> Section | None:
    """Read a bold line that names a tier or a category as the heading it is meant to be."""
    bold = _BOLD_LINE.fullmatch(paragraph.lines[0].strip())
    name = heading_name(bold["words"]) if bold else ""
    section = None
    if _TIER_ONLY.fullmatch(name):
        section = _tier(name, _BOLD_LEVEL, numbered=False)
    elif tier is not None and category_named(name):
        section = _category(_BOLD_LEVEL, name, tier)
    if section is not None and len(paragraph.lines) > 1:
        section.blocks.append(Paragraph(lines=paragraph.lines[1:]))
    return section


def _known(heading: Heading, name: str) -> Section | None:
    for kind, pattern in _PATTERNS:
        if pattern.match(name):
            named = _REST[kind].search(heading.text) if kind in _REST else None
            rest = heading.text[named.end() :].lstrip("*_ :-\u2013\u2014") if named else ""
            return Section(kind=kind, level=heading.level, rest=rest)
    return _tier(name, heading.level, numbered=True)


def _tier(name: str, level: int, *, numbered: bool) -> Section | None:
    match = _TIER.match(name)
    if match and match["before"].lower().split(" ")[0] not in _SETTLED:
        number = _TIER_NUMBERS[match["number"].lower()]
        return Section(kind=SectionKind.TIER, level=level, tier=number, heads_tier=True, numbered=numbered)
    for number, pattern in _UNNUMBERED_TIERS:
        if pattern.match(name):
            return Section(kind=SectionKind.TIER, level=level, tier=number, heads_tier=True)
    return None


def _category(level: int, name: str, tier: Section | None) -> Section:
    category = category_named(name)
    inside = tier is not None and bool(category or level > tier.level)
    # Levels drift: a heading on the same level as a tier's may be one of its categories.
    same_level = tier is not None and level == tier.level and tier.tier < 3
    if tier is None or not (inside or same_level):
        return Section(kind=SectionKind.OTHER, level=level)
    return Section(
        kind=SectionKind.TIER,
        level=level,
        tier=tier.tier,
        category=category or name.rstrip(": ") or "Other",
        boxes_only=not inside or _RESOLVED.match(name) is not None,
    )
