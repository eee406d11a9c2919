"""Markdown as a tree of allowed nodes, which the page turns into elements. Pure.

A node is a text, or a list: [tag, *children]. ["a", address, *children] is a link to the web, ["img", text]
stands for a picture, which is never loaded. HTML in the text is text. No markup ever gets to the page.

The text may be hostile: reading links takes quadratic time, so a block with very many marks stays plain.
"""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

Nodes = list[Any]  # of nodes

MOST_NODES = 20_000  # of one document
_MOST_BRACKETS, _MOST_MARKS, _MOST_INLINE = 100, 500, 10_000  # in a block that is read for links and emphasis
_BLOCKS = MarkdownIt("commonmark", {"html": False}).enable(["table"]).disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough"])
_TAGS = frozenset(
    {"p", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "hr", "br"}
    | {"table", "thead", "tbody", "tr", "th", "td"}
)
_MARKS = re.compile(r"[!*_`<&~\\]")
_WEB = re.compile(r"https?://[^\s\x00-\x1f]+", re.IGNORECASE)
_BOX = re.compile(r"\[([ xX])\](?=\s)")


def markdown_tree(text: str) -> Nodes:
    """The nodes of a document."""
    return _TreeBuilder().build(text)


class _TreeBuilder:
    def __init__(self) -> None:
        self._left = MOST_NODES
        self._level = 0  # of the last heading

    def build(self, text: str) -> Nodes:
        env: dict[str, Any] = {}
        found = self._nodes(_BLOCKS.parse(text, env), env)
        return found if self._left > 0 else [*found, ["p", ["em", "The rest is left out: see the file."]]]

    def _nodes(self, tokens: Sequence[Token], env: dict[str, Any]) -> Nodes:
        root: Nodes = []
        path = [root]
        for token in tokens:
            if token.nesting > 0:
                node = self._opened(token)
                if not token.hidden:
                    path[-1].append(node)
                path.append(path[-1] if token.hidden else node)
            elif token.nesting < 0:
                path.pop()
            elif self._left > 0:
                path[-1] += self._leaf(token, env)
        return root

    def _opened(self, token: Token) -> Nodes:
        self._left -= 1
        if token.type == "link_open":
            address = str(token.attrGet("href") or "")
            return ["a", address] if _WEB.fullmatch(address) else ["span"]
        if token.type == "heading_open":
            # Never more than one level deeper than the heading before, so that the outline has no gaps.
            self._level = min(int(token.tag[1:]), self._level + 1)
            return [f"h{self._level}"]
        return [token.tag if token.tag in _TAGS else "span"]

    def _leaf(self, token: Token, env: dict[str, Any]) -> Nodes:  # noqa: PLR0911 - one case per kind
        self._left -= 1
        match token.type:
            case "inline":
                return self._inline(token.content, env)
            case "fence" | "code_block":
                return [["pre", token.content]]
            case "code_inline":
                return [["code", token.content]]
            case "softbreak":
                return ["\n"]
            case "hardbreak" | "hr":
                return [[token.tag]]
            case "image":
                return [["img", "".join(child.content for child in token.children or ())]]
            case _:
                return [token.content] if token.content else []

    def _inline(self, text: str, env: dict[str, Any]) -> Nodes:
        text = _BOX.sub(lambda box: "☐" if box[1] == " " else "☑", text, count=1) if text[:1] == "[" else text
        marks = len(_MARKS.findall(text))
        if len(text) > _MOST_INLINE or marks > _MOST_MARKS or text.count("[") > _MOST_BRACKETS:
            return [text]
        return self._nodes(
            [one for token in _INLINE.parseInline(text, env) for one in token.children or ()], env
        )
