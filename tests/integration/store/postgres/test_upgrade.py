"""The tables of a real database: made, updated, compared; also by two at once."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from agentos.errors import ConfigError
from agentos.store.postgres import upgrade as upgrades
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.postgres.upgrade import SchemaState, check_schema_state, schema_state, upgrade
from harness.records import AT, item, open_postgres_records, said

SCRIPTS = upgrades._ours()


def _open(url: str) -> PostgresDatabase:
    return PostgresDatabase(url, application_name="test")


def _change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _upgrade(url: str) -> list[str]:
    with _open(url) as database:
        return upgrade(database)


def test_an_empty_database_is_prepared_once(postgres_url: str) -> None:
    with _open(postgres_url) as database:
        assert schema_state(database) is SchemaState.MISSING
        with pytest.raises(ConfigError, match="is not prepared; run 'agentos db upgrade'"):
            check_schema_state(database)
        done = upgrade(database)
        parts = dict.fromkeys(one.split()[0] for one in done)
        assert list(parts) == ["agentos", "procrastinate", "checkpoints"]
        assert schema_state(database) is SchemaState.CURRENT
        check_schema_state(database)
        assert upgrade(database) == []
        with database.transaction() as cursor:
            cursor.execute("SELECT FROM procrastinate_jobs, checkpoints, agentos_schema")
            assert cursor.execute("SHOW statement_timeout").fetchone() == {"statement_timeout": "30s"}


def test_two_upgrades_at_once_do_everything_once(postgres_url: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(_upgrade, [postgres_url] * 3))
    assert sorted(map(bool, done)) == [False, False, True]
    with _open(postgres_url) as database:
        assert schema_state(database) is SchemaState.CURRENT


def test_missing_migrations_are_applied(postgres_url: str) -> None:
    _upgrade(postgres_url)
    # As if procrastinate had been updated: its last migrations can be repeated.
    last = "03.03.00_01_pre_priority_lock_fetch_job"
    _change(postgres_url, f"DELETE FROM agentos_schema WHERE version = '{last}'")
    _change(postgres_url, "UPDATE agentos_schema SET version = '3.0.0' WHERE part = 'checkpoints'")
    with _open(postgres_url) as database:
        assert schema_state(database) is SchemaState.OUTDATED
        with pytest.raises(ConfigError, match="earlier version; run 'agentos db upgrade'"):
            check_schema_state(database)
        done = upgrade(database)
        assert done[0] == f"procrastinate {last}"
        assert done[1].startswith("checkpoints ")
        assert schema_state(database) is SchemaState.CURRENT


@pytest.mark.parametrize("part", ["agentos", "procrastinate"])
def test_tables_of_a_later_version_are_left_alone(postgres_url: str, part: str) -> None:
    _upgrade(postgres_url)
    _change(postgres_url, f"INSERT INTO agentos_schema (part, version) VALUES ('{part}', '999-later')")
    with _open(postgres_url) as database:
        assert schema_state(database) is SchemaState.NEWER
        for action in (check_schema_state, upgrade):
            with pytest.raises(ConfigError, match="later version"):
                action(database)


def test_a_queue_of_another_program_is_left_alone(postgres_url: str) -> None:
    _change(postgres_url, "CREATE TABLE procrastinate_jobs (id INT)")
    with pytest.raises(ConfigError, match="made by another program"):
        _upgrade(postgres_url)


def test_old_answers_and_notes_become_decisions(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "_ours", lambda: SCRIPTS - {"005-decisions"})
    _upgrade(postgres_url)
    about = f"'p', 'lld', '42', '{item().input_hash}'"
    for reviews, answer, text in ((1, "revise", "used"), (2, "revise", ""), (3, "approve", "")):
        _change(
            postgres_url,
            "INSERT INTO agentos_decisions"
            f" VALUES ({about}, {reviews}, 0, '{answer}', '{text}', 'ann', '{AT}')",
        )
    _change(
        postgres_url,
        "INSERT INTO agentos_progress"
        " (project, workflow, item, input_hash, run_id, status, reviews, error, updated_at, mock, attempt)"
        f" VALUES ({about}, 'run-1', 'discuss', 3, 'Which?', '{AT}', 0, 1)",
    )
    for text, used in (("old", "'run-1'"), ("new", "NULL")):
        _change(
            postgres_url,
            "INSERT INTO agentos_notes"
            " (project, workflow, item, mock, text, noted_by, noted_at, used_by, write)"
            f" VALUES ('p', 'lld', '42', 0, '{text}', 'ann', '{AT}', {used}, '{text}')",
        )
    monkeypatch.undo()
    assert _upgrade(postgres_url) == ["agentos 005-decisions"]
    with open_postgres_records(postgres_url, project="p") as records:
        assert [(one.text, one.answer, one.question, one.used) for one in said(records, item())] == [
            ("old", "", "", True),
            ("new", "", "", False),
            ("used", "revise", "", True),
            ("", "approve", "Which?", False),
        ]
