"""Makes a model's text harmless before it is posted. Pure.

The text mentions nobody, closes nothing, shows up in no other repository, loads nothing by itself, hides
nothing and forges no marker. Whatever would do so is broken by a zero-width space, which leaves it readable.

Code keeps its `@`, because decorators and addresses are common there. Only what is certainly code counts as
code: a closed fence, and the code spans of a paragraph in which nothing else can contain a backtick.
"""

import re
from collections.abc import Iterator
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agentos.console.visible import without_unseen

MAX_TITLE = 256
MAX_BODY = 65_536  # characters, GitHub's limit
BREAK = "\u200b"  # zero-width space: not a blank to a pattern, invisible to a reader

_ROUNDS = 20
# Blocks only: parsing links takes quadratic time on a hostile text.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join"])
_MARKER = re.compile(r"<!-- agentos-filing: [0-9a-f]{32} -->")

# Characters written as entities, except the common harmless ones, are shown as they are written.
_ENTITY = re.compile(
    r"&(?=#|(?!(?:amp|lt|gt|quot|apos|nbsp|ndash|mdash|hellip|times|larr|rarr|copy|reg);)[A-Za-z][A-Za-z0-9]{1,31};)"
)
_ADDRESS = (
    r"(?<![^\s<(\[:,;\"'])[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,63}[A-Za-z0-9])?@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
)
_AT = re.compile(rf"(?P<address>{_ADDRESS})|@(?=[^\s{BREAK}])")
# In a text that refers to an issue, no word closes one.
_REFERENCE = re.compile(r"#\d|GH-\d|/(?:issues|pull|discussions)/\d", re.IGNORECASE)
_CLOSING = re.compile(
    rf"(?<![A-Za-z0-9])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?![A-Za-z0-9{BREAK}])", re.IGNORECASE
)
# A reference to another repository leaves a trace that people see there.
_FOREIGN = re.compile(r"(?<=[A-Za-z0-9._-])/[A-Za-z0-9._-]{1,100}(?=#\d)")
_FOREIGN_PAGE = re.compile(
    r"(?<=://)(?:www\.)?github\.com(?=(?:/[^\s/<>\"']{1,100}){2}/(?:issues|pull|discussions|commit)/)",
    re.IGNORECASE,
)
# GitHub embeds these as pictures and videos.
_ASSET = re.compile(
    r"https?:(?=//(?:[a-z0-9-]{1,60}\.){0,3}githubusercontent\.com|//github\.com/(?:user-attachments|[^\s/]{1,100}/[^\s/]{1,100}/assets)/)",
    re.IGNORECASE,
)
_IMAGE = re.compile(r"!(?=\[)")
# GitHub draws what is between two dollar signs, but not after or before any character.
_DOLLAR = re.compile(rf"{BREAK}?\${BREAK}?")
_PLAIN_TAGS = (
    "b|blockquote|br|code|dd|del|details|dl|dt|em|h[1-6]|hr|i|ins|kbd|li|ol|p|pre|q|s|samp|small|strong|sub|"
    "summary|sup|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|var"
)
# An HTML tag, a comment, a declaration or an instruction; tags without attributes that only format text
# stay, and so do addresses in angle brackets.
_TAG = re.compile(
    rf"<(?=[A-Za-z/!?])(?!/?(?:{_PLAIN_TAGS})[ \t]*/?>|details open>)"
    r"(?!https?://[^\s<>]{1,2000}>|(?:mailto:)?[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,255}>)",
    re.IGNORECASE,
)
# A link goes to the web, to a mailbox, or to a place in the repository. Anything else, such as a scheme
# spelled with entities or escapes, is text.
_LINK_START = re.compile(
    r"\](?=\()(?!\(\s*+(?:"
    r"<?(?:https?://|mailto:)(?!\s)"
    r"|[A-Za-z0-9._~%+-]{0,200}(?:[/#?)]|[ \t]++[\"')])"
    r"|<[A-Za-z0-9._~%+-]{0,200}[/#?>]))",
    re.IGNORECASE,
)
# GitHub does not show any part of a definition, whatever is in it.
_DEFINITION = re.compile(r"\](?=:)")
# Fences that GitHub draws instead of showing, and fences with a disguised language name.
_DRAWN = re.compile(
    r"(?<![`~])(?:`{3,}+|~{3,}+)[ \t]*+(?=(?:mermaid|geojson|topojson|stl|math)\b"
    rf"|[^\s{BREAK}]{{1,100}}(?<=[&\\]))",
    re.IGNORECASE,
)
_FENCE_END = re.compile(r"[ \t>]*(?P<fence>`{3,}|~{3,})[ \t]*")
_SPAN = re.compile(r"(?<!`)(?P<ticks>`++).+?(?<!`)(?P=ticks)(?!`)")
# What may contain a backtick that begins no code: a tag, an escape, a cell, a formula, an address, a link.
_DOUBTFUL = re.compile(r"[`<|\\$]|://|www\.|\]\(", re.IGNORECASE)


def marker_of(token: str) -> str:
    """Return a hidden line that identifies one filing; the token is 32 random hexadecimal digits."""
    return f"<!-- agentos-filing: {token} -->"


def sanitize_body(text: str, marker: str) -> str:
    """Return the document as the body of an issue, with the marker of its filing at the end."""
    assert _MARKER.fullmatch(marker)
    text = without_unseen(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    for _round in range(_ROUNDS):
        # Code is found again in each round: a change may alter how the rest is read.
        refers = _REFERENCE.search(text) is not None
        parts = (part if is_code else _prose(part, refers=refers) for part, is_code in _parts(text))
        after = _also_in_code("".join(parts))
        if after == text:
            break
        text = after
    else:
        text = _also_in_code(_prose(text, refers=True))
    last = _BLOCKS.parse(f"{text}\n\n{marker}")[-1]
    return "\n".join([text, *([last.markup] if last.type == "fence" else []), "", marker, ""])


def sanitize_title(text: str) -> str:
    """Return one line that mentions nobody; empty if nothing can be seen of it."""
    plain = " ".join(without_unseen(text).split())
    title = _without_mentions(plain, refers=_REFERENCE.search(plain) is not None)
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1].rstrip()}…"


def _also_in_code(text: str) -> str:
    """Forge no marker, and have nothing drawn."""
    return _DRAWN.sub(rf"\g<0>{BREAK}", text.replace("<!--", f"<{BREAK}!--"))


def _prose(text: str, *, refers: bool) -> str:
    text = _without_mentions(text, refers=refers)
    for embedded in (_IMAGE, _TAG, _LINK_START, _DEFINITION, _ASSET, _FOREIGN):
        text = embedded.sub(rf"\g<0>{BREAK}", text)
    text = _DOLLAR.sub(f"{BREAK}${BREAK}", text)
    # The same page, at an address that redirects there but does not count as a mention.
    return _FOREIGN_PAGE.sub("redirect.github.com", text)


def _without_mentions(text: str, *, refers: bool) -> str:
    """Mention nobody, close nothing."""
    text = _ENTITY.sub(rf"\g<0>{BREAK}", text)
    text = _AT.sub(lambda found: found["address"] or f"@{BREAK}", text)
    return _CLOSING.sub(rf"\g<0>{BREAK}", text) if refers else text


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, each with whether it is certainly code."""
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    at = 0
    for token in _BLOCKS.parse(text):
        first, last = token.map or (0, 0)
        spans: list[tuple[int, int]] = []
        if token.type == "fence" and _closed(lines, token):
            spans = [(starts[first], starts[last] - 1)]
        elif token.type == "inline" and not any(
            _DOUBTFUL.search(_SPAN.sub("", line)) for line in lines[first:last]
        ):
            spans = [
                (start + found.start(), start + found.end())
                for start, line in zip(starts[first:last], lines[first:last], strict=True)
                for found in _SPAN.finditer(line)
            ]
        for start, end in spans:
            yield text[at:start], False
            yield text[start:end], True
            at = end
    yield text[at:], False


def _closed(lines: list[str], token: Token) -> bool:
    first, last = token.map or (0, 0)
    end = _FENCE_END.fullmatch(lines[last - 1]) if last - first >= 2 else None
    return end is not None and end["fence"].startswith(token.markup)
