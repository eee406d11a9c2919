"""The methods of the records, by use: items and claims, spending, filings.

A write that ends or effects something takes a `Fence`. Once another run, or a later attempt, has the item,
the write is refused with a `Stale` and changes nothing. Two kinds of writes are never refused: people's
decisions and notes, and paid calls, because that money is spent whoever has the item (each call is recorded
once).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, Self

from agentos.decisions import Decision
from agentos.model import Item, Status
from agentos.store.records.rows import (
    Claim,
    Fence,
    Filing,
    FilingState,
    Outcome,
    Paid,
    Progress,
    Stale,
    Taken,
)


class ItemRecords(Protocol):
    """What is approved, in progress, decided, noted and claimed."""

    def outcomes(self, workflow: str) -> dict[str, Outcome]:
        """Return the latest approval of every item of a workflow, by id."""

    def progress(self, workflow: str | None = None) -> dict[tuple[str, str], Progress]:
        """Return the unfinished items, by workflow and id."""

    def begin(self, item: Item, fence: Fence, *, revise: bool = False) -> Stale | None:
        """Record that an attempt has begun; what is known from an earlier one on the same input is kept."""

    def at_node(self, item: Item, fence: Fence, node: str, reviews: int) -> Stale | None:
        """Record how far an item got."""

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
        text_hash: str = "",
        filing: FilingState | None = None,
    ) -> Stale | None:
        """Record how an item ended; an approval, once, also records its outcome and whether to file it."""

    def moved(self, item: Item, fence: Fence, output: str) -> Stale | None:
        """Record where an approved document is now."""

    def forget(self, item: Item, fence: Fence, *, filing: bool = True) -> Stale | None:
        """Forget that the item was ever run; what may be on GitHub is forgotten only if `filing` is set."""

    def drop_progress(self, workflow: str, item: str) -> Claim | None:
        """Forget how far an item got, unless a live run has it: then return its claim."""

    def rehash(self, item: Item) -> None:
        """Take over what an earlier version, whose hash included the stamp, recorded for this text."""

    def decisions(self, workflow: str | None = None) -> Mapping[tuple[str, str], tuple[Decision, ...]]:
        """Return what people said and no document has yet, by workflow and item, oldest first."""

    def decide(
        self,
        workflow: str,
        item: str,
        said: Iterable[Decision],
        *,
        unless: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Save what a person said; if `unless` holds at the moment of writing, save nothing and return False.

        An answer replaces an earlier one that no run has used.
        """

    def use_decisions(self, item: Item, fence: Fence, latest: int, *, kept: bool) -> Stale | None:
        """Record that the models got everything up to this id and, if `kept`, that the document has it."""

    def claims(self) -> dict[tuple[str, str], Claim]:
        """Return which run holds which item, by workflow and id; the run may be dead."""

    def holder(self, item: Item | Filing) -> Claim | None:
        """Return the claim on an item, if the run is alive."""

    def check(self, item: Item | Filing, fence: Fence) -> Stale | None:
        """Say whether a write would be refused; for changes to files rather than to records."""

    def claim(self, items: Iterable[Item | Filing], run_id: str) -> dict[str, Claim]:
        """Claim the items for a run; return those that another live run holds, by id. Removes dead claims."""

    def release(self, run_id: str) -> None:
        """Give up all claims of a run."""


class SpendingRecords(Protocol):
    """Runs and what they paid for; also where a workflow's items came from."""

    def begin_run(self, run_id: str, workflow: str, items: Iterable[str]) -> None:
        """Record a run, and that it continues the stopped runs that paid for its items."""

    def finish_run(self, run_id: str) -> str | None:
        """Record that a run finished by itself: the next one begins with a full budget.

        If another run has continued it, nothing is recorded and that run is returned.
        """

    def pay(self, paid: Paid) -> bool:
        """Record a paid call; False if it was recorded before."""

    def spent_before(self, workflow: str, run_id: str) -> dict[str, float]:
        """Return what the runs that a run continues have spent, by item."""

    def spent_on_items(self, workflow: str) -> dict[str, float]:
        """Return what each unfinished item has cost since it was begun."""

    def usual_outputs(self, workflow: str) -> dict[str, int]:
        """Return how many tokens a call of each role wrote on average."""

    def tokens_of_items(
        self, workflow: str, *, drafter: str | None, reviewer: str | None
    ) -> list[dict[str, Taken]]:
        """Return the tokens of each approved item that used only these two models, by role."""

    def source(self, workflow: str) -> str | None:
        """Return where the items of the workflow's last run came from."""

    def note_source(self, workflow: str, place: str) -> None:
        """Record where the items of a workflow come from."""


class FilingRecords(Protocol):
    """The filings of approved issues on GitHub."""

    def filing(self, item: Item) -> Filing | None:
        """Return the filing of the item with exactly this text."""

    def filings(self, workflow: str) -> dict[tuple[str, str], Filing]:
        """Return the filings of a workflow, by item id and input hash."""

    def unknown_filings(self) -> tuple[Filing, ...]:
        """List the attempts to file with an unknown result, of any item and text."""

    def latest_filing(self) -> str | None:
        """Return when something was last sent to GitHub from this home, or may have been."""

    def intend(self, item: Item, fence: Fence, *, repository: str, marker: str, at: str) -> Stale | None:
        """Record an attempt to file, before anything is sent; the record survives a power cut."""

    def filed(self, item: Item | Filing, fence: Fence, *, number: int, url: str) -> Stale | None:
        """Record that the issue is on GitHub; written once."""

    def not_there(self, row: Filing, fence: Fence, state: FilingState) -> Stale | None:
        """Record that an attempt certainly created no issue, and the new state of the filing."""

    def filing_failed(self, item: Item | Filing, fence: Fence, *, error: str, unknown: bool) -> Stale | None:
        """Record why an item is not filed; if `unknown` it stays intended, otherwise it is wanted again."""


class AllRecords(ItemRecords, SpendingRecords, FilingRecords, Protocol):
    """All records, either the real ones or the mock's. No row is in both."""

    @property
    def mock(self) -> bool:
        """Whether these are the mock's records."""

    def of(self, *, mock: bool) -> Self:
        """Return the mock's or the real records from the same store; close it only once."""
