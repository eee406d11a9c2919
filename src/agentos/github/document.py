"""Reads the title and the labels for a GitHub issue from its document. Pure."""

import re
from itertools import takewhile

from markdown_it import MarkdownIt

MAX_LABELS = 10
MAX_LABEL = 50
MAX_LABEL_WORDS = 4  # more words are a sentence

_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join"])
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TITLE = re.compile(r" {0,3}#[ \t]+(?P<title>.*?)(?:[ \t]+#+)?[ \t]*")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_LABELS = re.compile(
    r" {0,3}#{1,6}[ \t]+(?:\d{1,3}(?:\.\d{1,3}){0,3}[.)]?[ \t]+)?[*_]{0,3}labels[*_]{0,3}[ \t]*"
    r":?[*_]{0,3}[ \t]*#*[ \t]*",
    re.IGNORECASE,
)
_LABELS_LINE = re.compile(
    r" {0,3}(?:[-*+][ \t]+)?(?:\*\*|__)?labels(?:\*\*|__)?[ \t]*:[ \t]*(?:\*\*|__)?[ \t]*(?P<named>\S.*)",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[([^\[\]]{1,100})\](?:\([^()\s]{0,300}\)|\[[^\[\]]{0,100}\])?")
_SPANS_APART = re.compile(r"(?<=`)[ \t]+(?:and[ \t]+)?(?=`)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_BULLET = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_NO_LABELS = frozenset({"", "-", "none", "n/a", "tbd"})


def title_and_text(document: str) -> tuple[str | None, str]:
    """Split a document's title, if it begins with one, from the rest."""
    first, _newline, rest = document.lstrip("\ufeff\r\n").partition("\n")
    found = _TITLE.fullmatch(first.rstrip("\r"))
    return (found["title"], rest.lstrip("\r\n")) if found and found["title"] else (None, document)


def labels_of(document: str) -> tuple[str, ...]:
    """List the labels in the document's Labels section."""
    text = _CONTROL.sub("", document.replace("\r\n", "\n").replace("\r", "\n"))
    # A comment keeps its line breaks, so that line numbers stay the same.
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    lines = text.split("\n")
    fences = (token.map or (0, 0) for token in _BLOCKS.parse(text) if token.type == "fence")
    code = {line for first, last in fences for line in range(first, last)}
    named = _named(lines, code)
    found: dict[str, str] = {}
    for line in named:
        if "|" in line:
            continue  # a row of a table
        for part in re.split(r"[,;]", _SPANS_APART.sub(",", _LINK.sub(r"\1", line))):
            if (label := _label(part)) is not None:
                found.setdefault(label.lower(), label)
    return tuple(found.values())[:MAX_LABELS]


def _named(lines: list[str], code: set[int]) -> list[str]:
    """Return the lines that name labels: those of the section, or one line that begins with "Labels:"."""
    start = next((n for n, line in enumerate(lines) if n not in code and _LABELS.fullmatch(line)), None)
    if start is None:
        alone = (_LABELS_LINE.fullmatch(line) for n, line in enumerate(lines) if n not in code)
        return next(([one["named"]] for one in alone if one), [])
    section = takewhile(lambda line: not _HEADING.match(line), lines[start + 1 :])
    written = [line for line in section if line.strip()]
    # A list, or one line; text after it is not a label.
    listed = list(takewhile(_BULLET.match, written)) or written[:1]
    return [_BULLET.sub("", line, count=1) for line in listed]


def _label(part: str) -> str | None:
    """Return one label, or None for a sentence or an empty part."""
    text = part.strip()
    if not text.startswith("`"):
        # Text in code is the whole name; elsewhere a reason may follow: `**bug**: it crashes`.
        emphasised = re.match(
            r"(?:\*\*|__)?(?P<name>[^*]{1,60}?)(?:\*\*|__)(?::|[ \t]+[-\u2013\u2014])(?:[ \t]|$)", text
        )
        text = emphasised["name"] if emphasised else text
    elif quoted := re.match(r"`+(?P<name>[^`]+)`+(?:[ \t]*[:\u2013\u2014]|[ \t]+-)[ \t]", text):
        text = quoted["name"]
    bare = text.replace("`", "").strip(" \t*_\"'")
    label = " ".join(bare.split())
    sentence = len(label.split()) > MAX_LABEL_WORDS or label.endswith((".", "!", "?"))
    if sentence or label.lower() in _NO_LABELS or not re.search(r"\w", label):
        return None
    return label if len(label) <= MAX_LABEL and label.isprintable() else None
