"""Finds the secrets that this process knows in a text, however they are written, and removes them.

Secrets are known by value, never by what a key usually looks like. A text is searched as it is, and with its
escapes decoded: percent, JSON, Python and HTML, also if only some characters are escaped, also nested.
Blanks, line breaks, terminal sequences and everything else that is not printable ASCII are skipped, so that
nothing invisible can split a secret. Any WINDOW characters in a row count as the secret: plain, as base64 at
any alignment, and as hexadecimal digits. A shorter secret counts only as a whole, and one shorter than
SHORTEST not at all: it occurs in many texts by chance.

A server's own text about a key may show parts of it, masked in many ways: see `hide_parts`.
"""

import base64
import re
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

WINDOW = 16  # characters
SHORTEST = 8  # characters
PART = 6  # characters of a secret in a row that a word of a server's text may not have
MASKED_PART = 4  # the same for a word with a mask in it
_ROUNDS = 3  # how deep escapes may be nested
_SKIPPED = bytes(sorted(set(range(256)) - set(range(0x21, 0x7F))))
_TERMINAL = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
_INVISIBLE = re.compile(rf"{_TERMINAL}|[^\x21-\x7e]+")
_SEQUENCE = re.compile(_TERMINAL)
# Each alternative starts with a literal character, so that the search can skip to it.
_ESCAPE = re.compile(
    r"%([0-9A-Fa-f]{2})|\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|u\{([0-9A-Fa-f]{1,6})\}"
    r"|([0-3][0-7]{2})|([nrtbfv0])|([!-~]))|&(?:#[xX]([0-9A-Fa-f]{1,6})|#([0-9]{1,7})"
    r"|(amp|lt|gt|quot|apos|nbsp|shy|zwj|zwnj|lrm|rlm|ZeroWidthSpace|NoBreak|InvisibleComma|InvisibleTimes));"
)
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}  # the others are invisible
_URL_SAFE = bytes.maketrans(b"+/", b"-_")

_MASK = re.compile(r"\*{2}|\.{2}|…|#{2}|[xX]{3}|•|●|[█░▒▓]|_{3}|-{3}|<[^<>]*>|\[[^\[\]]*\]")
_STARS = "***"  # a word with these is a masked key, whether it is known here or not
_PREFIX = re.compile(  # what keys of a provider have in common
    r"(?:sk-(?:ant-(?:[a-z]+\d\d-)?|proj-|svcacct-|admin-|or-(?:v1-)?)?|AIza(?:Sy)?|AQ\.|gsk_|xai-|pplx-|nvapi-"
    r"|hf_|ghp_|gho_|github_pat_)"
)


class _Pattern(NamedTuple):
    """One way to write one secret; `window` characters of it in a row count as the secret."""

    name: str
    text: bytes
    window: int


class _Match(NamedTuple):
    start: int
    end: int
    name: str


class _Index(NamedTuple):
    """Every short piece of every pattern, as a number, so that the search runs in C."""

    numbers: frozenset[int]
    pieces: dict[bytes, list[tuple[_Pattern, int]]]
    length: int
    kind: Literal["I", "Q"]  # the format of a number for memoryview


class Redactor:
    """Knows some secrets, and removes them from texts."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # by value
        self._index: _Index | None = None
        self._learning = threading.Lock()

    def learn(self, name: str, value: str) -> None:
        """Remove this secret from now on; the name is shown in its place."""
        looked_for = _INVISIBLE.sub("", value)
        header, dot, rest = looked_for.partition(".")
        if header.startswith("eyJ") and "." in rest and dot:
            looked_for = rest  # the first part of a signed token is the same in many tokens
        if len(looked_for) < SHORTEST:
            return
        with self._learning:
            self._names = self._names | {looked_for: re.sub(r"[^\w.-]", "?", name)}
            self._index = None

    def find(self, text: str) -> str | None:
        """The name of a secret in the text, or None."""
        return next((found.name for read in self._readings(text) for found in self._matches(read)), None)

    def redact(self, text: str) -> str:
        """Replace secrets by their names; most texts contain none and are returned unchanged."""
        if self.find(text) is None:
            return text
        spans: list[_Match] = []
        places = [(at, at + 1) for at in range(len(text))]
        read = text
        for _ in range(_ROUNDS + 1):
            packed, where = _replaced(_INVISIBLE, lambda _found: "", read, places)
            spans += (
                _Match(where[found.start][0], where[found.end - 1][1], found.name)
                for found in self._matches(packed.encode("ascii"))
            )
            read, places = _replaced(_ESCAPE, _meant, read, places)
        return _cut(text, spans)

    def hide_parts(self, text: str) -> str:
        """Replace the words of a server's text that show a part of a secret."""
        if not self._names and _STARS not in text:
            return text
        return re.sub(r"\S+", lambda word: "[key]" if self._has_part(word[0]) else word[0], text)

    def _has_part(self, word: str) -> bool:
        if _STARS in word:
            return True
        masked = _MASK.search(word) is not None
        length = MASKED_PART if masked else PART
        for value in self._names:
            own = _PREFIX.sub("", value, count=1)
            for at in range(len(own) - length + 1):
                part = own[at : at + length]
                # Letters of one case may be a word that the user put into a key.
                if part in word and (masked or not (part.isalpha() and (part.islower() or part.isupper()))):
                    return True
        return False

    def redact_bytes(self, data: bytes) -> bytes:
        """The same for encoded text; bytes that are not text stay unchanged."""
        text = data.decode("utf-8", errors="surrogateescape")
        return data if self.find(text) is None else self.redact(text).encode("utf-8", "surrogateescape")

    def clean(self, value: Any) -> Any:
        """The same for all texts inside a value; other values stay unchanged."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, bytes):
            return self.redact_bytes(value)
        if isinstance(value, dict):
            return {self.clean(key): self.clean(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(one) for one in value]
        return value

    def _readings(self, text: str) -> Iterator[bytes]:
        """Yield the visible characters of the text: as it is, then with its escapes decoded."""
        if not self._names:
            return
        for _ in range(_ROUNDS + 1):
            visible = _SEQUENCE.sub("", text) if "\x1b" in text else text
            yield visible.encode("ascii", "ignore").translate(None, _SKIPPED)
            if "%" not in text and "\\" not in text and "&" not in text:
                return
            decoded = _ESCAPE.sub(_meant, text)
            if decoded == text:
                return
            text = decoded

    def _matches(self, packed: bytes) -> Iterator[_Match]:
        """Find long enough matches; a window always contains a whole piece at a multiple of its length."""
        index = self._index or self._build()
        length = index.length
        whole = _whole(packed, length)
        if index.numbers.isdisjoint(memoryview(whole).cast(index.kind)):
            return
        if not index.pieces:
            for pattern in self._patterns():
                for offset, piece in _pieces(pattern.text, length):
                    index.pieces.setdefault(piece, []).append((pattern, offset))
        done = 0
        for at in range(0, len(whole), length):
            known = index.pieces.get(packed[at : at + length])
            if known is None or at < done:
                continue
            longest = max((_grown(packed, at, pattern, offset) for pattern, offset in known), key=_length)
            if longest.name:
                done = longest.end
                yield longest

    def _patterns(self) -> Iterator[_Pattern]:
        for value, name in self._names.items():
            yield from _patterns(name, value)

    def _build(self) -> _Index:
        patterns = list(self._patterns())
        small = min((pattern.window for pattern in patterns), default=WINDOW) < WINDOW - 1
        kind: Literal["I", "Q"] = "I" if small else "Q"
        length = struct.calcsize(kind)
        numbers = frozenset(
            number
            for pattern in patterns
            for start in range(length)
            for number in memoryview(_whole(pattern.text[start:], length)).cast(kind)
        )
        self._index = index = _Index(numbers, {}, length, kind)
        return index


def _whole(text: bytes, length: int) -> bytes:
    return text[: len(text) - len(text) % length]


def _pieces(text: bytes, length: int) -> Iterator[tuple[int, bytes]]:
    return ((offset, text[offset : offset + length]) for offset in range(len(text) - length + 1))


def _patterns(name: str, value: str) -> Iterator[_Pattern]:
    plain = value.encode("ascii")
    yield _Pattern(name, plain, min(WINDOW, len(plain)))
    for digits in {plain.hex(), plain.hex().upper()}:
        yield _Pattern(name, digits.encode(), min(2 * WINDOW, len(digits)))
    for before in range(3):
        # Only the characters that depend on nothing but the secret, whatever is around it.
        encoded = base64.b64encode(bytes(before) + plain)
        core = encoded[-(-8 * before // 6) : 8 * (before + len(plain)) // 6]
        for text in {core, core.translate(_URL_SAFE)}:
            yield _Pattern(name, text, min((8 * WINDOW - 5) // 6, len(core)))


def _grown(packed: bytes, at: int, pattern: _Pattern, offset: int) -> _Match:
    """Extend a piece as far as text and pattern agree; the name is empty if that is too short."""
    start, first = at, offset
    while start and first and packed[start - 1] == pattern.text[first - 1]:
        start, first = start - 1, first - 1
    end, last = at, offset
    while end < len(packed) and last < len(pattern.text) and packed[end] == pattern.text[last]:
        end, last = end + 1, last + 1
    return _Match(start, end, pattern.name if end - start >= pattern.window else "")


def _length(match: _Match) -> tuple[bool, int]:
    return bool(match.name), match.end - match.start


def _meant(found: re.Match[str]) -> str:
    """The character that an escape means; nothing for a line break or a tab."""
    which = found.lastindex or 0
    text: str = found[which]
    if which == 7:
        return ""
    if which == 8:
        return text
    if which == 11:
        return _NAMED.get(text, "")
    code = int(text, {6: 8, 10: 10}.get(which, 16))
    return chr(code) if code <= 0x10FFFF else ""


def _replaced(
    what: re.Pattern[str], by: Callable[[re.Match[str]], str], text: str, places: list[tuple[int, int]]
) -> tuple[str, list[tuple[int, int]]]:
    """Replace, and keep track of the original characters that each new one represents."""
    parts: list[str] = []
    kept: list[tuple[int, int]] = []
    at = 0
    for found in what.finditer(text):
        start, end = found.span()
        char = by(found)
        parts += text[at:start], char
        kept += places[at:start]
        if char:
            kept.append((places[start][0], places[end - 1][1]))
        at = end
    return "".join((*parts, text[at:])), kept + places[at:]


def _cut(text: str, spans: list[_Match]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, name in sorted(spans):
        if start >= at:
            parts += text[at:start], f"[secret: {name}]"
        at = max(at, end)
    return "".join((*parts, text[at:]))


KNOWN = Redactor()  # the secrets of this process
learn = KNOWN.learn
find = KNOWN.find
redact = KNOWN.redact
hide_parts = KNOWN.hide_parts
redact_bytes = KNOWN.redact_bytes
clean = KNOWN.clean
