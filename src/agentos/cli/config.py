"""`agentos config`: every setting and table with its value and where it was set."""

from dataclasses import asdict

import click

from agentos.console.screen import json_text
from agentos.console.visible import one_line


def _shown(value: object) -> str:
    """A value as TOML; a text as it is."""
    from agentos.toml_value import toml_value  # noqa: PLC0415

    if value is None:
        return "(not set)"
    return value if isinstance(value, str) else toml_value(value)


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(*, as_json: bool) -> None:
    """Show every setting with its value and origin: flag, environment, user, repo or default.

    Also shows your providers, roles, network, keys and prices, but never a secret.
    """
    from agentos.cli.config_tables import table_lines, table_origin, table_values  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.settings import variable_of  # noqa: PLC0415

    project = open_project()
    values = asdict(project.config.settings)
    sources = project.config.sources
    if as_json:
        data = {
            name: {"value": value, "origin": sources[name].origin.value, "where": sources[name].name or None}
            for name, value in values.items()
        }
        for table, value in table_values(project.config).items():
            origin, where = table_origin(project.config, table)
            data[table] = {"value": value, "origin": origin.value, "where": where or None}
        click.echo(json_text(data))
        return
    width = max(map(len, values))
    for name, value in values.items():
        source = sources[name]
        where = f"{source.origin.value}: {source.name}" if source.name else source.origin.value
        click.echo(one_line(f"{name:<{width}}  {_shown(value):<20}  {where}"))
    for line in table_lines(project.config):
        click.echo(one_line(line))
    click.echo()
    click.echo(f"project  {project.worktree}")
    click.echo(f"home     {project.home.path}")
    click.echo(f"Each setting is also a variable, such as {variable_of('max_iterations')}.")
