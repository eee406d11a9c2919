"""A worker machine: runs attempts of any submitter in its own processes. Worker machine process.

Its loop takes attempts, relays what their workers say and print, and passes on what the submitters answer.
A worker is the same supervised process as in a local run. What the database must not hold is added here:
keys, headers and proxies are this machine's own.
"""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agentos import frames, redact, wire
from agentos.engine.letters import GoneLetter, PrintedLetter
from agentos.engine.own_access import OwnAccess
from agentos.engine.own_job import own_job
from agentos.engine.protocol import Ending, Engine, EngineEvent, Gone, Printed, Said
from agentos.errors import AgentosError, StorageBusy, StorageError
from agentos.model import counted
from agentos.signals import StopSignals
from agentos.store.postgres.attempts import (
    BEAT_SECONDS,
    DEAD_SECONDS,
    LEFT_SECONDS,
    Attempts,
    Letter,
    Mailbox,
    TakenAttempt,
    channel,
)
from agentos.store.postgres.connection import PostgresDatabase
from agentos.store.rooted_tree import Tree

DRAIN_SECONDS = 2.0  # from asking a worker to stop to SIGKILL
AGAIN_SECONDS = 1.0  # until it is killed again
PAUSE_SECONDS = 5.0  # after an item could not run here
LISTEN_SECONDS = 5.0
T = TypeVar("T")


class NotTakenError(Exception):
    """A machine did not take an attempt that the queue handed over, and will not."""


@dataclass(kw_only=True)
class _Running:
    """An attempt that this machine has taken."""

    taken: TakenAttempt
    attempt: int
    desk: Path
    done: "Future[None]"
    stage_ends: float | None = None  # while it is being ended
    given_back: str = ""  # why this machine does not finish it, which is not the item's fault
    broken: str | None = None  # what its submitter sent that is invalid
    asked: dict[int, str] = field(default_factory=dict)  # the provider of each request for a lease

    @property
    def name(self) -> str:
        return str(self.taken.id)


class Machine:
    """Takes attempts and runs up to `slots` of them."""

    def __init__(
        self,
        database: PostgresDatabase,
        engine: Engine,
        *,
        name: str,
        slots: int,
        own: OwnAccess,
        desks: Tree,
        signals: StopSignals,
        say: Callable[[str], None],
    ) -> None:
        self._database = database
        self._attempts = Attempts(database)
        self._engine = engine
        self.name = name
        self._slots = slots
        self._own = own
        self._desks = desks
        self._signals = signals
        self._say = say
        self._waiting: deque[tuple[int, Future[None]]] = deque()  # handed over by the queue's thread
        self._running: dict[str, _Running] = {}
        self._begun: set[int] = set()  # attempts; a job may be delivered twice
        self._mailbox = Mailbox(self._attempts, name)
        self._number = 0  # of the last message
        self._unsent: list[Letter] = []
        self._receivers: dict[int, str] = {}  # of the unsent, by attempt
        self._next_beat = 0.0
        self._beaten = time.monotonic()
        self._away = False
        self._paused_until = 0.0
        self.draining = False

    def submit(self, attempt: int) -> "Future[None]":
        """Run an attempt; done when it is over, or NotTakenError: another machine has to. From any thread."""
        done: Future[None] = Future()
        if self.draining:
            done.set_exception(NotTakenError())
            return done
        self._waiting.append((attempt, done))  # the loop takes it from the other end
        self._signals.wake()
        return done

    def run(self, *, stop_queue: Callable[[], None]) -> None:
        """Work until a stop signal; then give back what is running."""
        self._safely(self._enter)
        listener = threading.Thread(target=self._listen, name="listener", daemon=True)
        listener.start()
        try:
            while not self.draining or self._running:
                for event in self._engine.events(self._next_deadline()):
                    self._on_event(event)
                for number in self._signals.read():
                    self._on_signal(number, stop_queue)
                self._start_waiting()
                self._exchange(time.monotonic())
                self._advance_endings(time.monotonic())
        finally:
            self._safely(lambda: self._attempts.leave(self.name))

    def _enter(self) -> None:
        self._attempts.enter(self.name, slots=self._slots, providers=self._own.usable())

    def _next_deadline(self) -> float:
        ends = [one.stage_ends for one in self._running.values() if one.stage_ends is not None]
        return min(self._next_beat, *ends) if ends else self._next_beat

    # Attempts.

    def _start_waiting(self) -> None:
        while self.draining and self._waiting:
            self._waiting.popleft()[1].set_exception(NotTakenError())  # the queue offers it to others
        while self._waiting and self._is_free():
            attempt, done = self._waiting[0]
            try:
                taken = self._attempts.take(attempt, self.name)
            except StorageBusy:
                return  # it stays where it is until the database is back
            self._waiting.popleft()
            if taken is None or attempt in self._begun:
                done.set_result(None)
            else:
                self._begun.add(attempt)
                self._start(taken, done)

    def _is_free(self) -> bool:
        return len(self._running) < self._slots and time.monotonic() >= self._paused_until

    def _start(self, taken: TakenAttempt, done: "Future[None]") -> None:
        running = _Running(taken=taken, attempt=0, desk=Path(str(taken.id)), done=done)
        self._running[running.name] = running
        self._post(running, "taken", self.name.encode())
        try:
            job = own_job(taken, self._desks, running.desk, own=self._own, url=self._database.address.url)
            running.attempt = job.attempt
            self._engine.start(running.name, job)
            self._say(f"{job.item.label}: started")
        except (AgentosError, OSError) as exc:
            # The fault is this machine's, so it takes nothing for a while; another one may do better.
            running.given_back = f"it could not be started on {self.name}: {redact.redact(str(exc))}"
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            self._gone(running, how="")
        except wire.ProtocolError as exc:
            self._gone(running, how="", broken=f"its job is invalid: {exc}")

    def _on_event(self, event: EngineEvent) -> None:
        running = self._running.get(event.item)
        if running is None:
            return
        match event:
            case Said(message=message):
                self._on_message(running, message)
            case Printed(lines=lines, error=error):
                self._report(running, "err" if error else "out", PrintedLetter(lines=lines))
            case Gone(how=how, broken=broken):
                self._gone(running, how=how, broken=broken)

    def _on_message(self, running: _Running, message: wire.ToCoordinator) -> None:
        match message:
            case wire.Vet():
                # This process knows the keys of its workers; the submitter need not have them.
                secret = next(
                    (name for text in message.texts if (name := redact.find(text)) is not None), None
                )
                self._engine.send(running.name, wire.Vetted(number=message.number, secret=secret))
            case wire.LeaseWanted():
                running.asked[message.number] = message.provider
                keys = self._own.keys_for(message.provider)
                marks = self._own.fingerprints(keys, run_id=running.taken.run_id)
                own = {"only": keys, "fingerprints": marks}
                self._report(running, "said", message.model_copy(update=own))
            case wire.Ended(status="interrupted") if running.given_back:
                pass  # it is not the item that ended
            case wire.Ended(given_back=True, error=why):
                running.given_back = f"it cannot run on {self.name}: {why}"
                running.stage_ends = time.monotonic() + DRAIN_SECONDS
                self._paused_until = time.monotonic() + PAUSE_SECONDS
            case _:
                self._report(running, "said", message)

    def _gone(self, running: _Running, *, how: str, broken: str | None = None) -> None:
        released = bool(running.given_back)
        said = GoneLetter(how=running.given_back or how, broken=running.broken or broken, released=released)
        self._report(running, "gone", said)
        self._forget(running)

    def _forget(self, running: _Running) -> None:
        self._running.pop(running.name, None)
        with suppress(OSError):
            self._desks.remove_tree(running.desk)
        running.done.set_result(None)

    def _give_back_now(self, running: _Running, why: str) -> None:
        """End the worker at once, and report it: the submitter may still wait."""
        running.given_back = why
        self._engine.end(running.name, Ending.KILL)

    def _drop(self, running: _Running) -> None:
        """The attempt is over for its submitter: end its worker, report nothing."""
        self._unsent = [letter for letter in self._unsent if letter.attempt != running.taken.id]
        self._engine.end(running.name, Ending.KILL)
        self._forget(running)

    # Ending.

    def _on_signal(self, number: int, stop_queue: Callable[[], None]) -> None:
        if self.draining:
            for running in self._running.values():
                self._engine.end(running.name, Ending.KILL)
            return
        self.draining = True
        stop_queue()
        left = counted(len(self._running), "running item")
        self._say(
            f"{signal.Signals(number).name}: {f'giving back {left}' if self._running else 'shutting down'}"
        )
        for running in self._running.values():
            self._give_back(running, f"{self.name} is shutting down")

    def _give_back(self, running: _Running, why: str) -> None:
        """Have the worker save and stop; it does not count as crashed, and another machine continues."""
        running.given_back = why
        self._engine.send(running.name, wire.Drain(reason="its machine gives it back"))
        running.stage_ends = time.monotonic() + DRAIN_SECONDS

    def _advance_endings(self, now: float) -> None:
        for running in self._running.values():
            if running.stage_ends is not None and now >= running.stage_ends:
                running.stage_ends = now + AGAIN_SECONDS
                self._engine.end(running.name, Ending.KILL)

    # The database.

    def _exchange(self, now: float) -> None:
        """Send what is unsent, receive, and say that this machine is alive."""
        if self._unsent:
            letters = tuple(self._unsent)
            stale = self._safely(lambda: self._attempts.report(letters, receivers=self._receivers))
            if stale is not None:
                del self._unsent[: len(letters)]
                self._receivers = {}
                self._drop_all(stale)
        for letter in self._safely(self._mailbox.letters) or ():
            self._on_letter(letter)
        if now >= self._next_beat:
            self._next_beat = now + BEAT_SECONDS
            self._beat(now)

    def _beat(self, now: float) -> None:
        ids = [one.taken.id for one in self._running.values()]

        def beat() -> frozenset[int]:
            if not self._attempts.beat(self.name, providers=self._own.usable()):
                self._enter()
            return self._attempts.current(ids, self.name)

        current = self._safely(beat)
        mine = [one for one in self._running.values() if not one.given_back]
        if current is not None:
            self._beaten = now
            if lost := [one for one in mine if one.taken.id not in current]:
                ended = counted(len(lost), "running item")
                self._say(f"Ending {ended}: the submitter is unreachable or has ended them")
                for running in lost:
                    self._give_back_now(
                        running, f"{self.name} has not heard from its run for {LEFT_SECONDS:g} s"
                    )
        elif now - self._beaten >= DEAD_SECONDS and mine:
            # By now others may have taken over; what these workers do would only cost money.
            self._say(
                f"The database was away for {DEAD_SECONDS:g} s; ending {counted(len(mine), 'running item')}"
            )
            for running in mine:
                self._give_back_now(running, f"{self.name} lost the database")

    def _drop_all(self, attempts: Iterable[int]) -> None:
        for number in attempts:
            if (running := self._running.get(str(number))) is not None:
                self._drop(running)

    def _on_letter(self, letter: Letter) -> None:
        running = self._running.get(str(letter.attempt))
        if running is None:
            return
        if letter.kind == "end":
            with suppress(KeyError):
                self._engine.end(running.name, Ending[letter.body.decode(errors="replace")])
            return
        try:
            self._pass_on(running, frames.read_for_worker(letter.body))
        except wire.ProtocolError as exc:
            running.broken = f"its submitter broke the protocol: {exc}"
            self._engine.end(running.name, Ending.KILL)

    def _pass_on(self, running: _Running, message: wire.ToWorker) -> None:
        """Give a worker what its submitter answers, with the key that only this machine has."""
        if isinstance(message, wire.Job | wire.Vetted):
            raise wire.ProtocolError(f"{message.type} is not for a running worker")
        if isinstance(message, wire.LeaseRefused):
            provider = running.asked.pop(message.number, None)
            if message.elsewhere and message.elsewhere == provider:
                self._own.block(provider, message.reason)
                self._give_back(running, f"{self.name} has no usable key for {provider}")
                return
        if isinstance(message, wire.LeaseGranted):
            # A key goes only where it belongs, whatever the database says.
            provider = running.asked.pop(message.number, None)
            if provider is None:
                raise wire.ProtocolError("a lease that nobody asked for")
            if message.key not in self._own.keys_for(provider):
                reason = f"{self.name} has no key {message.key} for {provider}"
                message = wire.LeaseRefused(number=message.number, reason=reason)
            else:
                message = message.model_copy(update={"secret": self._own.secrets[message.key]})
        self._engine.send(running.name, message)

    def _report(self, running: _Running, kind: str, message: wire.Message) -> None:
        self._post(running, kind, frames.sealed(message))

    def _post(self, running: _Running, kind: str, body: bytes) -> None:
        self._receivers[running.taken.id] = f"run {running.taken.project} {running.taken.run_id}"
        self._number += 1
        self._unsent.append(Letter(attempt=running.taken.id, number=self._number, kind=kind, body=body))

    def _safely(self, action: Callable[[], T]) -> T | None:
        """Work with the database; None while it is away."""
        try:
            result = action()
        except StorageBusy as exc:
            if not self._away:
                self._away = True
                self._say(str(exc))
            return None
        if self._away:
            self._away = False
            self._say("The database is back.")
        return result

    def _listen(self) -> None:
        """Wake the loop when a message arrives. In a thread, with a connection of its own."""
        with PostgresDatabase(self._database.address.url, application_name="agentos worker") as database:
            while True:
                try:
                    database.listen(channel(self.name))
                    while True:
                        if database.notifications(LISTEN_SECONDS):
                            self._signals.wake()
                except StorageError:
                    time.sleep(BEAT_SECONDS)
