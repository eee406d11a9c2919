"""`agentos worker`: runs items of any submitter on this machine."""

import click

from agentos.cli.invocation import invocation
from agentos.console.visible import one_line


@click.command("worker")
@click.option(
    "--slots", type=click.IntRange(1, 500), default=4, show_default=True, help="Run this many items at once."
)
def worker(*, slots: int) -> None:
    """Run items that 'agentos lld --engine postgres' or another submitter puts into the database.

    Needs AGENTOS_DATABASE_URL, and the keys of the providers in this machine's own environment: keys are
    never in the database. Stop it with Ctrl+C or SIGTERM; running items go to other machines.
    """
    from agentos.app.db import check_extra  # noqa: PLC0415 - only this command

    check_extra()
    from agentos.app.machine import run_machine  # noqa: PLC0415 - an extra

    run_machine(invocation(), slots=slots, say=lambda line: click.echo(one_line(line)))
