"""Looks at all that decides about items before a run: documents, receipts, notes, records. Reads only."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentos.coordinator.plan import Known
from agentos.model import Item, Status
from agentos.store.documents import find_document
from agentos.store.lineage import Lineage, receipts
from agentos.store.records import Records
from agentos.workflows.registry import Workflow


def survey(
    flow: Workflow,
    items: Sequence[Item],
    records: Records,
    *,
    worktree: Path,
    folders: Mapping[str, str],
    filing: bool,
) -> dict[str, Known]:
    """What is known of each item, by id; `filing`: what became of it on GitHub counts, too."""
    name, mock = flow.name, records.mock
    outcomes, progress, notes = records.outcomes(name), records.progress(name), records.notes(name)
    real = records.of(mock=False).progress(name) if mock else {}
    filed = receipts(worktree, folders["lineage"], name) if flow.filed and not mock else {}
    target = getattr(flow, "target", None)  # workflows of others need not write documents
    known: dict[str, Known] = {}
    for item in items:
        made = progress.get((name, item.id))
        asked = made is not None and made.status == Status.DISCUSS
        trail = f"{item.id}-{item.workflow}"
        document = None
        if target is not None and item.problem is None:
            lineage = Lineage(worktree=worktree, folder=folders["lineage"], name=trail)
            document = find_document(worktree, target(item, folders), item.label, lineage)
        known[item.id] = Known(
            outcome=outcomes.get(item.id),
            progress=made,
            decided=records.decision(item, made.reviews) if made is not None and asked else None,
            filing=records.filing(item) if filing and item.id in outcomes else None,
            notes=notes.get((name, item.id), ()),
            written=target is not None,
            document=document,
            receipt=next((one for one in filed.get(item.label, ()) if item.is_input(one.input)), None),
            # The trail of a real item that is under way is not the mock's to move.
            trail=f"{trail}.mock" if (name, item.id) in real else "",
        )
    return known
