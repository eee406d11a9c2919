"""Finds the pace of a server that says nothing about its limits, from what it refuses. Pure.

It starts slowly and grows with every success. At a refusal, the bucket of the server is empty; so between two
refusals, it filled at the rate at which calls were served. The pace stays just below that rate, and probes
seldom whether more is possible.
"""

from dataclasses import dataclass

from agentos.credentials.ticks import tick_span

FIRST = 2.0  # calls per second
FASTEST = 1_000.0
SLOWEST = 1 / 600.0
GROWTH = 1.5  # factor per success, before the first refusal
FALLBACK = 0.6  # factor at a refusal that says little
BELOW = 0.97  # of the rate that was found
ENOUGH = 4  # served calls between two refusals that make an estimate
REGROWTH = 1.03  # factor per success, up to the rate that was last refused
PROBE_FIRST = 20.0  # seconds without a refusal before a faster pace is tried
PROBE_LAST = 600.0
PROBE_STEP = 1.01  # factor per success, while probing
WAIT_LEAST, WAIT_MOST = 0.25, 10.0  # seconds to stop after a refusal


@dataclass(slots=True)
class PaceGuess:
    """The guessed pace of one quota group for one model."""

    since: float  # when the level was last counted
    rate: float = FIRST
    level: float = 1.0  # of a bucket that holds one call
    found: float | None = None  # the rate that the refusals show
    anchor: float | None = None  # the time of the refusal from which calls are counted
    served: int = 0  # calls sent since then and not refused
    probe_after: float = PROBE_FIRST
    refused_at: float | None = None

    def ready(self, now: float) -> float:
        """Return when the next call may go."""
        missing = 1.0 - self._level(now)
        return now if missing <= 1e-6 else now + tick_span(missing / self.rate)

    def take(self, now: float) -> None:
        """Count a call that goes out."""
        self.level, self.since = self._level(now) - 1.0, max(self.since, now)
        self.served += 1

    def succeeded(self, now: float) -> None:
        """Go a little faster, if it is time for that."""
        if self.anchor is None:
            factor = GROWTH
        elif self.found is None or self.rate < self.found * BELOW:
            factor = REGROWTH
        elif self.refused_at is not None and now - self.refused_at >= self.probe_after:
            factor = PROBE_STEP
        else:
            return
        self._pace(self.rate * factor, now)

    def refused(self, now: float) -> None:
        """Slow down to what was served since the refusal before."""
        self.served -= 1
        passed = 0.0 if self.anchor is None else now - self.anchor
        if passed > 0.0 and self.served >= ENOUGH:
            if self.found is not None and self.rate > self.found:
                self.probe_after = min(PROBE_LAST, 2.0 * self.probe_after)
            self.found = min(FASTEST, self.served / passed)
            self._pace(min(self.rate, self.found * BELOW), now)
            self.anchor, self.served = now, 0
        else:
            self._pace(self.rate * FALLBACK, now)
            if self.anchor is None:
                self.anchor, self.served = now, 0
        self.level = min(self.level, 0.0)
        self.refused_at = now

    def ignore(self) -> None:
        """Forget a call that was refused for a reason that is known already."""
        self.served = max(0, self.served - 1)

    def wait(self) -> float:
        """Return how long to stop after a refusal, if the server does not say."""
        return untold_wait(self.rate)

    def _level(self, now: float) -> float:
        return min(1.0, self.level + max(0.0, now - self.since) * self.rate)

    def _pace(self, rate: float, now: float) -> None:
        self.level, self.since = self._level(now), max(self.since, now)
        self.rate = min(FASTEST, max(SLOWEST, rate))


def untold_wait(rate: float) -> float:
    """Return how long to stop after a refusal at this pace: until one more call is due."""
    return min(WAIT_MOST, max(WAIT_LEAST, 1.0 / rate))
