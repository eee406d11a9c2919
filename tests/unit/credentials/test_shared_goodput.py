"""Several runs on the same keys against a provider's true limit, in simulated time."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from agentos.credentials.bucket import Bucket
from agentos.credentials.pool import KeySpec
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import Leased
from agentos.model import CallError
from unit.credentials.shared_kit import Rows, SharingRun

KEYS = 4
ITEMS = 10  # of each run, all at once
CALL_SECONDS = 0.3
TURN_SECONDS = 0.004  # that a loop takes to act on what it sees


@dataclass
class Simulation:
    """A provider that knows what each key is allowed, and runs that call it as fast as they may."""

    runs: int
    rate: float  # calls per second and key
    burst: int
    rows: Rows = field(default_factory=Rows)
    served: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    back: list[tuple[float, int, str, Leased, bool]] = field(default_factory=list)  # calls in flight

    def __post_init__(self) -> None:
        specs = [
            KeySpec(id=f"key-{number}", provider="open", rpm=self.rate * 60, burst=self.burst)
            for number in range(1, KEYS + 1)
        ]
        names = [f"run-{number}" for number in range(self.runs)]
        self.sharing = {name: SharingRun(self.rows, name, *specs) for name in names}
        self.turns = dict.fromkeys(names, self.rows.now)  # when each loop turns next
        self.buckets = {
            spec.id: Bucket(rate=self.rate, capacity=self.burst, now=self.rows.now) for spec in specs
        }
        self.began = self.rows.now
        for number in range(ITEMS):
            for name in names:
                self._ask(name, f"LLD-{number}", 1)

    def run(self, seconds: float) -> None:
        end = self.rows.now + seconds
        while self.rows.now < end:
            for name in [name for name, at in self.turns.items() if at <= self.rows.now]:
                self._turn(name)
            for at, _, name, *_ in self.back:
                if name in self.turns:
                    self.turns[name] = min(self.turns[name], max(at, self.rows.now + TURN_SECONDS))
            self.rows.now = min(self.turns.values())

    def kill(self, name: str) -> None:
        self.rows.dead.add(name)
        del self.turns[name]

    @property
    def goodput(self) -> float:
        allowed = KEYS * (self.burst + self.rate * (self.rows.now - self.began))
        return self.served.total() / allowed

    @property
    def refused_share(self) -> float:
        return self.refused / (self.served.total() + self.refused)

    def _turn(self, name: str) -> None:
        mine = sorted(call for call in self.back if call[2] == name and call[0] <= self.rows.now)
        self.back = [call for call in self.back if call not in mine]
        for _, _, _, lease, served in mine:
            result = {} if served else {"error": CallError.RATE_LIMITED, "retry_after": 0.5}
            self._send(name, self.sharing[name].settle(lease, **result))
            self._ask(name, lease.item or "", lease.number + 1)
        self._send(name, self.sharing[name].advance())
        wake = self.sharing[name].pool.next_wake(self.rows.now)
        later = self.rows.now + TURN_SECONDS
        self.turns[name] = later + 1.0 if wake is None else max(later, wake)

    def _ask(self, name: str, item: str, number: int) -> None:
        pool = self.sharing[name].pool
        pool.request(item=item, attempt=1, number=number, provider="open", model="m", tokens=9)

    def _send(self, name: str, events: Iterable[PoolEvent]) -> None:
        """Make the calls that were granted, now: maybe later than another run granted them."""
        now = self.rows.now
        for event in events:
            if isinstance(event, Leased):
                bucket = self.buckets[event.key]
                served = bucket.level(now) >= 1.0
                if served:
                    bucket.take(1.0, now)
                    self.served[name] += 1
                else:
                    self.refused += 1
                heapq.heappush(self.back, (now + CALL_SECONDS, event.lease, name, event, served))


@pytest.mark.parametrize(
    ("runs", "rate", "burst", "least"),
    # With a burst of one, a run alone gets no more than this either: its pace leaves room for late calls.
    [(1, 4, 4, 0.95), (2, 4, 4, 0.95), (5, 4, 4, 0.95), (5, 1, 1, 0.92)],
)
def test_all_runs_together_use_the_limit_and_stay_below_it(
    runs: int, rate: float, burst: int, least: float
) -> None:
    simulation = Simulation(runs, rate, burst)
    simulation.run(30)
    assert simulation.goodput >= least
    assert simulation.refused_share < 0.02
    assert min(simulation.served.values()) >= 0.7 * simulation.served.total() / runs


@pytest.mark.slow
def test_a_killed_run_costs_the_others_nothing() -> None:
    simulation = Simulation(5, 4, 4)
    simulation.run(10)
    simulation.kill("run-0")
    simulation.run(20)
    assert simulation.goodput >= 0.95
    assert simulation.refused_share < 0.02
    alive = [simulation.served[f"run-{number}"] for number in range(1, 5)]
    assert min(alive) >= 0.8 * sum(alive) / 4
    assert simulation.served["run-0"] < min(alive)
