"""What `agentos doctor` and `agentos db upgrade` want to know about the server and our role on it."""

from dataclasses import dataclass

from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.records.statements import read_postgres_queries

# A worker does not need all rights on these: see docs/how-to/postgres.md, "Rights".
SUBMITTER_ONLY = frozenset(
    {
        "agentos_attempts",
        "agentos_claims",
        "agentos_filings",
        "agentos_notes",
        "agentos_outcomes",
        "agentos_paid_calls",
        "agentos_pool",
        "agentos_pool_keys",
        "agentos_pool_run",
        "agentos_pool_salt",
        "agentos_progress",
        "agentos_runs",
        "agentos_sources",
    }
)

_QUERIES = read_postgres_queries("database")


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """The server, and the role that we are on it."""

    version: str  # "15.4"
    number: int  # 150004
    encoding: str
    role: str
    superuser: bool
    clock: float  # seconds since 1970


def read_facts(database: PostgresDatabase) -> ServerFacts:
    (row,) = database.rows(_QUERIES["facts"], {})
    return ServerFacts(**row)


def missing_rights(database: PostgresDatabase) -> tuple[str, ...]:
    """Name the tables and sequences that our role cannot fully use."""
    return tuple(row["name"] for row in database.rows(_QUERIES["missing_rights"], {}))
