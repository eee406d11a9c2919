"""What the kernel does for processes: end with the parent, adopt orphans, find descendants.

A program started by a worker may leave the worker's process group. Two things find it again: the coordinator
adopts orphans, and descendants have the worker's token in their environment. Only Linux offers these;
elsewhere, process groups must do.
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
_FAMILY_DEPTH = 100  # how many times to look for children of killed processes
LINUX = sys.platform.startswith("linux")


def _prctl(option: int, value: int) -> None:
    if LINUX:
        import ctypes  # noqa: PLC0415 - takes 5 ms, and only runs need it

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def boot_id() -> str:
    """Return what is different after each start of the machine; empty if the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def when_parent_ends(number: int) -> None:
    """Get a signal from the kernel when the parent process ends; 0 for none."""
    _prctl(_PR_SET_PDEATHSIG, number)


def hide_memory() -> None:
    """Prevent other processes of this user from reading our memory, and prevent core dumps."""
    _prctl(_PR_SET_DUMPABLE, 0)
    leave_no_core()


def leave_no_core() -> None:
    """Prevent core dumps; programs started from here can allow them again."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def end_orphans(token: str | None, *, known: Iterable[int]) -> None:
    """Reap orphans that have ended, and kill those with the token; with None, all but the known ones."""
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
        # The children of killed processes are ours now, so look again.
        if not killed:
            return


def signal_descendants(number: int) -> int:
    """Send a signal to all descendants; return how many there were."""
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
