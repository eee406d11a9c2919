"""The outline of a file: its definitions without their bodies. Pure."""

import re
from collections.abc import Callable, Iterable

from agentos.repo_map.guides import cut
from agentos.repo_map.tags import Definition, Tags
from agentos.repo_map.words import DEFINITION

MAX_LINE = 160  # characters
_HEADING = re.compile(r"(?:#{1,4}[ \t]+.{1,200}|\[[^\]\n]{1,100}\])")
_BEGINNING = 25  # lines of a file in which nothing is recognised
_DEEP = 4  # spaces of indent


def outline_by_tags(tags: Tags, most: int) -> str:
    """An outline in at most so many characters; docs go first, then inner definitions."""
    shorter: tuple[Callable[[Definition], str], ...] = (_with_doc, _plain, _if_outer)
    for line_of in shorter:
        text = _joined([tags.doc and f"# {tags.doc}", *(line_of(one) for one in tags.definitions)])
        if len(text) <= most:
            return text
    return cut(text, most)


def outline_by_words(text: str, most: int) -> str:
    """An outline made without a parser: the lines that look like definitions or headings."""
    lines = text.splitlines()
    defined = [line for line in lines if DEFINITION.match(line)]
    chosen = defined or [line for line in lines if _HEADING.fullmatch(line)] or lines[:_BEGINNING]
    return cut(_joined(line.rstrip()[:MAX_LINE] for line in chosen), most)


def _with_doc(one: Definition) -> str:
    return f"{one.signature}  # {one.doc}" if one.doc else one.signature


def _plain(one: Definition) -> str:
    return one.signature[:MAX_LINE]


def _if_outer(one: Definition) -> str:
    private = one.name.startswith("_") and not one.name.startswith("__")
    deep = len(one.signature) - len(one.signature.lstrip()) > _DEEP
    return "" if private or deep else one.signature[:MAX_LINE]


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines if line)
