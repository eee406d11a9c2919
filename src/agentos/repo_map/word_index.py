"""Which documents contain a word, and how often; small enough for 10,000 files. Pure."""

import json
import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import adler32, crc32

_COUNT_BITS = 8
_MOST = (1 << _COUNT_BITS) - 1  # occurrences; more make no difference to a rank
_MAX_HEAD = 200  # bytes
_SATURATION = 1.2  # BM25's k1
_K = _SATURATION + 1.0


class Counted(NamedTuple):
    """A document with its words."""

    name: str  # a blob id, or a path
    counts: Mapping[str, int]
    length: int  # in words


@dataclass(frozen=True)
class WordIndex:
    """The words of some documents; the number of a document is its place in `names`."""

    names: Sequence[str]
    lengths: Sequence[int]
    vocabulary: Sequence[int]  # the words as numbers, sorted
    starts: Sequence[int]  # of each word's entries; one more than words
    entries: Sequence[int]  # document number and count in one number

    @classmethod
    def build(cls, documents: Iterable[Counted]) -> "WordIndex":
        names: list[str] = []
        lengths = array("I")
        postings: dict[str, array[int]] = {}
        for number, document in enumerate(documents):
            names.append(document.name)
            lengths.append(document.length)
            high = number << _COUNT_BITS
            for word, count in document.counts.items():
                entry = high | (min(_MOST, count))
                found = postings.get(word)
                if found is None:
                    postings[word] = array("I", (entry,))
                else:
                    found.append(entry)
        numbered = sorted((_number(word), word) for word in postings)
        starts, entries = array("I", (0,)), array("I")
        for _, word in numbered:
            entries.extend(postings[word])
            starts.append(len(entries))
        return cls(names, lengths, array("Q", (number for number, _ in numbered)), starts, entries)

    def having(self, word: str) -> Iterator[tuple[int, int]]:
        """Yield the documents that contain a word, with the number of times."""
        number = _number(word)
        place = bisect_left(self.vocabulary, number)
        if place < len(self.vocabulary) and self.vocabulary[place] == number:
            for entry in self.entries[self.starts[place] : self.starts[place + 1]]:
                yield entry >> _COUNT_BITS, entry & _MOST

    def to_bytes(self) -> bytes:
        """Write it down; `from_bytes` reads it."""
        numbers = (array("I", self.lengths), array("Q", self.vocabulary), array("I", self.starts))
        names = "\n".join(self.names).encode("utf-8", "surrogateescape")
        blocks = [names, *(_little_endian(one).tobytes() for one in (*numbers, array("I", self.entries)))]
        return json.dumps([len(block) for block in blocks]).encode() + b"\n" + b"".join(blocks)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "WordIndex":
        """Read what `to_bytes` wrote. Raises ValueError if it is something else."""
        view = memoryview(data)
        at = bytes(view[:_MAX_HEAD]).find(b"\n") + 1
        sizes = json.loads(bytes(view[:at]))
        if not isinstance(sizes, list) or len(sizes) != 5 or sum(sizes) != len(view) - at:
            raise ValueError("not an index")
        blocks = []
        for size in sizes:
            blocks.append(view[at : at + size])
            at += size
        names = bytes(blocks[0]).decode("utf-8", "surrogateescape").split("\n") if sizes[0] else []
        lengths, vocabulary, starts, entries = array("I"), array("Q"), array("I"), array("I")
        for numbers, block in zip((lengths, vocabulary, starts, entries), blocks[1:], strict=True):
            numbers.frombytes(block)
            _little_endian(numbers)
        fits = len(lengths) == len(names) and len(starts) == len(vocabulary) + 1
        if not fits or starts[-1] != len(entries):
            raise ValueError("not an index")
        return cls(names, lengths, vocabulary, starts, entries)


def _number(word: str) -> int:
    """A word as a number: two words with the same one are too rare to matter."""
    data = word.encode("utf-8", "surrogatepass")
    return crc32(data) << 32 | adler32(data)


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def rarity(documents: int, containing: int) -> float:
    """How much a word says: the fewer documents contain it, the more."""
    return math.log(1.0 + (documents - containing + 0.5) / (containing + 0.5))


def weight(count: int, length: float, average: float, *, by_length: float = 0.75) -> float:
    """BM25: how much a document is about a word that it contains some times."""
    return count * _K / (count + _SATURATION * (1.0 - by_length + by_length * length / (average or 1.0)))
