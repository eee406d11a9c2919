"""A provider's prompt cache: which part of a prompt was seen lately. Time is an argument. Pure."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

BLOCK_TOKENS = 128
SHORTEST_TOKENS = 1_024  # nothing shorter is cached
LIFETIME = 300.0  # seconds after the last use
ENTRIES_MOST = 100_000
_LETTERS = 4  # per token, as the simulator counts


@dataclass(frozen=True, kw_only=True)
class CacheUse:
    """What the cache did for one call, in tokens."""

    read: int = 0
    written: int = 0


class PrefixCache:
    """Remembers the starts of prompts, by model."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, float] = OrderedDict()  # the last use of each start

    def use(self, model: str, text: str, marks: tuple[int, ...] | None, now: float) -> CacheUse:
        """What a call reads and writes. With marks, only starts that end at one of them count."""
        ends = _ends(text, marks)
        known = [
            end
            for end, name in zip(ends, _names(model, text, ends), strict=True)
            if self._is_fresh(name, now)
        ]
        read = max(known, default=0) // _LETTERS
        written = max(0, max(ends, default=0) // _LETTERS - read) if marks is not None else 0
        return CacheUse(read=read, written=written)

    def store(self, model: str, text: str, marks: tuple[int, ...] | None, now: float) -> None:
        """Remember a prompt that was served."""
        for name in _names(model, text, _ends(text, marks)):
            self._seen[name] = now
            self._seen.move_to_end(name)
        while len(self._seen) > ENTRIES_MOST:
            self._seen.popitem(last=False)

    def _is_fresh(self, name: bytes, now: float) -> bool:
        last = self._seen.get(name)
        return last is not None and now - last <= LIFETIME


def _ends(text: str, marks: tuple[int, ...] | None) -> list[int]:
    """Where the starts of a text end, in letters: at its marks, or after every block."""
    block = BLOCK_TOKENS * _LETTERS
    ends = range(block, len(text) + 1, block) if marks is None else sorted(set(marks))
    return [end for end in ends if SHORTEST_TOKENS * _LETTERS <= end <= len(text)]


def _names(model: str, text: str, ends: list[int]) -> list[bytes]:
    """A hash of each start, made in one pass."""
    digest = hashlib.sha256(model.encode() + b"\0")
    names, done = [], 0
    for end in ends:
        digest.update(text[done:end].encode("utf-8", errors="replace"))
        names.append(digest.copy().digest())
        done = end
    return names
