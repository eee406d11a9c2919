"""A token bucket that is read at a given time. Pure."""

from agentos.credentials.ticks import tick_span

TOLERANCE = 1e-6  # share of the need; anything less is missing only because of rounding


class Bucket:
    """Holds at most `capacity`, gains `rate` per second, and may be in debt."""

    __slots__ = ("at", "capacity", "held", "rate")

    def __init__(self, *, rate: float, capacity: float, now: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self.held = capacity
        self.at = now

    def level(self, now: float) -> float:
        return min(self.capacity, self.held + max(0.0, now - self.at) * self.rate)

    def ready(self, need: float, now: float) -> float:
        """Return when there is room. A need above the capacity waits for a full bucket; it never starves."""
        capacity = self.capacity
        need = min(need, capacity)
        # The level, inlined: this runs for every key and every request.
        missing = need - min(capacity, self.held + max(0.0, now - self.at) * self.rate)
        if missing <= TOLERANCE * max(1.0, need):
            return now
        return now + tick_span(missing / self.rate)

    def take(self, amount: float, now: float) -> None:
        """Charge an amount. A negative amount gives back, never above the capacity."""
        self._set(self.level(now) - amount, now)

    def lower(self, level: float, now: float) -> None:
        """Assume that there is no more than this."""
        self._set(min(self.level(now), level), now)

    def put(self, level: float, now: float) -> None:
        """Assume that there is exactly this, up to the capacity."""
        self._set(level, now)

    def pace(self, *, rate: float, capacity: float, now: float) -> None:
        """Continue from here at another rate and capacity."""
        level = self.level(now)
        self.rate = rate
        self.capacity = capacity
        self._set(level, now)

    def _set(self, level: float, now: float) -> None:
        self.held = min(self.capacity, level)
        self.at = max(self.at, now)
