"""`agentos clean`: removes old runs and kept checkpoints by age."""

import time
from typing import Any

import click


def _age(_ctx: click.Context, _parameter: click.Parameter, text: Any) -> float:
    from agentos.values import Rejected, duration  # noqa: PLC0415

    try:
        return duration(text)
    except Rejected as exc:
        raise click.BadParameter(str(exc)) from exc


@click.command("clean")
@click.option(
    "--older-than", default="30d", callback=_age, metavar="AGE", help="Remove what is older. [default: 30d]"
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
def clean(*, older_than: float, dry_run: bool) -> None:
    """Remove runs and kept checkpoints older than AGE; an item without its checkpoint starts anew."""
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.store.home import checkpoint_files  # noqa: PLC0415
    from agentos.store.records import Records  # noqa: PLC0415
    from agentos.store.runfolder import is_live, list_runs  # noqa: PLC0415

    project = open_project()
    home = project.home
    if not home.used:
        click.echo("Nothing was run here yet.")
        return
    if not dry_run:
        home.create()
    runs = list_runs(home)
    limit = time.time() - older_than
    with Records(home.records, write=not dry_run) as records:
        live = {path.name for path in runs if is_live(path)}
        held = {
            home.checkpoint(claim.workflow, claim.item, mock=mock)
            for claim in records.claims().values()
            for mock in (False, True)
            if claim.run_id in live
        }
        old = {entry.name for entry in home.tree.entries(home.runs) if entry.changed < limit}
        old_runs = [path for path in runs if path.name in old - live]
        old_checkpoints = [
            home.checkpoints / entry.name
            for entry in home.tree.entries(home.checkpoints)
            if entry.name.endswith(".db") and entry.is_file and entry.changed < limit
        ]
        old_checkpoints = [path for path in old_checkpoints if path not in held]
        for path in old_runs + old_checkpoints:
            click.echo(f"{'would remove' if dry_run else 'removing'} {path.relative_to(home.path)}")
        if dry_run:
            return
        for path in old_runs:
            home.tree.remove_tree(path)
        for path in old_checkpoints:
            for one in checkpoint_files(path):
                home.tree.remove(one)
            workflow, _, item = path.stem.partition("_workflow_")
            records.of(mock=item.endswith(".mock")).drop_progress(workflow, item.removesuffix(".mock"))
    click.echo(f"Removed {len(old_runs)} runs and {len(old_checkpoints)} checkpoints.")
