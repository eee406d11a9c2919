"""Rounds the key pool's times to whole ticks of about a microsecond. Pure.

A float holds a wall-clock time in ticks exactly, so moving the state of a pool from one clock to another and
back changes nothing. Each move would round finer times.
"""

import math

TICKS = 2.0**20  # per second: a tick is about a microsecond


def tick(time: float) -> float:
    """Round a time down to a whole tick."""
    return math.floor(time * TICKS) / TICKS


def tick_span(seconds: float) -> float:
    """Round a duration up to whole ticks."""
    return math.ceil(seconds * TICKS) / TICKS
