"""`agentos clean`: removes old runs and kept checkpoints."""

import time
from typing import Any

import click


def _age(_ctx: click.Context, _parameter: click.Parameter, text: Any) -> float:
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.parse_value import Rejected, duration  # noqa: PLC0415

    try:
        return duration(text)
    except Rejected as exc:
        raise UsageError(exc.about("--older-than", repr(text))) from exc


@click.command("clean")
@click.option(
    "--older-than",
    default="30d",
    callback=_age,
    metavar="AGE",
    help="Remove what is older than this. [default: 30d]",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
def clean(*, older_than: float, dry_run: bool) -> None:
    """Remove runs and kept checkpoints older than AGE. An item whose checkpoint is removed starts over."""
    from agentos.app.cleaning import find_old, remove_old  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415
    from agentos.store.records import Records  # noqa: PLC0415

    home = open_project().home
    if not home.used:
        click.echo("No runs here yet.")
        return
    if not dry_run:
        home.create()
    with Records(home.records, write=not dry_run) as records:
        old = find_old(home, records, limit=time.time() - older_than)
        for path in old.runs + old.checkpoints:
            click.echo(f"{'would remove' if dry_run else 'removing'} {path.relative_to(home.path)}")
        if dry_run:
            return
        kept = remove_old(home, records, old)
    for path, run_id in kept.items():
        click.echo(f"kept {path.relative_to(home.path)}: run {run_id} has the item now")
    removed = len(old.checkpoints) - len(kept)
    click.echo(f"Removed {counted(len(old.runs), 'run')} and {counted(removed, 'checkpoint')}.")
