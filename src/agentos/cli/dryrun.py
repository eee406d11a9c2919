"""`--dry-run`: shows what a run would do. No call, no write, no LangGraph."""

from collections import Counter
from collections.abc import Mapping, Sequence

import click

from agentos.cli.order import MOCK_MODELS
from agentos.cli.project import Project
from agentos.console.screen import json_text
from agentos.console.visible import one_line
from agentos.coordinator.estimate import Estimate, estimate
from agentos.coordinator.plan import Entry, Step
from agentos.errors import Exit
from agentos.model import counted
from agentos.money import PriceTable
from agentos.settings import Settings
from agentos.store.records import Taken
from agentos.store.runfolder import is_live, list_runs

CALLS_AT_LEAST = 2  # a draft and a review
LETTERS_A_TOKEN = 4  # roughly, as before a call
WORDS = {
    Step.START: "would start",
    Step.RESUME: "would resume",
    Step.ANEW: "would start over",
    Step.REVISE: "would be revised",
    Step.SKIP: "skipped",
    Step.FILE: "would be filed",
    Step.WAIT: "waits for a decision",
    Step.REFUSE: "cannot be processed",
}


def models_wanted(settings: Settings) -> Mapping[str, str | None]:
    """The two models a run would use; a dry run needs none to be set."""
    return MOCK_MODELS if settings.mock else {"drafter": settings.drafter, "reviewer": settings.reviewer}


def show_plan(
    name: str,
    project: Project,
    entries: Sequence[Entry],
    settings: Settings,
    *,
    history: Sequence[Mapping[str, Taken]],
    context: Mapping[str, str],
    source: str,
    moved: str | None = None,
) -> int:
    """Print the plan, for people or as JSON; `moved` says that items came from elsewhere before."""
    running = [entry for entry in entries if entry.runs]
    cost = _estimate(project, running, history, context)
    low = sum(CALLS_AT_LEAST for entry in running if entry.step is not Step.RESUME)
    high = len(running) * settings.max_iterations * 2
    if settings.json:
        data = _as_data(name, entries, settings, source) | {
            "calls": {"low": low, "high": high},
            "cost_usd": None if cost.low is None else {"low": cost.low, "high": cost.high},
            "cost_basis": cost.basis,
            "cost_based_on": cost.based_on,
        }
        click.echo(json_text(data))
        return Exit.OK
    click.echo(one_line(source))
    if moved is not None:
        click.echo(one_line(moved))
    if not entries:
        click.echo("Nothing pending.")
        return Exit.OK
    width = max(len(entry.item.label) for entry in entries)
    for entry in entries:
        told = f"{entry.item.label:<{width}}  {WORDS[entry.step]}{_where(entry)}  {entry.item.title}"
        click.echo(one_line(told))
    counts = Counter(entry.step for entry in entries)
    told = ", ".join(f"{count} {WORDS[step]}" for step, count in counts.items())
    click.echo(f"\n{counted(len(entries), 'item')}: {told}; {settings.parallel} at once.")
    click.echo(f"{low} to {high} calls, {_told(cost, mock=settings.mock)}.")
    click.echo("Dry run: nothing was called or written.")
    live = [path.name for path in list_runs(project.home) if is_live(path)]
    if live:
        click.echo(f"A run is at work now: {', '.join(live)}.")
    return Exit.OK


def _where(entry: Entry) -> str:
    if entry.step is Step.RESUME:
        reviews = f", {counted(entry.reviews, 'review')} done" if entry.reviews else ""
        return f" from {entry.node or 'the start'}{reviews} ({entry.reason})"
    return f" ({entry.reason})" if entry.reason else ""


def _estimate(
    project: Project,
    running: Sequence[Entry],
    history: Sequence[Mapping[str, Taken]],
    context: Mapping[str, str],
) -> Estimate:
    settings = project.config.settings
    models = models_wanted(settings)
    prices = PriceTable(own=project.config.prices)

    def cost(role: str, tokens_in: int, tokens_out: int) -> float | None:
        provider, _, model = (models.get(role) or "").partition(":")
        return prices.cost(provider, model, tokens_in, tokens_out)

    resumed = sum(entry.step is Step.RESUME for entry in running)
    return estimate(
        fresh=len(running) - resumed,
        resumed=resumed,
        history=history,
        rounds=settings.max_iterations,
        cost=cost,
        context=sum(len(name) + len(text) for name, text in context.items()) // LETTERS_A_TOKEN,
    )


def _told(cost: Estimate, *, mock: bool) -> str:
    if cost.low is None or cost.high is None:
        return "cost unknown: no price is known for the models"
    pretend = " at the mock's pretend prices" if mock else ""
    return f"{cost.low:.2f} to {cost.high:.2f} USD{pretend} ({cost.why})"


def _as_data(name: str, entries: Sequence[Entry], settings: Settings, source: str) -> dict[str, object]:
    return {
        "workflow": name,
        "dry_run": True,
        "source": source,
        "parallel": settings.parallel,
        "items": [
            {
                "id": entry.item.id,
                "label": entry.item.label,
                "title": entry.item.title,
                "action": entry.step.value,
                "reason": entry.reason or None,
                "from": entry.node or None,
                "reviews": entry.reviews,
            }
            for entry in entries
        ],
    }
