"""Selects items by their labels; a label that no item has is an error, never an empty list. Pure."""

from collections.abc import Iterable, Sequence

from agentos.errors import UsageError
from agentos.model import Item, available

_MOST_SHOWN = 5


def with_labels(items: Sequence[Item], wanted: Sequence[str], *, place: str, what: str) -> tuple[Item, ...]:
    """Return the items that have every wanted label; as on GitHub, case does not matter."""
    if not wanted:
        return tuple(items)
    known = (label for item in items for label in item.labels)
    start = f"No {what} in {place} has"
    check_labels(wanted, known, where=start, none=f"{start} a label.")
    needed = {label.lower() for label in wanted}
    return tuple(item for item in items if needed <= {label.lower() for label in item.labels})


def check_labels(wanted: Iterable[str], known: Iterable[str], *, where: str, none: str) -> None:
    """Refuse a label that does not exist, and list those that do, the nearest first.

    `where` begins the message; `none` is the message if there are no labels.
    """
    by_lower = {label.lower(): label for label in known}
    for one in wanted:
        if one.lower() in by_lower:
            continue
        if not by_lower:
            raise UsageError(none)
        import difflib  # noqa: PLC0415 - for mistyped labels only

        near = difflib.get_close_matches(one.lower(), by_lower, n=_MOST_SHOWN, cutoff=0.5)
        names = [by_lower[label] for label in dict.fromkeys([*near, *sorted(by_lower)])]
        raise UsageError(f"{where} the label {one!r}. {available(names, none='', most=_MOST_SHOWN)}")
