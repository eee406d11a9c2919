"""Prints the ending of a run: for people, as JSON, and as the summary of a step in GitHub Actions."""

import sys
from pathlib import Path

from agentos.app.suggestions import OpenItem, commands_for
from agentos.app.workflow import FinishedRun
from agentos.cli.ending import RunEnding, ending_lines
from agentos.console.console import Console
from agentos.console.safe_stream import SafeStream
from agentos.console.screen import json_text
from agentos.model import Status
from agentos.report.step_summary import annotations, step_summary
from agentos.report.summary import Summary


def show_finished(finished: FinishedRun, console: Console) -> int:
    """Print the summary of a run, also as JSON if asked for; return its exit code."""
    if finished.request.settings.json:
        SafeStream(sys.stdout).write(json_text(finished.summary.as_dict()) + "\n")
    show_summary(finished, console)
    return finished.summary.exit_code


def show_summary(finished: FinishedRun, console: Console) -> None:
    """Print the summary for people."""
    summary, project = finished.summary, finished.request.project
    ending = RunEnding(
        summary=summary,
        suggestions=finished.suggestions,
        time=finished.time,
        folder=_short(summary.folder, project.worktree),
        budget=finished.request.settings.budget,
    )
    for line in ending_lines(ending, width=console.width, height=console.height):
        console.print(*line)
    for one in annotations(summary, finished.files):
        console.annotate(one.level, one.text, title=one.title, file=one.file)
    if path := project.config.environment.get("GITHUB_STEP_SUMMARY"):
        text = step_summary(summary, commands=_elsewhere(summary), time=finished.time)
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as exc:
            console.print(f"Warning: cannot write GITHUB_STEP_SUMMARY: {exc.strerror}")


def _elsewhere(summary: Summary) -> list[str]:
    """What to type on another machine, which has the repository but not the state of this run."""
    needs = [row for row in summary.needs_you if row.status is not Status.APPROVED]
    items = [
        OpenItem(workflow=summary.workflow, id=row.id, label=row.label, left="resume", mock=summary.mock)
        for row in needs
    ]
    commands = [one.command for one in commands_for(items)]
    return [*commands, "agentos view"] if commands else []


def _short(path: str, worktree: Path) -> str:
    full = Path(path)
    return str(full.relative_to(worktree)) if full.is_relative_to(worktree) else path
