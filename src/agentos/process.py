"""Finding and ending processes that got away from their worker; where Linux does not help, groups must do.

A program started by a worker may leave the worker's process group. Two things lead back to it: the
coordinator adopts orphans, and every descendant carries the worker's token in its environment.
"""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

TOKEN_VARIABLE = "AGENTOS_WORKER_TOKEN"  # noqa: S105 - a name, not a secret
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform.startswith("linux")


def _prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hide_memory() -> None:
    """Keep other processes of the same user from reading this one's memory and environment."""
    _prctl(_PR_SET_DUMPABLE, 0)


def kill_orphans(token: str | None) -> None:
    """Kill the processes this one has adopted that carry the token; any token of this process for None."""
    if not LINUX:
        return
    pid = os.getpid()
    wanted = f"{TOKEN_VARIABLE}={pid}-" if token is None else f"{TOKEN_VARIABLE}={token}\0"
    try:
        children = Path(f"/proc/self/task/{pid}/children").read_text("ascii").split()
    except OSError:
        return
    for child in map(int, children):
        if wanted.encode() in _environment(child):
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def kill_by_token(token: str) -> None:
    """Kill every process that carries the token, but not this one."""
    if not LINUX:
        return
    wanted = f"{TOKEN_VARIABLE}={token}\0".encode()
    for entry in Path("/proc").iterdir():
        if (
            entry.name.isdigit()
            and int(entry.name) != os.getpid()
            and wanted in _environment(int(entry.name))
        ):
            with contextlib.suppress(OSError):
                os.kill(int(entry.name), signal.SIGKILL)


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
    except OSError:
        return b""
