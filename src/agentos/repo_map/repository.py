"""The repository as a run sees it: opened once, then one map per item. Coordinator process."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
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
    cut,
    excerpt,
    find_guides,
    list_designs,
    named_in,
    test_layout,
)
from agentos.repo_map.history import index_messages
from agentos.repo_map.outlines import Outlines
from agentos.repo_map.parts import LETTERS_A_TOKEN, LeftOut, Part, PartKind, RepositoryMap
from agentos.repo_map.path_kinds import FileKind, kind_of
from agentos.repo_map.ranking import RANKED, Corpus, Query, Ranked, Segment, index_paths, own_words
from agentos.repo_map.selection import Budget
from agentos.repo_map.texts import Texts, Unusable, is_lasting
from agentos.repo_map.word_index import Counted, WordIndex
from agentos.repo_map.words import MARK, Words, defined
from agentos.store.rooted_tree import Tree, worktree_tree

SHARED_SHARE = 0.65  # of a map's tokens: at most this much is the same for all items
ABOUT_SHARE = 0.55  # of a map's tokens: at most this much for the tree and the guides
TREE_SHARE = 0.5  # of that
MAX_INDEXED = 60_000  # characters of a source
MAX_INDEXED_PROSE = 8_000  # of anything else
MAX_INDEXED_BYTES = 60_000_000  # of a repository; files beyond that are known by path and history only
MAX_NAMED = 200  # files in folders that the user names
OUTLINES = 30
LONG_OUTLINES = 4  # of the best files
READ_AT_ONCE = 600  # files: to ask git once costs less than to ask for each item
REFERRING = 5  # of the best files: whom they refer to
BEFORE_NEIGHBOURS = 10  # files that are ranked by what the item says alone
NEIGHBOURS = 3
MAX_REFERENCES = 200  # of one file


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
        self._texts = Texts(git)
        self._cache = cache
        self._outlines = Outlines(cache)
        self._words = Words()
        self._blobs: dict[str, str] = {}  # of every file that is not left out by its path
        self._versions: dict[str, set[str]] = {}  # the blobs of every file, in the index and the commit
        self._committed = False  # only the commit's texts are sent
        self._designs: dict[str, str] = {}
        self._left_out: dict[str, str] = {}
        self._refusals: dict[str, str | None] = {}  # by path: what its text says
        self._chunks: dict[str, list[Counter[str]]] = {}
        self._refers: dict[str, Counter[str]] = {}
        self._shared: dict[int, tuple[Part, ...]] = {}
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

    def map_for(self, item: Item, *, tokens: int, named: Sequence[str] = ()) -> RepositoryMap:
        """What both models get to know for one item."""
        ranked, refused = self._rank(item.title, item.text)
        shared = self._shared_parts(tokens)
        own = Budget(tokens - sum(part.tokens for part in shared))
        guides = {part.path: part.text for part in shared if part.kind is PartKind.GUIDE}
        # A guide may be an excerpt: if it is named, and there is room, it comes whole.
        enough = {path for path, text in guides.items() if not self._says_more(path, text, own.letters // 2)}
        given = enough | self._take_named(named, own, refused, enough)
        known = {part.path for part in shared if part.kind is PartKind.OUTLINE}
        outlines = 0
        for one in ranked:
            if one.path in given or one.path in refused or (one.path in guides and not one.named):
                continue
            if one.named:
                text = self._text(one.path) or ""
                own.take(_whole(one.path, text, own.letters * 3 // 4, why=one.why))
            elif outlines < OUTLINES and kind_of(one.path) is not FileKind.DOCUMENT:
                long = outlines < LONG_OUTLINES
                if long or shown(one.path) not in known:
                    outlines += own.take(
                        self._outline(one.path, tokens, most=own.letters, why=one.why, long=long)
                    )
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
        self._outlines.close()

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

    def _rank(self, title: str, text: str) -> tuple[list[Ranked], dict[str, str]]:
        """The most relevant files, and those of them that may not be shown.

        A source keeps its place although its text looks like a secret: people see that it would matter.
        """
        query = Query.of(title, text, self._words, own=self._own)
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
        added = [Ranked(path=path, score=0.0, why="the best files use it") for path in chosen]
        rest = [one for one in ranked[BEFORE_NEIGHBOURS:] if one.path not in chosen]
        return [*ranked[:BEFORE_NEIGHBOURS], *added, *rest][:RANKED]

    def _neighbours(self, path: str) -> Counter[str]:
        if path not in self._refers:
            tags = self._outlines.tags(path, self._blobs[path], self._text(path) or "")
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

    def _says_more(self, path: str, excerpt: str, most: int) -> bool:
        """Whether the whole text says more than an excerpt, and is not too long."""
        text = self._text(path)
        return text is not None and len(text) <= most and text.strip() != excerpt.strip()

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

    def _shared_parts(self, tokens: int) -> tuple[Part, ...]:
        """The tree, the guides, and the outlines of files that matter whatever an item says."""
        if tokens not in self._shared:
            about = Budget(int(tokens * ABOUT_SHARE))
            drawn = draw_tree(sorted(self.files), most=int(about.letters * TREE_SHARE))
            about.take(Part(kind=PartKind.TREE, path=".", text=drawn, why="all tracked files"))
            self._take_guides(about)
            outlines = Budget(int(tokens * SHARED_SHARE) - sum(part.tokens for part in about.parts))
            central = self._corpus.central()
            self._check(central)
            for path in central:
                if self._refusals[path] is None:
                    outlines.take(self._outline(path, tokens, most=outlines.letters, why="a central file"))
            self._shared[tokens] = (*about.parts, *outlines.parts)
        return self._shared[tokens]

    def _outline(self, path: str, tokens: int, *, most: int, why: str, long: bool = False) -> Part:
        """The outline of one file in at most so many characters, and in its share of the tokens."""
        most = min(most, tokens * LETTERS_A_TOKEN // (12 if long else 24))
        text = self._outlines.of(path, self._blobs[path], self._text(path) or "", most)
        return Part(kind=PartKind.OUTLINE, path=shown(path), text=text, why=why)

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
        guides = [path for path in find_guides(self._blobs) if self._text(path) is not None]
        for number, path in enumerate(guides):
            room = max(0, (budget.letters - len(tests) - len(listed) - 8) // (len(guides) - number))
            manifest = path.lower() in MANIFESTS
            text = excerpt(self._text(path) or "", min(room, MAX_MANIFEST) if manifest else room)
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
