"""The last finished runs of a home, one entry per run. Reads their summaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.events.fields import dicts_of, number_of, text_of
from agentos.model import Status
from agentos.report.keys import pretended
from agentos.store.run_folder import read_summary

TREND_RUNS = 20


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """A finished run."""

    run_id: str
    workflow: str | None
    items: int
    cost_usd: float | None
    overhead: float | None
    wall_seconds: float | None
    exit_code: float | None
    approved: int
    pretended: bool


def read_trend(runs: Sequence[Path]) -> list[PastRun]:
    """The latest finished runs, oldest first."""
    found: dict[str, PastRun] = {}
    for run in sorted(set(runs), reverse=True):
        if len(found) >= TREND_RUNS:
            break
        if summary := read_summary(run):
            rows = dicts_of(summary, "items")
            costs = [number_of(row, "cost_usd") for row in rows]
            found[run.name] = PastRun(
                run_id=run.name,
                workflow=text_of(summary, "workflow", 80),
                items=len(rows),
                cost_usd=None if None in costs else round(sum(cost or 0.0 for cost in costs), 6),
                overhead=number_of(summary, "coordination_overhead_percent"),
                wall_seconds=number_of(summary, "wall_seconds"),
                exit_code=number_of(summary, "exit_code"),
                approved=sum(row.get("status") == Status.APPROVED for row in rows),
                pretended=pretended([text_of(key, "provider") for key in dicts_of(summary, "keys")]),
            )
    return [found[name] for name in sorted(found)]
