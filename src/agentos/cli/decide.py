"""`agentos decide`: a person's answer to a review that ends in DISCUSS."""

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentos.store.records import Progress, Records


@click.command("decide")
@click.argument("item", metavar="ID")
@click.option("--approve", is_flag=True, help="Take the draft as it is.")
@click.option("--revise", is_flag=True, help="Have it revised.")
@click.option("--note", default="", help="Tell the drafter what was decided; by itself it means --revise.")
def decide(item: str, *, approve: bool, revise: bool, note: str) -> None:
    """Answer the review of item ID, which asks for a person's decision; the next run goes on from there."""
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.store.records import Decided, Records, timestamp  # noqa: PLC0415

    if approve and revise:
        raise UsageError("Choose --approve or --revise, not both.")
    if not (approve or revise or note.strip()):
        raise UsageError('Say what is decided: --approve, --revise or --note "...".')
    project = open_project()
    if not project.home.records.exists():
        raise UsageError("Nothing was run here yet, so nothing waits for a decision.")
    with Records(project.home.records) as records:
        found = _waiting(records, item)
        answer = "approve" if approve else "revise"
        records.decide(
            Decided(
                workflow=found.workflow,
                item=found.item,
                input_hash=found.input_hash,
                reviews=found.reviews,
                answer=answer,
                note=note.strip(),
                decided_by=_person(),
                decided_at=timestamp(),
            )
        )
    label = _label(found.workflow, found.item)
    click.echo(
        f"{label}: {answer}"
        + (f" ({note.strip()})" if note.strip() else "")
        + ". The next run goes on from there:"
    )
    mock = " --mock" if _was_mocked(project.home.runs / found.run_id / "summary.json") else ""
    click.echo(f"  agentos {found.workflow} {found.item}{mock}")


def _waiting(records: "Records", wanted: str) -> "Progress":
    """Find the one item that waits and is meant."""
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.model import Status  # noqa: PLC0415

    all_waiting = [one for one in records.progress().values() if one.status == Status.DISCUSS]
    meant = [one for one in all_waiting if wanted in {one.item, _label(one.workflow, one.item)}]
    if len(meant) == 1:
        return meant[0]
    if meant:
        labels = " or ".join(_label(one.workflow, one.item) for one in meant)
        raise UsageError(f"{wanted!r} may be {labels}; name it in full.")
    waiting = ", ".join(_label(one.workflow, one.item) for one in all_waiting) or "none"
    raise UsageError(f"{wanted!r} does not wait for a decision. Waiting: {waiting}.")


def _label(workflow: str, item: str) -> str:
    from agentos.workflows.registry import workflow as find  # noqa: PLC0415

    return f"{find(workflow).prefix}-{item}"


def _was_mocked(summary: Path) -> bool:
    try:
        keys = json.loads(summary.read_text("utf-8"))["keys"]
    except (OSError, ValueError, KeyError):
        return False
    return all(key.get("provider") == "mock" for key in keys)


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
