"""`agentos keys`: the keys by id, with their limits and health."""

from dataclasses import asdict

import click

from agentos.cli.options import option
from agentos.console.screen import json_text
from agentos.console.visible import one_line
from agentos.duration import words
from agentos.model import counted


@click.group("keys", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def keys(ctx: click.Context, *, as_json: bool, engine: str | None) -> None:
    """Show every key by its id, with quota group, limits, health and the runs that use it.

    The key itself is never shown. With the engine postgres, or after a run with it, the state is that of the
    shared database.
    """
    if ctx.invoked_subcommand is None:
        _show(as_json=as_json, engine=engine)


keys.params.append(option("engine"))


@keys.command("enable")
@click.argument("key_id", metavar="ID")
@click.pass_context
def enable(ctx: click.Context, key_id: str, *, engine: str | None) -> None:
    """Enable key ID again.

    Clears its rate limit, exhausted quota or rejection, for all runs in all repositories.
    """
    from agentos.app.keys import enable_key  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415

    assert ctx.parent is not None
    project = open_project(_flags(engine or ctx.parent.params["engine"]))
    was_blocked = enable_key(project, key_id, _say)
    result = "enabled; the next run uses it again" if was_blocked else "already enabled; nothing to clear"
    click.echo(f"{key_id}: {result}")


enable.params.append(option("engine"))


def _flags(engine: str | None) -> dict[str, str]:
    """Without the flag, the command follows the latest run."""
    return {} if engine is None else {"engine": engine}


def _say(line: str) -> None:
    click.echo(line, err=True)


def _show(*, as_json: bool, engine: str | None) -> None:
    from agentos.app.keys import list_keys  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415

    project = open_project(_flags(engine))
    known = list_keys(project, _say)
    if as_json:
        click.echo(json_text([asdict(key) for key in known]))
        return
    if not known:
        click.echo(
            "No keys. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, "
            f"or add [[keys]] to {project.config.named_user_file}."
        )
        return
    width = max(len(key.id) for key in known)
    for key in known:
        limits = ", ".join(f"{name} {value:g}" for name, value in key.limits.items()) or "limits unknown"
        group = f", quota group {key.group}" if key.group != key.id else ""
        state = key.state.replace("_", " ") + (f" for {words(key.seconds_left)}" if key.seconds_left else "")
        named = f"{key.id:<{width}}  {key.provider:<10}"
        if key.state == "unusable":
            click.echo(one_line(f"{named} {state}: {key.reason}"))
            continue
        since = f" since {key.disabled_since}" if key.disabled_since else ""
        reason = f" ({key.reason})" if key.reason else ""
        click.echo(one_line(f"{named} {state}{since}{reason}; {limits}{group}; from {key.source}"))
        for user in key.users:
            calls = counted(user.in_flight, "call")
            where = f"on {user.host} in {user.place}" if user.host else f"in {user.place}"
            click.echo(one_line(f"{'':<{width}}  {calls} in flight: run {user.run} {where}"))
