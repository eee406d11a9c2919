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
from agentos.store.records import database, memory, migrations, sqlite
from agentos.store.records.migrations import MIGRATIONS, migrate
from agentos.store.records.statements import read_queries

FILES = ("items", "spending", "filings", "migration")
POOL_FILE = "key-pool"


def test_every_file_is_read_and_every_statement_is_used() -> None:
    folder = resources("agentos.store").joinpath("sql")
    assert {one.name for one in folder.iterdir() if one.is_file()} == set(MIGRATIONS)
    queries = {one.name for one in folder.joinpath("queries").iterdir()}
    assert queries == {f"{name}.sql" for name in (*FILES, POOL_FILE)}
    source = "".join(inspect.getsource(module) for module in (sqlite, database, migrations))
    unused = {name for name in read_queries(*FILES) if f'"{name}"' not in source}
    assert unused == set()
    pool = inspect.getsource(key_pool.database)
    assert {name for name in read_queries(POOL_FILE) if f'"{name}"' not in pool} == set()
    assert {f"key-pool/{one.name}" for one in folder.joinpath("key-pool").iterdir()} == set(
        key_pool.database.MIGRATIONS
    )


@pytest.mark.parametrize("name", read_queries(*FILES))
def test_every_statement_fits_the_tables(name: str) -> None:
    sql = read_queries(*FILES)[name]
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, Home.__new__(Home), files=False)
        assert db.execute(f"EXPLAIN {sql}", values).fetchall()


def test_rows_and_the_memory_are_had_without_a_database() -> None:
    code = f"import sys, {memory.__name__}, agentos.coordinator.plan; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
