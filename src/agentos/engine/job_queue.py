"""The queue of attempts, on procrastinate: submitters put numbers of attempts in, machines take them out.

The queue only says that there is something to do. Who has an attempt, and whether it is over, is in our own
table: a job that is delivered twice, or late, finds its attempt taken. Submitter and worker machine.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from procrastinate import App, PsycopgConnector, RetryStrategy, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Status

from agentos import __version__
from agentos.engine.machine import NotTakenError
from agentos.errors import StorageBusy, StorageError
from agentos.redact import redact
from agentos.store.postgres.attempts import BEAT_SECONDS, DEAD_SECONDS, Attempts
from agentos.store.postgres.connection import CLIENT_SETTINGS, PostgresDatabase

if TYPE_CHECKING:
    from concurrent.futures import Future

QUEUE, SWEEP_QUEUE = (
    f"agentos {__version__}",
    "agentos-sweep",
)  # a machine of another version cannot read the jobs
TASK, SWEEP_TASK = "agentos.run_attempt", "agentos.sweep"
SWEEP_SECONDS, FORGET_EVERY = 5, 3_600
SWEEP_EVERY = f"* * * * * */{SWEEP_SECONDS}"  # procrastinate's cron: the last field is the second
POLL_SECONDS = 1.0
AGAIN_SECONDS = 1.0  # before a queue whose connection broke is opened again
PASSED_ON_SECONDS = 2.5  # a slot is idle after passing a job on: longer than others wait between two looks
PROVIDERS_MOST = 10  # of one job; items have two roles
T = TypeVar("T")


@contextmanager
def open_submitter(database: PostgresDatabase) -> Iterator[Callable[[int, Sequence[str]], None]]:
    """Yield a function that puts an attempt and its providers into the queue; it may raise StorageBusy."""
    _silence_libraries()
    app = App(
        connector=SyncPsycopgConnector(
            conninfo=database.address.url, min_size=1, max_size=1, kwargs=CLIENT_SETTINGS
        )
    )

    def defer(attempt: int, providers: Sequence[str]) -> None:
        def once() -> None:
            try:
                task = app.configure_task(TASK, allow_unknown=True, queue=QUEUE)
                task.defer(attempt=attempt, providers=list(providers))
            except ConnectorException as exc:
                raise StorageBusy(f"Cannot use the database {database.name}: {redact(str(exc))}.") from exc

        database.patiently(once)  # twice does no harm

    with app.open():
        yield defer


def _silence_libraries() -> None:
    """While the database is away, they print a line each second. What matters is said by us, once."""
    for name in ("procrastinate", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class QueueThread:
    """Takes attempts out of the queue, in a thread with an event loop of its own."""

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        slots: int,
        serves: Callable[[Sequence[str]], bool],
        submit: Callable[[int], "Future[None]"],
    ) -> None:
        self._url = database.address.url
        self._slots = slots
        self._serves = serves
        self._submit = submit
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="queue", daemon=True)

    def start(self) -> None:
        _silence_libraries()
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more. What was taken continues."""
        self._stopping.set()
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: _cancel_once(self._workers))

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(Exception):  # a lost connection ends a procrastinate worker; another one is made
                asyncio.run(self._work())
            self._stopping.wait(AGAIN_SECONDS)

    async def _work(self) -> None:
        app = self._app()
        async with app.open_async():
            self._loop = asyncio.get_running_loop()
            # This worker cannot remove a job that ended while the database was away; that is harmless.
            self._loop.set_exception_handler(lambda *_: None)
            how = {
                "install_signal_handlers": False,
                "fetch_job_polling_interval": POLL_SECONDS,
                "update_heartbeat_interval": BEAT_SECONDS,
                "stalled_worker_timeout": DEAD_SECONDS,
                "delete_jobs": "always",
            }
            self._workers = [
                asyncio.create_task(
                    app.run_worker_async(queues=[queue], concurrency=slots, **how)  # type: ignore[arg-type]
                )
                for queue, slots in ((QUEUE, self._slots), (SWEEP_QUEUE, 1))
            ]
            if self._stopping.is_set():
                return
            done, rest = await asyncio.wait(self._workers, return_when=asyncio.FIRST_COMPLETED)
            _cancel_once(rest)
            await asyncio.gather(*done, *rest, return_exceptions=True)

    def _app(self) -> App:
        app = App(
            connector=PsycopgConnector(conninfo=self._url, min_size=1, max_size=4, kwargs=CLIENT_SETTINGS)
        )

        @app.task(name=TASK, queue=QUEUE, retry=RetryStrategy(retry_exceptions=[NotTakenError]))
        async def run_attempt(attempt: int, providers: Sequence[str] = ()) -> None:
            if not _is_job(attempt, providers):
                return
            if not self._serves(providers):
                if await _waits(self._url, attempt):
                    await _pass_on(app, attempt, providers)
                return
            await asyncio.shield(asyncio.wrap_future(self._submit(attempt)))

        @app.periodic(cron=SWEEP_EVERY)
        @app.task(name=SWEEP_TASK, queue=SWEEP_QUEUE, queueing_lock=SWEEP_TASK)
        async def sweep(timestamp: int) -> None:
            await _sweep(app, self._url)
            if timestamp % FORGET_EVERY < SWEEP_SECONDS:
                await asyncio.to_thread(_with_attempts, self._url, Attempts.forget_old)

        return app


def _cancel_once(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Ask workers to end. One that is cancelled again does not wait for its jobs."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()


async def _pass_on(app: App, attempt: int, providers: Sequence[str]) -> None:
    """Put a job back that this machine cannot run; then let other machines look first.

    A machine that looked again at once might always be the first, and the job would never get any further.
    """
    while True:
        with suppress(ConnectorException):
            await app.configure_task(TASK, queue=QUEUE).defer_async(
                attempt=attempt, providers=list(providers)
            )
            break
        await asyncio.sleep(AGAIN_SECONDS)
    await asyncio.sleep(PASSED_ON_SECONDS)


async def _sweep(app: App, url: str) -> None:
    """Remove the jobs of dead machines, and queue those again that they had not begun."""
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_SECONDS):
        if not job.queue.startswith("agentos"):
            continue
        with suppress(ConnectorException):
            if await _waits(url, job.task_kwargs.get("attempt")):
                await app.job_manager.retry_job(job)
            else:
                await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)


def _is_job(attempt: object, providers: object) -> bool:
    """Whether this is what a submitter puts into the queue; others can write there, too."""
    if type(attempt) is not int or not 0 < attempt < 2**63:
        return False
    if not isinstance(providers, list | tuple) or len(providers) > PROVIDERS_MOST:
        return False
    return all(isinstance(one, str) for one in providers)


async def _waits(url: str, attempt: object) -> bool:
    if not _is_job(attempt, ()):
        return False  # a sweep, or nonsense
    assert isinstance(attempt, int)
    try:
        return await asyncio.to_thread(_with_attempts, url, lambda attempts: attempts.waits(attempt))
    except StorageError:
        return True  # the database is away: whoever asks later finds out


def _with_attempts(url: str, action: Callable[[Attempts], T]) -> T:
    with PostgresDatabase(url, application_name="agentos sweep") as database:
        return action(Attempts(database))
