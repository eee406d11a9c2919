"""A worker machine on a real database: it trusts nothing that the database says."""

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from agentos import frames, wire
from agentos.engine.letters import GoneLetter
from agentos.engine.machine import Machine
from agentos.engine.own_access import OwnAccess
from agentos.engine.protocol import Ending, EngineEvent, Gone, Said
from agentos.secret import Secret
from agentos.signals import StopSignals
from agentos.store.postgres.attempts import Attempts, Letter, Mailbox
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.records.postgres import PostgresRecords
from agentos.store.rooted_tree import Tree
from harness.jobs import make_job

RECEIVER = "run project run-1"
KEYS = {"key-1": "one", "key-2": "two"}
SECRETS = {name: Secret(name, f"sk-{name}-value") for name in KEYS}


class Hands:
    """An engine that starts nothing: the test says what its one worker does, step by step."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], Iterable[EngineEvent]]] = []
        self.jobs: list[wire.Job] = []
        self.sent: list[wire.Message] = []
        self.name = ""

    def start(self, item: str, job: wire.Job) -> int:
        self.name = item
        self.jobs.append(job)
        return 1

    def send(self, item: str, message: wire.Message) -> None:
        assert item == self.name
        frames.encode(message)  # raises what a real one raises
        self.sent.append(message)

    def end(self, item: str, how: Ending) -> None:
        if how is Ending.KILL:
            self.steps.insert(0, lambda: [Gone(item=item, attempt=1, how="killed by SIGKILL")])

    def events(self, until: float) -> Iterator[EngineEvent]:
        yield from self.steps.pop(0)() if self.steps else self._stop()

    def _stop(self) -> Iterable[EngineEvent]:
        signal.raise_signal(signal.SIGTERM)
        return [Gone(item=self.name, attempt=1, how="exit code 0")] if self.name else []


class Desk:
    """A machine, its submitter, and one attempt."""

    def __init__(self, database: PostgresDatabase, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self.hands = Hands()
        self.attempts = Attempts(database)
        self.mail = Mailbox(self.attempts, RECEIVER)
        self._number = 0
        PostgresRecords(database, project="project").beat("run-1")

    def run(self, job: bytes, *steps: Callable[[], Iterable[EngineEvent]]) -> list[Letter]:
        """Let the machine run an attempt while the steps happen; return what the submitter hears."""
        self.id = self.attempts.make(project="project", run_id="run-1", item="LLD-1", attempt=1, job=job)
        self.hands.steps = [list, *steps, list]
        own = OwnAccess(
            secrets=SECRETS,
            key_providers=KEYS,
            add_key=str,
            providers=lambda _names: {},
            say=lambda _line: None,
        )
        with StopSignals() as signals:
            machine = Machine(
                self._database,
                self.hands,
                name="machine",
                slots=1,
                own=own,
                desks=Tree(self._folder),
                signals=signals,
                say=lambda _line: None,
            )
            machine.submit(self.id)
            machine.run(stop_queue=lambda: None)
        return self.mail.letters()

    def asks(self, number: int, provider: str) -> Callable[[], Iterable[EngineEvent]]:
        wanted = wire.LeaseWanted(number=number, provider=provider, model="model", tokens=10)
        return lambda: [Said(item=str(self.id), attempt=1, message=wanted)]

    def answers(self, message: wire.Message) -> Callable[[], Iterable[EngineEvent]]:
        return self.posts(frames.sealed(message))

    def posts(self, body: bytes) -> Callable[[], Iterable[EngineEvent]]:
        def post() -> Iterable[EngineEvent]:
            self._number += 1
            letter = Letter(attempt=self.id, number=self._number, kind="message", body=body)
            self.attempts.post([letter])
            return []

        return post


@pytest.fixture
def desk(prepared_postgres: str, tmp_path: Path) -> Iterator[Desk]:
    with PostgresDatabase(prepared_postgres, application_name="test") as database:
        yield Desk(database, tmp_path)


def granted(number: int, key: str) -> wire.LeaseGranted:
    return wire.LeaseGranted(number=number, lease=1, key=key, secret=Secret(key, ""))


def gone(letters: Iterable[Letter]) -> GoneLetter:
    (found,) = [letter for letter in letters if letter.kind == "gone"]
    return frames.read_letter(GoneLetter, found.body)


JOB = frames.sealed(make_job())


def test_a_worker_gets_the_key_of_the_provider_that_it_asked_for(desk: Desk) -> None:
    letters = desk.run(JOB, desk.asks(1, "one"), desk.answers(granted(1, "key-1")))
    (lease,) = [message for message in desk.hands.sent if isinstance(message, wire.LeaseGranted)]
    assert lease.secret.reveal() == "sk-key-1-value"
    (wanted,) = [frames.read_for_coordinator(letter.body) for letter in letters if letter.kind == "said"]
    assert isinstance(wanted, wire.LeaseWanted)
    assert wanted.only == ("key-1",)
    assert wanted.fingerprints == (SECRETS["key-1"].fingerprint(b"run-1"),)


def test_a_key_never_goes_to_another_provider(desk: Desk) -> None:
    desk.run(JOB, desk.asks(1, "one"), desk.answers(granted(1, "key-2")))
    (refused,) = [message for message in desk.hands.sent if isinstance(message, wire.LeaseRefused)]
    assert refused.reason == "machine has no key key-2 for one"


@pytest.mark.parametrize(
    "body",
    [
        frames.sealed(granted(7, "key-1")),  # nobody asked
        frames.sealed(wire.Vetted(number=1, secret=None)),
        JOB,
        b'{"type":"lease_refused","number":1,"reason":"%s"}' % (b"x" * 15_999_950),  # longer once it is read
        b"nonsense",
    ],
    ids=["a lease", "a word about secrets", "a job", "too long", "nonsense"],
)
def test_what_a_submitter_may_not_say_ends_its_item_alone(desk: Desk, body: bytes) -> None:
    letters = desk.run(JOB, desk.asks(1, "one"), desk.posts(body))
    assert not [one for one in desk.hands.sent if isinstance(one, wire.LeaseGranted)]
    assert str(gone(letters).broken).startswith("its submitter broke the protocol: ")


@pytest.mark.parametrize(
    "files",
    [{"../x": ""}, {"/tmp/x": ""}, {"a": "", "a/b": ""}, {"": ""}, {"x" * 300: ""}],
    ids=["above", "absolute", "below a file", "no name", "long name"],
)
def test_a_job_with_impossible_files_is_not_the_machines_fault(desk: Desk, files: Mapping[str, str]) -> None:
    letters = desk.run(frames.sealed(make_job(files=dict(files))))
    assert desk.hands.jobs == []
    said = gone(letters)
    assert not said.released
    assert str(said.broken).startswith("its job is invalid: a file ")


def test_what_is_read_at_once_has_a_limit(desk: Desk) -> None:
    """However much lies there, and each letter once and in order."""
    body = b"x" * 7_000_000
    desk.run(JOB)
    attempt = desk.attempts.make(project="project", run_id="run-1", item="LLD-1", attempt=2, job=b"")
    desk.attempts.enter("machine", slots=1, providers=[])
    assert desk.attempts.take(attempt, "machine") is not None
    for number in range(1, 7):
        letter = Letter(attempt=attempt, number=number, kind="said", body=body)
        desk.attempts.report([letter], receivers={attempt: RECEIVER})
    read = [[letter.number for letter in desk.mail.letters()] for _ in range(3)]
    assert read == [[1, 2, 3], [4, 5, 6], []]


def test_a_machine_with_odd_providers_does_not_disturb_the_others(prepared_postgres: str) -> None:
    with PostgresDatabase(prepared_postgres, application_name="test") as database:
        attempts = Attempts(database)
        with database.transaction() as cursor:
            cursor.execute(
                "INSERT INTO agentos_machines (name, slots, version, providers)"
                " VALUES ('odd', 1, '0', '{{a,b},{c,d}}')"
            )
        attempts.enter("machine", slots=1, providers=["one"])
        assert frozenset({"one"}) in {one.providers for one in attempts.machines()}
