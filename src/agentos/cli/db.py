"""`agentos db`: prepares the PostgreSQL database that several machines share."""

import click


@click.group("db")
def db() -> None:
    """Prepare the PostgreSQL database that several machines share."""


@db.command("upgrade")
def upgrade() -> None:
    """Make or update the tables of the database that AGENTOS_DATABASE_URL names.

    Needs a role that may create tables. Safe to repeat, and on several machines at once.
    """
    from agentos import environment  # noqa: PLC0415
    from agentos.app.db import upgrade_database  # noqa: PLC0415

    name, done = upgrade_database(environment.read())
    for one in done:
        click.echo(f"applied {one}")
    click.echo(f"The database {name} is {'ready' if done else 'up to date'}.")
