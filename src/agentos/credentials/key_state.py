"""The live state of each key and quota group, and what blocks a call. Part of `pool_state`. Pure."""

import copy
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from agentos.credentials.headers import Limit
from agentos.credentials.pace_guess import PaceGuess
from agentos.credentials.quota import Cost, Quota, QuotaPlan
from agentos.credentials.sharing import Sharing, same_limits
from agentos.lease import LeaseNumber
from agentos.model import CallError

SLOTS_FIRST = 10.0  # calls that a key may have in flight before anything is known
SLOTS_MOST = 64.0  # also the start for a key with configured limits: its budget does the pacing
RAMP_SECONDS = 1.0  # after a cooldown, one more call in flight per interval, plus one per success
WEIGHT = 0.05  # of the latest call in a running mean, once there are enough calls
TOKENS_MOST = 10**9  # of one call
SPREAD_FIRST = 0.5  # share by which a call may exceed its estimate, before any call was seen
SPREAD_MOST = 1.0
RATIO_LEAST, RATIO_MOST = 0.01, 100.0
CAPACITY = "capacity"  # blockers that are not a state of a key
RAMPING_UP = "ramping up"


class KeyState(StrEnum):
    """The state of a key."""

    AVAILABLE = "available"  # can take a call now, if its budget has room
    RESERVED = "reserved"  # it has as many calls in flight as it may have
    RATE_LIMITED = "rate_limited"  # the API refused a call; not used until a given time
    QUOTA_EXHAUSTED = "quota_exhausted"  # its quota is used up; not used until the reset
    DISABLED = "disabled"  # rejected by the provider; not used until a person enables it


UNUSABLE = frozenset({KeyState.RATE_LIMITED, KeyState.QUOTA_EXHAUSTED, KeyState.DISABLED})


@dataclass(frozen=True, kw_only=True)
class KeySpec:
    """One key as configured. The limits are those of its quota group."""

    id: str
    provider: str
    quota_group: str | None = None  # None: the key is its own group
    rpm: float | None = None
    tpm: float | None = None
    rpd: float | None = None
    burst: int | None = None
    max_in_flight: int | None = None  # None: adaptive
    gentle: bool = False  # start slowly while no limit is known
    per_model: bool = True  # whether each model has the configured limits, or all models together

    @property
    def is_limited(self) -> bool:
        """Whether any limit is configured."""
        return not (self.rpm is self.tpm is self.rpd is None)

    def __post_init__(self) -> None:
        for name in ("rpm", "tpm", "rpd", "burst", "max_in_flight"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"key {self.id}: {name} must be a positive number, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """The result of one leased call. After an error, 0 tokens means that the number is unknown."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0  # the part of tokens_in that was read from a cache
    tokens_exempt: int = 0  # the part of tokens_in that the provider's limits do not count
    error: CallError | None = None
    retry_after: float | None = None  # seconds, as the server says
    quota_reset: float | None = None  # seconds until the quota resets
    headers: Mapping[str, str] = field(default_factory=dict)  # lower case
    limits: Mapping[Limit, float] = field(default_factory=dict)  # that a refusal names

    @property
    def limited_in(self) -> int:
        """The tokens sent that the provider's limits count."""
        return max(0, self.tokens_in - self.tokens_exempt)


def token_count(value: int) -> int:
    """Return a token count within bounds, whatever a worker sent."""
    return min(max(0, value), TOKENS_MOST)


def usable_delay(value: float | None, longest: float) -> float | None:
    """Return a valid delay, cut to the longest, or None."""
    if value is None or not math.isfinite(value) or value <= 0:
        return None
    return min(float(value), longest)


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Doubling delays. The jitter depends on who waits, so that two never retry at the same moment."""

    first: float
    last: float
    jitter: float = 0.2  # share of the delay, on top of it

    def delay(self, strikes: int, who: str) -> float:
        base = min(self.last / (1.0 + self.jitter), self.first * 2.0 ** min(strikes - 1, 32))
        share = (zlib.crc32(f"{who}#{strikes}".encode()) % 1000) / 1000.0
        return base * (1.0 + self.jitter * share)


@dataclass(slots=True)
class Cooldown:
    """A stop until a given time and the slow start after it, for a quota group or an overloaded model."""

    until: float | None = None
    state: KeyState = KeyState.RATE_LIMITED
    told: bool = True  # the server said until when; if not, a person may end the cause at any time
    strikes: int = 0  # stops in a row without a success in between
    fence: LeaseNumber = 0  # leases up to this number were granted before the stop and say nothing about it
    woke: float | None = None
    opened: int = 0  # successes since it ended
    out: int = 0  # calls in flight that were granted after the fence

    def is_news(self, lease: LeaseNumber) -> bool:
        return lease > self.fence

    def begin(self, until: float, last_lease: LeaseNumber) -> None:
        self.until = until
        self.fence = last_lease
        self.out = 0
        self.woke = None

    def wake(self, now: float) -> None:
        self.until = None
        self.woke = now
        self.opened = 0

    @property
    def is_repairable(self) -> bool:
        """Whether waiting alone will not help: the account has no credit, or no quota at all."""
        return self.state is KeyState.QUOTA_EXHAUSTED and not self.told

    def clear(self) -> None:
        self.until = self.woke = None
        self.strikes = 0

    def given(self, lease: LeaseNumber) -> None:
        if lease > self.fence:
            self.out += 1

    def returned(self, lease: LeaseNumber) -> None:
        if lease > self.fence:
            self.out -= 1

    def succeeded(self, lease: LeaseNumber) -> bool:
        """Count a success; return whether it ends a row of stops."""
        if not self.is_news(lease):
            return False
        ends = self.strikes > 0
        self.strikes = 0
        self.opened += 1
        return ends

    def blocked_until(self, now: float, call_limit: int) -> float | None:
        """Return when one more call may go, or None if it may go now. `call_limit` ends the slow start."""
        if self.until is not None:
            return self.until if self.until > now else None
        if self.woke is None:
            return None
        if self.is_repairable and not self.opened:
            # One call finds out whether a person has ended the cause; the others wait for its answer.
            return now + RAMP_SECONDS if self.out else None
        steps = int((now - self.woke) / RAMP_SECONDS + 1e-6)
        allowed = 1 + self.opened + steps
        if allowed >= call_limit or self.out < allowed:
            return None
        return self.woke + (self.out - self.opened) * RAMP_SECONDS


@dataclass(slots=True)
class Group:
    """Keys that share one set of limits."""

    provider: str
    name: str
    plan: QuotaPlan
    keys: list["Key"] = field(default_factory=list)
    cooldown: Cooldown = field(default_factory=Cooldown)
    budgets: dict[str, Quota] = field(default_factory=dict)  # by model; all the same one if they share it
    halved_at: float = -math.inf
    sharing: Sharing = field(default_factory=Sharing)

    @property
    def is_shared(self) -> bool:
        """Whether all models use one budget."""
        return self.sharing.shared_until is not None or not (self.plan.per_model or self.sharing.apart)

    def budget(self, model: str, now: float) -> Quota:
        found = self.budgets.get(model)
        if found is None:
            shared = next(iter(self.budgets.values()), None) if self.is_shared else None
            found = self.budgets[model] = shared or Quota(self.plan, now, self._guess(now))
        return found

    def _guess(self, now: float) -> PaceGuess | None:
        """Return the pace that is being guessed for all models without a known limit."""
        if not self.plan.gentle:
            return None
        return next((one.guess for one in self.budgets.values() if one.guess), PaceGuess(since=now))

    def refused(self, mine: Quota, now: float) -> bool:
        """Note a refusal of a model that nothing explains; return whether it seems to share its limits."""
        others = (one for one in self.budgets.values() if one is not mine and one.is_in_use(now))
        if not mine.is_paced or not any(same_limits(mine.limits(), one.limits()) for one in others):
            return False
        return self.sharing.doubt(now)

    def share(self, now: float) -> None:
        """Let all models have one budget, unless the limits of those in use differ."""
        known = [one.limits() for one in self.budgets.values() if one.limits() and one.is_in_use(now)]
        if self.is_shared or not all(same_limits(limits, known[0]) for limits in known):
            return
        self.sharing.believe(now)
        self._unite(now)

    def _unite(self, now: float) -> None:
        """Let all models use the budget that was used last, of those with limits."""
        budgets = sorted(
            dict.fromkeys(self.budgets.values()), key=lambda one: (not one.limits(), -one.charged_at)
        )
        for other in budgets[1:]:
            budgets[0].join(other, now)
        if budgets:
            self.budgets = dict.fromkeys(self.budgets, budgets[0])

    def separate(self) -> None:
        """Let each model use a budget of its own again, if it may have one."""
        self.sharing.shared_until = None
        for model, budget in self.budgets.items() if not self.is_shared else ():
            self.budgets[model] = own = copy.deepcopy(budget)
            own.guess = budget.guess

    def told(self, model: str, limits: Mapping[Limit, float], now: float) -> None:
        """Note the limits that the server named for a model."""
        before = self.is_shared
        self.sharing.named(model, limits, now)
        if before and self.sharing.apart:
            self.separate()
        elif self.is_shared and not before:
            self._unite(now)

    def renew(self, now: float) -> None:
        """Reset the daily counts."""
        for budget in self.budgets.values():
            budget.renew(now)

    @property
    def key_ids(self) -> tuple[str, ...]:
        return tuple(key.spec.id for key in self.keys)

    def call_limit(self) -> int:
        return sum(key.call_limit for key in self.keys if key.disabled is None)


@dataclass(slots=True, eq=False)
class Key:
    """One key in use."""

    spec: KeySpec
    group: Group
    slots: float = SLOTS_FIRST  # adaptive; rounded down to whole calls
    fast: bool = (
        True  # grows by one per success, until a refusal that no known limit explains; then by one per round
    )
    in_flight: int = 0
    disabled: str | None = None
    disabled_at: float | None = None
    calls: int = 0
    rate_limited: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    last_lease: LeaseNumber = 0

    @property
    def call_limit(self) -> int:
        return self.spec.max_in_flight or int(self.slots)

    def disable(self, reason: str, at: float) -> None:
        self.disabled, self.disabled_at = reason, at

    def enable(self) -> None:
        self.disabled = self.disabled_at = None

    def grow(self) -> None:
        """Allow more calls in flight, if those allowed are used."""
        if self.spec.max_in_flight is None and self.in_flight * 2 >= int(self.slots):
            self.slots = min(SLOTS_MOST, self.slots + (1.0 if self.fast else 1.0 / self.slots))

    def halve(self, *, explained: bool) -> None:
        self.fast = explained
        if self.spec.max_in_flight is None:
            self.slots = max(1.0, self.slots / 2.0)

    def state(self, now: float) -> KeyState:
        if self.disabled is not None:
            return KeyState.DISABLED
        if self.group.cooldown.until is not None and self.group.cooldown.until > now:
            return self.group.cooldown.state
        return KeyState.AVAILABLE if self.in_flight < self.call_limit else KeyState.RESERVED


@dataclass(slots=True)
class TokenEstimate:
    """How many tokens calls really take compared to what was asked for, as running means."""

    total: float = 1.0
    share_in: float = 1.0
    share_out: float = 1.0
    spread: float = SPREAD_FIRST
    tokens: float = 0.0  # mean of a call
    calls: int = 0

    def cost(self, tokens: int) -> Cost:
        return Cost(1.0, tokens * self.total, tokens * self.share_in, tokens * self.share_out, self.spread)

    def mean(self) -> Cost:
        whole = self.total or 1.0
        return Cost(
            1.0, self.tokens, self.tokens * self.share_in / whole, self.tokens * self.share_out / whole
        )

    def learn(self, asked: int, tokens_in: int, tokens_out: int) -> None:
        if asked <= 0 or tokens_in + tokens_out <= 0:
            return
        # The estimate that came with the call counts as the first call seen.
        weight = max(WEIGHT, 1.0 / (self.calls + 2))
        off = abs(tokens_in + tokens_out - asked * self.total) / (asked * self.total)
        self.spread += weight * (min(SPREAD_MOST, 2.0 * off) - self.spread)
        self.total = _mean(self.total, (tokens_in + tokens_out) / asked, weight)
        self.share_in = _mean(self.share_in, tokens_in / asked, weight)
        self.share_out = _mean(self.share_out, tokens_out / asked, weight)
        self.tokens += (weight if self.calls else 1.0) * (tokens_in + tokens_out - self.tokens)
        self.calls += 1


def _mean(before: float, ratio: float, weight: float) -> float:
    return before + weight * (min(RATIO_MOST, max(RATIO_LEAST, ratio)) - before)


class Blocker(NamedTuple):
    """What blocks a call with a key, and until when if only time is needed."""

    kind: str
    until: float | None


def key_blocker(key: Key, model: str, cost: Cost, now: float) -> Blocker | None:
    """Return what blocks a call with this key. A blocker that time alone does not clear comes first."""
    cooldown = key.group.cooldown
    if key.disabled is not None:
        return Blocker(KeyState.DISABLED, None)
    if cooldown.until is not None and cooldown.until > now:
        return Blocker(cooldown.state, cooldown.until)
    if key.in_flight >= key.call_limit:
        return Blocker(KeyState.RESERVED, None)
    if (
        cooldown.woke is not None
        and (step := cooldown.blocked_until(now, key.group.call_limit())) is not None
    ):
        return Blocker(RAMPING_UP, step)
    room = key.group.budget(model, now).room_at(cost, now)
    return Blocker(f"{room.limit} budget", room.at) if room.at > now else None
