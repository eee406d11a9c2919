"""Makes a model's text harmless before it is posted. Pure.

The text mentions nobody, closes nothing, shows up in no other repository, loads nothing by itself, hides
nothing and forges no marker. Whatever would do so is broken by a zero-width space, which leaves it readable.

Code keeps its `@`, because decorators and addresses are common there. Only what is certainly code counts as
code: a closed fence, and a code span in a paragraph without HTML, tables or formulas, which not all parsers
read the same way.
"""

import re
from collections.abc import Iterator
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_TITLE = 256
MAX_BODY = 65_536  # characters, GitHub's limit
BREAK = "\u200b"  # zero-width space: not a blank to a pattern, invisible to a reader

_ROUNDS = 20
# Blocks only, and code spans only: parsing links takes quadratic time on a hostile text.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join"])
_CODE_SPANS = MarkdownIt("zero").enable(["backticks", "escape"])
_OUR_LAST_LINE = re.compile(r"\n<!-- agentos: item=\S+ input=sha256:[0-9a-f]{64} -->\s*\Z")
_MARKER = re.compile(r"<!-- agentos-filing: [0-9a-f]{32} -->")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that change the reading direction, and invisible letters.
_UNSEEN = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_NUMERIC = re.compile(r"&#(?:[xX]0{0,9}([0-9a-fA-F]{1,2})|0{0,9}([0-9]{1,3}));")
_NAMED = re.compile(r"&(commat|num);")
_ADDRESS = (
    r"(?<![^\s<(\[:,;\"'])[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,63}[A-Za-z0-9])?@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
)
_AT = re.compile(rf"(?P<address>{_ADDRESS})|@(?=[^\s{BREAK}])")
_TARGET = r"(?:https?://|www\.)[^\s<>\"']{1,300}/(?:issues|pull|discussions)/\d"
_REFERENCE = rf"(?:[A-Za-z0-9._-]{{1,100}}/[A-Za-z0-9._-]{{1,100}})?#\d|GH-\d|{_TARGET}"
# Between the word and its reference: tags, entities, blanks, marks. Possessive quantifiers never backtrack,
# so a hostile text costs no more than a long one.
_BETWEEN = (
    rf"(?:\s++|</?(?!https?:|www\.)[A-Za-z][^<>]{{0,300}}+>|&#?[A-Za-z0-9]{{1,31}}+;|\[[^\[\]\n]{{0,300}}+\]\((?={_TARGET})"
    rf"|(?!{_REFERENCE})[^A-Za-z0-9\s{BREAK}]){{0,200}}+"
)
_CLOSING = re.compile(
    r"(?<![A-Za-z0-9])(?P<word>close[sd]?|fix(?:e[sd])?|resolve[sd]?)"
    rf"(?!{BREAK})(?=#\d|(?![A-Za-z0-9{BREAK}]){_BETWEEN}(?:{_REFERENCE}))",
    re.IGNORECASE,
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
_PLAIN_TAGS = (
    "b|blockquote|br|code|dd|del|details|dl|dt|em|h[1-6]|hr|i|ins|kbd|li|ol|p|pre|q|s|samp|small|strong|sub|"
    "summary|sup|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|var"
)
# An HTML tag, a declaration or an instruction; tags without attributes that only format text
# stay, and so do addresses in angle brackets.
_TAG = re.compile(
    rf"<(?=[A-Za-z/!?])(?!!--)(?!/?(?:{_PLAIN_TAGS})[ \t]*/?>|details open>)"
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
    r"(?<![`~])(?:`{3,}+|~{3,}+)[ \t]*+(?=(?:mermaid|geojson|topojson|stl)\b"
    rf"|[^\s{BREAK}]{{1,100}}(?<=[&\\]))",
    re.IGNORECASE,
)
_FENCE_END = re.compile(r"[ \t>]*(?P<fence>`{3,}|~{3,})[ \t]*")
_DOUBTFUL = re.compile(r"[<|]|\\`|\$.*\$", re.DOTALL)
_TICKS = re.compile(r"`+")


def marker_of(token: str) -> str:
    """Return a hidden line that identifies one filing; the token is 32 random hexadecimal digits."""
    return f"<!-- agentos-filing: {token} -->"


def sanitize_body(text: str, marker: str) -> str:
    """Return the document as the body of an issue, with the marker of its filing at the end."""
    assert _MARKER.fullmatch(marker)
    text = _UNSEEN.sub("", _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    text = _OUR_LAST_LINE.sub("", f"\n{text}").strip("\n").replace("<!--", "&lt;!--")
    text, open_fence = _safe(text)
    return f"{text}{open_fence}\n\n{marker}\n"


def sanitize_title(text: str) -> str:
    """Return one line that mentions nobody."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    title = _without_mentions(" ".join(plain.split()))
    if len(title) > MAX_TITLE:
        title = f"{title[: MAX_TITLE - 1].rstrip()}…"
    return title or "Untitled"


def _safe(text: str) -> tuple[str, str]:
    """Make prose harmless until nothing changes; also return what closes a fence that was left open."""
    for _round in range(_ROUNDS):
        # Code is found again in each round: a change may alter how the rest is read.
        after = "".join(part if is_code else _prose(part) for part, is_code in _parts(text))
        after = _DRAWN.sub(rf"\g<0>{BREAK}", after.replace("<!--", "&lt;!--"))
        if after == text:
            break
        text = after
    else:
        text = _DRAWN.sub(rf"\g<0>{BREAK}", _prose(text).replace("<!--", "&lt;!--"))
    lines = text.split("\n")
    left_open = [token for token in _fences(text) if token.level == 0 and not _closed(lines, token)]
    return text, f"\n{left_open[-1].markup}" if left_open else ""


def _prose(text: str) -> str:
    text = _without_mentions(text)
    for embedded in (_IMAGE, _TAG, _LINK_START, _DEFINITION, _ASSET):
        text = embedded.sub(rf"\g<0>{BREAK}", text)
    text = _FOREIGN.sub(rf"\g<0>{BREAK}", text)
    # The same page, at an address that redirects there but does not count as a mention.
    return _FOREIGN_PAGE.sub("redirect.github.com", text)


def _without_mentions(text: str) -> str:
    """Mention nobody, close nothing."""
    text = _NAMED.sub(lambda found: "@" if found[1] == "commat" else "#", text)
    text = _NUMERIC.sub(_plain, text)
    text = _AT.sub(lambda found: found["address"] or f"@{BREAK}", text)
    return _CLOSING.sub(rf"\g<word>{BREAK}", text)


def _plain(found: re.Match[str]) -> str:
    """Turn letters, digits, `@` and `#` written as numbers into characters; leave others as they are."""
    char = chr(int(found[1], 16) if found[1] else int(found[2]))
    return char if char.isascii() and (char.isalnum() or char in "@#-/") else found[0]


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
        elif token.type == "inline" and "`" in token.content:
            spans = [
                (starts[first] + start, starts[first] + end)
                for start, end in _spans(lines[first:last], token)
            ]
        for start, end in spans:
            yield text[at:start], False
            yield text[start:end], True
            at = end
    yield text[at:], False


def _spans(lines: list[str], token: Token) -> list[tuple[int, int]]:
    """Return where a paragraph's code spans are, or nothing if there is any doubt."""
    if _DOUBTFUL.search("\n".join(lines)):
        return []
    spans: list[tuple[int, int]] = []
    seen: list[str] = []
    at = 0
    for line in lines:
        start: re.Match[str] | None = None
        for ticks in _TICKS.finditer(line):
            if start is None:
                start = ticks
            elif ticks[0] == start[0]:
                inner = line[start.end() : ticks.start()]
                padded = inner[:1] == " " == inner[-1:] and inner.strip(" ")
                seen.append(inner[1:-1] if padded else inner)
                spans.append((at + start.start(), at + ticks.end()))
                start = None
        if start is not None:
            return []
        at += len(line) + 1
    (read,) = _CODE_SPANS.parseInline(token.content)
    expected = [child.content for child in read.children or () if child.type == "code_inline"]
    return spans if seen == expected else []


def _fences(text: str) -> list[Token]:
    return [token for token in _BLOCKS.parse(text) if token.type == "fence"]


def _closed(lines: list[str], token: Token) -> bool:
    first, last = token.map or (0, 0)
    end = _FENCE_END.fullmatch(lines[last - 1]) if last - first >= 2 else None
    return end is not None and end["fence"].startswith(token.markup)
