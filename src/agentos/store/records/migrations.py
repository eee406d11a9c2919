"""The tables of the records: updates those of an earlier version, refuses those of others."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from agentos.store.home import Home, checkpoint_files
from agentos.store.records.statements import read_queries, read_script
from agentos.store.run_folder import was_mock

MIGRATIONS = (
    "001-records.sql",
    "002-spending.sql",
    "003-filing.sql",
    "004-source.sql",
    "005-models.sql",
    "006-mock.sql",
    "007-attempts.sql",
    "008-cached.sql",
    "009-approved-text.sql",
    "010-decisions.sql",
)


def migrate(db: sqlite3.Connection, home: Home, *, files: bool = True) -> None:
    """Bring the tables up to date, and the names of files that depend on rows."""
    version = check_schema(db)
    for number, name in enumerate(MIGRATIONS[version:], start=version + 1):
        _run_script(db, name)
        if name == "006-mock.sql":
            _mark_mock_rows(db, home)
            if files:
                _rename_mock_checkpoints(db, home)
        db.execute(f"PRAGMA user_version={number}")


def check_schema(db: sqlite3.Connection) -> int:
    """Check that the tables are exactly those of their version; return the version."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= len(MIGRATIONS):
        raise sqlite3.DatabaseError("they were written by a newer version of agentos; update agentos")
    check_tables(db, MIGRATIONS[:version])
    return int(version)


def check_tables(db: sqlite3.Connection, scripts: Sequence[str]) -> None:
    """Check that a database has exactly the tables that these scripts make.

    A trigger in somebody else's file would run with every row that is written.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as ours:
        for name in scripts:
            _run_script(ours, name)
        expected, found = _schema(ours), _schema(db)
    if odd := sorted(found.keys() ^ expected.keys()) or sorted(
        name for name in found if found[name] != expected[name]
    ):
        raise sqlite3.DatabaseError(f"{odd[0][0]} {odd[0][1]!r} is not as agentos creates it")


def _run_script(db: sqlite3.Connection, name: str) -> None:
    for statement in read_script(name):
        db.execute(statement)


def _schema(db: sqlite3.Connection) -> dict[tuple[str, str], list[Any]]:
    """Return everything in a database except rows, by kind and name, with the columns of tables."""
    kinds = db.execute("SELECT type, name FROM sqlite_schema").fetchall()
    columns = 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)'
    return {(kind, name): db.execute(columns, (name,)).fetchall() for kind, name in kinds}


def _mark_mock_rows(db: sqlite3.Connection, home: Home) -> None:
    """Mark the mock's rows: earlier versions did not, but their runs say which are the mock's."""
    queries = read_queries("migration")
    for (run,) in db.execute(queries["runs_with_rows"]).fetchall():
        if was_mock(home.runs / run):
            for name in ("mark_outcomes", "mark_progress", "mark_calls"):
                db.execute(queries[name], {"run_id": run})
    db.execute(queries["mark_decisions"])


def _rename_mock_checkpoints(db: sqlite3.Connection, home: Home) -> None:
    """Rename the checkpoints of the mock's unfinished items, so that they resume under the new names."""
    for workflow, item in db.execute(read_queries("migration")["unfinished_of_the_mock"]).fetchall():
        before = checkpoint_files(home.checkpoint(workflow, item))
        after = checkpoint_files(home.checkpoint(workflow, item, mock=True))
        for old, new in zip(before, after, strict=True):
            with suppress(OSError):
                home.tree.move(old, new)
