"""The tables of the records in memory."""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from agentos.decisions import Decision
from agentos.model import Item
from agentos.store.records.rows import Claim, Filing, FilingState, Outcome, Paid, Progress, item_key

K = TypeVar("K")


@dataclass(kw_only=True)
class RunRow:
    """A run, for its spending."""

    workflow: str
    continued_by: str | None = None
    finished: bool = False


@dataclass(kw_only=True)
class Tables:
    """Rows by their unique key; it begins with whether the row is the mock's, if the table has both kinds."""

    outcomes: dict[tuple[bool, str, str, str], Outcome] = field(default_factory=dict)
    progress: dict[tuple[bool, str, str], Progress] = field(default_factory=dict)
    decisions: dict[int, tuple[bool, str, str, Decision]] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)  # decisions that a document has
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    runs: dict[str, RunRow] = field(default_factory=dict)
    calls: dict[tuple[str, str, int], tuple[bool, Paid]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    filings: dict[tuple[str, str, str], Filing] = field(default_factory=dict)


def rehash_row(table: dict[K, Any], old: K, new: K, input_hash: str) -> None:
    """Give a row another hash, unless another row has it."""
    if old in table and new not in table:
        table[new] = replace(table.pop(old), input_hash=input_hash)


def new_filing(item: Item | Filing) -> Filing:
    workflow, name = item_key(item)
    return Filing(
        workflow=workflow,
        item=name,
        input_hash=item.input_hash,
        state=FilingState.WANTED,
        repository="",
        marker="",
        tries=0,
        attempted_at=None,
        number=None,
        url=None,
        error=None,
        updated_at="",
    )
