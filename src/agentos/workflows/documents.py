"""Adds the review log and the stamp to an approved document, and loads the templates. Worker process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentos.errors import ConfigError
from agentos.repo_map.secret_files import secret_in
from agentos.stamp import author, seal, without_stamps
from agentos.store.documents import REVIEW_LOG
from agentos.store.rooted_tree import why_unreadable, worktree_tree
from agentos.workflows.gates import check_template
from agentos.workflows.prompts import Kind, shipped_template
from agentos.workflows.registry import ItemContext

MAX_TEMPLATE_BYTES = 200_000


def with_log(
    context: ItemContext, draft: str, log: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]]
) -> str:
    """Add the review log, and the stamp that says which input was approved and by whom."""
    lines = [draft.rstrip(), "", REVIEW_LOG, ""]
    lines += ["| review | draft | verdict | by | open findings |", "| --- | --- | --- | --- | --- |"]
    for entry in log:
        if "decision" in entry:
            done = "approved" if entry["decision"] == "approve" else "sent back"
            text = f"{done} by {entry['by']} {entry['at']}" + (f": {entry['note']}" if entry["note"] else "")
            lines.append(f"| - | - | a person's decision | {_cell(entry['by'])} | {_cell(text)} |")
        else:
            cells = (
                entry["review"],
                entry["draft"],
                entry["verdict"],
                entry["model"],
                "; ".join(entry["findings"]),
            )
            lines.append(f"| {' | '.join(_cell(str(cell)) or 'none' for cell in cells)} |")
    follow_ups = [finding for finding in findings if finding["tier"] < 3]
    if follow_ups:
        lines += ["", "### Follow-ups", ""]
        for finding in follow_ups:
            text = f"{finding['title']}: {finding['text']} {finding['recommendation']}".removeprefix(": ")
            lines.append(f"- Tier {finding['tier']} {finding['category']}: {_cell(text)}")
    item = context.item
    return seal(
        "\n".join(lines), item=item.label, input_hash=item.input_hash, by=author(dict(context.models))
    )


def _cell(text: str) -> str:
    return without_stamps(" ".join(text.split()).replace("|", "\\|"))


def load_template(worktree: Path, kind: Kind, override: str | None) -> str:
    """Read the repo's own template, which must have every section the gate requires, or the shipped one."""
    if override is None:
        return shipped_template(kind)
    name = f"{kind}_template {override!r}"
    try:
        template = worktree_tree(worktree).read(Path(override), MAX_TEMPLATE_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{name} {why_unreadable(exc)}.") from exc
    if secret := secret_in(template):
        raise ConfigError(f"{name} is refused: {secret}. Remove it from the file. None of it was sent.")
    if missing := check_template(kind, template):
        raise ConfigError(
            f"{name} is missing the section {', '.join(missing)}, which every draft must have. Add it."
        )
    return template
