"""Durations in words. Pure."""

MINUTES_FROM = 120  # seconds
HOURS_FROM = 7200


def words(seconds: float) -> str:
    """A time span for people: `90 s`, `45 min`, `2.5 h`; a negative one is `0 s`."""
    left = max(0.0, seconds)
    if left < MINUTES_FROM:
        return f"{left:.0f} s"
    return f"{left / 60:.0f} min" if left < HOURS_FROM else f"{left / 3600:.1f} h"
