"""The colours of a line during a run: its label, and the verdict or status it reports. Pure."""

import re
from collections.abc import Mapping

from agentos.console.colours import LABEL, STATUS_COLOURS
from agentos.console.screen import Line, Paint

_COORDINATOR = "[COORDINATOR"
_REVIEW = re.compile(r"(review \d+: )([A-Z]+)")
_ENDED = re.compile(
    rf"(\S+: )({'|'.join(re.escape(status.replace('_', ' ')) for status in STATUS_COLOURS)})\b"
)
_VERDICTS: Mapping[str, str] = {"APPROVED": "green", "REVISE": "yellow", "DISCUSS": "yellow"}


def coloured(line: str) -> Line:
    """A line with its prefix, in parts with their colours."""
    label, bracket, rest = line.partition("] ")
    parts: list[str | Paint] = [Paint(label + bracket, fg=LABEL)]
    found = (_ENDED if label == _COORDINATOR else _REVIEW).match(rest)
    if found is None:
        return (*parts, rest)
    word = found[2]
    colour = STATUS_COLOURS.get(word.replace(" ", "_")) or _VERDICTS.get(word, "red")
    return (*parts, found[1], Paint(word, fg=colour), rest[found.end() :])
