"""Notes: what a person says about an item at any time. The next run gives them to both models."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentos.app.inbox import ids_meant, person, questions_of
from agentos.decisions import Decision, Question, answers_in, in_one_line, questions_in, unknown_numbers
from agentos.errors import UsageError
from agentos.model import Item, Status
from agentos.naming import command_of, is_id
from agentos.store.documents import Author, Found, find_document
from agentos.store.home import Home
from agentos.store.lineage import Lineage
from agentos.store.records import FilingState, Outcome, Progress, timestamp
from agentos.store.records.protocols import AllRecords
from agentos.store.run_folder import last_review
from agentos.workflows.registry import registered
from agentos.workflows.registry import workflow as find_workflow

_DOTS = re.compile(r"\s*(?:Q\d{1,4}\s*:)?\s*(?:\.\.\.|\u2026)\s*")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An item that can be sent back: it has a document, or it was started in this home."""

    workflow: str
    item: str
    label: str
    mock: bool
    document: Found | None
    progress: Progress | None
    approved: Outcome | None  # the latest approval here

    @property
    def needs_note(self) -> bool:
        """Whether a note is required: there is nothing new to review unless somebody changed the document."""
        if self.document is None or self.document.author is not Author.OURS:
            return self.document is None
        return self.approved is None or self.approved.text_hash == self.document.text_hash

    @property
    def discussed(self) -> Progress | None:
        """Its progress, if it waits for a decision."""
        return self.progress if self.progress and self.progress.status == Status.DISCUSS else None

    @property
    def command(self) -> str:
        """The command that runs it, without `agentos`."""
        return f"{command_of(self.workflow)} {self.item}{' --mock' if self.mock else ''}"


def find_subject(home: Home, worktree: Path, folders: Mapping[str, str], wanted: str) -> Subject:
    """Find the one item with this id or label."""
    found: list[Subject] = []
    filed: list[str] = []
    prefixes = {find_workflow(name).prefix for name in registered()}
    with home.open_records(write=False) as records:
        for name in registered():
            flow = find_workflow(name)
            if any(wanted.startswith(f"{other}-") for other in prefixes - {flow.prefix}):
                continue  # the label of another workflow's item
            ids = [one for one in ids_meant(wanted, name) if is_id(one)]
            subjects = (_subject(records, worktree, folders, name, one) for one in ids)
            subject = next((one for one in subjects if one is not None), None)
            if subject is not None:
                found.append(subject)
            rows = records.filings(name).items()
            filed += [
                row.url or "" for (item, _), row in rows if item in ids and row.state is FilingState.FILED
            ]
    if len(found) == 1:
        return found[0]
    if found:
        labels = " or ".join(one.label for one in found)
        raise UsageError(f"{wanted!r} could be {labels}. Use the full label.")
    if filed:
        raise UsageError(f"{wanted!r} was filed as {filed[-1]}. Edit it there.")
    raise UsageError(
        f"{wanted!r} has no document and no unfinished work here, so there is nothing to send back."
        " See 'agentos status'."
    )


def _subject(
    records: AllRecords, worktree: Path, folders: Mapping[str, str], workflow: str, item_id: str
) -> Subject | None:
    flow = find_workflow(workflow)
    label = f"{flow.prefix}-{item_id}"
    item = Item(workflow=workflow, id=item_id, label=label, title="", text="", source="")
    target: Callable[[Item, Mapping[str, str]], Path] | None = getattr(flow, "target", None)
    document = None
    if target is not None:
        lineage = Lineage(worktree=worktree, folder=folders["lineage"], name=f"{item_id}-{workflow}")
        document = find_document(worktree, target(item, folders), label, lineage)
        if document is not None and document.author is Author.FOREIGN and workflow == "issue":
            document = None  # an issue written by a person is not the document of a brief
    real = records.progress(workflow).get((workflow, item_id))
    mocked = records.of(mock=True).progress(workflow).get((workflow, item_id))
    of_mock = document is not None and document.by_mock and document.author is Author.OURS
    if real is None and (document is None or of_mock):
        if mocked is None and document is None:
            return None
        return Subject(
            workflow=workflow,
            item=item_id,
            label=label,
            mock=True,
            document=document,
            progress=mocked,
            approved=records.of(mock=True).outcomes(workflow).get(item_id),
        )
    return Subject(
        workflow=workflow,
        item=item_id,
        label=label,
        mock=False,
        document=None if of_mock else document,
        progress=real,
        approved=records.outcomes(workflow).get(item_id),
    )


def pending_notes(home: Home, subject: Subject) -> frozenset[str]:
    """The notes about the item that no run has used yet."""
    with home.open_records(write=False, mock=subject.mock) as records:
        said = records.decisions(subject.workflow).get((subject.workflow, subject.item), ())
    return frozenset(one.text for one in said if not one.used)


def open_questions(home: Home, subject: Subject) -> tuple[Question, ...]:
    """What reviews asked about an item and nobody has answered."""
    if subject.discussed is not None:
        return questions_of(subject.discussed)
    if subject.progress is None:
        return () if subject.document is None else subject.document.end.questions
    asked = last_review(home, subject.workflow, subject.item).get("questions") or ()
    found = tuple(one for text in asked if isinstance(text, str) for one in questions_in(text))
    return found if asked or subject.document is None else subject.document.end.questions


def answer_question(home: Home, subject: Subject, note: str) -> None:
    """Record the answer to an open question of an item that does not wait for it."""
    asked = open_questions(home, subject)
    named = any(question for question, _ in answers_in(note, asked, to_all=False))
    if not named and (len(asked) > 1 or unknown_numbers(note, asked)):
        raise UsageError(
            f'{subject.label}: say which question you answer, such as --note "Q{asked[0].number}: ...".'
            f" Open: {in_one_line(asked)}"
        )
    send_back(home, subject, note, to_all=not named)


def check_note(note: str) -> None:
    """Refuse the dots of a suggested command: what a person says stays with the item."""
    if _DOTS.fullmatch(note):
        raise UsageError("Replace the dots with what you want to say.")


def send_back(home: Home, subject: Subject, note: str, *, to_all: bool = False) -> None:
    """Record a note; an empty one asks for a review of the document as the user edited it.

    `to_all`: it answers all open questions, unless it says which.
    """
    if not note.strip() and subject.needs_note:
        raise UsageError(
            f"{subject.label} is unchanged since agentos wrote it, so there is nothing new to review."
            " Edit its document first, or say what to change:"
            f" run 'agentos revise {subject.item} --note \"...\"'."
        )
    with home.create().open_records() as records:
        asked, now = open_questions(home, subject), timestamp()
        said = [
            Decision(question=question, text=text, by=person(), at=now)
            for question, text in answers_in(note, asked, to_all=to_all or subject.discussed is not None)
        ]
        records.of(mock=subject.mock).decide(subject.workflow, subject.item, said)


def kept(note: str) -> str:
    """What happens next with a note."""
    return (
        "note saved; both models get it in the next run"
        if note.strip()
        else "the next run reviews your edits"
    )
