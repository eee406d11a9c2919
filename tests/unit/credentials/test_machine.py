"""The key pool under any sequence of events, beside a model that keeps its own books."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from agentos.credentials.outcome import InFlightChanged
from agentos.credentials.pool import CredentialCoordinator, KeySpec, Settlement
from agentos.credentials.quota import ARRIVAL_JITTER
from agentos.events.asker import Asker
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import (
    KeyDisabled,
    KeyRecovered,
    Leased,
    LeaseExpired,
    QuotaExhausted,
    RateLimited,
    Refused,
    Returned,
    Settled,
    SettleRefused,
)
from agentos.model import SAME_FOR_ALL, CallError
from unit.credentials.histories import ITEMS, TOLD, asks, moments, settlements, specs

LEASE_SECONDS = 300.0
WALL = 1_800_000_000.0
UNREAD = {
    CallError.BAD_REQUEST,
    CallError.CAPACITY,
    CallError.CORRECTED,
    CallError.DECLINED,
    CallError.KEY_REJECTED,
    CallError.NO_CREDIT,
    CallError.UNREACHABLE,
    *SAME_FOR_ALL,
}


@dataclass
class Shadow:
    """A bucket of the true limit; the pool may be stricter, never laxer."""

    rate: float
    capacity: float
    level: float
    at: float
    charged: int = 0  # calls since it was last full

    def refill(self, now: float) -> None:
        self.level = min(self.capacity, self.level + max(0.0, now - self.at) * self.rate)
        self.at = max(self.at, now)
        if self.level >= self.capacity:
            self.charged = 0

    def allows(self, amount: float, *, whole: bool) -> bool:
        """Whether a call may go; events give `whole` tokens, and the pool's bucket is a bit smaller."""
        if not whole:
            return self.level >= min(amount, self.capacity) - 1e-4
        full = self.capacity - self.rate * ARRIVAL_JITTER
        return self.level >= min(amount, full) - 0.5 * (self.charged + 1) - 1e-4


class PoolMachine(RuleBasedStateMachine):
    @initialize(keys=st.lists(specs, min_size=1, max_size=4))
    def start(self, keys: list[KeySpec]) -> None:
        named = [
            KeySpec(
                id=f"key-{n}",
                provider=one.provider if n else "p",
                quota_group=one.quota_group,
                rpm=one.rpm,
                tpm=one.tpm,
                rpd=one.rpd,
                burst=one.burst,
                max_in_flight=one.max_in_flight,
            )
            for n, one in enumerate(keys)
        ]
        self.keys = {one.id: one for one in named}
        self.pool = CredentialCoordinator(named, lease_seconds=LEASE_SECONDS)
        self.now = 50.0
        self.number = 0
        self.last_lease = 0
        self.waiting: dict[str, int] = {}
        self.only: dict[str, frozenset[str] | None] = {}  # the keys that the latest request of an item names
        self.attempts: dict[str, int] = {}
        self.live: dict[int, Leased] = {}
        self.expired: dict[int, Leased] = {}
        self.disabled: set[str] = set()
        self.resting: dict[str, float] = {}
        self.limits = {one.id: one.limit for one in self.pool.snapshot(self.now).keys}
        self.shadows: dict[tuple[str, str, str], Shadow] = {}

    # What can happen.

    @rule(wanted=st.lists(asks, min_size=1, max_size=6))
    def request(self, wanted: list[tuple[str, str, str, int]]) -> None:
        for ask in wanted:
            self.ask(*ask)

    @rule(wanted=st.lists(asks, min_size=1, max_size=6), data=st.data())
    def request_of_a_machine(self, wanted: list[tuple[str, str, str, int]], data: st.DataObject) -> None:
        """The items of one machine ask; it has some of the keys, or none."""
        only = data.draw(st.frozensets(st.sampled_from([*sorted(self.keys), "unknown"])))
        for ask in wanted:
            self.ask(*ask, only=only)

    @rule(which=st.integers(min_value=0), settlement=settlements)
    def settle(self, which: int, settlement: Settlement) -> None:
        if self.live:
            self.settled(sorted(self.live)[which % len(self.live)], settlement)

    @rule(wanted=st.lists(st.tuples(asks, settlements, moments), min_size=2, max_size=6))
    def work(self, wanted: list[tuple[tuple[str, str, str, int], Settlement, float]]) -> None:
        """The usual course: items ask, time passes, the oldest call comes back."""
        for ask, settlement, seconds in wanted:
            self.ask(*ask)
            self.pass_time(seconds)
            if self.live:
                self.settled(min(self.live), settlement)

    @rule(item=st.sampled_from(ITEMS))
    def ask_of_a_stranger(self, item: str) -> None:
        self.ask(item, "none", "m", 10)
        assert item not in self.waiting

    @rule(item=st.sampled_from(ITEMS))
    def ask_again(self, item: str) -> None:
        """A request that is repeated changes nothing."""
        held = [one for one in self.live.values() if one.item == item]
        if item in self.waiting:
            self.ask(item, "p", "m", 10, number=self.waiting[item])
        elif held:
            events = self.pool.request(
                asker=self.asker(item),
                number=held[0].number,
                provider="p",
                model="m",
                tokens=10,
                now=self.now,
            )
            assert events == [held[0]]

    @rule(back=st.integers(min_value=-2, max_value=12), item=st.sampled_from(ITEMS), settlement=settlements)
    def settle_what_is_not_held(self, back: int, item: str, settlement: Settlement) -> None:
        lease = self.last_lease - back
        if lease in self.live and self.live[lease].item == item:
            return
        before = self.pool.snapshot(self.now)
        events = self.pool.settle(lease, asker=self.asker(item), settlement=settlement, now=self.now)
        assert [type(one) for one in events] == [SettleRefused]
        assert self.pool.snapshot(self.now) == before

    @rule(item=st.sampled_from(ITEMS))
    def drop(self, item: str) -> None:
        self.waiting.pop(item, None)
        self.end(item)
        held = [*self.live.values(), *self.expired.values()]
        assert all(one.item != item for one in held)

    @rule(seconds=st.sampled_from([0.0, 1 / 1024, 0.3125, 1.0, 11.0, 40.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.pool.advance(self.now))

    @rule()
    def wake(self) -> None:
        at = self.pool.next_wake(self.now)
        if at is not None:
            self.now = at
            self.take(self.pool.advance(self.now))

    @rule(seconds=st.sampled_from([0.5, 7_200.0]))
    def clock_goes_back(self, seconds: float) -> None:
        self.take(self.pool.advance(self.now - seconds))

    @rule(data=st.data())
    def enable(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.keys)))
        self.take(self.pool.enable(key, self.now))
        assert key not in self.disabled

    @rule()
    def restore_own_health(self) -> None:
        """Health that was just written changes nothing."""
        before = self.pool.snapshot(self.now)
        data = json.loads(json.dumps(self.pool.export(self.now, WALL)))
        self.take(self.pool.restore(data, self.now, WALL))
        after = self.pool.snapshot(self.now)
        assert [(one.state, one.in_flight) for one in before.keys] == [
            (one.state, one.in_flight) for one in after.keys
        ]

    # What must hold.

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "pool"):
            return
        snapshot = self.pool.snapshot(self.now)
        held = [*self.live.values(), *self.expired.values()]
        for key in snapshot.keys:
            assert key.in_flight == sum(one.key == key.id for one in held)
            assert key.limit == self.limits[key.id]
            assert key.limit >= 1
            assert (key.state == "disabled") == (key.id in self.disabled)
        assert {one.item: one.number for one in snapshot.waiting} == self.waiting
        assert snapshot.in_flight == len(held)
        assert snapshot.useful_parallel >= 0

    @invariant()
    def waking_is_ahead(self) -> None:
        if hasattr(self, "pool"):
            at = self.pool.next_wake(self.now)
            assert at is None or at > self.now
            if self.live:
                assert at is not None

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for key in self.keys:
            self.take(self.pool.enable(key, self.now))
        for item in sorted({one.item for one in self.expired.values()}):
            self.end(item)
            self.waiting.pop(item, None)
        for _ in range(400):
            for lease in sorted(self.live):
                self.settled(lease, Settlement(tokens_in=10, tokens_out=10))
            if not self.waiting and not self.live:
                break
            if self.live:
                continue
            at = self.pool.next_wake(self.now)
            assert at is not None, "someone waits, and nothing will ever happen"
            self.now = at
            self.take(self.pool.advance(at))
        assert not self.waiting, "not everyone was served"
        assert self.pool.snapshot(self.now).in_flight == 0

    # The model's own books.

    def ask(
        self,
        item: str,
        provider: str,
        model: str,
        tokens: int,
        *,
        number: int | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        if number is None:
            self.number += 1
            number = self.waiting[item] = self.number
            self.only[item] = only
        self.take(
            self.pool.request(
                asker=self.asker(item),
                number=number,
                provider=provider,
                model=model,
                tokens=tokens,
                now=self.now,
                keys=only,
            )
        )

    def asker(self, item: str) -> Asker:
        return Asker("run", item, self.attempts.get(item, 1))

    def end(self, item: str) -> None:
        gone = self.asker(item)
        self.attempts[item] = gone.attempt + 1
        self.take(self.pool.drop(gone, self.now))

    def settled(self, lease: int, settlement: Settlement) -> None:
        given = self.live[lease]
        events = self.pool.settle(lease, asker=given.asker, settlement=settlement, now=self.now)
        assert isinstance(events[0], Settled)
        used = settlement.limited_in + settlement.tokens_out
        if used or settlement.error in UNREAD:
            shadow = self.shadow(given, "tpm")
            if shadow is not None:
                shadow.refill(self.now)
                shadow.level = min(shadow.capacity, shadow.level + given.tokens - used)
        told = settlement.retry_after
        if settlement.error is CallError.RATE_LIMITED and told in TOLD:
            assert told is not None
            self.rest(given.key, self.now + min(told, 3_600.0))
            # The server knows best what is missing: it did not count the call that it refused.
            if (shadow := self.shadow(given, "rpm")) is not None and shadow.capacity <= 1.0:
                shadow.refill(self.now)
                shadow.level = max(shadow.level, 1.0 - told * shadow.rate)
        self.take(events)

    def take(self, events: list[PoolEvent]) -> None:
        for event in events:
            match event:
                case Leased():
                    self.granted(event)
                case Settled(lease=lease) | Returned(lease=lease):
                    assert (self.live.pop(lease, None) or self.expired.pop(lease, None)) is not None
                case LeaseExpired(lease=lease):
                    assert self.live[lease].expires <= self.now
                    self.expired[lease] = self.live.pop(lease)
                case Refused(item=item, number=number):
                    assert self.waiting.pop(item) == number
                    assert self.may_serve(item, event.provider) <= self.disabled
                case _:
                    self.take_key_event(event)

    def take_key_event(self, event: PoolEvent) -> None:
        match event:
            case RateLimited(key=key, until=until) | QuotaExhausted(key=key, until=until):
                self.rest(key, until)
            case KeyRecovered(key=key):
                if event.reason == "cooldown is over":
                    assert self.resting[key] <= self.now
                self.resting.pop(key, None)
                self.disabled.discard(key)
            case KeyDisabled(key=key):
                assert key not in self.disabled
                self.disabled.add(key)
            case InFlightChanged(key=key, before=before, limit=limit):
                assert before == self.limits[key]
                self.limits[key] = limit
            case _:
                pass

    def granted(self, event: Leased) -> None:
        assert self.waiting.pop(event.item) == event.number, "given to one who does not wait"
        assert event.lease > self.last_lease, "a lease given twice"
        self.last_lease = event.lease
        assert event.key in self.may_serve(event.item, event.provider), "a key that its machine does not have"
        assert event.key not in self.disabled
        assert self.resting.get(event.key, self.now) <= self.now, "a lease on a resting key"
        self.live[event.lease] = event
        held = [*self.live.values(), *self.expired.values()]
        assert sum(one.key == event.key for one in held) <= self.limits[event.key]
        for name, amount in (("rpm", 1.0), ("tpm", float(event.tokens))):
            shadow = self.shadow(event, name)
            if shadow is not None:
                shadow.refill(self.now)
                assert shadow.allows(amount, whole=name == "tpm"), name
                shadow.level -= amount
                shadow.charged += 1

    def may_serve(self, item: str | None, provider: str) -> set[str]:
        keys = {one.id for one in self.keys.values() if one.provider == provider}
        only = self.only[item or ""]
        return keys if only is None else keys & only

    def members(self, key: str) -> list[KeySpec]:
        spec = self.keys[key]
        if spec.quota_group is None:
            return [spec]
        return [
            one
            for one in self.keys.values()
            if (one.provider, one.quota_group) == (spec.provider, spec.quota_group)
        ]

    def rest(self, key: str, until: float) -> None:
        for one in self.members(key):
            self.resting[one.id] = max(until, self.resting.get(one.id, until))

    def shadow(self, given: Leased, name: str) -> Shadow | None:
        members = self.members(given.key)
        named = (members[0].id, given.model, name)
        if named not in self.shadows:
            values = [getattr(one, name) for one in members if getattr(one, name) is not None]
            if not values:
                return None
            rate = min(values) / 60.0
            bursts = [one.burst for one in members if one.burst is not None]
            rpms = [one.rpm for one in members if one.rpm is not None]
            capacity = float(min(bursts)) if bursts else max(1.0, rate)
            if name == "tpm":
                capacity = rate * (min(bursts) * 60.0 / min(rpms) if bursts and rpms else 6.0)
            self.shadows[named] = Shadow(rate, max(1.0, capacity), max(1.0, capacity), self.now)
        return self.shadows[named]


def _run(examples: int) -> None:
    run_state_machine_as_test(
        PoolMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            derandomize=True,
            deadline=None,
            # To explain a failure, every line of every example would be traced: ten times slower.
            phases=tuple(one for one in Phase if one is not Phase.explain),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("examples", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_any_sequence_of_events(examples: int) -> None:
    _run(examples)


@pytest.mark.chaos
@pytest.mark.timeout(1_800)
def test_any_sequence_of_events_at_length() -> None:
    _run(2_000)
