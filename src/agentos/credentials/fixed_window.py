"""How long the fixed window of a server is, judged by when its windows end. Pure.

Within a window, a limit is used up; at its end, all of it is there again. Each answer says when the current
window ends. Two windows end at least one length apart, so the time between the ends of several windows is an
upper bound of the length, and the rate that follows from it is never too fast. An answer does not say when it
was made: some time between the request and its arrival. So every end is known as an interval. If much of the
limit is used at the beginning of many windows, it is none: the reset is when a bucket gets a little more.
"""

import math
from dataclasses import dataclass

from agentos.credentials.headers import MINUTE

ENDS_NEEDED = 3  # windows that must have ended before a length is believed
READINGS_MOST = 60  # after so many, the limit is a minute's until a length is found
SHORTEST = 0.1  # seconds
SURELY_SHORT = 0.75  # of a minute; what may be longer is a minute
PARTLY_MOST = 0.25  # share of windows that others may have begun to use, before it is no window at all
GAP = 1.5  # lengths between two ends that tell of windows in which nothing was asked


@dataclass(slots=True)
class FixedWindow:
    """What the answers have said so far about the ends of the windows."""

    readings: int = 0
    ends: int = 0  # windows that have ended since `first`
    partly: int = 0  # of those, the ones that began with less than half of the limit
    least: float = 0.0  # of the limit that was used in the current one
    first: float | None = None  # the earliest time at which the first of them may have ended
    soonest: float = -math.inf  # when the current one may end
    latest: float = -math.inf
    upper: float | None = None  # of the length, in seconds
    longest: float = 0.0  # reset that was read

    def read(
        self, used: float, limit: float, reset: float, grain: float, *, since: float, now: float
    ) -> None:
        """Add a reading that was made between `since` and `now`: so much of the limit was used."""
        soonest, latest = since + max(0.0, reset - grain), now + reset + grain
        if self.upper is not None and reset - grain > self.upper:
            self.forget()
        self.readings += 1
        self.longest = max(self.longest, reset - grain)
        if soonest > self.latest:
            gap = soonest - self.latest
            self.soonest, self.latest = soonest, latest
            self.ends += 1
            self.partly += self.least > max(1.0, limit / 2.0)
            self.least = used
            if self.first is None or (self.upper is not None and gap > GAP * self.upper):
                self.ends = self.partly = 0
        elif latest >= self.soonest:  # otherwise it is an answer about an earlier window
            self.soonest, self.latest = max(self.soonest, soonest), min(self.latest, latest)
            self.least = min(self.least, used)
        if self.ends == 0:
            self.first = self.soonest
        elif self.ends >= ENDS_NEEDED and self.first is not None:
            found = (self.latest - self.first) / self.ends
            self.upper = found if self.upper is None else min(self.upper, found)
            if self.longest > self.upper:
                self.forget()

    def forget(self) -> None:
        """Start again: a window cannot end later than its length."""
        self.first = self.upper = None
        self.readings = self.ends = self.partly = 0
        self.soonest = self.latest = -math.inf
        self.least = self.longest = 0.0

    @property
    def length(self) -> float | None:
        """The length to believe in seconds, if it is shorter than a minute."""
        if self.upper is None or PARTLY_MOST * self.ends < self.partly:
            return None
        return max(SHORTEST, self.upper) if self.upper < SURELY_SHORT * MINUTE else None

    @property
    def is_clear(self) -> bool:
        """Whether the length is known, or is taken for a minute."""
        return (
            self.upper is not None or self.longest > SURELY_SHORT * MINUTE or self.readings >= READINGS_MOST
        )
