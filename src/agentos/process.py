"""What one process can ask of the kernel about others: die together, adopt orphans, find who got away.

A program started by a worker may leave the worker's process group. Two things lead back to it: the
coordinator adopts orphans, and descendants carry the worker's token in their environment. Only Linux offers
these; elsewhere process groups must do.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

TOKEN_VARIABLE = "AGENTOS_WORKER_TOKEN"  # noqa: S105 - a name, not a secret
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_FAMILY_DEPTH = 100  # how often children of the killed are looked for
LINUX = sys.platform.startswith("linux")


def _prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def outlive_parent() -> None:
    """Take that back."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def hide_memory() -> None:
    """Keep other processes of the same user from reading this one's memory and environment."""
    _prctl(_PR_SET_DUMPABLE, 0)


def end_orphans(token: str | None, *, known: Iterable[int]) -> None:
    """Reap the adopted that have ended, and kill those that carry the token; for None, all but the known."""
    spared = set(known)
    for _ in range(_FAMILY_DEPTH):
        killed = False
        for child in _children():
            if child in spared or _reaped(child):
                continue
            if token is None or f"{TOKEN_VARIABLE}={token}\0".encode() in _environment(child):
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                killed = True
        # The children of the killed are ours now.
        if not killed:
            return


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


def _children() -> list[int]:
    try:
        return [
            int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii").split()
        ]
    except OSError:
        return []


def _reaped(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except OSError:
        return True


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
    except OSError:
        return b""
