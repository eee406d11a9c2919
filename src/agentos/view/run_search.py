"""Search in the items of all runs: titles, errors, findings, questions and files. Server process.

Each request reads for a short time only. What it read is kept, and the page asks again until every run is
read.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos.events.fields import Record, dicts_of, text_of
from agentos.events.state import RunState
from agentos.files_changed import files_changed
from agentos.model import Status
from agentos.report.drafts import Trail, find_trail, title_of
from agentos.report.rows import Row, read_rows
from agentos.store.documents import file_headings
from agentos.store.run_folder import read_events, read_summary, records_in, run_tree

READ_SECONDS = 0.3  # in one request
MOST_ITEM = 6_000  # characters kept of an item
MOST_KEPT = 30_000_000  # characters kept of all runs
MOST_SHOWN = 5  # items of a run
MOST_WORDS = 12
_AROUND = 60  # characters shown on each side of what was found
_DOCUMENT_BYTES = 200_000
_AUDIT_BYTES = 5_000_000

MarkOf = Callable[[Path], object]  # changes when the files of a run do


@dataclass(frozen=True, kw_only=True)
class _Text:
    """A text of an item, in which words are looked for."""

    where: str  # label, title, error, finding, question or file
    text: str


@dataclass(frozen=True, kw_only=True)
class _Item:
    label: str
    texts: tuple[_Text, ...]
    folded: str  # all texts, to look for words

    @classmethod
    def of(cls, label: str, title: str, texts: Sequence[_Text]) -> "_Item":
        whole = [_Text(where="label", text=label), _Text(where="title", text=title), *texts]
        kept, left = [], MOST_ITEM
        for one in whole:
            if one.text and left > 0:
                kept.append(_Text(where=one.where, text=one.text[:left]))
                left -= len(one.text)
        return cls(label=label, texts=tuple(kept), folded="\n".join(one.text for one in kept).casefold())

    def found(self, words: Sequence[str]) -> dict[str, str] | None:
        """Where the words are, if all of them are in this item."""
        if not all(word in self.folded for word in words):
            return None
        place = next(one for one in self.texts if any(word in one.text.casefold() for word in words))
        title = next((one.text for one in self.texts if one.where == "title"), "")
        return {
            "label": self.label,
            "title": title,
            "where": place.where,
            "text": "" if place.where in {"label", "title"} else _excerpt(place.text, words),
        }


class _KnownTexts:
    """The items of one run, read step by step. Until all are read, the earlier ones count as well."""

    def __init__(self, mark: object, reading: Iterator[_Item], before: Iterable[_Item] = ()) -> None:
        self.mark = mark
        self.whole = False
        self._items: list[_Item] = []
        self._before = {one.label: one for one in before}
        self._reading = reading

    @property
    def items(self) -> Iterator[_Item]:
        yield from self._items
        yield from self._before.values()

    @property
    def size(self) -> int:
        return sum(2 * len(one.folded) for one in self.items)

    def read(self, deadline: float, clock: Callable[[], float]) -> None:
        while not self.whole and clock() < deadline:
            item = next(self._reading, None)
            if item is None:
                self.whole = True
                self._before.clear()
            else:
                self._items.append(item)
                self._before.pop(item.label, None)


class RunSearch:
    """Finds items of all runs by words."""

    def __init__(
        self,
        *,
        worktree: Path,
        lineage_folder: str,
        lld_template: str | None = None,
        mark: MarkOf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worktree = worktree
        self._lineage_folder = lineage_folder
        self._lld_template = lld_template
        self._mark = mark
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _KnownTexts] = {}
        self._trails: dict[tuple[str, str], tuple[Trail | None, str]] = {}  # with the title, as read last

    def find(self, runs: Sequence[Path], words: str) -> dict[str, Any]:
        """The items that have all the words, by run; also how many runs were read so far."""
        wanted = words.casefold().split()[:MOST_WORDS]
        with self._lock:
            read = self._read(runs)
            found: dict[str, dict[str, Any]] = {}
            for run in runs if wanted else ():
                known = self._known.get(run.name)
                hits = [hit for one in (known.items if known else ()) if (hit := one.found(wanted))]
                if hits:
                    found[run.name] = {"items": hits[:MOST_SHOWN], "more": max(0, len(hits) - MOST_SHOWN)}
            return {"found": found, "read": read, "of": len(runs)}

    def _read(self, runs: Sequence[Path]) -> int:
        """Read on, the newest run first, until the time is over; return how many runs are known."""
        for gone in self._known.keys() - {run.name for run in runs}:
            del self._known[gone]
        deadline = self._clock() + READ_SECONDS
        done, size = 0, 0
        for run in runs:
            if size > MOST_KEPT:
                self._known.pop(run.name, None)
                done += 1  # it will not be searched: the newest runs take all the room
                continue
            mark = self._mark(run)
            known = self._known.get(run.name)
            if known is None or (known.whole and known.mark != mark):
                before = () if known is None else tuple(known.items)
                known = _KnownTexts(mark, self._items(run, latest=run is runs[0]), before=before)
                self._known[run.name] = known
            known.read(deadline, self._clock)
            size += known.size
            done += known.whole
        return done

    def _items(self, run: Path, *, latest: bool) -> Iterator[_Item]:
        summary = read_summary(run)
        state = RunState() if summary else read_events(run)
        workflow = text_of(summary, "workflow", 80) or state.workflow or "?"
        for row in read_rows(summary, state, now=state.last, live=False):
            if latest:  # older runs of an item have the same lineage
                self._trails.pop((workflow, row.id), None)
            yield self._item(run, row, workflow)

    def _item(self, run: Path, row: Row, workflow: str) -> _Item:
        records = _records(run, row.id)
        trail, title = self._trail(row, records, workflow)
        texts = [_Text(where="error", text=text) for text in (row.error, row.reason) if text]
        texts += [_Text(where="file", text=file) for file in self._files(row, trail)]
        for record in reversed(records):
            if record.get("kind") == "verdict":
                texts += _said(record)
        return _Item.of(row.label, title, texts)

    def _trail(self, row: Row, records: Sequence[Record], workflow: str) -> tuple[Trail | None, str]:
        """The lineage of an item, and its title."""
        found = self._trails.get((workflow, row.id))
        if found is None:
            lineage = (text_of(one, "lineage", 120) for one in reversed(records))
            trail = find_trail(
                self._worktree,
                self._lineage_folder,
                item=row.id,
                workflow=workflow,
                lineage=next((name for name in lineage if name), None),
                approved=row.status in {Status.APPROVED, Status.SKIPPED},
            )
            found = self._trails[workflow, row.id] = (trail, (trail and title_of(trail)) or "")
        return found

    def _files(self, row: Row, trail: Trail | None) -> Iterator[str]:
        """The item's document and the files that it changes."""
        if row.output is not None:
            yield row.output
        if trail is not None:
            yield trail.folder.as_posix()
        path = Path(row.output or "")
        if path.name and "://" not in (row.output or ""):
            document = Trail(worktree=self._worktree, folder=path.parent).read(path.name, _DOCUMENT_BYTES)
            yield from files_changed(document or "", file_headings(self._worktree, self._lld_template))


def _records(run: Path, item: str) -> list[Record]:
    """The item's audit trail; empty if there is none, or a huge one."""
    try:
        return list(records_in(run_tree(run).read(run / f"workflow-audit-{item}.jsonl", _AUDIT_BYTES)))
    except OSError:
        return []


def _said(record: Record) -> Iterator[_Text]:
    for finding in dicts_of(record, "findings"):
        parts = [text_of(finding, name, 1000) for name in ("category", "title", "text", "recommendation")]
        yield _Text(where="finding", text=" ".join(part for part in parts if part))
    questions = record.get("questions")
    for question in questions if isinstance(questions, list) else ():
        yield _Text(where="question", text=str(question)[:1000])


def _excerpt(text: str, words: Sequence[str]) -> str:
    """The words around the first one that was found."""
    line = " ".join(text.split())
    at = min((place for word in words if (place := line.casefold().find(word)) >= 0), default=0)
    start, end = max(0, at - _AROUND), at + _AROUND
    return ("… " if start else "") + line[start:end].strip() + (" …" if end < len(line) else "")
