"""Checks that a draft has its required parts before a review is paid for. Pure.

A template says what is required with `<!-- required -->`: in a heading or alone below it, it marks that
section; at the end of the line for the issue reference, it marks how that line is worded. So a template can
be in any language. A template without marks must have the sections in REQUIRED.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

Kind = Literal["issue", "lld"]

_REFERENCE = "Issue reference"
REQUIRED: dict[Kind, tuple[str, ...]] = {
    "lld": (_REFERENCE, "Context", "Proposed Changes"),
    "issue": ("User Story", "Acceptance Criteria", "Definition of Done"),
}

# A name may continue after a separator ("Context & Goal", "Definition of Done (DoD)") but not with a word
# ("Context propagation").
_SEPARATOR = r"(?:\s*(?:[&/,:;(\d\u2013\u2014-]|\band\b).*)?"
_HEADINGS = {
    name: re.compile(pattern + _SEPARATOR, re.IGNORECASE)
    for name, pattern in {
        "Context": r"(?:(?:background|goals?|objectives?|overview|problem|purpose)\s*(?:&|/|and)\s*)?context",
        "Proposed Changes": r"proposed changes?",
        "User Story": r"user stor(?:y|ies)",
        "Acceptance Criteria": r"acceptance criteri(?:a|on)",
        "Definition of Done": r"(?:definition of done|dod)",
    }.items()
}
_NUMBERING = re.compile(
    r"\W*(?:section\s+)?(?:(?:\d+(?:\.\d+)*|[ivx]+(?=[.)])|[a-z](?=[.)]))(?:[.):\uff0e\u3001\uff09]\s*|\s+))?\W*",
    re.IGNORECASE,
)
_CODE_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})\s*(?P<info>markdown|md|)\s*", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HTML_TAG = re.compile(r"<[^<>]*>")
_PLACEHOLDER = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}")
_WORD = re.compile(r"\w+")
# What is left of "As a <role>, I want ...", "Given ... when ... then ...", "TBD", "N/A" and the like.
_EMPTY_WORD = re.compile(r"an?|and|as|can|given|i|na?|none|so|tb[ad]|that|then|to|todo|want|when|x+|_+")

_REFERENCE_NAME = r"(?:github\s+)?issue(?:\s+(?:link|reference|ref|number|no\.?|id))?"
_REFERENCE_HEADING = re.compile(_REFERENCE_NAME, re.IGNORECASE)
_BRACKETED = r"<(?!!|https?:)[^<>]{0,80}>|\{{1,3}[^{}]{0,80}\}{1,3}"
_PLACEHOLDER_REFERENCE = re.compile(
    r"(?<![\w#/.-])(?P<open>[\[`])?(?:[\w.-]{1,100}/[\w.-]{1,100}(?=\#))?(?:"
    r"\#(?:tbd|tba|todo|fixme|\d*x+|n+|0+|\?+|_+|id|nr|num|number|issue(?:[-_ ]?(?:number|id))?|\[[^\[\]]*\]|"
    + _BRACKETED
    + r")|(?P<bare>tbd|tba|todo|n/a|none|\d*x{2,}|\?+|_+|"
    + _BRACKETED
    + r"))(?![\w-])(?(open)(?:\](?:\([^)]*\))?|`)?)",
    re.IGNORECASE,
)
_FOREIGN = re.compile(r"#\w[\w-]*|/issues/\d+|\bGH-\d+", re.IGNORECASE)
_BARE_ID = re.compile(r"[`\[]?(?P<id>[A-Za-z0-9_-]+)[`\]]?(?:\s*(?:[|(:,;.\u2013\u2014-].*)?)?")

_MARK = re.compile(r"<!--\s*required\s*-->", re.IGNORECASE)
_NAMED_LINE = re.compile(
    r"\s*(?:[-*+]\s+|\|\s*)*[*_]{0,3}(?P<name>[^\s:\uff1a|*_<>#`][^:\uff1a|*_<>#`]{0,60}?)[*_]{0,3}\s*[:\uff1a|].*"
)

_MARKDOWN = MarkdownIt("commonmark")


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What a draft must have."""

    sections: tuple[str, ...]  # one of our names, or a heading as the template has it
    reference: bool = False  # also a line with the reference
    line: str = ""  # what the template calls that line, if not "Issue"

    @property
    def names(self) -> tuple[str, ...]:
        return (_REFERENCE, *self.sections) if self.reference else self.sections


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What the mechanical check found; a draft passes when nothing is missing."""

    draft: str  # corrected where a correction needed no judgement
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def own_reference(item_id: str) -> str:
    """How a document refers to the item: `#42`, or the bare id if it is not a number."""
    return f"#{item_id}" if item_id.isdecimal() else item_id


def required_by(kind: Kind, template: str) -> Requirements:
    """Read from a template what a draft must have; without marks it is always the same."""
    usual = tuple(name for name in REQUIRED[kind] if name != _REFERENCE)
    reference = _REFERENCE in REQUIRED[kind]
    if not _MARK.search(template):
        return Requirements(sections=usual, reference=reference)
    document = _Document(template)
    line = document.marked_line() if reference else ""
    marked = document.marked_sections()
    if not marked and not line:
        return Requirements(sections=usual, reference=reference)
    return Requirements(
        sections=tuple(dict.fromkeys(map(_known_name, marked))), reference=reference, line=line
    )


def check_draft(
    kind: Kind, draft: str, *, item_id: str, github: bool = False, template: str = ""
) -> GateResult:
    """Name the parts required by the template that a draft is missing, and correct its reference to the item.

    With `github`, a bare number in the reference line becomes `#number`, which GitHub links.
    """
    required = required_by(kind, template)
    result = _check(required, draft, item_id=item_id, github=github)
    inner = _unwrapped(draft) if result.missing else None
    if inner is None:
        return result
    unwrapped = _check(required, inner, item_id=item_id, github=github)
    if len(unwrapped.missing) >= len(result.missing):
        return result
    return replace(unwrapped, notes=("The code fence around the whole draft was removed.", *unwrapped.notes))


def check_template(kind: Kind, template: str) -> tuple[str, ...]:
    """Name the required parts for which a template has no heading, or no reference line."""
    required, document = required_by(kind, template), _Document(template)
    missing = [name for name in required.sections if not document.sections(name)]
    if required.reference and not any(document.reference_lines(required.line)):
        missing.insert(0, _REFERENCE)
    return tuple(missing)


def _known_name(heading: str) -> str:
    """Our name for a heading, if it is one of ours: then other spellings of it count, too."""
    return next((name for name, pattern in _HEADINGS.items() if pattern.fullmatch(heading)), heading)


@cache
def _heading_pattern(name: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, name.split()))
    return _HEADINGS.get(name) or re.compile(words + _SEPARATOR, re.IGNORECASE)


@cache
def _line_pattern(name: str) -> re.Pattern[str]:
    return _reference_line(rf"(?:{re.escape(name)}|{_REFERENCE_NAME})" if name else _REFERENCE_NAME)


def _reference_line(name: str) -> re.Pattern[str]:
    return re.compile(
        r"(?P<before>\s*(?:[-*+]\s+|\|\s*|#{1,6}\s+)*[*_]{0,3}"
        + name
        + r"[*_]{0,3}\s*[:\uff1a|]\s*[*_]{0,3}\s*)(?P<value>.*)",
        re.IGNORECASE,
    )


def _check(required: Requirements, draft: str, *, item_id: str, github: bool) -> GateResult:
    document = _Document(draft)
    missing = [name for name in required.sections if not any(map(_has_content, document.sections(name)))]
    if not required.reference:
        return GateResult(draft=draft, missing=tuple(missing), notes=())
    return _check_reference(draft, document, missing, line=required.line, item_id=item_id, github=github)


def _check_reference(
    draft: str, document: "_Document", missing: Sequence[str], *, line: str, item_id: str, github: bool
) -> GateResult:
    own, lines = own_reference(item_id), document.lines
    readings = [_read_reference(one, item_id, github=github) for one in document.reference_lines(line)]
    # A line that names the item decides; otherwise the first that names anything or has room for a reference.
    deciding = [one for one in readings if one.is_own] or [
        one for one in readings if one.foreign or one.corrected
    ]
    if not deciding:
        return GateResult(draft=draft, missing=(_REFERENCE, *missing), notes=())
    if deciding[0].foreign:
        note = (
            f"The issue reference names {deciding[0].foreign}, not this item's {own}; it was left as it is."
        )
        return GateResult(draft=draft, missing=tuple(missing), notes=(note,))
    corrected = [one for one in deciding if one.corrected and (one is deciding[0] or one.line.value)]
    for one in corrected:
        lines[one.line.number] = one.line.before + one.corrected
    notes = tuple(f"The issue reference {one.was or '(empty)'} was replaced by {own}." for one in corrected)
    return GateResult(draft="\n".join(lines) if corrected else draft, missing=tuple(missing), notes=notes)


@dataclass(frozen=True, kw_only=True)
class _Line:
    number: int
    before: str
    value: str


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """What one reference line says."""

    line: _Line
    is_own: bool = False
    foreign: str = ""
    was: str = ""  # what is corrected
    corrected: str = ""  # the value with the item's own reference put in, if it was not there


def _read_reference(line: _Line, item_id: str, *, github: bool) -> _Reading:
    value, own = line.value, own_reference(item_id)
    visible = _COMMENT.sub(lambda comment: " " * len(comment.group()), value)  # positions stay the same
    shown = visible.strip(" |*")
    match = _BARE_ID.fullmatch(shown)
    bare = match["id"] if match else ""
    if bare.lower() == item_id.lower():
        at = visible.index(bare)
        linked = value[:at] + own + value[at + len(bare) :] if github and bare != own else ""
        return _Reading(line=line, is_own=True, was=bare, corrected=linked)
    if _names_item(shown, item_id):
        return _Reading(line=line, is_own=True)
    if not shown:
        return _Reading(line=line, corrected=f"{own} {value}".rstrip())
    # Without its "#" a word is a placeholder only where the reference should be.
    found = _PLACEHOLDER_REFERENCE.finditer(visible)
    if place := next((one for one in found if not one["bare"] or not visible[: one.start()].strip()), None):
        rest = value[: place.start()] + own + value[place.end() :]
        return _Reading(line=line, was=place.group(), corrected=rest)
    if foreign := _FOREIGN.search(shown):
        return _Reading(line=line, foreign=foreign.group())
    return _Reading(line=line, foreign=bare if re.search(r"[\d_-]", bare) else "")


def _names_item(value: str, item_id: str) -> bool:
    # A number inside a sentence may be anything; a slug is hardly ever there by chance.
    mark = r"(?:#|/issues/|\bGH-)" if item_id.isdecimal() else r"(?<![\w-])"
    return re.search(rf"{mark}{re.escape(item_id)}(?![\w-])", value, re.IGNORECASE) is not None


class _Document:
    """A Markdown text with its headings and the lines that are neither code nor comment."""

    def __init__(self, text: str) -> None:
        # Line numbers must match the parser's, which knows only these line ends.
        self.lines = re.split(r"\r\n?|\n", text)
        self._tokens = _MARKDOWN.parse(text)

    def sections(self, name: str) -> list[list[Token]]:
        """Find what is below each heading with that name."""
        return [
            self._body(at)
            for at, token in enumerate(self._tokens)
            if _is_heading(token) and _heading_pattern(name).fullmatch(_heading_text(self._tokens[at + 1]))
        ]

    def marked_sections(self) -> list[str]:
        """The headings that are marked as required."""
        found: list[str] = []
        heading = ""
        for at, token in enumerate(self._tokens):
            if _is_heading(token):
                heading = _heading_text(self._tokens[at + 1])
                marked = any(map(_is_mark, self._tokens[at + 1].children or ()))
            else:
                marked = token.level == 0 and _is_mark(token)
            if marked and heading:
                found.append(heading)
        return found

    def marked_line(self) -> str:
        """What comes before the colon in the first line that is marked as required."""
        hidden = self._hidden_lines()
        for number, line in enumerate(self.lines):
            if number not in hidden and _MARK.search(line) and (named := _NAMED_LINE.fullmatch(line)):
                return named["name"].strip()
        return ""

    def reference_lines(self, name: str = "") -> Iterator[_Line]:
        """Find the lines that say which issue the document is for; `name` is the template's word for them."""
        pattern = _line_pattern(name)
        hidden = self._hidden_lines()
        below = self._lines_below_reference_headings()
        for number, line in enumerate(self.lines):
            if number in hidden:
                continue
            if match := pattern.fullmatch(line):
                before = match["before"].rstrip()
                yield _Line(number=number, before=f"{before} ", value=match["value"])
            elif number in below:
                indent = len(line) - len(line.lstrip(" -*+"))
                yield _Line(number=number, before=line[:indent], value=line[indent:])

    def _body(self, heading: int) -> list[Token]:
        level = self._tokens[heading].tag
        after = self._tokens[heading + 3 :]
        end = next(
            (n for n, token in enumerate(after) if _is_heading(token) and token.tag <= level), len(after)
        )
        return after[:end]

    def _hidden_lines(self) -> set[int]:
        hidden = [
            token.map
            for token in self._tokens
            if token.type in ("fence", "code_block", "blockquote_open")
            or (token.type == "html_block" and token.content.lstrip().startswith("<!--"))
        ]
        return {line for span in hidden if span for line in range(*span)}

    def _lines_below_reference_headings(self) -> set[int]:
        found = set()
        for at, token in enumerate(self._tokens):
            if _is_heading(token) and _REFERENCE_HEADING.fullmatch(_heading_text(self._tokens[at + 1])):
                first = next((one for one in self._body(at) if one.type == "inline"), None)
                if first and first.map:
                    found.add(first.map[0])
        return found


def _is_mark(token: Token) -> bool:
    return token.type in ("html_block", "html_inline") and _MARK.fullmatch(token.content.strip()) is not None


def _is_heading(token: Token) -> bool:
    # A heading inside a quotation or a list belongs to it, not to the document.
    return token.type == "heading_open" and token.level == 0


def _heading_text(inline: Token) -> str:
    text = _plain(inline)
    numbering = _NUMBERING.match(text)
    return text[numbering.end() if numbering else 0 :].rstrip(" \t\n:.\uff1a")


def _plain(inline: Token) -> str:
    """Return the text of a paragraph or heading without markup, comments and HTML tags."""
    kept = {"text": None, "code_inline": None, "image": None, "softbreak": "\n", "hardbreak": "\n"}
    return "".join(kept[t.type] or t.content for t in inline.children or () if t.type in kept)


def _has_content(body: Sequence[Token]) -> bool:
    heading = False
    for token in body:
        if token.type in ("heading_open", "heading_close"):
            heading = token.type == "heading_open"
        elif not heading and _says_something(token):
            return True
    return False


def _says_something(token: Token) -> bool:
    if token.type in ("fence", "code_block"):
        return bool(token.content.strip())
    if token.type == "html_block":
        return _WORD.search(_HTML_TAG.sub("", _COMMENT.sub("", token.content))) is not None
    if token.type != "inline":
        return False
    words = _WORD.findall(_PLACEHOLDER.sub("", _plain(token)).lower())
    return any(not _EMPTY_WORD.fullmatch(word) for word in words)


def _unwrapped(draft: str) -> str | None:
    """Remove the code fence that a model put around the whole draft."""
    lines = re.split(r"\r\n?|\n", draft.strip())
    opening = _CODE_FENCE.fullmatch(lines[0])
    if opening is None or len(lines) < 3:
        return None
    closing = lines[-1].strip()
    if set(closing) != {opening["fence"][0]} or len(closing) < len(opening["fence"]):
        return None
    return "\n".join(lines[1:-1]) + "\n"
