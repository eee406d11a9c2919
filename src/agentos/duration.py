"""Durations in words. Pure."""

from math import ceil, floor

MINUTES_FROM = 120  # seconds
HOURS_FROM = 7200


def words(seconds: float) -> str:
    """A time span for people: `90 s`, `45 min`, `2.5 h`; a negative one is `0 s`."""
    left = max(0.0, seconds)
    if left < MINUTES_FROM:
        return f"{left:.0f} s"
    return f"{left / 60:.0f} min" if left < HOURS_FROM else f"{left / 3600:.1f} h"


def rounded(seconds: float) -> str:
    """How long something took: as `words`, but never `0 s`."""
    return "<1 s" if seconds < 1 else words(seconds)


def clock(seconds: float) -> str:
    """A time span as on a clock: `1:05`, `2:00:00`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def between(least: float, most: float) -> str:
    """A range for people, rounded outwards: `20-45 s`, `3-6 min`, `about 2 min`."""
    unit, name = (5, "s") if most < MINUTES_FROM else (60, "min") if most < HOURS_FROM else (1800, "h")
    low, high = floor(least / unit), max(1, ceil(most / unit))
    scale = {"s": 5.0, "min": 1.0, "h": 0.5}[name]
    if high - low <= 1:
        return f"{'about' if low else 'under'} {high * scale:g} {name}"
    return f"{low * scale:g}-{high * scale:g} {name}" if low else f"under {high * scale:g} {name}"
