"""Remembers in a small file in the home which notices were shown. Coordinator process."""

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path

from agentos.errors import StorageError
from agentos.store.home import Home
from agentos.store.rooted_tree import PRIVATE_FILE


def first_time(home: Home, digests: Iterable[str]) -> bool:
    """Say whether these differ from the last ones shown from this home, and remember them as shown."""
    now = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    shown = Path("settings-told")
    with contextlib.suppress(OSError):
        if home.tree.read(shown, 100).decode("ascii", errors="replace") == now:
            return False
    with contextlib.suppress(StorageError):  # then it is shown again
        home.tree.write(shown, now, mode=PRIVATE_FILE)
    return True
