"""Reads the runs of a home for the page: rows, data, logs. Server process.

Called from the server's threads. No file is opened by a name from a request: runs and logs are looked up
among the existing ones, and links are never followed.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from agentos.errors import AgentosError
from agentos.events.fold import feed
from agentos.events.state import RunState
from agentos.report.items import ItemReader
from agentos.store.home import Home
from agentos.store.run_folder import (
    has_summary,
    is_live,
    list_runs,
    read_summary,
    records_in,
    run_tree,
    runs_before,
)
from agentos.view.changes import Versions, json_bytes
from agentos.view.kept_items import KeptItems

LOG_BLOCK = 262_144  # bytes of a log in one answer
LOG_TAIL = 65_536  # bytes shown of a log at first
TICK_SECONDS = 5  # how often a live run is drawn again without events: its open spans get longer
KEPT_DATA = 4  # runs whose data stays in memory

Mark = tuple[Any, ...]  # changes when the thing it describes changes
MakeData = Callable[
    [Path, Callable[[Path], RunState], ItemReader], dict[str, Any]
]  # given a run, and how to read its events and its items


class NotThere(AgentosError):  # noqa: N818 - reads better without Error
    """There is no run, log or item with this name."""


class RunIndex:
    """Reads the run folders and caches the results until the files change."""

    def __init__(self, runs: Path, make_data: MakeData) -> None:
        self._home = Home(path=runs.parents[1])
        self._make_data = make_data
        self._rows_lock = threading.Lock()
        self._data_lock = threading.Lock()
        self._known: dict[str, _KnownRun] = {}
        self._data: dict[str, tuple[Mark, Versions]] = {}
        self._events: dict[str, _EventReader] = {}  # of live runs, as are the items
        self._items: dict[str, KeptItems] = {}
        self._costs: dict[str, float] = {}
        self._over: set[str] = set()

    def folders(self) -> list[Path]:
        """The folders of all runs, newest first."""
        return list_runs(self._home)[::-1]

    def folder(self, run_id: str) -> Path:
        for path in self.folders():
            if path.name == run_id:
                return path
        raise NotThere(f"There is no run {run_id!r}.")

    def folders_before(self, run: Path) -> list[Path]:
        return runs_before(run)

    def live(self, run: Path) -> bool:
        """Whether the run is in progress; a finished run never starts again, so it is checked only once."""
        if run.name in self._over:
            return False
        if is_live(run):
            return True
        if has_summary(run):
            self._over.add(run.name)
        return False

    def mark(self, run: Path, *, live: bool) -> Mark:
        """A value that changes when a file of the run does; for a finished run, only a few files count."""
        if not live:
            return (live, _stat(run), _stat(run / "events.jsonl"), _stat(run / "summary.json"))
        return (live, _clock_tick(), *_entries(run))

    def rows(self, words: str = "") -> list[dict[str, Any]]:
        """One row per run, newest first; only runs where every word matches the run or its items."""
        folders = self.folders()
        with self._rows_lock:
            for gone in self._known.keys() - {path.name for path in folders}:
                del self._known[gone]
            known = [self._known_run(path) for path in folders]
            rows = [(one, one.row(live=self.live(one.run))) for one in known]
            return [row for one, row in rows if one.has(words.casefold().split(), row)]

    def _knows(self, run: Path, label: str) -> bool:
        """Whether the item belongs to a live run, even if it has no log yet."""
        with self._rows_lock:
            one = self._known_run(run)
            one.row(live=True)
            return label in one.labels

    def _known_run(self, run: Path) -> "_KnownRun":
        if run.name not in self._known:
            self._known[run.name] = _KnownRun(run)
        return self._known[run.name]

    def data(self, run_id: str) -> bytes:
        """All data of a run's page, as JSON."""
        with self._data_lock:
            return json_bytes(self._versions(self.folder(run_id)).latest)

    def latest(self, run_id: str) -> dict[str, Any]:
        """The same as `data`, not as JSON; it must not be changed."""
        with self._data_lock:
            data: dict[str, Any] = self._versions(self.folder(run_id)).latest
            return data

    def changes(self, run_id: str, since: str) -> bytes:
        """The data of a run's page, as JSON: what changed since a version, or everything with its version."""
        with self._data_lock:
            return self._versions(self.folder(run_id)).answer(since)

    def _versions(self, run: Path) -> Versions:
        live, files = self.live(run), _entries(run)
        mark = (live, _clock_tick() if live else 0, *files)
        kept = self._data.pop(run.name, None)
        if kept is None or kept[0] != mark:
            began = time.perf_counter()
            reader = self._items.setdefault(run.name, KeptItems()) if live else ItemReader()
            if isinstance(reader, KeptItems):
                reader.begin(files)
            versions = Versions(secrets.token_hex(8)) if kept is None else kept[1]
            versions.add(self._make_data(run, self._read_events, reader))
            kept = (mark, versions)
            self._costs[run.name] = time.perf_counter() - began
        self._data[run.name] = kept
        while len(self._data) > KEPT_DATA:
            del self._data[next(iter(self._data))]
        for unused in (self._events, self._items):
            for name in [name for name in unused if name not in self._data or name in self._over]:
                del unused[name]
        return kept[1]

    def _read_events(self, run: Path) -> RunState:
        return self._events.setdefault(run.name, _EventReader(run)).read()

    def cost(self, run_id: str) -> float:
        """How many seconds it took to make the run's data."""
        return self._costs.get(run_id, 0.0)

    def log(self, run_id: str, label: str, after: int | None) -> dict[str, Any]:
        """Part of an item's log: what comes after `after` bytes, or the end of the log."""
        run = self.folder(run_id)
        name = f"{label}.log"
        live = self.live(run)  # checked first, so that nothing written before the end is missed
        if name not in {entry[0] for entry in _entries(run)}:
            if live and self._knows(run, label):
                return {"text": "", "start": 0, "next": 0, "size": 0, "live": live}
            raise NotThere(f"There is no log of {label!r} in run {run_id}.")
        data, start, size = _part(run / name, after)
        return {
            "text": data.decode("utf-8", errors="backslashreplace"),
            "start": start,
            "next": start + len(data),
            "size": size,
            "live": live,
        }


class _EventReader:
    """Folds the events of a growing file; each read continues where the last one ended."""

    def __init__(self, run: Path) -> None:
        self._path = run / "events.jsonl"
        self._offset = 0
        self._state = RunState()

    def read(self) -> RunState:
        """The state after all events so far; an incomplete line is left for the next read."""
        while True:
            try:
                data, start, _ = _part(self._path, self._offset)
            except OSError:
                return self._state
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                return self._state
            self._offset = start + len(whole)
            for record in records_in(whole):
                feed(self._state, record)


class _KnownRun:
    """The state of a run: from its summary or, until there is one, from the events read so far."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._summary: tuple[Mark, dict[str, Any]] | None = None
        self._cut_off: tuple[Mark, dict[str, Any]] | None = None
        self._events = _EventReader(run)
        self.labels: Collection[str] = ()

    def has(self, words: Sequence[str], row: dict[str, Any]) -> bool:
        if not words:
            return True
        state = "live" if row["live"] else "over"
        facts = [row["run_id"], row["workflow"] or "", state, f"exit {row['exit_code']}"]
        facts += ["not started"] if "pending" in row["totals"] else []
        text = " ".join([*facts, *row["totals"], *self.labels]).replace("_", " ").casefold()
        return all(word in text for word in words)

    def row(self, *, live: bool) -> dict[str, Any]:
        if live:
            return self._events_row(live=True)
        if (summary := self._read_summary()) is not None:
            return summary
        mark = _stat(self.run / "events.jsonl") or ()
        if self._cut_off is None or self._cut_off[0] != mark:
            self._cut_off = (mark, self._events_row(live=False))
            self._events = _EventReader(self.run)  # a killed run hardly ever gets more events
        return self._cut_off[1]

    def _events_row(self, *, live: bool) -> dict[str, Any]:
        state = self._events.read()
        self.labels = [item.label for item in state.items.values()]
        return {
            "run_id": self.run.name,
            "workflow": state.workflow,
            "mock": state.mock,
            "live": live,
            "started_at": state.started_at,
            "wall_seconds": None,
            "items": state.expected,
            "totals": dict(state.totals(live=live)),
            "cost_usd": None,
            "exit_code": None,
        }

    def _read_summary(self) -> dict[str, Any] | None:
        path = self.run / "summary.json"
        mark = _stat(path)
        if mark is None:
            return None
        if self._summary is None or self._summary[0] != mark:
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
                summary = read_summary(self.run)
                self._summary = (mark, _summary_row(self.run.name, summary))
                self._events = _EventReader(self.run)  # not needed any more
                self.labels = [str(row.get("label", "")) for row in summary["items"]]
        return None if self._summary is None else self._summary[1]


def _summary_row(run_id: str, summary: dict[str, Any]) -> dict[str, Any]:
    costs = [row.get("cost_usd") for row in summary["items"]]
    return {
        "run_id": run_id,
        "workflow": summary.get("workflow"),
        "mock": summary.get("mock") is True,
        "live": False,
        "started_at": summary.get("started_at"),
        "wall_seconds": summary.get("wall_seconds"),
        "items": len(summary["items"]),
        "totals": dict(summary.get("totals", {})),
        "cost_usd": None if None in costs else round(sum(costs), 6),
        "exit_code": summary.get("exit_code"),
    }


def _part(path: Path, after: int | None) -> tuple[bytes, int, int]:
    """Whole lines of a file from an offset, or from its end; also the actual offset and the file size."""
    with os.fdopen(run_tree(path.parent).open(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size - LOG_TAIL) if after is None else min(max(0, after), size)
        file.seek(start)
        data = file.read(LOG_BLOCK)
    if after is None and start:
        cut = data.find(b"\n") + 1
        data, start = data[cut:], start + cut
    if (end := data.rfind(b"\n") + 1) and end < len(data):
        data = data[:end]
    return data, start, size


def _entries(run: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of every regular file of a run; links are skipped."""
    try:
        entries = run_tree(run).entries(run)
    except OSError:
        return ()
    return tuple((one.name, one.size, one.modified) for one in entries if one.is_file)


def _clock_tick() -> int:
    return int(time.monotonic() // TICK_SECONDS)


def _stat(path: Path) -> Mark | None:
    info = run_tree(path).stat(path) if path.parent.name == "parallel" else run_tree(path.parent).stat(path)
    return None if info is None else (info.st_size, info.st_mtime_ns)
