"""`agentos home`: shows where the home is, and adopts one that agentos does not know."""

import click


@click.group("home", invoke_without_command=True)
@click.pass_context
def home(ctx: click.Context) -> None:
    """Show the folder with the runs, checkpoints and records of this project."""
    from agentos.cli.project import open_project  # noqa: PLC0415

    if ctx.invoked_subcommand is None:
        click.echo(str(open_project().home.path))


@home.command("adopt")
def adopt() -> None:
    """Adopt a home that agentos does not know, such as one from a backup or from another machine.

    Adopt only a home that you made: its approvals, paid reviews and key states are trusted from then on.
    """
    from agentos.app.adopt_home import adopt_home  # noqa: PLC0415
    from agentos.cli.project import load_project  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415

    project = load_project()
    path, adopted = project.home.path, adopt_home(project)
    if adopted is None:
        click.echo(f"{path} is already adopted.")
        return
    runs, unfinished = counted(adopted.runs, "run"), counted(adopted.unfinished, "unfinished item")
    click.echo(f"Adopted {path}: {runs}, {unfinished}.")
