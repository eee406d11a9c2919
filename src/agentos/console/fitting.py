"""Makes texts fit the columns of a terminal. Pure."""

import unicodedata
from collections.abc import Iterable, Sequence

MORE = "…"
_LEAST_LABEL = 8


def columns(text: str) -> int:
    """The columns that a text takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    return 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, room: int) -> str:
    """Cut the end of a text that is too long."""
    if columns(text) <= room:
        return text
    return _start(text, room - 1) + MORE if room > 0 else ""


def cut_start(text: str, room: int) -> str:
    """Cut the start: the end of a path says most."""
    if columns(text) <= room:
        return text
    return MORE + _start(text[::-1], room - 1)[::-1] if room > 0 else ""


def cut_middle(text: str, room: int) -> str:
    """Cut the middle: long names differ at their ends."""
    if columns(text) <= room:
        return text
    if room <= 0:
        return ""
    end = _start(text[::-1], (room - 1) // 2)[::-1]
    return _start(text, room - 1 - columns(end)) + MORE + end


def label_room(labels: Iterable[str], *, width: int | None, others: int) -> int:
    """The columns for labels: all they need, but on a terminal at most a third, and what `others` leave."""
    longest = max(map(columns, labels), default=0)
    if width is None:
        return longest
    return min(longest, max(_LEAST_LABEL, min(width // 3, width - others)))


def padded(text: str, room: int) -> str:
    return text + " " * (room - columns(text))


def listed(words: Sequence[str], room: int | None) -> str:
    """As many words as fit, and the number of those left out."""
    for count in range(len(words), 0, -1):
        text = ", ".join(words[:count]) + (f" and {len(words) - count} more" if count < len(words) else "")
        if room is None or columns(text) <= room:
            return text
    rest = f" and {len(words) - 1} more" if len(words) > 1 else ""
    return cut_middle(words[0], max(1, (room or 0) - len(rest))) + rest if words else ""


def _start(text: str, room: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += _columns(char)
        if taken > room:
            return text[:at]
    return text
