"""Reads the files of the repo for the drafter: inside the repo, text, few. Coordinator process.

A file that is named must exist and be usable. In a folder that is named, files that are not text are skipped.
A file that looks like a secret is always refused: if it were skipped in silence, nobody would know.
"""

import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agentos import redact
from agentos.console.lines import one_line
from agentos.errors import UsageError
from agentos.store.rooted_tree import CLOSED, Tree, why_unreadable, worktree_tree

MAX_FILE_BYTES = 100_000
MAX_TOTAL_BYTES = 400_000
MAX_FILES = 200
MAX_ENTRIES = 20_000  # looked at in folders, whether taken or not
_SKIPPED = frozenset({"node_modules", "__pycache__"})  # and everything hidden

_SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    ".htpasswd", ".git-credentials", "credentials*", "secrets.*", "service-account*.json",
    "service_account*.json",
)  # fmt: skip
# Meant to be public; their content is still checked.
_PUBLIC_NAMES = ("*.example", "*.sample", "*.template", "*.dist", "*.md", "*.rst")
_SECRET_TEXTS = (
    ("a private key", re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)(?![0-9A-Z]{9}EXAMPLE\b)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})")),
    ("a GitLab token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("an Anthropic key", re.compile(r"\bsk-ant-[A-Za-z0-9_-]{16,}")),
    ("an OpenAI key", re.compile(r"\bsk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{40,})")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("a Slack token", re.compile(r"\bxox[abeprs]-[A-Za-z0-9-]{10,}")),
    ("a Stripe key", re.compile(r"\b[sr]k_live_[A-Za-z0-9]{16,}")),
    ("an npm token", re.compile(r"\bnpm_[A-Za-z0-9]{36}\b")),
    ("a signed token (JWT)", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}")),
)
_PASSWORD = re.compile(
    r"""passw(?:or)?d["']?\s{0,9}(?:=|:|=>|:=)\s{0,9}["']([^"'\s]{8,200})["']""", re.IGNORECASE
)
_TOKEN = re.compile(
    r"""(?:secret|token|api_?key|access_?key)["']?\s{0,9}(?:=|:|=>|:=)\s{0,9}["']([A-Za-z0-9+/=_.-]{16,200})["']""",
    re.IGNORECASE,
)
# Without quotes, as in a file of variables: the whole line, and the value must look random.
_VARIABLE = re.compile(
    r"^\s{0,20}(?:export\s{1,9})?\w{0,60}(?:passw(?:or)?d|secret|token|key)\w{0,20}\s{0,9}[=:]\s{0,9}([A-Za-z0-9+/=_-]{10,200})\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+]{1,20}://[^\s/:@]{1,100}:([^\s/@]{6,200})@", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"passw|secret|example|sample|change|your|test|dummy|fake|placeholder|redacted|xxx|\*\*\*|\.\.\.|[<>{}$%]",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A file to read."""

    path: Path  # relative to the worktree
    named: bool  # by the user, not found in a folder

    @property
    def name(self) -> str:
        return _shown(self.path)


def read_context(
    worktree: Path, paths: Sequence[Path], *, only: Container[str] | None = None
) -> dict[str, str]:
    """Read the named files and folders, in that order; a file that cannot be used is a UsageError.

    `only` lists the files that may be read at all, by their path in the worktree; None means any.
    """
    texts: dict[str, str] = {}
    tree = worktree_tree(worktree)
    for path in paths:
        empty = True
        for found in _files(tree, path):
            if only is not None and found.path.as_posix() not in only:
                continue
            if found.name not in texts:
                text = _text(tree, found)
                if text is None:
                    continue
                texts[found.name] = text
                _refuse_too_much(texts)
            empty = False
        if empty and only is None:
            raise UsageError(f"--context {_shown(path)}: there is no text file in this folder.")
    return texts


def _text(tree: Tree, found: _Found) -> str | None:
    """Read and check one file; None means skip it."""
    _refuse_name(found)
    data = _read(tree, found)
    text = None if data is None else _decoded(data, found)
    if text is not None and (secret := secret_in(text)):
        raise UsageError(
            f"--context: {found.name} is refused: {secret}. Remove it from the file, or leave the file out. "
            "None of it was sent."
        )
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
        raise UsageError(f"--context {found.name} cannot be read: {exc.strerror or exc}.") from exc
    if b"\0" in data:
        if found.named:
            raise UsageError(f"--context {found.name} is a binary file, not text.")
        return None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(
            f"--context: {found.name} has {size:,} bytes; the limit is {MAX_FILE_BYTES:,} per file. "
            "Leave it out, or give a shorter file with what matters."
        )
    return data


def _decoded(data: bytes, found: _Found) -> str | None:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        if not found.named:
            return None
        raise UsageError(f"--context {found.name} {why_unreadable(exc)}; save it as UTF-8.") from exc


def _refuse_name(found: _Found) -> None:
    if holds_secrets(found.path.name):
        raise UsageError(
            f"--context: {found.name} is refused: files with this name hold secrets. "
            "Leave it out. None of it was sent."
        )


def holds_secrets(name: str) -> bool:
    """Whether files with this name usually hold secrets."""
    name = name.casefold()
    return _matches(name, _SECRET_NAMES) and not _matches(name, _PUBLIC_NAMES)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def refuse_known(texts: Mapping[str, str]) -> None:
    """Refuse files that contain one of the user's keys or tokens, whatever it looks like."""
    for name, text in texts.items():
        if redact.find(text) is not None:
            raise UsageError(f"--context: {name} is refused: it contains one of your keys. Nothing was sent.")


def secret_in(text: str) -> str | None:
    """Say what in a text looks like a secret and on which line, without quoting any of it."""
    for what, pattern in _SECRET_TEXTS:
        if found := pattern.search(text):
            return f"line {_line(text, found)} looks like {what}"
    for found in _PASSWORD.finditer(text):
        if not _PLACEHOLDER.search(found[1]):
            return f"line {_line(text, found)} looks like a password"
    for pattern in (_TOKEN, _VARIABLE):
        for found in pattern.finditer(text):
            value = found[1]
            mixed = sum(map(str.isdigit, value)) > 1 and any(map(str.isalpha, value))
            if mixed and len(set(value)) > 7 and not _PLACEHOLDER.search(value):
                return f"line {_line(text, found)} looks like a key or token"
    for found in _ADDRESS.finditer(text):
        if not _PLACEHOLDER.search(found[1]):
            return f"line {_line(text, found)} is an address with a password in it"
    return None


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1


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
