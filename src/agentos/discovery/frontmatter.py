"""The YAML front matter of a Markdown file: `title`, `labels` and `context` in their simple forms. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"(title|labels|context):(?:[ \t]+(.*))?")
_ENTRY = re.compile(r"[ \t]*-[ \t]+(.*)")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
# Possessive, so that no text causes backtracking.
_QUOTED_OR_PLAIN = re.compile(
    r"""\s*+((?:"(?:[^"\\]|\\["\\])*+"|'(?:[^']|'')*+')\s*+|[^,"'\[\]{}]*+)(?:,|$)"""
)
_NOT_PLAIN = tuple("[]{}&*!|>%@`\"'#,?")  # a plain value begins with none of these
MOST_PATHS = 50  # of one item
_END = frozenset({"---", "..."})


@dataclass(frozen=True, kw_only=True)
class FrontMatter:
    """What a file says about itself, and where its text begins."""

    title: str = ""
    labels: tuple[str, ...] = ()
    context: tuple[str, ...] = ()  # paths of the repo that both models get to read
    body: str  # the text after it


def read_front_matter(text: str) -> FrontMatter:
    """Read the fields that are understood; others are ignored, and a block that is never closed is text."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter(body=text)
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() in _END), None)
    if end is None:
        return FrontMatter(body=text)
    found: dict[str, tuple[str, ...]] = {}
    for at in range(1, end):
        field = _FIELD.fullmatch(lines[at].rstrip())
        if field is None or field[1] in found:  # the first of two counts
            continue
        value = (field[2] or "").strip()
        found[field[1]] = (_scalar(value),) if field[1] == "title" else _list(value, lines[at + 1 : end])
    (title,) = found.get("title", ("",))
    return FrontMatter(
        title=title,
        labels=found.get("labels", ()),
        context=found.get("context", ())[:MOST_PATHS],
        body="\n".join(lines[end + 1 :]),
    )


def _list(value: str, following: Sequence[str]) -> tuple[str, ...]:
    """Read `[a, b]`, `a, b`, or a list on the lines below; nothing if any part is not understood."""
    plain = value if '"' in value or "'" in value else _COMMENT.sub("", value).strip()
    if not plain:
        found = [_scalar(one) for one in _entries(following)]
    elif plain.startswith("["):
        found = _split(plain[1:-1]) if plain.endswith("]") else []
    else:
        found = _split(plain)
    return tuple(dict.fromkeys(found)) if all(found) else ()


def _entries(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        entry = _ENTRY.fullmatch(line.rstrip())
        if entry is None:
            return
        yield entry[1].strip()


def _split(text: str) -> list[str]:
    """Split at the commas outside quotes; a comma at the end adds nothing."""
    found: list[str] = []
    at = 0
    while at < len(text):
        part = _QUOTED_OR_PLAIN.match(text, at)
        if part is None or part.end() == at:
            return [""]
        found.append(_scalar(part[1].strip()))
        at = part.end()
    return found


def _scalar(value: str) -> str:
    """Read a quoted or plain value; empty if it is neither."""
    if value.startswith('"'):
        quoted = _DOUBLE.match(value)
        rest = value[quoted.end() :] if quoted else "x"
        return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted and not _COMMENT.sub("", rest).strip() else ""
    if value.startswith("'"):
        quoted = _SINGLE.match(value)
        rest = value[quoted.end() :] if quoted else "x"
        return quoted[1].replace("''", "'") if quoted and not _COMMENT.sub("", rest).strip() else ""
    return "" if value.startswith(_NOT_PLAIN) else _COMMENT.sub("", value).strip()
