"""What is sent with every item: excerpts of guides, titles of designs, how tests are laid out. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from agentos.model import counted
from agentos.repo_map.file_kinds import shown
from agentos.repo_map.path_kinds import FileKind, kind_of

CUT = "[... cut here: {left} more lines]"
# In order of importance: what is written for agents and contributors says most about how to work here.
GUIDES = (
    "agents.md", "claude.md", "gemini.md", ".github/copilot-instructions.md", "contributing*",
    "architecture*", "development*", "hacking*", "readme*", "docs/architecture*", "docs/contributing*",
    "docs/development*", "docs/design/readme*", "docs/readme*", ".github/contributing*",
)  # fmt: skip
MANIFESTS = (
    "pyproject.toml", "package.json", "go.mod", "cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts",
    "gemfile", "composer.json", "makefile",
)  # fmt: skip
MAX_GUIDES = 8
_ALIKE = 0.6  # of the lines
_MAX_DEPTH = 2  # folders above a guide
MAX_MANIFEST = 1_600  # characters
_MAX_READ = 40_000  # characters of a guide, more if more is asked for: the rest is not even looked at
_PROSE = re.compile(
    r"(?:.*\.)?(?:md|markdown|rst|txt|adoc|toml|json|mod|xml|gradle|kts)|[^.]*", re.IGNORECASE
)
_NOISE = re.compile(
    r"^[ \t]{0,9}(?:\[?!\[.*|<img[^>]{0,1000}>|</?(?:p|div|a|h\d|br|picture|source|center)\b[^>]{0,1000}>"
    r"|\.\. image::.*|:(?:target|alt|height):.*)[ \t]{0,9}$\n?",
    re.MULTILINE,
)
_PROJECT_NAME = re.compile(
    r"""^\s{0,9}(?:"?name"?\s{0,3}[:=]\s{0,3}["'](?:[^"'\n/]{1,60}/)?([^"'\n/]{1,60})["']"""
    r"""|module[ ]{1,9}(?:[^\s/]{1,60}/){0,5}([^\s/]{1,60})$)""",
    re.MULTILINE,
)
_EXACT = {pattern: rank for rank, pattern in enumerate((*GUIDES, *MANIFESTS))}
_PREFIXES = tuple(pattern[:-1] for pattern in GUIDES if pattern.endswith("*"))
_BLANKS = re.compile(r"\n{3,}")
_TITLE = re.compile(r"^#{1,3}[ \t]+(.{1,200}?)[ \t]*#*$", re.MULTILINE)


def find_guides(paths: Iterable[str]) -> list[str]:
    """The guides among the files, the most important first."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in paths:
        if path.count("/") > _MAX_DEPTH:
            continue
        lower = path.lower()
        if lower in _EXACT:
            found[_EXACT[lower]].append(path)
        elif lower.startswith(_PREFIXES) and _PROSE.fullmatch(lower.rpartition("/")[2]):
            for prefix in _PREFIXES:
                if lower.startswith(prefix) and "/" not in lower[len(prefix) :]:
                    found[_EXACT[f"{prefix}*"]].append(path)
                    break
    return [min(found[rank]) for rank in sorted(found)][:MAX_GUIDES]


def named_in(manifest: str) -> str:
    """The project's name as a manifest has it; empty if it has none."""
    found = _PROJECT_NAME.search(manifest[:10_000])
    return (found[1] or found[2]) if found else ""


def excerpt(text: str, most: int) -> str:
    """The beginning of a text without badges and comments, in at most so many characters."""
    read = max(_MAX_READ, 2 * most)
    read = read if len(text) <= read else text.rfind("\n", 0, read) + 1 or read
    clean = _BLANKS.sub("\n\n", _NOISE.sub("", _without_comments(text[:read]))).strip() + "\n"
    return cut(clean, most, more=text.count("\n", read))


def alike(one: str, other: str) -> bool:
    """Whether most lines of a guide are in another one, too: many projects have one guide per tool."""
    lines = {line.strip() for line in one.splitlines() if len(line.strip()) > 20}
    known = {line.strip() for line in other.splitlines()}
    return bool(lines) and len(lines & known) > _ALIKE * len(lines)


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = end + 3
        if not text[start - 1 : start].strip():  # a comment on lines of its own takes its line end with it
            at += text.startswith("\n", at)
    return "".join((*kept, text[at:]))


def cut(text: str, most: int, *, more: int = 0) -> str:
    """A text in at most so many characters, whole lines only, with a line that says what is missing.

    `more` lines are missing already.
    """
    if len(text) <= most and not more:
        return text
    lines = text.splitlines()
    room = most - len(CUT.format(left=len(lines) + more)) - 1
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left = len(lines) - len(kept) + more
    return "".join(f"{line}\n" for line in (*kept, CUT.format(left=left))) if kept else ""


def list_designs(texts: Mapping[str, str], most: int) -> str:
    """The names and titles of the designs, one per line."""
    lines = [f"{shown(path)}: {_title(text)}" for path, text in sorted(texts.items())]
    return cut("".join(f"{line}\n" for line in lines), most)


def test_layout(paths: Iterable[str], most: int) -> str:
    """Where the tests are, one line per folder."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        if kind_of(path) is FileKind.TEST:
            folder, _, name = path.rpartition("/")
            folders[folder].append(name)
    lines = [
        f"{shown(folder) or '.'}/: {counted(len(names), 'file')}, such as {_samples(names)}"
        for folder, names in sorted(folders.items())
    ]
    return cut("".join(f"{line}\n" for line in lines), most)


def _samples(names: Sequence[str]) -> str:
    tests = sorted(name for name in names if "test" in name.lower() or "spec" in name.lower())
    return ", ".join(map(shown, (tests or sorted(names))[:3]))


def _title(text: str) -> str:
    found = _TITLE.search(text[:5_000])
    return found[1] if found else "(no title)"
