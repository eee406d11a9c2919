"""The repository as a run sees it: opened once, then one map per item. Coordinator process."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from agentos.model import Item
from agentos.repo_map.cache import MapCache
from agentos.repo_map.file_kinds import (
    EXCLUDED,
    IN_LFS,
    KEY_INSIDE,
    MAX_FILE_BYTES,
    NOT_FETCHED,
    MapOptions,
    allowed,
    below,
    decoded,
    excluded,
    is_pointer,
    shown,
    why_not_by_path,
    why_not_by_text,
    why_secret,
)
from agentos.repo_map.file_tree import draw_tree
from agentos.repo_map.git_state import Git, WorktreeState, compare, read_worktree
from agentos.repo_map.guides import (
    MANIFESTS,
    MAX_MANIFEST,
    alike,
    cut,
    excerpt,
    find_guides,
    list_designs,
    named_in,
    test_layout,
)
from agentos.repo_map.history import index_messages
from agentos.repo_map.item_parts import Files, Scored, Selection, Source, add_up, score_units
from agentos.repo_map.parsed import MAX_PARSED, Parsed
from agentos.repo_map.parts import Budget, LeftOut, Part, PartKind, Range, Reading, RepositoryMap
from agentos.repo_map.path_kinds import FileKind, kind_of
from agentos.repo_map.ranking import RANKED, Corpus, Query, Ranked, Segment, index_paths, own_words
from agentos.repo_map.reading import look_up
from agentos.repo_map.texts import Texts, Unusable, is_lasting
from agentos.repo_map.word_index import Counted, WordIndex
from agentos.repo_map.words import MARK, Words, defined
from agentos.store.rooted_tree import Tree, worktree_tree

ABOUT_SHARE = 0.1  # of a map's tokens: the tree and the guides
MAX_ABOUT = 3_000  # tokens
TREE_SHARE = 0.4  # of that
SHORTEST_GUIDE = 60  # characters; a shorter one that names another guide only points to it
OWN_TOKENS = 10_000  # of an item, if several share the rest: what is the same for all costs a fifth
ASKED = 12  # items whose texts choose that code
MAX_INDEXED = 60_000  # characters of a source
MAX_INDEXED_PROSE = 8_000  # of anything else
MAX_INDEXED_BYTES = 60_000_000  # of a repository; files beyond that are known by path and history only
MAX_NAMED = 200  # files in folders that the user names
PARSED = 30  # files of an item that are taken apart
TESTED = 3  # of the best files: their tests are listed
READ_AT_ONCE = 600  # files: to ask git once costs less than to ask for each item
REFERRING = 5  # of the best files: whom they refer to
BEFORE_NEIGHBOURS = 10  # files that are ranked by what the item says alone
NEIGHBOURS = 3
MAX_REFERENCES = 200  # of one file


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What an item's text says about the repository."""

    ranked: Sequence[Ranked]
    refused: Mapping[str, str]
    files: Files
    scored: Sequence[Scored]


class TrackedRepository:
    """Tracked files, their texts and words; the same for all items of a command."""

    def __init__(
        self, *, worktree: Path, options: MapOptions, git: Git, commit: str, cache: MapCache
    ) -> None:
        self.commit = commit[:12]
        self.files: frozenset[str] = frozenset()  # every tracked file that exists, links among them
        self.changed: tuple[str, ...] = ()  # those whose text is the worktree's, not the commit's
        self._tree = worktree_tree(worktree)
        self._options = options
        self._git = git
        self._texts = Texts(git)
        self._cache = cache
        self._parsed = Parsed(cache)
        self._sources: dict[str, Source] = {}
        self._known: dict[Item, _Asked] = {}
        self._words = Words()
        self._blobs: dict[str, str] = {}  # of every file that is not left out by its path
        self._versions: dict[str, set[str]] = {}  # the blobs of every file, in the index and the commit
        self._committed = False  # only the commit's texts are sent
        self._designs: dict[str, str] = {}
        self._left_out: dict[str, str] = {}
        self._refusals: dict[str, str | None] = {}  # by path: what its text says
        self._chunks: dict[str, list[Counter[str]]] = {}
        self._refers: dict[str, Counter[str]] = {}
        self._shared: dict[tuple[int, tuple[Item, ...]], tuple[Part, ...]] = {}
        self._items: tuple[Item, ...] = ()  # of the run, as many as choose what all get
        self._corpus: Corpus
        self._own: frozenset[str] = frozenset()

    @classmethod
    def at(
        cls,
        worktree: Path,
        environment: Mapping[str, str],
        *,
        options: MapOptions,
        committed: bool = False,
        cache: Tree | None = None,
        write_cache: bool = False,
    ) -> "TrackedRepository | None":
        """Look at a worktree; None if git tracks nothing there, or cannot say.

        With `committed`, every text is the commit's, and what is only in the worktree or the index is
        unknown: a stranger may have written the item, and so chooses the files.
        """
        git = Git(worktree, environment)
        tracked, head = git.tracked() or [], git.head()
        blobs = git.committed(head)
        if committed:
            tracked = [replace(one, blob=blobs[one.path]) for one in tracked if one.path in blobs]
        if not tracked:
            return None
        kept = MapCache(cache, write=write_cache)
        made = cls(worktree=worktree, options=options, git=git, commit=head, cache=kept)
        state = WorktreeState() if committed else compare(made._tree, tracked, blobs)
        made.files = frozenset(file.path for file in tracked if file.path not in state.missing)
        made._versions = {
            file.path: {file.blob, blobs.get(file.path, file.blob)} for file in tracked if not file.no_file
        }
        # Where the worktree's text may be decrypted, the commit's is taken instead.
        changed = state.changed - made._decrypted(state.changed).keys()
        made.changed = tuple(sorted(changed))
        made._committed = committed
        for file in tracked:
            if file.no_file or file.path in state.missing:
                made._left_out[file.path] = file.no_file or "not in the worktree"
                continue
            why = why_not_by_path(file.path, options)
            is_design = why != EXCLUDED and any(below(file.path, one) for one in options.design_folders)
            if why is not None:
                made._left_out[file.path] = why
            if why is None or is_design:
                differs = file.path in changed
                blob = blobs.get(file.path, file.blob)
                blob = made._texts.read_changed(made._tree, file.path, blob) if differs else blob
                (made._designs if is_design else made._blobs)[file.path] = blob
        made._index(git, head)
        return made

    def share_among(self, items: Sequence[Item]) -> None:
        """Let these items choose together what each of their maps begins with: it costs little to repeat."""
        self._items = tuple(items[:: -(-len(items) // ASKED)]) if items else ()

    def map_for(self, item: Item, *, tokens: int, named: Sequence[str] = ()) -> RepositoryMap:
        """What both models get to know for one item."""
        asked = self._asked(item)
        shared = self._shared_parts(tokens, self._items or (item,))
        own, refused = Budget(tokens - sum(part.tokens for part in shared)), dict(asked.refused)
        guides = {part.path for part in shared if part.kind is PartKind.GUIDE and not part.is_cut}
        given = guides | self._take_named(named, own, refused, guides)
        files = [one for one in asked.files if one[1].path not in given]
        Selection(files=files, known=shared).fill(
            own, [one for one in asked.scored if one.source.path not in given]
        )
        ranked = asked.ranked
        return RepositoryMap(
            shared=shared,
            own=tuple(own.parts),
            ranked=tuple(shown(one.path) for one in ranked),
            left_out=self._all_left_out(refused, given),
        )

    def only_named(self, named: Sequence[str], *, tokens: int) -> RepositoryMap:
        """The files that the user names, and nothing else: the map is turned off."""
        own, refused = Budget(tokens), dict[str, str]()
        given = self._take_named(named, own, refused, frozenset())
        return RepositoryMap(own=tuple(own.parts), left_out=self._all_left_out(refused, given))

    # Reading what a model asks for (`reading.py`).

    def look_up(
        self, *, wishes: Sequence[str], names: Sequence[str], known: Iterable[Range], tokens: int
    ) -> Reading:
        """Give a model what it asks for, and the definitions of names that a document mentions."""
        return look_up(self, wishes=wishes, names=names, known=known, tokens=tokens)

    def why_not(self, path: str) -> str | None:
        """Why a tracked file may not be sent."""
        if path not in self._blobs or path in self._left_out:
            return self._left_out.get(path, "git does not track it")
        self._check([path])
        return self._refusals[path]

    def resolve(self, name: str) -> str | None:
        """The only file whose path ends so."""
        return self._corpus.find(name)

    def lines_with(self, texts: Sequence[str]) -> list[tuple[str, int, str]]:
        """The lines that contain one of the texts, in any case, in files that may be sent; sources first."""
        order = list(FileKind)
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for path, number, line in self._git.lines_with(texts, head=self.commit if self._committed else ""):
            found[path].append((number, line))
        first = sorted(found, key=lambda path: (order.index(kind_of(path)), path))[:MAX_NAMED]
        sent = {path: (self._text(path) or "").split("\n") for path in first if self.why_not(path) is None}
        return [
            (path, number, line)
            for path, lines in sent.items()
            for number, line in found[path]
            # Git searches the worktree, where a file may be decrypted: only what we would send counts.
            if lines[number - 1 : number] == [line.removesuffix("\r")]
        ]

    def defining(self, name: str) -> list[str]:
        """The files that seem to define a name, sources first."""
        return self._corpus.defining(name)

    def absent(self, names: Iterable[str]) -> set[str]:
        """Those of the names that occur in no tracked file."""
        asked = {name: self._words.of_name(name)[:1] for name in names}
        unknown = [name for name, words in asked.items() if words and not self._corpus.contains(words[0])]
        # The index leaves out some texts and the ends of long ones.
        found = self._git.lines_with(unknown, head=self.commit if self._committed else "")
        text = "\n".join(line for _, _, line in found).lower()
        return {name for name in unknown if name.lower() not in text}

    def unmatched(self) -> list[str]:
        """The patterns of context_exclude that match no tracked file."""
        known = self.files | self._left_out.keys()
        return [one for one in self._options.exclude if not any(excluded(path, [one]) for path in known)]

    def _take_named(
        self, named: Sequence[str], budget: Budget, refused: dict[str, str], known: AbstractSet[str]
    ) -> set[str]:
        """Take the files that the user names; return those that may be sent."""
        given: set[str] = set()
        for path, text, why in self._explicit(named):
            if text is None:
                refused[path] = why
            elif path not in given:
                given.add(path)
                if path not in known:
                    budget.take(_whole(path, text, budget.letters, why="the user names it"))
        return given

    def _all_left_out(self, refused: dict[str, str], given: AbstractSet[str]) -> tuple[LeftOut, ...]:
        found = {path: why for path, why in self._left_out.items() if path not in given} | refused
        return tuple(LeftOut(path=shown(path), why=why) for path, why in sorted(found.items()))

    def close(self) -> None:
        """End the parser, and keep what it found for the next run."""
        self._parsed.close()

    # Opening.

    def _index(self, git: Git, head: str) -> None:
        """Find the words of all texts: in the cache, or by reading."""
        cache = self._cache
        wanted = self._to_index()
        packs = cache.words(frozenset(wanted))
        left_out = {blob: why for pack in packs for blob, why in pack.left_out.items()}
        known = frozenset(left_out).union(*(pack.index.names for pack in packs))
        self._texts.known_small = known - left_out.keys()
        read = WordIndex.build(self._counted({b: p for b, p in wanted.items() if b not in known}, left_out))
        for blob in wanted.keys() & left_out.keys():
            self._left_out.update(dict.fromkeys(wanted[blob], left_out[blob]))
        new = {blob: why for blob, why in left_out.items() if blob not in known and is_lasting(blob, why)}
        if read.names or new:
            cache.put_words(read, new, packs)
        messages = cache.index("messages", head, lambda: index_messages(git.commits(head), self._words))
        paths = [path for path in self._blobs if path not in self._left_out]
        by_path = cache.index("paths", _checksum(paths), lambda: index_paths(paths, self._words))
        texts = _segments([*(pack.index for pack in packs), read], paths, self._blobs)
        self._corpus = Corpus(paths, texts, messages, by_path)
        self._own = own_words(paths, self._project_name(), self._words)

    def _project_name(self) -> str:
        """What the manifest calls the project; the folder of a clone may have any name."""
        by_name = {path.lower(): blob for path, blob in self._blobs.items() if "/" not in path}
        found = dict(self._texts.each(by_name[one] for one in MANIFESTS if one in by_name))
        return next(
            (name for text in found.values() if isinstance(text, str) and (name := named_in(text))), ""
        )

    def _to_index(self) -> dict[str, list[str]]:
        """The texts to read with the paths that have them: sources first."""
        order = {FileKind.SOURCE: 0, FileKind.TEST: 1, FileKind.DOCUMENT: 2}
        wanted: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self._blobs, key=lambda path: (order[kind_of(path)], path)):
            wanted[self._blobs[path]].append(path)
        return wanted

    def _counted(self, wanted: Mapping[str, list[str]], left_out: dict[str, str]) -> Iterator[Counted]:
        """Read texts and count their words; those that no map shows go to `left_out`."""
        room = MAX_INDEXED_BYTES
        for blob, text in self._texts.each(wanted):
            paths = wanted[blob]
            why = text.why if isinstance(text, Unusable) else why_not_by_text(text)
            if isinstance(text, Unusable) or why is not None:
                left_out[blob] = why or ""
                continue
            source = any(kind_of(path) is not FileKind.DOCUMENT for path in paths)
            part = text[: MAX_INDEXED if source else MAX_INDEXED_PROSE]
            room -= len(part)
            counts = self._words.count(part) if room >= 0 else Counter[str]()
            length = counts.total()
            if source:
                counts.update(MARK + name for name in defined(part))
            yield Counted(blob, counts, length)

    # One item.

    def _asked(self, item: Item) -> "_Asked":
        """The files that matter for an item, taken apart, with how much each definition matters."""
        if item in self._known:
            return self._known[item]
        query = Query.of(item.title, item.text, self._words, own=self._own)
        ranked, refused = self._rank(query)
        chosen = [one for one in ranked if one.path not in refused][:PARSED]
        chosen += self._tests_of(chosen)
        files = [(one, source) for one in chosen if (source := self.source(one.path)) is not None]
        asked = _Asked(ranked=ranked, refused=refused, files=files, scored=score_units(query, files))
        if item in self._items:  # of others nothing is kept: a backlog may be long
            self._known[item] = asked
        return asked

    def _tests_of(self, chosen: Sequence[Ranked]) -> list[Ranked]:
        """The tests that are named after the best sources."""
        known = {one.path for one in chosen}
        tests = [(path, one) for one in chosen[:TESTED] for path in self._corpus.tests_of(one.path)]
        found = [
            Ranked(path=path, score=0.0, why=f"tests of {one.path}")
            for path, one in tests
            if path not in known and self._text(path) is not None
        ]
        return found[:TESTED]

    def source(self, path: str) -> Source | None:
        """A file that may be sent, taken apart."""
        text = self._text(path)
        if text is None:
            return None
        if path not in self._sources:
            tags = self._parsed.tags(path, self._blobs[path], text)
            self._sources[path] = Source.of(path, text[:MAX_PARSED], tags, self._words)
        return self._sources[path]

    def _rank(self, query: Query) -> tuple[list[Ranked], dict[str, str]]:
        """The most relevant files, and those of them that may not be shown.

        A source keeps its place although its text looks like a secret: people see that it would matter.
        """
        ranked: list[Ranked] = []
        refused: dict[str, str] = {}
        found = self._corpus.rank(query, self._chunks_of)
        self._check([one.path for one in found])
        for one in found:
            why = self._refusals[one.path]
            if why is not None:
                refused[one.path] = why
            if why is None or (why != KEY_INSIDE and kind_of(one.path) is FileKind.SOURCE):
                ranked.append(one)
        return self._with_neighbours(ranked), refused

    def _with_neighbours(self, ranked: list[Ranked]) -> list[Ranked]:
        """Put the files that the best ones refer to most right behind the first ten."""
        used: Counter[str] = Counter()
        for one in ranked[:REFERRING]:
            if self._refusals[one.path] is None:
                used.update(self._neighbours(one.path))
        first = {one.path for one in ranked[:BEFORE_NEIGHBOURS]}
        most = sorted((path for path in used if path not in first), key=lambda path: (-used[path], path))
        chosen = [path for path in most[:NEIGHBOURS] if self._text(path) is not None]
        scores = {one.path: one.score for one in ranked}
        last = ranked[:BEFORE_NEIGHBOURS][-1].score if ranked else 0.0
        added = [
            Ranked(path=path, score=scores.get(path, last / 2), why="the best files use it")
            for path in chosen
        ]
        rest = [one for one in ranked[BEFORE_NEIGHBOURS:] if one.path not in chosen]
        return [*ranked[:BEFORE_NEIGHBOURS], *added, *rest][:RANKED]

    def _neighbours(self, path: str) -> Counter[str]:
        if path not in self._refers:
            tags = self._parsed.tags(path, self._blobs[path], self._text(path) or "")
            self._refers[path] = self._corpus.neighbours(path, tags.references[:MAX_REFERENCES])
        return self._refers[path]

    def _chunks_of(self, paths: Sequence[str]) -> Mapping[str, Sequence[Mapping[str, int]]]:
        """Count the words in the parts of some files, each once."""
        new = [path for path in paths if path not in self._chunks]
        if new and len(self._corpus.paths) <= READ_AT_ONCE:
            new = [path for path in self._corpus.paths if path not in self._chunks]
        texts = dict(self._texts.each(self._blobs[path] for path in new))
        for path in new:
            text = texts[self._blobs[path]]
            self._chunks[path] = [] if isinstance(text, Unusable) else self._words.chunks(text[:MAX_INDEXED])
        return self._chunks

    def _check(self, paths: Iterable[str]) -> None:
        """Look for secrets in files that may be sent."""
        new = [path for path in paths if path not in self._refusals]
        texts = dict(self._texts.each(self._blobs[path] for path in new))
        for path in new:
            text = texts[self._blobs[path]]
            self._refusals[path] = (
                text.why if isinstance(text, Unusable) else why_secret(path, text, self._options)
            )

    def _text(self, path: str) -> str | None:
        """The text of a file that may be sent."""
        if path not in self._blobs:
            return None
        self._check([path])
        return self._texts.get(self._blobs[path]) if self._refusals[path] is None else None

    def _explicit(self, named: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
        """The files that the user names, with their text or why it is refused."""
        paths = [path for name in named for path in self._meant(PurePosixPath(name).as_posix())]
        decrypted = self._decrypted(paths)
        for path in paths:
            if self._left_out.get(path) == EXCLUDED:
                yield path, None, EXCLUDED
            elif path in decrypted and not allowed(path, self._options):
                yield path, None, decrypted[path]
            else:
                here = path in decrypted or path not in self._blobs or self._left_out.get(path) == IN_LFS
                text = self._in_worktree(path) if here and not self._committed else self._text(path)
                yield path, text, self._refusals.get(path) or self._left_out.get(path) or ""

    def _decrypted(self, paths: Iterable[str]) -> dict[str, str]:
        """Why the worktree's texts of some files must not be sent."""
        return self._texts.decrypted({path: self._versions.get(path, set()) for path in paths})

    def _meant(self, name: str) -> list[str]:
        """The files that a name stands for: itself, or what is in the folder."""
        inside = [path for path in self._blobs if name == "." or below(path, name)][:MAX_NAMED]
        return [name] if name in self._blobs else inside or [name]

    def _in_worktree(self, path: str) -> str | None:
        """Read the worktree's version of a named file: it is left out of maps, or git filters it."""
        try:
            text = decoded(read_worktree(self._tree, path, MAX_FILE_BYTES))
            why = "not text" if text is None else why_secret(path, text, self._options)
            if why is None and is_pointer(text or ""):
                why = NOT_FETCHED
        except OSError as exc:
            text, why = None, f"cannot be read: {exc.strerror or exc}"
        self._refusals[path] = why
        return text if why is None else None

    # What all items share.

    def _shared_parts(self, tokens: int, items: tuple[Item, ...]) -> tuple[Part, ...]:
        """The tree, the guides, and the code that matters most for these items together."""
        key = tokens, items
        if key not in self._shared:
            about = Budget(min(int(tokens * ABOUT_SHARE), MAX_ABOUT))
            ours = (self._options.lineage_folder, *self._options.design_folders)
            listed = [path for path in sorted(self.files) if not any(below(path, one) for one in ours)]
            drawn = draw_tree(listed, most=int(about.letters * TREE_SHARE))
            about.take(Part(kind=PartKind.TREE, path=".", text=drawn, why="all tracked files"))
            self._take_guides(about)
            code = Budget(tokens - sum(part.tokens for part in about.parts) - OWN_TOKENS)
            if code.left and len(items) > 1:
                asked = [self._asked(item) for item in items]
                files = {source.path: (file, source) for one in asked for file, source in one.files}
                unnamed = [(replace(file, named=False), source) for file, source in files.values()]
                Selection(files=unnamed).fill(code, add_up(one.scored for one in asked))
            self._shared[key] = (*about.parts, *code.parts)
        return self._shared[key]

    def _take_guides(self, budget: Budget) -> None:
        tests = test_layout(sorted(self.files), budget.letters // 6)
        texts = dict(self._texts.each(self._designs.values()))
        designs = {path: texts[blob] for path, blob in self._designs.items()}
        titles = {
            path: text
            for path, text in designs.items()
            if isinstance(text, str) and not why_secret(path, text, self._options)
        }
        listed = list_designs(titles, budget.letters // 6)
        folder = next(iter(self._options.design_folders), ".")
        found = [path for path in find_guides(self._blobs) if self._text(path) is not None]
        guides: dict[str, str] = {}
        for path in found:
            text = excerpt(self._text(path) or "", 4 * budget.letters)
            pointer = len(text) <= SHORTEST_GUIDE and any(other in text for other in found)
            if not pointer and not any(alike(text, other) for other in guides.values()):
                guides[path] = text
        for number, (path, whole) in enumerate(guides.items()):
            room = max(0, (budget.letters - len(tests) - len(listed) - 8) // (len(guides) - number))
            manifest = path.lower() in MANIFESTS
            text = cut(whole, min(room, MAX_MANIFEST) if manifest else room)
            why = "how it is built" if manifest else "a guide for contributors"
            budget.take(Part(kind=PartKind.GUIDE, path=shown(path), text=text, why=why))
        budget.take(Part(kind=PartKind.GUIDE, path=folder, text=listed, why="existing designs"))
        budget.take(Part(kind=PartKind.GUIDE, path=".", text=tests, why="where the tests are"))


def _checksum(paths: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(paths).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _segments(indexes: Iterable[WordIndex], paths: Sequence[str], blobs: Mapping[str, str]) -> list[Segment]:
    """Say which files have each indexed text; a text in several indexes counts once."""
    files: dict[str, list[int]] = defaultdict(list)
    for number, path in enumerate(paths):
        files[blobs[path]].append(number)
    return [Segment(index, [tuple(files.pop(blob, ())) for blob in index.names]) for index in indexes]


def _whole(path: str, text: str, most: int, *, why: str) -> Part:
    return Part(kind=PartKind.FILE, path=shown(path), text=cut(text, most), why=why)
