"""Finds the files that several designs change, so that nobody builds them in parallel unaware. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agentos.files_changed import files_changed

_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Items whose designs change the same files."""

    items: tuple[str, ...]  # labels, two or more, in natural order
    files: tuple[str, ...]


def overlaps(documents: Mapping[str, str], headings: Collection[str] = ()) -> tuple[Overlap, ...]:
    """Compare designs by label. Files shared by the same items form one group; most items first.

    `headings` are those that the template marks with `<!-- files -->`.
    """
    users: dict[str, list[str]] = {}
    for label in sorted(documents, key=_natural):
        for file in files_changed(documents[label], headings):
            users.setdefault(file, []).append(label)
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in sorted(users):
        if len(users[file]) > 1:
            groups.setdefault(tuple(users[file]), []).append(file)
    ordered = sorted(groups, key=lambda items: (-len(items), [_natural(label) for label in items]))
    return tuple(Overlap(items=items, files=tuple(groups[items])) for items in ordered)


def _natural(label: str) -> list[tuple[int, int, str]]:
    """A sort key that puts LLD-9 before LLD-10."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part.casefold())
        for part in _NUMBERS.split(label)
        if part
    ]
