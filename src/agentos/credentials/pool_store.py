"""Where the pool's state is kept between two requests: the protocol, and the state in memory. Pure.

Runs that share keys share one state per provider: each loads it, applies the same rules and saves it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from agentos.credentials.pool import CredentialCoordinator


@dataclass(frozen=True, kw_only=True)
class LoadedPool:
    """The pool as it is now."""

    pool: CredentialCoordinator
    now: float  # the time at which it was loaded, by the clock of the caller
    changed: bool = False  # another run has changed it since it was last loaded
    check_at: float | None = None  # when a waiting run should open a transaction, whatever it waits for
    look_again: float | None = None  # seconds until another run may have changed it; None: nobody else can


class PoolStore(Protocol):
    """Keeps the state of one provider's keys; raises StorageBusy if another run has it for too long."""

    def look(self, now: float) -> LoadedPool:
        """Load the state; changes to it are not saved."""

    def heard(self) -> bool:
        """Say whether another run is known to have answered a request since the last look."""

    def transaction(self, now: float) -> AbstractContextManager[LoadedPool]:
        """Load the state, let nobody else change it, and save it at the end."""


class MemoryStore:
    """The state of one run alone, in memory: for tests, for the mock, and where nothing can be written."""

    def __init__(self, pool: CredentialCoordinator) -> None:
        self._pool = pool

    def look(self, now: float) -> LoadedPool:
        return LoadedPool(pool=self._pool, now=now)

    def heard(self) -> bool:
        return False

    @contextmanager
    def transaction(self, now: float) -> Iterator[LoadedPool]:
        yield self.look(now)
