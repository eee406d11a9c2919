"""`agentos status` and `agentos logs`: look at runs, also from another terminal while one is going on."""

import os
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentos.cli import completion
from agentos.console.screen import json_text

if TYPE_CHECKING:
    from agentos.events.catalogue import RunStarted
    from agentos.events.state import ItemState, RunState
    from agentos.store.records import Progress, Records

FOLLOW_SECONDS = 0.2


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, as_json: bool) -> None:
    """Show the latest run, live or over, and every item that is not finished."""
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.console.prefixer import one_line  # noqa: PLC0415
    from agentos.store.records import Records  # noqa: PLC0415
    from agentos.store.run_folder import has_summary, is_live, list_runs, read_events, was_mock  # noqa: PLC0415

    project = open_project()
    runs = list_runs(project.home)
    with Records(project.home.records, write=False) as records:
        progress = [
            (one, world.mock)
            for world in (records.of(mock=False), records.of(mock=True))
            for one in sorted(world.progress().values(), key=lambda one: (one.workflow, one.item))
        ]
        notes: list[dict[str, Any]] = [
            {"workflow": one.workflow, "id": one.item, "note": one.text, "mock": world.mock}
            for world in (records.of(mock=False), records.of(mock=True))
            for said in world.notes().values()
            for one in said
        ]
        unfiled = _unfiled(records)
    latest = _latest(runs)
    mock = None if latest is None else was_mock(latest)
    live = [path for path in runs if is_live(path)]
    # Asked for after the lock: a run writes its summary before it lets go of it.
    cut_off = latest is not None and latest not in live and not has_summary(latest)
    state = None if latest is None else read_events(latest)
    items = {} if state is None else item_states(state, cut_off=cut_off)
    begun = None if state is None else state.begun
    if as_json:
        data = {
            "run_id": latest.name if latest else None,
            "mock": mock,
            "live": [path.name for path in live],
            "begun": None if begun is None else asdict(begun),
            "items": list(items.values()),
            "unfinished": [
                {
                    "workflow": one.workflow,
                    "id": one.item,
                    "status": one.status,
                    "node": one.node,
                    "reviews": one.reviews,
                    "error": one.error,
                    "run_id": one.run_id,
                    "updated_at": one.updated_at,
                    "mock": of_mock,
                }
                for one, of_mock in progress
            ],
            "notes": notes,
            "unfiled": unfiled,
        }
        click.echo(json_text(data))
        return
    if latest is None and not progress and not unfiled and not notes:
        click.echo("Nothing was run here yet. Try 'agentos lld --all --mock --dry-run'.")
        return
    if latest is not None:
        how = "at work" if latest in live else "cut off" if cut_off else "over"
        click.echo(f"Run {latest.name}{' with the mock' if mock else ''}: {how}")
        if begun is not None and (told := _options(begun)):
            click.echo(one_line(f"  {told}"))
    width = max([16, *(len(one["label"]) for one in items.values())])
    for one in items.values():
        told = f"  {one['label']:<{width}} {one['status'].replace('_', ' '):<14} {one_line(one['detail'])}"
        click.echo(one_line(told.rstrip()))
    for path in live:
        if path != latest:
            click.echo(f"Also at work: {path.name}")
    _show_open(progress, unfiled, {path.name for path in live})
    if notes:
        click.echo("Sent back, for the next run:")
    for note in notes:
        told = one_line(note["note"]) or "review the document as it is"
        click.echo(f"  {note['workflow']} {note['id']:<12} {'(mock) ' if note['mock'] else ''}{told}")


def _options(begun: "RunStarted") -> str:
    """What the run was told; nothing where its events are of an older version."""
    if begun.command is None:
        return ""
    told = [begun.command, f"drafter {begun.drafter}", f"reviewer {begun.reviewer}"]
    told.append(f"{begun.parallel} at a time")
    told += [] if begun.budget is None else [f"budget {begun.budget:g} USD"]
    told += [] if begun.item_budget is None else [f"{begun.item_budget:g} USD per item"]
    return ", ".join(told)


def _show_open(
    progress: "Sequence[tuple[Progress, bool]]", unfiled: Sequence[Mapping[str, Any]], live: Container[str]
) -> None:
    """Print what is not at its end, whichever run it is from."""
    from agentos.console.prefixer import one_line  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415

    if progress:
        click.echo("Not finished:")
    for row, mock in progress:
        shown = "cut off" if row.status == "running" and row.run_id not in live else row.status
        told = f"at {row.node or 'the start'}, {counted(row.reviews, 'review')}"
        told += f"; {one_line(row.error)}" if row.error else ""
        told += " (mock)" if mock else ""
        click.echo(one_line(f"  {row.workflow} {row.item:<12} {shown.replace('_', ' '):<14} {told}"))
    if unfiled:
        click.echo("Not filed:")
    for one in unfiled:
        told = _UNFILED[one["state"]] + (f"; {one_line(one['error'])}" if one["error"] else "")
        click.echo(f"  {one['workflow']} {one['id']:<12} {told}")


_UNFILED = {"wanted": "approved, not filed", "intended": "whether it was filed is not known"}


def _unfiled(records: "Records") -> list[dict[str, Any]]:
    """Approved issues whose way to GitHub is not at its end."""
    found = sorted(records.filings("issue").values(), key=lambda one: one.item)
    return [
        {"workflow": one.workflow, "id": one.item, "state": one.state.value, "error": one.error}
        for one in found
        if one.state.value in _UNFILED
    ]


def latest_states(run: Path, *, cut_off: bool = False) -> dict[str, dict[str, str]]:
    """How each item of a run stands, in the order they came up; `cut_off`: the run was killed."""
    from agentos.store.run_folder import read_events  # noqa: PLC0415

    return item_states(read_events(run), cut_off=cut_off)


def item_states(state: "RunState", *, cut_off: bool) -> dict[str, dict[str, str]]:
    from agentos.events.state import RUNNING  # noqa: PLC0415

    return {
        item.id: {
            "id": item.id,
            "label": item.label,
            "status": item.status_now(live=not cut_off),
            "detail": _doing(item, cut_off=cut_off) if item.status == RUNNING else item.error or "",
        }
        for item in state.items.values()
    }


def _doing(item: "ItemState", *, cut_off: bool) -> str:
    """Where an item without an end is, and the key it uses or what it waits for."""
    at = f"attempt {item.attempts}"
    if item.node is not None:
        at = f"{item.node.node}, round {item.node.round}"
    if cut_off:
        return "at the start" if item.node is None else f"at {at}"
    if item.wait is not None:
        return f"{at}; waits: {item.wait.reason}"
    return f"{at}; {item.call.key}" if item.call is not None and item.call.end is None else at


@click.command("logs")
@click.argument("item", metavar="ID", shell_complete=completion.logged)
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the run is over.")
@click.option(
    "--run",
    "run_id",
    metavar="RUN",
    shell_complete=completion.runs,
    help="Of this run. [default: the latest that has it]",
)
def logs(item: str, *, follow: bool, run_id: str | None) -> None:
    """Print the log of item ID (42, LLD-42 or its file) from its latest run."""
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.naming import check_name  # noqa: PLC0415
    from agentos.store.run_folder import is_live, list_runs, run_tree, was_mock  # noqa: PLC0415

    check_name(item)
    project = open_project()
    runs = [path for path in list_runs(project.home) if run_id is None or path.name == run_id]
    logs = [log for path in reversed(runs) for log in _logs_of(path, item)]
    # The latest of a real run, where there is one.
    found = next((log for log in logs if not was_mock(log.parent)), logs[0] if logs else None)
    if found is None:
        raise UsageError(
            f"No log of {item!r}" + (f" in run {run_id}." if run_id else " in any run; see 'agentos status'.")
        )
    descriptor = run_tree(found.parent).open(found)
    with os.fdopen(descriptor, encoding="utf-8", errors="backslashreplace") as file:
        while True:
            while block := file.read(65_536):
                click.echo(block, nl=False)
            if not follow or not is_live(found.parent):
                break
            time.sleep(FOLLOW_SECONDS)
        click.echo(file.read(), nl=False)


def _logs_of(run: Path, item: str) -> list[Path]:
    """The logs of an item in a run, the one whose name fits best first."""
    from agentos.naming import brief_id, ids_named  # noqa: PLC0415
    from agentos.store.run_folder import run_logs  # noqa: PLC0415

    found: list[tuple[int, Path]] = []
    for path in run_logs(run):
        prefix, _, item_id = path.stem.partition("-")
        ids = (*ids_named(item, prefix), *ids_named(item, prefix, brief_id))
        if path.stem == item or (prefix.isupper() and item_id in ids):
            found.append((0 if path.stem == item else 1 + ids.index(item_id), path))
    return [path for _, path in sorted(found)]


def _latest(runs: Sequence[Path]) -> Path | None:
    """The latest run that had something to do; if none had, the latest."""
    from agentos.store.run_folder import only_skipped  # noqa: PLC0415

    return next((path for path in reversed(runs) if not only_skipped(path)), runs[-1] if runs else None)
