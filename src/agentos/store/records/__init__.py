"""What agentos remembers about items: done, in progress, decided, spent, filed, claimed.

These are our own records: none of this is read from LangGraph's checkpoints.

`Records` keeps them in one small SQLite database per home, `PostgresRecords` in a PostgreSQL that machines
share, `MemoryRecords` in memory, for tests. All have the methods that `protocols` lists.
"""

from typing import TYPE_CHECKING, Any

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
    timestamp,
)

if TYPE_CHECKING:
    from agentos.store.records.sqlite import Records

__all__ = [
    "Claim",
    "Fence",
    "Filing",
    "FilingState",
    "Outcome",
    "Paid",
    "Progress",
    "Records",
    "Stale",
    "Taken",
    "timestamp",
]


def __getattr__(name: str) -> Any:
    """Load SQLite only for code that opens the records, not for code that uses a row."""
    if name == "Records":
        from agentos.store.records.sqlite import Records  # noqa: PLC0415

        return Records
    raise AttributeError(name)
