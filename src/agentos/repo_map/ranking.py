"""Which files matter for an item: a handful of cheap signals, each divided by its best, added up. Pure.

docs/design/context.md says how much each signal is worth, and which ones were tried and left out.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentos.repo_map.history import LATELY
from agentos.repo_map.path_kinds import FileKind, kind_of
from agentos.repo_map.word_index import Counted, WordIndex, rarity, weight
from agentos.repo_map.words import MARK, Words, identifiers, pairs, spellings, spelt

MAX_TEXT = 20_000  # characters of an item that count
CANDIDATES = 60  # files whose parts are looked at
MAX_WORDS = 150  # of an item; the most frequent
RANKED = 50


@dataclass(frozen=True)
class Signal:
    """How much a signal counts, and how much more the best file gets than the others.

    A power below 1 lifts the files in the middle, one above 1 leaves only the best ones.
    """

    weight: float
    power: float

    def of(self, share: float) -> float:
        """Return the points of a file with this share of the best file's score."""
        return float(self.weight * share**self.power)


CONTENT = Signal(1.0, 0.8)  # the item's words in the file
CHUNKS = Signal(0.35, 0.65)  # in the two parts of the file that contain most of them
MESSAGES = Signal(0.6, 1.0)  # in the messages of commits that changed it
PATH = Signal(0.5, 0.65)  # in its path
TITLE = Signal(0.3, 1.0)  # whether the title says all words of its name
NAMES = Signal(0.3, 0.65)  # identifiers that the item mentions
# What is likely whatever the item says.
CHANGES = Signal(0.4, 0.8)  # how much it changed lately
LENGTH = Signal(0.15, 0.5)  # how long it is
# Sources first: what an item wants changed is mostly there, while tests and prose contain the same words.
_KINDS = {FileKind.SOURCE: 1.0, FileKind.TEST: 0.1, FileKind.DOCUMENT: 0.1}
_NAMED = 10.0  # more than all signals together

_PATH_CHARACTERS = re.compile(r"[^\s`'\"()<>\[\]{},;:|*]{2,300}")
_WHOLE = re.compile(r"\w+")
_TEST_WORDS = frozenset({"test", "tests", "spec"})
_NAMED_BY_MANY = 0.5  # a name that so many files contain says nothing

Hits = Callable[[str], Iterable[tuple[int, int]]]
Scores = dict[int, float]
ChunksOf = Callable[[Sequence[str]], Mapping[str, Sequence[Mapping[str, int]]]]


@dataclass(frozen=True, kw_only=True)
class Query:
    """What an item says, as words."""

    words: Mapping[str, float]
    names: frozenset[str]  # identifiers, in lower case
    paths: tuple[str, ...]  # what looks like a path or a file name
    title: frozenset[str] = frozenset()  # the words of the title, all of them and as they are
    spelt: Mapping[str, str] = field(default_factory=dict)  # each word as the item writes it

    @classmethod
    def of(cls, title: str, text: str, words: Words, *, own: frozenset[str] = frozenset()) -> "Query":
        """Read an item; `own` are words without meaning here, such as the project's name."""
        whole = f"{title}\n{text}"[:MAX_TEXT]
        counts = words.in_prose(whole)
        for word in own:
            counts.pop(word, None)
        heading = words.in_prose(title[:MAX_TEXT])
        weights = {
            word: (1.0 + math.log(count)) * (2.0 if word in heading else 1.0)
            for word, count in counts.items()
        }
        most = sorted(weights.items(), key=lambda one: (-one[1], one[0]))[:MAX_WORDS]
        return cls(
            words=dict(most),
            names=frozenset(identifiers(whole) | pairs(whole)) - own,
            paths=tuple(
                dict.fromkeys(one.strip(".") for one in _PATH_CHARACTERS.findall(whole) if "." in one)
            ),
            title=frozenset(spelt(title[:MAX_TEXT])) | frozenset(_WHOLE.findall(title[:MAX_TEXT].lower())),
            spelt=spellings(whole),
        )

    def written(self, words: Iterable[str]) -> list[str]:
        """The words as the item writes them, for people."""
        return [self.spelt.get(word, word) for word in words]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A file, and why it is thought to matter."""

    path: str
    score: float
    why: str
    named: bool = False  # the item names it


@dataclass(frozen=True)
class Segment:
    """An index of texts, and which files have each text at present."""

    index: WordIndex
    files: Sequence[tuple[int, ...]]

    def hits(self, word: str) -> Iterator[tuple[int, int]]:
        for document, count in self.index.having(word):
            for file in self.files[document]:
                yield file, count


@dataclass
class Corpus:
    """All files that can be ranked; a file's number is its place in `paths`."""

    paths: Sequence[str]
    texts: Sequence[Segment]
    messages: WordIndex
    by_path: WordIndex  # see index_paths
    kinds: list[FileKind] = field(init=False)
    _places: dict[str, int] = field(init=False)
    _names: dict[str, list[int]] = field(init=False)
    _called: list[tuple[str, frozenset[str], list[int]]] = field(init=False)  # without ending; its words
    _lengths: list[int] = field(init=False)
    _said: list[int] = field(init=False)  # the file of each document of `messages`; -1 is none

    def __post_init__(self) -> None:
        self.kinds = [kind_of(path) for path in self.paths]
        self._places = {path: number for number, path in enumerate(self.paths)}
        self._names = defaultdict(list)
        for number, path in enumerate(self.paths):
            self._names[path.rpartition("/")[2]].append(number)
        bare = {name: name.partition(".")[0].strip("_") for name in self._names}
        self._called = [
            (bare[name].lower(), frozenset(spelt(bare[name])), files)
            for name, files in self._names.items()
            if len(bare[name]) > 1
        ]
        self._lengths = [0] * len(self.paths)
        for segment in self.texts:
            for document, files in enumerate(segment.files):
                for file in files:
                    self._lengths[file] = segment.index.lengths[document]
        self._said = [self._places.get(path, -1) for path in self.messages.names]

    def rank(self, query: Query, chunks_of: ChunksOf) -> list[Ranked]:
        """The most relevant files, best first; `chunks_of` counts the words in the parts of some files."""
        named = self._named(query.paths)
        content = _bm25(query.words, self._in_texts, self._lengths, by_length=0.75)
        path = _bm25(query.words, self.by_path.having, self.by_path.lengths, by_length=0.3)
        messages = _bm25(query.words, self.messages.having, self.messages.lengths, by_length=0.75)
        said = self._moved(messages.total)
        names = self._identifiers(query.names)
        titled = self._titled(query.title)
        changes = self._moved({d: float(n) for d, n in self.messages.having(LATELY)})
        total: Scores = defaultdict(float)
        for part, signal in (
            *((content.total, CONTENT), (said, MESSAGES), (path.total, PATH), (names, NAMES)),
            *((titled, TITLE), (changes, CHANGES), (dict(enumerate(self._lengths)), LENGTH)),
        ):
            best = max(part.values(), default=0.0)
            for file, score in part.items() if best > 0 else ():
                total[file] += signal.of(score / best)
        for file in total:
            total[file] *= _KINDS[self.kinds[file]]
        for file, score in self._best_chunks(total, content, query, chunks_of).items():
            total[file] += CHUNKS.of(score) * _KINDS[self.kinds[file]]
        for file, score in named.items():
            total[file] += _NAMED * score
        first = sorted(total, key=lambda file: (-total[file], self.paths[file]))[:RANKED]
        spoken = {file: document for document, file in enumerate(self._said) if file >= 0}
        return [
            Ranked(
                path=self.paths[file],
                score=total[file],
                named=file in named,
                why=_why(
                    named=file in named,
                    titled=file in titled,
                    lately=file in changes,
                    path=query.written(path.best(file)),
                    content=query.written(content.best(file)),
                    messages=query.written(messages.best(spoken.get(file, -1))),
                ),
            )
            for file in first
        ]

    def contains(self, word: str) -> bool:
        """Whether a file contains this word."""
        return any(True for _ in self._in_texts(word))

    def defining(self, name: str) -> list[str]:
        """The files that seem to define a name, sources first."""
        order, found = list(FileKind), {file for file, _ in self._in_texts(MARK + name.lower())}
        return [
            self.paths[file]
            for file in sorted(found, key=lambda file: (order.index(self.kinds[file]), self.paths[file]))
        ]

    def tests_of(self, path: str) -> list[str]:
        """The tests that are named after a source: `test_client.py` of `client.py`."""
        words = frozenset(spelt(path.rpartition("/")[2].partition(".")[0]))
        return [
            self.paths[file]
            for _, called, files in self._called
            if words and called - _TEST_WORDS == words and called & _TEST_WORDS
            for file in files
            if self.kinds[file] is FileKind.TEST
        ]

    def find(self, name: str) -> str | None:
        """The only file with this path, or whose path ends so."""
        return next((self.paths[file] for file in self._named([name])), None)

    def neighbours(self, path: str, references: Iterable[str]) -> Counter[str]:
        """The files that define what a file refers to, where only one does; how many names of each."""
        found: Counter[str] = Counter()
        for name in references:
            defines = {file for file, _ in self._in_texts(MARK + name.lower())} if len(name) > 3 else set()
            if len(defines) == 1:
                found[self.paths[defines.pop()]] += 1
        found.pop(path, None)
        return found

    def _best_chunks(self, total: Scores, content: "_Weighed", query: Query, chunks_of: ChunksOf) -> Scores:
        """How much the two best parts of the best files say; the best has 1."""
        first = sorted(total, key=lambda file: (-total[file], self.paths[file]))[:CANDIDATES]
        rare = {
            word: query.words[word] * rarity(len(self.paths), len(found))
            for word, found in content.by_word.items()
        }
        chunks = chunks_of([self.paths[file] for file in first])
        found: Scores = {}
        for file in first:
            scores = sorted(
                sum(rare[word] * weight(chunk[word], 1.0, 1.0) for word in rare.keys() & chunk.keys())
                for chunk in chunks.get(self.paths[file], ())
            )
            found[file] = sum(scores[-2:])
        best = max(found.values(), default=0.0)
        return {file: score / best for file, score in found.items()} if best > 0 else {}

    def _in_texts(self, word: str) -> Iterator[tuple[int, int]]:
        for segment in self.texts:
            yield from segment.hits(word)

    def _moved(self, scores: Scores) -> Scores:
        """From documents of the messages to files."""
        return {self._said[d]: score for d, score in scores.items() if self._said[d] >= 0}

    def _named(self, mentioned: Iterable[str]) -> Scores:
        """Files that the item names: by their whole path, by its end, or by a file name that no other has."""
        found: Scores = {}
        for one in mentioned:
            clean = one.removeprefix("./").lstrip("/")
            if clean in self._places:
                found[self._places[clean]] = 1.0
                continue
            alike = [
                file
                for file in self._names.get(clean.rpartition("/")[2], ())
                if f"/{self.paths[file]}".endswith(f"/{clean}")
            ]
            if len(alike) == 1:
                found.setdefault(alike[0], 0.9)
        return found

    def _titled(self, title: frozenset[str]) -> Scores:
        """Files whose name the title says, as one word or word by word."""
        return {
            file: 1.0
            for whole, words, files in self._called
            if whole in title or (words and words <= title)
            for file in files
        }

    def _identifiers(self, names: Iterable[str]) -> Scores:
        found: Scores = defaultdict(float)
        for name in sorted(names):
            defines = {file for file, _ in self._in_texts(MARK + name)}
            mentions = {file for file, _ in self._in_texts(name)} | defines
            if not mentions or len(mentions) > max(3.0, _NAMED_BY_MANY * len(self.paths)):
                continue
            rare = math.log1p(len(self.paths) / len(mentions))
            for file in mentions:
                found[file] += rare * (2.0 if file in defines else 1.0)
        return found


@dataclass(frozen=True)
class _Weighed:
    """Scores by document, in total and for each word."""

    total: Scores
    by_word: Mapping[str, Scores]

    def best(self, document: int) -> list[str]:
        """The words that count most for a document."""
        scores = [(-found[document], word) for word, found in self.by_word.items() if document in found]
        return [word for _, word in sorted(scores)[:3]]


def _bm25(words: Mapping[str, float], hits: Hits, lengths: Sequence[int], *, by_length: float) -> _Weighed:
    average = sum(lengths) / len(lengths) if lengths else 0.0
    total: Scores = defaultdict(float)
    by_word: dict[str, Scores] = {}
    for word, times in words.items():
        having = list(hits(word))
        if not having:
            continue
        rare = times * rarity(len(lengths), len(having))
        by_word[word] = found = {
            document: rare * weight(count, lengths[document], average, by_length=by_length)
            for document, count in having
        }
        for document, score in found.items():
            total[document] += score
    return _Weighed(total, by_word)


def _why(
    *, named: bool, titled: bool, lately: bool, path: list[str], content: list[str], messages: list[str]
) -> str:
    """A short phrase for people."""
    if named:
        return "the item names it"
    reasons = [
        f"{where} {', '.join(words)}"
        for where, words in (("path:", path), ("text:", content), ("commits:", messages))
        if words
    ]
    if titled and not path:
        reasons.insert(0, "the title says its name")
    return "; ".join(reasons) or ("changed lately" if lately else "a long file")


def own_words(paths: Iterable[str], name: str, words: Words) -> frozenset[str]:
    """The words of the project's own name: those of `name`, and those in most paths of its sources."""
    folders = Counter(path.rpartition("/")[0] for path in paths if kind_of(path) is FileKind.SOURCE)
    sources = folders.total()
    counts: Counter[str] = Counter()
    for folder, number in folders.items():
        counts.update(dict.fromkeys(words.in_prose(folder), number))
    common = {word for word, count in counts.items() if count > 0.5 * sources and sources > 3}
    return frozenset(common | set(words.in_prose(name)))


def index_paths(paths: Iterable[str], words: Words) -> WordIndex:
    """The words of each path."""
    return WordIndex.build(_path_words(paths, words))


def _path_words(paths: Iterable[str], words: Words) -> Iterator[Counted]:
    """The words of each path; a folder is read once, however many files it has."""
    folders: dict[str, Counter[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = words.in_prose(folder)
        counts = dict(folders[folder])
        for word in words.in_prose(name):
            counts[word] = counts.get(word, 0) + 1
        yield Counted(path, counts, sum(counts.values()) + 1)
