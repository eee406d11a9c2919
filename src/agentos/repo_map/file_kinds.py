"""What kind of file a path is, and which files no model gets to see. Pure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from pathlib import PurePosixPath

from agentos.repo_map.secret_files import secret_in, secret_name

EXCLUDED = "context_exclude names it"
_BY_NAME = "files with this name hold secrets"
_KEY_INSIDE = "it contains one of your keys"
NOT_FETCHED = "kept in Git LFS, and not fetched here; run 'git lfs pull'"
MAX_FILE_BYTES = 1_000_000  # a larger file is data, or generated


class FileKind(StrEnum):
    """What a file is for."""

    SOURCE = "source"  # program text
    TEST = "test"  # tests, examples and benchmarks
    DOCUMENT = "document"  # prose, settings, data


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """What the user and the project decide about the map."""

    lineage_folder: str = ""
    backlog_folders: tuple[str, ...] = ()  # issues and briefs: an item is not an answer to itself
    design_folders: tuple[str, ...] = ()  # their documents are listed by title
    exclude: tuple[str, ...] = ()  # patterns of files that never go into a map
    allow: tuple[str, ...] = ()  # patterns of files that may, although they look like secrets
    holds_key: Callable[[str], bool] = field(default=lambda _text: False)  # one of the user's own keys


_SOURCE_ENDINGS_TEXT = """
    asm bash c cc clj cljs coffee cpp cr cs cu cxx d dart elm erl ex exs f90 fs fsx go graphql
    groovy h hh hpp hs hx java jl js jsx kt kts lua m mjs cjs ml mli mm mts cts nim pas php pl pm
    proto ps1 py pyi pyx r rb rkt rs sass scala scm scss sh sol sql svelte swift tcl ts tsx v vala
    vb vhd vue zig zsh
"""
SOURCE_ENDINGS = frozenset(_SOURCE_ENDINGS_TEXT.split())
_BINARY_ENDINGS_TEXT = """
    7z a avi bin bmp bz2 class dat db dll dylib eot exe flac gif gz ico icns jar jpeg jpg lib mo mov
    mp3 mp4 o obj ogg otf parquet pdf pkl png pyc pyd rar so sqlite sqlite3 tar tgz tif tiff ttf
    wasm wav webm webp whl woff woff2 xls xlsx xz zip zst
"""
_BINARY_ENDINGS = frozenset(_BINARY_ENDINGS_TEXT.split())
_VENDORED_TEXT = """
    _vendor bower_components node_modules site-packages third-party third_party thirdparty vendor
    vendored
"""
_VENDORED = frozenset(_VENDORED_TEXT.split())
_GENERATED_NAMES = (
    "*.lock", "*-lock.json", "*-lock.yaml", "*.lockb", "go.sum", "npm-shrinkwrap.json", "*.min.js",
    "*.min.css", "*.map", "*.snap", "*.pb.go", "*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*.g.dart",
    "*.designer.cs", "*.generated.*", "*.bundle.js",
)  # fmt: skip
_DATA_NAMES = ("*.po", "*.pot", "*.svg", "*.csv", "*.tsv", "*.ipynb", "*.geojson")
_GENERATED_FOLDERS = frozenset({"__snapshots__", "__pycache__", "dist", "_build", "generated", ".yarn"})
_GENERATED_TEXT = re.compile(
    r"@generated\b|\b(?:auto-?(?:matically )?generated|generated (?:by|from|automatically|file)"
    r"|code generated)|\bdo not edit\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\s{0,20}(?:#|//|/\*|\*|--|;|<!--|%|\"\"\"|''')")
_HEAD_LINES = 6
_LFS_POINTER = "version https://git-lfs.github.com/spec/"
_LONG_LINE = 3_000  # characters: nobody wrote it by hand

_TEST_FOLDERS_TEXT = """
    __mocks__ __tests__ bench benches benchmark benchmarks e2e example examples fixture fixtures
    spec specs test testdata testing tests samples sample demo demos
"""
_TEST_FOLDERS = frozenset(_TEST_FOLDERS_TEXT.split())
_TEST_NAMES = (
    "test_*", "*_test.*", "*_tests.*", "*.test.*", "*.spec.*", "*_spec.rb", "*test.java", "*tests.java",
    "*test.kt", "*tests.cs", "*test.cs", "*test.php", "conftest.py",
)  # fmt: skip
_DOCUMENT_FOLDERS = frozenset({"doc", "docs", "documentation", "website"})


@lru_cache(maxsize=200_000)
def kind_of(path: str) -> FileKind:
    """What a file is for, judged by its path."""
    *folders, name = path.lower().split("/")
    ending = name.rpartition(".")[2]
    if ending not in SOURCE_ENDINGS or not _DOCUMENT_FOLDERS.isdisjoint(folders):
        return FileKind.DOCUMENT
    if not _TEST_FOLDERS.isdisjoint(folders) or matches(name, _TEST_NAMES):
        return FileKind.TEST
    return FileKind.SOURCE


def why_not_by_path(path: str, options: MapOptions) -> str | None:
    """Why the file is left out, if its path says so."""
    *folders, name = path.lower().split("/")
    if secret_name(name) and not allowed(path, options):
        return _BY_NAME
    if excluded(path, options.exclude):
        return EXCLUDED
    return _ours(path, options) or _not_written_here(folders, name)


def _ours(path: str, options: MapOptions) -> str | None:
    if below(path, options.lineage_folder):
        return "part of the lineage"
    if any(below(path, folder) for folder in options.backlog_folders):
        return "an item of the backlog"
    if any(below(path, folder) for folder in options.design_folders):
        return "a design; its title is listed"
    return None


def _not_written_here(folders: Sequence[str], name: str) -> str | None:
    if not _VENDORED.isdisjoint(folders):
        return "from another project (vendored)"
    if not _GENERATED_FOLDERS.isdisjoint(folders) or matches(name, _GENERATED_NAMES):
        return "generated"
    if name.rpartition(".")[2] in _BINARY_ENDINGS:
        return "not text"
    return "data" if matches(name, _DATA_NAMES) else None


def why_not_by_text(text: str) -> str | None:
    """Why a file is left out, if its text says so; secrets are looked for later, in what is to be sent."""
    head = text[:4_000].split("\n", _HEAD_LINES)[:_HEAD_LINES]
    if any(_COMMENT.match(line) and _GENERATED_TEXT.search(line[:300]) for line in head):
        return "generated"
    if is_pointer(text):
        return "kept in Git LFS"
    if len(text) > _LONG_LINE and max(map(len, text.split("\n"))) > _LONG_LINE:
        return "generated (very long lines)"
    return None


def why_secret(path: str, text: str, options: MapOptions) -> str | None:
    """Why a text must not be sent, if it must not."""
    if options.holds_key(text):
        return _KEY_INSIDE
    if allowed(path, options):
        return None
    return _BY_NAME if secret_name(PurePosixPath(path).name) else secret_in(text)


def is_pointer(text: str) -> bool:
    """Whether a text only says where Git LFS keeps the file."""
    return text.startswith(_LFS_POINTER)


def decoded(data: bytes) -> str | None:
    """The text of a file; None if it is not text."""
    if b"\0" in data:
        return None
    return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def allowed(path: str, options: MapOptions) -> bool:
    """Whether the user lets this file be sent although it looks like a secret."""
    return excluded(path, options.allow)


def excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names the file, a folder above it, or its name alone."""
    if not patterns:
        return False
    places = [path, *map(str, PurePosixPath(path).parents)][:-1] if "/" in path else [path]
    return any(
        fnmatchcase(one, pattern.rstrip("/")) or fnmatchcase(one, pattern.replace("**/", ""))
        for pattern in (one.removeprefix("./").removeprefix("/") for one in patterns)
        for one in (*places, places[0].rpartition("/")[2])
    )


def below(path: str, folder: str) -> bool:
    """Whether a path is inside a folder."""
    clean = folder.strip("/")
    return bool(clean) and path.startswith(f"{clean}/")


@cache
def _one_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return _one_pattern(patterns).match(name) is not None


def shown(path: str) -> str:
    """The path as a prompt or a page may show it: one line of valid text."""
    if path.isprintable():
        return path
    encoded = path.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in encoded)
