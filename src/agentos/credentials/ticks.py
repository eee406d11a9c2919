"""Times in whole ticks. Pure.

A float holds a wall-clock time in ticks exactly, so moving a pool's state from one clock to another and back
changes nothing. Finer times would be rounded by each move.
"""

import math

TICKS = 2.0**20  # per second: a tick is about a microsecond


def tick(time: float) -> float:
    """Return the latest whole tick that is not after the time."""
    return math.floor(time * TICKS) / TICKS


def tick_span(seconds: float) -> float:
    """Return the shortest whole number of ticks that is not shorter."""
    return math.ceil(seconds * TICKS) / TICKS
