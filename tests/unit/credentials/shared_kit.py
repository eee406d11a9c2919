"""Rows in memory that several runs share, with a clock that a test sets, and runs that use them."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agentos.credentials.pool import KeySpec, Settlement
from agentos.credentials.run_pool import RunPool
from agentos.credentials.shared_store import SharedKeys, SharedStore
from agentos.errors import StorageBusy, StorageError
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased
from agentos.store.key_pool.rows import PoolUser, StateRow

WALL = 1_700_000_000.0


@dataclass
class Rows:
    """A database without a disk. `fails` makes the next calls of a method fail."""

    now: float = 1000.0
    ahead: float = WALL
    stored: dict[str, StateRow] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    removed: list[str] = field(default_factory=list)
    fails: dict[str, StorageError] = field(default_factory=dict)
    begun: tuple[dict[str, StateRow], dict[tuple[str, str], str]] | None = None
    transactions: int = 0
    look_seconds: float = 0.02
    calls_heard: int = 0
    notified: Counter[str] = field(default_factory=Counter)

    def clock(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.ahead + self.now

    def begin(self, _provider: str, _known: int = 0) -> None:
        self._may_fail("begin")
        assert self.begun is None
        self.begun = dict(self.stored), dict(self.keys)

    def commit(self) -> None:
        self._may_fail("commit")
        self.begun = None
        self.transactions += 1

    def rollback(self) -> None:
        if self.begun is not None:
            self.stored, self.keys = self.begun
            self.begun = None

    def state(self, provider: str, known: int = 0) -> StateRow | None:
        self._may_fail("state")
        row = self.stored.get(provider, StateRow(version=0, state="", written=None))
        return None if known and row.version in {known, 0} else row

    def save(self, provider: str, row: StateRow, *, last_lease: int) -> None:
        assert self.begun is not None
        self.stored[provider] = row
        self.leases[provider] = last_lease

    def last_lease(self) -> int:
        return max(self.leases.values(), default=0)

    def users(self, provider: str) -> tuple[PoolUser, ...]:
        return tuple(
            PoolUser(token=run, keys=text) for (run, row), text in self.keys.items() if row == provider
        )

    def set_keys(self, token: str, provider: str, keys: str) -> None:
        self.keys[token, provider] = keys

    def remove_run(self, token: str) -> None:
        self.removed.append(token)
        self.keys = {key: text for key, text in self.keys.items() if key[0] != token}

    def is_alive(self, token: str) -> bool:
        return token not in self.dead

    def told(self) -> int:
        return self.calls_heard

    def tell(self, tokens: Iterable[str]) -> None:
        self.notified.update(tokens)

    def _may_fail(self, method: str) -> None:
        if (error := self.fails.pop(method, None)) is not None:
            raise error


class SharingRun:
    """One run that shares its keys; `values` are what the keys of its configuration are worth."""

    def __init__(
        self, rows: Rows, name: str, *specs: KeySpec, values: dict[str, str] | None = None, row: str = "open"
    ) -> None:
        self.rows = rows
        self.said: list[str] = []
        keys = SharedKeys(
            row=row,
            specs=specs,
            fingerprints={spec.id: (values or {}).get(spec.id, f"mark of {spec.id}") for spec in specs},
        )
        self.store = SharedStore(rows, keys, run=name, lease_seconds=900.0, say=self.said.append)
        self.store.join()
        self.pool = RunPool(self.store, run=name, keys=frozenset(spec.id for spec in specs))
        self.events: list[PoolEvent] = []

    def ask(
        self, item: str, *, number: int = 1, tokens: int = 100, only: frozenset[str] | None = None
    ) -> None:
        provider = self.store.specs[0].provider
        self.pool.request(
            item=item, attempt=1, number=number, provider=provider, model="m", tokens=tokens, only=only
        )
        self.advance()

    def advance(self) -> list[PoolEvent]:
        new = self.pool.advance(self.rows.now)
        self.events += new
        return new

    def settle(self, lease: Leased, **settlement: object) -> list[PoolEvent]:
        result = Settlement(**{"tokens_in": 50, "tokens_out": 50} | settlement)  # type: ignore[arg-type]
        new = self.pool.settle(lease.lease, lease.item or "", 1, result, self.rows.now)
        self.events += new
        return new

    @property
    def leases(self) -> list[Leased]:
        return [event for event in self.events if isinstance(event, Leased)]

    def names(self) -> list[str]:
        return [event.name for event in self.events]


def pass_time(rows: Rows, seconds: float, *runs: SharingRun, then: Callable[[], object] = bool) -> None:
    """Let time pass; every run does what is due whenever it wants to wake up."""
    end = rows.now + seconds
    while True:
        wakes = [wake for run in runs if (wake := run.pool.next_wake(rows.now)) is not None]
        rows.now = min([end, *(max(wake, rows.now) for wake in wakes)])
        for run in runs:
            run.advance()
        then()
        if rows.now >= end:
            return
        rows.now += 1 / 1024  # a loop takes time


BUSY = StorageBusy("locked")
BROKEN = StorageError("The disk is full.")
