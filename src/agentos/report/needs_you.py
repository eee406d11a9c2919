"""What a person has to do after a run, or during it: questions, failed items, and what to type. Pure.

Page, report and terminal show the same. Only commands that can be typed as they are count as help.
"""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agentos.decisions import questions_in
from agentos.events.state import CUT_OFF
from agentos.model import Status, counted
from agentos.report.run_again import RunAgain, Stopped

_MAY_ASK = frozenset({Status.APPROVED.value, Status.NEEDS_REVISION.value})  # and wait for no answer
_BROKEN = frozenset({Status.FAILED.value, Status.TIMED_OUT.value, Status.NEEDS_REVISION.value})
_STOPPED = frozenset(
    {Status.INTERRUPTED.value, Status.PAUSED.value, Status.PENDING.value, CUT_OFF}
)  # they resume
Action = Literal["view", "decide", "resume", "retry", "file", "logs"]  # what a command does
_NO_QUESTION = "The reviewer asks a person to decide."
_NO_REASON = "no reason is recorded"
_MOST_ANSWERS = 3  # in one command


@dataclass(frozen=True, kw_only=True)
class ItemCase:
    """How an item stands, as far as a person may have to act on it."""

    id: str
    label: str
    status: str
    title: str | None = None
    said: str | None = None  # its error or reason
    questions: tuple[str, ...] = ()  # of its reviews, still open: "Q1: ..."
    blocking: int = 0  # open findings of Tier 1
    remarks: tuple[str, ...] = ()  # what a person should know although nothing waits for them
    answered: bool = False  # a person has decided; the next run continues from there
    attempts: int = 1
    filing: str | None = None


@dataclass(frozen=True, kw_only=True)
class OpenQuestion:
    """What only a person can answer: the questions of one item."""

    label: str
    title: str | None = None
    text: str = _NO_QUESTION
    questions: tuple[str, ...] = ()  # one by one, if they are numbered
    blocking: int = 0  # open findings of Tier 1

    @property
    def count(self) -> int:
        return len(self.questions) or 1


@dataclass(frozen=True, kw_only=True)
class Remark:
    """What a person should know about an item that does not wait for them."""

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
    remarks: tuple[Remark, ...] = ()
    unfinished: int = 0  # items that resume with the next run
    answered: int = 0  # questions that are answered; the next run continues with them
    unfiled: int = 0  # approved issues that are not on GitHub yet
    commands: tuple[ToType, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.questions or self.problems or self.unfinished or self.answered or self.unfiled)

    def as_dict(self) -> dict[str, Any]:
        data = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}
        return data | {"questions": [asdict(one) | {"count": one.count} for one in self.questions]}


def needs_you(items: Sequence[ItemCase], again: RunAgain, *, live: bool = False) -> NeedsYou:
    """Sort out what needs a person, and add the commands that help."""
    asked = [one for one in items if one.status == Status.DISCUSS.value]
    found = NeedsYou(
        questions=tuple(
            OpenQuestion(
                label=one.label,
                title=one.title,
                text=_question(one),
                questions=one.questions,
                blocking=one.blocking,
            )
            for one in asked
            if not one.answered
        ),
        problems=tuple(
            OpenProblem(label=one.label, title=one.title, status=one.status, reason=one.said or _NO_REASON)
            for one in items
            if one.status in _BROKEN
        ),
        remarks=tuple(
            Remark(label=one.label, title=one.title, text="\n".join(one.remarks))
            for one in items
            if one.remarks
        ),
        unfinished=0 if live else sum(one.status in _STOPPED for one in items),
        answered=0 if live else sum(one.answered for one in asked),
        unfiled=0 if live else sum(one.filing in {"wanted", "unknown"} for one in items),
    )
    commands = question_commands(found.questions, again.start)
    if not live:
        commands += _commands(found, items, again)
    return NeedsYou(**vars(found) | {"commands": tuple(commands)})


def question_commands(asked: Sequence[OpenQuestion], start: str) -> list[ToType]:
    """One command for any number of questions: the page shows each with its draft."""
    if not asked:
        return []
    count = sum(one.count for one in asked)
    which = "the question" if count == 1 else "both questions" if count == 2 else f"all {count} questions"
    if len(asked) > 1:
        return [ToType(action="view", command=f"{start} view", why=f"answer {which} on one page")]
    one = asked[0]
    be = "is" if one.blocking == 1 else "are"
    despite = f" although {counted(one.blocking, 'blocking finding')} {be} open" if one.blocking else ""
    return [
        ToType(action="view", command=f"{start} view", why=f"read the draft and answer {which}"),
        ToType(
            action="decide",
            command=answer_command(one.label, one.questions, start),
            why=f"or --revise, or --approve{despite}",
        ),
    ]


def answer_command(label: str, questions: Sequence[str], start: str) -> str:
    """The command that answers an item's questions; the person replaces the dots."""
    numbers = [one.number for text in questions for one in questions_in(text)]
    answers = [f"Q{number}: ..." for number in numbers] if len(numbers) <= _MOST_ANSWERS else []
    notes = " ".join(f'--note "{answer}"' for answer in answers or ["..."])
    return f"{start} decide {shlex.quote(label)} {notes}"


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
    asking = [one for one in items if one.questions and one.status in _MAY_ASK]
    if asking:
        more = f"; {counted(len(asking) - 1, 'more item')} asked" if len(asking) > 1 else ""
        command = answer_command(asking[0].label, asking[0].questions, again.start)
        commands.append(ToType(action="decide", command=command, why=f"answer what a review asked{more}"))
    if found.unfiled:
        command = again.command(f"{again.chosen} --yes")
        commands.append(ToType(action="file", command=command, why="file the approved issues"))
    logs = [one.label for one in broken if one.status != Status.NEEDS_REVISION]
    if logs:
        command = f"{again.start} logs {shlex.quote(logs[0])}"
        commands.append(ToType(action="logs", command=command, why="see what happened"))
    return commands
