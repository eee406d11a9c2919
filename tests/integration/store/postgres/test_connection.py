"""One connection to a real server: lost, reopened, translated, listening."""

import threading
from collections.abc import Iterator

import psycopg
import pytest

from agentos.errors import ConfigError, StorageBusy, StorageError
from agentos.redact import redact
from agentos.store.postgres.connection import PostgresDatabase
from harness.postgres import MISSING, Cluster, cluster, programs

PASSWORD = "correct-horse-battery"


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    with PostgresDatabase(postgres_url, application_name="test") as opened:
        yield opened


def _one(database: PostgresDatabase) -> int:
    with database.transaction() as cursor:
        row = cursor.execute("SELECT 1 AS one").fetchone()
        assert row is not None
        return int(row["one"])


def _kill(url: str) -> None:
    """End all connections but ours, as an administrator would."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'test' AND datname = current_database()"
        )


def test_rows_are_dicts_and_a_failed_transaction_changes_nothing(database: PostgresDatabase) -> None:
    with database.transaction() as cursor:
        cursor.execute("CREATE TABLE t (a INT)")
    with pytest.raises(ZeroDivisionError), database.transaction() as cursor:
        _ = cursor.execute("INSERT INTO t VALUES (1)").rowcount / 0
    with database.transaction() as cursor:
        assert cursor.execute("SELECT * FROM t").fetchall() == []
        cursor.execute("INSERT INTO t VALUES (2)")
    with database.transaction() as cursor:
        assert cursor.execute("SELECT * FROM t").fetchall() == [{"a": 2}]


def test_a_connection_that_was_lost_while_idle_is_replaced(
    database: PostgresDatabase, postgres_url: str
) -> None:
    assert _one(database) == 1
    _kill(postgres_url)
    assert _one(database) == 1


def test_a_connection_that_is_lost_in_a_transaction_is_busy_and_work_can_be_repeated(
    database: PostgresDatabase, postgres_url: str
) -> None:
    tries: list[int] = []

    def work() -> int:
        with database.transaction() as cursor:
            tries.append(1)
            if len(tries) == 1:
                _kill(postgres_url)
            row = cursor.execute("SELECT 7 AS seven").fetchone()
            assert row is not None
            return int(row["seven"])

    with pytest.raises(StorageBusy, match="terminating connection"):
        work()
    tries.clear()
    assert database.patiently(work) == 7
    assert len(tries) == 2


def test_work_waits_for_a_server_that_restarts() -> None:
    if programs() is None:
        pytest.skip(MISSING)
    with cluster() as server, PostgresDatabase(server.url(), application_name="test") as database:
        assert _one(database) == 1
        server.stop()
        with pytest.raises(StorageBusy, match=f"127.0.0.1:{server.port}/postgres: .*refused"):
            database.patiently(lambda: _one(database), seconds=0.2)
        starting = threading.Thread(target=server.start)
        starting.start()
        assert database.patiently(lambda: _one(database)) == 1
        starting.join()


def test_a_mistake_in_a_statement_is_not_repeated(database: PostgresDatabase) -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        with database.transaction() as cursor:
            cursor.execute("SELECT * FROM nothing")

    with pytest.raises(StorageError, match='relation "nothing" does not exist') as raised:
        database.patiently(work)
    assert not isinstance(raised.value, StorageBusy)
    assert len(tries) == 1


def test_a_statement_that_takes_too_long_is_stopped(database: PostgresDatabase) -> None:
    with pytest.raises(StorageBusy, match="statement timeout"), database.transaction() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 20; SELECT pg_sleep(60)")
    assert _one(database) == 1


def test_each_session_has_time_limits(database: PostgresDatabase) -> None:
    with database.transaction() as cursor:
        for name, value in {
            "statement_timeout": "30s",
            "idle_in_transaction_session_timeout": "10s",
            "tcp_keepalives_idle": "5",
        }.items():
            row = cursor.execute("SELECT current_setting(%s) AS value", (name,)).fetchone()
            assert row == {"value": value}


def test_notifications_arrive_also_after_a_reconnection(
    database: PostgresDatabase, postgres_url: str
) -> None:
    def notify(text: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_notify('news', %s)", (text,))

    database.listen("news")
    assert database.notifications(0) == []
    notify("one")
    assert database.notifications(30) == [("news", "one")]
    _kill(postgres_url)
    assert _one(database) == 1
    notify("two")
    assert database.notifications(30) == [("news", "two")]
    notify("three")
    assert _one(database) == 1  # reads the notification from the socket
    assert database.notifications(30) == [("news", "three")]
    assert database.fileno() >= 0


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{PASSWORD}@host/db",
        f"u:{PASSWORD}@host/db",
        f"postgresql://u:{PASSWORD}@rest@host/db",
        f"postgresql://u:{PASSWORD}/rest@host/db",
        f"postgresql://u:{PASSWORD}@host/db?nonsense=1",
        f"postgresql://u:{PASSWORD}%zz@host/db",
        "postgresql://u@host:abc/db",
    ],
)
def test_a_wrong_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError, match="AGENTOS_DATABASE_URL") as raised:
        PostgresDatabase(url, application_name="test")
    assert PASSWORD not in str(raised.value)
    assert "rest" not in str(raised.value)


def test_the_password_is_never_shown() -> None:
    url = f"postgresql://u:{PASSWORD}%40x@127.0.0.1:1/db"
    with PostgresDatabase(url, application_name="test") as database:
        assert database.name == "127.0.0.1:1/db"
        assert PASSWORD not in repr(database.address)
        with pytest.raises(StorageBusy, match=r"127\.0\.0\.1:1/db: Connection refused") as raised:
            _one(database)
    assert PASSWORD not in str(raised.value)
    assert PASSWORD not in redact(f"said {PASSWORD}@x")


def test_what_the_server_refuses_is_said_in_its_words(postgres_cluster: Cluster) -> None:
    with (
        PostgresDatabase(postgres_cluster.url("none"), application_name="test") as database,
        pytest.raises(StorageBusy, match='none: database "none" does not exist'),
    ):
        _one(database)
