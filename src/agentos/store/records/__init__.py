"""Our own records of what is done, under way, decided, spent, filed and held; LangGraph is never asked.

`Records` keeps them in one small SQLite database per home, `MemoryRecords` in memory, for tests. Both offer
what `protocols` lists, by who uses it.
"""

from typing import TYPE_CHECKING, Any

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
    timestamp,
)

if TYPE_CHECKING:
    from agentos.store.records.sqlite import Records

__all__ = [
    "Claim",
    "Decided",
    "Fence",
    "Filing",
    "FilingState",
    "Note",
    "Outcome",
    "Paid",
    "Progress",
    "Records",
    "Stale",
    "Taken",
    "timestamp",
]


def __getattr__(name: str) -> Any:
    """Load SQLite only for those who open the records, not for those who use a row value."""
    if name == "Records":
        from agentos.store.records.sqlite import Records  # noqa: PLC0415

        return Records
    raise AttributeError(name)
