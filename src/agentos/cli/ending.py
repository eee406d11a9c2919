"""What a person sees when a run is over: a row an item, what the exit code means, what to type next."""

import shlex
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

from agentos.cli.project import Project, program
from agentos.config import Config, Origin
from agentos.console.console import Console
from agentos.console.fitting import columns, cut, cut_middle, cut_start, label_room, listed, padded
from agentos.console.screen import Line, Paint
from agentos.console.visible import one_line
from agentos.errors import Exit
from agentos.model import Status, counted
from agentos.money import shown
from agentos.report.overlaps import Overlap
from agentos.report.summary import ItemRow, Summary, as_markdown
from agentos.settings import NAMES, about, flag_of

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
_SHOWN_DISCUSSIONS = 3
_MOST_NAMED = 20  # items in one suggested command
_RESULT = 14  # columns that the result of an item should have
# Flags that chose items or a way of showing: they are chosen anew with each command.
_NOT_REPEATED = frozenset(
    {"all", "limit", "retry_failed", "fresh", "mock", "dry_run", "yes", "json", "verbose", "quiet"}
)


def show_summary(summary: Summary, project: Project, console: Console, *, ids: tuple[str, ...] = ()) -> None:
    """Print the end of a run; `ids` are the items that were named for it."""
    width = console.width

    def line(*parts: str | Paint) -> None:
        console.print(*parts)

    line()
    line(f"Run {summary.run_id}: {summary.wall_seconds:.1f} s{_cost(summary)}")
    line(summary.told() or "nothing pending")
    rows = _shown(summary)
    for parts in row_lines(rows, width=width):
        line(*parts)
    hidden = len(summary.items) - len(rows)
    if hidden > 0:
        line(f"  and {hidden} more in summary.md")
    for overlap in summary.overlaps[:_SHOWN_OVERLAPS]:
        line(overlap_line(overlap, width=width))
    if len(summary.overlaps) > _SHOWN_OVERLAPS:
        line(f"  and {len(summary.overlaps) - _SHOWN_OVERLAPS} more overlaps in summary.md")
    line(f"Exit {summary.exit_code}: {MEANINGS[Exit(summary.exit_code)]}")
    if commands := next_commands(summary, project.config, ids=ids, start=program()):
        line("Next:")
        for command, why in commands:
            told = f"  {command}    # {why}"
            # On a narrow terminal the command alone, whole: it is what people copy.
            line(told if width is None or columns(told) <= width else f"  {command}")
    line(f"Logs: {_short(summary.folder, project)}")
    if path := project.config.environment.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(as_markdown(summary))
        except OSError as exc:
            line(f"Warning: GITHUB_STEP_SUMMARY cannot be written: {exc.strerror}")


def row_lines(rows: Sequence[ItemRow], *, width: int | None) -> list[Line]:
    """A line an item, in columns; where room is short, label and result are shortened, never the rest."""
    told = [
        (
            row.status.value.replace("_", " "),
            counted(row.reviews, "review") if row.reviews else "",
            f"{row.seconds:.1f} s",
        )
        for row in rows
    ]
    status_room, reviews_room, time_room = (
        max((len(texts[at]) for texts in told), default=0) for at in range(3)
    )
    others = 2 + 2 + status_room + 2 + reviews_room + 2 + time_room + 2
    for_label = label_room((row.label for row in rows), width=width, others=others + _RESULT)
    lines: list[Line] = []
    for row, (status, reviews, seconds) in zip(rows, told, strict=True):
        coloured = Paint(f"{status:<{status_room}}", fg=COLOURS.get(row.status))
        label = padded(cut_middle(row.label, for_label), for_label)
        result = _result(row, None if width is None else width - others - for_label)
        rest = f"  {reviews:<{reviews_room}}  {seconds:>{time_room}}  {result}".rstrip()
        lines.append((f"  {label}  ", coloured, rest))
    return lines


def _result(row: ItemRow, room: int | None) -> str:
    said = one_line(row.error or row.reason or "")
    output = one_line(row.output or "")
    if room is None:
        return said or output
    return cut(said, room) if said else cut_start(output, room)


def overlap_line(overlap: Overlap, *, width: int | None) -> str:
    """The files first: who changes them can be looked up, what it is about cannot be guessed."""
    between = ": changed by "
    files = listed(overlap.files, None if width is None else max(1, width // 2 - 2))
    room = None if width is None else max(1, width - 2 - columns(files) - len(between))
    return f"  {files}{between}{listed(overlap.items, room)}"


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


def next_commands(
    summary: Summary, config: Config, *, ids: tuple[str, ...] = (), start: str = "agentos"
) -> list[tuple[str, str]]:
    """The exact commands that get the run further, with what each does.

    `ids` are the items that were named, `start` the program with its flags for home and settings.
    """
    flow = summary.workflow if summary.workflow in {"lld", "issue"} else f"run {summary.workflow}"
    by_status: dict[Status, list[ItemRow]] = {}
    for row in summary.items:
        by_status.setdefault(row.status, []).append(row)
    flags = _flags(summary, config)
    named = shlex.join(ids)
    limit = config.settings.limit
    everything = "--all" if limit is None or not _typed(config, "limit") else f"--all --limit {limit}"

    def command(choice: str) -> str:
        return " ".join([start, flow, choice, *flags])

    commands = _about_keys(summary, start) + _about_discussions(by_status.get(Status.DISCUSS, []), start)
    stopped = [
        row for row in summary.items if row.status in {Status.INTERRUPTED, Status.PAUSED, Status.PENDING}
    ]
    for choice in _to_go_on(stopped, config, named or everything, was_named=bool(ids)):
        commands.append((command(choice), "go on where it stopped"))
    # A file that could not be used was never begun: trying again does not help, and it has no log.
    broken = [
        row
        for status in (Status.FAILED, Status.TIMED_OUT)
        for row in by_status.get(status, [])
        if row.attempts
    ]
    if broken or Status.NEEDS_REVISION in by_status:
        again = f"{named} --retry-failed" if named else "--retry-failed"
        commands.append((command(again), "try again what did not get through"))
    if any(row.filing in {"wanted", "unknown"} for row in summary.items):
        commands.append((command(f"{named or everything} --yes"), "file what is approved"))
    if broken:
        commands.append((f"{start} logs {shlex.quote(broken[0].label)}", "see what happened"))
    if any(row.seconds for row in summary.items):
        commands.append((f"{start} report {summary.run_id} --open", "see the run as a picture"))
    return commands


def _about_keys(summary: Summary, start: str) -> list[tuple[str, str]]:
    if summary.exit_code != Exit.NO_KEY:
        return []
    disabled = [key for key in summary.keys if key.state == "disabled" and key.provider != "mock"]
    return [
        (f"{start} doctor --live", "see why keys are refused"),
        *((f"{start} keys enable {shlex.quote(key.id)}", "once the key is good again") for key in disabled),
    ]


def _about_discussions(asked: Sequence[ItemRow], start: str) -> list[tuple[str, str]]:
    commands = [
        (f"{start} decide {shlex.quote(row.label)} --approve", 'or --revise, or --note "..."')
        for row in asked[:_SHOWN_DISCUSSIONS]
    ]
    if (more := len(asked) - _SHOWN_DISCUSSIONS) > 0:
        commands.append((f"{start} view", f"and {more} more; agentos view answers them in one place"))
    return commands


def _to_go_on(stopped: Sequence[ItemRow], config: Config, meant: str, *, was_named: bool) -> list[str]:
    """Which items the next command takes to go on; nothing if none was stopped.

    What --retry-failed and --fresh chose cannot be chosen again by the same flag: an item that was begun
    is neither failed nor to be started anew. So the items are named.
    """
    if not stopped:
        return []
    settings = config.settings
    if settings.fresh:
        begun = [row.id for row in stopped if row.attempts]
        untouched = [row.id for row in stopped if not row.attempts]
        choices = [shlex.join(begun)] if begun else []
        choices += [f"{shlex.join(untouched)} --fresh"] if untouched else []
        return choices if len(stopped) <= _MOST_NAMED else [meant]
    if settings.retry_failed:
        few = not was_named and not settings.all and len(stopped) <= _MOST_NAMED
        return [f"{shlex.join(row.id for row in stopped) if few else meant} --retry-failed"]
    return [meant]


def _typed(config: Config, name: str) -> bool:
    return config.sources[name].origin is Origin.FLAG


def _flags(summary: Summary, config: Config) -> list[str]:
    """The flags without which the next command would not be the same; a budget that is reached is raised."""
    settings = config.settings
    flags = ["--mock"] if settings.mock else []
    raised = _raised(summary, config)
    for name in NAMES:
        if name in raised:
            flags += [flag_of(name), _number(raised[name])]
        elif _typed(config, name) and name not in _NOT_REPEATED:
            flags += _as_typed(name, getattr(settings, name))
    return flags


def _as_typed(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [flag_of(name) if value else about(name).negative or ""]
    if isinstance(value, tuple):
        return [word for one in value for word in (flag_of(name), shlex.quote(str(one)))]
    return [flag_of(name), _number(value) if isinstance(value, float) else shlex.quote(str(value))]


def _raised(summary: Summary, config: Config) -> dict[str, float]:
    """The budgets that are too small, each with an amount that lets the run go on for a while."""
    settings = config.settings
    raised: dict[str, float] = {}
    for name, amount, needed in (
        ("budget", settings.budget, summary.needed_budget),
        ("item_budget", settings.item_budget, summary.needed_item_budget),
    ):
        if amount is not None and needed is not None and needed > amount:
            raised[name] = _rounded_up(max(2 * amount, needed))
    if not raised and summary.exit_code == Exit.BUDGET:
        name = "budget" if summary.stopped == "budget" else "item_budget"
        amount = settings.budget if name == "budget" else settings.item_budget
        raised |= {} if amount is None else {name: _rounded_up(2 * amount)}
    return raised


def _rounded_up(amount: float) -> float:
    """Two digits are enough for a budget; never less than what is needed."""
    unit = Decimal(1).scaleb(Decimal(repr(amount)).adjusted() - 1)
    return float((Decimal(repr(amount)) / unit).to_integral_value(ROUND_CEILING) * unit)


def _number(value: float) -> str:
    # Never with an exponent, which is no duration.
    return f"{Decimal(repr(value)).normalize():f}"
