"""The exact commands to type next after a run, as values."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentos.app.given_flags import given_flags
from agentos.config import Config, Origin
from agentos.errors import Exit
from agentos.model import Status
from agentos.naming import command_of
from agentos.report.needs_you import ItemCase, OpenQuestion, needs_you, question_commands
from agentos.report.run_again import MOST_NAMED, RunAgain, as_flag
from agentos.report.summary import ItemRow, Summary


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
    questions: tuple[str, ...] = ()  # that a person has to answer
    blocking: int = 0  # open findings of Tier 1


def commands_for(items: Sequence[OpenItem], *, start: str = "agentos") -> tuple[Suggestion, ...]:
    """The exact commands for items of any run; `start` as in `next_commands`."""
    asked = [
        OpenQuestion(label=one.label, questions=one.questions, blocking=one.blocking)
        for one in items
        if one.left == "decide"
    ]
    commands = [Suggestion(one.command, one.why) for one in question_commands(asked, start)]
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
                named = shlex.join(ids) if len(ids) <= MOST_NAMED else "--all"
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
    settings = config.settings
    again = RunAgain(
        workflow=summary.workflow,
        start=start,
        ids=ids,
        flags=given_flags(config, Origin.FLAG),
        budget=settings.budget,
        item_budget=settings.item_budget,
        needed_budget=summary.needed_budget,
        needed_item_budget=summary.needed_item_budget,
        stopped=summary.stopped,
        exit_code=summary.exit_code,
    )
    cases = [
        ItemCase(
            id=row.id,
            label=row.label,
            status=row.status,
            questions=row.questions,
            blocking=row.blocking,
            attempts=row.attempts,
            filing=row.filing,
        )
        for row in summary.items
    ]
    commands = _about_keys(summary, start)
    commands += [Suggestion(one.command, one.why) for one in needs_you(cases, again).commands]
    if summary.workflow == "issue" and any(_is_saved(row) for row in summary.items):
        design = " ".join([start, command_of("lld"), "--all", *_flags_of_designs(config)])
        commands.append(Suggestion(design, "turn the issues into designs"))
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
        if config.sources[name].origin is Origin.FLAG:
            flags += as_flag(name, getattr(settings, name))
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
