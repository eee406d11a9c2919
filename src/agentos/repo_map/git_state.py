"""What git knows about the worktree: its files, their texts, and the latest commits. Coordinator process.

Nothing here lets git compare files with the worktree: for that, git starts the filter programs that the
repository's own settings name. The times and sizes that git keeps in its index are compared by us.
"""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agentos import programs
from agentos.git_tracked import filters
from agentos.store.rooted_tree import FolderEntry, TooLarge, Tree

GIT_SECONDS = 20.0
MAX_LISTING_BYTES = 200_000_000
MAX_BATCH_BYTES = 120_000_000  # of texts read at once
COMMITS = 3_000  # the latest ones
MAX_LOG_BYTES = 60_000_000
MAX_FOUND_BYTES = 8_000_000  # of a search
LINES_OF_A_FILE = 200  # that a search finds

_NO_FILES = {b"120000": "a link", b"160000": "another repository"}
# Flags of the index: git does not look at the file in the worktree (skip-worktree, assume-unchanged).
_NOT_LOOKED_AT = 0x4000_0000 | 0x8000
_FOUND_LINE = re.compile(rb"^([^\0\n]+)\0(\d+)\0(.*)$", re.MULTILINE)
_LISTED = re.compile(rb"100\d{3} blob ([0-9a-f]{40,64})\t([^\0]+)\0")
_ENTRY = re.compile(
    rb"(\d{6}) ([0-9a-f]{40,64}) (\d)\t([^\0]+)\0 +ctime: [^\n]*\n +mtime: (\d+):(\d+)\n[^\n]*\n[^\n]*\n"
    rb" +size: (\d+)\tflags: ([0-9a-f]+)\n"
)


@dataclass(frozen=True, kw_only=True)
class TrackedFile:
    """A file in git's index, as it was when git last looked at it in the worktree."""

    path: str
    blob: str
    modified: int  # nanoseconds
    size: int
    looked_at: bool  # in the worktree; otherwise the text there is the user's own business
    no_file: str = ""  # what it is instead of a regular file: its text is never read


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit's message, and the files it changed."""

    message: str
    paths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WorktreeState:
    """What differs between the worktree and the commit it stands on."""

    changed: frozenset[str] = frozenset()  # the text is the worktree's
    missing: frozenset[str] = frozenset()  # deleted, or replaced by something that is not a file


@dataclass(frozen=True)
class Git:
    """Asks git about one worktree."""

    worktree: Path
    environment: Mapping[str, str] = field(repr=False)

    def tracked(self) -> list[TrackedFile] | None:
        """List the tracked files by path; None if git cannot say."""
        listed = self._ask("ls-files", "-z", "--cached", "--stage", "--debug", most=MAX_LISTING_BYTES)
        return None if listed is None else sorted(_tracked(listed), key=lambda one: one.path)

    def head(self) -> str:
        """The id of the commit that the worktree stands on; empty if there is none."""
        said = self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return "" if said is None else said.decode("ascii", "replace").strip()

    def committed(self, head: str) -> dict[str, str]:
        """The blob of each regular file in the commit, by path; none if git cannot say."""
        said = self._ask("ls-tree", "-r", "-z", head, most=MAX_LISTING_BYTES) if head else None
        return {os.fsdecode(path): blob.decode() for blob, path in _LISTED.findall(said or b"")}

    def commits(self, head: str) -> list[Commit]:
        """The latest commits, newest first; none where there is no history."""
        if not head:
            return []
        said = self._ask(
            *(
                "log",
                "-n",
                str(COMMITS),
                "--no-merges",
                "--no-renames",
                "--no-show-signature",
                "--no-ext-diff",
            ),
            *(
                "--no-textconv",
                "--no-color",
                "--relative",
                "--name-only",
                "-z",
                "--format=%x01%B%x00",
                head,
                "--",
            ),
            most=MAX_LOG_BYTES,
        )
        return [] if said is None else _commits(said)

    def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """The sizes in bytes of the texts that this clone has."""
        said = self._ask("cat-file", "--batch-check", given=_lines(blobs), most=MAX_LISTING_BYTES)
        rows = (row.split() for row in (said or b"").splitlines())
        return {row[0].decode(): int(row[2]) for row in rows if len(row) == 3 and row[1] == b"blob"}

    def texts(self, blobs: Sequence[str]) -> dict[str, bytes]:
        """Read texts of known sizes in one go."""
        said = self._ask("cat-file", "--batch", given=_lines(blobs), most=MAX_BATCH_BYTES) if blobs else None
        return {} if said is None else _batch(said)

    def lines_with(self, texts: Sequence[str], *, head: str) -> list[tuple[str, int, str]]:
        """The lines of tracked files, or of a commit, that contain one of the texts, in any case."""
        how = ("-n", "-z", "-i", "-F", "-I", f"--max-count={LINES_OF_A_FILE}", "--no-color", "--no-textconv")
        plain = ("--no-column", "--no-full-name", "--no-recurse-submodules")  # whatever the user's settings
        given = "".join(f"{text}\n" for text in texts).encode("utf-8", "replace")
        where = [head] if head else []
        said = (
            self._ask("grep", *how, *plain, "-f", "-", *where, given=given, most=MAX_FOUND_BYTES)
            if texts
            else None
        )
        found = _FOUND_LINE.findall((said or b"").removeprefix(b"\n"))
        start = f"{head}:" if head else ""
        return [
            (os.fsdecode(path).removeprefix(start), int(number), line.decode("utf-8", "replace"))
            for path, number, line in found
        ]

    def filters(self, paths: Collection[str]) -> dict[str, str]:
        """The filter of each file that git filters on the way to the worktree: there it may be decrypted."""
        return filters(self.worktree, paths, self.environment)

    def _ask(
        self, *arguments: str, given: bytes = b"", most: int = programs.MAX_OUTPUT_BYTES
    ) -> bytes | None:
        return programs.git(
            arguments, self.environment, self.worktree, seconds=GIT_SECONDS, given=given, most=most
        )


def compare(tree: Tree, files: Iterable[TrackedFile], committed: Mapping[str, str]) -> WorktreeState:
    """Find the tracked files whose text in the worktree is not the one that was committed."""
    folders: dict[str, list[TrackedFile]] = defaultdict(list)
    for file in files:
        folders[file.path.rpartition("/")[0]].append(file)
    changed, missing = set[str](), set[str]()
    for folder, tracked in folders.items():
        present = _entries(tree, folder)
        for file in tracked:
            if not file.looked_at or file.no_file:
                continue
            entry = present.get(file.path.rpartition("/")[2])
            if entry is None or not entry.is_file:
                missing.add(file.path)
            elif (committed and committed.get(file.path) != file.blob) or _differs(tree, file, entry):
                changed.add(file.path)
    return WorktreeState(changed=frozenset(changed), missing=frozenset(missing))


def read_worktree(tree: Tree, path: str, most: int) -> bytes:
    """Read a file of the worktree. Raises OSError."""
    return tree.read(PurePosixPath(path), most)


def blob_id(data: bytes, like: str) -> str:
    """The id that git gives to a text; `like` is another id of the same repository."""
    kind: Callable[[bytes], hashlib._Hash] = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return kind(b"blob %d\0" % len(data) + data).hexdigest()


def has_text_of(tree: Tree, path: str, blob: str) -> bool:
    """Whether a file of the worktree has this text, apart from its line ends. Raises OSError."""
    try:
        data = read_worktree(tree, path, 4_000_000)
    except TooLarge:
        return False
    return blob in {blob_id(data, blob), blob_id(data.replace(b"\r\n", b"\n"), blob)}


def _differs(tree: Tree, file: TrackedFile, entry: FolderEntry) -> bool:
    """Whether a file that looks different to the file system has a different text."""
    if entry.size == file.size and entry.modified == file.modified:
        return False
    try:
        return not has_text_of(tree, file.path, file.blob)
    except OSError:
        return False  # cannot be read: the commit's text is the best there is


def _entries(tree: Tree, folder: str) -> dict[str, FolderEntry]:
    try:
        return {entry.name: entry for entry in tree.entries(PurePosixPath(folder))}
    except OSError:
        return {}


def _tracked(listed: bytes) -> Iterable[TrackedFile]:
    seen: set[bytes] = set()  # a file in conflict is listed once per version
    for mode, blob, _, name, seconds, nanoseconds, size, flags in _ENTRY.findall(listed):
        if name not in seen:
            seen.add(name)
            yield TrackedFile(
                path=os.fsdecode(name),
                blob=blob.decode(),
                modified=int(seconds) * 1_000_000_000 + int(nanoseconds),
                size=int(size),
                looked_at=not int(flags, 16) & _NOT_LOOKED_AT,
                no_file=_NO_FILES.get(mode, ""),
            )


def _commits(said: bytes) -> list[Commit]:
    found: list[Commit] = []
    for record in said.split(b"\x01")[1:]:
        message, _, names = record.partition(b"\0")
        paths = tuple(os.fsdecode(name) for one in names.split(b"\0") if (name := one.strip(b"\n")))
        found.append(Commit(message=message.decode("utf-8", "replace"), paths=paths))
    return found


def _lines(blobs: Iterable[str]) -> bytes:
    return "".join(f"{blob}\n" for blob in blobs).encode()


def _batch(said: bytes) -> dict[str, bytes]:
    """Parse `<id> blob <size>`, a newline, the text, a newline; or `<id> missing`."""
    found: dict[str, bytes] = {}
    at = 0
    while (end := said.find(b"\n", at)) >= 0:
        row = said[at:end].split()
        at = end + 1
        if len(row) == 3 and row[1] == b"blob":
            size = int(row[2])
            found[row[0].decode()] = said[at : at + size]
            at += size + 1
        elif len(row) == 3:
            at += int(row[2]) + 1
    return found
