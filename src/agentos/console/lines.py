"""Turns the raw bytes of a worker's stream into whole, safe lines. Pure."""

from collections.abc import Callable

from agentos.console.visible import one_line, visible

__all__ = ["KEPT_BACK_BYTES", "MAX_LINE_BYTES", "OutputPrefixer", "one_line", "visible"]

MAX_LINE_BYTES = 16_384  # a longer line is shown in pieces
KEPT_BACK_BYTES = 4_096  # of such a line, until more arrives: no secret is longer, however it is encoded
_CONTINUATION = 0b1100_0000


class OutputPrefixer:
    """Collects one stream of one worker; returns lines once they are complete."""

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
        """Return the rest of a stream that ended without a newline."""
        rest, self._rest = self._rest, b""
        return self._lines(rest) if rest else []

    def _overlong(self) -> list[str]:
        lines: list[str] = []
        # A cut must not split a secret: keep the end back, which may hold only the start of one.
        if len(self._rest) > MAX_LINE_BYTES + KEPT_BACK_BYTES:
            whole = self._rest.decode("utf-8", errors="surrogateescape")
            self._rest = self._redact(whole).encode("utf-8", errors="surrogateescape")
        while len(self._rest) > MAX_LINE_BYTES + KEPT_BACK_BYTES:
            cut = _character_boundary(self._rest, MAX_LINE_BYTES)
            lines += self._lines(self._rest[:cut], cut=True)
            self._rest = self._rest[cut:]
        return lines

    def _lines(self, whole: bytes, *, cut: bool = False) -> list[str]:
        # All lines together: a secret may be split over two of them.
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
    """Step back so that no UTF-8 character is split."""
    for back in range(4):
        if data[cut - back] & _CONTINUATION != 0b1000_0000:
            return cut - back
    return cut
