"""Writes down all that happens in a run: events, log lines, records, summary. Coordinator process."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.console.console import Console
from agentos.console.lines import one_line
from agentos.coordinator.audit_trail import AuditTrail
from agentos.coordinator.disk_guard import DiskGuard
from agentos.coordinator.kept_prompts import KeptPrompts
from agentos.coordinator.plan import STAMPED, PlanAction, PlannedItem, approval_in_words, shared_reasons
from agentos.coordinator.verbose_lines import verbose_line
from agentos.credentials.pool import PoolSnapshot
from agentos.credentials.snapshot import KeyView
from agentos.decisions import questions_in
from agentos.errors import ItemFailed, StorageError
from agentos.events.catalogue import ENDINGS, Event, ItemEnded, NodeEntered, RunFinished
from agentos.events.fold import feed
from agentos.events.record import as_record
from agentos.events.state import RunState
from agentos.model import Status
from agentos.model_facts import ModelFacts
from agentos.naming import step_in_words
from agentos.report.overlaps import Overlap
from agentos.report.summary import (
    ItemFiles,
    KeyRow,
    NotInEvents,
    Summary,
    as_markdown,
    count_by_status,
    exit_code,
    summary_of,
)
from agentos.store.checkpoints import Checkpoints, LocalCheckpoints
from agentos.store.home import Home
from agentos.store.model_memory import ModelMemory
from agentos.store.records import Fence, FilingState, Stale, timestamp
from agentos.store.run_folder import RunFolder, repair_events

if TYPE_CHECKING:
    from agentos.store.records.protocols import AllRecords
    from agentos.wire import CallTexts

NOTES_USED = frozenset({Status.APPROVED, Status.NEEDS_REVISION, Status.DISCUSS})
UNFINISHED = frozenset({Status.PAUSED, Status.INTERRUPTED, Status.PENDING})


class RunRecorder:
    """Writes everything that a run leaves behind."""

    def __init__(
        self,
        home: Home,
        *,
        records: "AllRecords",
        folder: RunFolder,
        console: Console,
        filing: FilingState | None = None,
        verbose: bool = False,
        mock: bool = False,
        source: str = "",
        models: ModelMemory | None = None,
        checkpoints: Checkpoints | None = None,
        clock: Callable[[], float] = time.monotonic,
        stamp: Callable[[], str] = timestamp,
    ) -> None:
        self._clock = clock
        self._stamp = stamp
        self._verbose = verbose
        self.mock = mock  # a role uses the mock
        self._filing = filing  # whether a document approved in this run is filed
        self._home = home
        self._records = records
        self._folder = folder
        self._console = console
        self.run_id = folder.run_id
        self.source = source  # where the items come from
        self.started = clock()
        self.state = RunState()  # of all events so far
        self.guard = DiskGuard(console.complain)
        self.trail = AuditTrail(home, folder, records, self.guard)
        self._prompts = KeptPrompts(folder)
        self._said: set[str] = set()
        self.models = models or ModelMemory(None, {})
        self.checkpoints = checkpoints or LocalCheckpoints(home=home, mock=records.mock)

    @property
    def storage_error(self) -> StorageError | None:
        """Why nothing more is written, after a write has failed."""
        return self.guard.error

    def span(self, line: bytes) -> None:
        self.guard(self._folder.span, line)

    def record(self, event: Event) -> None:
        record = {"time": self._stamp(), **as_record(event)}
        feed(self.state, record)
        self.guard(self._folder.event, record)
        if self._verbose and (line := verbose_line(event, self.state)) is not None:
            self._console.say(line)

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

    def keep_texts(self, entry: PlannedItem, texts: "CallTexts") -> None:
        """Keep prompt and answer of a call, within limits."""
        if (full := self.guard(self._prompts.keep, entry.item.id, texts)) is not None:
            self.say_once(full)

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
            self.checkpoints.drop(entry.item)
        if entry.step in {PlanAction.START_OVER, PlanAction.REVISE}:
            _stop_if_stale(
                self.guard(self._records.forget, item, fence, filing=entry.step is PlanAction.START_OVER)
            )
        how = {
            PlanAction.START_OVER: "starting over",
            PlanAction.REVISE: f"revising {entry.document}",
            PlanAction.RESUME: f"resuming from {step_in_words(entry.node) or 'the start'}",
        }
        if entry.step in how:
            self.say(f"{item.label}: {how[entry.step]} ({entry.reason})")

    def at_node(self, entry: PlannedItem, node: str, reviews: int, attempt: int) -> None:
        """Record the node of the item; raise ItemFailed if another run has the item."""
        self.record(NodeEntered(item=entry.item.id, node=node, reviews=reviews))
        fence = self._fence(attempt)
        _stop_if_stale(self.guard(self._records.at_node, entry.item, fence, node, reviews))

    def record_not_run(self, entries: Sequence[PlannedItem]) -> None:
        """Record how items end that do not run; one line for those that are skipped for the same reason."""
        together = shared_reasons(entries)
        for entry in entries:
            counted = entry.step is PlanAction.SKIP and entry.shared_reason in together
            self._record_not_run(entry, shown=self._verbose or not counted)
        for reason, count in together.items():
            self.say(f"{count} items skipped: {reason}")

    def _record_not_run(self, entry: PlannedItem, *, shown: bool) -> None:
        item, outcome = entry.item, entry.outcome
        status = {
            PlanAction.SKIP: Status.SKIPPED,
            PlanAction.FILE: Status.APPROVED,
            PlanAction.WAIT: Status.DISCUSS,
            PlanAction.REFUSE: Status.FAILED,
        }[entry.step]
        ended = ENDINGS[status](
            item=item.id,
            label=item.label,
            verdict=outcome.verdict if outcome else ("DISCUSS" if status is Status.DISCUSS else None),
            reviews=outcome.reviews if outcome else entry.reviews,
            error=entry.reason if status in {Status.DISCUSS, Status.FAILED} else None,
            reason=entry.reason if status in {Status.SKIPPED, Status.APPROVED} else None,
            filing="wanted" if entry.step is PlanAction.FILE else entry.filing,
            output=outcome.output if outcome else entry.document,
            questions=tuple(map(str, questions_in(entry.reason))) if status is Status.DISCUSS else (),
        )
        if outcome is not None:
            # Finish what the approving run had not done when it was killed.
            repair_events(self._home.runs, outcome)
            holder = self.guard(self._records.holder, item)
            if holder is None or holder.run_id == self.run_id:
                self.checkpoints.drop(entry.item)
        self._item_ended(ended, shown=shown)

    def finish(
        self,
        entry: PlannedItem,
        status: Status,
        *,
        attempts: int,
        error: str | None,
        busy_seconds: float = 0.0,
        verdict: str | None = None,
        reviews: int = 0,
        output: str | None = None,
        text_hash: str = "",
        noted: int | None = None,
        questions: Sequence[str] = (),
        dropped: Sequence[str] = (),
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
                text_hash=text_hash,
                filing=self._filing,
            )
            if status is Status.APPROVED and self.storage_error is not None:
                # Only the records make an item approved; the next run finds it finished.
                status, error = Status.INTERRUPTED, str(self.storage_error)
            if stale is not None:
                status, verdict, output = Status.FAILED, None, None
                error = f"{stale}; this run recorded nothing for it"
            self.log(item.label, f"{status.value}: {output or error or ''}")
        latest = max((one.id for one in entry.decisions), default=0)
        if status in NOTES_USED and latest:
            # Only a document of ours has them; other workflows do not say how far they got.
            kept = status is Status.APPROVED and noted is not None
            self.guard(
                self._records.use_decisions, item, fence, latest if noted is None else noted, kept=kept
            )
        if status is Status.APPROVED:
            self.checkpoints.drop(entry.item)
        self._folder.done_with(item.id, item.label)
        self._console.item_done(item.label, self._log(entry))
        self._item_ended(
            ENDINGS[status](
                item=item.id,
                label=item.label,
                verdict=verdict,
                reviews=reviews,
                attempts=attempts,
                error=error,
                output=output,
                questions=tuple(questions),
                dropped=tuple(dropped) if status is Status.APPROVED else (),
                busy_seconds=round(busy_seconds, 6),
                filing="wanted" if status is Status.APPROVED and self._filing is FilingState.WANTED else None,
            )
        )

    def lost(self, entry: PlannedItem, error: str) -> None:
        """Record the end of an item after recording it failed."""
        self._item_ended(ENDINGS[Status.FAILED](item=entry.item.id, label=entry.item.label, error=error))

    def _item_ended(self, ended: ItemEnded, *, shown: bool = True) -> None:
        """Record the end of an item and say it; one that is not `shown` is only in the log."""
        self.record(ended)
        if ended.status is not Status.PENDING:
            ending = ended.status.value.replace("_", " ")
            if detail := ended.reason or ended.output or ended.error:
                if detail.startswith(STAMPED):
                    detail = f"{approval_in_words(ended.verdict)}: {detail.removeprefix(STAMPED)}"
                ending = detail if detail.startswith(ending) else f"{ending}: {detail}"
            line = f"{ended.label}: {ending}"
            self.say(line) if shown else self.guard(self._folder.coordinator_line, one_line(line))

    def _fence(self, attempt: int) -> Fence:
        return Fence(run_id=self.run_id, attempt=attempt)

    def _log(self, entry: PlannedItem) -> Path:
        return self._folder.path / f"{entry.item.label}.log"

    def _files(self, entry: PlannedItem) -> ItemFiles:
        """What is on disk about an item."""
        status = Status(self.state.items[entry.item.id].status)
        return ItemFiles(
            log=self._existing(self._log(entry)) if entry.runs else None,
            checkpoint=self.checkpoints.existing(entry.item) if entry.runs or not entry.outcome else None,
            findings=self.trail.open_findings(entry, status),
        )

    def _existing(self, path: Path) -> str | None:
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
        items = [self.state.items[entry.item.id] for entry in plan]
        statuses = [Status(item.status) for item in items]
        unfiled = unfiled or any(item.filing_state in {"wanted", "unknown"} for item in items)
        self.record(
            RunFinished(
                exit_code=int(exit_code(statuses, stopped, unfiled=unfiled)),
                totals=count_by_status(statuses),
                stopped=stopped,
                seconds=round(self._clock() - self.started, 3),
            )
        )
        summary = summary_of(
            self.state,
            NotInEvents(
                items={entry.item.id: self._files(entry) for entry in plan},
                keys=tuple(_key_row(key, (cached or {}).get(key.id, 0)) for key in pool.keys),
                folder=str(self._folder.path),
                overlaps=overlaps,
                trace_id=self.trail.trace_id,
                source=self.source,
                needed_budget=needed_budget,
                needed_item_budget=needed_item_budget,
            ),
        )
        if stopped is None and not UNFINISHED.intersection(statuses):
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


def _key_row(key: KeyView, cached: int) -> KeyRow:
    return KeyRow(
        id=key.id,
        provider=key.provider,
        group=key.group,
        state=str(key.state),
        calls=key.calls,
        rate_limited=key.rate_limited,
        tokens_in=key.tokens_in,
        tokens_out=key.tokens_out,
        tokens_cached=cached,
    )


def _stop_if_stale(stale: Stale | None) -> None:
    if stale is not None:
        raise ItemFailed(str(stale))
