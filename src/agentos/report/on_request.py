"""The texts that the live page asks for: a document, or prompt and answer of a call. Reads run and worktree.

Only what the run itself names is opened.
"""

from pathlib import Path
from typing import Any

from agentos.events.fields import count_of, text_of
from agentos.events.state import RunState
from agentos.report.documents import DocumentText, path_of, read_text
from agentos.report.items import RunPaths, read_item
from agentos.report.rows import Row, read_rows
from agentos.store.run_folder import prompts_file, read_events, read_summary, records_in, run_tree

_MOST_BYTES = 30_000_000  # of the prompts of one item
_MOST_TEXT = 500_000  # characters


def open_document(
    run: Path, label: str, file: str, *, worktree: Path, lineage_folder: str
) -> DocumentText | None:
    """The text of a document that the run names for this item; None if it names no such document."""
    row, state, workflow = _row(run, label)
    if row is None:
        return None
    place = RunPaths(run=run, older=(), worktree=worktree, lineage_folder=lineage_folder, workflow=workflow)
    item = read_item(row, state, place, now=0.0, drafts=False)
    if file not in {one.file for one in item.documents}:
        return None
    return read_text(worktree, path_of(item.trail, file))


def open_prompt(run: Path, label: str, call: str) -> dict[str, Any] | None:
    """Prompt and answer of a call, named as "drafter-2"; None if they are not kept."""
    row, _, _ = _row(run, label)
    if row is None or "/" in row.id:
        return None
    try:
        data = run_tree(run).read(run / prompts_file(row.id), _MOST_BYTES)
    except OSError:
        return None
    found = None
    for record in records_in(data):
        if call == f"{text_of(record, 'role', 80)}-{count_of(record, 'number')}":
            found = {name: text_of(record, name, _MOST_TEXT) or "" for name in ("system", "prompt", "answer")}
    return found


def _row(run: Path, label: str) -> tuple[Row | None, RunState, str]:
    """The row of an item, with the state and the workflow of its run."""
    summary = read_summary(run)
    state = RunState() if summary else read_events(run)
    rows = read_rows(summary, state, now=0.0, live=False)
    row = next((row for row in rows if row.label == label), None)
    return row, state, str(summary.get("workflow") or state.workflow or "?")
