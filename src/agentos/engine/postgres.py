"""The engine that runs items on other machines, through one PostgreSQL. Coordinator process.

An attempt is a row that a machine takes; its messages are rows, too. A machine that is silent for too long
has lost its attempts: they are over before another one is made, and nothing that they send later counts.
"""

import select
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from agentos import __version__, frames, wire
from agentos.engine.letters import GoneLetter, PrintedLetter
from agentos.engine.local import Wakes
from agentos.engine.protocol import AttemptTaken, Ending, EngineEvent, Gone, Printed, Said, Unable
from agentos.errors import AgentosError, ItemFailed, StartFailed, StorageBusy, StorageError
from agentos.model_access import provider_of, usual_variable
from agentos.store.postgres.attempts import BEAT_SECONDS, Attempts, Letter, Mailbox, channel
from agentos.store.postgres.connection import PostgresDatabase

LOOK_SECONDS = 1.0  # between two looks, if no notification comes
KILL_SECONDS = 5.0  # for a machine to say that a killed worker is gone
ALONE_SECONDS = 5.0  # without any machine, before that is said
KEYLESS_SECONDS = 10.0  # without any machine that has a key, before the run stops: longer than a restart
T = TypeVar("T")


class ItemFolder(Protocol):
    """The submitter's side of an item's files."""

    def send(self, job: wire.Job) -> dict[str, str]:
        """Return the files that the item depends on, by path; raises AgentosError or OSError."""

    def fetch(self, job: wire.Job) -> None:
        """Put in place what its worker has written so far; raises AgentosError or OSError."""


@dataclass(kw_only=True)
class _Remote:
    """An attempt that this run has made."""

    id: int
    job: wire.Job
    machine: str = ""  # empty: still in the queue
    killed_at: float | None = None
    bytes_left: int = frames.WORKER_BYTES_MOST
    messages_left: int = frames.MESSAGES_MOST

    def count(self, letter: Letter) -> None:
        """Hold the worker to what a local one may send."""
        self.bytes_left -= len(letter.body)
        self.messages_left -= 1
        if len(letter.body) > frames.MAX_WORKER_BYTES or min(self.bytes_left, self.messages_left) < 0:
            raise wire.ProtocolError("it sends too much")

    @property
    def item(self) -> str:
        return self.job.item.label

    @property
    def providers(self) -> list[str]:
        return sorted({provider_of(self.job.drafter), provider_of(self.job.reviewer)})


class PostgresEngine:
    """Hands attempts to machines, and reads what happens to them."""

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        project: str,
        run_id: str,
        defer: Callable[[int, Sequence[str]], None],
        folder: ItemFolder,
        say: Callable[[str], None],
        wake: Wakes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._attempts = Attempts(database)
        self._project = project
        self._run_id = run_id
        self._receiver = f"run {project} {run_id}"
        self._defer = defer
        self._folder = folder
        self._say = say
        self._wake = wake
        self._clock = clock
        self._mailbox = Mailbox(self._attempts, self._receiver)
        self._number = 0  # of the last message
        self._open: dict[int, _Remote] = {}
        self._unsent: list[Letter] = []
        self._next_beat = 0.0
        self._away_since: float | None = None  # when the database was lost
        self._alone_since: float | None = None
        self._said_alone = False
        self._keyless_since: float | None = None
        database.listen(channel(self._receiver))

    def start(self, item: str, job: wire.Job) -> int:
        try:
            body = frames.sealed(job.model_copy(update={"files": self._folder.send(job)}))
            made = self._database.patiently(
                lambda: self._attempts.make(
                    project=self._project, run_id=self._run_id, item=item, attempt=job.attempt, job=body
                )
            )
            remote = _Remote(id=made, job=job)
            self._defer(made, remote.providers)
        except wire.ProtocolError as exc:
            raise StartFailed(f"its job cannot be sent: {exc}") from exc
        except (StorageError, OSError) as exc:
            raise StartFailed(str(exc)) from exc
        self._open[made] = remote
        return 0

    def send(self, item: str, message: wire.Message) -> None:
        if (remote := self._of(item)) is not None:
            self._post(remote, "message", frames.sealed(message))

    def end(self, item: str, how: Ending) -> None:
        if (remote := self._of(item)) is None:
            return
        if how is Ending.KILL:
            remote.killed_at = self._clock()
        self._post(remote, "end", how.name.encode())

    def events(self, until: float) -> Iterator[EngineEvent]:
        self._wait(until)
        self._send_rest()
        for letter in self._safely(self._mailbox.letters) or ():
            remote = self._open.get(letter.attempt)
            if remote is not None:
                try:
                    yield from self._event(remote, letter)
                except wire.ProtocolError as exc:
                    yield self._gone(remote, broken=f"its worker broke the protocol: {exc}")
        now = self._clock()
        if now >= self._next_beat:
            self._next_beat = now + BEAT_SECONDS
            yield from self._check_machines(now)
        for remote in [one for one in self._open.values() if self._is_unreachable(one, now)]:
            begun = bool(remote.machine)
            yield self._gone(remote, how="killed" if begun else "no machine had taken it", begun=begun)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """End what is left; the machines see it."""
        for remote in list(self._open.values()):
            with suppress(StorageError):
                self._attempts.over(remote.id)
        self._open.clear()

    # What came.

    def _event(self, remote: _Remote, letter: Letter) -> Iterator[EngineEvent]:
        about: dict[str, Any] = {"item": remote.item, "attempt": remote.job.attempt}
        if letter.kind == "taken":
            remote.machine = letter.body.decode(errors="replace")
            yield AttemptTaken(**about)
        elif letter.kind in {"out", "err"}:
            printed = frames.read_letter(PrintedLetter, letter.body)
            yield Printed(lines=printed.safe_lines(), error=letter.kind == "err", **about)
        elif letter.kind == "said":
            remote.count(letter)
            message = frames.read_for_coordinator(letter.body)
            ended = isinstance(message, wire.NodeEnded | wire.Ended)
            yield (self._fetch(remote) if ended else None) or Said(message=message, **about)
        elif letter.kind == "gone":
            gone = frames.read_letter(GoneLetter, letter.body)
            yield self._fetch(remote) or self._gone(
                remote, how=gone.how, broken=gone.broken, released=gone.released
            )

    def _fetch(self, remote: _Remote) -> EngineEvent | None:
        """Put the item's files in place. If that fails, they stay in the database and the attempt is over."""
        try:
            self._folder.fetch(remote.job)
        except ItemFailed as exc:
            return self._gone(remote, broken=str(exc))
        except (AgentosError, OSError) as exc:
            return self._gone(remote, how=str(exc))  # another attempt may do better
        return None

    def _gone(
        self,
        remote: _Remote,
        *,
        how: str = "",
        broken: str | None = None,
        released: bool = False,
        begun: bool = True,
    ) -> EngineEvent:
        del self._open[remote.id]
        self._safely(lambda: self._attempts.over(remote.id))
        return Gone(
            item=remote.item,
            attempt=remote.job.attempt,
            how=how,
            broken=broken,
            released=released,
            begun=begun,
        )

    def _check_machines(self, now: float) -> Iterator[EngineEvent]:
        """Find the attempts whose machine is gone, and what the others can run."""
        ids = list(self._open)
        if not ids:
            return
        for number, machine in (self._safely(lambda: self._attempts.lost(ids)) or {}).items():
            if (remote := self._open.get(number)) is None:
                continue
            how = f"its machine {machine} is gone" if machine else "it was ended"
            yield self._fetch(remote) or self._gone(remote, how=how)
        alive = self._safely(self._attempts.machines)
        if alive is None:
            return  # the database is away
        machines = [one.providers for one in alive if one.version == __version__]
        yield from self._check_keys(machines, now)
        if machines:
            self._alone_since, self._said_alone = None, False
        elif self._alone_since is None:
            self._alone_since = now
        elif not self._said_alone and now - self._alone_since >= ALONE_SECONDS:
            self._said_alone = True
            self._say(_nobody({one.version for one in alive}))

    def _check_keys(self, machines: Collection[frozenset[str]], now: float) -> Iterator[EngineEvent]:
        """Report that no live machine has a key for a waiting attempt."""
        waiting = next((one for one in self._open.values() if not one.machine), None)
        if waiting is None or not machines or any(one.issuperset(waiting.providers) for one in machines):
            self._keyless_since = None
        elif self._keyless_since is None:
            self._keyless_since = now
        elif now - self._keyless_since >= KEYLESS_SECONDS:
            # Each role's provider, unless a machine has it; two machines may have one each.
            missing = [name for name in waiting.providers if not any(name in one for one in machines)]
            names = missing or waiting.providers
            variables = " and ".join(map(usual_variable, names))
            reason = f"no machine that is running has a usable key for {' and '.join(names)}"
            fix = f"Give one of them a key (such as {variables}), and start 'agentos worker' there again."
            about: dict[str, Any] = {"item": waiting.item, "attempt": waiting.job.attempt}
            yield Unable(reason=reason, fix=fix, **about)

    def _is_unreachable(self, remote: _Remote, now: float) -> bool:
        """Whether nobody will say that a killed worker is gone: nobody has it, or its machine is cut off."""
        if remote.killed_at is None:
            return False
        return not remote.machine or now - remote.killed_at >= KILL_SECONDS

    # The database.

    def _wait(self, until: float) -> None:
        """Wait for a notification, a stop signal or the time; not long: a notification can be lost."""
        seconds = max(0.0, min(until, self._next_beat, self._clock() + LOOK_SECONDS) - self._clock())
        if self._safely(lambda: self._database.notifications(0)):
            return
        watched: list[Any] = [] if self._wake is None else [self._wake]
        socket = self._safely(self._database.fileno)
        select.select([*watched, *([] if socket is None else [socket])], [], [], seconds)
        self._safely(lambda: self._database.notifications(0))

    def _post(self, remote: _Remote, kind: str, body: bytes) -> None:
        self._number += 1
        self._unsent.append(Letter(attempt=remote.id, number=self._number, kind=kind, body=body))
        self._send_rest()

    def _send_rest(self) -> None:
        """Send what is not sent yet, also what could not be sent while the database was away."""
        letters = tuple(self._unsent)

        def post() -> None:
            self._attempts.post(letters)
            self._unsent.clear()

        if letters:
            self._safely(post)

    def _safely(self, action: Callable[[], T]) -> T | None:
        """Work with the database. While it is away, say so once, and return None."""
        try:
            result = action()
        except StorageBusy as exc:
            if self._away_since is None:
                self._away_since = self._clock()
                self._say(f"{exc} Items continue when it is back.")
            return None
        if self._away_since is not None:
            self._away_since = None
            self._say("The database is back.")
        return result

    def _of(self, item: str) -> _Remote | None:
        return next((one for one in self._open.values() if one.item == item), None)


def _nobody(others: Collection[str]) -> str:
    """That no machine takes items; `others` are the versions of those that are alive but cannot."""
    if others:
        return (
            f"No machine can take items: they run agentos {', '.join(sorted(others))}; this is {__version__}."
            " Install the same version; the items wait."
        )
    return "No machine takes items. Run 'agentos worker' on one; the items wait."
