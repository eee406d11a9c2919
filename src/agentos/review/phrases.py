"""The words of a review: cleaned, escaped, and distinguished from placeholders. Pure."""

import re
import unicodedata
from dataclasses import dataclass

# Control characters are made visible, not dropped: dropping one could join two halves of a verdict word.
_UNSEEN = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}
_UNSEEN |= dict.fromkeys(map(ord, "\x0b\x0c\u2028\u2029"), " ")

_EMOJI_PARTS = frozenset("\ufe0e\ufe0f\u200d\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_HEADING_NUMBER = re.compile(r"^[0-9]{1,3}(?:\.[0-9]{1,3})*[.)]? ")

_LINE_MARKS = frozenset("\\#-+*><[=~`|_")
_NUMBERED = re.compile(r"^([0-9]+)(\\*[.)])")
_ESCAPED_NUMBERED = re.compile(r"^([0-9]+)\\(\\*[.)])")
_COMMENT = re.compile(r"<(\\*)!--")
_ESCAPED_COMMENT = re.compile(r"<\\(\\*)!--")
_TITLE_MARK = re.compile(r"[\\*]|<(?=!--)")
_ESCAPED_TITLE_MARK = re.compile(r"\\([\\*<])")
_BOLD = re.compile(r"\*\*((?:\\.|[^*\\]|\*(?!\*))+)\*\*")
_DASH = re.compile(r"\s*[-\u2013\u2014]\s+")

_ABSENT = (
    r"(?:issues?|findings?|concerns?|problems?|violations?|blockers?|risks?|suggestions?|questions?"
    r"|recommendations?|changes|implications?|impact|gaps?|objections?|actions?)"
)
_KIND = (
    r"(?:tier[- ]?[123]|[123]|blocking|high[- ]priority|major|minor|critical|significant|new|further"
    r"|additional|other|known|open|outstanding|remaining|previous|prior|earlier|cost|safety|security|legal"
    r"|architectur(?:e|al)|observability|quality|compliance|privacy|clarifying)"
)
_SEEN = (
    r"(?:were|was|are|is|found|identified|detected|noted|observed|raised|remaining|remain|present"
    r"|outstanding|reported|needed|required|to report|at this time|for (?:the )?orchestrator"
    r"|in th(?:is|e) (?:current |updated |revised |latest )?(?:category|section|tier|area|review|design|lld"
    r"|issue|spec|draft|document|revision|version|proposal|plan))"
)
_NOTHING = re.compile(
    r"(?:(?:there (?:are|were) )?no"
    rf"(?: {_KIND}(?:,? and|,? or|,| /)?){{0,5}} {_ABSENT}(?: {_SEEN}){{0,4}}"
    rf"|(?:none|nothing|nothing blocking|nil)(?: {_SEEN}){{0,4}}"
    rf"|all (?:{_KIND} ){{0,4}}{_ABSENT} (?:(?:have been|were|are) )?(?:now )?(?:resolved|addressed|fixed)"
    r"|n/?a|n\.a|not applicable|pass|passed|ok|okay|all clear|clear|compliant|looks good)"
    r"(?P<end>$|[.!;](?:\s|$)|\s*[-\u2013\u2014]+\s|\s*\()",
    re.IGNORECASE,
)
_TURN = re.compile(
    r"\*\*|\[ ?\]|\b(?:but|however|although|though|except|excepting|yet|nevertheless|nonetheless|still"
    r"|while|whereas|unless|until|pending|despite|other than|apart from|aside from|besides|must|should"
    r"|needs? to|ha[sv]e? to|missing|lacks?|lacking|unbounded|unresolved|recommend\w*|todo|please)\b",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"[*_)\]]{1,3}([.!]?)(?=\s|$)")
_LONGEST_PLACEHOLDER = 1000  # characters; a longer explanation is not a placeholder


@dataclass(frozen=True, kw_only=True)
class Titled:
    """A line split into its bold title and the rest."""

    title: str
    text: str


def clean(text: str) -> str:
    """Make any string valid Unicode with one kind of line end and no invisible characters."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").translate(_UNSEEN)


def tidy(text: str) -> str:
    """Keep the lines of a text, without blank ones and indentation."""
    lines = (line.strip() for line in text.replace("\t", " ").split("\n"))
    return "\n".join(line for line in lines if line)


def is_emoji(character: str) -> bool:
    return character in _EMOJI_PARTS or unicodedata.category(character) == "So"


def heading_name(text: str) -> str:
    """Strip emoji, emphasis and number from a heading."""
    words = "".join(character for character in text if character not in "*`" and not is_emoji(character))
    return _HEADING_NUMBER.sub("", " ".join(words.split())).strip("_ ")


def title_line(text: str) -> str:
    """Fold a title to one line, without bold markers and trailing colon."""
    return " ".join(text.split()).strip(" *").rstrip(" *:")


def escape_inline(line: str) -> str:
    """Keep a line from opening a comment."""
    return _COMMENT.sub(r"<\\\1!--", line)


def unescape_inline(line: str) -> str:
    return _ESCAPED_COMMENT.sub(r"<\1!--", line)


def escape_line(line: str) -> str:
    """Make a line plain text: it opens no heading, list, box, quote, fence or HTML block."""
    line = escape_inline(line)
    if line[:1] in _LINE_MARKS:
        return "\\" + line
    return _NUMBERED.sub(r"\1\\\2", line, count=1)


def unescape_line(line: str) -> str:
    if line[:1] == "\\" and line[1:2] in _LINE_MARKS:
        line = line[1:]
    else:
        line = _ESCAPED_NUMBERED.sub(r"\1\2", line, count=1)
    return unescape_inline(line)


def escape_title(title: str) -> str:
    """Keep a title from ending its own bold markers."""
    return _TITLE_MARK.sub(r"\\\g<0>", title)


def split_title(line: str) -> Titled:
    """Split a leading bold title from a line; bold words inside a sentence are not a title."""
    bold = _BOLD.match(line)
    if bold is None:
        return Titled(title="", text=line)
    title = title_line(_ESCAPED_TITLE_MARK.sub(r"\1", bold[1]))
    after = line[bold.end() :].strip()
    if bold[1].rstrip().endswith(":"):
        rest = after
    elif after.startswith(":"):
        rest = after[1:].strip()
    elif dash := _DASH.match(line, bold.end()):
        rest = line[dash.end() :].strip()
    elif after in {"", "."}:
        rest = ""
    else:
        return Titled(title="", text=line)
    return Titled(title=title, text=rest) if title else Titled(title="", text=line)


def says_nothing(text: str) -> bool:
    """Say whether a text only states that there is nothing to report, perhaps with an explanation.

    Fails closed: anything that turns the sentence around ("but", "must", a bold title) makes it a finding.
    """
    if len(text) > _LONGEST_PLACEHOLDER:
        return False
    folded = " ".join(text.split())
    bare = folded.lstrip("*_([ ")
    if not bare.strip("*_)] .-\u2013\u2014"):
        return True
    if bare != folded:  # emphasis around the first sentence is not a bold title
        bare = _CLOSING.sub(r"\1", bare, count=1)
    nothing = _NOTHING.match(bare)
    return nothing is not None and _TURN.search(bare, nothing.end()) is None


def stands_open(*, title: str, text: str, recommendation: str) -> bool:
    """Say whether a finding has content, or is only the placeholder of an empty list."""
    if recommendation:
        return True
    if title:
        # Words after a title are the finding itself, whatever the title says.
        return not (says_nothing(title) and (not text or says_nothing(text)))
    return not says_nothing(text)
