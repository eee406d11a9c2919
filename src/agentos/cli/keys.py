"""`agentos keys`: the pool of keys by their ids, their limits and their health."""

import time
from collections.abc import Mapping
from typing import Any

import click

from agentos.console.screen import json_text
from agentos.console.visible import one_line
from agentos.duration import words

MAX_WALL = 1e11  # seconds since 1970; beyond any rest


@click.group("keys", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def keys(ctx: click.Context, *, as_json: bool) -> None:
    """Show every key by its id, with group, limits and health; no key itself is ever shown."""
    if ctx.invoked_subcommand is None:
        _show(as_json=as_json)


@keys.command("enable")
@click.argument("key_id", metavar="ID")
def enable(key_id: str) -> None:
    """Clear what is held against key ID: a rest, or that it was rejected."""
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.store.keyhealth import HealthFile  # noqa: PLC0415

    project = open_project()
    known = {row["id"] for row in _rows(project)}
    if key_id not in known:
        raise UsageError(f"No key {key_id!r}. There are: {', '.join(sorted(known)) or 'none'}.")
    home = project.home
    held = home.tree.exists(home.key_health) and HealthFile(home.create().key_health).clear(key_id)
    click.echo(
        f"{key_id}: " + ("enabled; the next run uses it again" if held else "nothing was held against it")
    )


def _show(*, as_json: bool) -> None:
    from agentos.cli.project import open_project  # noqa: PLC0415

    rows = _rows(open_project())
    if as_json:
        click.echo(json_text(rows))
        return
    if not rows:
        click.echo("No keys. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or add [[keys]].")
        return
    width = max(len(row["id"]) for row in rows)
    for row in rows:
        limits = ", ".join(f"{name} {value:g}" for name, value in row["limits"].items()) or "limits unknown"
        group = f", group {row['group']}" if row["group"] != row["id"] else ""
        state = row["state"] + (f" for {words(row['seconds_left'])}" if row["seconds_left"] else "")
        told = f" ({row['reason']})" if row["reason"] else ""
        named = f"{row['id']:<{width}}  {row['provider']:<10}"
        click.echo(one_line(f"{named} {state}{told}; {limits}{group}; from {row['source']}"))


def _problem(reference: Any, environment: Mapping[str, str]) -> str | None:
    """Why a key cannot be used, if it cannot."""
    from agentos.coordinator.keys import read_key  # noqa: PLC0415
    from agentos.errors import ConfigError  # noqa: PLC0415

    if reference.env is None and reference.file is None:
        return None
    try:
        read_key(reference, environment)
    except ConfigError as exc:
        return str(exc)
    return None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(project: Any) -> list[dict[str, Any]]:
    """What configuration and health file say of each key."""
    from agentos.coordinator.keys import login_keys, usual_keys  # noqa: PLC0415
    from agentos.credentials.headers import MAX_LIMIT, number  # noqa: PLC0415
    from agentos.store.keyhealth import HealthFile  # noqa: PLC0415

    health = HealthFile(project.home.key_health).read().get("keys", {})
    rows: list[dict[str, Any]] = []
    keys = project.config.keys or usual_keys(project.config.environment)
    for reference in (*keys, *login_keys(project.config, known=health)):
        entry = _table(health.get(reference.id))
        missing = reference.env is not None and not project.config.environment.get(reference.env, "").strip()
        resting = _table(entry.get("resting"))
        left = max(0.0, (number(resting.get("until"), low=0.0, high=MAX_WALL) or 0.0) - time.time())
        state, reason = "available", None
        if missing:
            state, reason = "missing", f"the variable {reference.env} is not set"
        elif (problem := _problem(reference, project.config.environment)) is not None:
            state, reason = "unusable", problem
        elif entry.get("disabled"):
            state, reason = "disabled", str(entry["disabled"])[:200]
        elif left:
            state = str(resting.get("state", "resting"))[:40]
        configured = {
            name: getattr(reference, name) for name in ("rpm", "tpm", "rpd", "burst", "max_in_flight")
        }
        learnt = {
            f"{model} {name}": value
            for model, told in _table(entry.get("models")).items()
            for name, raw in _table(_table(told).get("limits")).items()
            if (value := number(raw, low=1.0, high=MAX_LIMIT)) is not None
        }
        rows.append(
            {
                "id": reference.id,
                "provider": reference.provider,
                "group": reference.quota_group or reference.id,
                "state": state,
                "reason": reason,
                "seconds_left": round(left, 1),
                "limits": {name: value for name, value in configured.items() if value is not None} | learnt,
                "source": reference.env or reference.file or "its own login",
            }
        )
    return rows
