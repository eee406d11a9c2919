"""What git says about files by their path: which it tracks, and which it filters. Coordinator process.

A repo's own `context` may give only tracked files to a model. The text of a filtered file in the worktree may
be decrypted: git-crypt and the like work that way.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from agentos import programs

GIT_SECONDS = 10.0
MAX_OUTPUT_BYTES = 200_000_000
UNKNOWN_FILTER = "unknown"  # git could not say
_LARGE_FILES = "lfs"  # fetches a text, and decrypts nothing
_NO_FILES = frozenset({b"120000", b"160000"})  # links and other repositories


def tracked(
    worktree: Path, paths: Sequence[Path], environment: Mapping[str, str], *, links: bool = False
) -> frozenset[str] | None:
    """The files that git tracks at or below the paths; None if git cannot say.

    With `links`, also links and other repositories, whose text is nobody's to read.
    """
    command = ["--literal-pathspecs", "ls-files", "-z", "--cached", "--stage", "--", *map(str, paths)]
    listed = programs.git(command, environment, worktree, seconds=GIT_SECONDS)
    return None if listed is None else _read(listed, links=links)


def filters(worktree: Path, paths: Collection[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The filter that git uses on the way to the worktree, by path; files without one are left out.

    To ask for the attribute starts no filter program. If git cannot say, it may be any of them.
    """
    if not paths:
        return {}
    given = b"".join(os.fsencode(path) + b"\0" for path in paths)
    command = ["check-attr", "-z", "--stdin", "filter"]
    said = programs.git(
        command, environment, worktree, seconds=GIT_SECONDS, given=given, most=MAX_OUTPUT_BYTES
    )
    if said is None:
        return dict.fromkeys(paths, UNKNOWN_FILTER)
    fields = said.split(b"\0")
    return {
        os.fsdecode(path): value.decode("utf-8", "replace")
        for path, value in zip(fields[::3], fields[2::3], strict=False)
        if value not in {b"unspecified", b"unset"}
    }


def decrypted_by(name: str) -> str:
    """Why a text that this filter wrote must not be sent; empty if it may."""
    if name in {"", _LARGE_FILES}:
        return ""
    return f"git filters it (filter={name}), so its text in the worktree may be decrypted"


def _read(listed: bytes, *, links: bool) -> frozenset[str]:
    """Parse lines such as `100644 <hash> 0<tab>docs/a.md`, each ending with a zero byte."""
    rows = (row.partition(b"\t") for row in listed.split(b"\0") if row)
    return frozenset(
        os.fsdecode(name) for about, _, name in rows if links or about.split(b" ")[0] not in _NO_FILES
    )
