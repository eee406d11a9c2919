"""Records that machines share: alive by beats, one writer at a time, writes that are repeated."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from agentos import redact
from agentos.errors import StorageBusy, StorageError
from agentos.model import Item
from agentos.store.postgres.connection import Cursor, PostgresDatabase
from agentos.store.records.postgres import PostgresRecords
from harness.records import answer, approve, begin, item, note, open_postgres_records, paid, said

ITEMS = [item(str(number)) for number in range(12)]


@pytest.fixture
def one(prepared_postgres: str) -> Iterator[PostgresRecords]:
    with open_postgres_records(prepared_postgres, host=None) as opened:
        yield opened


@pytest.fixture
def other(prepared_postgres: str) -> Iterator[PostgresRecords]:
    """The same records, from another machine."""
    with open_postgres_records(prepared_postgres, host="far") as opened:
        yield opened


def _run_sql(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _silence(url: str, run: str, seconds: int) -> None:
    """As if the run had beaten for the last time this long ago."""
    back = f"beaten_at = clock_timestamp() - interval '{seconds} seconds'"
    _run_sql(url, f"UPDATE agentos_runs SET {back} WHERE run_id = '{run}'")


# Who is alive.


def test_a_run_is_alive_for_ten_seconds_after_a_beat(
    one: PostgresRecords, other: PostgresRecords, prepared_postgres: str
) -> None:
    assert not other.is_alive("run-1")
    one.beat("run-1")
    assert other.is_alive("run-1")
    _silence(prepared_postgres, "run-1", 8)
    assert other.is_alive("run-1")
    _silence(prepared_postgres, "run-1", 11)
    assert not other.is_alive("run-1")
    one.beat("run-1")
    assert other.is_alive("run-1")


def test_a_live_run_keeps_its_items_and_a_dead_one_loses_them(
    one: PostgresRecords, other: PostgresRecords, prepared_postgres: str
) -> None:
    fence = begin(one, item(), "run-1")
    assert other.claim([item()], "run-2")["42"].run == f"run run-1 on {socket.gethostname()}"
    assert other.drop_progress("lld", "42") is not None
    _silence(prepared_postgres, "run-1", 11)
    assert other.claim([item()], "run-2") == {}
    assert str(one.at_node(item(), fence, "review", 1)) == "run run-2 on far has the item now"
    one.beat("run-1")  # it comes back
    assert one.claim([item()], "run-1")["42"].run == "run run-2 on far"


def test_a_run_that_ended_is_continued_at_once(one: PostgresRecords, other: PostgresRecords) -> None:
    one.claim([item("1")], "run-1")
    one.begin_run("run-1", "lld", ["1"])
    one.pay(paid("life"))
    one.release("run-1")
    other.begin_run("run-2", "lld", ["1"])
    assert other.spent_before("lld", "run-2") == {"1": 1.0}


def test_beginning_a_run_does_not_make_it_dead(one: PostgresRecords, other: PostgresRecords) -> None:
    one.claim([item("1")], "run-1")
    one.begin_run("run-1", "lld", ["1"])
    assert other.is_alive("run-1")


def test_two_machines_cannot_have_a_run_of_the_same_name(
    one: PostgresRecords, other: PostgresRecords
) -> None:
    one.claim([item("1")], "run-1")
    with pytest.raises(StorageError, match="Another machine has a run run-1"):
        other.claim([item("2")], "run-1")
    other.release("run-2")
    assert one.is_alive("run-1")


def test_a_beat_does_not_wait_for_a_write(one: PostgresRecords, other: PostgresRecords) -> None:
    one.claim([item()], "run-1")

    def beat_meanwhile() -> bool:
        one.beat("run-1")  # on the connection of another machine: it would wait for this write for ever
        return True

    assert not answer(other, item(), 1, unless=beat_meanwhile)


# Projects.


def test_a_project_sees_and_changes_only_its_own_rows(prepared_postgres: str) -> None:
    with (
        open_postgres_records(prepared_postgres, project="a") as mine,
        open_postgres_records(prepared_postgres, project="b") as theirs,
    ):
        approve(mine, item(), "run-1")
        begin(mine, item("7"), "run-1")
        note(mine, item())
        mine.begin_run("run-1", "lld", ["42"])
        mine.pay(paid("life"))
        assert (theirs.claims(), theirs.outcomes("lld"), theirs.progress()) == ({}, {}, {})
        assert (theirs.decisions(), theirs.spent_on_items("lld")) == ({}, {})
        assert not theirs.is_alive("run-1")
        assert theirs.claim([item()], "run-1") == {}
        assert theirs.pay(paid("life"))
        assert theirs.drop_progress("lld", "7") is None
        theirs.release("run-1")
        assert set(mine.claims()) == {("lld", "42"), ("lld", "7")}
        assert set(mine.progress()) == {("lld", "7")}


# Two at once.


def test_of_submitters_that_race_for_items_each_gets_its_own(prepared_postgres: str) -> None:
    rounds, racers = 8, 4
    start = threading.Barrier(racers)

    def race(number: int) -> list[set[str]]:
        got = []
        with open_postgres_records(prepared_postgres) as records:
            for turn in range(rounds):
                mine = [_named(one, turn) for one in ITEMS]
                start.wait(60)
                refused = records.claim(mine[number:] + mine[:number], f"run-{number}")
                got.append({one.id for one in mine} - refused.keys())
        return got

    with ThreadPoolExecutor(racers) as pool:
        everyone = list(pool.map(race, range(racers)))
    with open_postgres_records(prepared_postgres) as records:
        held = records.claims()
    for turn in range(rounds):
        got = [one for racer in everyone for one in racer[turn]]
        assert sorted(got) == sorted(_named(one, turn).id for one in ITEMS)
    for number, racer in enumerate(everyone):
        assert all(held["lld", name].run_id == f"run-{number}" for turn in racer for name in turn)


def test_of_submitters_that_race_for_a_dead_run_one_gets_its_item(prepared_postgres: str) -> None:
    racers = 4
    start = threading.Barrier(racers)
    with open_postgres_records(prepared_postgres) as records:
        records.claim(ITEMS, "dead")
    _silence(prepared_postgres, "dead", 60)

    def race(number: int) -> set[str]:
        with open_postgres_records(prepared_postgres) as records:
            records.beat(f"run-{number}")
            start.wait(60)
            return {one.id for one in ITEMS} - records.claim(ITEMS, f"run-{number}").keys()

    with ThreadPoolExecutor(racers) as pool:
        everyone = list(pool.map(race, range(racers)))
    assert sorted(map(len, everyone)) == [0, 0, 0, len(ITEMS)]


def _named(one: Item, turn: int) -> Item:
    return item(f"{one.id}-{turn}")


# A server that goes away.


class LosesCommits(PostgresDatabase):
    """Commits, but learns nothing of it, as many times as `losses` says."""

    losses = 0

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        with super().transaction() as cursor:
            yield cursor
        if self.losses:
            self.losses -= 1
            raise StorageBusy("the connection was lost during the commit")


def test_a_write_that_is_repeated_counts_once(prepared_postgres: str) -> None:
    with LosesCommits(prepared_postgres, application_name="test") as database:
        records = PostgresRecords(database, project="project")
        fence = begin(records, item(), "run-1")
        database.losses = 1
        assert records.pay(paid("life"))
        assert not records.pay(paid("life"))
        database.losses = 1
        note(records, item())
        note(records, item())
        database.losses = 1
        answer(records, item(), 1)
        assert [one.answer for one in said(records, item())] == ["", "", "approve"]
        database.losses = 1
        assert records.claim([item("7")], "run-1") == {}
        database.losses = 1
        assert records.use_decisions(item(), fence, said(records, item())[-1].id, kept=True) is None
        assert records.decisions() == {}


def test_a_write_waits_for_the_connection(one: PostgresRecords, prepared_postgres: str) -> None:
    fence = begin(one, item(), "run-1")
    _run_sql(
        prepared_postgres,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'test' AND datname = current_database()",
    )
    assert one.at_node(item(), fence, "review", 1) is None
    assert one.progress()["lld", "42"].node == "review"


def test_a_machine_that_hangs_in_a_write_keeps_nobody_from_writing(
    one: PostgresRecords, prepared_postgres: str
) -> None:
    begin(one, item(), "run-1")
    with PostgresDatabase(prepared_postgres, application_name="test") as database:
        hanging = PostgresRecords(database, project="project")
        tries: list[int] = []

        def hang() -> bool:
            tries.append(1)
            if len(tries) == 1:
                limit = "SELECT set_config('idle_in_transaction_session_timeout', '200ms', false)"
                database.rows(limit, {})
                # Waits until the server has ended this transaction, and with it the lock on the project.
                note(one, item(), "Meanwhile.")
            return False

        assert answer(hanging, item(), 1, unless=hang)
    assert len(tries) == 2  # the first was undone, so it was repeated
    assert [known.words for known in said(one, item())] == [
        "Meanwhile.",
        "The document was approved as it was.",
    ]


# What is stored.


def test_no_secret_and_no_nul_is_stored(one: PostgresRecords) -> None:
    redact.learn("KEY", "sk-1234567890abcdef")
    note(one, item(), "see sk-1234567890abcdef\0!")
    assert said(one, item())[0].text == "see [secret: KEY]\N{REPLACEMENT CHARACTER}!"


def test_an_impossible_number_is_refused(one: PostgresRecords, prepared_postgres: str) -> None:
    one.claim([item("1")], "run-1")
    one.pay(paid("life"))
    _run_sql(prepared_postgres, "UPDATE agentos_paid_calls SET usd = -5")
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:.* contain an invalid value: usd is -5"):
        one.spent_on_items("lld")
