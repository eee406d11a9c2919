"""The SQL files: shipped, all used, all fit for the tables; and rows need no database."""

import inspect
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.resources import files as resources

import pytest

from agentos.store import key_pool
from agentos.store.home import Home
from agentos.store.postgres import facts, upgrade
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.records import database, memory, migrations, postgres, sql_records
from agentos.store.records.migrations import MIGRATIONS, migrate
from agentos.store.records.statements import read_postgres_queries, read_queries

FILES = ("items", "spending", "filings", "migration")
POOL_FILE = "key-pool"
POSTGRES_FILES = ("items", "spending", "filings")
POSTGRES_DATABASE_FILE = "database"


def test_every_file_is_read_and_every_statement_is_used() -> None:
    folder = resources("agentos.store").joinpath("sql")
    assert {one.name for one in folder.iterdir() if one.is_file()} == set(MIGRATIONS)
    queries = {one.name for one in folder.joinpath("queries").iterdir()}
    assert queries == {f"{name}.sql" for name in (*FILES, POOL_FILE)} | {
        f"postgres-{name}.sql" for name in (*POSTGRES_FILES, POSTGRES_DATABASE_FILE, "pool")
    }
    source = "".join(inspect.getsource(module) for module in (sql_records, database, migrations))
    unused = {name for name in read_queries(*FILES) if f'"{name}"' not in source}
    assert unused == set()
    pool = inspect.getsource(key_pool.database)
    assert {name for name in read_queries(POOL_FILE) if f'"{name}"' not in pool} == set()
    assert {f"key-pool/{one.name}" for one in folder.joinpath("key-pool").iterdir()} == set(
        key_pool.database.MIGRATIONS
    )


@pytest.mark.parametrize("name", read_queries(*FILES))
def test_every_statement_fits_the_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in read_queries("migration"):  # for the tables as they were
        monkeypatch.setattr(migrations, "MIGRATIONS", MIGRATIONS[: MIGRATIONS.index("006-mock.sql") + 1])
    sql = read_queries(*FILES)[name]
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, Home.__new__(Home), files=False)
        assert db.execute(f"EXPLAIN {sql}", values).fetchall()


def test_postgres_has_every_statement_and_all_are_used() -> None:
    same = read_queries(*POSTGRES_FILES).keys()
    own = read_postgres_queries(*POSTGRES_FILES).keys() - same
    assert not same - read_postgres_queries(*POSTGRES_FILES).keys()
    assert {name for name in own if f'"{name}"' not in inspect.getsource(postgres)} == set()
    source = inspect.getsource(upgrade) + inspect.getsource(facts)
    statements = read_postgres_queries(POSTGRES_DATABASE_FILE)
    assert {name for name in statements if f'"{name}"' not in source} == set()


def test_every_statement_of_postgres_is_about_one_project() -> None:
    for name, sql in read_postgres_queries(*POSTGRES_FILES).items():
        assert "%(project)s" in sql, name


def test_every_statement_fits_the_tables_of_postgres(prepared_postgres: str) -> None:
    with PostgresDatabase(prepared_postgres, application_name="test") as opened:
        for name, sql in read_postgres_queries(*POSTGRES_FILES, POSTGRES_DATABASE_FILE).items():
            values = dict.fromkeys(re.findall(r"%\((\w+)\)s", sql))
            assert opened.rows(f"EXPLAIN {sql}", values), name


def test_rows_and_the_memory_are_had_without_a_database() -> None:
    code = f"import sys, {memory.__name__}, agentos.coordinator.plan; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
