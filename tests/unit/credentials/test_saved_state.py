"""The pool's whole state: exported, restored on another clock, and restored from nonsense."""

import copy
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.credentials.export_state import export_state
from agentos.credentials.pool import CredentialCoordinator, KeySpec, KeyState, Settlement
from agentos.credentials.restore_state import restore_pool
from agentos.credentials.saved_state import PoolStateError
from agentos.credentials.ticks import TICKS, tick, tick_span
from agentos.events.asker import Asker
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import AskRefused, Leased, LeaseExpired, SettleRefused
from agentos.model import CallError
from unit.credentials.histories import settlements, specs
from unit.credentials.pool_kit import Desk, key, of

WALL = 1_800_000_000.0
LEASE_SECONDS = 300.0
TIMES = {"at", "until", "expires", "since"}  # fields that hold a time of the pool's clock
CLOCKS = [0.0, 7.25, -4_999.0, 86_400.0, 1_000_000.125]  # seconds that another clock is ahead
MOMENTS = [0.0, 1 / 1024, 0.0625, 0.25, 1.0, 5.0, 11.0, 40.0, 400.0]  # whole ticks
KEY_SETS = [None, None, frozenset({"key-0"}), frozenset({"key-1", "key-2"}), frozenset({"key-2", "other"})]

REJECTED = Settlement(error=CallError.KEY_REJECTED)
DAY = {
    "x-ratelimit-limit-requests": "50",
    "x-ratelimit-remaining-requests": "40",
    "x-ratelimit-reset-requests": "5m0s",
}
ANSWERS = [
    *[Settlement(error=CallError.RATE_LIMITED, retry_after=0.3)] * 3,
    Settlement(error=CallError.QUOTA_EXHAUSTED, quota_reset=0.7),
    Settlement(error=CallError.CAPACITY),
    Settlement(tokens_in=5, tokens_out=5),
    Settlement(tokens_in=5, tokens_out=5, headers=DAY),
]


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
        self.live: dict[int, Leased] = {}
        self.attempts: dict[tuple[str, str], int] = {}
        self.key_sets: dict[tuple[Asker, int], frozenset[str] | None] = {}

    @property
    def wall(self) -> float:
        return WALL + self.now

    def both(self, act: Callable[[CredentialCoordinator, float], list[PoolEvent]]) -> list[PoolEvent]:
        events = act(self.stays, self.now)
        found = act(self.moves, self.now + self.ahead)
        # A grant that is repeated is compared, too: it is as old as its lease.
        assert [moved(event, self.ahead) for event in events] == found
        for event in events:
            match event:
                case Leased(asker=asker, number=number, lease=lease):
                    allowed = self.key_sets[asker, number]
                    assert allowed is None or event.key in allowed, "a key that its machine does not have"
                    self.live[lease] = event
                case LeaseExpired(lease=lease):
                    self.live.pop(lease, None)
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

    def call(self, model: str, settlement: Settlement) -> None:
        """A call goes out and comes back, and a rest after it passes."""
        self.ask(("three", "a"), model, 10, None)
        mine = [lease for lease, given in self.live.items() if given.asker.run_id == "three"]
        if mine:
            self.settle(sorted(self.live).index(mine[-1]), settlement)
        self.pass_time(1.0)

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
        assert [event.name for event in (*asked, *settled)] == [AskRefused.name, SettleRefused.name]
        assert export_state(self.stays, self.now, self.wall) == before

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.both(lambda pool, now: pool.advance(now))

    def wake(self) -> None:
        wake = self.stays.next_wake(self.now)
        if wake is not None:
            self.pass_time(wake - self.now)


WORKS = list(product(["one", "two"], "abcd"))
ASKS = list(product(WORKS, ["m", "m", "n"], [0, 10, 1_000, 100_000], KEY_SETS))
asks = st.tuples(st.just("ask"), st.lists(st.sampled_from(ASKS), min_size=1, max_size=6), st.just(None))
steps = st.one_of(
    asks,
    asks,
    st.tuples(st.just("settle"), st.integers(0, 50), settlements),
    st.tuples(st.just("settle"), st.integers(0, 50), settlements),
    st.tuples(st.just("move"), st.sampled_from(CLOCKS), st.sampled_from([0.0, 0.0, 0.25, 40.0])),
    st.tuples(st.just("time"), st.sampled_from(MOMENTS), st.just(None)),
    st.tuples(st.just("call"), st.sampled_from(["m", "m", "n"]), st.sampled_from(ANSWERS)),
    st.tuples(st.just("wake"), st.just(None), st.just(None)),
    st.tuples(st.just("drop"), st.sampled_from(WORKS), st.just(None)),
    st.tuples(st.just("stale"), st.sampled_from(WORKS), st.integers(0, 50)),
    st.tuples(st.just("enable"), st.just("key-0"), st.just(None)),
)


def take(pair: Pair, step: Any) -> None:  # noqa: C901 - a case a step
    match step:
        case ("ask", wanted, _):
            for one in wanted:
                pair.ask(*one)
        case ("settle", which, settlement):
            pair.settle(which, settlement)
        case ("call", model, settlement):
            pair.call(model, settlement)
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


@pytest.mark.parametrize("examples", [100, pytest.param(400, marks=pytest.mark.slow)])
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


def busy() -> Desk:
    """Return a pool that has some of everything."""
    desk = Desk(key(1, rpm=60, tpm=6_000), key(2, group="g", max_in_flight=1), key(3, group="g"))
    first = desk.ask("a", tokens=500)
    assert first is not None
    headers = {"x-ratelimit-limit-tokens": "9000", "x-ratelimit-remaining-tokens": "0"}
    desk.settle(first, Settlement(tokens_in=300, tokens_out=100, headers=headers))
    for n in range(12):
        desk.ask(f"i{n}", model="n", keys=frozenset({"key-2"}) if n % 3 else None)
    desk.drop("i0")
    desk.ask("i0")
    held = desk.ask("z", model="o")
    if held is not None:
        desk.settle(held, Settlement(error=CallError.CAPACITY))
    return desk


def put(data: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        data = data[int(part) if part.isdigit() else part]
    data[int(last) if last.isdigit() else last] = value


def test_the_state_of_version_1_has_these_fields() -> None:
    data = exported(busy())
    lists = ("keys", "groups", "lanes", "asks", "leases", "over")
    assert {name: sorted(data[name][0]) for name in lists} == {
        "keys": [
            "burst", "calls", "disabled", "disabled_at", "fast", "gentle", "id", "last_lease",
            "max_in_flight", "per_model", "provider", "quota_group", "rate_limited", "rpd", "rpm", "slots",
            "tokens_in", "tokens_out", "tpm",
        ],
        "groups": ["budgets", "halved_at", "name", "provider", "rest", "sharing"],
        "lanes": ["estimate", "model", "provider", "rest", "seconds"],
        "asks": [
            "attempt", "item", "key_set", "lane", "lease_seconds", "number", "order", "run_id", "since",
            "tokens",
        ],
        "leases": [
            "asked", "attempt", "call", "expired", "expires", "grant", "item", "key", "lane", "number",
            "run_id", "since", "spread", "tokens", "tokens_in", "tokens_out", "waited",
        ],
        "over": ["attempt", "item", "run_id"],
    }  # fmt: skip
    assert sorted(data) == [
        "asks", "at", "groups", "key_sets", "keys", "lanes", "last_ask", "last_lease", "leases", "now",
        "over", "version",
    ]  # fmt: skip
    assert data["version"] == 1


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("version", 2, "version 2; this agentos reads 1"),
        ("version", "1", "version unknown"),
        ("version", None, "version unknown"),
        ("secret", "x", "secret: Extra inputs are not permitted"),
        ("last_lease", -1, "last_lease"),
        ("last_lease", 0, "leases: a number that was never granted"),
        ("last_ask", 0, "asks: a number that was never granted"),
        ("now", "soon", "now"),
        ("now", 1e300, "now"),
        ("now", WALL + 60, "a past time is after the export"),
        ("keys.0.slots", 0.0, "keys.0.slots"),
        ("keys.0.rpm", -1.0, "keys.0.rpm"),
        ("keys.0.burst", True, "keys.0.burst"),
        ("keys.0.provider", "x" * 3_000, "keys.0.provider"),
        ("keys.1.id", "key-1", "keys: a duplicate entry"),
        ("groups.0.rest.state", "disabled", "groups.0.rest.state"),
        ("groups.0.rest.until", WALL + 1e8, "further ahead than any wait"),
        ("groups.0.budgets.0.ease", 0.0, "groups.0.budgets.0.ease"),
        ("groups.0.budgets.0.held_until", WALL + 3_600, "further ahead than any wait"),
        ("groups.0.budgets.0.buckets.0.level", 1e30, "level"),
        ("groups.0.budgets.0.buckets.0.limit", "tpm", "buckets: a duplicate entry"),
        ("groups.0.budgets.0.learnt", {"xpm": 1.0}, "learnt"),
        ("lanes.0.provider", "nobody", "a provider without keys"),
        ("lanes.0.estimate.total", 0.0, "lanes.0.estimate.total"),
        ("asks.0.lane", 99, "lanes: no entry"),
        ("asks.0.key_set", 99, "key_sets: no entry"),
        ("asks.0.tokens", 10**12, "asks.0.tokens"),
        ("leases.0.lane", 99, "lanes: no entry"),
        ("leases.0.key", "unknown", "a key that the provider does not have"),
        ("asks", {}, "asks"),
        ("keys", [{}] * 100_001, "keys"),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(path: str, value: object, told: str) -> None:
    data = exported(busy())
    put(data, path, value)
    with pytest.raises(PoolStateError) as caught:
        restore_pool(data, now=0.0, wall=WALL)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 2_200


@pytest.mark.parametrize(("name", "field"), [("leases", "number"), ("asks", "order")])
def test_a_number_that_was_given_twice_is_refused(name: str, field: str) -> None:
    data = exported(busy())
    data[name][1][field] = data[name][0][field]
    with pytest.raises(PoolStateError, match=f"{name}: a duplicate entry"):
        restore_pool(data, now=0.0, wall=WALL)


@pytest.mark.parametrize("data", [None, [], "state", 7, {}, {"version": 1}, {"version": 10**5000}])
def test_what_is_no_state_at_all_is_refused(data: object) -> None:
    with pytest.raises(PoolStateError):
        restore_pool(data, now=0.0, wall=WALL)


def test_the_export_changes_nothing_and_shares_nothing() -> None:
    desk = busy()
    first = export_state(desk.pool, desk.now, WALL)
    kept = copy.deepcopy(first)
    restore_pool(first, now=desk.now, wall=WALL)
    desk.drop("i1")
    assert first == kept


def test_lease_numbers_go_on_after_a_restore() -> None:
    desk = Desk(key())
    old = desk.lease("a")
    desk.pool = restore_pool(exported(desk), now=desk.now, wall=WALL)
    assert desk.lease("b").lease > old.lease
    assert not of(SettleRefused, desk.settle(old))
    desk.pool = restore_pool(exported(desk), now=desk.now, wall=WALL)
    assert of(SettleRefused, desk.settle(old))[0].reason == "already ended"


def test_a_lease_lasts_as_long_as_its_asker_said_whoever_grants_it() -> None:
    desk = Desk(key(max_in_flight=1), lease_seconds=30)
    first = desk.lease("a")
    desk.ask("b")
    desk.pool = restore_pool(exported(desk), now=desk.now, wall=WALL, lease_seconds=5_000)
    given = of(Leased, desk.settle(first))[0]
    assert given.expires == desk.now + 30
    desk.ask("c")
    desk.drop("b")
    assert of(Leased, desk.events)[-1].expires == desk.now + 5_000


def test_a_wall_clock_that_was_set_back_adds_no_time() -> None:
    desk = Desk(key(), lease_seconds=30)
    desk.lease("a")
    data = exported(desk)
    pool = restore_pool(data, now=70.0, wall=WALL - 7_200)
    assert pool.next_wake(70.0) == 100.0


def test_a_wall_clock_that_jumped_ahead_fills_no_bucket_twice() -> None:
    desk = Desk(key(rpm=60, burst=5), lease_seconds=30)
    while desk.ask(f"i{desk.key().in_flight}") is not None:
        pass
    at_once = desk.key().in_flight
    desk.pool = restore_pool(exported(desk), now=desk.now, wall=WALL + 10 * 86_400)
    expired = of(LeaseExpired, desk.wait(0))
    assert len(expired) == at_once
    assert desk.key().in_flight <= 2 * at_once


def test_a_machine_brings_its_keys_along() -> None:
    desk = Desk(key(1, max_in_flight=1))
    desk.lease("a")
    desk.ask("b")
    desk.pool = restore_pool(exported(desk), now=desk.now, wall=WALL, keys=[key(2, max_in_flight=1)])
    events = desk.wait(0)
    assert [(one.item, one.key) for one in of(Leased, events)] == [("b", "key-2")]
    assert [one.id for one in desk.snapshot().keys] == ["key-1", "key-2"]


def test_a_limit_that_was_configured_anew_counts_from_now_on() -> None:
    desk = Desk(key(1, rpm=60))
    desk.lease("a")
    desk.pool = restore_pool(exported(desk), now=desk.now, wall=WALL, keys=[key(1, tpm=6_000)])
    budgets = desk.key().budgets
    assert [(one.limit, one.value) for one in budgets] == [("tpm", 6_000)]
    assert budgets[0].room < budgets[0].capacity, "what was sent before counts"
    assert desk.key().in_flight == 1


def test_a_key_of_another_provider_is_refused() -> None:
    desk = Desk(key(1))
    with pytest.raises(PoolStateError, match="'key-1' belongs to p"):
        restore_pool(exported(desk), now=0.0, wall=WALL, keys=[key(1, provider="q")])


def test_disabled_keys_stay_disabled() -> None:
    desk = Desk(key(1), key(2))
    desk.settle(desk.lease("a"), REJECTED)
    desk.pool = restore_pool(exported(desk), now=desk.now, wall=WALL)
    assert desk.key("key-1").state is KeyState.DISABLED
    assert desk.lease("b").key == "key-2"


@given(st.floats(0, 2.0**32), st.floats(0, 1e7))
def test_a_tick_is_exact_in_wall_clock_time(wall: float, seconds: float) -> None:
    at, span = tick(wall), tick_span(seconds)
    assert at <= wall < at + 2 / TICKS
    assert seconds <= span < seconds + 2 / TICKS
    assert (at + span) - at == span


def test_reading_the_wall_clock_late_adds_no_budget() -> None:
    desk = Desk(key(1, rpm=60, burst=1))
    desk.lease("a")
    data = export_state(desk.pool, desk.now, WALL)
    # Half a second passes between reading the one clock and the other.
    late = restore_pool(data, now=desk.now, wall=WALL + 0.5, exported=desk.now)
    room = [budget.room for view in late.snapshot(desk.now).keys for budget in view.budgets]
    assert room == [budget.room for view in desk.snapshot().keys for budget in view.budgets]
