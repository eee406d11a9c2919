"""What a person was told once and need not be told again: one small file in the home. Coordinator."""

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path

from agentos.errors import StorageError
from agentos.store.files import PRIVATE_FILE, write_atomic
from agentos.store.home import Home


def first_time(home: Home, digests: Iterable[str]) -> bool:
    """Whether these were not the latest told from this home; from now on they are."""
    now = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    path = home.path / "settings-told"
    if _read(path) == now:
        return False
    with contextlib.suppress(StorageError):  # then it is told again
        write_atomic(path, now, mode=PRIVATE_FILE)
    return True


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(100).decode("ascii", errors="replace")
    except OSError:
        return ""
