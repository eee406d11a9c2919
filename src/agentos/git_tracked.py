"""The files that git tracks: a repo's own `context` may give only these to a model. Coordinator process."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentos import programs

GIT_SECONDS = 10.0
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


def _read(listed: bytes, *, links: bool) -> frozenset[str]:
    """Parse lines such as `100644 <hash> 0<tab>docs/a.md`, each ending with a zero byte."""
    rows = (row.partition(b"\t") for row in listed.split(b"\0") if row)
    return frozenset(
        os.fsdecode(name) for about, _, name in rows if links or about.split(b" ")[0] not in _NO_FILES
    )
