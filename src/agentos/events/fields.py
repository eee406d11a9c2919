"""Reads fields of records that may be torn, old or forged: typed and bounded, or missing. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Record = Mapping[str, Any]

HUGE = 1e12
_TEXT = 2000  # longest text taken from a record


def text_of(record: Record, name: str, most: int = _TEXT) -> str | None:
    """The text of a field, shortened; None if there is none."""
    return text(record.get(name), most)


def text(value: object, most: int = _TEXT) -> str | None:
    if not isinstance(value, str) or not value:
        return None
    # Half of a surrogate pair cannot be in a file name or a page.
    return shortened(value.encode("utf-8", errors="replace").decode(), most)


def shortened(text: str, most: int) -> str:
    """A text of about this many characters, cut at the end of a word."""
    if len(text) <= most:
        return text
    kept = text[: most + 1]
    words = kept.rstrip() if kept[-1].isspace() else kept.rpartition(" ")[0].rstrip()
    # Without a space near the end, cut inside the word.
    return (words if len(words) > most // 2 else text[:most]) + " …"


def number_of(record: Record, name: str) -> float | None:
    """The number in a field, within what JSON can hold."""
    return number(record.get(name))


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < HUGE:
        return None
    return value


def count_of(record: Record, name: str) -> int:
    """The whole number in a field; 0 if there is none."""
    return max(0, int(number_of(record, name) or 0))


def texts_of(record: Record, name: str, most: int = _TEXT) -> tuple[str, ...]:
    """The texts in a list, each shortened."""
    value = record.get(name)
    found = (text(one, most) for one in value) if isinstance(value, list) else ()
    return tuple(one for one in found if one is not None)


def dicts_of(record: Record, name: str) -> list[dict[str, Any]]:
    """The objects in a list."""
    value = record.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def moment(value: object) -> float | None:
    """A time as our logs write it, in seconds since 1970."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def time_text(seconds: float) -> str | None:
    """The reverse of `moment`."""
    try:
        written = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
    return written.replace("+00:00", "Z")


def web_address(value: str | None) -> str | None:
    """The address if a page may link to it, otherwise None."""
    return value if value is not None and value.startswith(("https://", "http://")) else None
