"""The one door to the file system: what is below a root, and nothing else.

A repository may hold links, pipes and devices that lead anywhere. So a tree goes from folder to folder by
descriptors and follows no link in any part of a path, whatever is swapped meanwhile; it reads regular files
alone, and never more than it was told to. The worktree's tree has no way into `.git` or a home.

SQLite opens databases by their path: `check_database` looks at every part of it, and at the side files,
before. That is no protection from somebody who can write to the home at this moment; nothing is.
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

from agentos.errors import StorageError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
CLOSED = frozenset({".git", ".agentos"})  # folders that a worktree's tree never enters
SIDE_FILES = ("-wal", "-shm", "-journal")  # of a database
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PathRefused(OSError):  # noqa: N818 - read as what it is
    """Something is there that is not taken: a link, a pipe, a file that is too large, a closed folder."""

    def __init__(self, why: str, path: PurePath) -> None:
        super().__init__(errno.EPERM, why, str(path))


class TooLarge(PathRefused):
    """A file has more bytes than it may have."""


@dataclass(frozen=True, kw_only=True)
class FolderEntry:
    """What a folder holds under one name."""

    name: str
    is_folder: bool
    is_file: bool  # a regular one; neither is a link, a pipe, a device
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
        """Read a regular file whole."""
        with os.fdopen(self.open(path), "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise TooLarge(f"it is larger than {most:,} bytes", path)
        return data

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
        """What a folder holds, by name."""
        with self._inner(path) as folder, os.scandir(folder) as found:
            return sorted((_entry(one) for one in found), key=lambda one: one.name)

    def names(self, path: PurePath) -> list[str]:
        """The names in a folder; none where there is no such folder, or it cannot be listed."""
        try:
            return [one.name for one in self.entries(path)]
        except OSError:
            return []

    def stat(self, path: PurePath) -> os.stat_result | None:
        """What is there, if anything; of a link, the link."""
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
        """Whether anything is there, also a link or a pipe."""
        return self.stat(path) is not None

    def check_database(self, path: PurePath) -> None:
        """Refuse a database that is, or lies behind, anything but regular files and folders."""
        with self._folder_of(path) as (_, name):
            for one in (name, *(name + ending for ending in SIDE_FILES)):
                found = self.stat(path.with_name(one))
                if found is not None and not stat.S_ISREG(found.st_mode):
                    raise PathRefused("it is not a regular file", path.with_name(one))

    # Writing.

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time do something to the root; for a root that is the owner's alone."""
        with self._inner(PurePath()) as folder:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield

    def make_folder(self, path: PurePath, mode: int = 0o777) -> None:
        """Make a folder and those above it."""
        with self._inner(path, make=mode):
            pass

    def make_private(self, path: PurePath) -> None:
        """Make a folder for the owner alone."""
        with self._inner(path, make=PRIVATE_FOLDER) as folder:
            os.fchmod(folder, PRIVATE_FOLDER)

    def new_folder(self, path: PurePath, mode: int) -> None:
        """Make a folder; FileExistsError where something is."""
        with self._folder_of(path) as (folder, name):
            os.mkdir(name, mode, dir_fd=folder)

    def write(self, path: PurePath, text: str | bytes, *, mode: int = 0o666) -> None:
        """Replace a file as a whole: after a crash there is the old content or the new, never a part."""
        # Always the same name, so that what a killed process leaves is gone with the next write; whoever
        # writes a file holds the lock of its item or home.
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
        """Make a file that is not there yet, whole or not at all; FileExistsError where there is one."""
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
        """Move a file, whatever it is, or a folder, to a free name; FileExistsError where there is one."""
        with self._folder_of(path) as (before, old), self._folder_of(target, make=True) as (after, new):
            with contextlib.suppress(FileNotFoundError):
                os.stat(new, dir_fd=after, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, "it is there already", str(target))
            try:
                os.rename(old, new, src_dir_fd=before, dst_dir_fd=after)
            except OSError as exc:
                if exc.errno != errno.EXDEV or not self.is_file(path):
                    raise
                # Two file systems in one worktree: the copy is whole before the file goes.
                self.create(target, self.read(path, most=2**30))
                os.unlink(old, dir_fd=before)
            os.fsync(after)
            os.fsync(before)

    def link(self, path: PurePath, target: PurePath) -> None:
        """Give a file a second name, never over another file."""
        with self._folder_of(path) as (before, old), self._folder_of(target, make=True) as (after, new):
            os.link(old, new, src_dir_fd=before, dst_dir_fd=after, follow_symlinks=False)

    def remove(self, path: PurePath) -> None:
        """Remove a file, or a link itself; nothing happens where there is none."""
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
        """Remove a folder with all that is in it; links in it go, what they lead to stays."""
        # Opened as a folder first: rmtree follows a link before it looks, and a pipe would hold it.
        with self._folder_of(path) as (folder, name), self._inner(path):
            shutil.rmtree(name, dir_fd=folder)

    # The way to a path.

    def relative(self, path: PurePath) -> PurePath:
        """The path from the root; refuses one that is not below it, or in a closed folder."""
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
        """Open a folder; with a mode, make those that are missing. `asked` is what it is opened for."""
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
    """The documents of a repository: everything in the worktree but git's own folder and any home."""
    return Tree(worktree, closed=CLOSED)


def unfinished(name: str) -> str:
    """What a file is called until it is whole; a killed process may leave it."""
    return f".{name}.new"


def read_named(path: Path, most: int) -> bytes:
    """Read a file that the user has named, wherever it is; a link is the user's own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        os.set_blocking(descriptor, True)  # a pipe that the user names is read to its end
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(f"it is larger than {most:,} bytes", path)
    return data


def why_unreadable(exc: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be taken as text, as the rest of a sentence that starts with its name."""
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
    """Say that it is a link, where it is one: the kernel says `too many links`, or `not a directory`."""
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return PathRefused(f"{shown} is a symbolic link, and links are not followed", path)
    if exc.errno == errno.ENXIO:
        return PathRefused("it is not a regular file", path)  # a pipe or socket without another end
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
    """Write everything, whatever the kernel takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
