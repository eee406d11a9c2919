"""`agentos config`: every setting and table with its value and where it was set."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from agentos.console.screen import json_text
from agentos.console.visible import one_line

if TYPE_CHECKING:
    from agentos.config import Config

_PRICE = click.FloatRange(0, 1e9)  # USD per million tokens


def _shown(value: object) -> str:
    """A value as TOML; a text as it is."""
    from agentos.toml_value import toml_value  # noqa: PLC0415

    if value is None:
        return "(not set)"
    return value if isinstance(value, str) else toml_value(value)


@click.group("config", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def config(ctx: click.Context, *, as_json: bool) -> None:
    """Show every setting with its value and origin: flag, environment, user, repo or default.

    Also shows your providers, roles, network, keys and prices, but never a secret.
    """
    if ctx.invoked_subcommand is None:
        _show(as_json=as_json)


@config.command("price")
@click.argument("model", metavar="MODEL")
@click.option("--input", "sent", type=_PRICE, required=True, metavar="USD", help="Of what is sent.")
@click.option("--output", "written", type=_PRICE, required=True, metavar="USD", help="Of what is written.")
@click.option("--cached", type=_PRICE, metavar="USD", help="Of what is sent and read from a cache.")
@click.option("--cache-write", type=_PRICE, metavar="USD", help="Of what is sent and put into a cache.")
@click.pass_context
def price(
    ctx: click.Context,
    *,
    model: str,
    sent: float,
    written: float,
    cached: float | None,
    cache_write: float | None,
) -> None:
    """Set the price of MODEL (provider:model) in your configuration file, in USD per million tokens.

    Nothing else in the file changes. Your price is used instead of the one that agentos knows.
    """
    from agentos import environment  # noqa: PLC0415
    from agentos.app.set_price import set_price  # noqa: PLC0415
    from agentos.config import user_file_of  # noqa: PLC0415
    from agentos.money import Price  # noqa: PLC0415

    path = user_file_of(ctx.find_root().obj["config_file"], environment.read())
    chosen = Price(input=sent, output=written, cached_input=cached, cache_write=cache_write)
    click.echo(one_line(f"{model}: price set in {set_price(path, model, chosen)}"))


def _show(*, as_json: bool) -> None:
    from agentos.cli.config_tables import table_lines, table_origin, table_values  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.settings import variable_of  # noqa: PLC0415

    project = open_project()
    values = asdict(project.config.settings)
    sources = project.config.sources
    if as_json:
        _check_models(project.config)  # an error is a document of its own
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
    # At the end, because the rows say where the name is set.
    _check_models(project.config)


def _check_models(config: "Config") -> None:
    """Refuse a model whose provider does not exist, as the workflows do."""
    from agentos.errors import ConfigError  # noqa: PLC0415
    from agentos.model_access import known_providers, no_provider, provider_of  # noqa: PLC0415

    wrong = [
        f"{config.sources[role].name or role}: {no_provider(provider_of(str(model)), config.providers)}"
        for role in ("drafter", "reviewer")
        if (model := getattr(config.settings, role)) is not None
        and provider_of(str(model)) not in known_providers(config.providers)
    ]
    if wrong:
        raise ConfigError(" ".join(wrong))
