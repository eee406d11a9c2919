"""A private temporary folder that does not outlive its process for long, even if that is killed."""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentos.store.rooted_tree import Tree
from agentos.store.run_folder import LOCK, hold_lock, is_locked

NEW_SECONDS = 60.0  # another process may not have locked its folder yet


@contextmanager
def work_folder(prefix: str) -> Iterator[Path]:
    """Make the folder, and remove those of this user that killed processes have left."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            if _is_left(left):
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix) as made:
        folder = Path(made)
        lock = hold_lock(Tree(folder), folder / LOCK)
        try:
            yield folder
        finally:
            os.close(lock)


def _is_left(folder: Path) -> bool:
    info = folder.lstat()
    mine = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()
    old = time.time() - info.st_mtime > NEW_SECONDS
    return mine and old and not is_locked(Tree(folder), folder / LOCK)
