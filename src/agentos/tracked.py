"""Which files of the worktree git tracks: all that its own `context` may give to a model. Coordinator."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

GIT_SECONDS = 10.0
_KEPT = ("HOME", "LANG", "TMPDIR", "XDG_CONFIG_HOME")  # no key, and nothing that leads git elsewhere
# What a repo's own configuration could have git start.
_SAFE = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "--literal-pathspecs")
_FILES = frozenset({b"100644", b"100755"})  # neither links nor other repositories


def tracked(worktree: Path, paths: Sequence[Path], environment: Mapping[str, str]) -> frozenset[str] | None:
    """The regular files that git tracks at or below the paths; None where nobody can tell."""
    program = _git(worktree, environment)
    if program is None:
        return None
    kept = {name: environment[name] for name in _KEPT if name in environment}
    command = [program, *_SAFE, "ls-files", "-z", "--cached", "--stage", "--", *map(str, paths)]
    try:
        done = subprocess.run(
            command,
            cwd=worktree,
            env=kept | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return _read(done.stdout) if done.returncode == 0 else None


def _read(listed: bytes) -> frozenset[str]:
    """Read lines such as `100644 <hash> 0<tab>docs/a.md`, each ended by a zero."""
    rows = (row.partition(b"\t") for row in listed.split(b"\0") if row)
    return frozenset(os.fsdecode(name) for about, _, name in rows if about.split(b" ")[0] in _FILES)


def _git(worktree: Path, environment: Mapping[str, str]) -> str | None:
    """Find git where the repo has no say: on absolute entries of PATH outside the worktree."""
    root = worktree.resolve()
    entries = [Path(one) for one in environment.get("PATH", os.defpath).split(os.pathsep) if one]
    trusted = [str(one) for one in entries if one.is_absolute() and not one.resolve().is_relative_to(root)]
    return shutil.which("git", path=os.pathsep.join(trusted)) if trusted else None
