"""A Markdown text as a tree of blocks; code, quotes and HTML are opaque. Pure."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

# A review has a few thousand characters; a longer text is not one. The limits bound the time it takes.
MAX_CHARACTERS = 1_000_000
MAX_LINES = 10_000
MAX_NESTING = 20

# Inline rules are left out: box lines are read as written, and inline parsing of hostile text is slow.
# Link definitions are left out because they would make a line such as "[x]: ..." vanish.
_PARSER = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).disable(["reference", "inline", "text_join"])

_HIDING = re.compile(r"\\[\s\S]|`+|<!--")
_TICKS = re.compile(r"`+")
_SETEXT = frozenset("-=")


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A heading outside lists and quotes."""

    level: int
    text: str
    underlined: bool = False  # by a line of "-" or "=", which may be meant as a rule


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Running lines of text."""

    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ListItem:
    """One item of a list, with everything indented below it."""

    blocks: tuple["Block", ...]
    source: str  # as written, with its marker


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A bulleted or numbered list."""

    items: tuple[ListItem, ...]


@dataclass(frozen=True, kw_only=True)
class Opaque:
    """Code, a quotation or HTML: its text is not a statement of the review."""

    kind: str  # "code", "quote" or "html"
    source: str


Block = Heading | Paragraph | Listing | Opaque


@dataclass(frozen=True, kw_only=True)
class ParsedMarkdown:
    """The blocks of a text, or why they cannot be trusted."""

    blocks: tuple[Block, ...] = ()
    problem: str = ""


def parse(text: str) -> ParsedMarkdown:
    """Split a cleaned text into blocks."""
    if text.count("\n") > MAX_LINES:
        return ParsedMarkdown(
            problem=f"The text has more than {MAX_LINES} lines, which is too long for a review."
        )
    try:
        tokens = _PARSER.parse(text)
    except Exception:  # noqa: BLE001 - hostile text may hit a bug in the parser, and a reader must not raise
        return ParsedMarkdown(problem="The Markdown cannot be parsed.")
    if problem := _problem(tokens):
        return ParsedMarkdown(problem=problem)
    return ParsedMarkdown(blocks=_Builder(tokens, text.split("\n")).blocks(0, len(tokens)))


def visible(text: str) -> str:
    """Drop HTML comments inside running text; in a code span they are not comments."""
    if "<!--" not in text:
        return text
    runs: dict[int, list[int]] = defaultdict(list)
    for run in reversed(list(_TICKS.finditer(text))):
        runs[len(run[0])].append(run.start())
    kept: list[str] = []
    start = position = 0
    while mark := _HIDING.search(text, position):
        position = mark.end()
        if mark[0][0] == "`":
            closers = runs[len(mark[0])]
            while closers and closers[-1] < position:
                closers.pop()
            position = closers[-1] + len(mark[0]) if closers else position
        elif mark[0] == "<!--":
            end = text.find("-->", mark.start() + 2)
            if end < 0:
                break
            kept.append(text[start : mark.start()])
            start = position = end + 3
    kept.append(text[start:])
    return "".join(kept)


def _problem(tokens: Sequence[Token]) -> str:
    for token in tokens:
        # The parser silently drops anything nested deeper.
        if token.level >= MAX_NESTING - 1:
            return "Lists or quotes are nested too deeply."
        if token.type == "fence" and not _closed(token):
            return "A code fence is never closed, so the review may be cut off."
        if (
            token.type == "html_block"
            and token.content.lstrip().startswith("<!--")
            and "-->" not in token.content
        ):
            return "An HTML comment is never closed, so the review may be cut off."
    return ""


def _closed(fence: Token) -> bool:
    first, end = fence.map or (0, 0)
    inside = fence.content.count("\n") + (fence.content != "" and not fence.content.endswith("\n"))
    return end - first == inside + 2


class _Builder:
    """Turns the parser's flat tokens into nested blocks."""

    def __init__(self, tokens: Sequence[Token], lines: Sequence[str]) -> None:
        self._tokens = tokens
        self._lines = lines
        self._ends: dict[int, int] = {}
        opened: list[int] = []
        for index, token in enumerate(tokens):
            if token.nesting == 1:
                opened.append(index)
            elif token.nesting == -1:
                self._ends[opened.pop()] = index

    def blocks(self, start: int, stop: int) -> tuple[Block, ...]:
        found: list[Block] = []
        index = start
        while index < stop:
            block = self._block(index)
            if block is not None:
                found.append(block)
            index = self._ends.get(index, index) + 1
        return tuple(found)

    def _block(self, index: int) -> Block | None:
        token = self._tokens[index]
        match token.type:
            case "heading_open" | "paragraph_open":
                return self._text(token, self._tokens[index + 1].content)
            case "bullet_list_open" | "ordered_list_open":
                return Listing(items=self._items(index + 1, self._ends[index]))
            case "blockquote_open":
                return Opaque(kind="quote", source=self._source(token))
            case "fence" | "code_block":
                return Opaque(kind="code", source=self._source(token))
            case "html_block":
                return Opaque(kind="html", source=token.content)
            case _:
                return None

    def _text(self, token: Token, content: str) -> Block:
        lines = tuple(visible(content).split("\n"))
        underlined = token.markup[:1] in _SETEXT
        # A rule right below the last box underlines the whole paragraph, which is never meant as a heading.
        if token.type == "paragraph_open" or (underlined and len(lines) > 1):
            return Paragraph(lines=lines)
        return Heading(level=int(token.tag[1:]), text=lines[0].strip(), underlined=underlined)

    def _items(self, start: int, stop: int) -> tuple[ListItem, ...]:
        items: list[ListItem] = []
        index = start
        while index < stop:
            end = self._ends[index]
            items.append(
                ListItem(blocks=self.blocks(index + 1, end), source=self._source(self._tokens[index]))
            )
            index = end + 1
        return tuple(items)

    def _source(self, token: Token) -> str:
        first, end = token.map or (0, 0)
        return "\n".join(self._lines[first:end])
