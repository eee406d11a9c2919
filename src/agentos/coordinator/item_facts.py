"""Collects what decides about items before a run: documents, receipts, notes, records. Read-only."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentos.coordinator.plan import Known
from agentos.model import Item
from agentos.stamp import MOCK, Stamp
from agentos.store.documents import Found, find_document
from agentos.store.lineage import Lineage, receipts
from agentos.store.records import Outcome
from agentos.store.records.protocols import AllRecords
from agentos.workflows.registry import Workflow


def survey(
    flow: Workflow,
    items: Sequence[Item],
    records: AllRecords,
    *,
    worktree: Path,
    folders: Mapping[str, str],
    filing: bool,
) -> dict[str, Known]:
    """What is known about each item, by id. With `filing`, also whether it was filed on GitHub."""
    name, mock = flow.name, records.mock
    outcomes, progress, said = records.outcomes(name), records.progress(name), records.decisions(name)
    real = records.of(mock=False).progress(name) if mock else {}
    others = records.of(mock=not mock).outcomes(name)
    filed = receipts(worktree, folders["lineage"], name) if flow.filed and not mock else {}
    target = getattr(flow, "target", None)  # other workflows need not write documents
    known: dict[str, Known] = {}
    for item in items:
        made = progress.get((name, item.id))
        trail = f"{item.id}-{item.workflow}"
        document = None
        if target is not None and item.problem is None:
            lineage = Lineage(worktree=worktree, folder=folders["lineage"], name=trail)
            document = find_document(worktree, target(item, folders), item.label, lineage)
            if document is not None and document.stamp is not None and not document.stamp.by:
                by_real, by_mock = (others, outcomes) if mock else (outcomes, others)
                document = _of_first_version(document, document.stamp, item, by_real, by_mock)
        known[item.id] = Known(
            outcome=outcomes.get(item.id),
            progress=made,
            filing=records.filing(item) if filing and item.id in outcomes else None,
            decisions=said.get((name, item.id), ()),
            written=target is not None,
            document=document,
            receipt=next((one for one in filed.get(item.label, ()) if item.is_input(one.input)), None),
            # The mock must not move the trail of a real item that is in progress.
            trail=f"{trail}.mock" if (name, item.id) in real else "",
        )
    return known


def _of_first_version(
    document: Found, stamp: Stamp, item: Item, real: Mapping[str, Outcome], mocked: Mapping[str, Outcome]
) -> Found:
    """The first version of agentos did not mark stamps of the mock; the records may know."""
    outcome = mocked.get(item.id)
    by_mock = item.id not in real and outcome is not None and outcome.input_hash == stamp.input
    return replace(document, stamp=replace(stamp, by=MOCK)) if by_mock else document
