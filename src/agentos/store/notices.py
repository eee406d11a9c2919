"""What a person was told once and need not be told again: one small file in the home. Coordinator."""

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path

from agentos.errors import StorageError
from agentos.store.home import Home
from agentos.store.tree import PRIVATE_FILE


def first_time(home: Home, digests: Iterable[str]) -> bool:
    """Whether these were not the latest told from this home; from now on they are."""
    now = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    told = Path("settings-told")
    with contextlib.suppress(OSError):
        if home.tree.read(told, 100).decode("ascii", errors="replace") == now:
            return False
    with contextlib.suppress(StorageError):  # then it is told again
        home.tree.write(told, now, mode=PRIVATE_FILE)
    return True
