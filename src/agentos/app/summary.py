"""Sums up a run: overlaps between its documents, the budget it needs, the summary and the report."""

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.app.execution import Ran
from agentos.app.open_run import OpenRun
from agentos.app.project import Project
from agentos.coordinator.plan import PlannedItem
from agentos.coordinator.scheduler import Stop
from agentos.events.state import ItemState
from agentos.model import Status
from agentos.report.overlaps import Overlap, overlaps
from agentos.report.summary import Summary
from agentos.store.documents import MAX_DOCUMENT_BYTES, file_headings
from agentos.store.rooted_tree import worktree_tree
from agentos.store.run_folder import has_summary


@dataclass(frozen=True, kw_only=True)
class FilingResult:
    """How the filing ended."""

    stopped: Stop | None  # why the run ended early, before or while filing
    unfinished: bool = False  # a filing of an earlier run is still unknown, with or without a row here


def summarise(run: OpenRun, plan: Sequence[PlannedItem], ran: Ran, filed: FilingResult) -> Summary:
    """Write the summary and the report of the run, and close its trace."""
    project = run.request.project
    summary = ran.recorder.close(
        plan,
        ran.keys.snapshot(time.monotonic()),
        filed.stopped,
        unfiled=filed.unfinished,
        overlaps=find_overlaps(project, plan, ran.recorder.state.items),
        needed_budget=ran.spending.needed,
        needed_item_budget=ran.spending.needed_for_an_item,
        cached=ran.spending.cached_by_key,
    )
    ran.trace.close(exit_code=summary.exit_code, totals=summary.totals)
    _write_report(run, ran)
    return summary


def find_overlaps(
    project: Project, plan: Iterable[PlannedItem], items: Mapping[str, ItemState]
) -> tuple[Overlap, ...]:
    """Designs that change the same files, if one is new: from this run, or from a run that was cut off."""
    documents: dict[str, str] = {}
    tree = worktree_tree(project.worktree)
    new: set[str] = set()
    for entry in plan:
        item = items[entry.item.id]
        if item.status not in {Status.APPROVED, Status.SKIPPED} or not item.output or "://" in item.output:
            continue
        with contextlib.suppress(OSError, UnicodeDecodeError):
            documents[item.label] = tree.text(Path(item.output), MAX_DOCUMENT_BYTES)
        unreported = entry.outcome is not None and not has_summary(project.home.runs / entry.outcome.run_id)
        if item.status == Status.APPROVED or unreported:
            new.add(item.label)
    headings = file_headings(project.worktree, project.config.settings.lld_template)
    return tuple(one for one in overlaps(documents, headings) if new.intersection(one.items))


def _write_report(run: OpenRun, ran: Ran) -> None:
    """Write the page of the run; an error here never fails a run that went well."""
    from agentos.report.data import history_of, run_data  # noqa: PLC0415 - not before the first call
    from agentos.report.documents import with_texts  # noqa: PLC0415
    from agentos.report.page import write_report  # noqa: PLC0415

    path, project = run.folder.path, run.request.project
    settings = project.config.settings
    try:
        data = run_data(
            path,
            worktree=project.worktree,
            lineage_folder=settings.lineage_folder,
            lld_template=settings.lld_template,
            history=history_of(path),
        )
        write_report(path, with_texts(data, run=path, worktree=project.worktree))
    except Exception as exc:  # noqa: BLE001
        ran.console.complain(f"could not write the report: {exc}; run 'agentos report' to try again")
