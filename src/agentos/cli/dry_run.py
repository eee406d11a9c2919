"""`--dry-run`: shows what a run would do."""

from collections import Counter
from typing import TYPE_CHECKING

import click

from agentos.console.screen import json_text
from agentos.console.visible import one_line
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.errors import Exit
from agentos.model import counted
from agentos.money import amount, shown
from agentos.naming import step_in_words

if TYPE_CHECKING:
    from agentos.app.preview import Preview
    from agentos.coordinator.estimate import Work

WORDS = {
    PlanAction.START: "would start",
    PlanAction.RESUME: "would resume",
    PlanAction.START_OVER: "would start over",
    PlanAction.REVISE: "would be revised",
    PlanAction.SKIP: "skipped",
    PlanAction.FILE: "would be filed",
    PlanAction.WAIT: "waiting for a decision",
    PlanAction.REFUSE: "cannot run",
}


def show_preview(preview: "Preview") -> int:
    """Print the plan, for people or as JSON."""
    settings, entries = preview.request.settings, preview.entries
    if settings.json:
        click.echo(json_text(_as_data(preview)))
        return Exit.OK
    click.echo(one_line(str(preview.request.source)))
    if preview.moved is not None:
        click.echo(one_line(preview.moved))
    if not entries:
        click.echo("Nothing pending.")
        return Exit.OK
    width = max(len(entry.item.label) for entry in entries)
    for entry in entries:
        line = f"{entry.item.label:<{width}}  {WORDS[entry.step]}{_where(entry)}  {entry.item.title}"
        click.echo(one_line(line))
    counts = Counter(entry.step for entry in entries)
    steps = ", ".join(f"{count} {WORDS[step]}" for step, count in counts.items())
    click.echo(f"\n{counted(len(entries), 'item')}: {steps}; {settings.parallel} at a time.")
    least, most = _calls(preview)
    calls = counted(most, "call") if least == most else f"{least} to {most} calls"
    click.echo(f"{calls}, {_cost(preview, mock=settings.mock)}." if most else "No calls, no cost.")
    for line in _about_maps(preview):
        click.echo(one_line(line))
    click.echo("Dry run: no model was called and nothing was written.")
    if preview.live:
        click.echo(f"Running now: {', '.join(preview.live)}.")
    return Exit.OK


def _calls(preview: "Preview") -> tuple[int, int]:
    work = preview.work.values()
    return sum(one.least for one in work), sum(one.most for one in work)


def _where(entry: PlannedItem) -> str:
    if entry.step is PlanAction.RESUME:
        reviews = f", {counted(entry.reviews, 'review')} done" if entry.reviews else ""
        return f" from {step_in_words(entry.node) or 'the start'}{reviews} ({entry.reason})"
    return f" ({entry.reason})" if entry.reason else ""


def _about_maps(preview: "Preview") -> list[str]:
    """The size and price of the repository maps, and what is wrong with them."""
    maps, lines = preview.maps, []
    if maps.tokens:
        known = [price for price in maps.prices.values() if price is not None]
        price = f", {shown(sum(known))} per round" if len(known) == len(maps.prices) else ""
        changed = f" with {counted(maps.changed, 'changed file')}" if maps.changed else ""
        commit = f" (commit {maps.commit}{changed})" if maps.commit else " (nothing is committed yet)"
        sizes = set(maps.tokens.values())
        size = f"{maps.usual:,}" if len(sizes) == 1 else f"{min(sizes):,} to {max(sizes):,}"
        lines.append(f"Repository map: {size} tokens in each call{price}{commit}.")
    labels = {entry.item.id: entry.item.label for entry in preview.entries}
    return lines + [f"{labels[item]} would fail: {why}." for item, why in maps.problems.items()]


def _cost(preview: "Preview", *, mock: bool) -> str:
    cost = preview.cost
    if cost.low is None or cost.high is None:
        models = preview.request.models
        unset = [role for role, model in models.items() if not model]
        if unset:
            missing = "no models are" if len(unset) == len(models) else f"no {unset[0]} is"
            return f"cost unknown: {missing} set ('agentos doctor' shows how)"
        return f"cost unknown: no price for {one_line(' and '.join(preview.unpriced))}"
    simulated = " at the mock's simulated prices" if mock else ""
    return f"{amount(cost.low)} to {shown(cost.high)}{simulated} ({cost.why})"


def _range(work: "Work | None") -> dict[str, int] | None:
    return None if work is None else {"low": work.least, "high": work.most}


def _as_data(preview: "Preview") -> dict[str, object]:
    cost = preview.cost
    least, most = _calls(preview)
    return {
        "workflow": preview.request.flow.name,
        "dry_run": True,
        "source": str(preview.request.source),
        "parallel": preview.request.settings.parallel,
        "items": [
            {
                "id": entry.item.id,
                "label": entry.item.label,
                "title": entry.item.title,
                "action": entry.step.value,
                "reason": entry.reason or None,
                "from": entry.node or None,
                "reviews": entry.reviews,
                "calls": _range(preview.work.get(entry.item.id)),
                "context_tokens": preview.maps.tokens.get(entry.item.id),
            }
            for entry in preview.entries
        ],
        "calls": {"low": least, "high": most},
        "cost_usd": None if cost.low is None else {"low": cost.low, "high": cost.high},
        "cost_basis": cost.basis,
        "cost_based_on": cost.based_on,
    }
