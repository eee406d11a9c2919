"""The documented rights: enough for all work, and no more. The tests of the records run with them, too."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from procrastinate import App, PsycopgConnector

from agentos.errors import StorageError
from agentos.store.postgres.attempts import Attempts, Letter
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.postgres.facts import SUBMITTER_ONLY, missing_rights, read_facts
from agentos.store.postgres.upgrade import SchemaState, schema_state, upgrade
from harness.postgres import Cluster, documented_rights
from harness.records import approve, item, open_postgres_records

ROLES = ("agentos_submitter", "agentos_worker")


@pytest.fixture(scope="module")
def urls(postgres_cluster: Cluster) -> Iterator[dict[str, str]]:
    """A database that was made exactly as the page says, by role."""
    roles, database, rights = documented_rights()
    with psycopg.connect(postgres_cluster.url(), autocommit=True) as admin:
        if not admin.execute("SELECT FROM pg_roles WHERE rolname = 'agentos_owner'").fetchall():
            admin.execute(roles.encode())
        admin.execute(database.encode())
    urls = {role: postgres_cluster.url("agentos", user=role) for role in ("agentos_owner", *ROLES)}
    with PostgresDatabase(urls["agentos_owner"], application_name="test") as owner:
        upgrade(owner)
        with owner.transaction() as cursor:
            cursor.execute(rights)
            cursor.execute(rights)  # after each upgrade
    yield urls
    postgres_cluster.drop(postgres_cluster.url("agentos"))


@pytest.mark.parametrize("role", ROLES)
def test_no_role_but_the_owner_makes_changes_or_removes_tables(urls: dict[str, str], role: str) -> None:
    with PostgresDatabase(urls[role], application_name="test") as database:
        assert schema_state(database) is SchemaState.CURRENT
        assert upgrade(database) == []
        assert not read_facts(database).superuser
        for statement in (
            "CREATE TABLE mine (a INT)",
            "ALTER TABLE agentos_runs ADD COLUMN a INT",
            "DROP TABLE procrastinate_jobs",
            "TRUNCATE checkpoints",
            "DELETE FROM agentos_schema",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        ):
            with pytest.raises(StorageError, match=r"permission denied|must be owner"):
                _run(database, statement)


def test_a_submitter_has_all_rights_and_a_worker_none_on_records(urls: dict[str, str]) -> None:
    with PostgresDatabase(urls["agentos_submitter"], application_name="test") as submitter:
        assert missing_rights(submitter) == ()
    with open_postgres_records(urls["agentos_submitter"]) as records:
        approve(records, item(), "run-1")
    with PostgresDatabase(urls["agentos_worker"], application_name="test") as worker:
        assert set(missing_rights(worker)) == SUBMITTER_ONLY
    with (
        open_postgres_records(urls["agentos_worker"]) as refused,
        pytest.raises(StorageError, match="permission denied for table agentos_outcomes"),
    ):
        refused.outcomes("lld")


def test_the_page_names_the_tables_that_are_the_submitters_only() -> None:
    *_, last = documented_rights()[2].rpartition("REVOKE ALL ON agentos")
    assert set(re.findall(r"agentos_(?!worker)\w+", f"agentos{last}")) == SUBMITTER_ONLY


def test_a_worker_that_lacks_a_right_it_needs_is_told(urls: dict[str, str]) -> None:
    with (
        PostgresDatabase(urls["agentos_owner"], application_name="test") as owner,
        PostgresDatabase(urls["agentos_worker"], application_name="test") as worker,
    ):
        _run(owner, "REVOKE SELECT ON agentos_runs FROM agentos_worker")
        try:
            assert set(missing_rights(worker)) - SUBMITTER_ONLY == {"agentos_runs, which workers read"}
        finally:
            _run(owner, "GRANT SELECT ON agentos_runs TO agentos_worker")


def test_a_worker_cannot_change_what_an_attempt_is_about(urls: dict[str, str]) -> None:
    with PostgresDatabase(urls["agentos_submitter"], application_name="test") as submitter:
        made = Attempts(submitter).make(project="p", run_id="r", item="LLD-1", attempt=1, job=b"{}")
    with PostgresDatabase(urls["agentos_worker"], application_name="test") as worker:
        attempts = Attempts(worker)
        attempts.enter("m", slots=1, providers=["mock"])
        assert attempts.take(made, "m") is not None
        assert attempts.current([made], "m") == frozenset()  # the run does not beat
        attempts.report([Letter(attempt=made, number=1, kind="out", body=b"{}")], receivers={made: "run p r"})
        attempts.forget_old()
        for statement in ("UPDATE agentos_attempts SET job = ''", "UPDATE agentos_runs SET owner = ''"):
            with pytest.raises(StorageError, match="permission denied"):
                _run(worker, statement)


def test_a_submitter_defers_a_job_and_a_worker_runs_it(urls: dict[str, str]) -> None:
    ran: list[int] = []

    def app_of(role: str) -> App:
        app = App(connector=PsycopgConnector(conninfo=urls[role], min_size=1))

        @app.task(name="add")
        def add(number: int) -> None:
            ran.append(number)

        return app

    async def submit_and_work() -> None:
        async with app_of("agentos_submitter").open_async() as submitter:
            await submitter.configure_task("add").defer_async(number=7)
        async with app_of("agentos_worker").open_async() as worker:
            await worker.run_worker_async(wait=False, install_signal_handlers=False)
            assert await worker.job_manager.get_stalled_jobs() == []

    asyncio.run(submit_and_work())
    assert ran == [7]


def test_a_worker_writes_and_reads_checkpoints(urls: dict[str, str]) -> None:
    thread: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    with PostgresSaver.from_conn_string(urls["agentos_worker"]) as saver:
        saved = saver.put(thread, empty_checkpoint(), {}, {})
        saver.put_writes(saved, [("channel", "value")], "task")
        assert saver.get_tuple(thread) is not None
        saver.delete_thread("1")
        assert saver.get_tuple(thread) is None


def _run(database: PostgresDatabase, statement: str) -> None:
    with database.transaction() as cursor:
        cursor.execute(statement)
