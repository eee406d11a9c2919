"""Decides from our own records whether an item starts, goes on, starts anew or is passed by. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentos.model import Item, Status
from agentos.store.records import Decided, Filing, FilingState, Outcome, Progress

RETRIED = frozenset({Status.FAILED, Status.TIMED_OUT, Status.NEEDS_REVISION})


class Step(StrEnum):
    """What a run does with an item."""

    START = "start"  # from the beginning; nothing of it is there
    RESUME = "resume"  # from its checkpoint
    ANEW = "anew"  # from the beginning; what is there is set aside
    SKIP = "skip"  # nothing to do
    FILE = "file"  # approved before; only to be filed
    WAIT = "wait"  # a person must decide first
    REFUSE = "refuse"  # it cannot be processed


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One item with what is to be done and why."""

    item: Item
    step: Step
    reason: str = ""
    node: str = ""  # where it stopped
    reviews: int = 0
    outcome: Outcome | None = None
    decided: Decided | None = None
    filing: str | None = None  # of one that is passed by though its filing is not finished: wanted, unknown

    @property
    def acts(self) -> bool:
        """Something is done with it, so that no other run may have it."""
        return self.runs or self.step is Step.FILE

    @property
    def runs(self) -> bool:
        return self.step in {Step.START, Step.RESUME, Step.ANEW}


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the records say of one item."""

    outcome: Outcome | None = None  # the latest approval, of whatever text
    filing: Filing | None = None  # what became of its document on GitHub
    progress: Progress | None = None
    decided: Decided | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which of the items found are wanted."""

    fresh: bool = False
    only_failed: bool = False
    filing: bool = False  # approved documents are filed in this run
    no_file: bool = False  # the user does not want them filed
    named: bool = False  # the items were named one by one
    limit: int | None = None


def make_plan(items: Sequence[Item], known: Mapping[str, Known], choice: Choice) -> tuple[Entry, ...]:
    """Go through the items in order; the limit counts those that run."""
    entries: list[Entry] = []
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


def _entry(item: Item, known: Known, choice: Choice) -> Entry | None:  # noqa: PLR0911 - a table of cases
    progress, outcome = known.progress, known.outcome
    if choice.only_failed and (progress is None or progress.status not in RETRIED):
        return None
    if item.problem is not None:
        return Entry(item=item, step=Step.REFUSE, reason=item.problem)
    if choice.fresh:
        seen = outcome is not None or progress is not None
        return Entry(item=item, step=Step.ANEW if seen else Step.START, reason="--fresh" if seen else "")
    if outcome is not None and progress is None and outcome.input_hash != item.input_hash:
        return Entry(item=item, step=Step.ANEW, reason="its text changed since")
    if outcome is not None and outcome.input_hash == item.input_hash:
        return _approved(item, outcome, known.filing, choice)
    if progress is None:
        return Entry(item=item, step=Step.START)
    if progress.input_hash != item.input_hash:
        return Entry(item=item, step=Step.ANEW, reason="its text changed since")
    told = {"item": item, "node": progress.node, "reviews": progress.reviews}
    if progress.status == Status.DISCUSS and known.decided is None:
        return Entry(step=Step.WAIT, reason=progress.error or "a person must decide", **told)  # type: ignore[arg-type]
    reason = "decided" if progress.status == Status.DISCUSS else f"{progress.status.replace('_', ' ')} before"
    if progress.status == "running":
        reason = "cut off before"
    return Entry(step=Step.RESUME, reason=reason, decided=known.decided, **told)  # type: ignore[arg-type]


def _approved(item: Item, outcome: Outcome, filing: Filing | None, choice: Choice) -> Entry:
    """Nothing is left to do, unless its document still waits to be filed."""
    unfinished: str | None = None
    if filing is None:
        reason, left = f"approved in run {outcome.run_id}, unchanged since", False
    elif filing.state is FilingState.FILED:
        # Where the outcome does not know it, the run was killed before it took the local file away.
        reason, left = f"filed as {filing.url}, unchanged since", outcome.output != filing.url
    elif filing.state is FilingState.INTENDED and not choice.filing:
        reason, left = f"approved in run {outcome.run_id}, whether it was filed is not known", False
        unfinished = "unknown"
    else:
        reason = f"approved in run {outcome.run_id}, not filed"
        left = filing.state is not FilingState.KEPT or choice.named
        if filing.state is FilingState.WANTED and not choice.filing and not choice.no_file:
            unfinished = "wanted"
    step = Step.FILE if left and choice.filing else Step.SKIP
    return Entry(item=item, step=step, reason=reason, outcome=outcome, filing=unfinished)
