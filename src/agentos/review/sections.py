"""The sections of a review document: which heading opens what. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from agentos.review.blocks import Block, Heading, Paragraph
from agentos.review.wording import heading_name

GENERAL = "General"  # the category of a finding below a tier's own heading

CATEGORIES = ("Cost", "Safety", "Security", "Legal", "Architecture", "Observability", "Quality")
_CATEGORY = re.compile(
    rf"({'|'.join(CATEGORIES)})(?: (?:issues?|concerns?|findings?|considerations?|review))?:?", re.IGNORECASE
)

_TIER = re.compile(
    r"(?P<before>(?:[\w-]{1,30} ){0,2})tier[ #:-]{0,3}(?P<number>[123]|one|two|three|i{1,3})\b", re.IGNORECASE
)
_SETTLED = frozenset({"resolved", "previous", "previously", "prior", "earlier", "fixed", "closed", "past"})
_TIER_NUMBERS = {"1": 1, "one": 1, "i": 1, "2": 2, "two": 2, "ii": 2, "3": 3, "three": 3, "iii": 3}
_UNNUMBERED_TIERS = (
    (1, re.compile(r"blocking(?: (?:issues?|findings?|concerns?)\b|:?$)", re.IGNORECASE)),
    (2, re.compile(r"high[- ]priority(?: (?:issues?|findings?|concerns?)\b|:?$)", re.IGNORECASE)),
    (3, re.compile(r"suggestions?\b", re.IGNORECASE)),
)


class Part(StrEnum):
    """What a section of a review is for."""

    IDENTITY = "identity"  # who reviews
    GATE = "gate"  # whether the draft could be reviewed at all
    SUMMARY = "summary"
    TIER = "tier"  # findings of one tier, or of one category in it
    QUESTIONS = "questions"
    VERDICT = "verdict"
    OTHER = "other"  # anything else, such as a coverage table


_NAMES = (
    (Part.IDENTITY, re.compile(r"identity\b", re.IGNORECASE)),
    (Part.GATE, re.compile(r"pre[- ]?flight\b", re.IGNORECASE)),
    (Part.SUMMARY, re.compile(r"(?:review |executive )?summary\b", re.IGNORECASE)),
    (Part.QUESTIONS, re.compile(r"(?:open |clarifying )?questions?\b", re.IGNORECASE)),
    # "Verdict History" or "Previous Verdict" is not the verdict.
    (
        Part.VERDICT,
        re.compile(r"(?:final |overall |review )?verdict(?:$| ?[:\u2013\u2014]| -)", re.IGNORECASE),
    ),
)
_VERDICT_WORD = re.compile("verdict", re.IGNORECASE)


@dataclass(kw_only=True)
class Section:
    """A heading and the blocks up to the next one; filled while the document is walked."""

    part: Part
    level: int = 0
    tier: int = 0
    numbered: bool = False  # a heading of its own that says "Tier N"
    category: str = GENERAL
    rest: str = ""  # what follows the name in the heading, "PASSED" or "APPROVED"
    blocks: list[Block] = field(default_factory=list)


def split(blocks: Iterable[Block]) -> list[Section]:
    """Cut the blocks of a document at its headings."""
    sections = [Section(part=Part.OTHER)]
    tier: Section | None = None  # the tier heading that categories belong to
    for block in blocks:
        if not isinstance(block, Heading):
            sections[-1].blocks.append(block)
            continue
        name = heading_name(block.text)
        section = _known(block, name)
        if section is None and block.underlined:
            # Most likely a sentence with a rule below it: a finding must not vanish as a heading.
            sections[-1].blocks.append(Paragraph(lines=(block.text,)))
            continue
        if section is not None:
            tier = section if section.part is Part.TIER else None
        else:
            section = _category(block, name, tier)
            tier = tier if section.part is Part.TIER else None
        sections.append(section)
    return sections


def category_named(text: str) -> str:
    """Find the usual category that a text names, or nothing."""
    match = _CATEGORY.fullmatch(text)
    return match[1].capitalize() if match else ""


def _known(heading: Heading, name: str) -> Section | None:
    for part, pattern in _NAMES:
        if pattern.match(name):
            rest = _after_name(heading.text, part)
            return Section(part=part, level=heading.level, rest=rest)
    match = _TIER.match(name)
    if match and _SETTLED.isdisjoint(match["before"].lower().split()):
        number = _TIER_NUMBERS[match["number"].lower()]
        return Section(part=Part.TIER, level=heading.level, tier=number, numbered=True)
    for number, pattern in _UNNUMBERED_TIERS:
        if pattern.match(name):
            return Section(part=Part.TIER, level=heading.level, tier=number)
    return None


def _category(heading: Heading, name: str, tier: Section | None) -> Section:
    category = category_named(name)
    if tier is None or not (category or heading.level > tier.level):
        return Section(part=Part.OTHER, level=heading.level)
    return Section(
        part=Part.TIER, level=heading.level, tier=tier.tier, category=category or name.rstrip(": ")
    )


def _after_name(text: str, part: Part) -> str:
    if part is Part.VERDICT and (word := _VERDICT_WORD.search(text)):
        return text[word.end() :].lstrip("*_ :-\u2013\u2014")
    if part is Part.GATE and ":" in text:
        return text.partition(":")[2].strip("*_ ")
    return ""
