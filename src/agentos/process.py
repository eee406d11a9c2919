"""What one process can ask of the kernel about others: die together, adopt orphans, find who got away.

A program started by a worker may leave the worker's process group. Two things lead back to it: the
coordinator adopts orphans, and descendants carry the worker's token in their environment. Only Linux offers
these; elsewhere process groups must do.
"""

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

TOKEN_VARIABLE = "AGENTOS_WORKER_TOKEN"  # noqa: S105 - a name, not a secret
PARENT_VARIABLE = "AGENTOS_COORDINATOR_PID"
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_FAMILY_DEPTH = 100  # how often children of the killed are looked for
LINUX = sys.platform.startswith("linux")


def _prctl(option: int, value: int) -> None:
    if LINUX:
        import ctypes  # noqa: PLC0415 - five milliseconds, for runs only

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def when_parent_ends(number: int) -> None:
    """Ask the kernel for a signal when the process that started this one ends; 0 for none."""
    _prctl(_PR_SET_PDEATHSIG, number)


def hide_memory() -> None:
    """Keep others of the same user from reading this process's memory, and core dumps from being written."""
    _prctl(_PR_SET_DUMPABLE, 0)
    leave_no_core()


def leave_no_core() -> None:
    """Have no core dump written; programs started from here may set that anew."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


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


def signal_descendants(number: int) -> int:
    """Send a signal to all children, their children and so on; return how many there were."""
    found: list[int] = []
    todo = _children()
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += _children(pid)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
    return len(found)


def _children(pid: int | str = "self") -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text("ascii").split())
    return found


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
