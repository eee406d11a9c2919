"""A simulation of the key pool in PostgreSQL beyond what can be measured: up to 1,000 machines, 10,000 keys.

Discrete events, one seed, no clock: the same figures on every machine. See docs/design/scale.md.

A worker asks for a lease, calls for some seconds, settles, and pauses. Its submitter sends what its workers
want to a row, in transactions that the row serves one by one. A transaction loads, changes and saves the
whole row, so it takes longer the more keys the row has. Each row gives leases at the rate of its keys.
"""

import heapq
import random
import statistics
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

# Measured with benchmarks/postgres.py: the processor's part of a transaction after another run's.
BASE_SECONDS = 0.0006
SAVE_SECONDS = 0.00002  # per key in the row
LOAD_SECONDS = 0.000065  # per key, if another submitter wrote the row since
OPERATION_SECONDS = 0.00005  # per request or settlement in the transaction
# Assumed: machines in one region, a disk that keeps what it says, and a server with some cores.
ROUND_TRIP = 0.0005
FLUSH_SECONDS = 0.001
COMMIT_SECONDS = 0.0002  # of the server as a whole, for any row; a commit with NOTIFY is one at a time

WORKERS = 20  # per machine
CALL_SECONDS = 20.0
THINK_SECONDS = 1.0
KEY_RATE = 1.0  # calls per second: 60 rpm
KEY_BURST = 1.0  # calls at once
GROUP_KEYS = 10  # keys in a quota group, and in a row that has one group
SHARD_KEYS = 100  # keys in a row that has ten groups
WARM_SECONDS = 40.0
SECONDS = 40.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is simulated."""

    machines: int
    keys: int
    submitters: int
    shards: int = 1
    batches: bool = False  # settlements go together; as built, one settlement and all requests do
    choices: int = 1  # rows of which a request takes the one with the shortest wait

    @property
    def hold(self) -> float:
        """How long a transaction has the row, without its requests and settlements."""
        per_key = SAVE_SECONDS + (LOAD_SECONDS if self.submitters > 1 else 0.0)
        return ROUND_TRIP + FLUSH_SECONDS + BASE_SECONDS + per_key * self.keys / self.shards


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came out of it."""

    leases: float  # per second
    possible: float  # the same if asking took no time
    p50: float  # seconds from the request to the lease
    p99: float
    busy: float  # share of the time in which the busiest row was locked


@dataclass(eq=False)
class Worker:
    """One worker; its lease belongs to a shard."""

    submitter: int
    shard: int = 0
    asked: float = 0.0


@dataclass(eq=False)
class Shard:
    """One row. `next_lease` is when its keys allow the next call."""

    rate: float
    next_lease: float = 0.0
    locked: bool = False
    waiting: deque["list[tuple[Worker, bool]]"] = field(default_factory=deque)
    busy: float = 0.0


class Simulation:
    """One run of the simulation."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._random = random.Random(1)
        self._now = 0.0
        self._order = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        rate = KEY_RATE * setting.keys / setting.shards
        self._shards = [Shard(rate) for _ in range(setting.shards)]
        self._queues: dict[tuple[int, int], list[tuple[Worker, bool]]] = {}  # by submitter and row
        self._sent: set[tuple[int, int]] = set()  # those with a transaction under way
        self._server_free = 0.0
        self._delays: list[float] = []

    def run(self) -> Result:
        for machine in range(self._setting.machines):
            for _ in range(WORKERS):
                worker = Worker(machine % self._setting.submitters)
                start = self._random.uniform(0, CALL_SECONDS)
                self._at(start, lambda worker=worker: self._ask(worker))
        while self._events and self._events[0][0] < WARM_SECONDS + SECONDS:
            self._now, _, act = heapq.heappop(self._events)
            act()
        workers = self._setting.machines * WORKERS
        demand = workers / (CALL_SECONDS + THINK_SECONDS)
        delays = sorted(self._delays) or [0.0]
        return Result(
            leases=len(self._delays) / SECONDS,
            possible=min(demand, KEY_RATE * self._setting.keys),
            p50=statistics.median(delays),
            p99=delays[int(len(delays) * 0.99)],
            busy=max(shard.busy for shard in self._shards) / SECONDS,
        )

    def _at(self, time: float, act: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (time, self._order, act))

    def _ask(self, worker: Worker) -> None:
        worker.asked = self._now
        found = [self._random.randrange(self._setting.shards) for _ in range(self._setting.choices)]
        worker.shard = min(found, key=lambda number: self._shards[number].next_lease)
        self._want(worker, asks=True)

    def _want(self, worker: Worker, *, asks: bool) -> None:
        place = (worker.submitter, worker.shard)
        self._queues.setdefault(place, []).append((worker, asks))
        if place not in self._sent:
            self._send(place)

    def _send(self, place: tuple[int, int]) -> None:
        """Send what a submitter wants of a row, in one transaction."""
        batch, rest = self._queues[place], list[tuple[Worker, bool]]()
        if not self._setting.batches:
            settlements = [one for one in batch if not one[1]]
            batch, rest = [one for one in batch if one[1]] + settlements[:1], settlements[1:]
        self._queues[place] = rest
        self._sent.add(place)
        shard = self._shards[place[1]]
        shard.waiting.append(batch)
        if not shard.locked:
            self._lock(shard)

    def _lock(self, shard: Shard) -> None:
        """Serve the next transaction of a row. Its commit waits for the server's other commits."""
        shard.locked = True
        batch = shard.waiting.popleft()
        done = self._now + self._setting.hold + OPERATION_SECONDS * len(batch)
        self._server_free = end = max(done, self._server_free) + COMMIT_SECONDS
        shard.busy += max(0.0, min(end, WARM_SECONDS + SECONDS) - max(self._now, WARM_SECONDS))
        self._at(end, lambda: self._commit(shard, batch))

    def _commit(self, shard: Shard, batch: "list[tuple[Worker, bool]]") -> None:
        for worker, asks in batch:
            if asks:
                # A request that waits is granted in a later transaction, whoever's: that costs no other one.
                full = self._now - KEY_BURST / KEY_RATE
                shard.next_lease = max(shard.next_lease, full) + 1 / shard.rate
                at = max(shard.next_lease, self._now)
                self._at(at + ROUND_TRIP / 2, lambda worker=worker: self._call(worker))
            else:
                pause = self._random.uniform(0, 2 * THINK_SECONDS)
                self._at(self._now + pause, lambda worker=worker: self._ask(worker))
        place = (batch[0][0].submitter, batch[0][0].shard)
        self._sent.discard(place)
        if self._queues[place]:
            self._send(place)
        shard.locked = False
        if shard.waiting:
            self._lock(shard)

    def _call(self, worker: Worker) -> None:
        if self._now >= WARM_SECONDS:
            self._delays.append(self._now - worker.asked)
        seconds = self._random.uniform(0.5, 1.5) * CALL_SECONDS
        self._at(self._now + seconds, lambda: self._want(worker, asks=False))


SIZES = ((10, 100), (100, 100), (100, 1_000), (1_000, 1_000), (1_000, 10_000))


def settings() -> Iterator[tuple[str, Setting]]:
    """Yield what the table of docs/design/scale.md shows."""
    for machines, keys in SIZES:
        one = Setting(machines=machines, keys=keys, submitters=1)
        yield "1 submitter, as built", one
        all_submit = replace(one, submitters=machines)
        yield "all submit, as built", all_submit
        yield "1 submitter, batches", replace(one, batches=True)
        batches = replace(all_submit, batches=True)
        yield "all submit, batches", batches
        if (shards := keys // SHARD_KEYS) > 1:
            yield f"all, batches, {shards} rows", replace(batches, shards=shards)
        groups = replace(batches, shards=keys // GROUP_KEYS)
        yield f"all, batches, {groups.shards} rows", groups
        if machines == keys:  # nearly all of what the keys allow is wanted
            yield "the same, better of two", replace(groups, choices=2)


def key_pool_at_scale() -> Iterator[str]:
    """Simulate all settings; print a table."""
    yield (
        f"{'machines':>8} {'keys':>6}  {'pool':<26} {'leases/s':>8} {'of':>5} {'p50':>9} {'p99':>9}"
        f" {'busiest row':>12}"
    )
    for name, setting in settings():
        found = Simulation(setting).run()
        yield (
            f"{setting.machines:>8,} {setting.keys:>6,}  {name:<26} {found.leases:>8.0f}"
            f" {found.possible:>5.0f} {found.p50 * 1000:>6.0f} ms {found.p99 * 1000:>6.0f} ms"
            f" {found.busy:>11.0%}"
        )


MEASUREMENTS = (key_pool_at_scale,)


if __name__ == "__main__":
    for line in key_pool_at_scale():
        print(line, flush=True)
