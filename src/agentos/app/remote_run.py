"""What a run on other machines uses instead of local processes and files. Only with --engine postgres."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentos.app.db import open_prepared
from agentos.app.item_folder import SubmittersFolder
from agentos.app.project import shared_name
from agentos.app.request import RunRequest
from agentos.engine.job_queue import open_submitter
from agentos.engine.postgres import PostgresEngine
from agentos.errors import StorageError
from agentos.store.key_pool.postgres import PostgresPool
from agentos.store.postgres.attempts import Attempts
from agentos.store.postgres.checkpoints import PostgresCheckpoints
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.records.postgres import ALIVE_SECONDS, BEAT_SECONDS, THIS_PROCESS, PostgresRecords

if TYPE_CHECKING:
    from agentos.coordinator.recorder import RunRecorder
    from agentos.signals import StopSignals

APPLICATION = "agentos submitter"


@dataclass(frozen=True, kw_only=True)
class RemoteRun:
    """The database of a run, and the name of its project there."""

    database: PostgresDatabase
    project: str
    looks_alive: float = ALIVE_SECONDS + 1.0  # how long a killed submitter's claims hold

    def beats(self, run_id: str) -> bool:
        """Whether the submitter of a run has just said that it is alive."""
        records = PostgresRecords(self.database, project=self.project)
        return records.is_alive(run_id, BEAT_SECONDS + 1.0)

    def checkpoints(self, *, mock: bool) -> PostgresCheckpoints:
        return PostgresCheckpoints(database=self.database, project=self.project, mock=mock)

    def pool(self, signals: "StopSignals") -> PostgresPool:
        """Open the state of the keys that all submitters share; a free key wakes the loop."""
        return PostgresPool(self.database.address.url, wake=signals.wake)

    @contextmanager
    def filing_lock(self) -> Iterator[Callable[[], bool]]:
        """A lock that all submitters of the project share; it ends with its connection."""
        with PostgresDatabase(self.database.address.url, application_name=APPLICATION) as database:

            def taken() -> bool:
                with database.session() as connection:
                    found = connection.execute(
                        "SELECT pg_try_advisory_lock(hashtext('agentos filing'), hashtext(%s)) AS taken",
                        (self.project,),
                    ).fetchone()
                return found is not None and bool(found["taken"])

            yield taken

    @contextmanager
    def engine(
        self, request: RunRequest, recorder: "RunRecorder", signals: "StopSignals"
    ) -> Iterator[PostgresEngine]:
        with ExitStack() as stack:
            # A connection of its own: notifications arrive on it while others are in a transaction.
            address = self.database.address.url
            database = stack.enter_context(PostgresDatabase(address, application_name=APPLICATION))
            self.database.say = recorder.say
            folder = SubmittersFolder(
                attempts=Attempts(self.database),
                patiently=self.database.patiently,
                project=self.project,
                flow=request.flow,
                worktree=request.project.worktree,
                folders=request.settings.folders,
            )
            defer = stack.enter_context(open_submitter(self.database))
            yield stack.enter_context(
                PostgresEngine(
                    database,
                    project=self.project,
                    run_id=recorder.run_id,
                    defer=defer,
                    folder=folder,
                    say=recorder.say,
                    wake=signals,
                )
            )


@contextmanager
def open_remote_run(request: RunRequest, run_id: str) -> Iterator[RemoteRun]:
    """Connect to the database, and keep the run alive there; raises ConfigError if it cannot be used."""
    project = request.project
    with open_prepared(project.config.environment, application_name=APPLICATION) as database:
        name = shared_name(project.worktree, project.config.environment)
        with _beating(database.address.url, name, run_id):
            yield RemoteRun(database=database, project=name)


@contextmanager
def _beating(url: str, project: str, run_id: str) -> Iterator[None]:
    """Keep the run alive for others, whatever its loop does. In a thread with a connection of its own."""
    over = threading.Event()

    def beat() -> None:
        with PostgresDatabase(url, application_name=APPLICATION) as database:
            records = PostgresRecords(database, project=project, owner=THIS_PROCESS)
            while not over.is_set():
                with suppress(StorageError):
                    records.beat(run_id)
                over.wait(BEAT_SECONDS)

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(BEAT_SECONDS)
