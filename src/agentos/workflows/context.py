"""Reads the files that --context names: inside the repo, text, few. Coordinator process.

A file that the user names must exist and be usable. In a folder that is named, only tracked files are taken,
and what cannot be sent is skipped by name.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentos import redact
from agentos.console.lines import one_line
from agentos.errors import UsageError
from agentos.repo_map.file_kinds import EXCLUDED, NOT_FETCHED, below, excluded, is_pointer
from agentos.repo_map.secret_files import secret_in, secret_name
from agentos.store.rooted_tree import CLOSED, Tree, why_unreadable, worktree_tree

MAX_FILE_BYTES = 100_000
MAX_TOTAL_BYTES = 400_000
MAX_FILES = 200
MAX_ENTRIES = 20_000  # looked at in folders, whether taken or not
_SKIPPED = frozenset({"node_modules", "__pycache__"})  # and everything hidden


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A file to read."""

    path: Path  # relative to the worktree
    named: bool  # by the user, not found in a folder

    @property
    def name(self) -> str:
        return _shown(self.path)


class _Refused(Exception):  # noqa: N818 - reads well without Error
    """A file cannot be sent; the text says why, `instead` what to do about it."""

    def __init__(self, why: str, instead: str = "Leave it out.") -> None:
        super().__init__(why)
        self.instead = instead


@dataclass(frozen=True, kw_only=True)
class ContextRules:
    """Which files of --context may be sent."""

    tracked: Collection[str] | None = None  # by git; None: git cannot say
    refused: Mapping[str, str] = field(default_factory=dict)  # why, by path: what git says about the text
    only_tracked: bool = False  # also if a file is named: the repo itself names it
    lineage: str = ""  # folder whose files are never taken from a folder
    exclude: tuple[str, ...] = ()  # patterns of files that are never sent
    allow: tuple[str, ...] = ()  # patterns of files that may be sent although they look like secrets
    holds_key: Callable[[str], bool] = lambda _text: False  # one of the user's own keys
    skip: Callable[[str, str], None] = lambda _path, _why: None  # told what is skipped, and why


ANY_FILE = ContextRules()


def read_context(worktree: Path, paths: Sequence[Path], rules: ContextRules = ANY_FILE) -> dict[str, str]:
    """Read the named files and folders, in that order; a named file that cannot be sent is a UsageError."""
    texts: dict[str, str] = {}
    tree = worktree_tree(worktree)
    for path in paths:
        empty = True
        for found in _files(tree, path):
            if not _may_be_read(found, rules):
                continue
            if found.name not in texts:
                try:
                    text = _text(tree, found, rules)
                except _Refused as exc:
                    if found.named and not rules.only_tracked:
                        told = f"--context {found.name} is refused: {exc}. {exc.instead} Nothing was sent."
                        raise UsageError(told) from exc
                    rules.skip(found.name, str(exc))
                    continue
                if text is None:
                    continue
                texts[found.name] = text
                _refuse_too_much(texts)
            empty = False
        if empty and not rules.only_tracked:
            what = "text file" if rules.tracked is None else "tracked text file that can be sent"
            raise UsageError(f"--context {_shown(path)}: there is no {what} in this folder.")
    return texts


def _may_be_read(found: _Found, rules: ContextRules) -> bool:
    path = found.path.as_posix()
    if not found.named and excluded(path, rules.exclude):
        return False
    if rules.only_tracked or not found.named:
        known = rules.tracked is None or path in rules.tracked
        return known and not below(path, rules.lineage)
    return True


def _text(tree: Tree, found: _Found, rules: ContextRules) -> str | None:
    """Read and check one file; None means skip it without a word."""
    path = found.path.as_posix()
    allow = f'To send it anyway, add context_allow = ["{path}"] to your configuration file.'
    if excluded(path, rules.exclude):
        where = "'agentos config' shows where it is set"
        raise _Refused(EXCLUDED, f"To send it anyway, change context_exclude; {where}.")
    may = excluded(path, rules.allow)
    if secret_name(found.path.name) and not may:
        raise _Refused("files with this name hold secrets", allow)
    data = _read(tree, found)
    if data is not None and path in rules.refused and not may:
        raise _Refused(rules.refused[path], allow)
    text = None if data is None else _decoded(data, found)
    if text is not None and rules.holds_key(text):
        raise _Refused("it contains one of your keys", "Remove it from the file.")
    if text is not None and not may and (secret := secret_in(text, path)):
        raise _Refused(secret, f"Remove it from the file. {allow}")
    if text is not None and is_pointer(text):
        raise _Refused(NOT_FETCHED, "Or leave it out.")
    return text


def _files(tree: Tree, path: Path) -> Iterator[_Found]:
    shown = _shown(path)
    if path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise UsageError(
            f"--context {shown}: name a file or folder inside the repo, by its path from the root."
        )
    if kept := next((part for part in path.parts if part.casefold() in CLOSED), None):
        raise UsageError(f"--context {shown}: files in {kept} are never given to a model.")
    if path == Path() or tree.is_folder(path):
        yield from _walk(tree, path, shown)
    elif tree.exists(path):
        yield _Found(path=path, named=True)
    else:
        raise UsageError(f"--context {shown}: no such file or folder. Paths start at {tree.root}.")


def _walk(tree: Tree, path: Path, shown: str) -> Iterator[_Found]:
    """Walk a folder in order; links are skipped, because their targets have their own path."""
    seen = 0
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        try:
            entries = tree.entries(folder)
        except OSError as exc:
            raise UsageError(f"--context {_shown(folder)} cannot be listed: {exc.strerror or exc}.") from exc
        folders: list[Path] = []
        for entry in entries:
            seen += 1
            if seen > MAX_ENTRIES:
                raise UsageError(
                    f"--context {shown} has more than {MAX_ENTRIES:,} files; name a smaller folder."
                )
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            if entry.is_folder:
                folders.append(folder / entry.name)
            elif entry.is_file:
                yield _Found(path=folder / entry.name, named=False)
        waiting += reversed(folders)


def _read(tree: Tree, found: _Found) -> bytes | None:
    """Read a whole file; None means skip it."""
    try:
        with os.fdopen(tree.open(found.path), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError as exc:
        raise _Refused(f"it cannot be read: {exc.strerror or exc}") from exc
    if b"\0" in data:
        if found.named:
            raise _Refused("it is a binary file, not text")
        return None
    if len(data) > MAX_FILE_BYTES:
        raise _Refused(
            f"it has {size:,} bytes; the limit is {MAX_FILE_BYTES:,} per file",
            "Leave it out, or give a shorter file with what matters.",
        )
    return data


def _decoded(data: bytes, found: _Found) -> str | None:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        if not found.named:
            return None
        raise _Refused(f"it {why_unreadable(exc)}", "Save it as UTF-8.") from exc


def refuse_known(texts: Mapping[str, str]) -> None:
    """Refuse files that contain one of the user's keys or tokens, whatever it looks like."""
    for name, text in texts.items():
        if redact.find(text) is not None:
            raise UsageError(f"--context: {name} is refused: it contains one of your keys. Nothing was sent.")


def _refuse_too_much(texts: dict[str, str]) -> None:
    sizes = {name: len(text.encode()) for name, text in texts.items()}
    total = sum(sizes.values())
    if len(sizes) > MAX_FILES:
        raise UsageError(
            f"--context covers more than {MAX_FILES} files; name smaller folders, or the files that matter."
        )
    if total > MAX_TOTAL_BYTES:
        largest = sorted(sizes.items(), key=lambda one: -one[1])[:3]
        shown = ", ".join(f"{name} ({size:,})" for name, size in largest)
        raise UsageError(
            f"--context covers more than {MAX_TOTAL_BYTES:,} bytes: {total:,} with {list(sizes)[-1]}. "
            f"Leave some files out; the largest are {shown}."
        )


def _shown(path: Path) -> str:
    """Return the path as a message or a prompt may show it: one line of valid text."""
    return one_line(os.fsencode(path.as_posix()).decode("utf-8", errors="backslashreplace"))
