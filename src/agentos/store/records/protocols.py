"""What the records offer, by who uses it: items and claims, spending, filings.

A write that ends or effects something takes a `Fence` and is refused with a `Stale` once another run, or a
later attempt, has the item: it changes nothing then. Two kinds of writes are never refused: what people
decide and say, and paid calls, for that money is spent whoever has the item (each is recorded once).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, Self

from agentos.model import Item, Status
from agentos.store.records.rows import (
    Claim,
    Decided,
    Fence,
    Filing,
    FilingState,
    Note,
    Outcome,
    Paid,
    Progress,
    Stale,
    Taken,
)


class ItemRecords(Protocol):
    """What is approved, under way, decided, said and held."""

    def outcomes(self, workflow: str) -> dict[str, Outcome]:
        """The latest approval of every item of a workflow, by id."""

    def progress(self, workflow: str | None = None) -> dict[tuple[str, str], Progress]:
        """Unfinished items, by workflow and id."""

    def begin(self, item: Item, fence: Fence, *, revise: bool = False) -> Stale | None:
        """Record that an attempt has begun; what is known of an earlier one on the same input is kept."""

    def at_node(self, item: Item, fence: Fence, node: str, reviews: int) -> Stale | None:
        """Record how far an item is."""

    def end(
        self,
        item: Item,
        fence: Fence,
        status: Status,
        *,
        verdict: str | None,
        reviews: int,
        output: str | None,
        error: str | None,
        filing: FilingState | None = None,
    ) -> Stale | None:
        """Record how an item ended; an approval becomes its outcome, once, and its wish to be filed too."""

    def moved(self, item: Item, fence: Fence, output: str) -> Stale | None:
        """Record where an approved document is now."""

    def forget(self, item: Item, fence: Fence, *, filing: bool = True) -> Stale | None:
        """Make the item as if it had never been run; what may be on GitHub only where that is meant."""

    def drop_progress(self, workflow: str, item: str) -> Claim | None:
        """Forget how far an item got, unless a living run has it: then give its claim."""

    def rehash(self, item: Item) -> None:
        """Take over what an earlier version recorded of this very text, whose hash counted its stamp."""

    def decision(self, item: Item, reviews: int) -> Decided | None:
        """A person's answer to the discussion after that many reviews."""

    def decide(self, decided: Decided, *, unless: Callable[[], bool] = lambda: False) -> bool:
        """Keep an answer; False where `unless` holds at the moment of writing, and nothing is kept."""

    def notes(self, workflow: str | None = None) -> Mapping[tuple[str, str], tuple[Note, ...]]:
        """What people said that no run has taken up yet, by workflow and item, in the order it was said."""

    def add_note(self, workflow: str, item: str, *, text: str, by: str) -> None:
        """Keep what a person said about an item."""

    def use_notes(self, item: Item, fence: Fence, notes: Iterable[Note]) -> Stale | None:
        """Record that a run has taken these to the models."""

    def claims(self) -> dict[tuple[str, str], Claim]:
        """Which run holds which item, by workflow and id; the run may be dead."""

    def holder(self, item: Item | Filing) -> Claim | None:
        """The claim on an item, if it is a living run's."""

    def check(self, item: Item | Filing, fence: Fence) -> Stale | None:
        """Tell whether a write would be refused; for what is done to files rather than to records."""

    def claim(self, items: Iterable[Item | Filing], run_id: str) -> dict[str, Claim]:
        """Take the items for a run; return those that another living run holds, by id. Dead claims go."""

    def release(self, run_id: str) -> None:
        """Give up all claims of a run."""


class SpendingRecords(Protocol):
    """Runs and what they paid for; also where the items of a workflow came from."""

    def begin_run(self, run_id: str, workflow: str, items: Iterable[str]) -> None:
        """Record a run, and that it continues those that were stopped while they paid for its items."""

    def finish_run(self, run_id: str) -> str | None:
        """Record that a run came to its own end: the next one begins with an untouched budget.

        If another run has continued it, nothing is recorded and that run is returned.
        """

    def pay(self, paid: Paid) -> bool:
        """Record a paid call; False if it was recorded before."""

    def spent_before(self, workflow: str, run_id: str) -> dict[str, float]:
        """What the runs that a run continues have spent, by item."""

    def spent_on_items(self, workflow: str) -> dict[str, float]:
        """What every unfinished item has cost since it was begun."""

    def usual_outputs(self, workflow: str) -> dict[str, int]:
        """How many tokens a call of each role wrote on average."""

    def tokens_of_items(
        self, workflow: str, *, drafter: str | None, reviewer: str | None
    ) -> list[dict[str, Taken]]:
        """What each approved item took that was made with these two models alone, by role."""

    def source(self, workflow: str) -> str | None:
        """Where the items of the workflow's last run came from."""

    def note_source(self, workflow: str, place: str) -> None:
        """Record where the items of a workflow come from."""


class FilingRecords(Protocol):
    """What becomes of approved issues on GitHub."""

    def filing(self, item: Item) -> Filing | None:
        """What became on GitHub of the item with exactly this text."""

    def filings(self, workflow: str) -> dict[tuple[str, str], Filing]:
        """The filings of a workflow, by item id and input hash."""

    def unknown_filings(self) -> tuple[Filing, ...]:
        """Attempts to file whose end is not known, of any item and text."""

    def latest_filing(self) -> str | None:
        """When something was last sent to GitHub from this home, or may have been."""

    def intend(self, item: Item, fence: Fence, *, repository: str, marker: str, at: str) -> Stale | None:
        """Record an attempt to file, before anything is sent; the record survives a power cut."""

    def filed(self, item: Item | Filing, fence: Fence, *, number: int, url: str) -> Stale | None:
        """Record that the issue is there; written once."""

    def not_there(self, row: Filing, fence: Fence, state: FilingState) -> Stale | None:
        """Record that an attempt surely made no issue, and what becomes of its document now."""

    def filing_failed(self, item: Item | Filing, fence: Fence, *, error: str, unknown: bool) -> Stale | None:
        """Record why an item is not filed; unknown, it stays intended, else it is wanted again."""


class AllRecords(ItemRecords, SpendingRecords, FilingRecords, Protocol):
    """The records of one world: the real one or the mock's. No row is seen in both."""

    @property
    def mock(self) -> bool:
        """Whether these are the mock's."""

    def of(self, *, mock: bool) -> Self:
        """The same records, of the mock or of the real world; to be closed only once."""
