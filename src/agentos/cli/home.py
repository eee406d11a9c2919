"""`agentos home`: where the home is, and taking over one that agentos does not know."""

import click


@click.group("home", invoke_without_command=True)
@click.pass_context
def home(ctx: click.Context) -> None:
    """Show where runs, checkpoints and records of this project are kept."""
    from agentos.cli.project import open_project  # noqa: PLC0415

    if ctx.invoked_subcommand is None:
        click.echo(str(open_project().home.path))


@home.command("adopt")
def adopt() -> None:
    """Take over a home that agentos does not know, such as one from a backup or of another machine.

    Only for one that you made: approvals, paid reviews and the state of keys in it are believed from then on.
    """
    from agentos.cli.project import load_project  # noqa: PLC0415
    from agentos.errors import ProjectError, UsageError  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415
    from agentos.store.home import is_tracked  # noqa: PLC0415
    from agentos.store.known import Standing  # noqa: PLC0415
    from agentos.store.records import Records  # noqa: PLC0415
    from agentos.store.runfolder import list_runs  # noqa: PLC0415

    project = load_project()
    worktree, config, place = project.worktree, project.config, project.home
    if place.register is None:
        raise UsageError(f"{place.path} is the home that you named; it needs no adoption.")
    standing = place.register.standing(place.tree)
    if standing is Standing.MISSING:
        raise UsageError(f"There is no {place.path}; the first run makes it.")
    if is_tracked(place.path, worktree, config.environment):
        raise ProjectError(
            f"git tracks files in {place.path}, so whoever writes to the repository writes to it, too. "
            "Type 'git rm -r --cached .agentos' and commit, then adopt it."
        )
    if standing is Standing.KNOWN:
        click.echo(f"{place.path} is known as yours already.")
        return
    with Records(place.records, write=False) as records:  # before anything is written: can it be read?
        open_items = sum(len(records.of(mock=mock).progress()) for mock in (False, True))
    place.create()
    runs = counted(len(list_runs(place)), "run")
    click.echo(f"Adopted {place.path}: {runs}, {counted(open_items, 'unfinished item')}.")
