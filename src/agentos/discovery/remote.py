"""Reads items from GitHub: open issues, or those that are named."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentos.discovery.hidden_text import shown_text, visible
from agentos.discovery.labels import check_labels
from agentos.discovery.local import MAX_ITEM_BYTES
from agentos.errors import UsageError
from agentos.model import Item
from agentos.naming import ids_named

if TYPE_CHECKING:
    from agentos.github import RemoteIssue
    from agentos.github.client import GitHub


def list_issues(github: "GitHub", labels: Sequence[str], *, workflow: str, prefix: str) -> tuple[Item, ...]:
    """List the open issues, or those with all the labels."""
    found = github.open_issues(labels)
    if labels and not found:
        # Checked only now: if an issue has the labels, they exist.
        name = github.repository
        check_labels(labels, github.labels(), where=f"{name} does not have", none=f"{name} has no labels.")
    return tuple(_item(issue, workflow=workflow, prefix=prefix) for issue in found)


def read_issues(github: "GitHub", wanted: Sequence[str], *, workflow: str, prefix: str) -> tuple[Item, ...]:
    """Read the issues named by number or label, also closed ones."""
    numbers: dict[int, None] = {}
    for one in wanted:
        text = ids_named(one, prefix, str)[0]
        if not text.isdecimal() or not text.isascii() or int(text) < 1:
            raise UsageError(
                f"{one!r} is not the number of an issue on GitHub. "
                "Use --source local for files in this worktree."
            )
        numbers[int(text)] = None
    return tuple(_item(github.issue(number), workflow=workflow, prefix=prefix) for number in numbers)


def _item(issue: "RemoteIssue", *, workflow: str, prefix: str) -> Item:
    name, body = f"Issue {issue.number}", issue.body.replace("\r\n", "\n")
    title = visible(issue.title).strip() or name
    text = f"# {issue.title or name}\n\n{body}".rstrip() + "\n"
    problem = issue.problem
    if problem is None and len(text.encode()) > MAX_ITEM_BYTES:
        problem = f"issue {issue.number} is larger than {MAX_ITEM_BYTES:,} bytes; split it into smaller ones"
    shown = f"# {title}\n\n{shown_text(body)}".rstrip() + "\n" if problem is None else text
    return Item(
        workflow=workflow,
        id=str(issue.number),
        label=f"{prefix}-{issue.number}",
        title=title[:120],
        text=shown,
        whole="" if shown == text else text,
        source=issue.url,
        problem=problem,
        remote=True,
        labels=issue.labels,
    )
