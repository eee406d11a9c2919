"""The pool's whole state: exported, restored on another clock, and restored from nonsense."""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.credentials.events import AskRefused, Event, Granted, LeaseExpired, SettleRefused
from agentos.credentials.pool import Asker, CredentialCoordinator, KeySpec, Settlement
from agentos.credentials.transfer import export_state, restore_pool
from agentos.llm.provider import ErrorClass
from unit.credentials.histories import settlements, specs
from unit.credentials.pool_kit import Desk

WALL = 1_800_000_000.0
LEASE_SECONDS = 300.0
TIMES = {"at", "until", "expires", "since"}  # fields that hold a time of the pool's clock
CLOCKS = [0.0, 7.25, -40.5, 86_400.0, 1_000_000.125]  # seconds that another machine's clock is ahead
MOMENTS = [0.0, 1 / 1024, 0.0625, 0.25, 1.0, 5.0, 11.0, 40.0, 400.0]  # whole ticks
KEY_SETS = [None, None, frozenset({"key-0"}), frozenset({"key-1", "key-2"}), frozenset({"key-2", "other"})]

REJECTED = Settlement(error=ErrorClass.KEY_REJECTED)


def exported(desk: Desk) -> Any:
    return json.loads(json.dumps(export_state(desk.pool, desk.now, WALL), allow_nan=False))


def moved(value: Any, ahead: float) -> Any:
    """Return a value of the pool as it would be on a clock that is ahead by so much."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(moved(one, ahead) for one in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes: dict[str, Any] = {}
    for field in fields(value):
        found = getattr(value, field.name)
        is_time = field.name in TIMES and found is not None
        changes[field.name] = found + ahead if is_time else moved(found, ahead)
    return replace(value, **changes)


class Pair:
    """A pool that stays where it is, and one that is exported and restored on other clocks all the time."""

    def __init__(self, keys: list[KeySpec]) -> None:
        named = [
            replace(one, id=f"key-{n}", provider=one.provider if n else "p") for n, one in enumerate(keys)
        ]
        self.stays = CredentialCoordinator(named, lease_seconds=LEASE_SECONDS)
        self.moves = CredentialCoordinator(named, lease_seconds=LEASE_SECONDS)
        self.now = 5_000.0
        self.ahead = 0.0
        self.number = 0
        self.live: dict[int, Granted] = {}
        self.attempts: dict[tuple[str, str], int] = {}
        self.key_sets: dict[tuple[Asker, int], frozenset[str] | None] = {}

    @property
    def wall(self) -> float:
        return WALL + self.now

    def both(self, act: Callable[[CredentialCoordinator, float], list[Event]]) -> list[Event]:
        events = act(self.stays, self.now)
        found = act(self.moves, self.now + self.ahead)
        # A grant that is repeated is compared, too: it is as old as its lease.
        assert [moved(event, self.ahead) for event in events] == found
        for event in events:
            match event:
                case Granted(asker=asker, number=number, lease=lease):
                    allowed = self.key_sets[asker, number]
                    assert allowed is None or event.key in allowed, "a key that its machine does not have"
                    self.live[lease] = event
                case LeaseExpired(lease=lease):
                    self.live.pop(lease)
        return events

    def compare(self) -> None:
        later = self.now + self.ahead
        assert self.moves.snapshot(later) == moved(self.stays.snapshot(self.now), self.ahead)
        wake = self.stays.next_wake(self.now)
        assert self.moves.next_wake(later) == (None if wake is None else wake + self.ahead)
        assert export_state(self.moves, later, self.wall) == export_state(self.stays, self.now, self.wall)

    def move(self, ahead: float, seconds: float) -> None:
        """Export, let time pass, and restore on another clock."""
        data = json.dumps(export_state(self.moves, self.now + self.ahead, self.wall), allow_nan=False)
        self.now += seconds
        self.ahead = ahead
        self.moves = restore_pool(
            json.loads(data), now=self.now + ahead, wall=self.wall, lease_seconds=LEASE_SECONDS
        )

    def asker(self, work: tuple[str, str]) -> Asker:
        return Asker(*work, self.attempts.get(work, 1))

    def ask(self, work: tuple[str, str], model: str, tokens: int, keys: frozenset[str] | None) -> None:
        asker = self.asker(work)
        self.number += 1
        number = self.number
        self.key_sets[asker, number] = keys
        self.both(
            lambda pool, now: pool.request(
                asker=asker, number=number, provider="p", model=model, tokens=tokens, now=now, keys=keys
            )
        )

    def settle(self, which: int, settlement: Settlement) -> None:
        if self.live:
            lease = sorted(self.live)[which % len(self.live)]
            given = self.live.pop(lease)
            self.both(lambda pool, now: pool.settle(lease, asker=given.asker, settlement=settlement, now=now))

    def drop(self, work: tuple[str, str]) -> None:
        asker = self.asker(work)
        self.attempts[work] = asker.attempt + 1
        self.both(lambda pool, now: pool.drop(asker, now))
        self.live = {lease: given for lease, given in self.live.items() if given.asker != asker}

    def stale(self, work: tuple[str, str], which: int) -> None:
        """An attempt that was dropped asks and settles: it is refused, and nothing changes."""
        asker = self.asker(work)
        if asker.attempt == 1:
            return
        asker = asker._replace(attempt=asker.attempt - 1)
        self.both(lambda pool, now: pool.advance(now))
        before = export_state(self.stays, self.now, self.wall)
        asked = self.both(
            lambda pool, now: pool.request(asker=asker, number=1, provider="p", model="m", tokens=10, now=now)
        )
        settled = self.both(
            lambda pool, now: pool.settle(which % 40, asker=asker, settlement=REJECTED, now=now)
        )
        self.both(lambda pool, now: pool.drop(asker, now))
        kinds: list[type[Event]] = [type(event) for event in (*asked, *settled)]
        expected: list[type[Event]] = [AskRefused, SettleRefused]
        assert kinds == expected
        assert export_state(self.stays, self.now, self.wall) == before

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.both(lambda pool, now: pool.advance(now))

    def wake(self) -> None:
        wake = self.stays.next_wake(self.now)
        if wake is not None:
            self.pass_time(wake - self.now)


WORKS = [("one", "a"), ("one", "b"), ("two", "a"), ("two", "c")]
ASKS = list(product(WORKS, ["m", "m", "n"], [0, 10, 1_000, 100_000], KEY_SETS))
asks = st.tuples(st.just("ask"), st.sampled_from(ASKS), st.just(None))
steps = st.one_of(
    asks,
    asks,
    st.tuples(st.just("settle"), st.integers(0, 50), settlements),
    st.tuples(st.just("settle"), st.integers(0, 50), settlements),
    st.tuples(st.just("move"), st.sampled_from(CLOCKS), st.sampled_from([0.0, 0.0, 0.25, 40.0])),
    st.tuples(st.just("time"), st.sampled_from(MOMENTS), st.just(None)),
    st.tuples(st.just("wake"), st.just(None), st.just(None)),
    st.tuples(st.just("drop"), st.sampled_from(WORKS), st.just(None)),
    st.tuples(st.just("stale"), st.sampled_from(WORKS), st.integers(0, 50)),
    st.tuples(st.just("enable"), st.just("key-0"), st.just(None)),
)


def take(pair: Pair, step: Any) -> None:
    match step:
        case ("ask", wanted, _):
            pair.ask(*wanted)
        case ("settle", which, settlement):
            pair.settle(which, settlement)
        case ("move", ahead, seconds):
            pair.move(ahead, seconds)
        case ("time", seconds, _):
            pair.pass_time(seconds)
        case ("wake", _, _):
            pair.wake()
        case ("drop", work, _):
            pair.drop(work)
        case ("stale", work, which):
            pair.stale(work, which)
        case ("enable", key_id, _):
            pair.both(lambda pool, now: pool.enable(key_id, now))


@pytest.mark.parametrize("examples", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_pool_that_is_exported_and_restored_behaves_as_one_that_is_not(examples: int) -> None:
    @settings(max_examples=examples, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(keys=st.lists(specs, min_size=1, max_size=4), history=st.lists(steps, min_size=10, max_size=60))
    def check(keys: list[KeySpec], history: list[Any]) -> None:
        pair = Pair(keys)
        for step in history:
            take(pair, step)
            pair.compare()
        pair.move(CLOCKS[1], 0.0)
        pair.compare()

    check()
