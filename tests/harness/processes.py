"""Waits for conditions, and finds every process that a test started."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Wait until the condition returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.005)
    return found


@dataclass(frozen=True, kw_only=True)
class Process:
    """One living process."""

    pid: int
    parent: int
    session: int
    command: str


def processes_below(root: Path) -> list[Process]:
    """Every living process, except zombies, whose folder or environment is below `root`."""
    mark, own = os.fsencode(root), os.getpid()
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [found for pid in pids if pid != own and (found := _look_at(pid, mark)) is not None]


def _look_at(pid: int, mark: bytes) -> Process | None:
    folder = Path(f"/proc/{pid}")
    try:
        stat = (folder / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        if stat[0] in {"Z", "X"}:
            return None
        marks = [os.fsencode((folder / "cwd").readlink())]
        marks += (folder / "environ").read_bytes().split(b"\0")
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return None
    if not any(mark in one for one in marks):
        return None
    return Process(pid=pid, parent=int(stat[1]), session=int(stat[3]), command=command)


def children_of(pid: int) -> list[int]:
    """The processes that a process, or a thread of it, has started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in threads for child in children.read_text("utf-8").split()]


def kill(pid: int) -> bool:
    """Kill with SIGKILL; return whether the process existed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_all_below(root: Path) -> None:
    """Clean up after a test, so that its leftovers cannot disturb another one."""
    for _ in range(50):
        left = processes_below(root)
        if not left:
            return
        for one in left:
            with contextlib.suppress(OSError):
                os.kill(one.pid, signal.SIGKILL)
        time.sleep(0.05)
