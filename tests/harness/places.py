"""Odd things to put where a file or folder should be, and ways to inspect them."""

import os
import resource
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def without_privileges() -> Iterator[None]:
    """Run as an unprivileged user: root can read and write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Simulate a full disk: no file can grow beyond this many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, without following links."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        if stat.S_ISLNK(kind):
            found[str(path.relative_to(folder))] = b"-> " + os.fsencode(path.readlink())
        elif stat.S_ISREG(kind):
            found[str(path.relative_to(folder))] = path.read_bytes()
        else:
            found[str(path.relative_to(folder))] = b""
    return found


def make_socket(path: Path) -> None:
    """A socket that nothing listens on; bound from its own folder, because socket paths must be short."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_dangling(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": make_socket,
    "folder": Path.mkdir,
    "loop": make_loop,
    "dangling link": make_dangling,
}
