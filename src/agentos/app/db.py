"""Opens the PostgreSQL database that AGENTOS_DATABASE_URL names, and prepares it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentos.errors import ConfigError, StorageError
from agentos.secret import DATABASE_VARIABLE

if TYPE_CHECKING:
    from agentos.store.key_pool.postgres import PostgresPool
    from agentos.store.postgres.connection import PostgresDatabase

LIBRARIES = ("psycopg", "procrastinate", "langgraph-checkpoint-postgres")
INSTALL = "pip install 'agentos-workflows[postgres]'"


class MissingExtraError(ConfigError):
    """A library of the extra `postgres` is not installed."""


def check_extra() -> None:
    """Raise ConfigError, with one line for the user, if a library of the extra is not installed."""
    from importlib.metadata import version  # noqa: PLC0415 - takes 25 ms

    try:
        for name in LIBRARIES:
            version(name)
        import agentos.store.postgres.connection  # noqa: F401, PLC0415 - psycopg looks for its C library
    except ImportError as exc:  # also if a library has no metadata: it is not there
        raise MissingExtraError(f"Support for PostgreSQL is not installed; run: {INSTALL}") from exc


def open_database(environment: Mapping[str, str], *, application_name: str) -> "PostgresDatabase":
    """Connect to the database; raises ConfigError, with one line for the user, if that is not possible."""
    url = environment.get(DATABASE_VARIABLE, "").strip()
    if not url:
        raise ConfigError(
            f"{DATABASE_VARIABLE} is not set; export {DATABASE_VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    check_extra()
    from agentos.store.postgres.connection import PostgresDatabase  # noqa: PLC0415 - an extra

    database = PostgresDatabase(url, application_name=application_name)
    try:
        with database.transaction():
            pass
    except StorageError as exc:
        raise ConfigError(str(exc)) from exc
    return database


def open_prepared(environment: Mapping[str, str], *, application_name: str) -> "PostgresDatabase":
    """Connect to a database whose tables are those of this version; raises ConfigError otherwise."""
    database = open_database(environment, application_name=application_name)
    try:
        from agentos.store.postgres.upgrade import check_schema_state  # noqa: PLC0415 - an extra

        check_schema_state(database)
    except StorageError as exc:
        database.close()
        raise ConfigError(str(exc)) from exc
    except BaseException:
        database.close()
        raise
    return database


def open_pool(environment: Mapping[str, str]) -> "PostgresPool":
    """Open the state of the keys that machines share; raises ConfigError if that is not possible."""
    with open_prepared(environment, application_name="agentos keys") as database:
        from agentos.store.key_pool.postgres import PostgresPool  # noqa: PLC0415 - an extra

        try:
            return PostgresPool(database.address.url)
        except StorageError as exc:
            raise ConfigError(str(exc)) from exc


def upgrade_database(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Make or update the tables; return the name of the database and what was applied."""
    with open_database(environment, application_name="agentos db upgrade") as database:
        from agentos.store.postgres.upgrade import upgrade  # noqa: PLC0415 - an extra

        try:
            return database.name, upgrade(database)
        except StorageError as exc:
            raise ConfigError(str(exc)) from exc
