"""What a person has to do after a run, or during it: questions, failed items, and what to type. Pure.

Page, report and terminal show the same. Only commands that can be typed as they are count as help.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from agentos.events.state import CUT_OFF
from agentos.model import Status
from agentos.naming import command_of

_BROKEN = frozenset({Status.FAILED.value, Status.TIMED_OUT.value, Status.NEEDS_REVISION.value})
_STOPPED = frozenset(
    {Status.INTERRUPTED.value, Status.PAUSED.value, Status.PENDING.value, CUT_OFF}
)  # they resume
_NO_QUESTION = "The reviewer asks a person to decide."
_NO_REASON = "no reason is recorded"


@dataclass(frozen=True, kw_only=True)
class ItemCase:
    """How an item stands, as far as a person may have to act on it."""

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


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What the commands to type depend on."""

    workflow: str
    typed: str | None = None  # the command that started the run
    mock: bool = False
    live: bool = False
    stopped: str | None = None
    budget: float | None = None
    needed_budget: float | None = None  # with which the next call would go out


def needs_you(items: Sequence[ItemCase], context: RunContext) -> NeedsYou:
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
        unfinished=0 if context.live else sum(one.status in _STOPPED for one in items),
        answered=0 if context.live else sum(one.answered for one in asked),
        unfiled=0 if context.live else sum(one.filing in {"wanted", "unknown"} for one in items),
    )
    return NeedsYou(**vars(found) | {"commands": tuple(_commands(found, items, context))})


def _question(item: ItemCase) -> str:
    return "\n".join(item.questions) or item.said or _NO_QUESTION


def _commands(found: NeedsYou, items: Sequence[ItemCase], context: RunContext) -> list[ToType]:
    start, rest = _split(context)
    commands: list[ToType] = []
    if found.questions:
        label = shlex.quote(found.questions[0].label)
        many = len(found.questions) > 1
        why = f"answer all {len(found.questions)} on one page" if many else "answer on a page"
        commands.append(ToType(command=f"{start} view", why=why))
        if not many:
            why = 'or answer here: --approve, --revise or --note "..."'
            commands.append(ToType(command=f"{start} decide {label} --approve", why=why))
    if context.live:
        return commands
    begun = f"{start} {command_of(context.workflow)}"
    if found.unfinished or found.answered:
        why = "resume where it stopped" if found.unfinished else "continue after the answer"
        commands.append(ToType(command=_again(begun, rest, context), why=why))
    # An unusable file was never started: a retry does not help, and it has no log.
    broken = {one.label for one in items if one.attempts}
    if any(one.label in broken for one in found.problems):
        retry = _without(_again(begun, rest, context), "--retry-failed") + " --retry-failed"
        commands.append(ToType(command=retry, why="retry what was not approved"))
    if found.unfiled:
        commands.append(
            ToType(command=_without(f"{begun}{rest}", "--yes") + " --yes", why="file the approved issues")
        )
    logs = [one for one in found.problems if one.label in broken and one.status != Status.NEEDS_REVISION]
    if logs:
        commands.append(ToType(command=f"{start} logs {shlex.quote(logs[0].label)}", why="see what happened"))
    return commands


def _split(context: RunContext) -> tuple[str, str]:
    """The typed command: the program with its own flags, and what follows the name of the workflow."""
    named = f" {command_of(context.workflow)}"
    start, found, rest = (context.typed or "").partition(named)
    if found and start and (not rest or rest[0] == " "):
        return start, _without(rest, "--fresh")
    return "agentos", f" --all{' --mock' if context.mock else ''}"


def _again(begun: str, rest: str, context: RunContext) -> str:
    """The same command; a budget that was reached is raised, so that the run can continue."""
    if context.stopped != "budget" or context.budget is None:
        return f"{begun}{rest}"
    raised = f"--budget {_rounded_up(2 * max(context.budget, context.needed_budget or 0.0))}"
    kept, found = re.subn(r"--budget[ =]\S+", raised, rest)
    return f"{begun}{kept}" if found else f"{begun}{rest} {raised}"


def _without(command: str, flag: str) -> str:
    return re.sub(rf" {re.escape(flag)}(?= |$)", "", command)


def _rounded_up(amount: float) -> str:
    """Rounded up to two significant digits, so never below what is needed."""
    exact = Decimal(repr(amount))
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    return f"{((exact / unit).to_integral_value(ROUND_CEILING) * unit).normalize():f}"
