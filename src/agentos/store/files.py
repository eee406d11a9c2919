"""Writing and reading files so that nothing is half written, followed through a link, or outside its root."""

import os
from pathlib import Path

from agentos.errors import StorageError, UsageError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def inside(root: Path, path: Path) -> Path:
    """Return the path made absolute, refusing one that leaves the root, also through a symbolic link."""
    target = root / path
    # The last part is replaced by a rename, which never follows a link, so only its folder must be inside.
    real = Path(os.path.realpath(target.parent)) / target.name
    if target.name == ".." or not real.is_relative_to(os.path.realpath(root)):
        raise UsageError(f"{path} leads outside {root}; nothing is written or read there.")
    return real


def write_atomic(path: Path, text: str, *, mode: int | None = None) -> None:
    """Replace the file as a whole: after a crash there is the old content or the new, never a part."""
    data = text.encode("utf-8", errors="replace")
    # Always the same name, so that what a killed process leaves is gone with the next write; whoever writes a
    # file holds the lock of its item or home.
    temporary = path.parent / f".{path.name}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666 if mode is None else mode
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as exc:
        raise StorageError(f"Cannot write {path}: {exc.strerror or exc}.") from exc


def unfinished(path: Path) -> Path:
    """Where `write_new` has a file until it is whole; a killed process may leave it."""
    return path.parent / f".{path.name}.new"


def write_new(path: Path, text: str) -> None:
    """Make a file that is not there yet, whole or not at all; FileExistsError where there is one."""
    temporary = unfinished(path)
    write_atomic(temporary, text)
    try:
        os.link(temporary, path)
        sync_folder(path.parent)
    except FileExistsError:
        raise
    except OSError:
        _write_exclusively(path, text)  # a file system without links
    finally:
        temporary.unlink(missing_ok=True)


def _write_exclusively(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", errors="replace"))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise
    except OSError as exc:
        raise StorageError(f"Cannot write {path}: {exc.strerror or exc}.") from exc


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> Path:
    """Make the folder for the owner alone; a link or file in its place is refused."""
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if path.is_symlink() or not path.is_dir():
            raise StorageError(
                f"{path} is a link or a file where a folder is needed; remove it and try again."
            )
        path.chmod(PRIVATE_FOLDER)
    except FileExistsError as exc:
        raise StorageError(
            f"{path} is a link or a file where a folder is needed; remove it and try again."
        ) from exc
    except OSError as exc:
        raise StorageError(f"Cannot create the folder {path}: {exc.strerror or exc}.") from exc
    return path


def open_private(path: Path, flags: int) -> int:
    """Open or create a file for the owner alone and never through a link; return its descriptor."""
    try:
        return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as exc:
        raise StorageError(f"Cannot open {path}: {exc.strerror or exc}.") from exc


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, whatever the kernel takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
