"""What kind of file a path is, judged by nothing else. Pure."""

import re
from enum import StrEnum
from fnmatch import translate
from functools import cache, lru_cache


class FileKind(StrEnum):
    """What a file is for."""

    SOURCE = "source"  # program text
    TEST = "test"  # tests, examples and benchmarks
    DOCUMENT = "document"  # prose, settings, data


_SOURCE_ENDINGS_TEXT = """
    asm bash c cc clj cljs coffee cpp cr cs cu cxx d dart elm erl ex exs f90 fs fsx go graphql
    groovy h hh hpp hs hx java jl js jsx kt kts lua m mjs cjs ml mli mm mts cts nim pas php pl pm
    proto ps1 py pyi pyx r rb rkt rs sass scala scm scss sh sol sql svelte swift tcl ts tsx v vala
    vb vhd vue zig zsh
"""
SOURCE_ENDINGS = frozenset(_SOURCE_ENDINGS_TEXT.split())
_TEST_FOLDERS_TEXT = """
    __mocks__ __tests__ bench benches benchmark benchmarks e2e example examples fixture fixtures
    spec specs test testdata testing tests samples sample demo demos
"""
_TEST_FOLDERS = frozenset(_TEST_FOLDERS_TEXT.split())
_TEST_FOLDER = re.compile(r"\A(?:test|example)|(?<!la)(?<!con)tests?\Z|fixtures?\Z")  # testdata, dockerTest
_TEST_NAMES = (
    "test_*", "*_test.*", "*_tests.*", "*.test.*", "*.spec.*", "*_spec.rb", "*test.java", "*tests.java",
    "*test.kt", "*tests.cs", "*test.cs", "*test.php", "conftest.py",
)  # fmt: skip
_DOCUMENT_FOLDERS = frozenset({"doc", "docs", "documentation", "website"})
_PROSE_ENDINGS = frozenset({"adoc", "asciidoc", "markdown", "md", "mdx", "rst"})


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


def is_example(path: str) -> bool:
    """Whether a file is a test, an example or prose: what looks like a password there is mostly made up."""
    *folders, name = path.lower().split("/")
    return (
        name.rpartition(".")[2] in _PROSE_ENDINGS
        or not _TEST_FOLDERS.isdisjoint(folders)
        or any(_TEST_FOLDER.search(folder) for folder in folders)
        or not _DOCUMENT_FOLDERS.isdisjoint(folders)
        or matches(name, _TEST_NAMES)
    )


@cache
def _one_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return _one_pattern(patterns).match(name) is not None
