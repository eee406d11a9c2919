"""All access to the file system: what is below a root, and nothing else.

A repository may contain links, pipes and devices that lead anywhere. So a tree goes from folder to folder by
descriptors and follows no link in any part of a path, even if something is swapped in the meantime. It reads
only regular files, and never more than the given limit. The worktree's tree cannot enter `.git` or a home.

SQLite opens databases by their path, so `check_database` first checks every part of the path and the side
files. That does not protect from somebody who can write to the home at that moment; nothing does.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from agentos.errors import StorageError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
CLOSED = frozenset({".git", ".agentos"})  # folders that a worktree's tree never enters
SIDE_FILES = ("-wal", "-shm", "-journal")  # of a database
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PathRefused(OSError):  # noqa: N818 - the name says what happened
    """What is there is not accepted: a link, a pipe, a file that is too large, a closed folder."""

    def __init__(self, why: str, path: PurePath) -> None:
        super().__init__(errno.EPERM, why, str(path))


class TooLarge(PathRefused):
    """A file is larger than the limit."""


@dataclass(frozen=True, kw_only=True)
class FolderEntry:
    """One entry of a folder."""

    name: str
    is_folder: bool
    is_file: bool  # a regular file; a link, a pipe or a device is neither
    size: int = 0
    modified: int = 0  # nanoseconds
    changed: float = 0.0


@dataclass(frozen=True)
class Tree:
    """Everything below one root; paths are relative to it, or absolute and below it."""

    root: Path
    closed: frozenset[str] = frozenset()

    # Reading.

    def read(self, path: PurePath, most: int) -> bytes:
        """Read a whole regular file."""
        with os.fdopen(self.open(path), "rb") as file:
            return _read_at_most(file, most, path)

    def text(self, path: PurePath, most: int) -> str:
        """Read a file of UTF-8 text. Raises OSError or UnicodeDecodeError."""
        return self.read(path, most).decode("utf-8")

    def open(self, path: PurePath, flags: int = os.O_RDONLY, mode: int = PRIVATE_FILE) -> int:
        """Open a regular file; return its descriptor."""
        with self._folder_of(path) as (folder, name):
            try:
                descriptor = os.open(name, flags | _FILE, mode, dir_fd=folder)
            except OSError as exc:
                raise _explained(exc, folder, name, path, shown="it") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PathRefused("it is not a regular file", path)
        return descriptor

    def entries(self, path: PurePath) -> list[FolderEntry]:
        """List the entries of a folder, by name."""
        with self._inner(path) as folder, os.scandir(folder) as found:
            return sorted((_entry(one) for one in found), key=lambda one: one.name)

    def names(self, path: PurePath) -> list[str]:
        """List the names in a folder; empty if it does not exist or cannot be listed."""
        try:
            return [one.name for one in self.entries(path)]
        except OSError:
            return []

    def stat(self, path: PurePath) -> os.stat_result | None:
        """Return the status of what is there, if anything; of a link, not its target."""
        try:
            with self._folder_of(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None

    def is_file(self, path: PurePath) -> bool:
        found = self.stat(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def is_folder(self, path: PurePath) -> bool:
        found = self.stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def exists(self, path: PurePath) -> bool:
        """Say whether anything is there, also a link or a pipe."""
        return self.stat(path) is not None

    def check_database(self, path: PurePath) -> None:
        """Refuse a database unless it, its side files and the folders above are regular files and folders."""
        with self._folder_of(path) as (_, name):
            for one in (name, *(name + ending for ending in SIDE_FILES)):
                found = self.stat(path.with_name(one))
                if found is not None and not stat.S_ISREG(found.st_mode):
                    raise PathRefused("it is not a regular file", path.with_name(one))

    # Writing.

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time work on the root; for a root that is private to the owner."""
        with self._inner(PurePath()) as folder:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield

    def make_folder(self, path: PurePath, mode: int = 0o777) -> None:
        """Create a folder and those above it."""
        with self._inner(path, make=mode):
            pass

    def make_private(self, path: PurePath) -> None:
        """Create a folder that is private to the owner."""
        with self._inner(path, make=PRIVATE_FOLDER) as folder:
            os.fchmod(folder, PRIVATE_FOLDER)

    def new_folder(self, path: PurePath, mode: int) -> None:
        """Create a folder; FileExistsError if something is there."""
        with self._folder_of(path) as (folder, name):
            os.mkdir(name, mode, dir_fd=folder)

    def write(self, path: PurePath, text: str | bytes, *, mode: int = 0o666) -> None:
        """Replace a whole file: after a crash it has the old content or the new, never a part."""
        # Always the same name, so that the next write removes what a killed process left. This is safe
        # because the writer holds the lock of the item or home.
        try:
            with self._folder_of(path, make=True) as (folder, name):
                temporary = f".{name}.tmp"
                _write_whole(folder, temporary, text, mode)
                try:
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=folder)
                    raise
                os.fsync(folder)
        except OSError as exc:
            raise StorageError(f"Cannot write {path}: {exc.strerror or exc}.") from exc

    def create(self, path: PurePath, text: str | bytes) -> None:
        """Create a new file, whole or not at all; FileExistsError if it exists."""
        try:
            with self._folder_of(path, make=True) as (folder, name):
                temporary = unfinished(name)
                _write_whole(folder, temporary, text, 0o666)
                try:
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    raise
                except OSError:
                    _write_exclusively(folder, name, text, 0o666)  # a file system without links
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=folder)
                os.fsync(folder)
        except FileExistsError:
            raise
        except OSError as exc:
            raise StorageError(f"Cannot write {path}: {exc.strerror or exc}.") from exc

    def move(self, path: PurePath, target: PurePath) -> None:
        """Move a file of any kind, or a folder, to a free name; FileExistsError if the name is taken."""
        with self._folder_of(path) as (before, old), self._folder_of(target, make=True) as (after, new):
            with contextlib.suppress(FileNotFoundError):
                os.stat(new, dir_fd=after, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, "it already exists", str(target))
            try:
                os.rename(old, new, src_dir_fd=before, dst_dir_fd=after)
            except OSError as exc:
                if exc.errno != errno.EXDEV or not self.is_file(path):
                    raise
                # Two file systems in one worktree: the copy is complete before the file is removed.
                self.create(target, self.read(path, most=2**30))
                os.unlink(old, dir_fd=before)
            os.fsync(after)
            os.fsync(before)

    def link(self, path: PurePath, target: PurePath) -> None:
        """Give a file a second name; never replaces a file."""
        with self._folder_of(path) as (before, old), self._folder_of(target, make=True) as (after, new):
            os.link(old, new, src_dir_fd=before, dst_dir_fd=after, follow_symlinks=False)

    def remove(self, path: PurePath) -> None:
        """Remove a file, or a link itself; does nothing if there is none."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._folder_of(path) as (folder, name),
        ):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, path: PurePath) -> None:
        """Remove an empty folder."""
        with self._folder_of(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def remove_tree(self, path: PurePath) -> None:
        """Remove a folder with everything in it; links in it are removed, their targets stay."""
        # Opened as a folder first: rmtree follows a link before it checks, and would hang on a pipe.
        with self._folder_of(path) as (folder, name), self._inner(path):
            shutil.rmtree(name, dir_fd=folder)

    # Resolving a path.

    def relative(self, path: PurePath) -> PurePath:
        """Return the path from the root; refuses one that is not below it, or is in a closed folder."""
        inner = PurePath(path)
        if inner.is_absolute():
            try:
                inner = inner.relative_to(self.root)
            except ValueError:
                raise PathRefused(f"it is not below {self.root}", path) from None
        if ".." in inner.parts or "\0" in str(inner):
            raise PathRefused(f"it leads outside {self.root}", path)
        if shut := next((part for part in inner.parts if part.casefold() in self.closed), None):
            raise PathRefused(f"nothing in {shut} is read or written", path)
        return inner

    @contextlib.contextmanager
    def _folder_of(self, path: PurePath, *, make: bool = False) -> Iterator[tuple[int, str]]:
        inner = self.relative(path)
        if not inner.name:
            raise PathRefused("it is the root itself", path)
        with self._inner(inner.parent, make=0o777 if make else None, asked=path) as folder:
            yield folder, inner.name

    @contextlib.contextmanager
    def _inner(
        self, path: PurePath, *, make: int | None = None, asked: PurePath | None = None
    ) -> Iterator[int]:
        """Open a folder; with a mode, create missing folders. `asked` is the path it is opened for."""
        inner = self.relative(path)
        descriptor = os.open(self.root, _FOLDER)
        try:
            for number, part in enumerate(inner.parts, start=1):
                if make is not None:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, make, dir_fd=descriptor)
                try:
                    below = os.open(part, _FOLDER, dir_fd=descriptor)
                except OSError as exc:
                    shown = part if asked is not None or number < len(inner.parts) else "it"
                    raise _explained(exc, descriptor, part, asked or path, shown=shown) from None
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)


def worktree_tree(worktree: Path) -> Tree:
    """Return the tree of a repository: everything in the worktree except git's own folder and any home."""
    return Tree(worktree, closed=CLOSED)


def unfinished(name: str) -> str:
    """Return the name of a file until it is complete; a killed process may leave it."""
    return f".{name}.new"


def read_named(path: Path, most: int) -> bytes:
    """Read a file that the user named, wherever it is; links are followed, since they are the user's own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        os.set_blocking(descriptor, True)  # a pipe that the user names is read to its end
        return _read_at_most(file, most, path)


def _read_at_most(file: BinaryIO, most: int, path: PurePath) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(f"it is larger than {most:,} bytes", path)
    return data


def why_unreadable(exc: OSError | UnicodeDecodeError) -> str:
    """Say why a file cannot be read as text, as the rest of a sentence that starts with its name."""
    if isinstance(exc, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {exc.start})"
    if isinstance(exc, TooLarge):
        return str(exc.strerror).removeprefix("it ")
    return f"cannot be read: {exc.strerror or exc}"


def _entry(found: "os.DirEntry[str]") -> FolderEntry:
    try:
        info = found.stat(follow_symlinks=False)
    except OSError:
        return FolderEntry(name=found.name, is_folder=False, is_file=False)
    return FolderEntry(
        name=found.name,
        is_folder=stat.S_ISDIR(info.st_mode),
        is_file=stat.S_ISREG(info.st_mode),
        size=info.st_size,
        modified=info.st_mtime_ns,
        changed=info.st_mtime,
    )


def _explained(exc: OSError, folder: int, name: str, path: PurePath, *, shown: str) -> OSError:
    """Say so if it is a link: the kernel only says `too many links` or `not a directory`."""
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return PathRefused(f"{shown} is a symbolic link, and links are not followed", path)
    if exc.errno == errno.ENXIO:
        return PathRefused("it is not a regular file", path)  # a pipe or socket with no other end
    return type(exc)(exc.errno, exc.strerror, str(path))


def _write_whole(folder: int, name: str, text: str | bytes, mode: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    try:
        _write_exclusively(folder, name, text, mode)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def _write_exclusively(folder: int, name: str, text: str | bytes, mode: int) -> None:
    data = text.encode("utf-8", errors="replace") if isinstance(text, str) else text
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, however little the kernel takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
