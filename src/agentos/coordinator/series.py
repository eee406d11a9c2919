"""Decides which of many similar things deserve a line: the first, then a count now and then. Pure."""

from dataclasses import dataclass, field

QUIET_SECONDS = 30.0  # between two lines about the same thing


@dataclass(kw_only=True, slots=True)
class _Series:
    count: int
    said_at: float
    longest_said: float  # seconds that a line announced
    over_at: float  # then the next one starts a new series


@dataclass(kw_only=True)
class Repeats:
    """Counts what happens again and again, such as the refusals of one key."""

    _series: dict[str, _Series] = field(default_factory=dict)

    def count(self, what: str, *, now: float, seconds: float = 0.0) -> int | None:
        """Count one more; return how often it happened if that is worth a line.

        `seconds` is how long it lasts. If that is much longer than what was said, it is worth a line too.
        """
        series = self._series.get(what)
        over_at = now + seconds + QUIET_SECONDS
        if series is None or now > series.over_at:
            self._series[what] = _Series(count=1, said_at=now, longest_said=seconds, over_at=over_at)
            return 1
        series.count += 1
        series.over_at = over_at
        longer = seconds >= QUIET_SECONDS and seconds > 2 * series.longest_said
        if not longer and now - series.said_at < QUIET_SECONDS:
            return None
        series.said_at, series.longest_said = now, max(seconds, series.longest_said)
        return series.count


def times(count: int) -> str:
    """`` for the first, then ` 5 times`."""
    return "" if count == 1 else f" {count} times"
