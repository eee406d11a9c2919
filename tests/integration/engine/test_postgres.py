"""The engine of other machines, on a real database; the test is the machine, and time is a number."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from agentos.engine.postgres import KEYLESS_SECONDS, PostgresEngine
from agentos.engine.protocol import AttemptTaken, EngineEvent, Gone, Printed, Unable
from agentos.errors import ItemFailed, StartFailed, StorageBusy, StorageError
from agentos.store.postgres.attempts import BEAT_SECONDS, Attempts, Letter
from agentos.store.postgres.connection import Cursor, PostgresDatabase
from agentos.wire import Drain, Ended, Job
from harness.jobs import make_job

JOB = make_job()


class NoFiles:
    """An item that depends on no file and writes none; putting its files in place may fail."""

    fails: Exception | None = None

    def send(self, job: Job) -> dict[str, str]:
        self.fetch(job)
        return {}

    def fetch(self, job: Job) -> None:
        if self.fails is not None:
            raise self.fails


class Database(PostgresDatabase):
    """A real one that can be away."""

    away = False

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        if self.away:
            raise StorageBusy("The database is away.")
        with super().transaction() as cursor:
            yield cursor


class Submitter:
    """A run with one item."""

    def __init__(self, url: str) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.folder = NoFiles()
        self.deferred: list[tuple[int, Sequence[str]]] = []
        self.databases = [Database(url, application_name="test") for _ in range(2)]
        self.attempts = Attempts(self.databases[0])
        self.engine = PostgresEngine(
            self.databases[1],
            project="project",
            run_id="run-1",
            defer=lambda attempt, providers: self.deferred.append((attempt, providers)),
            folder=self.folder,
            say=self.said.append,
            clock=lambda: self.now,
        )
        self.engine.start("LLD-1", JOB)

    def taken(self) -> int:
        """Let a machine take the attempt."""
        [(attempt, _)] = self.deferred
        self.attempts.enter("machine", slots=1, providers=["one", "two"])
        assert self.attempts.take(attempt, "machine") is not None
        return attempt

    def hears(self, kind: str, body: bytes) -> list[EngineEvent]:
        """What follows from a letter of the machine."""
        [(attempt, _)] = self.deferred
        letter = Letter(attempt=attempt, number=1, kind=kind, body=body)
        assert not self.attempts.report([letter], receivers={attempt: "run project run-1"})
        return self.events()

    def events(self, seconds: float = 0.0) -> list[EngineEvent]:
        """What happens within this time, one beat after the other."""
        found = list(self.engine.events(self.now))
        for _ in range(round(seconds / BEAT_SECONDS)):
            self.now += BEAT_SECONDS
            found += self.engine.events(self.now)
        return found


@pytest.fixture
def submitter(prepared_postgres: str) -> Iterator[Submitter]:
    made = Submitter(prepared_postgres)
    with made.databases[0], made.databases[1], made.engine:
        yield made


def test_a_job_names_the_providers_of_its_item(submitter: Submitter) -> None:
    [(_, providers)] = submitter.deferred
    assert providers == ["one", "two"]


def test_the_loop_hears_that_a_machine_has_taken_an_attempt(submitter: Submitter) -> None:
    submitter.taken()
    assert submitter.hears("taken", b"machine") == [AttemptTaken(item="LLD-1", attempt=1)]
    submitter.attempts.beat("machine", providers=[])  # what it has taken continues without a word
    assert submitter.events(10 * KEYLESS_SECONDS) == []


@pytest.mark.parametrize(
    ("machines", "missing"),
    [
        ([["one"]], "two"),
        ([["mock"], ["three"]], "one and two"),
        ([["one"], ["two"]], "one and two"),  # nobody has both
    ],
)
def test_machines_without_a_key_are_reported_after_a_while(
    submitter: Submitter, machines: list[list[str]], missing: str
) -> None:
    for number, providers in enumerate(machines):
        submitter.attempts.enter(f"machine-{number}", slots=1, providers=providers)
    assert submitter.events(KEYLESS_SECONDS - BEAT_SECONDS) == []
    [event] = submitter.events(BEAT_SECONDS)
    assert isinstance(event, Unable)
    assert event.reason == f"no machine that is running has a usable key for {missing}"


def test_a_machine_with_the_keys_or_none_at_all_is_waited_for(submitter: Submitter) -> None:
    assert submitter.events(2 * KEYLESS_SECONDS) == []
    assert submitter.said == ["No machine takes items. Run 'agentos worker' on one; the items wait."]
    submitter.attempts.enter("poor", slots=1, providers=["one"])
    assert submitter.events(KEYLESS_SECONDS - BEAT_SECONDS) == []
    submitter.attempts.enter("rich", slots=1, providers=["one", "two", "three"])
    assert submitter.events(2 * KEYLESS_SECONDS) == []
    submitter.attempts.leave("rich")
    assert [type(event) for event in submitter.events(KEYLESS_SECONDS + BEAT_SECONDS)] == [Unable]


def test_machines_of_another_version_do_not_count(submitter: Submitter) -> None:
    with submitter.databases[0].transaction() as cursor:
        cursor.execute("INSERT INTO agentos_machines (name, slots, version) VALUES ('old', 1, '0.0.1')")
    assert submitter.events(2 * KEYLESS_SECONDS) == []
    [said] = submitter.said
    assert said.startswith("No machine can take items: they run agentos 0.0.1; this is ")


def test_an_attempt_that_ended_unseen_is_reported(submitter: Submitter) -> None:
    """The answer to the statement that ended it was lost with the connection."""
    submitter.attempts.over(submitter.taken())
    [event] = submitter.events(BEAT_SECONDS)
    assert event == Gone(item="LLD-1", attempt=1, how="its machine machine is gone")
    assert submitter.events(BEAT_SECONDS) == []


def test_a_message_that_could_not_be_sent_is_sent_when_the_database_is_back(submitter: Submitter) -> None:
    submitter.taken()
    submitter.databases[1].away = True
    submitter.engine.send("LLD-1", Drain(reason="test"))
    assert submitter.said == ["The database is away. Items continue when it is back."]
    submitter.databases[1].away = False
    assert submitter.events() == []
    assert submitter.said[1:] == ["The database is back."]
    received = submitter.attempts.receive("machine", read=())
    assert [letter.kind for letter in received.values()] == ["message"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("gone", b"[]"),
        ("gone", b'{"how": 3}'),
        ("out", b'{"lines": "text"}'),
        ("err", b"\xff"),
        ("said", b"{}"),
        ("said", b""),
    ],
)
def test_an_invalid_letter_ends_its_item_and_nothing_else(
    submitter: Submitter, kind: str, body: bytes
) -> None:
    submitter.taken()
    [event] = submitter.hears(kind, body)
    assert isinstance(event, Gone)
    assert "broke the protocol" in (event.broken or "")


def test_what_a_machine_prints_cannot_command_the_terminal(submitter: Submitter) -> None:
    submitter.taken()
    [event] = submitter.hears("out", b'{"lines": ["\\u001b[2Jone\\ntwo"]}')
    assert event == Printed(item="LLD-1", attempt=1, lines=("\\x1b[2Jone", "two"), error=False)


@pytest.mark.parametrize(
    ("fails", "broken", "how"),
    [
        (ItemFailed("LLD-1.md is a folder"), "LLD-1.md is a folder", ""),
        (StorageBusy("the database is away"), None, "the database is away"),
        (PermissionError("not here"), None, "not here"),
    ],
)
def test_files_that_cannot_be_put_in_place_end_their_item_and_nothing_else(
    submitter: Submitter, fails: Exception, broken: str | None, how: str
) -> None:
    submitter.taken()
    submitter.folder.fails = fails
    [event] = submitter.hears("said", Ended(status="approved").model_dump_json().encode())
    assert event == Gone(item="LLD-1", attempt=1, how=how, broken=broken)


@pytest.mark.parametrize("fails", [StorageError("disk full"), PermissionError("not here")])
def test_files_that_cannot_be_read_make_a_start_fail(submitter: Submitter, fails: Exception) -> None:
    submitter.folder.fails = fails
    with pytest.raises(StartFailed, match=str(fails)):
        submitter.engine.start("LLD-1", JOB)
