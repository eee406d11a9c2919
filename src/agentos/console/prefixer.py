"""Turns the raw bytes of a worker's stream into whole, harmless lines. Pure."""

import re
from collections.abc import Callable

MAX_LINE_BYTES = 16_384  # a longer line is shown in pieces
KEPT_BACK_BYTES = 4_096  # of such a line, until more comes: no secret is longer, however it is written
_CONTINUATION = 0b1100_0000

# C0 but tab, DEL, C1, bidirectional controls, invisible separators: shown, never obeyed.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)


def visible(text: str) -> str:
    """Make control characters readable instead of effective."""
    return _CONTROL.sub(_shown, text)


def one_line(text: str) -> str:
    """The same for a text that must stay one line, such as an error from anywhere."""
    return visible("\\n".join(text.splitlines()))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class OutputPrefixer:
    """Collects one stream of one worker; gives whole lines as they are complete."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest += data
            return self._overlong()
        whole = self._rest + whole
        self._rest = rest
        return [*self._lines(whole), *self._overlong()]

    def close(self) -> list[str]:
        """Give what is left when the stream has ended without a newline."""
        rest, self._rest = self._rest, b""
        return self._lines(rest) if rest else []

    def _overlong(self) -> list[str]:
        lines: list[str] = []
        # What is cut must not be a secret: the end, in which one may be only half there, waits for more.
        if len(self._rest) > MAX_LINE_BYTES + KEPT_BACK_BYTES:
            whole = self._rest.decode("utf-8", errors="surrogateescape")
            self._rest = self._redact(whole).encode("utf-8", errors="surrogateescape")
        while len(self._rest) > MAX_LINE_BYTES + KEPT_BACK_BYTES:
            cut = _character_boundary(self._rest, MAX_LINE_BYTES)
            lines += self._lines(self._rest[:cut], cut=True)
            self._rest = self._rest[cut:]
        return lines

    def _lines(self, whole: bytes, *, cut: bool = False) -> list[str]:
        # Several lines at once: a secret may have been broken in two.
        text = self._redact(whole.decode("utf-8", errors="backslashreplace")).replace("\r\n", "\n")
        lines = visible(text if cut else text.removesuffix("\r")).split("\n")
        if max(map(len, lines)) <= MAX_LINE_BYTES:
            return lines
        return [
            line[at : at + MAX_LINE_BYTES]
            for line in lines
            for at in range(0, len(line) or 1, MAX_LINE_BYTES)
        ]


def _character_boundary(data: bytes, cut: int) -> int:
    """Step back so that no UTF-8 character is cut in two."""
    for back in range(4):
        if data[cut - back] & _CONTINUATION != 0b1000_0000:
            return cut - back
    return cut
