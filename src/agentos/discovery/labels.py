"""Selects items by their labels; a label that no item has is an error, never an empty list. Pure."""

from collections.abc import Iterable, Sequence

from agentos.errors import UsageError
from agentos.model import Item

_MOST_SHOWN = 5


def with_labels(items: Sequence[Item], wanted: Sequence[str], *, place: str, what: str) -> tuple[Item, ...]:
    """Return the items that have every wanted label; as on GitHub, case does not matter."""
    if not wanted:
        return tuple(items)
    check_labels(
        wanted, (label for item in items for label in item.labels), where=f"No {what} in {place} has"
    )
    needed = {label.lower() for label in wanted}
    return tuple(item for item in items if needed <= {label.lower() for label in item.labels})


def check_labels(wanted: Iterable[str], known: Iterable[str], *, where: str) -> None:
    """Refuse a label that does not exist, and name the nearest that do; `where` begins the message."""
    by_lower = {label.lower(): label for label in known}
    for one in wanted:
        if one.lower() in by_lower:
            continue
        import difflib  # noqa: PLC0415 - for mistyped labels only

        near = difflib.get_close_matches(one.lower(), by_lower, n=_MOST_SHOWN, cutoff=0.5)
        there = ", ".join(by_lower[label] for label in near or sorted(by_lower)[:_MOST_SHOWN])
        more = ", ..." if not near and len(by_lower) > _MOST_SHOWN else ""
        hint = f" {'Nearest' if near else 'There are'}: {there}{more}." if there else " There are no labels."
        raise UsageError(f"{where} the label {one!r}.{hint}")
