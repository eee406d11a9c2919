"""The exact commands to type next after a run, as values."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Literal

from agentos.config import Config, Origin
from agentos.errors import Exit
from agentos.model import Status
from agentos.naming import command_of
from agentos.report.summary import ItemRow, Summary
from agentos.settings import NAMES, about, flag_of

_MOST_NAMED = 20  # items in one suggested command
# Flags that choose items or the output: each suggested command has its own.
_NOT_REPEATED = frozenset(
    {"all", "limit", "retry_failed", "fresh", "mock", "dry_run", "yes", "json", "verbose", "quiet"}
)


@dataclass(frozen=True)
class Suggestion:
    """A command and what it does."""

    command: str
    why: str


Left = Literal["decide", "resume", "retry", "file"]


@dataclass(frozen=True, kw_only=True)
class OpenItem:
    """An item that no run is working on, and what is left to do."""

    workflow: str
    id: str
    label: str
    left: Left
    mock: bool = False


def commands_for(items: Sequence[OpenItem], *, start: str = "agentos") -> tuple[Suggestion, ...]:
    """The exact commands for items of any run; `start` as in `next_commands`."""
    commands = _about_discussions([one.label for one in items if one.left == "decide"], start)
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for one in items:
        groups.setdefault((one.left, one.workflow, one.mock), []).append(one.id)
    for left, why in (
        ("resume", "resume where it stopped"),
        ("retry", "retry what was not approved"),
        ("file", "file the approved issues"),
    ):
        for (of, workflow, mock), ids in groups.items():
            if of == left:
                named = shlex.join(ids) if len(ids) <= _MOST_NAMED else "--all"
                choice = {"retry": "--retry-failed", "file": f"{named} --yes"}.get(left, named)
                words = [start, command_of(workflow), choice, *(["--mock"] if mock else [])]
                commands.append(Suggestion(" ".join(words), why))
    return tuple(commands)


def next_commands(
    summary: Summary, config: Config, *, ids: tuple[str, ...] = (), start: str = "agentos"
) -> tuple[Suggestion, ...]:
    """The exact commands to continue with, and what each does.

    `ids` are the items that were named, `start` is the program with its flags for home and settings.
    """
    by_status: dict[Status, list[ItemRow]] = {}
    for row in summary.items:
        by_status.setdefault(row.status, []).append(row)
    flags = _flags(summary, config)
    named = shlex.join(ids)
    limit = config.settings.limit
    everything = "--all" if limit is None or not _typed(config, "limit") else f"--all --limit {limit}"

    def command(choice: str) -> str:
        return " ".join([start, command_of(summary.workflow), choice, *flags])

    commands = _about_keys(summary, start) + _about_discussions(
        [row.label for row in by_status.get(Status.DISCUSS, [])], start
    )
    stopped = [
        row for row in summary.items if row.status in {Status.INTERRUPTED, Status.PAUSED, Status.PENDING}
    ]
    for choice in _to_resume(stopped, config, named or everything, was_named=bool(ids)):
        commands.append(Suggestion(command(choice), "resume where it stopped"))
    # An unusable file was never started: retrying does not help, and it has no log.
    broken = [
        row
        for status in (Status.FAILED, Status.TIMED_OUT)
        for row in by_status.get(status, [])
        if row.attempts
    ]
    if broken or Status.NEEDS_REVISION in by_status:
        again = f"{named} --retry-failed" if named else "--retry-failed"
        commands.append(Suggestion(command(again), "retry what was not approved"))
    if any(row.filing in {"wanted", "unknown"} for row in summary.items):
        commands.append(Suggestion(command(f"{named or everything} --yes"), "file the approved issues"))
    if summary.workflow == "issue" and any(_is_saved(row) for row in summary.items):
        design = " ".join([start, command_of("lld"), "--all", *_flags_of_designs(config)])
        commands.append(Suggestion(design, "turn the issues into designs"))
    if broken:
        commands.append(Suggestion(f"{start} logs {shlex.quote(broken[0].label)}", "see what happened"))
    if any(row.seconds for row in summary.items):
        commands.append(Suggestion(f"{start} report {summary.run_id} --open", "see the run as a timeline"))
    return tuple(commands)


def _is_saved(row: ItemRow) -> bool:
    """Whether a document was approved and stays in its folder, not on GitHub."""
    return row.status is Status.APPROVED and row.output is not None and row.filing is None


def _flags_of_designs(config: Config) -> list[str]:
    settings = config.settings
    flags = ["--mock"] if settings.mock else []
    if settings.source == "local" or not settings.file:
        flags += ["--source", "local"]  # else the designs might be made for the issues on GitHub
    for name in ("drafter", "reviewer"):
        if _typed(config, name):
            flags += _as_typed(name, getattr(settings, name))
    return flags


def _about_keys(summary: Summary, start: str) -> list[Suggestion]:
    if summary.stopped == "misconfigured":
        return [Suggestion(f"{start} doctor --live", "test the models and their servers")]
    if summary.exit_code != Exit.NO_KEY:
        return []
    disabled = [key for key in summary.keys if key.state == "disabled" and key.provider != "mock"]
    return [
        Suggestion(f"{start} doctor --live", "see why keys cannot be used"),
        *(
            Suggestion(f"{start} keys enable {shlex.quote(key.id)}", "once the key is valid again")
            for key in disabled
        ),
    ]


def _about_discussions(labels: Sequence[str], start: str) -> list[Suggestion]:
    """One command for any number of questions: the page shows each with its draft."""
    if len(labels) > 1:
        return [Suggestion(f"{start} view", f"answer all {len(labels)} questions on one page")]
    commands: list[Suggestion] = []
    for label in labels:
        commands.append(Suggestion(f"{start} view", "read the draft and answer the question"))
        decide = f"{start} decide {shlex.quote(label)} --approve"
        commands.append(Suggestion(decide, 'or --revise, or --note "..."'))
    return commands


def _to_resume(stopped: Sequence[ItemRow], config: Config, meant: str, *, was_named: bool) -> list[str]:
    """The arguments that select the stopped items again; empty if none was stopped.

    --retry-failed and --fresh cannot select an item that this run started: it has not failed, and it must
    resume, not start over again. So such items are named.
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
    """The flags that the next command needs to be the same; a budget that was reached is raised."""
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
    """The budgets that are too small, each with an amount that lets the run continue for a while."""
    settings = config.settings
    raised: dict[str, float] = {}
    for name, amount, needed in (
        ("budget", settings.budget, summary.needed_budget),
        ("item_budget", settings.item_budget, summary.needed_item_budget),
    ):
        if amount is not None and needed is not None and needed > amount:
            raised[name] = _rounded_up(2 * needed)
    if not raised and summary.exit_code == Exit.BUDGET:
        name = "budget" if summary.stopped == "budget" else "item_budget"
        amount = settings.budget if name == "budget" else settings.item_budget
        raised |= {} if amount is None else {name: _rounded_up(2 * amount)}
    return raised


def _rounded_up(amount: float) -> float:
    """Round up to two significant digits, so never below what is needed."""
    unit = Decimal(1).scaleb(Decimal(repr(amount)).adjusted() - 1)
    return float((Decimal(repr(amount)) / unit).to_integral_value(ROUND_CEILING) * unit)


def _number(value: float) -> str:
    # Never with an exponent, which is not a valid duration.
    return f"{Decimal(repr(value)).normalize():f}"
