"""The inbox: items waiting for a person's decision, and recording the answer. For command and page."""

import getpass
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentos.decisions import (
    Answer,
    Decision,
    Question,
    answers_in,
    in_one_line,
    questions_in,
    unknown_numbers,
)
from agentos.errors import UsageError
from agentos.events.catalogue import RunStarted
from agentos.events.record import read
from agentos.model import Status, check_id
from agentos.naming import ids_named
from agentos.report.run_again import RunAgain, run_again
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.store.records import Progress, timestamp
from agentos.store.records.protocols import AllRecords
from agentos.store.run_folder import read_first_event, read_summary
from agentos.workflows.registry import registered
from agentos.workflows.registry import workflow as find_workflow


@dataclass(frozen=True, kw_only=True)
class Discussion:
    """An item waiting for a decision, and the decision if there is one that no run has used yet."""

    label: str
    progress: Progress
    decided: Decision | None
    mock: bool = False


class NotWaitingError(UsageError):
    """The item does not wait for a decision."""


@dataclass(frozen=True, kw_only=True)
class ShownDiscussion:
    """What the page showed to the person who answers; it may be out of date."""

    reviews: int | None = None
    decided_at: str | None = None  # of the decision to replace, if there is one


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A decision that was recorded."""

    label: str
    answer: Answer
    note: str
    command: str  # what to type to resume the item
    unanswered: tuple[str, ...] = ()  # the numbers of the questions that stay open


def discussions(records: AllRecords) -> tuple[Discussion, ...]:
    """Every item waiting for a decision, the longest wait first."""
    asked = [
        Discussion(
            label=label_of(one), progress=one, decided=_as_one(one, _answers(one, said)), mock=world.mock
        )
        for world in (records.of(mock=False), records.of(mock=True))
        for said in [world.decisions()]
        for one in world.progress().values()
        if one.status == Status.DISCUSS
    ]
    return tuple(
        sorted(asked, key=lambda one: (one.progress.updated_at, one.progress.workflow, one.progress.item))
    )


def find_waiting(records: AllRecords, wanted: str) -> Discussion:
    """Find the one waiting item with this id, label or file; a real one before a mock one."""
    waits = discussions(records)
    meant = [one for one in waits if wanted == one.label]
    meant = meant or [one for one in waits if one.progress.item in ids_meant(wanted, one.progress.workflow)]
    meant = [one for one in meant if not one.mock] or meant
    if len(meant) == 1:
        return meant[0]
    if meant:
        labels = " or ".join(one.label for one in meant)
        raise UsageError(f"{wanted!r} could be {labels}. Use the full label.")
    *most, last = [one.label for one in waits] or ["no item"]
    waiting = f"{', '.join(most)} and {last} are" if most else f"{last} is"
    known = {
        label_of(one)
        for world in (records.of(mock=False), records.of(mock=True))
        for one in world.progress().values()
        if wanted == label_of(one) or one.item in ids_meant(wanted, one.workflow)
    }
    label = known.pop() if len(known) == 1 else None
    hint = (
        ""
        if label is None
        else f" To send it back, run 'agentos revise {shlex.quote(label)} --note \"...\"'."
    )
    raise NotWaitingError(f"{label or wanted} is not waiting for a decision; {waiting}.{hint}")


def answer_discussion(
    home: Home,
    wanted: str,
    *,
    answer: Answer,
    note: str,
    seen: ShownDiscussion | None = None,
    program: str = "agentos",
    settings: Settings | None = None,
) -> Answered:
    """Record a person's decision; refuse it if what they saw is out of date."""
    if not home.used:
        raise NotWaitingError("No runs here yet, so nothing is waiting for a decision.")
    with home.create().open_records() as records:
        discussion = find_waiting(records, wanted)
        found, label = discussion.progress, discussion.label
        if seen is not None and seen.reviews not in {None, found.reviews}:
            raise UsageError(f"{label} was reviewed again in the meantime. Read the new review first.")
        world = records.of(mock=discussion.mock)

        def there() -> list[Decision]:
            return _answers(found, world.decisions(found.workflow))

        def is_answered() -> bool:
            known = there()
            return seen is not None and bool(known) and known[-1].at != seen.decided_at

        asked, now = questions_of(found), timestamp()
        said = [
            Decision(question=question, text=text, answer=answer, reviews=found.reviews, by=person(), at=now)
            for question, text in answers_in(note, asked, to_all=True)
        ]
        if wrong := unknown_numbers(note, asked):
            raise UsageError(f"{label} has no question {wrong[0]}. Open: {in_one_line(asked)}")
        new = {text for one in said if one.words for text in one.questions}
        # Where only some questions are answered, the earlier answers to the others still count.
        others = (one for one in there() if one.answer == answer)
        said = [*(one for one in others if one.words and not new.issuperset(one.questions)), *said]
        if not world.decide(found.workflow, found.item, said, unless=is_answered):
            known = there()
            answered = f": {known[-1].answer}, by {known[-1].by}" if known else ""
            raise UsageError(
                f"{label} is already answered{answered}, so yours was not recorded. Read that answer first."
            )
    command = next_command(discussion, asked_by(home, discussion, program=program, settings=settings))
    done = {text for one in said if one.words for text in one.questions}
    left = tuple(f"Q{one.number}" for one in asked if one.number and one.text not in done)
    return Answered(label=label, answer=answer, note=note.strip(), command=command, unanswered=left)


def label_of(progress: Progress) -> str:
    """The label of an item, even if its workflow is no longer installed."""
    return label_for(progress.workflow, progress.item)


def label_for(workflow: str, item: str) -> str:
    return f"{_prefix(workflow)}-{item}"


def _prefix(workflow: str) -> str:
    return find_workflow(workflow).prefix if workflow in registered() else workflow.upper()


def ids_meant(wanted: str, workflow: str) -> tuple[str, ...]:
    known = find_workflow(workflow) if workflow in registered() else None
    return ids_named(wanted, _prefix(workflow), getattr(known, "id_of", str))


def asked_by(
    home: Home, discussion: Discussion, *, program: str = "agentos", settings: Settings | None = None
) -> RunAgain:
    """How to continue the run that asked; `program` includes the global flags."""
    run = home.runs / discussion.progress.run_id
    event = read(read_first_event(run))
    begun = event if isinstance(event, RunStarted) else None
    again = run_again(
        begun,
        read_summary(run),
        workflow=discussion.progress.workflow,
        mock=discussion.mock,
        start=program,
        settings=settings,
    )
    here = settings is None or settings.engine == "local"
    if home.elsewhere is not None and here and not again.has("--engine"):
        again = replace(again, flags=(*again.flags, "--engine postgres"))
    return again


def next_command(discussion: Discussion, again: RunAgain) -> str:
    """What to type to resume the item, as the run that asked would."""
    return again.command(shlex.quote(check_id(discussion.progress.item)))


def questions_of(progress: Progress) -> tuple[Question, ...]:
    """The questions that an item waits for; in an earlier version they had no numbers."""
    reason = progress.error or ""
    return questions_in(reason) or (Question(number=0, text=reason),) * bool(reason)


def _answers(progress: Progress, said: Mapping[tuple[str, str], Sequence[Decision]]) -> list[Decision]:
    """The answers to what an item waits for that no run has used."""
    mine = said.get((progress.workflow, progress.item), ())
    return [one for one in mine if one.answer and not one.used and one.reviews == progress.reviews]


def _as_one(progress: Progress, answers: Sequence[Decision]) -> Decision | None:
    """Answers that were given together, to show them."""
    if not answers:
        return None
    asked = questions_of(progress)
    numbers = {one.text: f"Q{one.number}: " for one in asked} if len(asked) > 1 else {}
    return replace(answers[-1], text="\n".join(numbers.get(one.question, "") + one.text for one in answers))


def person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
