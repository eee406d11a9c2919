"""The rows of the records, as values, and the rule that decides who may write. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from agentos.errors import StorageError
from agentos.model import Item, Usage

MOST = 2**53  # the limit of every number


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An approved item."""

    workflow: str
    item: str
    input_hash: str
    run_id: str
    verdict: str | None
    reviews: int
    output: str | None
    finished_at: str
    text_hash: str = ""  # of the approved document; empty: recorded by a version without it


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far an unapproved item got."""

    workflow: str
    item: str
    input_hash: str
    run_id: str
    status: str  # a Status, or "running"
    node: str
    reviews: int
    error: str | None
    updated_at: str
    revise: int = 0  # 1: it began with the existing document
    attempt: int = 0  # of that run; 0: recorded by a version without attempts


@dataclass(frozen=True, kw_only=True)
class Paid:
    """A call that was answered, and so is paid for."""

    journal_id: str
    role: str
    number: int
    run_id: str
    workflow: str
    item: str
    tokens_in: int
    tokens_out: int
    usd: float | None  # None if no price is known
    counts: int = 1  # 0 once the item is finished or started over: its own budget begins again
    model: str | None = None  # the model asked for, as provider:model
    tokens_cached: int = 0  # the part of tokens_in that was read from a cache; 0 in rows of older versions
    tokens_cache_written: int = 0


@dataclass(frozen=True, kw_only=True)
class Taken(Usage):
    """What all calls of one role took for one item."""

    calls: int


class FilingState(StrEnum):
    """How far the filing of an approved issue got."""

    WANTED = "wanted"  # to be filed
    KEPT = "kept"  # approved while filing was off; stays a local file until it is named
    INTENDED = "intended"  # an attempt was begun, and its result is unknown
    FILED = "filed"  # on GitHub, with a number


@dataclass(frozen=True, kw_only=True)
class Filing:
    """The filing of an approved issue on GitHub."""

    workflow: str
    item: str
    input_hash: str
    state: FilingState
    repository: str  # the address it was sent to
    marker: str  # the hidden line in its body; the same from the first attempt on
    tries: int
    attempted_at: str | None  # the first attempt with this marker
    number: int | None
    url: str | None
    error: str | None
    updated_at: str  # while intended: the latest attempt


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A run's hold on an item."""

    workflow: str
    item: str
    run_id: str
    pid: int  # shown to people; only `run_folder.is_live` knows whether the run is alive
    since: str
    attempt: int = 0  # the latest attempt that the run has begun; 0: none
    host: str = ""  # the machine of the run; empty: only one machine has these records

    @property
    def run(self) -> str:
        """Its run, for people."""
        return f"run {self.run_id} on {self.host}" if self.host else f"run {self.run_id}"


@dataclass(frozen=True, kw_only=True)
class Stale:
    """A write was refused and changed nothing: the writer no longer has the item."""

    fence: "Fence"
    holder: Claim | None  # who has it now

    def __str__(self) -> str:
        if self.holder is None:
            return "this run no longer has the item"
        if self.holder.run_id == self.fence.run_id:
            return f"attempt {self.holder.attempt} of this run has the item now"
        return f"{self.holder.run} has the item now"


@dataclass(frozen=True, kw_only=True)
class Fence:
    """Who writes about an item: a run and its attempt. The attempt only grows; it is 0 before the first."""

    run_id: str
    attempt: int

    def check(self, holder: Claim | None) -> Stale | None:
        """Refuse unless this run holds the item and no later attempt has begun."""
        if holder is not None and holder.run_id == self.run_id and holder.attempt <= self.attempt:
            return None
        return Stale(fence=self, holder=holder)


def item_key(one: Item | Filing) -> tuple[str, str]:
    """Return what a claim is on: an item, whatever its text."""
    return one.workflow, one.item if isinstance(one, Filing) else one.id


def tokens_by_role(
    calls: Iterable[Paid], *, drafter: str | None, reviewer: str | None
) -> list[dict[str, Taken]]:
    """Return the tokens of each item that used only these two models, by role; calls are in order."""
    by_item: dict[str, list[Paid]] = {}
    for call in calls:
        by_item.setdefault(call.item, []).append(call)
    found: list[dict[str, Taken]] = []
    for mine in map(_last_journal, by_item.values()):
        # A call from before models were recorded has none, and so matches nothing.
        asked = {call.model or "" for call in mine if call.role != "drafter"}
        drafted = {call.model or "" for call in mine if call.role == "drafter"}
        if asked <= {reviewer} and drafted <= {drafter} and mine:
            found.append({role: _taken(mine, role) for role in {call.role for call in mine}})
    return found


def _last_journal(calls: list[Paid]) -> list[Paid]:
    """Return the calls of an item's latest start, in order, and those paid for that failed (number 0)."""
    journals = [call.journal_id for call in calls if call.number]
    runs = {call.run_id for call in calls if journals and call.journal_id == journals[-1]}
    return [
        call for call in calls if call.run_id in runs and (call.journal_id == journals[-1] or not call.number)
    ]


def _taken(calls: list[Paid], role: str) -> Taken:
    mine = [call for call in calls if call.role == role]
    return Taken(
        calls=len(mine),
        tokens_in=sum(call.tokens_in for call in mine),
        tokens_out=sum(call.tokens_out for call in mine),
        tokens_cached=sum(call.tokens_cached for call in mine),
        tokens_cache_written=sum(call.tokens_cache_written for call in mine),
    )


def check_numbers(rows: Iterable[Mapping[str, Any]], place: str) -> None:
    """Raise StorageError for an impossible number. No count is negative: a budget would grow by it."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, int | float) and not 0 <= value < MOST:
                raise StorageError(f"The records in {place} contain an invalid value: {name} is {value}.")


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
