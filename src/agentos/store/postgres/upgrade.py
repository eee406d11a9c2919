"""The tables of the database: made and updated by `agentos db upgrade`, checked by every other command.

Three parts, each with its own versions in the table agentos_schema:

- agentos: our migrations in sql/postgres/, by name.
- procrastinate: it keeps no version in the database. Its `schema.sql` is the newest state and its
  `sql/migrations/` lead there, named by the version they came with. A new database gets the former, and all
  migrations are recorded as applied. After an update of procrastinate, those not recorded are applied.
- checkpoints: the library keeps its own version table and its `setup` does what is missing. We record the
  version of the library that did, because comparing that needs no import of LangGraph.
"""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from importlib.metadata import PackagePath
from importlib.metadata import files as installed_files
from importlib.metadata import version as installed_version
from importlib.resources import files as resources

from agentos.errors import ConfigError, StorageBusy, StorageError
from agentos.store.postgres.connection import Connection, Cursor, PostgresDatabase
from agentos.store.postgres.facts import read_facts
from agentos.store.records.statements import read_postgres_queries

OLDEST_SERVER = 130_000  # PostgreSQL 13, as procrastinate needs
LOCK = 0x6167656E746F73  # "agentos"
LOCK_SECONDS = 300.0  # for the upgrade that another machine has begun
LOCK_PAUSE = 0.2
CHECKPOINTS = "langgraph-checkpoint-postgres"
UPGRADE = "agentos db upgrade"

_QUERIES = read_postgres_queries("database")


class SchemaState(Enum):
    """Whether this version of agentos can use the tables."""

    CURRENT = "current"  # as this version makes them
    OUTDATED = "outdated"  # of an earlier version: an upgrade is needed
    MISSING = "missing"  # there are none yet
    NEWER = "newer"  # of a later version: this one must not use them


def schema_state(database: PostgresDatabase) -> SchemaState:
    """Compare the tables with this version of agentos and the installed libraries."""
    if not _exists(database, "agentos_schema"):
        return SchemaState.MISSING
    ours, jobs = _applied(database, "agentos"), _applied(database, "procrastinate")
    checkpoints = _applied(database, "checkpoints")
    if ours - _ours() or jobs - _procrastinate().keys():
        return SchemaState.NEWER
    if _ours() - ours or _procrastinate().keys() - jobs or _checkpoints_older(checkpoints):
        return SchemaState.OUTDATED
    return SchemaState.CURRENT


def check_schema_state(database: PostgresDatabase) -> None:
    """Raise ConfigError unless the tables are those of this version."""
    if (state := schema_state(database)) is not SchemaState.CURRENT:
        raise ConfigError(explain(state, database.name))


def explain(state: SchemaState, name: str) -> str:
    """Say what is wrong with the tables, and what to type."""
    return {
        SchemaState.CURRENT: f"The database {name} is up to date.",
        SchemaState.MISSING: f"The database {name} is not prepared; run '{UPGRADE}'.",
        SchemaState.OUTDATED: f"The database {name} is of an earlier version; run '{UPGRADE}'.",
        SchemaState.NEWER: (
            f"The database {name} is of a later version of agentos or its libraries; update agentos."
        ),
    }[state]


def upgrade(database: PostgresDatabase) -> list[str]:
    """Make or update all tables; return what was applied. Several machines may do it at once.

    Raises ConfigError if that is not possible with this version, StorageError if the server refuses it.
    """
    try:
        with database.session() as session, _alone(database):
            session.execute("SET statement_timeout = 0")
            _check_server(database)
            if schema_state(database) is SchemaState.NEWER:
                raise ConfigError(explain(SchemaState.NEWER, database.name))
            return [
                *(f"agentos {name}" for name in _upgrade_ours(database)),
                *(f"procrastinate {name}" for name in _upgrade_procrastinate(database)),
                *(f"checkpoints {name}" for name in _upgrade_checkpoints(database, session)),
            ]
    finally:
        database.close()  # the next connection has the usual time limit again


@contextmanager
def _alone(database: PostgresDatabase) -> Iterator[None]:
    """Keep others from upgrading; the server ends this with the connection at the latest.

    It asks again and again instead of waiting inside a statement: the checkpoints' indexes are made
    CONCURRENTLY, which waits for all running statements, so the two would wait for each other.
    """
    end = time.monotonic() + LOCK_SECONDS
    while not database.rows(_QUERIES["try_lock"], {"key": LOCK})[0]["locked"]:
        if time.monotonic() > end:
            raise StorageBusy(f"Another upgrade of the database {database.name} is running. Try again later.")
        time.sleep(LOCK_PAUSE)
    try:
        yield
    finally:
        with suppress(StorageError):  # the connection is lost, and the lock with it
            database.rows(_QUERIES["unlock"], {"key": LOCK})


def _check_server(database: PostgresDatabase) -> None:
    facts = read_facts(database)
    if facts.number < OLDEST_SERVER:
        needed = f"{OLDEST_SERVER // 10_000} or later"
        raise ConfigError(
            f"The database {database.name} is PostgreSQL {facts.version}; agentos needs {needed}."
        )
    if facts.encoding != "UTF8":
        raise ConfigError(f"The database {database.name} is not in UTF-8. Create it with ENCODING 'UTF8'.")


# Our own tables.


def _ours() -> set[str]:
    entries = resources("agentos.store").joinpath("sql", "postgres").iterdir()
    return {entry.name.removesuffix(".sql") for entry in entries if entry.name.endswith(".sql")}


def _upgrade_ours(database: PostgresDatabase) -> Iterator[str]:
    applied = _applied(database, "agentos") if _exists(database, "agentos_schema") else set[str]()
    for name in sorted(_ours() - applied):
        with database.transaction() as cursor:
            entry = resources("agentos.store").joinpath("sql", "postgres", f"{name}.sql")
            _run_script(cursor, entry.read_text("utf-8"))
            _record(cursor, "agentos", name)
        yield name


# procrastinate's tables.


def _procrastinate() -> dict[str, PackagePath]:
    """The migrations that the installed procrastinate has, by name; found without importing it."""
    entries = installed_files("procrastinate") or []
    found = {entry.stem: entry for entry in entries if entry.match("procrastinate/sql/migrations/*.sql")}
    if not found:
        raise ConfigError("The migrations of procrastinate are not installed; install procrastinate again.")
    return found


def _upgrade_procrastinate(database: PostgresDatabase) -> Iterator[str]:
    migrations = _procrastinate()
    applied = _applied(database, "procrastinate")
    if not applied:
        _make_procrastinate(database, migrations)
        yield max(migrations)
        return
    for name in sorted(migrations.keys() - applied):
        with database.transaction() as cursor:
            entry = migrations[name]
            _run_script(cursor, entry.read_text("utf-8"))
            _record(cursor, "procrastinate", name)
        yield name


def _make_procrastinate(database: PostgresDatabase, migrations: Iterable[str]) -> None:
    from procrastinate.schema import SchemaManager  # noqa: PLC0415 - only a new database needs it

    with database.transaction() as cursor:
        if _exists(database, "procrastinate_jobs"):
            raise ConfigError(
                f"The database {database.name} already has procrastinate's tables, made by another program."
                " Use a database of its own."
            )
        _run_script(cursor, SchemaManager.get_schema())
        for name in migrations:
            _record(cursor, "procrastinate", name)


# The checkpoints' tables.


def _checkpoints_older(applied: set[str]) -> bool:
    """Whether no version as new as the installed one has set up the tables."""
    mine = _numbers(installed_version(CHECKPOINTS))
    return all(_numbers(one) < mine for one in applied)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _upgrade_checkpoints(database: PostgresDatabase, session: Connection) -> Iterator[str]:
    if not _checkpoints_older(_applied(database, "checkpoints")):
        return
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - imports LangChain

    PostgresSaver(session).setup()
    name = installed_version(CHECKPOINTS)
    with database.transaction() as cursor:
        _record(cursor, "checkpoints", name)
    yield name


# Shared by the parts.


def _exists(database: PostgresDatabase, table: str) -> bool:
    return bool(database.rows(_QUERIES["exists"], {"table": table})[0]["there"])


def _applied(database: PostgresDatabase, part: str) -> set[str]:
    return {row["version"] for row in database.rows(_QUERIES["applied"], {}) if row["part"] == part}


def _record(cursor: Cursor, part: str, version: str) -> None:
    cursor.execute(_QUERIES["record"], {"part": part, "version": version})


def _run_script(cursor: Cursor, script: str) -> None:
    """Run several statements; without parameters, psycopg sends them as they are, and % means nothing."""
    cursor.execute(script)
