"""Does the repository map show what a change touches? Measured on real histories.

A commit's message is the item, its parent the repository; the one to three source files that it changed, and
the functions in them, are the truth. Two shares are measured, each beside plain BM25: of the files among the
first 3 and 10 that are ranked, and of the functions whose whole text is in the map; docs/design/context.md.

AGENTOS_BENCH_REPOSITORIES names git directories, separated by colons; without it, this project's own history
is used. `histories.txt` lists those of the tables. AGENTOS_BENCH_COMMITS is the number of commits of each.
"""

import os
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentos.model import Item
from agentos.repo_map.file_kinds import MapOptions, decoded
from agentos.repo_map.git_state import Git
from agentos.repo_map.parts import ranges_of
from agentos.repo_map.path_kinds import FileKind, kind_of
from agentos.repo_map.repository import TrackedRepository
from agentos.repo_map.tag_parser import parse
from agentos.repo_map.tags import Definition, Tags, language_of
from agentos.repo_map.word_index import rarity, weight
from agentos.repo_map.words import Words
from agentos.settings import Settings
from agentos.store.rooted_tree import Tree

COMMITS = 60
FIRST = (1, 3, 10)
TOKENS = (16_000, Settings().context_tokens)
REQUIRED = (0.88, 0.95)
TOLERANCE = 1e-6
_BOT = re.compile(r"\[bot\]|\bbot\b|dependabot|renovate|pre-commit", re.IGNORECASE)
PATH_TIMES = 20  # how often plain BM25 counts the words of the path


@dataclass(frozen=True)
class Case:
    """One commit."""

    commit: str
    parent: str
    message: str
    truth: tuple[str, ...]


@dataclass
class Shown:
    """How many of the changed functions were shown, for each number of tokens."""

    ours: list[int] = field(default_factory=lambda: [0] * len(TOKENS))
    plain: list[int] = field(default_factory=lambda: [0] * len(TOKENS))
    functions: int = 0


def context() -> Iterator[str]:
    """Ranking, bodies and times of the repository map."""
    named = os.environ.get("AGENTOS_BENCH_REPOSITORIES", "")
    places = [Path(one) for one in named.split(":") if one]
    if not places:
        places = [Path(__file__).parents[1]]
        yield "context: AGENTOS_BENCH_REPOSITORIES is not set; using this project's own history"
    every = []
    for place in places:
        every.append(Shown())
        yield from _measured(place, every[-1])
    for number, tokens in enumerate(TOKENS):
        ours = sum(one.ours[number] / max(1, one.functions) for one in every) / len(every)
        plain = sum(one.plain[number] / max(1, one.functions) for one in every) / len(every)
        good = ours >= REQUIRED[number] and ours > plain
        yield (
            f"context, bodies of changed functions in {tokens:,} tokens, mean of {len(every)}: {ours:.3f}; "
            f"plain BM25 over functions {plain:.3f} "
            f"(required: {REQUIRED[number]}, and ahead: {'yes' if good else 'NO'})"
        )
    yield from _times()


MEASUREMENTS = (context,)


def _measured(place: Path, bodies: Shown) -> Iterator[str]:
    cases = list(_cases(place, int(os.environ.get("AGENTOS_BENCH_COMMITS", COMMITS))))
    ours, plain = [0.0] * len(FIRST), [0.0] * len(FIRST)
    with tempfile.TemporaryDirectory() as folder:
        worktree, home = Path(folder, "worktree"), Path(folder, "home")
        home.mkdir()
        _git(place, "clone", "-q", "--shared", "--no-checkout", str(place.absolute()), str(worktree))
        # No file is checked out: the texts come from the commit.
        _git(worktree, "sparse-checkout", "set", "--no-cone", "/no-such-file")
        plain_ranking = PlainRanking(worktree)
        functions = Functions(worktree)
        for case in cases:
            _git(worktree, "checkout", "-q", "--force", "--detach", case.parent)
            repository = TrackedRepository.at(
                worktree, os.environ, options=MapOptions(), cache=Tree(home), write_cache=True
            )
            assert repository is not None
            title, _, text = case.message.partition("\n")
            item = Item(workflow="lld", id="1", label="LLD-1", title=title, text=text, source="")
            ranked = repository.map_for(item, tokens=0).ranked
            beside = plain_ranking.rank(case.message)
            truth = functions.changed(case)
            bodies.functions += len(truth)
            for number, tokens in enumerate(TOKENS if truth else ()):
                shown = ranges_of(repository.map_for(item, tokens=tokens).parts)
                bodies.ours[number] += _count_shown(truth, shown)
                bodies.plain[number] += _count_shown(truth, functions.best(case.message, beside, tokens))
            repository.close()
            for number, first in enumerate(FIRST):
                ours[number] += _share(ranked[:first], case.truth) / len(cases)
                plain[number] += _share(beside[:first], case.truth) / len(cases)
    # Sums of fractions are not exact: what differs by less than a file of a commit is equal.
    good = all(
        mine > theirs + TOLERANCE or mine > 1.0 - TOLERANCE
        for mine, theirs in zip(ours[1:], plain[1:], strict=True)
    )
    name = place.parent.name if place.name in {"repo", ".git"} else place.name
    shares = "; ".join(
        f"in {tokens:,} tokens {bodies.ours[number] / max(1, bodies.functions):.2f}, "
        f"plain BM25 {bodies.plain[number] / max(1, bodies.functions):.2f}"
        for number, tokens in enumerate(TOKENS)
    )
    yield f"context, {name}, {bodies.functions} changed functions, share whose body is shown: {shares}"
    yield (
        f"context, {name}, {len(cases)} commits, share of changed files among the first 1 / 3 / 10: "
        f"{_shown(ours)}; plain BM25 {_shown(plain)} "
        f"(required: ahead at 3 and at 10: {'yes' if good else 'NO'})"
    )


def _cases(place: Path, most: int) -> Iterator[Case]:
    """The latest commits with a telling message that change one to three sources."""
    said = _git(
        place,
        "log",
        "--no-merges",
        "--no-renames",
        "--name-status",
        "-z",
        "--format=%x01%an%x00%H%x00%P%x00%B%x00",
        "HEAD",
    )
    found = 0
    for record in said.decode("utf-8", "replace").split("\x01")[1:]:
        author, commit, parents, message, *rest = record.split("\0")
        changes = [one.strip("\n") for one in rest if one.strip("\n")]
        touched = [(what, path) for what, path in zip(changes[::2], changes[1::2], strict=False)]
        sources = [(what, path) for what, path in touched if kind_of(path) is FileKind.SOURCE]
        modified = tuple(path for what, path in sources if what == "M")
        telling = len([word for word in message.split() if len(word) > 2]) >= 4
        telling = telling and not _BOT.search(author)  # what a program says is nobody's issue
        if parents and telling and modified and len(sources) <= 3 and found < most:
            found += 1
            yield Case(commit, parents.split()[0], message, modified)


class PlainRanking:
    """BM25 over the words of the content, with the words of the path counted many times."""

    def __init__(self, worktree: Path) -> None:
        self._git = Git(worktree, os.environ)
        self._words = Words()
        self._counts: dict[str, Counter[str]] = {}  # by blob

    def rank(self, message: str) -> list[str]:
        sources = [one for one in self._git.tracked() or () if kind_of(one.path) is FileKind.SOURCE]
        for blob, data in self._git.texts(
            [one.blob for one in sources if one.blob not in self._counts]
        ).items():
            self._counts[blob] = self._words.count(decoded(data) or "")
        counts: dict[str, Counter[str]] = {}
        for one in sources:
            in_path = Counter({word: PATH_TIMES * n for word, n in self._words.in_prose(one.path).items()})
            counts[one.path] = self._counts.get(one.blob, Counter()) + in_path
        lengths = {path: found.total() for path, found in counts.items()}
        average = sum(lengths.values()) / max(1, len(lengths))
        scores: dict[str, float] = dict.fromkeys(counts, 0.0)
        for word in self._words.in_prose(message):
            having = [path for path, found in counts.items() if word in found]
            rare = rarity(len(counts), len(having))
            for path in having:
                scores[path] += rare * weight(counts[path][word], lengths[path], average)
        return sorted(scores, key=lambda path: (-scores[path], path))


Place = tuple[str, int, int]  # a path with its first and last line


class Functions:
    """The functions of a repository: which a commit changed, and which plain BM25 would show."""

    def __init__(self, worktree: Path) -> None:
        self._git = Git(worktree, os.environ)
        self._worktree = worktree
        self._words = Words()
        self._found: dict[str, tuple[str, list[tuple[Definition, Counter[str], int]]]] = {}  # by blob

    def changed(self, case: Case) -> list[Place]:
        """The functions that contain a line which the commit changed, or where it added one."""
        tracked = {one.path: one.blob for one in self._git.tracked() or ()}
        found: list[Place] = []
        for path in case.truth:
            said = _git(self._worktree, "diff", "-U0", "--no-renames", case.parent, case.commit, "--", path)
            hunks = [(int(a), 1 if n is None else int(n)) for a, n in _hunks(said)]
            for one, _, _ in self._of(path, tracked[path]):
                inside = (
                    (at <= one.last and at + n > one.first) if n else one.first <= at < one.last
                    for at, n in hunks
                )
                if any(inside):
                    found.append((path, one.first, one.last))
        return found

    def best(self, message: str, files: Sequence[str], tokens: int) -> list[Place]:
        """As many functions as fit, by the words of body, name (5 times), path (3 times), and by file."""
        tracked = {one.path: one.blob for one in self._git.tracked() or ()}
        rows = []
        for rank, path in enumerate(files):
            in_path = Counter(dict.fromkeys(self._words.in_prose(path), 3))
            for one, counts, size in self._of(path, tracked[path]):
                rows.append((path, rank, one, counts + in_path, size))
        query = self._words.in_prose(message)
        having = Counter(word for *_, counts, _ in rows for word in query if word in counts)
        average = sum(counts.total() for *_, counts, _ in rows) / max(1, len(rows))
        scored = []
        for path, rank, one, counts, size in rows:
            score = sum(
                rarity(len(rows), having[word]) * weight(counts[word], counts.total(), average)
                for word in query
                if word in counts
            )
            scored.append((-score / (1 + rank / 4), path, one.first, one.last, size))
        shown: list[Place] = []
        for _, path, first, last, size in sorted(scored):
            if size <= tokens:
                tokens -= size
                shown.append((path, first, last))
        return shown

    def _of(self, path: str, blob: str) -> list[tuple[Definition, Counter[str], int]]:
        if blob not in self._found:
            text = decoded(self._git.texts([blob]).get(blob, b"")) or ""
            language = language_of(path)
            tags = Tags.from_json(parse(language, text[:400_000])) if language else Tags()
            lines = text.split("\n")
            rows = []
            for one in tags.definitions:
                if one.kind in {"function", "method"}:
                    body = "\n".join(lines[one.first - 1 : one.last])
                    named = Counter(dict.fromkeys(self._words.in_prose(one.name), 5))
                    rows.append((one, self._words.count(body) + named, -(-len(body) // 4)))
            self._found[blob] = path, rows
        return self._found[blob][1]


def _hunks(diff: bytes) -> list[tuple[str, str | None]]:
    return [
        (one[1], one[2])
        for one in re.finditer(r"^@@ -(\d+)(?:,(\d+))? \+", diff.decode("utf-8", "replace"), re.MULTILINE)
    ]


def _count_shown(wanted: Sequence[Place], shown: Sequence[Place]) -> int:
    """How many of the functions are shown whole."""
    lines: dict[str, set[int]] = defaultdict(set)
    for path, first, last in shown:
        lines[path].update(range(first, last + 1))
    return sum(lines[path].issuperset(range(first, last + 1)) for path, first, last in wanted)


def _times() -> Iterator[str]:
    """How long a map takes: cold, and with what the first run kept."""
    for files, cold, warm in ((300, 0.5, 0.5), (10_000, 5.0, 0.5)):
        with tempfile.TemporaryDirectory() as folder:
            worktree, home = Path(folder, "worktree"), Path(folder, "home")
            home.mkdir()
            _synthetic(worktree, files)
            first, _ = _timed(worktree, home, maps=1)
            again, _ = _timed(worktree, home, maps=1)
            yield (
                f"context, map of {files:,} files: {first:.2f} s cold (required: < {cold:g}), "
                f"{again:.2f} s warm (required: < {warm:g})"
            )
            if files == 300:
                _timed(worktree, home, maps=50)
                opened, mapped = _timed(worktree, home, maps=50)
                yield f"context, 50 maps of {files} files: {opened + mapped:.2f} s warm (required: < 0.5)"


def _timed(worktree: Path, home: Path, *, maps: int) -> tuple[float, float]:
    """Seconds to open and make the first map, and for the further maps."""
    started = time.perf_counter()
    repository = TrackedRepository.at(
        worktree, os.environ, options=MapOptions(), cache=Tree(home), write_cache=True
    )
    assert repository is not None
    first = 0.0
    for number in range(maps):
        title = f"Handle request_{number} when the session of value_{7 * number} ends"
        item = Item(workflow="lld", id="1", label="LLD-1", title=title, text="", source="")
        repository.map_for(item, tokens=TOKENS[-1])
        first = first or time.perf_counter() - started
    total = time.perf_counter() - started
    repository.close()
    return first, total - first


def _synthetic(worktree: Path, files: int) -> None:
    """A repository of small modules that share most of their words, as real ones do."""
    for number in range(files):
        path = worktree / f"src/area_{number % 20}/part_{number // 20 % 25}/module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(
                f"def value_{(number * 7 + row) % 900}(request_{row}, session):\n"
                f'    """Handle part {row}."""\n'
                f"    result = session.lookup_{(number + row) % 400}(request_{row})\n    return result\n\n\n"
                for row in range(20)
            )
        )
    _git(worktree, "init", "-q")
    _git(worktree, "add", "-A")
    _git(worktree, "-c", "user.name=A", "-c", "user.email=a@example.invalid", "commit", "-q", "-m", "Start")


def _git(place: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(place), *arguments], check=True, stdout=subprocess.PIPE).stdout


def _share(found: Sequence[str], truth: Sequence[str]) -> float:
    return sum(path in found for path in truth) / len(truth)


def _shown(shares: Sequence[float]) -> str:
    return " / ".join(f"{share:.2f}" for share in shares)
