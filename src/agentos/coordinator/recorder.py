"""Writes down all that happens in a run: events, log lines, records, summary. Coordinator process."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.console.console import Console
from agentos.console.lines import one_line
from agentos.coordinator.audit_trail import AuditTrail
from agentos.coordinator.disk_guard import DiskGuard
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.credentials.pool import PoolSnapshot
from agentos.errors import ItemFailed, StorageError
from agentos.events.catalogue import ENDINGS, Event, NodeEntered, ParallelChanged, RunFinished
from agentos.events.keys import Leased, LimitLearnt, Settled
from agentos.events.record import as_record
from agentos.model import Status
from agentos.model_facts import ModelFacts
from agentos.report.overlaps import Overlap
from agentos.report.summary import ItemRow, KeyRow, Summary, as_markdown, exit_code, overhead_percent
from agentos.spending.spending import Spent
from agentos.store.home import Home, checkpoint_files
from agentos.store.model_memory import ModelMemory
from agentos.store.records import Fence, FilingState, Stale, timestamp
from agentos.store.run_folder import RunFolder, repair_events

if TYPE_CHECKING:
    from agentos.store.records.protocols import AllRecords

VERBOSE = (NodeEntered, Leased, Settled, ParallelChanged, LimitLearnt)
BOTH_MODELS = frozenset({"draft", "review"})  # a note is used when the item has been at both of these nodes
NOTES_USED = frozenset({Status.APPROVED, Status.NEEDS_REVISION, Status.DISCUSS})
UNFINISHED = frozenset({Status.PAUSED, Status.INTERRUPTED, Status.PENDING})


@dataclass(kw_only=True)
class Tally:
    """What is counted for one item in this run."""

    began: float | None = None  # its first start
    attempts: int = 0
    busy: float = 0.0
    waited: float = 0.0


class RunRecorder:
    """Writes everything that a run leaves behind."""

    def __init__(
        self,
        home: Home,
        workflow: str,
        parallel: int,
        *,
        records: "AllRecords",
        folder: RunFolder,
        console: Console,
        filing: FilingState | None = None,
        verbose: bool = False,
        mock: bool = False,
        source: str = "",
        models: ModelMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._verbose = verbose
        self.mock = mock  # a role uses the mock
        self._filing = filing  # whether a document approved in this run is filed
        self._home = home
        self._workflow = workflow
        self._parallel = parallel
        self._records = records
        self._folder = folder
        self._console = console
        self._busy: list[tuple[float, float]] = []  # when each item began, and how long it was busy
        self._nodes: dict[str, set[str]] = {}  # the nodes each item's worker has been at
        self._started_at = timestamp()
        self.run_id = folder.run_id
        self.source = source  # where the items come from
        self.started = clock()
        self.rows: dict[str, ItemRow] = {}
        self.guard = DiskGuard(console.complain)
        self.trail = AuditTrail(home, folder, records, self.guard)
        self._said: set[str] = set()
        self.models = models or ModelMemory(None, {})

    @property
    def storage_error(self) -> StorageError | None:
        """Why nothing more is written, after a write has failed."""
        return self.guard.error

    def span(self, line: bytes) -> None:
        self.guard(self._folder.span, line)

    def record(self, event: Event) -> None:
        self.guard(self._folder.event, event)
        if self._verbose and isinstance(event, VERBOSE):
            fields = as_record(event)
            name = fields.pop("event")
            self._console.say(f"{name}: " + ", ".join(f"{field} {value}" for field, value in fields.items()))

    def say(self, line: str) -> None:
        self.guard(self._folder.coordinator_line, one_line(line))
        self._console.say(line)

    def say_once(self, line: str) -> None:
        """Say a line unless it was said in this run."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def learn_model(self, model: str, facts: ModelFacts) -> None:
        """Remember for later calls and runs what a server said about a model, and say it once."""
        for line in self.guard(self.models.learn, model, facts) or ():
            self.say(f"{model} {line}")

    def output(self, label: str, lines: Sequence[str], *, error: bool, shown: bool = True) -> None:
        if lines:
            self.guard(self._folder.item_lines, label, lines, "err" if error else "out")
            if shown:
                self._console.item_lines(label, lines, error=error)

    def log(self, label: str, line: str) -> None:
        """Write a line of the coordinator to the log of an item."""
        self.guard(self._folder.item_lines, label, [one_line(line)], "run")

    def begin(self, entry: PlannedItem, attempt: int) -> None:
        """Record that an attempt begins; raise ItemFailed if another run has the item."""
        item, fence = entry.item, self._fence(attempt)
        # Before anything else: the checkpoint may belong to another run by now.
        _stop_if_stale(self.guard(self._records.check, item, fence))
        if attempt == 1:
            self._prepare(entry, fence)
        _stop_if_stale(self.guard(self._records.begin, item, fence, revise=entry.revises))

    def _prepare(self, entry: PlannedItem, fence: Fence) -> None:
        """Drop an old checkpoint unless the item resumes from it, and say how the item starts."""
        item = entry.item
        if entry.step is not PlanAction.RESUME:
            self._drop_checkpoint(entry)
        if entry.step in {PlanAction.START_OVER, PlanAction.REVISE}:
            _stop_if_stale(
                self.guard(self._records.forget, item, fence, filing=entry.step is PlanAction.START_OVER)
            )
        how = {
            PlanAction.START_OVER: "starting over",
            PlanAction.REVISE: f"revising {entry.document}",
            PlanAction.RESUME: f"resuming from {entry.node or 'the start'}",
        }
        if entry.step in how:
            self.say(f"{item.label}: {how[entry.step]} ({entry.reason})")
        self._nodes.pop(item.label, None)

    def at_node(self, entry: PlannedItem, node: str, reviews: int, attempt: int) -> None:
        """Record the node of the item; raise ItemFailed if another run has the item."""
        self.record(NodeEntered(item=entry.item.id, node=node, reviews=reviews))
        fence = self._fence(attempt)
        _stop_if_stale(self.guard(self._records.at_node, entry.item, fence, node, reviews))
        label = entry.item.label
        been = self._nodes.setdefault(label, set())
        if entry.notes and node not in BOTH_MODELS and been >= BOTH_MODELS:
            # Not before: if the run is killed and the input changes, the progress is dropped, with the note.
            _stop_if_stale(self.guard(self._records.use_notes, entry.item, fence, entry.notes))
            been.clear()
        been.add(node)

    def record_not_run(self, entry: PlannedItem) -> None:
        """Make the row of an item that does not run."""
        item, outcome = entry.item, entry.outcome
        status = {
            PlanAction.SKIP: Status.SKIPPED,
            PlanAction.FILE: Status.APPROVED,
            PlanAction.WAIT: Status.DISCUSS,
            PlanAction.REFUSE: Status.FAILED,
        }[entry.step]
        row = ItemRow(
            id=item.id,
            label=item.label,
            status=status,
            verdict=outcome.verdict if outcome else ("DISCUSS" if status is Status.DISCUSS else None),
            reviews=outcome.reviews if outcome else entry.reviews,
            error=entry.reason if status in {Status.DISCUSS, Status.FAILED} else None,
            reason=entry.reason if status in {Status.SKIPPED, Status.APPROVED} else None,
            filing="wanted" if entry.step is PlanAction.FILE else entry.filing,
            output=outcome.output if outcome else entry.document,
            checkpoint=None if outcome else self._kept_checkpoint(entry),
            findings=self.trail.open_findings(entry, status),
        )
        self.rows[item.label] = row
        if outcome is not None:
            # Finish what the approving run had not done when it was killed.
            repair_events(self._home.runs, outcome)
            holder = self.guard(self._records.holder, item)
            if holder is None or holder.run_id == self.run_id:
                self._drop_checkpoint(entry)
        self._close_row(entry, row)

    def finish(
        self,
        entry: PlannedItem,
        status: Status,
        tally: Tally,
        spent: Spent,
        *,
        attempts: int,
        error: str | None,
        verdict: str | None = None,
        reviews: int = 0,
        output: str | None = None,
        noted: int | None = None,
    ) -> None:
        """Record how an item ended: first in the records, then where it is shown."""
        item, fence = entry.item, self._fence(attempts)
        if status is not Status.PENDING:
            stale = self.guard(
                self._records.end,
                item,
                fence,
                status,
                verdict=verdict,
                reviews=reviews,
                output=output,
                error=error,
                filing=self._filing,
            )
            self._busy.append((tally.began or 0.0, tally.busy))
            if status is Status.APPROVED and self.storage_error is not None:
                # Only the records make an item approved; the next run finds it finished.
                status, error = Status.INTERRUPTED, str(self.storage_error)
            if stale is not None:
                status, verdict, output = Status.FAILED, None, None
                error = f"{stale}; this run recorded nothing for it"
            self.log(item.label, f"{status.value}: {output or error or ''}")
        used = [note for note in entry.notes if noted is None or note.id <= noted]
        if status in NOTES_USED and used:
            self.guard(self._records.use_notes, item, fence, used)
        if status is Status.APPROVED:
            self._drop_checkpoint(entry)
        log = self._folder.path / f"{item.label}.log"
        row = ItemRow(
            id=item.id,
            label=item.label,
            status=status,
            verdict=verdict,
            reviews=reviews,
            attempts=attempts,
            seconds=0.0 if tally.began is None else round(self._clock() - tally.began, 3),
            waited_seconds=round(tally.waited, 3),
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            tokens_cached=spent.tokens_cached,
            cost_usd=None if spent.usd is None else round(spent.usd, 6),
            error=error,
            output=output,
            filing="wanted" if status is Status.APPROVED and self._filing is FilingState.WANTED else None,
            log=str(log) if self._home.tree.exists(log) else None,
            checkpoint=self._kept_checkpoint(entry),
            findings=self.trail.open_findings(entry, status),
        )
        self.rows[item.label] = row
        self._folder.done_with(item.id, item.label)
        self._console.item_done(item.label, log)
        self._close_row(entry, row)

    def lost(self, entry: PlannedItem, error: str) -> None:
        """Make the row of an item whose end could not be recorded."""
        item = entry.item
        self.rows[item.label] = ItemRow(id=item.id, label=item.label, status=Status.FAILED, error=error)
        self._close_row(entry, self.rows[item.label])

    def _close_row(self, entry: PlannedItem, row: ItemRow) -> None:
        detail = row.reason or row.output or row.error
        self.record(
            ENDINGS[row.status](
                item=entry.item.id,
                label=row.label,
                verdict=row.verdict,
                reviews=row.reviews,
                output=row.output,
                error=row.error,
            )
        )
        if row.status is not Status.PENDING:
            ending = row.status.value.replace("_", " ")
            if detail:
                ending = detail if detail.startswith(ending) else f"{ending}: {detail}"
            self.say(f"{row.label}: {ending}")

    def _fence(self, attempt: int) -> Fence:
        return Fence(run_id=self.run_id, attempt=attempt)

    def checkpoint(self, entry: PlannedItem) -> Path:
        return self._home.checkpoint(entry.item.workflow, entry.item.id, mock=self._records.mock)

    def _drop_checkpoint(self, entry: PlannedItem) -> None:
        for path in checkpoint_files(self.checkpoint(entry)):
            self._home.tree.remove(path)

    def _kept_checkpoint(self, entry: PlannedItem) -> str | None:
        path = self.checkpoint(entry)
        return str(path) if self._home.tree.exists(path) else None

    def close(
        self,
        plan: Sequence[PlannedItem],
        pool: PoolSnapshot,
        stopped: str | None,
        *,
        unfiled: bool = False,
        overlaps: tuple[Overlap, ...] = (),
        needed_budget: float | None = None,
        needed_item_budget: float | None = None,
        cached: Mapping[str, int] | None = None,  # tokens read from a cache, by key
    ) -> Summary:
        """Write the summary and release the items."""
        rows = tuple(self.rows[entry.item.label] for entry in plan)
        wall = self._clock() - self.started
        unfiled = unfiled or any(row.filing in {"wanted", "unknown"} for row in rows)
        summary = Summary(
            run_id=self.run_id,
            workflow=self._workflow,
            parallel=self._parallel,
            started_at=self._started_at,
            finished_at=timestamp(),
            wall_seconds=round(wall, 3),
            exit_code=int(exit_code((row.status for row in rows), stopped, unfiled=unfiled)),
            stopped=stopped,
            items=rows,
            keys=tuple(
                KeyRow(
                    id=key.id,
                    provider=key.provider,
                    group=key.group,
                    state=str(key.state),
                    calls=key.calls,
                    rate_limited=key.rate_limited,
                    tokens_in=key.tokens_in,
                    tokens_out=key.tokens_out,
                    tokens_cached=(cached or {}).get(key.id, 0),
                )
                for key in pool.keys
            ),
            coordination_overhead_percent=overhead_percent(
                # In the order of their start, as a perfect scheduler would take them.
                wall,
                [busy for _, busy in sorted(self._busy)],
                self._parallel,
            ),
            folder=str(self._folder.path),
            overlaps=overlaps,
            trace_id=self.trail.trace_id,
            mock=self.mock,
            source=self.source,
            needed_budget=needed_budget,
            needed_item_budget=needed_item_budget,
        )
        self.record(RunFinished(exit_code=summary.exit_code, totals=summary.totals, stopped=stopped))
        if stopped is None and not {row.status for row in rows} & UNFINISHED:
            later = self.guard(self._records.finish_run, self.run_id)
            if later is not None:
                self.say(f"run {later} resumed this run")
        self.guard(self._records.release, self.run_id)
        # Try to write the summary even on a full disk: it is small, and people look for it first.
        self.guard.error = None
        self.guard(
            self._folder.write,
            "summary.json",
            json.dumps(summary.as_dict(), indent=2, ensure_ascii=False) + "\n",
        )
        self.guard(self._folder.write, "summary.md", as_markdown(summary))
        return summary


def _stop_if_stale(stale: Stale | None) -> None:
    if stale is not None:
        raise ItemFailed(str(stale))
