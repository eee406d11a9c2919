"""Dates in the headers and texts of servers. Pure."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_LENGTH = 64  # no date is longer


def seconds_since_epoch(text: str) -> float | None:
    """The time that a text names, in ISO 8601 or as HTTP writes it; without a zone it is UTC."""
    if not 0 < len(text) <= MAX_LENGTH:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None
