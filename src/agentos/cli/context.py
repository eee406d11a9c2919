"""`agentos context`: shows what both models get to know about the repository for one item."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentos.cli import completion

if TYPE_CHECKING:
    from agentos.app.context import ItemMap

_SHOWN_LEFT_OUT = 20


@click.command("context")
@click.argument("item", metavar="ID", shell_complete=completion.items)
@click.option(
    "--tokens", type=click.IntRange(min=0), help="Make the map this large. [default: context_tokens]"
)
@click.option(
    "--context",
    "paths",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    shell_complete=completion.file,
    help="Also give both models this file or folder; repeatable.",
)
@click.option("--source", metavar="WHERE", help="Read issues from auto, github or local. [default: auto]")
@click.option("--text", "show_text", is_flag=True, help="Print the texts themselves.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def context(
    item: str,
    *,
    tokens: int | None,
    paths: tuple[Path, ...],
    source: str | None,
    show_text: bool,
    as_json: bool,
) -> None:
    """Show what both models get to know about the repository for item ID, and why. Calls no model."""
    from agentos.app.context import map_of_item  # noqa: PLC0415
    from agentos.cli.dialog import Terminal  # noqa: PLC0415
    from agentos.cli.invocation import invocation  # noqa: PLC0415
    from agentos.console.screen import json_text  # noqa: PLC0415

    flags = {"context": tuple(map(str, paths)) or None, "source": source}
    made = map_of_item(invocation(), item, Terminal(), flags=flags, tokens=tokens)
    if as_json:
        click.echo(json_text(_as_data(made, texts=show_text)))
    elif show_text:
        for part in made.found.parts:
            click.echo(f"=== {part.kind} {part.path}\n{part.text}\n")
    else:
        _show(made)


def _show(made: "ItemMap") -> None:
    from agentos.console.visible import one_line  # noqa: PLC0415

    found, repository = made.found, made.maps.repository
    click.echo(one_line(f"{made.item.label}: {made.item.title}"))
    if not found.parts and not found.ranked:
        click.echo(f"No repository map: {_why_no_map(made)}.")
        return
    where = "" if repository is None else f", from commit {repository.commit or '(none yet)'}"
    click.echo(f"{found.tokens:,} of {made.limit:,} tokens{where}")
    if repository is not None and repository.changed:
        named = ", ".join(repository.changed[:5])
        more = f" and {len(repository.changed) - 5} more" if len(repository.changed) > 5 else ""
        click.echo(one_line(f"With uncommitted changes to: {named}{more}"))
    shared = len(found.shared)
    for number, part in enumerate(found.parts):
        if number in {0, shared}:
            click.echo("\nThe same for every item:" if number < shared else "\nFor this item:")
        click.echo(one_line(f"  {part.tokens:>6,}  {part.kind:<9}  {part.place}  ({part.why})"))
    sent = {part.path for part in found.parts}
    others = [path for path in found.ranked if path not in sent]
    if others:
        click.echo()
        click.echo(one_line(f"Also relevant, but not sent: {', '.join(others[:10])}"))
    _show_left_out(made)


def _why_no_map(made: "ItemMap") -> str:
    if made.limit == 0:
        return "context_tokens is 0"
    if made.maps.repository is None:
        return "git tracks no file here; commit the files first"
    return "no tracked file is in the worktree"


def _show_left_out(made: "ItemMap") -> None:
    from agentos.console.visible import one_line  # noqa: PLC0415
    from agentos.model import counted  # noqa: PLC0415

    found, repository = made.found, made.maps.repository
    if repository is not None and (unmatched := repository.unmatched()):
        click.echo()
        click.echo(one_line(f"context_exclude matches no tracked file: {', '.join(unmatched)}"))
    if found.left_out:
        click.echo(f"\nLeft out: {counted(len(found.left_out), 'file')}")
        for one in found.left_out[:_SHOWN_LEFT_OUT]:
            click.echo(one_line(f"  {one.path}: {one.why}"))
        if len(found.left_out) > _SHOWN_LEFT_OUT:
            click.echo(f"  and {len(found.left_out) - _SHOWN_LEFT_OUT} more (--json shows all)")


def _as_data(made: "ItemMap", *, texts: bool) -> dict[str, Any]:
    found, repository = made.found, made.maps.repository
    return {
        "item": made.item.id,
        "tokens": found.tokens,
        "parts": [
            {
                "path": part.path,
                "kind": part.kind.value,
                "name": part.name or None,
                "lines": [part.first, part.last] if part.first else None,
                "tokens": part.tokens,
                "why": part.why,
                **({"text": part.text} if texts else {}),
            }
            for part in found.parts
        ],
        "ranked": list(found.ranked),
        "left_out": [{"path": one.path, "why": one.why} for one in found.left_out],
        "commit": None if repository is None else repository.commit or None,
        "changed": [] if repository is None else list(repository.changed),
    }
