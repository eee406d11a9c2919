"""The live state of the key pool: keys, waiting requests, leases, and the order of requests. Pure."""

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agentos.credentials.key_state import (
    CAPACITY,
    SLOTS_FIRST,
    SLOTS_MOST,
    WEIGHT,
    Blocker,
    Cooldown,
    Group,
    Key,
    KeySpec,
    TokenEstimate,
)
from agentos.credentials.quota import Cost, Quota, QuotaPlan
from agentos.credentials.ticks import tick
from agentos.events.asker import Asker
from agentos.events.keys import Leased
from agentos.lease import LeaseNumber

ATTEMPTS_REMEMBERED = 2_000  # ended attempts; the oldest are forgotten first

KeySet = frozenset[str] | None  # ids of the keys that may serve a request; None: every key of the provider


@dataclass(slots=True, eq=False)
class Ask:
    """A waiting request of an item."""

    asker: Asker
    number: int
    tokens: int
    queue: "Queue"
    order: int
    since: float
    lease_seconds: float

    @property
    def model_state(self) -> "ModelState":
        return self.queue.model_state


@dataclass(slots=True, eq=False)
class Queue:
    """Requests for one model that the same keys may serve, in order."""

    model_state: "ModelState"
    key_ids: KeySet
    keys: list[Key]
    asks: OrderedDict[int, Ask] = field(default_factory=OrderedDict)  # by order

    def head(self) -> Ask:
        return next(iter(self.asks.values()))


@dataclass(slots=True, eq=False)
class ModelState:
    """One model of one provider: its queues, its overload, the usual size and duration of its calls."""

    provider: str
    model: str
    keys: list[Key]
    queues: dict[KeySet, Queue] = field(default_factory=dict)  # only those with waiting requests
    cooldown: Cooldown = field(default_factory=Cooldown)
    estimate: TokenEstimate = field(default_factory=TokenEstimate)
    seconds: float | None = None  # mean of a call

    def queue(self, key_ids: KeySet) -> Queue:
        found = self.queues.get(key_ids)
        if found is None:
            keys = self.keys if key_ids is None else [key for key in self.keys if key.spec.id in key_ids]
            found = self.queues[key_ids] = Queue(self, key_ids, keys)
        return found

    def took(self, seconds: float) -> None:
        self.seconds = seconds if self.seconds is None else self.seconds + WEIGHT * (seconds - self.seconds)

    def turns(self) -> "list[Turn]":
        """Return the queues, longest waiting first, each with the keys that no older request waits for.

        A younger request must not get a key that an older one waits for, or large calls would never go out.
        """
        if len(self.queues) == 1:
            return [Turn(queue, queue.keys) for queue in self.queues.values()]
        turns: list[Turn] = []
        wanted: set[Key] = set()
        for queue in sorted(self.queues.values(), key=order):
            turns.append(Turn(queue, [key for key in queue.keys if key not in wanted]))
            wanted.update(queue.keys)
        return turns


class Turn(NamedTuple):
    """A queue, and the keys that its first request may use."""

    queue: Queue
    keys: list[Key]


@dataclass(slots=True, eq=False)
class Lease:
    """The right to make one call."""

    number: LeaseNumber
    asker: Asker
    call: int
    key: Key
    model_state: ModelState
    asked: int
    cost: Cost
    grant: int  # its number in the budget
    since: float
    waited: float  # seconds, before it was granted
    expires: float

    @property
    def budget(self) -> Quota:
        """What its call is charged to; another one, if models began to share their limits meanwhile."""
        return self.key.group.budget(self.model_state.model, self.since)

    def leased(self) -> Leased:
        """Return the event that granted it; the same event if the request is repeated."""
        return Leased(
            at=self.since,
            item=self.asker.item,
            asker=self.asker,
            number=self.call,
            lease=self.number,
            key=self.key.spec.id,
            provider=self.model_state.provider,
            model=self.model_state.model,
            tokens=round(self.cost.tokens),
            waited=self.waited,
            expires=self.expires,
        )


def order(queue: Queue) -> int:
    """Return the position of a queue's first request among all requests."""
    return queue.head().order


def model_blocker(model_state: ModelState, now: float) -> Blocker | None:
    """Return what blocks every call to a model."""
    blocked = model_state.cooldown.blocked_until(now, int(SLOTS_MOST))
    return None if blocked is None else Blocker(CAPACITY, blocked)


class PoolState:
    """The pool's whole state."""

    def __init__(self, keys: Sequence[KeySpec]) -> None:
        self.now = -math.inf  # the latest time passed in
        self.last_lease: LeaseNumber = 0
        self.last_ask = 0
        self.keys: dict[str, Key] = {}
        self.groups: dict[tuple[str, str], Group] = {}
        self.by_provider: dict[str, list[Key]] = {}
        self.models: dict[tuple[str, str], ModelState] = {}
        self.asks: dict[tuple[str, str], Ask] = {}  # by run and item
        self.leases: dict[LeaseNumber, Lease] = {}  # alive
        self.expired: dict[LeaseNumber, Lease] = {}  # still counted as in flight until the attempt is dropped
        self.held: dict[Asker, dict[LeaseNumber, Lease]] = {}  # alive and expired
        self.over: dict[tuple[str, str], int] = {}  # the last attempt that is over, by run and item
        self._expiries: list[tuple[float, int]] = []  # a heap; may name leases that have ended
        for spec in keys:
            self._add(spec)
        for group in self.groups.values():
            group.plan = _plan([key.spec for key in group.keys])
        self.forget_pace()

    def forget_pace(self) -> None:
        """Forget how many calls at once went well, and refusals in a row; both may be long ago."""
        for group in self.groups.values():
            group.cooldown.strikes = 0
            for key in group.keys:
                key.slots = SLOTS_MOST if group.plan.rpm or group.plan.tpm else SLOTS_FIRST
                key.fast = True

    def try_again(self, keys: Iterable[str], now: float, *, alone: bool) -> None:
        """Let one call find out whether a person has ended what these keys wait for.

        Only where no server said until when. An overload that other runs know about is left to them.
        """
        groups = {id(group): group for key in keys for group in [self.keys[key].group]}
        ended = [group.cooldown for group in groups.values() if group.cooldown.is_repairable]
        if alone:
            ended += [one.cooldown for one in self.models.values() if not one.cooldown.told]
        for cooldown in ended:
            if cooldown.until is not None:
                cooldown.wake(tick(now))

    def model_state(self, provider: str, model: str) -> ModelState:
        found = self.models.get((provider, model))
        if found is None:
            found = ModelState(provider, model, self.by_provider[provider])
            self.models[provider, model] = found
        return found

    def add_ask(self, ask: Ask) -> None:
        self.asks[ask.asker.work] = ask
        ask.queue.asks[ask.order] = ask

    def remove_ask(self, ask: Ask) -> None:
        del self.asks[ask.asker.work]
        del ask.queue.asks[ask.order]
        if not ask.queue.asks:
            del ask.model_state.queues[ask.queue.key_ids]

    def add_lease(self, lease: Lease, *, expired: bool = False) -> None:
        """Add a lease; its call counts as in flight."""
        lease.key.in_flight += 1
        lease.key.group.cooldown.given(lease.number)
        lease.model_state.cooldown.given(lease.number)
        self.held.setdefault(lease.asker, {})[lease.number] = lease
        if expired:
            self.expired[lease.number] = lease
        else:
            self.leases[lease.number] = lease
            heapq.heappush(self._expiries, (lease.expires, lease.number))

    def remove_lease(self, lease: Lease) -> None:
        self.leases.pop(lease.number, None)
        self.expired.pop(lease.number, None)
        held = self.held[lease.asker]
        del held[lease.number]
        if not held:
            del self.held[lease.asker]
        lease.key.in_flight -= 1
        lease.key.group.cooldown.returned(lease.number)
        lease.model_state.cooldown.returned(lease.number)

    def next_expiry(self) -> Lease | None:
        """Return the lease that is the first to expire."""
        expiries, leases = self._expiries, self.leases
        while expiries and expiries[0][1] not in leases:
            heapq.heappop(expiries)
        return leases[expiries[0][1]] if expiries else None

    def expire(self, lease: Lease) -> None:
        self.expired[lease.number] = self.leases.pop(lease.number)

    def is_over(self, asker: Asker) -> bool:
        """Return whether a later attempt has begun, or this one is known to be gone."""
        return asker.attempt <= self.over.get(asker.work, 0)

    def end_attempts(self, work: tuple[str, str], last: int) -> None:
        """Note that all attempts up to this one are over."""
        if last > self.over.get(work, 0):
            self.over.pop(work, None)  # so that the latest entry comes last
            self.over[work] = last
            if len(self.over) > ATTEMPTS_REMEMBERED:
                del self.over[next(iter(self.over))]

    def _add(self, spec: KeySpec) -> None:
        if spec.id in self.keys:
            raise ValueError(f"two keys have the id {spec.id}")
        # A key without a group must not join a group that happens to have its name.
        named = (spec.provider, spec.quota_group) if spec.quota_group else (spec.provider, f"={spec.id}")
        name = spec.quota_group or spec.id
        group = self.groups.setdefault(named, Group(spec.provider, name, QuotaPlan()))
        key = self.keys[spec.id] = Key(spec, group)
        group.keys.append(key)
        self.by_provider.setdefault(spec.provider, []).append(key)


def _plan(specs: Sequence[KeySpec]) -> QuotaPlan:
    """Return the limits of a group: the lowest that any key names, because all keys share them."""

    def lowest(name: str) -> float | None:
        return min((value for spec in specs if (value := getattr(spec, name)) is not None), default=None)

    burst = lowest("burst")
    return QuotaPlan(
        rpm=lowest("rpm"),
        tpm=lowest("tpm"),
        rpd=lowest("rpd"),
        burst=None if burst is None else int(burst),
        gentle=any(spec.gentle for spec in specs),
        per_model=all(spec.per_model or not spec.is_limited for spec in specs),
    )
