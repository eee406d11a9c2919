"""A token bucket that is read at a given time. Pure, used in the coordinator."""

from agentos.credentials.ticks import tick_span

TOLERANCE = 1e-6  # share of the need; less than this is missing by rounding only


class Bucket:
    """Holds at most `capacity`, gains `rate` a second, and may be in debt."""

    __slots__ = ("at", "capacity", "held", "rate")

    def __init__(self, *, rate: float, capacity: float, now: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self.held = capacity
        self.at = now

    def level(self, now: float) -> float:
        return min(self.capacity, self.held + max(0.0, now - self.at) * self.rate)

    def ready(self, need: float, now: float) -> float:
        """Return when there is room; a need above the capacity waits for a full bucket, and never starves."""
        capacity = self.capacity
        need = min(need, capacity)
        # The level, written out: this is asked of every key for every request.
        missing = need - min(capacity, self.held + max(0.0, now - self.at) * self.rate)
        if missing <= TOLERANCE * max(1.0, need):
            return now
        return now + tick_span(missing / self.rate)

    def take(self, amount: float, now: float) -> None:
        """Charge an amount; a negative one gives back, never above the capacity."""
        self._set(self.level(now) - amount, now)

    def lower(self, level: float, now: float) -> None:
        """Believe that there is no more than this."""
        self._set(min(self.level(now), level), now)

    def put(self, level: float, now: float) -> None:
        """Believe that there is exactly this, up to the capacity."""
        self._set(level, now)

    def pace(self, *, rate: float, capacity: float, now: float) -> None:
        """Go on from here at another rate and capacity."""
        level = self.level(now)
        self.rate = rate
        self.capacity = capacity
        self._set(level, now)

    def _set(self, level: float, now: float) -> None:
        self.held = min(self.capacity, level)
        self.at = max(self.at, now)
