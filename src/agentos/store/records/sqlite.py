"""The records in a SQLite database. Coordinator process.

Commands that only look open it read-only.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from agentos.store.home import Home
from agentos.store.records.database import Database
from agentos.store.records.sql_records import SqlRecords
from agentos.store.run_folder import is_live


class Records(SqlRecords):
    """Reads and writes the records of one home; a run is alive while its lock file is locked."""

    def __init__(
        self,
        path: Path,
        *,
        write: bool = True,
        mock: bool = False,
        alive: Callable[[str], bool] | None = None,
    ) -> None:
        self._file = Database(path, write=write)
        super().__init__(self._file, mock=mock, alive=alive or (lambda run: is_live(self.home.runs / run)))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def home(self) -> Home:
        """The home with the records and their locks."""
        return self._file.home
