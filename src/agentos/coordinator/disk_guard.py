"""Makes the coordinator's writes to disk; after the first failure it makes no more. Coordinator process.

A full disk must not crash the coordinator while workers are running. The first failure is kept; the loop sees
it and stops the run in order.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from agentos.errors import StorageError

P = ParamSpec("P")
T = TypeVar("T")


class DiskGuard:
    """Carries writes out until one fails."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self.error: StorageError | None = None

    def __call__(self, write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Write, unless a write has failed before."""
        if self.error is None:
            try:
                return write(*args, **kwargs)
            except StorageError as exc:
                self.error = exc
                self._complain(f"{exc} Stopping; when there is room, run the same command to resume.")
        return None
