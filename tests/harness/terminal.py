"""Runs a command in a terminal."""

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence

from harness.project import MODULE, Project


def at_a_terminal(
    project: Project,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = MODULE,
    typed: str = "",
) -> tuple[int, str]:
    """Run a command in a terminal with typed input; return its exit code and what it showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=project.root,
        env=project.environment | {"TERM": "dumb"} | dict(env or {}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # on Linux, the other end is closed
            break
        if not data:
            break
        shown += data
    os.close(ours)
    return process.wait(60), shown.decode("utf-8", "replace")
