"""Keeps the items of a run in progress between two looks; reads only what changed. Server process."""

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from agentos.events.state import RUNNING, RunState
from agentos.report.items import ItemReader, ReportItem, RunPaths
from agentos.report.rows import Row
from agentos.report.spans import Left

T = TypeVar("T")

REREAD_SECONDS = 15.0  # a document may change without an event
MOST_REREAD = 3  # items in one look, so that a look stays cheap


class KeptItems(ItemReader):
    """The items of one run, as they were read last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._items: dict[str, tuple[Hashable, float, ReportItem]] = {}
        self._shown: dict[str, tuple[ReportItem, dict[str, Any]]] = {}
        self._others: dict[str, tuple[Hashable, Any]] = {}
        self._files: dict[str, tuple[int, int]] = {}
        self._rereads = 0

    def begin(self, files: Iterable[tuple[str, int, int]]) -> None:
        """Begin a new look at the run, whose files have these names, sizes and times."""
        self._files = {name: (size, modified) for name, size, modified in files}
        self._rereads = MOST_REREAD

    def item(self, row: Row, state: RunState, place: RunPaths, *, now: float, drafts: bool) -> ReportItem:
        mark = self._mark(row, state, place)
        kept = self._items.get(row.id)
        if kept is None or kept[0] != mark or self._old(kept[1]):
            made = super().item(row, state, place, now=now, drafts=drafts)
            self._items[row.id] = (mark, self._clock(), made)
            return made
        if row.status != RUNNING:
            return kept[2]
        # Only the time went on.
        waiting = Left.at(state.items[row.id].wait, now) if row.id in state.items else None
        return replace(kept[2], seconds=row.seconds, waited_seconds=row.waited_seconds, waiting=waiting)

    def shown(self, item: ReportItem, now: float) -> dict[str, Any]:
        kept = self._shown.get(item.id)
        if kept is not None and kept[0] is item:
            return kept[1]
        made = super().shown(item, now)
        self._shown[item.id] = (item, made)
        return made

    def kept(self, name: str, mark: Hashable, make: Callable[[], T]) -> T:
        found = self._others.get(name)
        if found is None or found[0] != mark:
            found = self._others[name] = (mark, make())
        made: T = found[1]
        return made

    def _old(self, read_at: float) -> bool:
        if self._rereads <= 0 or self._clock() - read_at < REREAD_SECONDS:
            return False
        self._rereads -= 1
        return True

    def _mark(self, row: Row, state: RunState, place: RunPaths) -> Hashable:
        """What an item is made of, without what only grows with time."""
        item = state.items.get(row.id)
        return (
            replace(row, seconds=0.0, waited_seconds=0.0) if row.status == RUNNING else row,
            0 if item is None else item.events,
            self._files.get(f"workflow-audit-{row.id}.jsonl"),
            place.workflow,
        )
