"""The inbox: items waiting for a person's decision, and recording the answer. For command and page."""

import getpass
import shlex
from dataclasses import dataclass, replace
from typing import Literal

from agentos.errors import UsageError
from agentos.events.catalogue import RunStarted
from agentos.events.record import read
from agentos.model import Item, Status, check_id
from agentos.naming import ids_named
from agentos.report.run_again import RunAgain, run_again
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.store.records import Decided, Progress, timestamp
from agentos.store.records.protocols import AllRecords
from agentos.store.run_folder import read_first_event, read_summary
from agentos.workflows.registry import registered
from agentos.workflows.registry import workflow as find_workflow

Answer = Literal["approve", "revise"]


@dataclass(frozen=True, kw_only=True)
class Discussion:
    """An item waiting for a decision, and the decision if there is one that no run has used yet."""

    label: str
    progress: Progress
    decided: Decided | None
    mock: bool = False


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


@dataclass(frozen=True, kw_only=True)
class _KnownByHash(Item):
    """An item as the records know it: by the hash of its text, without the text."""

    hash: str

    @property
    def input_hash(self) -> str:
        return self.hash


def discussions(records: AllRecords) -> tuple[Discussion, ...]:
    """Every item waiting for a decision, the longest wait first."""
    asked = [
        Discussion(
            label=label_of(one),
            progress=one,
            decided=world.decision(_item(one), one.reviews),
            mock=world.mock,
        )
        for world in (records.of(mock=False), records.of(mock=True))
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
    raise UsageError(f"{label or wanted} is not waiting for a decision; {waiting}.{hint}")


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
        raise UsageError("No runs here yet, so nothing is waiting for a decision.")
    with home.create().open_records() as records:
        discussion = find_waiting(records, wanted)
        found, label = discussion.progress, discussion.label
        if seen is not None and seen.reviews not in {None, found.reviews}:
            raise UsageError(f"{label} was reviewed again in the meantime. Read the new review first.")
        world = records.of(mock=discussion.mock)

        def is_answered() -> bool:
            there = world.decision(_item(found), found.reviews)
            return seen is not None and there is not None and there.decided_at != seen.decided_at

        taken = world.decide(
            Decided(
                workflow=found.workflow,
                item=found.item,
                input_hash=found.input_hash,
                reviews=found.reviews,
                answer=answer,
                note=note.strip(),
                decided_by=person(),
                decided_at=timestamp(),
            ),
            unless=is_answered,
        )
        if not taken:
            there = world.decision(_item(found), found.reviews)
            answered = "" if there is None else f": {there.answer}, by {there.decided_by}"
            raise UsageError(
                f"{label} is already answered{answered}, so yours was not recorded. Read that answer first."
            )
    command = next_command(discussion, asked_by(home, discussion, program=program, settings=settings))
    return Answered(label=label, answer=answer, note=note.strip(), command=command)


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


def _item(progress: Progress) -> Item:
    return _KnownByHash(
        workflow=progress.workflow,
        id=progress.item,
        label=progress.item,
        title="",
        text="",
        source="",
        hash=progress.input_hash,
    )


def person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
