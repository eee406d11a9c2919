"""The key pool in PostgreSQL: one clock for all machines, nothing reserved for the dead, and no secret."""

import inspect
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from agentos.coordinator.shared_pools import enable_in, open_shared_pools
from agentos.credentials.pool import KeySpec
from agentos.credentials.run_pool import RunPool
from agentos.credentials.shared_store import SharedKeys, SharedStore
from agentos.errors import StorageBusy, StorageError
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import LeaseExpired
from agentos.secret import Secret
from agentos.store.key_pool import postgres, pulse
from agentos.store.key_pool.postgres import LOOK_SECONDS, PostgresPool
from agentos.store.key_pool.rows import ActiveRun, StateRow
from agentos.store.records.statements import read_queries
from integration.store.pool_machines import Database, Machines, make_tables, pass_time

if TYPE_CHECKING:
    from harness.postgres import Cluster


def key(number: int = 1, **limits: object) -> KeySpec:
    return KeySpec(id=f"key-{number}", provider="open", **limits)  # type: ignore[arg-type]


STRICT = key(max_in_flight=1)
PROCESS = Path(__file__).with_name("pool_process.py")
MINUTES = 7 * 60.0


@pytest.fixture
def database(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.05)
    made = Database(postgres_url)
    yield made
    made.close()


@pytest.fixture
def machines(database: Database) -> Iterator[Machines]:
    made = Machines(database)
    yield made
    made.close()


def until(true: Callable[[], bool]) -> None:
    """Wait for another thread."""
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# One clock.


@pytest.mark.parametrize("ahead", [0.0, MINUTES, -MINUTES, -1_799_999_000.0])
def test_machines_with_different_clocks_stay_within_one_limit(machines: Machines, ahead: float) -> None:
    spec = key(rpm=60, burst=1)
    one, other = machines.add("a", spec), machines.add("b", spec, ahead=ahead)
    for number in range(15):
        one.ask(f"LLD-{number}")
        other.ask(f"LLD-{number}")
    for _ in pass_time(12, one, other):
        pass
    given = sorted([lease.at for lease in one.leases] + [lease.at - ahead for lease in other.leases])
    assert 10 <= len(given) <= 13
    assert min(later - earlier for earlier, later in pairwise(given)) > 0.9
    assert abs(len(one.leases) - len(other.leases)) <= 1


@pytest.mark.slow
def test_a_lease_ends_at_the_same_moment_on_every_machine(machines: Machines) -> None:
    one, other = machines.add("a", STRICT), machines.add("b", STRICT, ahead=MINUTES)
    one.ask("LLD-1")
    other.ask("LLD-2")
    for now in pass_time(890, one, other):
        assert not any(isinstance(event, LeaseExpired) for event in one.events), now
    for _ in pass_time(11, one, other):
        pass
    (expired,) = [event for event in one.events if isinstance(event, LeaseExpired)]
    assert 899.9 < expired.at - one.leases[0].at < 901.5


def test_two_machines_that_take_turns_gain_no_time(database: Database) -> None:
    """Each reads the database's clock over a connection; no reading may add to the budget."""
    database.set_clock(None)
    rows = [PostgresPool(database.url) for _ in range(2)]
    spec = key(rpm=600, burst=1)
    runs = [_joined(one, name, spec) for one, name in zip(rows, "ab", strict=True)]
    began = time.monotonic()
    leases = 0
    for number in range(200):
        run = runs[number % 2]
        run.request(item=f"LLD-{number}", attempt=1, number=1, provider="open", model="m", tokens=1)
        leases += sum(event.name == "leased" for event in run.advance(time.monotonic()))
    # Each may have leases that the other one granted.
    elapsed = time.monotonic() - began
    leases += sum(event.name == "leased" for run in runs for event in _look(run))
    for one in rows:
        one.close()
    assert leases <= 1 + 10 * (elapsed + 0.2)


def _joined(rows: PostgresPool, name: str, spec: KeySpec) -> RunPool:
    rows.wait_at_most(5.0)
    keys = SharedKeys(row="open", specs=(spec,), fingerprints={spec.id: "mark"})
    store = SharedStore(rows, keys, run=name, lease_seconds=900.0, say=print)
    store.join()
    return RunPool(store, run=name, keys=frozenset({spec.id}))


def _look(run: RunPool) -> list[PoolEvent]:
    return run.advance(time.monotonic() + LOOK_SECONDS)


@pytest.mark.parametrize("back", [0.5, 3_600.0])
def test_if_the_clock_of_the_database_is_set_back_nothing_ends_and_nothing_is_gained(
    machines: Machines, back: float
) -> None:
    database = machines.database
    spec = key(rpm=60, burst=1)
    one, other = machines.add("a", spec), machines.add("b", spec)
    one.ask("LLD-1")
    one.ask("LLD-2")
    other.ask("LLD-3")
    assert (len(one.leases), len(other.leases)) == (1, 0)
    offset = -back
    for _ in range(8):
        database.set_clock(database.now + offset)
        one.advance()
        other.advance()
    assert (len(one.leases), len(other.leases)) == (1, 0)
    for _ in range(50):
        database.now += 0.1
        database.set_clock(database.now + offset)
        one.advance()
        other.advance()
    assert (len(one.leases), len(other.leases)) == (2, 1)
    assert not any(isinstance(event, LeaseExpired) for event in one.events + other.events)


def test_a_jump_ahead_counts_as_time_passed(machines: Machines) -> None:
    database = machines.database
    one, other = machines.add("a", STRICT), machines.add("b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    one.rows.close()  # it beats no more; without the jump it would count as alive for 10 s
    for _ in range(5):
        database.now += 1.0
        database.set_clock(database.now + 3_600)
        other.advance()
    assert [lease.item for lease in other.leases] == ["LLD-2"]


def test_a_state_of_the_future_has_no_age(database: Database) -> None:
    rows = PostgresPool(database.url, clock=lambda: 50.0)
    rows.begin("open")
    rows.save("open", StateRow(version=1, state="{}", written=50.0), last_lease=0)
    rows.commit()
    assert rows.state("open") == StateRow(version=1, state="{}", written=50.0)
    database.set_clock(database.now - 1)
    assert rows.state("open") == StateRow(version=1, state="{}", written=None)
    database.set_clock(database.now + 1)
    assert rows.state("open") == StateRow(version=1, state="{}", written=49.0)
    assert rows.state("open", 1) is None
    assert rows.state("other", 1) is None
    assert rows.state("other", -1) == StateRow(version=0, state="", written=None)  # to be loaded again
    rows.close()


# Runs that are alive.


def test_a_killed_run_leaves_nothing_reserved(machines: Machines) -> None:
    one, other = machines.add("a", STRICT), machines.add("b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    one.rows.close()  # as if killed: it does not leave
    seconds = 0.0
    while not other.leases:
        assert seconds <= 12
        seconds += 1.5
        for _ in pass_time(1.5, other):
            pass
        until(lambda: other.rows.clock() == other.rows._pulse.last_beat)  # type: ignore[union-attr]
    assert seconds >= 9
    assert machines.database.execute("SELECT token FROM agentos_pool_run") == [("b",)]


def test_a_run_that_could_not_beat_takes_nobody_for_dead(machines: Machines) -> None:
    """After an outage, whoever is back first must not forget the others."""
    database = machines.database
    one, other = machines.add("a", STRICT), machines.add("b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    one.rows.close()
    database.now += 60
    database.set_clock(database.now)
    other.advance()
    assert other.leases == []
    until(lambda: other.rows._pulse.last_beat == database.now)  # type: ignore[union-attr]
    other.advance()
    assert other.leases == []


def test_a_run_that_was_taken_for_dead_is_entered_again(machines: Machines) -> None:
    database = machines.database
    one = machines.add("a", STRICT)
    database.execute("DELETE FROM agentos_pool_run")
    database.execute("DELETE FROM agentos_pool_keys")
    until(lambda: database.execute("SELECT token FROM agentos_pool_run") == [("a",)])
    assert [user.token for user in one.rows.users("open")] == ["a"]
    one.store.leave()
    assert database.execute("SELECT token FROM agentos_pool_run") == []


def test_a_waiting_run_is_told_at_once(machines: Machines) -> None:
    one, other, third = (machines.add(name, STRICT) for name in "abc")
    one.ask("LLD-1")
    other.ask("LLD-2")
    third.ask("LLD-3")
    one.settle(one.leases[0])
    until(lambda: other.wakes > 0)
    other.advance()  # no time has passed
    assert [lease.item for lease in other.leases] == ["LLD-2"]
    other.store.leave()
    until(lambda: third.wakes > 0)
    third.advance()
    assert [lease.item for lease in third.leases] == ["LLD-3"]
    assert one.wakes == 0


# Transactions.


def test_one_provider_waits_for_its_own_row_only(database: Database) -> None:
    one, other = PostgresPool(database.url), PostgresPool(database.url)
    one.begin("open")
    other.begin("anthropic")
    other.rollback()
    with pytest.raises(StorageBusy):
        other.begin("open")
    one.rollback()
    other.begin("open")
    other.rollback()
    one.close()
    other.close()


def test_numbers_of_leases_differ_between_providers(machines: Machines) -> None:
    one = machines.add("a", key())
    other = machines.add("b", KeySpec(id="key-9", provider="anthropic"), row="anthropic")
    for machine in (one, other):
        machine.ask("LLD-1")
        machine.ask("LLD-2")
    numbers = [lease.lease for machine in (one, other) for lease in machine.leases]
    assert len(set(numbers)) == 4


def test_a_connection_that_is_lost_in_a_transaction_saves_nothing(machines: Machines) -> None:
    database = machines.database
    one, other = machines.add("a", STRICT), machines.add("b", STRICT)
    with pytest.raises(StorageBusy), one.store.transaction(one.clock()):
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agentos pool'"
        )
    one.ask("LLD-1")
    assert len(one.leases) == 1
    other.ask("LLD-2")
    database.now += 1
    other.advance()
    assert other.leases == []
    assert one.said == other.said == []


def test_a_restart_of_the_server_is_waited_for(machines: Machines, postgres_cluster: "Cluster") -> None:
    database = machines.database
    one, other = machines.add("a", STRICT), machines.add("b", STRICT)
    one.ask("LLD-1")
    postgres_cluster.stop("immediate")
    one.settle(one.leases[0])
    other.ask("LLD-2")
    assert other.leases == []
    until(lambda: not one.rows._pulse.connected)  # type: ignore[union-attr]
    with pytest.raises(StorageBusy, match="Cannot reach"):
        one.rows.state("open", 1)
    postgres_cluster.start()
    database.reconnect()
    # Nobody could beat while it was down.
    database.set_clock(None)
    database.execute("UPDATE agentos_pool_run SET beat = beat - interval '60 s'")

    def served() -> bool:
        database.now += 0.1
        one.advance()
        other.advance()
        return bool(other.leases)

    until(served)
    assert one.said == other.said == []
    tokens = {token for (token,) in database.execute("SELECT token FROM agentos_pool_keys")}
    assert tokens == {"a", "b"}


def test_a_database_without_the_tables_is_an_error(postgres_url: str) -> None:
    with pytest.raises(StorageError, match="agentos_pool_salt"):
        PostgresPool(postgres_url)


# Secrets.


def test_no_key_is_in_the_database(postgres_url: str) -> None:
    make_tables(postgres_url)
    secrets = {name: Secret(name, f"sk-{name}-value") for name in ("first-key", "second-key")}
    specs = [KeySpec(id=name, provider="openai", rpm=60) for name in secrets]
    pools = open_shared_pools(
        None,
        specs,
        secrets,
        base_urls={"openai": "https://private.example/v1"},
        run_id="2026",
        place=Path("/a/\udcff/repo"),
        lease_seconds=900.0,
        say=print,
        rows=lambda: PostgresPool(postgres_url),
    )
    assert pools is not None
    pool = pools.by_provider["openai"]
    for number in range(3):
        pool.request(item=f"LLD-{number}", attempt=1, number=1, provider="openai", model="m", tokens=1)
    assert len(pool.advance(time.monotonic())) >= 2
    dumped = _dump(postgres_url)
    assert "LLD-1" in dumped
    for hidden in ("first-key", "second-key", "sk-", "private.example"):
        assert hidden not in dumped
    rows = PostgresPool(postgres_url)
    assert not enable_in(rows, specs[0], secrets["first-key"], {}, print)
    rows.close()
    pools.leave()
    assert "2026" not in _dump(postgres_url)


def _dump(url: str) -> str:
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        return "\n".join(
            str(connection.execute(f"SELECT t::text FROM {table} t".encode()).fetchall())
            for (table,) in tables
        )


def test_a_run_of_the_mock_alone_opens_no_database() -> None:
    spec = KeySpec(id="mock-1", provider="mock")

    def rows() -> PostgresPool:
        raise AssertionError

    shared = open_shared_pools(
        None, [spec], {}, base_urls={}, run_id="", place=Path(), lease_seconds=1.0, say=print, rows=rows
    )
    assert shared is None


def test_a_run_that_cannot_share_does_not_start(postgres_url: str) -> None:
    specs = [KeySpec(id="key-1", provider="openai")]
    with pytest.raises(StorageError):
        open_shared_pools(
            None,
            specs,
            {"key-1": Secret("key-1", "sk-one-value")},
            base_urls={},
            run_id="",
            place=Path(),
            lease_seconds=1.0,
            say=print,
            rows=lambda: PostgresPool(postgres_url),
        )


def test_every_statement_is_used() -> None:
    source = inspect.getsource(postgres) + inspect.getsource(pulse)
    assert {name for name in read_queries("postgres-pool") if f'"{name}"' not in source} == set()


def test_every_run_is_listed(database: Database) -> None:
    rows = PostgresPool(database.url)
    run = ActiveRun(token="a", run_id="2026", place="/repo", pid=1, since="2026-01-01")
    rows.add_run(run)
    assert rows.runs() == (replace(run, host=socket.gethostname()),)
    assert rows.is_alive("a")
    assert rows.states() == {}
    rows.close()


def _start(url: str, name: str, calls: int) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROCESS), url, name, str(calls)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_processes_take_turns_and_a_killed_one_holds_up_nobody(postgres_url: str) -> None:
    make_tables(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE seen (name text, number int, since timestamptz, until timestamptz)")
        processes = [_start(postgres_url, name, 8) for name in ("a", "b", "c")]
        killed = _start(postgres_url, "killed", 1_000)
        assert killed.stdout is not None
        assert killed.stdout.readline() == "has the key\n"
        killed.kill()
        try:
            assert [process.wait(120) for process in processes] == [0, 0, 0]
        finally:
            for process in (*processes, killed):
                process.kill()
                process.communicate()
        seen = connection.execute(
            "SELECT name, since, until FROM seen WHERE until IS NOT NULL ORDER BY since"
        ).fetchall()
    assert sum(name != "killed" for name, _, _ in seen) == 24
    assert all(until < since for (_, _, until), (_, since, _) in pairwise(seen))
