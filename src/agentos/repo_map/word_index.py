"""Which documents contain a word, and how often; small enough for 10,000 files. Pure."""

import json
import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_COUNT_BITS = 8
_MOST = (1 << _COUNT_BITS) - 1  # occurrences; more make no difference to a rank
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
    vocabulary: Sequence[str]  # sorted
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
        vocabulary = sorted(postings)
        starts, entries = array("I", (0,)), array("I")
        for word in vocabulary:
            entries.extend(postings[word])
            starts.append(len(entries))
        return cls(names, lengths, vocabulary, starts, entries)

    def having(self, word: str) -> Iterator[tuple[int, int]]:
        """Yield the documents that contain a word, with the number of times."""
        place = bisect_left(self.vocabulary, word)
        if place < len(self.vocabulary) and self.vocabulary[place] == word:
            for entry in self.entries[self.starts[place] : self.starts[place + 1]]:
                yield entry >> _COUNT_BITS, entry & _MOST

    def to_bytes(self) -> bytes:
        """Write it down; `from_bytes` reads it."""
        names, words = (
            "\n".join(one).encode("utf-8", "surrogateescape") for one in (self.names, self.vocabulary)
        )
        numbers = [array("I", one) for one in (self.lengths, self.starts, self.entries)]
        if sys.byteorder == "big":
            for one in numbers:
                one.byteswap()
        blocks = [names, words, *(one.tobytes() for one in numbers)]
        head = json.dumps([len(block) for block in blocks]).encode() + b"\n"
        return head + b"".join(blocks)

    @classmethod
    def from_bytes(cls, data: bytes) -> "WordIndex":
        """Read what `to_bytes` wrote. Raises ValueError if it is something else."""
        head, newline, body = data.partition(b"\n")
        sizes = json.loads(head)
        if not newline or not isinstance(sizes, list) or len(sizes) != 5 or sum(sizes) != len(body):
            raise ValueError("not an index")
        blocks, at = [], 0
        for size in sizes:
            blocks.append(body[at : at + size])
            at += size
        names, words = (
            block.decode("utf-8", "surrogateescape").split("\n") if block else [] for block in blocks[:2]
        )
        lengths, starts, entries = (array("I") for _ in range(3))
        for numbers, block in zip((lengths, starts, entries), blocks[2:], strict=True):
            numbers.frombytes(block)
            if sys.byteorder == "big":
                numbers.byteswap()
        fits = len(lengths) == len(names) and len(starts) == len(words) + 1 and starts[-1] == len(entries)
        if not fits or (entries and max(entries) >> _COUNT_BITS >= len(names)):
            raise ValueError("not an index")
        return cls(names, lengths, words, starts, entries)


def rarity(documents: int, containing: int) -> float:
    """How much a word says: the fewer documents contain it, the more."""
    return math.log(1.0 + (documents - containing + 0.5) / (containing + 0.5))


def weight(count: int, length: float, average: float, *, by_length: float = 0.75) -> float:
    """BM25: how much a document is about a word that it contains some times."""
    return count * _K / (count + _SATURATION * (1.0 - by_length + by_length * length / (average or 1.0)))
