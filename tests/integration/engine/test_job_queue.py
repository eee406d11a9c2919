"""The queue of attempts, on a real PostgreSQL and without one."""

import logging
import socket
from concurrent.futures import Future
from typing import Any

import pytest

from agentos.engine.job_queue import QUEUE, QueueThread, open_submitter
from agentos.engine.machine import NotTakenError
from agentos.store.postgres.attempts import Attempts
from agentos.store.postgres.connection import PostgresDatabase
from harness.processes import wait_until


@pytest.mark.timeout(60)
def test_libraries_print_nothing_while_the_database_is_away(caplog: pytest.LogCaptureFixture) -> None:
    def submit(attempt: int) -> "Future[None]":
        raise AssertionError(attempt)

    with socket.create_server(("127.0.0.1", 0)) as server, caplog.at_level(logging.WARNING):
        url = f"postgresql://agentos@127.0.0.1:{server.getsockname()[1]}/agentos"
        with PostgresDatabase(url, application_name="tests") as database:
            queue = QueueThread(database, slots=1, serves=lambda _: True, submit=submit)
            queue.start()
            for _ in range(3):  # a connection that is closed at once; the next one follows what was logged
                server.accept()[0].close()
            queue.stop()
    names = {record.name.partition(".")[0] for record in caplog.records}
    assert not names & {"procrastinate", "psycopg"}


class Taker:
    """A machine, as the queue sees it."""

    def __init__(self, database: PostgresDatabase, *, serves: bool = True) -> None:
        self.taken: dict[int, Future[None]] = {}
        self.queue = QueueThread(database, slots=1, serves=lambda _: serves, submit=self._submit)
        self.queue.start()

    def _submit(self, attempt: int) -> "Future[None]":
        self.taken[attempt] = Future()
        return self.taken[attempt]

    def stop(self) -> None:
        self.queue.stop()
        for done in self.taken.values():
            if not done.done():
                done.set_exception(NotTakenError())
        self.queue.join(30)


def jobs(database: PostgresDatabase) -> list[dict[str, Any]]:
    return database.rows("SELECT id FROM procrastinate_jobs WHERE queue_name = %(queue)s", {"queue": QUEUE})


def test_an_attempt_that_a_machine_does_not_begin_goes_to_another_one(prepared_postgres: str) -> None:
    with PostgresDatabase(prepared_postgres, application_name="test") as database:
        takers = [Taker(database)]
        try:
            with open_submitter(database) as defer:
                defer(7, ())
            wait_until(lambda: takers[0].taken, "the first machine to get the attempt")
            takers[0].stop()
            takers.append(Taker(database))
            wait_until(lambda: takers[1].taken, "another machine to get it")
            takers[1].taken[7].set_result(None)
            wait_until(lambda: not jobs(database), "no job")
        finally:
            for taker in takers:
                taker.stop()


def test_a_machine_without_a_key_passes_a_job_on_only_while_its_attempt_waits(prepared_postgres: str) -> None:
    with PostgresDatabase(prepared_postgres, application_name="test") as database:
        attempts = Attempts(database)
        made = attempts.make(project="p", run_id="r", item="LLD-1", attempt=1, job=b"{}")
        taker = Taker(database, serves=False)
        try:
            with open_submitter(database) as defer:
                defer(made, ["openai"])
                first = jobs(database)
            wait_until(
                lambda: (found := jobs(database)) and found[-1] != first[-1], "the job to be passed on"
            )
            attempts.over(made)
            wait_until(lambda: not jobs(database), "no job")
        finally:
            taker.stop()
