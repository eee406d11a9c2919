"""What a person has to do after a run, or during it: questions, failed items, and what to type. Pure.

Page, report and terminal show the same. Only commands that can be typed as they are count as help.
"""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agentos.events.state import CUT_OFF
from agentos.model import Status
from agentos.report.run_again import RunAgain, Stopped

_BROKEN = frozenset({Status.FAILED.value, Status.TIMED_OUT.value, Status.NEEDS_REVISION.value})
_STOPPED = frozenset(
    {Status.INTERRUPTED.value, Status.PAUSED.value, Status.PENDING.value, CUT_OFF}
)  # they resume
Action = Literal["view", "decide", "resume", "retry", "file", "logs"]  # what a command does
_NO_QUESTION = "The reviewer asks a person to decide."
_NO_REASON = "no reason is recorded"


@dataclass(frozen=True, kw_only=True)
class ItemCase:
    """How an item stands, as far as a person may have to act on it."""

    id: str
    label: str
    status: str
    title: str | None = None
    said: str | None = None  # its error or reason
    questions: tuple[str, ...] = ()  # of its last review
    answered: bool = False  # a person has decided; the next run continues from there
    attempts: int = 1
    filing: str | None = None


@dataclass(frozen=True, kw_only=True)
class OpenQuestion:
    """A question that only a person can answer."""

    label: str
    title: str | None
    text: str


@dataclass(frozen=True, kw_only=True)
class OpenProblem:
    """An item that was not approved, and why."""

    label: str
    title: str | None
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ToType:
    """A command that can be typed as it is, and what it does."""

    command: str
    why: str
    action: Action


@dataclass(frozen=True, kw_only=True)
class NeedsYou:
    """Everything that waits for a person. Nothing does if it is false."""

    questions: tuple[OpenQuestion, ...] = ()
    problems: tuple[OpenProblem, ...] = ()
    unfinished: int = 0  # items that resume with the next run
    answered: int = 0  # questions that are answered; the next run continues with them
    unfiled: int = 0  # approved issues that are not on GitHub yet
    commands: tuple[ToType, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.questions or self.problems or self.unfinished or self.answered or self.unfiled)

    def as_dict(self) -> dict[str, Any]:
        return {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}


def needs_you(items: Sequence[ItemCase], again: RunAgain, *, live: bool = False) -> NeedsYou:
    """Sort out what needs a person, and add the commands that help."""
    asked = [one for one in items if one.status == Status.DISCUSS.value]
    found = NeedsYou(
        questions=tuple(
            OpenQuestion(label=one.label, title=one.title, text=_question(one))
            for one in asked
            if not one.answered
        ),
        problems=tuple(
            OpenProblem(label=one.label, title=one.title, status=one.status, reason=one.said or _NO_REASON)
            for one in items
            if one.status in _BROKEN
        ),
        unfinished=0 if live else sum(one.status in _STOPPED for one in items),
        answered=0 if live else sum(one.answered for one in asked),
        unfiled=0 if live else sum(one.filing in {"wanted", "unknown"} for one in items),
    )
    commands = question_commands([one.label for one in found.questions], again.start)
    if not live:
        commands += _commands(found, items, again)
    return NeedsYou(**vars(found) | {"commands": tuple(commands)})


def question_commands(labels: Sequence[str], start: str) -> list[ToType]:
    """One command for any number of questions: the page shows each with its draft."""
    if not labels:
        return []
    many = len(labels) > 1
    count = "both" if len(labels) == 2 else f"all {len(labels)}"
    why = f"answer {count} questions on one page" if many else "read the draft and answer the question"
    commands = [ToType(action="view", command=f"{start} view", why=why)]
    if not many:
        decide = f"{start} decide {shlex.quote(labels[0])} --approve"
        commands.append(ToType(action="decide", command=decide, why='or --revise, or --note "..."'))
    return commands


def _question(item: ItemCase) -> str:
    return "\n".join(item.questions) or item.said or _NO_QUESTION


def _commands(found: NeedsYou, items: Sequence[ItemCase], again: RunAgain) -> list[ToType]:
    stopped = [Stopped(id=one.id, attempts=one.attempts) for one in items if one.status in _STOPPED]
    commands = [
        ToType(action="resume", command=command, why="resume where it stopped")
        for command in again.resume(stopped)
    ]
    if found.answered and not stopped:
        command = again.command(again.chosen)
        commands.append(ToType(action="resume", command=command, why="continue after the answer"))
    # An unusable file was never started: a retry does not help, and it has no log.
    broken = [one for one in items if one.status in _BROKEN and one.attempts]
    if broken:
        commands.append(ToType(action="retry", command=again.retry(), why="retry what was not approved"))
    if found.unfiled:
        command = again.command(f"{again.chosen} --yes")
        commands.append(ToType(action="file", command=command, why="file the approved issues"))
    logs = [one.label for one in broken if one.status != Status.NEEDS_REVISION]
    if logs:
        command = f"{again.start} logs {shlex.quote(logs[0])}"
        commands.append(ToType(action="logs", command=command, why="see what happened"))
    return commands
