"""Files of the repo that the drafter gets to read: inside the repo, text, few, and no secrets. Coordinator.

What is named must be there and be usable; what lies in a named folder and is no text of its own is passed by.
A file that looks like a secret is refused in either case: passed by in silence, nobody would hear of it.
"""

import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agentos import redact
from agentos.console.prefixer import one_line
from agentos.errors import UsageError
from agentos.store.tree import CLOSED, Tree, why_unreadable, worktree_tree

MAX_FILE_BYTES = 100_000
MAX_TOTAL_BYTES = 400_000
MAX_FILES = 200
MAX_ENTRIES = 20_000  # what is looked at in folders, whether taken or not
_PASSED_BY = frozenset({"node_modules", "__pycache__"})  # and everything hidden

_SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    ".htpasswd", ".git-credentials", "credentials*", "secrets.*", "service-account*.json",
    "service_account*.json",
)  # fmt: skip
# Made to be shown; what stands in them is looked at all the same.
_SHOWN_NAMES = ("*.example", "*.sample", "*.template", "*.dist", "*.md", "*.rst")
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
# Without quotes, as in a file of variables: the whole line, and it must look like chance.
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

    path: Path  # from the worktree
    named: bool  # by the user, and not found in a folder

    @property
    def name(self) -> str:
        return _shown(self.path)


def read_context(
    worktree: Path, paths: Sequence[Path], *, only: Container[str] | None = None
) -> dict[str, str]:
    """Read the files and folders named, in that order; anything that cannot be given is a UsageError.

    `only` are the files that may be given at all, by their place in the worktree; None is any.
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
    """Read and check one file; None is one to pass by."""
    _refuse_name(found)
    data = _read(tree, found)
    text = None if data is None else _decoded(data, found)
    if text is not None and (told := secret_in(text)):
        raise UsageError(
            f"--context: {found.name} is refused: {told}. Take it out of the file, or leave the file out; "
            "nothing of it was sent."
        )
    return text


def _files(tree: Tree, path: Path) -> Iterator[_Found]:
    shown = _shown(path)
    if path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise UsageError(f"--context {shown}: name a file or folder inside the repo, by its path from there.")
    if kept := next((part for part in path.parts if part.casefold() in CLOSED), None):
        raise UsageError(f"--context {shown}: what is in {kept} is never given to a model.")
    if path == Path() or tree.is_folder(path):
        yield from _walk(tree, path, shown)
    elif tree.exists(path):
        yield _Found(path=path, named=True)
    else:
        raise UsageError(f"--context {shown}: no such file or folder. Paths start at {tree.root}.")


def _walk(tree: Tree, path: Path, shown: str) -> Iterator[_Found]:
    """Go through a folder in order; links are passed by, for what they lead to has its own place."""
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
                    f"--context {shown} holds more than {MAX_ENTRIES:,} files; name a smaller folder."
                )
            if entry.name.startswith(".") or entry.name in _PASSED_BY:
                continue
            if entry.is_folder:
                folders.append(folder / entry.name)
            elif entry.is_file:
                yield _Found(path=folder / entry.name, named=False)
        waiting += reversed(folders)


def _read(tree: Tree, found: _Found) -> bytes | None:
    """Read a file whole; None is one to pass by."""
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
            f"--context: {found.name} has {size:,} bytes, and a file may have {MAX_FILE_BYTES:,}. "
            "Leave it out, or give a shorter file that says what matters."
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
    name = found.path.name.casefold()
    if _matches(name, _SECRET_NAMES) and not _matches(name, _SHOWN_NAMES):
        raise UsageError(
            f"--context: {found.name} is refused, for files of that name hold secrets. "
            "Leave it out; nothing of it was sent."
        )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def refuse_known(texts: Mapping[str, str]) -> None:
    """Refuse files that hold a key or token of the user's, whatever it looks like."""
    for name, text in texts.items():
        if redact.find(text) is not None:
            raise UsageError(f"--context: {name} is refused: it holds a key of yours. Nothing was sent.")


def secret_in(text: str) -> str | None:
    """Say what in a text looks like a secret and where, without a character of it."""
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
            f"--context gives more than {MAX_FILES} files; name smaller folders, or the files that matter."
        )
    if total > MAX_TOTAL_BYTES:
        largest = sorted(sizes.items(), key=lambda one: -one[1])[:3]
        told = ", ".join(f"{name} ({size:,})" for name, size in largest)
        raise UsageError(
            f"--context gives more than {MAX_TOTAL_BYTES:,} bytes: {total:,} with {list(sizes)[-1]}. "
            f"Leave some out; the largest are {told}."
        )


def _shown(path: Path) -> str:
    """The name as it may stand in a message or a prompt: one line of valid text."""
    return one_line(os.fsencode(path.as_posix()).decode("utf-8", errors="backslashreplace"))
