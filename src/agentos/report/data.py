"""Reads all data of a run's page from its folder: finished, live or cut off.

Any file may be missing, torn or a link. Links are never followed. An unreadable file counts as missing.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agentos.duration import between
from agentos.errors import MEANINGS, Exit
from agentos.events.catalogue import RunStarted
from agentos.events.fields import Record, count_of, dicts_of, number_of, text_of
from agentos.events.progress import RunProgress, progress_of
from agentos.events.state import CUT_OFF, RUNNING, RunMark, RunState, WorkerSpan
from agentos.model import Status
from agentos.report.drafts import Trail
from agentos.report.items import ItemReader, ReportItem, RunPaths
from agentos.report.keys import KeyData, pretended, read_keys
from agentos.report.needs_you import ItemCase, NeedsYou, needs_you
from agentos.report.overlaps import Overlap, overlaps
from agentos.report.rows import read_rows
from agentos.report.run_again import RunAgain, run_again
from agentos.report.spans import Left, Steps, mean_level, span_dict, steps
from agentos.report.summary import remarks
from agentos.report.time_shares import TimeShares, time_shares
from agentos.report.trend import PastRun, read_trend
from agentos.settings import Settings
from agentos.store.documents import file_headings
from agentos.store.run_folder import is_live, read_events, read_summary, run_tree, runs_before

_DOCUMENT_BYTES = 1_000_000
_FILES = ("summary.md", "summary.json", "events.jsonl", "coordinator.log", "trace.jsonl")
_ORDER = {status: number for number, status in enumerate([RUNNING, CUT_OFF, *(one.value for one in Status)])}
ShowItem = Callable[[ReportItem, float], dict[str, Any]]
_MOST_CHANGES = 400  # changes of the number of items that may run


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The run as a whole."""

    run_id: str
    workflow: str
    parallel: int
    started_at: str | None
    finished_at: str | None
    live: bool
    cut_off: bool
    wall_seconds: float
    exit_code: int | None
    meaning: str | None
    stopped: str | None
    expected: int  # items
    totals: dict[str, int]
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    waited_seconds: float
    cost_usd: float | None
    cost_known_usd: float
    pretended: bool  # no money was spent
    coordination_overhead_percent: float | None
    trace_id: str | None
    paused: Left | None
    files: list[str]
    begun: RunStarted | None  # how the run was started
    compared: int | None = None  # designs compared, if the run has no summary yet

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"paused": None if self.paused is None else self.paused.as_dict()}


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """How many items and calls ran at the same time."""

    items: Steps
    calls: Steps
    allowed: Steps
    mean_items: float
    mean_calls: float


@dataclass(frozen=True, kw_only=True)
class RunData:
    """Everything that the page shows."""

    now: float  # the time of reading, in seconds from the start of the run
    run: RunFacts
    needs_you: NeedsYou
    progress: RunProgress
    time: TimeShares
    items: tuple[ReportItem, ...]
    keys: tuple[KeyData, ...]
    marks: tuple[RunMark, ...]
    parallelism: Parallelism
    overlaps: tuple[Overlap, ...]
    trend: tuple[PastRun, ...]

    def as_dict(self, shown: ShowItem = ReportItem.as_dict) -> dict[str, Any]:
        """The same as JSON, for the page and for `agentos report --json`."""
        return {
            "run": self.run.as_dict(),
            "needs_you": self.needs_you.as_dict(),
            "progress": _progress_dict(self.progress),
            "time": _time_dict(self.time) | {"at": self.now},
            "items": [shown(item, self.now) for item in self.items],
            "keys": [key.as_dict(self.now) for key in self.keys],
            "marks": [span_dict(mark, self.now) for mark in self.marks],
            "parallelism": asdict(self.parallelism),
            "overlaps": [{"items": list(one.items), "files": list(one.files)} for one in self.overlaps],
            "trend": [asdict(one) for one in self.trend],
            "left_out": {"diffs": 0, "texts": 0},  # counted by the page, which must stay small
        }


def history_of(run: Path) -> tuple[Path, ...]:
    """The earlier runs of the same home, oldest first."""
    return tuple(runs_before(run))


def run_data(
    run: Path,
    *,
    worktree: Path,
    lineage_folder: str = "docs/lineage",
    lld_template: str | None = None,
    history: Sequence[Path] = (),
    drafts: bool = True,
    events: Callable[[Path], RunState] = read_events,
    reader: ItemReader | None = None,
    start: str | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Read one run folder. Its commands begin with `start` and repeat what differs from the settings."""
    reader = reader or ItemReader()
    whole = read_run(
        run,
        worktree=worktree,
        lineage_folder=lineage_folder,
        lld_template=lld_template,
        history=history,
        drafts=drafts,
        events=events,
        reader=reader,
        start=start,
        settings=settings,
    )
    return whole.as_dict(reader.shown)


def read_run(
    run: Path,
    *,
    worktree: Path,
    lineage_folder: str,
    lld_template: str | None,
    history: Sequence[Path],
    drafts: bool,
    events: Callable[[Path], RunState],
    reader: ItemReader,
    start: str | None = None,
    settings: Settings | None = None,
) -> RunData:
    locked = is_live(run)
    summary = read_summary(run)
    live = locked and not summary  # once the summary is written, the run only has to release its lock
    state = events(run)
    now = state.now(time.time() if live else None)
    rows = read_rows(summary, state, now=now, live=live)
    if not summary and not locked:
        there = run_tree(run).is_file
        rows = [row if row.log and there(run / row.log) else replace(row, log=None) for row in rows]
    place = RunPaths(
        run=run,
        older=[path for path in sorted(history, reverse=True) if path.name < run.name],
        worktree=worktree,
        lineage_folder=lineage_folder,
        workflow=text_of(summary, "workflow", 80) or state.workflow or "?",
    )
    items = [reader.item(row, state, place, now=now, drafts=drafts) for row in rows]
    keys = read_keys(summary, state, items, now)
    approved = () if summary else tuple(item.label for item in items if item.status == Status.APPROVED)
    designs = reader.kept("designs", approved, lambda: {} if summary else _designs(items, worktree))
    facts = _facts(
        run, summary, state, items, keys, workflow=place.workflow, live=live, locked=locked, now=now
    )
    return RunData(
        now=now,
        needs_you=needs_you(
            [_outcome(item) for item in items], _run_again(summary, facts, start, settings), live=live
        ),
        progress=progress_of(state, now=now),
        time=time_shares(state, now=now),
        run=replace(facts, compared=None if summary else len(designs)),
        items=tuple(items),
        keys=tuple(keys),
        marks=tuple(state.marks),
        parallelism=_parallelism(state, items, now),
        overlaps=_overlaps(summary)
        if summary
        else reader.kept(
            "overlaps", approved, lambda: overlaps(designs, file_headings(worktree, lld_template))
        ),
        trend=reader.kept("trend", (*history, bool(summary)), lambda: tuple(read_trend([*history, run]))),
    )


def _facts(
    run: Path,
    summary: Record,
    state: RunState,
    items: Sequence[ReportItem],
    keys: Sequence[KeyData],
    *,
    workflow: str,
    live: bool,
    locked: bool,
    now: float,
) -> RunFacts:
    code = number_of(summary, "exit_code")
    exit_code = state.exit_code if code is None else int(code)
    wall = number_of(summary, "wall_seconds")
    known = [item.cost_usd for item in items if item.cost_usd is not None]
    begun = state.begun
    return RunFacts(
        run_id=run.name,
        workflow=workflow,
        parallel=count_of(summary, "parallel") or (0 if begun is None else begun.parallel),
        started_at=text_of(summary, "started_at", 40) or state.started_at,
        finished_at=text_of(summary, "finished_at", 40),
        live=live,
        cut_off=not locked and not summary and not state.finished,
        wall_seconds=now if wall is None else wall,
        exit_code=exit_code,
        meaning=MEANINGS[Exit(exit_code)] if exit_code in set(Exit) else None,
        stopped=text_of(summary, "stopped", 80) or state.stopped,
        expected=max(state.expected, len(items)),
        totals=_totals(summary, state, items, live=live),
        tokens_in=sum(item.tokens_in for item in items),
        tokens_out=sum(item.tokens_out for item in items),
        tokens_cached=sum(item.tokens_cached for item in items),
        tokens_reasoning=sum(item.tokens_reasoning for item in items),
        waited_seconds=round(sum(item.waited_seconds for item in items), 3),
        cost_usd=None if len(known) < len(items) else round(sum(known), 6),
        cost_known_usd=round(sum(item.cost_known_usd for item in items), 6),
        pretended=pretended([key.provider for key in keys]),
        coordination_overhead_percent=number_of(summary, "coordination_overhead_percent"),
        trace_id=text_of(summary, "trace_id", 80),
        paused=Left.at(state.pause, now) if live else None,
        files=[name for name in _FILES if run_tree(run).is_file(run / name)],
        begun=begun,
    )


def _run_again(summary: Record, facts: RunFacts, start: str | None, settings: Settings | None) -> RunAgain:
    return run_again(
        facts.begun,
        {"stopped": facts.stopped, "exit_code": facts.exit_code} | dict(summary),
        workflow=facts.workflow,
        mock=facts.pretended,
        start=start,
        settings=settings,
    )


def _outcome(item: ReportItem) -> ItemCase:
    last = item.rounds[-1] if item.rounds else None
    review = None if last is None else last.review
    return ItemCase(
        id=item.id,
        label=item.label,
        status=item.status,
        title=item.title,
        said=item.error or item.reason,
        questions=item.questions or (() if review is None else review.questions),
        blocking=0 if review is None else review.blocking,
        remarks=remarks(item.status, item.questions, item.dropped),
        answered=last is not None and last.decision is not None,
        attempts=item.attempts,
        filing=item.filing,
    )


def _progress_dict(progress: RunProgress) -> dict[str, Any]:
    left = progress.left
    words = None if left is None else between(left.least, left.most)  # as the terminal says it
    return asdict(progress) | {"queued": progress.queued, "left_words": words}


def _time_dict(shares: TimeShares) -> dict[str, Any]:
    percent = shares.percent()
    return {
        "total": round(shares.total, 3),
        "shares": [
            {
                "kind": kind.value,
                "words": kind.words,
                "meaning": kind.meaning,
                "seconds": seconds,
                "percent": percent[kind],
            }
            for kind, seconds in shares.seconds.items()
        ],
    }


def _totals(summary: Record, state: RunState, items: Sequence[ReportItem], *, live: bool) -> dict[str, int]:
    counts = Counter(item.status for item in items) if summary else state.totals(live=live)
    return {status: counts[status] for status in sorted(counts, key=lambda one: _ORDER.get(one, 99))}


def _parallelism(state: RunState, items: Sequence[ReportItem], now: float) -> Parallelism:
    lives = [span for item in items for span in item.spans if isinstance(span, WorkerSpan)]
    calls = [paid.call for item in items for paid in item.calls]
    allowed: Steps = [[mark.start, mark.allowed] for mark in state.marks if mark.allowed is not None]
    return Parallelism(
        items=steps(lives, now),
        calls=steps(calls, now),
        allowed=allowed[:_MOST_CHANGES],
        mean_items=mean_level(lives, now),
        mean_calls=mean_level(calls, now),
    )


def _overlaps(summary: Record) -> tuple[Overlap, ...]:
    found = []
    for one in dicts_of(summary, "overlaps"):
        labels, files = one.get("items"), one.get("files")
        if isinstance(labels, list) and isinstance(files, list):
            found.append(
                Overlap(
                    items=tuple(str(label)[:100] for label in labels),
                    files=tuple(str(name)[:300] for name in files),
                )
            )
    return tuple(found)


def _designs(items: Sequence[ReportItem], worktree: Path) -> dict[str, str]:
    """The documents of the approved items, by label."""
    documents: dict[str, str] = {}
    for item in items:
        path = Path(item.output or "")
        if item.status == Status.APPROVED and path.name and "://" not in (item.output or ""):
            text = Trail(worktree=worktree, folder=path.parent).read(path.name, _DOCUMENT_BYTES)
            if text is not None:
                documents[item.label] = text
    return documents
