"""`agentos status`: the latest run and the unfinished items; works from another terminal during a run."""

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentos.console.screen import json_text
from agentos.naming import step_in_words

if TYPE_CHECKING:
    from agentos.app.suggestions import Left, OpenItem
    from agentos.decisions import Decision
    from agentos.events.catalogue import RunStarted
    from agentos.events.state import ItemState, RunState
    from agentos.store.home import Home
    from agentos.store.records import Progress
    from agentos.store.records.protocols import AllRecords


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, as_json: bool) -> None:
    """Show the latest run, running or finished, and every unfinished item."""
    from agentos.app.inbox import discussions, label_for  # noqa: PLC0415
    from agentos.cli.invocation import program  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.console.lines import one_line  # noqa: PLC0415
    from agentos.store.run_folder import has_summary, is_live, list_runs, read_events, was_mock  # noqa: PLC0415

    project = open_project()
    runs = list_runs(project.home)
    with project.home.open_records(write=False) as records:
        progress = [
            (one, world.mock)
            for world in (records.of(mock=False), records.of(mock=True))
            for one in sorted(world.progress().values(), key=lambda one: (one.workflow, one.item))
        ]
        notes: list[dict[str, Any]] = [
            {"workflow": workflow, "id": item, "question": one.question, "note": one.text, "mock": world.mock}
            for world in (records.of(mock=False), records.of(mock=True))
            for (workflow, item), said in world.decisions().items()
            for one in said
            if not one.used and not one.answer
        ]
        unfiled = _unfiled(records)
        decided = {
            (one.mock, one.progress.workflow, one.progress.item): one.decided
            for one in discussions(records)
            if one.decided is not None
        }
    latest = _latest(runs)
    mock = None if latest is None else was_mock(latest)
    live = [path for path in runs if is_live(path)]
    # Checked after the lock: a run writes its summary before it releases the lock.
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
        click.echo("No runs here yet. Try 'agentos lld --all --mock --dry-run'.")
        return
    if latest is not None:
        how = "running" if latest in live else "cut off" if cut_off else "finished"
        click.echo(f"Run {latest.name}{' with the mock' if mock else ''}: {how}")
        for fact in _facts(state, live=latest in live):
            click.echo(one_line(f"  {fact}"))
    width = max([_LABEL, *(len(one["label"]) for one in items.values())])
    for one in items.values():
        line = f"  {one['label']:<{width}} {one['status'].replace('_', ' '):<14} {one_line(one['detail'])}"
        click.echo(one_line(line.rstrip()))
    for path in live:
        if path != latest:
            click.echo(f"Also running: {path.name}")
    open_items = _show_unfinished(project.home, progress, decided, {path.name for path in live})
    open_items += _show_unfiled(unfiled)
    if notes:
        click.echo("Notes for the next run:")
    for note in notes:
        text = one_line(f"{note['question']} {note['note']}".strip()) or "review the document as it is"
        label = label_for(note["workflow"], note["id"])
        click.echo(f"  {label:<{_LABEL}} {'(mock) ' if note['mock'] else ''}{text}")
    _show_next(open_items, project.start(program()))


def _facts(state: "RunState | None", *, live: bool) -> list[str]:
    """The options of a run, and how far it is while it runs."""
    if state is None:
        return []
    options = "" if state.begun is None else _options(state.begun)
    return [line for line in (options, _progress(state) if live else "") if line]


def _options(begun: "RunStarted") -> str:
    """The command and options of the run; empty if an older version wrote its events."""
    if begun.command is None:
        return ""
    options = [begun.command, f"drafter {begun.drafter}", f"reviewer {begun.reviewer}"]
    options.append(f"{begun.parallel} at a time")
    options += [] if begun.budget is None else [f"budget {begun.budget:g} USD"]
    options += [] if begun.item_budget is None else [f"{begun.item_budget:g} USD per item"]
    return ", ".join(options)


def _progress(state: "RunState") -> str:
    """How far a running run is, as its footer says it."""
    from agentos.console.footer_layout import progress_facts  # noqa: PLC0415
    from agentos.events.progress import progress_of  # noqa: PLC0415

    progress = progress_of(state, now=state.now(time.time()))
    return ", ".join([f"{progress.done}/{progress.total} done", *progress_facts(progress)])


def _show_unfinished(
    home: "Home",
    progress: "Sequence[tuple[Progress, bool]]",
    decided: "Mapping[tuple[bool, str, str], Decision]",
    live: Container[str],
) -> "list[OpenItem]":
    """Print every unfinished item, from any run; return those that no run is working on."""
    from agentos.app.inbox import label_of  # noqa: PLC0415
    from agentos.app.suggestions import OpenItem  # noqa: PLC0415
    from agentos.console.lines import one_line  # noqa: PLC0415
    from agentos.decisions import questions_in  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415
    from agentos.store.run_folder import last_review, open_findings  # noqa: PLC0415

    if progress:
        click.echo("Unfinished:")
    found: list[OpenItem] = []
    for row, mock in progress:
        label, answer = label_of(row), decided.get((mock, row.workflow, row.item))
        shown = row.status
        if shown == "running" and row.run_id not in live:
            shown = "cut off"
        elif shown == "running" and not row.node:
            shown = "starting"  # or waiting for a machine that takes it
        detail = f"at {step_in_words(row.node) or 'the start'}, {counted(row.reviews, 'review')}"
        if answer is not None:
            said = f" ({' / '.join(answer.text.splitlines())})" if answer.text else ""
            detail += f"; decided: {answer.answer}{said}; resumes in the next run"
        elif row.error:
            detail += f"; {one_line(row.error)}"
        detail += " (mock)" if mock else ""
        click.echo(one_line(f"  {label:<{_LABEL}} {shown.replace('_', ' '):<14} {detail}"))
        if shown not in {"running", "starting"}:
            left = _LEFT.get(shown, "resume") if answer is None else "resume"
            asked = left == "decide"
            findings = (open_findings(last_review(home, row.workflow, row.item)) or ()) if asked else ()
            found.append(
                OpenItem(
                    workflow=row.workflow,
                    id=row.item,
                    label=label,
                    left=left,
                    mock=mock,
                    questions=tuple(map(str, questions_in(row.error or ""))),
                    blocking=sum(one.get("tier") == 1 for one in findings),
                )
            )
    return found


def _show_unfiled(unfiled: Sequence[Mapping[str, Any]]) -> "list[OpenItem]":
    """Print every approved issue that is not filed, from any run."""
    from agentos.app.inbox import label_for  # noqa: PLC0415
    from agentos.app.suggestions import OpenItem  # noqa: PLC0415
    from agentos.console.lines import one_line  # noqa: PLC0415

    if unfiled:
        click.echo("Not filed:")
    found: list[OpenItem] = []
    for one in unfiled:
        label, state, error = label_for(one["workflow"], one["id"]), _UNFILED[one["state"]], one["error"]
        if error:
            error = one_line(error).removeprefix(f"{label}: ")
            state = error if state in error else f"{state}; {error}"
        click.echo(f"  {label:<{_LABEL}} {state}")
        found.append(OpenItem(workflow=one["workflow"], id=one["id"], label=label, left="file"))
    return found


def _show_next(items: "Sequence[OpenItem]", start: str) -> None:
    """Print the commands to type next, as the summary of a run does."""
    from agentos.app.suggestions import commands_for  # noqa: PLC0415

    if items:
        click.echo("Next:")
    for one in commands_for(items, start=start):
        click.echo(f"  {one.command}    # {one.why}")


_LABEL = 16  # columns
_LEFT: "Mapping[str, Left]" = {
    "discuss": "decide",
    "failed": "retry",
    "timed_out": "retry",
    "needs_revision": "retry",
}
_UNFILED = {"wanted": "approved, not filed", "intended": "may already be filed"}


def _unfiled(records: "AllRecords") -> list[dict[str, Any]]:
    """Approved issues that are not filed yet, or not known to be."""
    found = sorted(records.filings("issue").values(), key=lambda one: one.item)
    return [
        {"workflow": one.workflow, "id": one.item, "state": one.state.value, "error": one.error}
        for one in found
        if one.state.value in _UNFILED
    ]


def item_states(state: "RunState", *, cut_off: bool) -> dict[str, dict[str, str]]:
    """The state of each item of a run, in the order they started; `cut_off`: the run was killed."""
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
    """Where an unfinished item is, and the key it uses or what it is waiting for."""
    at = f"attempt {item.attempts}"
    if item.node is not None:
        at = f"{step_in_words(item.node.node or '') or 'starting'}, round {item.node.round}"
    if cut_off:
        return "at the start" if item.node is None else f"at {at}"
    if item.wait is not None:
        return f"{at}; waiting: {item.wait.reason}"
    return f"{at}; {item.call.key}" if item.call is not None and item.call.end is None else at


def _latest(runs: Sequence[Path]) -> Path | None:
    """The latest run that had something to do, or the latest if none had."""
    from agentos.store.run_folder import only_skipped  # noqa: PLC0415

    return next((path for path in reversed(runs) if not only_skipped(path)), runs[-1] if runs else None)
