"""What a quota group can still take for one model: one bucket per limit, paced just below the limit. Pure."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agentos.credentials.bucket import Bucket
from agentos.credentials.headers import MAX_LIMIT, Limit, LimitHeaders
from agentos.credentials.pace_guess import PaceGuess, untold_wait
from agentos.credentials.refill import Refill
from agentos.credentials.ticks import tick_span

MARGIN = 0.005  # share of a limit left unused, because clocks differ
ARRIVAL_JITTER = 0.05  # seconds by which calls may arrive closer together than they were sent
JITTER_FIRST = 0.02  # the same where the burst has no room for it, so that it costs pace; it is learnt
JITTER_LEAST, JITTER_MOST = 0.004, 0.25
JITTER_STEP = 0.008  # seconds more at a refusal
JITTER_SHARE = 0.004  # of that step less at a success: so about this share of calls is refused
JITTER_START = 0.05  # seconds more for the first call, when connections are opened and workers start together
JITTER_FADES = 0.8  # what is left of that after each further call
TIGHT_STRIKES = 4  # refusals in a row that only uneven arrival explains, if the burst has no room for it
BURST_SECONDS = 1.0  # seconds of requests sent together, if no burst is configured
TOKEN_BURST_SECONDS = 6.0  # the same for tokens; larger, because one call may use many seconds of tokens
DAY = 86_400.0
LONGEST = 7 * DAY  # until one more call of a long limit
HOLD_LONGEST = 60.0  # seconds to hold back for "nothing remains" if the limit itself is unknown
EASE_STEP = 0.02  # share of the pace given up at a first refusal; doubles with each further one
EASE_STEP_MOST = 0.16
EASE_LEAST = 0.1
EASE_REGAINED = 0.002  # share of the pace regained per second while calls succeed
EASE_CREPT = 0.0002  # the same, close to the pace that was last refused
BURST_REGAINED = 0.01
BURST_LEAST = 0.05
QUIET = 60.0  # seconds without a refusal after which the next one counts as the first again
SIZE_ROUNDING = 0.1  # a learnt size may be this much short of a whole call
IN_USE = 30.0  # seconds since the last call
NEWS = 0.02  # a change of a learnt rate by less than this share is no news
HISTORY = 64  # calls remembered, to start a bucket as if its limit had been known from the beginning


class Cost(NamedTuple):
    """What one call uses of each kind of limit."""

    requests: float
    tokens: float
    tokens_in: float
    tokens_out: float
    spread: float = 0.0  # share by which the call may use more tokens

    def need(self, which: "Limit") -> float:
        """Return the room needed: more than what is charged, because a call may turn out larger."""
        field = _FIELD[which]
        return self[field] * (1.0 + self.spread) if field else self.requests


_FIELD = {Limit.RPM: 0, Limit.RPD: 0, Limit.TPM: 1, Limit.ITPM: 2, Limit.OTPM: 3}


@dataclass(frozen=True, kw_only=True)
class QuotaPlan:
    """The configured limits of a quota group."""

    rpm: float | None = None
    tpm: float | None = None
    rpd: float | None = None
    burst: int | None = None
    gentle: bool = False  # start slowly while no limit is known, and learn from refusals
    per_model: bool = True  # whether each model has these limits, or all models together

    def limits(self) -> dict[Limit, float]:
        given = {Limit.RPM: self.rpm, Limit.RPD: self.rpd, Limit.TPM: self.tpm}
        return {which: value for which, value in given.items() if value is not None}


class Sent(NamedTuple):
    """A call that went out."""

    at: float
    cost: Cost


class Room(NamedTuple):
    """When a budget has room, and which limit it waits for."""

    at: float
    limit: Limit | None


class Quota:
    """The limits of one quota group for one model.

    If a limit is both configured and learnt, the lower one counts. The configured one may be only a share of
    what the provider allows, and the provider never allows more than its own limit.
    """

    def __init__(self, plan: QuotaPlan, now: float, guess: PaceGuess | None = None) -> None:
        self.learnt: dict[Limit, float] = {}
        self.buckets: dict[Limit, Bucket] = {}
        self.grants = 0
        self._plan = plan
        self._configured = plan.limits()
        self.long_rate: float | None = None  # learnt refill rate of a limit longer than a minute
        self.sizes: dict[Limit, float] = {}  # learnt sizes of the server's buckets
        self.refills: dict[Limit, Refill] = {}
        self.charged_at = -math.inf
        self.guess = guess  # shared with the other models, while nobody knows any limit
        self.jitter = JITTER_FIRST
        self.answered = False
        self.history: deque[Sent] = deque(maxlen=HISTORY)  # calls before the first answer
        self.known_since = 0  # calls granted up to this number did not know the current limits
        self.held_until = float("-inf")
        self.held_for: Limit | None = None
        self.ease = 1.0
        self.refused_ease = 1.0  # the pace that was last refused
        self.burst_share = 1.0
        self.strikes = 0
        self.struck_at = float("-inf")
        self.eased_at = now
        self.pace(now)

    def limit(self, which: Limit) -> float | None:
        """Return the limit that counts."""
        known = [given[which] for given in (self._configured, self.learnt) if which in given]
        return min(known, default=None)

    def limits(self) -> Mapping[Limit, float]:
        if not self.learnt:
            return self._configured
        return {which: value for which in Limit if (value := self.limit(which)) is not None}

    def room_at(self, cost: Cost, now: float) -> Room:
        """Return when a call of this cost may go."""
        at, limit = now, None
        for which, bucket in self.buckets.items():
            ready = bucket.ready(cost.need(which), now)
            if ready > at:
                at, limit = ready, which
        if self.guess is not None and (ready := self.guess.ready(now)) > at:
            at, limit = ready, Limit.RPM
        if self.held_until > at:
            return Room(self.held_until, self.held_for)
        return Room(at, limit)

    def fullness(self, now: float) -> float:
        """Return how full the emptiest bucket is, from 0 to 1; debts are below 0."""
        return min((bucket.level(now) / bucket.capacity for bucket in self.buckets.values()), default=1.0)

    def calls_at_once(self, cost: Cost) -> float:
        """Return how many such calls fit into full buckets."""
        sizes = [
            bucket.capacity / cost[_FIELD[which]]
            for which, bucket in self.buckets.items()
            if cost[_FIELD[which]] > 0
        ]
        return min(sizes, default=0.0)

    def calls_per_second(self, cost: Cost) -> float | None:
        """Return how many such calls per second the limits allow in the long run, if any limit is known."""
        rates = [
            bucket.rate / cost[_FIELD[which]]
            for which, bucket in self.buckets.items()
            if cost[_FIELD[which]] > 0 and which is not Limit.RPD
        ]
        return min(rates, default=None)

    @property
    def is_paced(self) -> bool:
        """Whether limits per minute are known, so that the pace does not depend on the calls in flight."""
        return any(which is not Limit.RPD for which in self.buckets)

    def charge(self, cost: Cost, now: float) -> int:
        """Charge a call that goes out now; return its number in this budget."""
        for which, bucket in self.buckets.items():
            bucket.take(cost[_FIELD[which]], now)
        if self.guess is not None:
            self.guess.take(now)
        if not self.answered:
            self.history.append(Sent(now, cost))
        self.grants += 1
        self.charged_at = now
        if self.is_tight:
            self.pace(now)
        return self.grants

    def is_in_use(self, now: float) -> bool:
        return now - self.charged_at < IN_USE

    def join(self, other: "Quota", now: float) -> None:
        """Count the calls of another budget as well. Those in flight will be corrected here."""
        for which, bucket in self.buckets.items():
            theirs = other.buckets.get(which)
            if theirs is None:
                bucket.take(sum(sent.cost[_FIELD[which]] for sent in other.history), now)
            elif which is Limit.RPD:
                bucket.lower(theirs.level(now), now)  # both may have been one before, with one count
            else:
                bucket.take(theirs.capacity - theirs.level(now), now)
        self.history.extend(other.history)
        self.grants = self.known_since = max(self.grants, other.grants)

    def correct(self, charged: Cost, actual: Cost, now: float) -> None:
        """Replace what was charged with what the call really used."""
        for which, bucket in self.buckets.items():
            bucket.take(actual[_FIELD[which]] - charged[_FIELD[which]], now)

    def succeeded(self, now: float) -> None:
        """Regain pace for the time since the last refusal or success."""
        if not self.answered:
            # A provider that states its limits has done so now, and says with each answer what remains.
            self.answered = True
            self.history.clear()
        if self.guess is not None:
            self.guess.succeeded(now)
        if self.is_tight and self.jitter > JITTER_LEAST:
            self.jitter = max(JITTER_LEAST, self.jitter - JITTER_STEP * JITTER_SHARE)
            self.pace(now)
        if self.ease < 1.0 or self.burst_share < 1.0:
            passed = max(0.0, now - self.eased_at)
            close = self.ease >= self.refused_ease * (1.0 - EASE_STEP)
            self.ease = min(1.0, self.ease + passed * (EASE_CREPT if close else EASE_REGAINED))
            self.burst_share = min(1.0, self.burst_share + passed * BURST_REGAINED)
            self.eased_at = now
            self.pace(now)

    def refused(self, grant: int, now: float, *, told: float | None = None) -> bool:
        """Assume that nothing is left for as long as the server told. Return whether that explains it.

        If neither limits learnt since nor a guess that is being corrected explain it, slow down.
        """
        for which, bucket in self.buckets.items():
            if which is Limit.RPM and told is not None and self.is_tight:
                bucket.put(max(0.0, 1.0 - told * bucket.rate), now)  # the server knows best what is missing
            elif which is not Limit.RPD:
                bucket.lower(0.0, now)
        if not self.is_paced:
            if self.guess is not None:
                self.guess.refused(now)
            return self.guess is not None
        if grant <= self.known_since:
            return True
        self.strikes = self.strikes + 1 if now - self.struck_at < QUIET else 1
        self.struck_at = now
        self.eased_at = now
        if self.is_tight:
            self.jitter = min(JITTER_MOST, self.jitter + JITTER_STEP)
            if self.strikes <= TIGHT_STRIKES:
                self.pace(now)
                return self.is_uneven(told)
        self.refused_ease = self.ease
        step = min(EASE_STEP_MOST, EASE_STEP * 2.0 ** min(self.strikes - 1, 8))
        self.ease = max(EASE_LEAST, self.ease * (1.0 - step))
        if self.strikes > 1:
            self.burst_share = max(BURST_LEAST, self.burst_share / 2.0)
        self.pace(now)
        return False

    def is_uneven(self, told: float | None) -> bool:
        """Whether a refusal with this wait may only mean that calls arrived unevenly.

        The wait is short then. Whole seconds say nothing about that.
        """
        return self.is_tight and (told is None or told <= JITTER_MOST or told.is_integer())

    def refused_before(self) -> None:
        """Note a refusal of a call that went out before the wait for an earlier refusal began."""
        if self.guess is not None:
            self.guess.ignore()

    def untold_wait(self) -> float | None:
        """Return how long to stop after a refusal without a hint, if the pace is known or being guessed."""
        if self.guess is not None:
            return self.guess.wait()
        requests = self.buckets.get(Limit.RPM)
        return None if requests is None else untold_wait(requests.rate)

    def renew(self, now: float) -> None:
        """Reset the daily count: the provider's reset time has passed."""
        if Limit.RPD in self.buckets:
            self.buckets[Limit.RPD].put(self.buckets[Limit.RPD].capacity, now)

    def learn(
        self, readings: Mapping[Limit, LimitHeaders], *, age: float, now: float, served: bool = True
    ) -> dict[Limit, float]:
        """Apply what the answer to a call from `age` seconds ago said; return the limits that are new."""
        new: dict[Limit, float] = {}
        sizes = dict(self.sizes)
        for which, reading in readings.items():
            value = self._value(which, reading, served=served, since=now - age, now=now)
            known = self.learnt.get(which)
            if value is not None and (known is None or abs(value - known) > NEWS * known):
                self.learnt[which] = new[which] = value
        long = readings.get(Limit.RPD)
        if long is not None:
            self._learn_long(long)
        if new or long or sizes != self.sizes:
            self.pace(now)
        for which, reading in readings.items():
            self._believe(which, reading, age, now)
        return new

    def _value(
        self, which: Limit, reading: LimitHeaders, *, served: bool, since: float, now: float
    ) -> float | None:
        """Return the limit that a reading tells, per minute; None if it is not clear yet."""
        if reading.limit is None or which is Limit.RPD:
            return reading.limit
        if reading.window is not None:
            self.sizes[which] = reading.limit
            return min(MAX_LIMIT, reading.per_minute or MAX_LIMIT)
        refill = self.refills.get(which)
        if refill is None or refill.limit != reading.limit:
            refill = self.refills[which] = Refill(reading.limit)
        refill.read(reading, served=served, unit=1.0 if which is Limit.RPM else 0.0, since=since, now=now)
        if not refill.is_clear:
            return None
        if refill.size is not None:
            self.sizes[which] = refill.size
        else:
            self.sizes.pop(which, None)
        return min(MAX_LIMIT, refill.per_minute)

    def _learn_long(self, long: LimitHeaders) -> None:
        if long.limit and long.window:
            self.long_rate = long.limit / long.window
        elif long.limit and long.remaining is not None and long.reset and long.remaining < long.limit:
            self.long_rate = (long.limit - long.remaining) / long.reset
        if self.long_rate is not None:
            self.long_rate = max(self.long_rate, 1.0 / LONGEST)  # a server may say anything

    def _believe(self, which: Limit, reading: LimitHeaders, age: float, now: float) -> None:
        if reading.remaining is None:
            return
        bucket = self.buckets.get(which)
        if bucket is None:
            if reading.remaining == 0 and reading.reset:
                self.held_until = now + tick_span(min(reading.reset, HOLD_LONGEST))
                self.held_for = which
        elif which is Limit.RPD and which not in self._configured:
            bucket.put(reading.remaining, now)
        else:
            # The answer may be as old as its call, so add what was refilled since. Our own calls are counted
            # already, so this only shows what others used.
            bucket.lower(reading.remaining + age * bucket.rate, now)

    def pace(self, now: float) -> None:
        """Set every bucket to the limits as they are known now."""
        for which, value in self.limits().items():
            rate, capacity = self.shape(which, value)
            bucket = self.buckets.get(which)
            if bucket is None:
                self.buckets[which] = self._replayed(which, rate, capacity, now)
                self.known_since = self.grants
            elif bucket.rate != rate or bucket.capacity != capacity:
                bucket.pace(rate=rate, capacity=capacity, now=now)
        if self.is_paced:
            self.guess = None

    def _replayed(self, which: Limit, rate: float, capacity: float, now: float) -> Bucket:
        """Return a bucket as if its limit had been known from the first call on."""
        began = self.history[0].at if self.history else now
        bucket = Bucket(rate=rate, capacity=capacity, now=began)
        for sent in self.history:
            bucket.take(sent.cost[_FIELD[which]], sent.at)
        return bucket

    def shape(self, which: Limit, value: float) -> tuple[float, float]:
        """Return rate and capacity that keep calls within the limit although they arrive unevenly."""
        if which is Limit.RPD:
            learnt = self.long_rate if which not in self._configured else None
            return learnt or value / DAY, max(1.0, value)
        true = value / 60.0
        slack = true * ARRIVAL_JITTER
        rate = true * (1.0 - MARGIN)
        size = self.sizes.get(which, math.inf)
        if which is not Limit.RPM:
            # Not shrunk like requests: a call larger than the bucket would only go sooner.
            return rate * self.ease, max(1.0, min(size, true * self._burst_seconds()) - slack)
        burst = self._burst(true)
        if burst - slack < 1.0:
            # The burst has no room for uneven arrival, so the pace must leave that room.
            uneven = self.jitter + JITTER_START * JITTER_FADES ** min(self.grants, HISTORY)
            rate = min(rate, true / (max(1.0, 2.0 - burst) + true * uneven))
        return rate * self.ease, max(1.0, burst * self.burst_share - slack)

    def _burst(self, per_second: float) -> float:
        """Return the requests that may go at the same moment."""
        if self._plan.burst:
            return self._plan.burst
        known = self.sizes.get(Limit.RPM)
        size = math.inf if known is None else math.floor(known + SIZE_ROUNDING)
        return max(1.0, min(size, per_second * BURST_SECONDS))

    @property
    def is_tight(self) -> bool:
        """Whether the burst has no room for uneven arrival."""
        value = self.limit(Limit.RPM)
        return value is not None and self._burst(value / 60.0) - value / 60.0 * ARRIVAL_JITTER < 1.0

    def _burst_seconds(self) -> float:
        """Return the seconds of tokens in one burst. A configured burst covers the same time for both."""
        plan = self._plan
        return plan.burst * 60.0 / plan.rpm if plan.burst and plan.rpm else TOKEN_BURST_SECONDS
