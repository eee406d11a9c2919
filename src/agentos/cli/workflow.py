"""The commands that run workflows: `agentos lld`, `agentos issue`, `agentos run NAME`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from agentos.cli import completion
from agentos.cli.options import GroupedCommand, workflow_flags


@click.command("lld", cls=GroupedCommand)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.items)
def lld(ids: Sequence[str], **flags: Any) -> int:
    """Turn issues into reviewed low-level designs, named by ID or all that are pending."""
    return _run("lld", ids, flags)


@click.command("issue", cls=GroupedCommand)
@click.argument("briefs", nargs=-1, metavar="[BRIEF]...", shell_complete=completion.items)
def issue(briefs: Sequence[str], **flags: Any) -> int:
    """Turn briefs into reviewed issues, named by file or slug or all that are pending."""
    return _run("issue", briefs, flags)


@click.command("run", cls=GroupedCommand)
@click.argument("name", shell_complete=completion.workflows)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=completion.items)
def run(name: str, ids: Sequence[str], **flags: Any) -> int:
    """Run the registered workflow NAME over items, named by ID or all that are pending."""
    return _run(name, ids, flags)


for command in (lld, issue, run):
    workflow_flags(command)


def _run(name: str, ids: Sequence[str], flags: Mapping[str, Any]) -> int:
    from agentos.cli.running import run_workflow  # noqa: PLC0415 - the help page needs none of it

    return run_workflow(name, tuple(ids), flags)
