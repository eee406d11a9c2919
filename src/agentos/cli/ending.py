"""What a person sees when a run is over: a row an item, what the exit code means, what to type next."""

import shlex
from pathlib import Path

import click

from agentos.cli.project import Project
from agentos.config import Config, Origin
from agentos.console.console import Console
from agentos.console.prefixer import one_line
from agentos.errors import Exit
from agentos.model import Status, counted
from agentos.money import shown
from agentos.report.summary import ItemRow, Summary, as_markdown
from agentos.settings import flag_of

COLOURS = {
    Status.APPROVED: "green",
    Status.NEEDS_REVISION: "yellow",
    Status.DISCUSS: "yellow",
    Status.FAILED: "red",
    Status.TIMED_OUT: "red",
    Status.INTERRUPTED: "cyan",
    Status.PAUSED: "cyan",
}
MEANINGS = {
    Exit.OK: "all approved, or nothing pending",
    Exit.FAILED: "an item failed or timed out",
    Exit.ATTENTION: "some items need revision, a decision, or filing",
    Exit.NO_KEY: "no usable key",
    Exit.BUDGET: "the budget is reached",
    Exit.STOPPED: "stopped early; the same command goes on",
    Exit.INTERRUPTED: "interrupted; the same command goes on",
    Exit.TERMINATED: "terminated; the same command goes on",
}
_SHOWN_ROWS = 60
_SHOWN_OVERLAPS = 10


def show_summary(summary: Summary, project: Project, console: Console) -> None:
    """Print the end of a run."""

    def line(text: str = "") -> None:
        fitting = _fitting(text, width=console.width)
        console.print(fitting if console.colour else click.unstyle(fitting))

    line()
    totals = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary.totals.items())
    line(f"Run {summary.run_id}: {summary.wall_seconds:.1f} s{_cost(summary)}")
    line(totals or "nothing pending")
    width = max((len(row.label) for row in summary.items), default=0)
    rows = _shown(summary)
    for row in rows:
        reviews = counted(row.reviews, "review") if row.reviews else ""
        status = click.style(f"{row.status.value.replace('_', ' '):<14}", fg=COLOURS.get(row.status))
        told = one_line(row.error or row.reason or row.output or "")
        line(f"  {row.label:<{width}}  {status}  {reviews:<10} {row.seconds:>6.1f} s  {told}")
    hidden = len(summary.items) - len(rows)
    if hidden > 0:
        line(f"  and {hidden} more in summary.md")
    for overlap in summary.overlaps[:_SHOWN_OVERLAPS]:
        line(f"  {', '.join(overlap.items)} change the same: {', '.join(overlap.files)}")
    if len(summary.overlaps) > _SHOWN_OVERLAPS:
        line(f"  and {len(summary.overlaps) - _SHOWN_OVERLAPS} more overlaps in summary.md")
    line(f"Exit {summary.exit_code}: {MEANINGS[Exit(summary.exit_code)]}")
    if commands := next_commands(summary, project.config):
        line("Next:")
        for command, why in commands:
            told = f"  {command}    # {why}"
            # On a narrow terminal the command alone: it is what people copy.
            line(told if console.width is None or len(told) <= console.width else f"  {command}")
    line(f"Logs: {_short(summary.folder, project)}")
    if path := project.config.environment.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(as_markdown(summary))
        except OSError as exc:
            line(f"Warning: GITHUB_STEP_SUMMARY cannot be written: {exc.strerror}")


def _fitting(text: str, *, width: int | None) -> str:
    """Cut a row to the terminal's width; its colours take no room. Commands are never cut."""
    plain = click.unstyle(text)
    if width is None or len(plain) <= width or not plain.startswith("  ") or "    # " in plain:
        return text
    return text[: len(text) - (len(plain) - width) - 1] + "…"


def _shown(summary: Summary) -> list[ItemRow]:
    """All rows of a short run; of a long one those that need somebody's eye first."""
    if len(summary.items) <= _SHOWN_ROWS:
        return list(summary.items)
    calm = {Status.APPROVED, Status.SKIPPED}
    return sorted(summary.items, key=lambda row: row.status in calm)[:_SHOWN_ROWS]


def _short(path: str, project: Project) -> str:
    full = Path(path)
    return str(full.relative_to(project.worktree)) if full.is_relative_to(project.worktree) else path


def _cost(summary: Summary) -> str:
    if not any(row.tokens_in for row in summary.items):
        return ""
    pretend = " (pretended by the mock)" if _mocked(summary) else ""
    return f", cost {shown(summary.cost_usd)}{pretend}"


def _mocked(summary: Summary) -> bool:
    return all(key.provider == "mock" for key in summary.keys)


def next_commands(summary: Summary, config: Config) -> list[tuple[str, str]]:
    """The exact commands that get the run further, with what each does."""
    flow = summary.workflow if summary.workflow in {"lld", "issue"} else f"run {summary.workflow}"
    by_status: dict[Status, list[ItemRow]] = {}
    for row in summary.items:
        by_status.setdefault(row.status, []).append(row)

    def command(choice: str) -> str:
        return " ".join([f"agentos {flow}", choice, *_flags(summary, config)])

    commands = [
        (f"agentos decide {shlex.quote(row.label)} --approve", 'or --revise, or --note "..."')
        for row in by_status.get(Status.DISCUSS, [])[:3]
    ]
    if by_status.keys() & {Status.INTERRUPTED, Status.PAUSED, Status.PENDING}:
        commands.append((command("--all"), "go on where it stopped"))
    if by_status.keys() & {Status.FAILED, Status.TIMED_OUT, Status.NEEDS_REVISION}:
        commands.append((command("--retry-failed"), "try again what did not get through"))
    if any(row.filing in {"wanted", "unknown"} for row in summary.items):
        commands.append((command("--all --yes"), "file what is approved"))
    if broken := by_status.get(Status.FAILED, []) + by_status.get(Status.TIMED_OUT, []):
        commands.append((f"agentos logs {shlex.quote(broken[0].label)}", "see what happened"))
    if any(row.seconds for row in summary.items):
        commands.append((f"agentos report {summary.run_id} --open", "see the run as a picture"))
    return commands


def _flags(summary: Summary, config: Config) -> list[str]:
    """The flags without which the next command would not be the same; a budget that is reached is doubled."""
    settings = config.settings
    flags = ["--mock"] if _mocked(summary) else []
    for name in ("source", "label", "drafter", "reviewer"):
        if config.sources[name].origin is Origin.FLAG:
            flags += [flag_of(name), shlex.quote(str(getattr(settings, name)))]
    if summary.exit_code == Exit.BUDGET:
        for name, amount in (("budget", settings.budget), ("item_budget", settings.item_budget)):
            if amount is not None:
                flags += [flag_of(name), f"{2 * amount:g}"]
    return flags
