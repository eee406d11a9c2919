"""Fields of records that may be torn, old or forged: typed and bounded, or not there. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Record = Mapping[str, Any]

HUGE = 1e12
_TEXT = 2000  # longest text taken over from a record


def text_of(record: Record, name: str, most: int = _TEXT) -> str | None:
    """The text of a field, cut; None where there is none."""
    return text(record.get(name), most)


def text(value: object, most: int = _TEXT) -> str | None:
    if not isinstance(value, str) or not value:
        return None
    # Half of a surrogate pair has no place in a file's name, nor in a page.
    return shortened(value.encode("utf-8", errors="replace").decode(), most)


def shortened(text: str, most: int) -> str:
    """A text of about so many characters, cut where a word ends."""
    if len(text) <= most:
        return text
    kept = text[: most + 1]
    words = kept.rstrip() if kept[-1].isspace() else kept.rpartition(" ")[0].rstrip()
    # Without a space near the end there is no word to keep whole.
    return (words if len(words) > most // 2 else text[:most]) + " …"


def number_of(record: Record, name: str) -> float | None:
    """The number of a field, as JSON can carry it."""
    return number(record.get(name))


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < HUGE:
        return None
    return value


def count_of(record: Record, name: str) -> int:
    """The whole number of a field; 0 where there is none."""
    return max(0, int(number_of(record, name) or 0))


def dicts_of(record: Record, name: str) -> list[dict[str, Any]]:
    """The objects in a list."""
    value = record.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def moment(value: object) -> float | None:
    """Seconds since 1970 of a time as our logs write it."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def time_text(seconds: float) -> str | None:
    """The other way round."""
    try:
        told = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
    return told.replace("+00:00", "Z")


def web_address(value: str | None) -> str | None:
    """An address, if it is one that a page may link to."""
    return value if value is not None and value.startswith(("https://", "http://")) else None
