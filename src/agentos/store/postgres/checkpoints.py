"""Where the checkpoints of items are, if their workers are on other machines: in the database, by thread."""

from dataclasses import dataclass

from agentos.model import Item
from agentos.store.postgres.connection import PostgresDatabase

_STATE = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_JOURNAL = ("agentos_calls", "agentos_journals")


@dataclass(frozen=True, kw_only=True)
class PostgresCheckpoints:
    """The states of one project's items."""

    database: PostgresDatabase
    project: str
    mock: bool

    def place(self, item: Item) -> str:
        return f"{self.project}/{item.workflow}/{item.id}{'.mock' if self.mock else ''}"

    def drop(self, item: Item) -> None:
        """Remove state, journal and the files that are in place. Attempts of the item are over by now."""
        thread = self.place(item)

        def drop() -> None:
            with self.database.transaction() as cursor:
                for table in _STATE:
                    cursor.execute(f"DELETE FROM {table} WHERE thread_id = %s", (thread,))  # noqa: S608 - fixed
                for table in _JOURNAL:
                    cursor.execute(f"DELETE FROM {table} WHERE thread = %s", (thread,))  # noqa: S608
                cursor.execute(
                    "DELETE FROM agentos_files WHERE project = %s AND workflow = %s AND item = %s AND placed",
                    (self.project, item.workflow, item.id),
                )

        self.database.patiently(drop)

    def existing(self, item: Item) -> str | None:
        thread = self.place(item)

        def find() -> str | None:
            with self.database.transaction() as cursor:
                cursor.execute("SELECT 1 FROM checkpoints WHERE thread_id = %s LIMIT 1", (thread,))
                return thread if cursor.fetchone() is not None else None

        return self.database.patiently(find)
