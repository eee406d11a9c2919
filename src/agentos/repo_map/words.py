"""The words of sources, paths and prose, in the form in which they are compared. Pure.

A name is taken apart where its case changes and at underscores, and counts also as a whole. Endings are cut
off, so that `parses` finds `parser.parse`. Words without meaning (`fillers.txt`) are dropped.
"""

import re
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from itertools import pairwise

MAX_WORD = 60  # characters; longer ones are data
CHUNK_LINES = 45
MARK = "="  # before a name: the file defines it

_NAME = re.compile(r"[^\W\d]\w+")
_WORD = re.compile(r"[^\W\d_]+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
DEFINITION = re.compile(
    r"^[ \t]{0,40}(?:(?:export|default|pub(?:\([a-z]{1,9}\))?|public|private|protected|internal|static|final"
    r"|abstract|async|unsafe|const|virtual|override|inline|extern|sealed|partial|declare)[ \t]+){0,5}"
    r"(?:def|class|func(?:[ \t]*\([^()\n]{0,80}\))?|function\*?|fn|type|struct|enum|union|trait|impl"
    r"|interface|module|namespace|record|macro_rules!|const|let|var|static|object|protocol|extension|\#define)"
    r"[ \t]+([^\W\d]\w+)",
    re.MULTILINE,
)
_CONSTANT = re.compile(r"^([A-Z][A-Z0-9_]{2,})\b", re.MULTILINE)
_ASSIGNED = re.compile(r"^[\w.]{0,60}\b([^\W\d]\w+)[ \t]*=[ \t]*(?:async[ \t]+)?function\b", re.MULTILINE)
_IN_PROSE = re.compile(
    r"[A-Za-z_]\w*_\w*[A-Za-z0-9]\w*"  # snake_case
    r"|[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]*)+"  # camelCase
    r"|[A-Z]{3,}[A-Z0-9]*"
    r"|(?<=`)[^\W\d]\w+(?=[`(])|[^\W\d]\w+(?=\(\))"
)
_SPELT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_ENDINGS = ("ings", "ing", "edly", "ed", "ies", "es", "s", "ly")

FILLERS = frozenset(files("agentos.repo_map").joinpath("fillers.txt").read_text("utf-8").split())


class Words:
    """Turns names into words, and remembers every name it has seen: a repository repeats its names."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}

    def of_name(self, name: str) -> tuple[str, ...]:
        """The words of one name; the first is the name itself if it has several parts."""
        known = self._known.get(name)
        if known is None:
            self._known[name] = known = _taken_apart(name)
        return known

    def count(self, text: str) -> Counter[str]:
        """Count the words of a source."""
        counts: Counter[str] = Counter()
        of_name = self.of_name
        for name, times in Counter(_NAME.findall(text)).items():
            for word in of_name(name):
                counts[word] += times
        return counts

    def chunks(self, text: str) -> list[Counter[str]]:
        """Count the words in each part of a source."""
        lines = text.splitlines()
        return [
            self.count("\n".join(lines[at : at + CHUNK_LINES])) for at in range(0, len(lines), CHUNK_LINES)
        ]

    def in_prose(self, text: str) -> Counter[str]:
        """Count the words of an item, a message or a path."""
        counts: Counter[str] = Counter()
        for name in _NAME.findall(text):
            for word in self.of_name(name):
                counts[word] += 1
        return counts


def defined(text: str) -> set[str]:
    """The names that a source seems to define, whatever its language, in lower case."""
    patterns = (DEFINITION, _CONSTANT, _ASSIGNED)
    return {name.lower() for pattern in patterns for name in pattern.findall(text)}


def identifiers(text: str) -> set[str]:
    """What looks like a name from the sources in a text for people: snake_case, camelCase, CAPS, `quoted`."""
    found: set[str] = set()
    for name in _NAME.finditer(text):
        start, end = name.span()
        if end - start <= MAX_WORD:  # the patterns for names are slow on long ones
            found.update(one.lower().strip("_") for one in _IN_PROSE.findall(text, start, end + 2))
    return found - FILLERS


def pairs(text: str) -> set[str]:
    """Two words in a row as one name: `retry after` may mean `retry_after` or `retryAfter`."""
    found = [word.lower() for word in _WORD.findall(text)]
    said = [(one, two) for one, two in pairwise(found) if one not in FILLERS and two not in FILLERS]
    return {f"{one}_{two}" for one, two in said} | {one + two for one, two in said}


def spellings(text: str) -> dict[str, str]:
    """How a text first writes each word that we know by its stem."""
    found: dict[str, str] = {}
    for word in _WORD.findall(text):
        found.setdefault(stem(word.lower()), word.lower())
    return found


def spelt(text: str) -> list[str]:
    """Every word and number of a text or a name as it is, in lower case: also fillers, and with endings."""
    return [piece.lower() for piece in _SPELT.findall(text)]


def stem(word: str) -> str:
    """Cut off an English ending."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


def _taken_apart(name: str) -> tuple[str, ...]:
    if len(name) > MAX_WORD:
        return ()
    pieces = [stem(piece.lower()) for piece in _PIECE.findall(name)]
    words = [piece for piece in pieces if len(piece) > 1 and piece not in _STEMMED_FILLERS]
    whole = name.lower().strip("_")
    if len(pieces) > 1 or not whole.isalpha():
        words.insert(0, whole)
    return tuple(words)


def stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(stem, words))


_STEMMED_FILLERS = FILLERS | stems(FILLERS)
