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
    from agentos.app.adoption import adopt_home  # noqa: PLC0415
    from agentos.cli.project import load_project  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415

    project = load_project()
    path, adopted = project.home.path, adopt_home(project)
    if adopted is None:
        click.echo(f"{path} is known as yours already.")
        return
    runs, unfinished = counted(adopted.runs, "run"), counted(adopted.unfinished, "unfinished item")
    click.echo(f"Adopted {path}: {runs}, {unfinished}.")
