"""The outline of a file: its definitions without their bodies. Pure."""

import re

from agentos.repo_map.guides import cut
from agentos.repo_map.words import DEFINITION

MAX_LINE = 160  # characters
_HEADING = re.compile(r"^(?:#{1,4}[ \t]+.{1,200}|\[[^\]\n]{1,100}\])$", re.MULTILINE)
_BEGINNING = 25  # lines of a file in which nothing is recognised


def outline_by_words(text: str, most: int) -> str:
    """An outline made without a parser: the lines that look like definitions or headings."""
    lines = text.splitlines()
    found = [line for line in lines if DEFINITION.match(line)] or [
        line for line in lines if _HEADING.match(line)
    ]
    chosen = found or lines[:_BEGINNING]
    return cut("".join(f"{line.rstrip()[:MAX_LINE]}\n" for line in chosen), most)
