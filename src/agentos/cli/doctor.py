"""`agentos doctor`: what is set up, what is missing, and what to type next."""

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentos.console.screen import Line, Paint, json_text, show
from agentos.environment import read as read_environment

if TYPE_CHECKING:
    from agentos.doctor import Check

WORDS = {"ok": "ok", "warning": "warn", "problem": "problem"}
COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}
MAX_WIDTH = 100
NAME_WIDTH = 14  # a longer name moves its text to the right


@click.command("doctor")
@click.option("--live", is_flag=True, help="Also make a tiny call with each model and key, and query GitHub.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(*, live: bool, as_json: bool) -> int:
    """Check git, project, settings, models, keys, GitHub and database; show how to fix what is missing."""
    from agentos.config import user_file_of  # noqa: PLC0415
    from agentos.doctor import exit_code, run_checks  # noqa: PLC0415
    from agentos.os_process import hide_memory  # noqa: PLC0415

    given = click.get_current_context().find_root().obj
    hide_memory()
    environment = read_environment()
    checks = run_checks(
        Path.cwd(),
        environment=environment,
        user_file=user_file_of(given["config_file"], environment),
        named_file=given["config_file"],
        home=given["home"],
        live=live,
    )
    code = exit_code(checks)
    if as_json:
        found = [_as_dict(check) for check in checks]
        click.echo(json_text({"exit_code": int(code), "checks": found}))
        return code
    # None: colour only on a terminal.
    colour = False if environment.get("NO_COLOR") else True if environment.get("FORCE_COLOR") else None
    for line in _lines(checks, min(shutil.get_terminal_size().columns, MAX_WIDTH)):
        show(*line, colour=colour)
    _say_next(checks, live=live)
    return code


def _as_dict(check: "Check") -> dict[str, str | None]:
    return {
        "section": check.section,
        "name": check.name,
        "state": check.state.value,
        "text": check.text,
        "fix": check.fix or None,
    }


def _lines(checks: Sequence["Check"], width: int) -> list[Line]:
    from agentos.console.lines import one_line  # noqa: PLC0415

    lines: list[Line] = []
    section = ""
    for check in checks:
        if check.section != section:
            section = check.section
            lines += [*([("",)] if lines else []), (Paint(section, bold=True),)]
        state = check.state.value
        mark = Paint(f"{WORDS[state]:<7}", fg=COLOURS[state])
        name = f"{one_line(check.name):<{NAME_WIDTH}}"
        indent = " " * (NAME_WIDTH + 12)
        first, *rest = textwrap.wrap(
            one_line(check.text), max(20, width - len(indent)), break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines.append(("  ", mark, f"  {name} {first}".rstrip()))
        lines += [(f"{indent}{line}",) for line in rest]
        # Commands are never wrapped, so that they can be copied.
        lines += [
            (f"{indent}{'-> ' if not at else '   '}{one_line(line)}",)
            for at, line in enumerate(check.fix.splitlines())
        ]
    return lines


def _say_next(checks: Sequence["Check"], *, live: bool) -> None:
    from agentos.doctor import State  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415

    problems = [check for check in checks if check.state is State.PROBLEM]
    warnings = [check for check in checks if check.state is State.WARNING]
    click.echo()
    counts = f"{counted(len(problems), 'problem')}, {counted(len(warnings), 'warning')}."
    # Without a project or readable settings, the offline commands fail too.
    if any(check.section in {"project", "configuration"} for check in problems):
        click.echo(f"{counts} Follow the steps marked ->, then run 'agentos doctor' again.")
    elif problems:
        click.echo(f"{counts} Follow the steps marked ->, or try it offline first:")
        click.echo("  agentos lld --all --mock --dry-run")
        click.echo("  agentos init --demo DIR")
    else:
        click.echo(f"{counts} Next:")
        click.echo("  agentos lld --all --dry-run")
        if not live:
            click.echo("  agentos doctor --live    # try each model and key with a tiny call")
