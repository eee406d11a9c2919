"""Builds the flags of the workflow commands from the settings, so that flags, variables and files agree."""

from collections.abc import Callable
from typing import Any

import click

from agentos import parse_value, settings
from agentos.cli import completion
from agentos.settings import DEFAULT_PARALLEL, DEFAULTS, NAMES, About

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _help(name: str, about: About) -> str:
    default = DEFAULTS[name]
    if isinstance(default, float):
        default = f"{default:g} s" if about.parse is parse_value.duration else f"{default:g}"
    default = "yes" if default is True else default
    shown = f"default: {default}; " if default not in {None, False, ()} else ""
    return f"{about.help} [{shown}{settings.variable_of(name)}]"


def option(name: str) -> click.Option:
    """The flag of a setting."""
    about = settings.about(name)
    flag = settings.flag_of(name)
    names = ([about.short] if about.short else []) + [flag, name]
    if about.parse is parse_value.yes_no:
        declared = f"{flag}/{about.negative}" if about.negative else flag
        names = ([about.short] if about.short else []) + [declared, name]
        return click.Option(names, is_flag=True, default=None, help=_help(name, about))
    if name == "parallel":
        return click.Option(
            names,
            is_flag=False,
            flag_value=str(DEFAULT_PARALLEL),
            default=None,
            metavar="[N]",
            help=_help(name, about),
        )
    if about.parse in {parse_value.paths, parse_value.labels}:
        return click.Option(
            names,
            multiple=True,
            default=None,
            metavar=about.metavar,
            help=_help(name, about),
            callback=_or_none,
            shell_complete=completion.file if about.parse is parse_value.paths else None,
        )
    return click.Option(
        names,
        default=None,
        metavar=about.metavar,
        help=_help(name, about),
        shell_complete=completion.choice(name),
    )


def _or_none(_context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> Any:
    """Return None for a flag that was not given, so that variable, file or default applies."""
    return value or None


class GroupedCommand(click.Command):
    """Shows the flags in the groups of the settings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                known = parameter.name in NAMES
                group = settings.about(str(parameter.name)).group if known else "Other"
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def workflow_flags(command: click.Command) -> click.Command:
    """Add every flag of the workflows to a command."""
    command.params += [option(name) for name in NAMES if settings.about(name).group != settings.FILES_ONLY]
    return command
