"""What the tests of the key pool share: a pool with a clock of its own."""

from typing import TypeVar

from agentos.credentials.pool import CredentialCoordinator, KeySpec, PoolSnapshot, Settlement
from agentos.credentials.snapshot import KeyView, WaitingView
from agentos.events.asker import Asker
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased

E = TypeVar("E", bound=PoolEvent)


class Desk:
    """A pool, the time, and what happened so far."""

    def __init__(self, *keys: KeySpec, lease_seconds: float = 900.0, now: float = 1000.0) -> None:
        self.pool = CredentialCoordinator(keys, lease_seconds=lease_seconds)
        self.now = now
        self.events: list[PoolEvent] = []
        self._numbers = 0
        self._attempts: dict[str, int] = {}

    def asker(self, item: str) -> Asker:
        return Asker("run", item, self._attempts.get(item, 1))

    def note(self, events: list[PoolEvent]) -> list[PoolEvent]:
        self.events += events
        return events

    def ask(
        self,
        item: str = "a",
        *,
        model: str = "m",
        tokens: int = 100,
        provider: str = "p",
        number: int | None = None,
        keys: frozenset[str] | None = None,
    ) -> Leased | None:
        """Ask for a lease; returns it if it is given at once."""
        self._numbers += 1
        number = self._numbers if number is None else number
        events = self.pool.request(
            asker=self.asker(item),
            number=number,
            provider=provider,
            model=model,
            tokens=tokens,
            now=self.now,
            keys=keys,
        )
        given = [one for one in of(Leased, self.note(events)) if one.item == item and one.number == number]
        return given[0] if given else None

    def lease(self, item: str = "a", *, model: str = "m", tokens: int = 100) -> Leased:
        given = self.ask(item, model=model, tokens=tokens)
        assert given is not None
        return given

    def settle(self, given: Leased, settlement: Settlement | None = None) -> list[PoolEvent]:
        settlement = settlement or Settlement(tokens_in=50, tokens_out=50)
        return self.note(
            self.pool.settle(given.lease, asker=given.asker, settlement=settlement, now=self.now)
        )

    def drop(self, item: str) -> list[PoolEvent]:
        """Drop the attempt of now; what the item asks later belongs to the next one."""
        events = self.pool.drop(self.asker(item), self.now)
        self._attempts[item] = self.asker(item).attempt + 1
        return self.note(events)

    def wait(self, seconds: float) -> list[PoolEvent]:
        self.now += seconds
        return self.note(self.pool.advance(self.now))

    def wake(self) -> list[PoolEvent]:
        """Go to the time that the pool asks to be woken at."""
        at = self.pool.next_wake(self.now)
        assert at is not None
        assert at > self.now
        self.now = at
        return self.note(self.pool.advance(at))

    def snapshot(self) -> PoolSnapshot:
        return self.pool.snapshot(self.now)

    def key(self, key_id: str = "key-1") -> KeyView:
        return next(one for one in self.snapshot().keys if one.id == key_id)

    def waiting(self, item: str) -> WaitingView:
        return next(one for one in self.snapshot().waiting if one.item == item)


def of(kind: type[E], events: list[PoolEvent]) -> list[E]:
    return [one for one in events if isinstance(one, kind)]


def key(
    number: int = 1,
    *,
    provider: str = "p",
    group: str | None = None,
    rpm: float | None = None,
    tpm: float | None = None,
    rpd: float | None = None,
    burst: int | None = None,
    max_in_flight: int | None = None,
) -> KeySpec:
    return KeySpec(
        id=f"key-{number}",
        provider=provider,
        quota_group=group,
        rpm=rpm,
        tpm=tpm,
        rpd=rpd,
        burst=burst,
        max_in_flight=max_in_flight,
    )
