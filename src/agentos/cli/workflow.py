"""The commands that run workflows: `agentos lld`, `agentos issue`, `agentos run NAME`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from agentos.cli import completion
from agentos.cli.options import GroupedCommand, workflow_flags


@click.command("lld", cls=GroupedCommand)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.items)
def lld(ids: Sequence[str], **flags: Any) -> int:
    """Turn issues into reviewed low-level designs: those named by ID, or all pending ones (--all)."""
    return run_workflow("lld", ids, flags)


@click.command("issue", cls=GroupedCommand)
@click.argument("briefs", nargs=-1, metavar="[BRIEF]...", shell_complete=completion.items)
def issue(briefs: Sequence[str], **flags: Any) -> int:
    """Turn briefs into reviewed issues: those named by file or slug, or all pending ones (--all)."""
    return run_workflow("issue", briefs, flags)


@click.command("run", cls=GroupedCommand)
@click.argument("name", shell_complete=completion.workflows)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.items)
def run(name: str, ids: Sequence[str], **flags: Any) -> int:
    """Run the registered workflow NAME over items: those named by ID, or all pending ones (--all)."""
    return run_workflow(name, ids, flags)


for command in (lld, issue, run):
    workflow_flags(command)


def run_workflow(name: str, ids: Sequence[str], flags: Mapping[str, Any]) -> int:
    """Run the command and print its result."""
    from agentos.app.command import WorkflowCommand  # noqa: PLC0415 - not needed for the help page
    from agentos.app.session import Session  # noqa: PLC0415
    from agentos.cli.dialog import Terminal  # noqa: PLC0415
    from agentos.cli.invocation import invocation  # noqa: PLC0415

    command = WorkflowCommand(invocation=invocation(), workflow=name, ids=tuple(ids), flags=flags)
    terminal = Terminal()
    with Session(command) as session:
        from agentos.app.workflow import FinishedRun, carry_out  # noqa: PLC0415 - imports while the session starts

        result = carry_out(command, session, terminal)
        if isinstance(result, FinishedRun):
            from agentos.cli.summary_view import show_finished  # noqa: PLC0415

            return show_finished(result, terminal.console)
        from agentos.cli.dry_run import show_preview  # noqa: PLC0415

        return show_preview(result)
