"""Removes from an issue what GitHub does not show, so that people and models read the same text. Pure.

Anyone can write an issue, and whoever runs it has read it on GitHub: comments, unused definitions, attributes
of tags and invisible characters would speak to the models alone. Where parsers may disagree about what is
code, it does not count as code.
"""

import re
from collections import defaultdict
from string import ascii_letters
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference

# Blocks only: parsing links takes quadratic time on a hostile text.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join"])
# Unicode's ignorable characters, and control characters.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # Emoji and some scripts need these, one or two at a time.
    r"|(?<=[\x00-\x7f])[\u200c\u200d\ufe0f]+|[\u200c\u200d\ufe0f]{3,}"
)
_LABEL = re.compile(r"\[([^\[\]]{1,999})\]")
_FOOTNOTE = re.compile(r"^[ \t>*+-]{0,20}\[\^([^\[\]\s]{1,999})\]:", re.MULTILINE)
_FOOTNOTE_USED = re.compile(r"\[\^([^\[\]\s]{1,999})\](?!:)")
_KEPT = re.compile(r"""\s(?:href|src|alt)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+)""", re.IGNORECASE)
_MARKS = re.compile(r"\\[!-/:-@\[-`{-~]|`+|<")
_DOUBTFUL = re.compile(r"[|$]|://|www\.|\][(\[:]")  # one of these may contain a backtick
_AUTOLINK = re.compile(r"<(?:[A-Za-z][A-Za-z0-9.+-]{1,31}:|[^\s<>@]{1,300}@)[^\s<>]*>")
_TAG = re.compile(  # as CommonMark defines it
    r"<([A-Za-z][A-Za-z0-9-]*)"
    r"""((?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?+)*+)\s*/?>"""
)
# How comments and instructions begin and end in a paragraph.
_INSTRUCTIONS = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"} | {f"<!{one}": ">" for one in ascii_letters}
# Inside a block of HTML a browser's rules count: any tag, also one that is not closed.
_ANY_TAG = re.compile(r"""<([A-Za-z/][^\s<>/"']*+)((?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^"'>])*+)(?:>|\Z)""")


def shown_text(text: str) -> str:
    """The text without what GitHub hides."""
    text = _without_footnotes(text)
    lines: list[str | None] = list(text.split("\n"))
    found: dict[str, Any] = {}
    tokens = _BLOCKS.parse(text, found)
    used = {
        normalizeReference(label)
        for token in tokens
        if token.type == "inline"
        for label in _LABEL.findall(token.content)
    }
    for label, known in found.get("references", {}).items():
        _put(lines, known["map"], f"[{label}]: {known['href']}" if label in used else None)
    for known in found.get("duplicate_refs", ()):
        _put(lines, known["map"], None)
    for token in tokens:
        if token.type == "fence" and token.map and len(words := token.info.split()) > 1:
            first = lines[token.map[0]] or ""
            lines[token.map[0]] = first[: first.index(words[0])] + words[0]  # only the language is used
        if token.map is None or token.type not in {"inline", "html_block"}:
            continue
        shown, open_ended = _html(token.content) if token.type == "html_block" else _inline(token.content)
        if shown != token.content:
            first = lines[token.map[0]] or ""
            before = first[: max(0, first.find(token.content.split("\n", 1)[0]))]
            _put(lines, token.map, before + shown.rstrip("\n"))
        if open_ended:
            # A browser takes all that follows for a part of the tag or comment.
            del lines[token.map[1] :]
            break
    return visible("\n".join(line for line in lines if line is not None))


def visible(text: str) -> str:
    """The text without invisible characters."""
    return _INVISIBLE.sub("", text)


def _without_footnotes(text: str) -> str:
    """Remove footnotes that nothing refers to: each with its paragraph, and what is indented below."""
    used = set(_FOOTNOTE_USED.findall(text))
    if all(label in used for label in _FOOTNOTE.findall(text)):
        return text
    code = [token.map for token in _BLOCKS.parse(text) if token.map and token.type == "fence"]
    fenced = {number for first, last in code for number in range(first, last)}
    kept: list[str] = []
    state = ""  # what the line before is part of: a footnote's "paragraph", or "below" one
    for number, line in enumerate(text.split("\n")):
        start = None if number in fenced else _FOOTNOTE.match(line)
        if start is not None:
            state = "" if start[1] in used else "paragraph"
        elif not line.strip():
            state = state and "below"
        elif state == "below" and not line.startswith(("    ", "\t")):
            state = ""
        if not state:
            kept.append(line)
    return "\n".join(kept)


def _put(lines: list[str | None], place: list[int], text: str | None) -> None:
    lines[place[0] : place[1]] = [text, *[None] * (place[1] - place[0] - 1)]


def _inline(text: str) -> tuple[str, bool]:
    """What a paragraph shows: no comments, instructions and attributes, except in its code."""
    kept: list[str] = []
    runs: dict[int, list[int]] = defaultdict(list)  # where runs of backticks of each length begin, last first
    if not _DOUBTFUL.search(text):
        for run in reversed(list(re.finditer("`+", text))):
            runs[len(run[0])].append(run.start())
    at = done = 0
    while (mark := _MARKS.search(text, at)) is not None:
        at = mark.end()
        if mark[0][0] == "`":
            places = runs[len(mark[0])]
            while places and places[-1] < at:
                places.pop()
            at = places.pop() + len(mark[0]) if places else at
        elif mark[0] == "<":
            end, instead = _hidden(text, mark.start())
            kept += text[done : mark.start()], instead
            done = at = end
    return "".join((*kept, text[done:])), False


def _hidden(text: str, at: int) -> tuple[int, str]:
    """Where what begins here ends, and what is shown of it."""
    for pattern in (_AUTOLINK, _TAG):
        if (found := pattern.match(text, at)) is not None:
            return found.end(), found[0] if pattern is _AUTOLINK else _tag(found)
    for start, end in _INSTRUCTIONS.items():
        if text.startswith(start, at) and text.find(end, at + 2) >= 0:
            return _end_of_comment(text, at), ""
    return at + 1, "<"


def _html(text: str) -> tuple[str, bool]:
    """What a block of HTML shows, and whether it ends inside a tag or comment."""
    kept: list[str] = []
    at = 0
    while (start := text.find("<", at)) >= 0:
        end, instead = _end_of_comment(text, start), ""
        if end == 0 and (found := _ANY_TAG.match(text, start)) is not None:
            end, instead = (found.end(), _tag(found)) if found[0][-1] == ">" else (len(text) + 1, "")
        kept += text[at:start], instead or ("" if end else "<")
        at = end or start + 1
    return "".join((*kept, text[at:])), at > len(text)


def _end_of_comment(text: str, at: int) -> int:
    """Where a comment or an instruction ends; beyond the text if it does not, 0 if this is neither."""
    if not text.startswith(("<!", "<?"), at):
        return 0
    ends = ("-->", "--!>") if text.startswith("<!--", at) else (">",)
    # `<!-->` and `<!--->` are whole comments.
    places = [place + len(end) for end in ends if (place := text.find(end, at + 2)) >= 0]
    return min(places, default=len(text) + 1)


def _tag(found: re.Match[str]) -> str:
    kept = "".join(_KEPT.findall(found[2]))
    return f"<{found[1]}{kept}>" if found[2].strip() else found[0]
