"""How a server's bucket fills, judged by what its answers say over time. Pure.

A limit without a window is a minute's by custom, but some servers name the size of a bucket that fills in
seconds. Each answer says what remains and when the bucket is full again. From that, two
readings are possible: the limit is a minute's and the bucket may be smaller; or the bucket has the size of
the limit and its rate is not known yet. Every answer narrows both down, until one contradicts itself. A fixed
window contradicts both. Its length follows from the ends of the windows (`fixed_window`); until that is
known, the limit is taken for a minute's.
"""

import math
from dataclasses import dataclass, field

from agentos.credentials.fixed_window import FixedWindow
from agentos.credentials.headers import MINUTE, LimitHeaders

READINGS_NEEDED = 3  # before a rate faster than the limit per minute is believed
READINGS_MOST = 12  # if nothing is clear by then, the limit is a minute's
CONTRADICTED = 1.5  # factor between two rates that is no rounding
TOLERANCE = 0.02
RESET_LEAST = 1e-3  # seconds; what a server says below that is noise


@dataclass(slots=True)
class Refill:
    """What the answers have said so far about one limit."""

    limit: float
    readings: int = 0
    minutes: bool = True  # it may be a minute's limit, in a bucket of any size
    own: bool = True  # it may be the size of a bucket with a rate of its own
    size_low: float = 0.0
    size_high: float = math.inf
    rate_low: float = 0.0
    rate_high: float = math.inf
    remaining: float | None = None  # of the last reading
    reset: float = 0.0
    signs: int = 0  # readings that no fixed window can give
    window: FixedWindow = field(default_factory=FixedWindow)

    def read(
        self, reading: LimitHeaders, *, served: bool, unit: float, since: float = 0.0, now: float = 0.0
    ) -> None:
        """Add a reading that was made between `since` and `now`.

        `served`: its call was; `unit`: what the call took at least.
        """
        remaining, reset, grain = reading.remaining, reading.reset, reading.grain
        if remaining is None or not reset or remaining > self.limit:
            return
        self.window.read(self.limit - remaining, self.limit, reset, grain, since=since, now=now)
        soonest, latest = max(0.0, reset - grain), reset + grain
        self._sign(remaining, reset, grain, served=served)
        self.readings += 1
        rate = self.limit / MINUTE
        self.size_low = max(self.size_low, remaining + soonest * rate)
        self.size_high = min(self.size_high, remaining + 1.0 + latest * rate)
        taken = unit if served else 0.0
        latest = max(latest, RESET_LEAST)
        self.rate_low = max(self.rate_low, (self.limit - remaining - 1.0) / latest, taken / latest)
        if soonest > 0.0:
            self.rate_high = min(self.rate_high, (self.limit - remaining) / soonest)
        slack = 1.0 + TOLERANCE
        # A call that was served took something, so the bucket needs that long to be full again.
        too_soon = taken / latest > CONTRADICTED * rate
        too_large = self.size_low > self.limit * slack + 1.0
        self.minutes = self.minutes and not (too_soon or too_large or self.size_low > self.size_high * slack)
        self.own = self.own and self.rate_low <= self.rate_high * slack

    def _sign(self, remaining: float, reset: float, grain: float, *, served: bool) -> None:
        """Compare with the reading before. In a fixed window, both numbers only fall."""
        before, self.remaining = self.remaining, remaining
        earlier, self.reset = self.reset, reset
        if before is None:
            return
        if remaining < before and reset < earlier - grain:
            self.minutes = self.own = False
        elif (remaining < before and reset > earlier + grain) or (served and remaining >= before):
            self.signs += 1

    @property
    def _is_faster(self) -> bool:
        """Whether the limit must be one of a shorter time than a minute."""
        return not self.minutes and self.own and self.rate_low * MINUTE > self.limit

    @property
    def _is_window(self) -> bool:
        """Whether only a fixed window explains the readings."""
        return not self.minutes and not self.own

    @property
    def is_clear(self) -> bool:
        """Whether there is a rate to believe: a faster one needs several readings that agree."""
        if self._is_window:
            return self.window.is_clear
        return not self._is_faster or self._is_sure or self.readings >= READINGS_MOST

    @property
    def _is_sure(self) -> bool:
        return self.readings >= READINGS_NEEDED and self.signs >= READINGS_NEEDED - 1

    @property
    def per_minute(self) -> float:
        """The rate to believe, per minute."""
        if self._is_window and (seconds := self.window.length) is not None:
            return self.limit * MINUTE / seconds
        return self.rate_low * MINUTE if self._is_faster and self._is_sure else self.limit

    @property
    def size(self) -> float | None:
        """The size of the bucket, if it is known."""
        if self._is_window and self.window.length is not None:
            return self.limit
        if not self.readings or not (self.minutes or self._is_faster):
            return None
        if not self.minutes:
            return self.limit
        return min(self.limit, self.size_low) if self.size_low > 0.0 else None
