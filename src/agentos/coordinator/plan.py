"""Decides from documents and records whether an item starts, resumes, is revised or is skipped. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from agentos.decisions import Decision
from agentos.model import Item, Status, counted
from agentos.stamp import Stamp
from agentos.store.documents import Author, Found
from agentos.store.records import Filing, FilingState, Outcome, Progress

STAMPED = "stamped: "  # begins the reason of an item whose document is approved
_ALREADY_APPROVED = "already approved"
_FILED = "already filed"
RETRIED = frozenset({Status.FAILED, Status.TIMED_OUT, Status.NEEDS_REVISION})


class PlanAction(StrEnum):
    """What a run does with an item."""

    START = "start"  # from the beginning; nothing exists yet
    RESUME = "resume"  # from its checkpoint
    START_OVER = "anew"  # from the beginning; what exists is set aside
    REVISE = "revise"  # from the existing document
    SKIP = "skip"  # nothing to do
    FILE = "file"  # approved before; only file it
    WAIT = "wait"  # a person must decide first
    REFUSE = "refuse"  # it cannot run


@dataclass(frozen=True, kw_only=True)
class PlannedItem:
    """One item, what to do with it, and why."""

    item: Item
    step: PlanAction
    reason: str = ""
    shared_reason: str = ""  # of a skipped item that nobody named, in words that fit several items
    node: str = ""  # where it stopped
    ended: str = ""  # the status that it stopped with
    reviews: int = 0
    outcome: Outcome | None = None
    filing: str | None = None  # of a skipped item whose filing is not finished: wanted, unknown
    decisions: tuple[Decision, ...] = ()  # of people, for the models
    document: str | None = None  # the existing document, relative to the worktree
    trail: str = ""  # the item's folder in the lineage, if not the usual one
    begun_to_revise: bool = False

    @property
    def revises(self) -> bool:
        """Its first draft revises the existing document; also if an interrupted run had begun that way."""
        return self.step is PlanAction.REVISE or (self.step is PlanAction.RESUME and self.begun_to_revise)

    @property
    def acts(self) -> bool:
        """Something is done with it, so no other run may take it."""
        return self.runs or self.step is PlanAction.FILE

    @property
    def runs(self) -> bool:
        return self.step in {PlanAction.START, PlanAction.RESUME, PlanAction.START_OVER, PlanAction.REVISE}


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known about one item."""

    outcome: Outcome | None = None  # the latest approval, of any text
    filing: Filing | None = None  # whether its document is on GitHub
    progress: Progress | None = None
    decisions: tuple[Decision, ...] = ()  # of people, that no document has yet
    written: bool = False  # its workflow writes a document into the worktree; that document decides
    document: Found | None = None  # the existing one
    receipt: Stamp | None = None  # where exactly this text was filed, by anyone
    trail: str = ""

    @property
    def unused(self) -> tuple[Decision, ...]:
        """What no run has given to the models yet."""
        return tuple(one for one in self.decisions if not one.used)

    @property
    def said(self) -> str:
        """The same in words: `1 note`, `your edits`."""
        notes = [one for one in self.unused if one.text.strip() and not one.answer]
        asked = any(one.asks_review for one in self.unused)
        words = [counted(len(notes), "note")] * bool(notes) + ["your edits"] * asked
        return " and ".join(words)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which of the found items to take, and how."""

    fresh: bool = False
    mock: bool = False
    only_failed: bool = False
    filing: bool = False  # approved documents are filed in this run
    no_file: bool = False  # the user does not want them filed
    named: bool = False  # the items were named one by one
    limit: int | None = None


def shared_reasons(entries: Iterable[PlannedItem]) -> dict[str, int]:
    """The reasons for which several items are skipped, and how many."""
    counts = Counter(
        one.shared_reason for one in entries if one.step is PlanAction.SKIP and one.shared_reason
    )
    return {reason: count for reason, count in counts.items() if count > 1}


def make_plan(items: Sequence[Item], known: Mapping[str, Known], choice: Choice) -> tuple[PlannedItem, ...]:
    """Go through the items in order. The limit counts the items that run."""
    entries: list[PlannedItem] = []
    left = choice.limit
    for item in items:
        entry = _entry(item, known.get(item.id, Known()), choice)
        if entry is None:
            continue
        if entry.runs and left is not None:
            if left == 0:
                continue
            left -= 1
        entries.append(entry)
    return tuple(entries)


def _entry(item: Item, known: Known, choice: Choice) -> PlannedItem | None:
    progress = known.progress
    if choice.only_failed and (progress is None or progress.status not in RETRIED):
        return None
    entry = _refused(item, known, choice) or _fresh(item, known, choice) or _under_way(item, known)
    entry = entry or _by_document(item, known, choice)
    document = known.document
    return replace(
        entry,
        shared_reason="" if choice.named else entry.shared_reason,
        decisions=known.decisions if entry.runs else (),
        trail=known.trail,
        document=None if document is None else document.path,
    )


def _refused(item: Item, known: Known, choice: Choice) -> PlannedItem | None:
    """An item that is not touched, whatever else is known about it."""
    document = known.document
    if item.problem is not None:
        return PlannedItem(item=item, step=PlanAction.REFUSE, reason=item.problem)
    if item.by_mock and not choice.mock:
        return PlannedItem(
            item=item,
            step=PlanAction.SKIP,
            reason=f"the mock wrote {item.source}; edit it if you want to use it",
            shared_reason="the mock wrote them",
        )
    if document is None:
        return None
    if choice.mock and not (document.by_mock and document.author is Author.OURS):
        why = "was edited by a person" if document.by_mock else "was not written by the mock"
        return PlannedItem(
            item=item,
            step=PlanAction.SKIP,
            reason=f"{document.path} {why}",
            shared_reason=f"their document {why}",
        )
    under_way = known.progress is not None and item.is_input(known.progress.input_hash)
    if document.author is Author.FOREIGN and not known.unused and not under_way:
        reason = (
            f"{document.path} exists and was not written by agentos;"
            f" run 'agentos revise {item.label}' to start from it"
        )
        return PlannedItem(
            item=item,
            step=PlanAction.REFUSE if choice.named else PlanAction.SKIP,
            reason=reason,
            shared_reason="their document was not written by agentos",
        )
    return None


def _fresh(item: Item, known: Known, choice: Choice) -> PlannedItem | None:
    if not choice.fresh:
        return None
    seen = known.outcome is not None or known.progress is not None or known.document is not None
    return PlannedItem(
        item=item, step=PlanAction.START_OVER if seen else PlanAction.START, reason="--fresh" if seen else ""
    )


def _under_way(item: Item, known: Known) -> PlannedItem | None:
    """An item that was begun here and not finished resumes, if its text is the same."""
    progress = known.progress
    if progress is None or not item.is_input(progress.input_hash):
        return None
    common = {"item": item, "node": progress.node, "ended": progress.status, "reviews": progress.reviews}
    discussed = progress.status == Status.DISCUSS
    # An answer counts for the discussion that it answers.
    said = [one for one in known.unused if not one.answer or one.reviews == progress.reviews]
    if discussed and not said:
        return PlannedItem(step=PlanAction.WAIT, reason=progress.error or "a person must decide", **common)  # type: ignore[arg-type]
    answers = [one.answer for one in said if one.answer] if discussed else []
    decided = "approved by a person" if answers[-1:] == ["approve"] else "decided" if answers else ""
    reason = decided or f"{_ended(progress.status)} before"
    if known.said:
        reason = f"{reason}, with {known.said}"
    return PlannedItem(
        step=PlanAction.RESUME,
        reason=reason,
        begun_to_revise=bool(progress.revise),
        **common,  # type: ignore[arg-type]
    )


def _ended(status: str) -> str:
    """How the last run of an unfinished item ended, in words."""
    words = {
        "running": "cut off",
        Status.NEEDS_REVISION: "needed revision",
        Status.DISCUSS: "needed a decision",
    }
    return words.get(status, status.replace("_", " "))


def _by_document(item: Item, known: Known, choice: Choice) -> PlannedItem:
    """The existing document decides; records count only if the workflow writes no document."""
    outcome, filing = known.outcome, known.filing
    approved = outcome if outcome is not None and item.is_input(outcome.input_hash) else None
    sent = filing is not None and filing.state in {FilingState.FILED, FilingState.INTENDED}
    if approved is not None and (sent or not known.written):
        return _approved(item, approved, filing, choice)
    if known.receipt is not None:
        return PlannedItem(
            item=item,
            step=PlanAction.SKIP,
            reason=f"filed as {known.receipt.filed}, unchanged since",
            shared_reason=_FILED,
        )
    if known.document is not None:
        return _with_document(item, known.document, approved, known, choice)
    if approved is not None:
        return PlannedItem(item=item, step=PlanAction.START_OVER, reason="its document is missing")
    if outcome is not None or known.progress is not None:
        return PlannedItem(item=item, step=PlanAction.START_OVER, reason="its text has changed")
    return PlannedItem(item=item, step=PlanAction.START)


def _with_document(  # noqa: PLR0911 - a table of cases
    item: Item, document: Found, approved: Outcome | None, known: Known, choice: Choice
) -> PlannedItem:
    edited = document.author is not Author.OURS
    if known.unused:
        return PlannedItem(item=item, step=PlanAction.REVISE, reason=known.said or "decided")
    if document.by_mock and not choice.mock:
        if edited:
            return PlannedItem(
                item=item, step=PlanAction.REVISE, reason=f"{document.path} was edited by a person"
            )
        return PlannedItem(item=item, step=PlanAction.START, reason="replacing the mock's document")
    if document.stamp is None or not item.is_input(document.stamp.input):
        return PlannedItem(item=item, step=PlanAction.REVISE, reason="its text has changed")
    here = approved is not None and approved.text_hash in {"", document.stamp.text}
    if approved is not None and known.filing is not None:
        entry = _approved(item, approved, known.filing, choice)
        if not edited and approved.text_hash == document.text_hash:
            return entry
        if entry.step is PlanAction.FILE or entry.filing is not None:
            reason = edited_since(document.path, item)
            return replace(entry, step=PlanAction.SKIP, reason=reason, filing="wanted")
    return PlannedItem(
        item=item,
        step=PlanAction.SKIP,
        reason=f"{STAMPED}{document.path}" + (", edited" if edited else ""),
        shared_reason=approval_in_words(approved.verdict if approved is not None and here else None),
        outcome=approved if here else None,
    )


def approval_in_words(verdict: str | None) -> str:
    """What a stamp says: anyone can write one, so it counts as an approval only if it is recorded here."""
    return _ALREADY_APPROVED if verdict is not None else "stamped elsewhere"


def edited_since(path: str | None, item: Item) -> str:
    return f"{path} was edited after its approval; run 'agentos revise {item.id}' to have it reviewed"


def _approved(item: Item, outcome: Outcome, filing: Filing | None, choice: Choice) -> PlannedItem:
    """Nothing is left to do, unless its document must still be filed."""
    unfinished: str | None = None
    shared = ""
    if filing is None:
        shared = _ALREADY_APPROVED
        reason, left = f"approved in run {outcome.run_id}, unchanged since", False
    elif filing.state is FilingState.FILED:
        shared = _FILED
        # If the outcome does not know it, the run was killed before it removed the local file.
        reason, left = f"filed as {filing.url}, unchanged since", outcome.output != filing.url
    elif filing.state is FilingState.INTENDED and not choice.filing:
        reason, left = f"approved in run {outcome.run_id}, may already be filed", False
        unfinished = "unknown"
    else:
        reason = f"approved in run {outcome.run_id}, not filed"
        left = filing.state is not FilingState.KEPT or choice.named
        if filing.state is FilingState.WANTED and not choice.filing and not choice.no_file:
            unfinished = "wanted"
    step = PlanAction.FILE if left and choice.filing else PlanAction.SKIP
    return PlannedItem(
        item=item, step=step, reason=reason, shared_reason=shared, outcome=outcome, filing=unfinished
    )
