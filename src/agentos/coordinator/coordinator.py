"""The coordinator's loop: events come in, the scheduler and the pool decide, the supervisor acts.

One thread. It sleeps until a worker speaks, a worker dies, a signal comes or a deadline passes.
"""

import contextlib
import selectors
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentos import wire
from agentos.console.console import REFRESH_SECONDS, Console
from agentos.console.prefixer import OutputPrefixer
from agentos.coordinator import scheduler as decisions
from agentos.coordinator.accounts import Accounts
from agentos.coordinator.book import RunBook, Tally
from agentos.coordinator.job import ParallelRunConfig, make_job
from agentos.coordinator.keys import KeyService
from agentos.coordinator.plan import Entry
from agentos.coordinator.purse import Answer
from agentos.coordinator.scheduler import Action, Scheduler, Stop
from agentos.coordinator.signals import StopSignals
from agentos.coordinator.supervisor import StartFailed, Supervisor
from agentos.coordinator.watch import PoolWatch, view
from agentos.coordinator.worker import STACKS_SIGNAL, Worker
from agentos.credentials import events as pool
from agentos.model import Status
from agentos.redact import find, redact
from agentos.tracing.run import RunTrace

STOP_WORDS = {
    Stop.INTERRUPTED: "interrupted; stopping, what was done is saved (again: at once)",
    Stop.TERMINATED: "terminated; stopping, what was done is saved",
    Stop.RUN_TIMEOUT: "the time of --run-timeout is over; stopping, the same command goes on",
    Stop.FAIL_FAST: "an item failed and --fail-fast is set; stopping",
    Stop.QUOTA: "no key within the time to wait; stopping, the same command goes on",
    Stop.BUDGET: "the budget is reached; stopping, the same command with more goes on",
    Stop.NO_KEY: "no key can be used any more; stopping",
    Stop.STORAGE: "records cannot be written; stopping",
}
LONGEST_SLEEP = 3600.0  # the kernel takes no wait of months
_LAST_READS = 64  # of a dead worker's stream: more than a pipe can hold
_STREAM_READS = 16  # parts of one stream read in a row before the others get their turn


@dataclass(kw_only=True, eq=False)
class Running:
    """What the coordinator knows of one item of the run."""

    entry: Entry
    worker: Worker | None = None
    streams: dict[int, OutputPrefixer] = field(default_factory=dict)
    ended: wire.Ended | None = None
    node: str = ""
    node_since: float | None = None
    reviews: int = 0
    detail: str = ""  # the key in use, or what it waits for
    until: float | None = None  # when that wait ends, if somebody knows
    waiting_since: float | None = None
    greeted: bool = False  # its worker has said hello
    broken: str | None = None  # why its worker is not heard any more, and the item ends
    muted: bool = False  # its output goes to the log alone: what is left of it are stacks
    over_budget: str | None = None  # why it may make no more calls in this run
    tally: Tally = field(default_factory=Tally)

    @property
    def label(self) -> str:
        return self.entry.item.label


class ParallelCoordinator:
    """Runs the entries of a plan."""

    def __init__(
        self,
        config: ParallelRunConfig,
        plan: Sequence[Entry],
        *,
        supervisor: Supervisor,
        keys: KeyService,
        book: RunBook,
        console: Console,
        signals: StopSignals,
        accounts: Accounts,
        trace: RunTrace,
    ) -> None:
        self._config = config
        self._accounts = accounts
        self._trace = trace
        self._held: list[tuple[Running, wire.LeaseWanted]] = []  # calls that the budget may have no room for
        self._signals = signals
        self._plan = plan
        self._supervisor = supervisor
        self._keys = keys
        self._book = book
        self._console = console
        self._selector = selectors.DefaultSelector()
        self._items = {entry.item.label: Running(entry=entry) for entry in plan if entry.runs}
        self._scheduler = Scheduler(
            items=tuple(self._items),
            parallel=config.parallel,
            timeout=config.timeout,
            run_ends=None if config.run_timeout is None else book.started + config.run_timeout,
            fail_fast=config.fail_fast,
        )
        self._models = frozenset({config.drafter, config.reviewer})
        self._watch = PoolWatch(book, max_wait=config.max_wait)
        self._next_refresh = 0.0
        self._stop_announced = self._at_once = False
        self._pool_changed = True

    def run(self) -> Stop | None:
        """Carry the plan out, and tell why it was stopped early, if it was; no worker is left."""
        self._book.event(
            "run_started",
            run_id=self._book.run_id,
            items=len(self._plan),
            parallel=self._config.parallel,
            mock=self._book.mock,
        )
        for entry in self._plan:
            if not entry.runs:
                self._book.pass_by(entry)
        self._selector.register(self._signals, selectors.EVENT_READ, (self._on_signal, None, None))
        try:
            self._take(self._keys.advance(time.monotonic()))
            self._look_at_pool(time.monotonic())
            self._on_signal()
            self._act(self._scheduler.fill(time.monotonic()))
            while not self._scheduler.done:
                self._turn()
        finally:
            self._announce_stop()
            self._console.close()
            self._selector.close()
            for running in self._items.values():
                if running.worker is not None:
                    self._supervisor.end(running.worker)
                    self._supervisor.bury(running.worker)
        self._book.guard(self._keys.save, time.monotonic())
        return self._scheduler.stopping

    def _turn(self) -> None:
        """Sleep until something happens, then do what it asks for."""
        now = time.monotonic()
        deadlines = [self._scheduler.next_deadline(), self._keys.next_wake(now)]
        if self._scheduler.stopping is None:
            deadlines.append(self._watch.deadline())
        if self._console.live:
            deadlines.append(self._next_refresh)
        due = min((one for one in deadlines if one is not None), default=None)
        for key, mask in self._selector.select(
            LONGEST_SLEEP if due is None else min(LONGEST_SLEEP, max(0.0, due - now))
        ):
            handle, running, worker = key.data
            if worker is None:
                handle(running, worker, key.fd, mask)
            elif not worker.closed:
                self._contained(handle, running, worker, key.fd, mask)
        now = time.monotonic()
        self._take(self._keys.advance(now))
        if self._scheduler.stopping is None:
            due = self._watch.deadline()
            if self._pool_changed or (due is not None and now >= due):
                self._look_at_pool(now)
            if self._book.storage_error is not None:
                self._stop(Stop.STORAGE)
        self._act(self._scheduler.tick(now))
        self._announce_stop()
        if self._console.live and now >= self._next_refresh:
            self._next_refresh = now + REFRESH_SECONDS
            self._console.show(
                view(
                    self._book,
                    self._items.values(),
                    total=len(self._plan),
                    notice=self._watch.notice(now),
                    now=now,
                )
            )

    def _contained(
        self, handle: Callable[..., None], running: Running, worker: Worker, fd: int, mask: int
    ) -> None:
        """Handle what came from one worker; whatever goes wrong there ends that item, never the run."""
        try:
            handle(running, worker, fd, mask)
        except Exception as exc:  # noqa: BLE001 - the last line of defence
            self._break(running, exc)
            if not worker.closed:
                try:
                    self._on_death(running, worker, fd, mask)
                except Exception as again:  # noqa: BLE001
                    self._break(running, again)
                    self._abandon(running, worker)

    def _break(self, running: Running, exc: Exception) -> None:
        """Hear nothing more of an item's worker; the item fails with this."""
        if isinstance(exc, wire.ProtocolError):
            told = f"its worker sent what makes no sense: {exc}"
        else:
            told = f"unexpected {type(exc).__name__} while its worker was heard; details are in its log"
            for line in "".join(traceback.format_exception(exc)).splitlines():
                self._book.log(running.label, line)
        running.broken = running.broken or told

    def _abandon(self, running: Running, worker: Worker) -> None:
        """Let go of a worker that could not even be buried in order."""
        for descriptor in (worker.control.fileno(), worker.process.sentinel, worker.out, worker.err):
            with contextlib.suppress(KeyError, ValueError, OSError):
                self._selector.unregister(descriptor)
        with contextlib.suppress(Exception):
            self._supervisor.bury(worker)
        running.worker, running.streams = None, {}
        self._held = [one for one in self._held if one[0] is not running]
        if running.label in self._scheduler.running:
            now = time.monotonic()
            self._act(self._scheduler.gone(running.label, now, status=Status.FAILED, error=running.broken))

    def _look_at_pool(self, now: float) -> None:
        self._pool_changed = False
        snapshot = self._keys.snapshot(now)
        self._scheduler.allowed = self._watch.allowed(snapshot, self._config.parallel)
        if (stop := self._watch.look(snapshot, now)) is not None:
            self._stop(stop)

    def _on_signal(self, _running: None = None, _worker: None = None, _fd: int = -1, _mask: int = 0) -> None:
        for number in self._signals.read():
            if self._scheduler.stopping in {Stop.INTERRUPTED, Stop.TERMINATED} and not self._at_once:
                self._at_once = True
                self._book.say("ending at once")
            self._stop(Stop.INTERRUPTED if number == signal.SIGINT else Stop.TERMINATED)

    def _stop(self, reason: Stop) -> None:
        self._act(self._scheduler.stop(reason, time.monotonic()))

    def _announce_stop(self) -> None:
        if self._scheduler.stopping is not None and not self._stop_announced:
            self._stop_announced = True
            self._book.event("stopping", reason=self._scheduler.stopping.value)
            self._book.say(STOP_WORDS[self._scheduler.stopping])

    # What the scheduler decided.

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            running = self._items[action.item]
            worker = running.worker
            match action:
                case decisions.Start():
                    self._start(running)
                case decisions.Again(attempt=attempt, error=error):
                    self._book.event("crashed", item=running.entry.item.id, attempt=attempt, error=error)
                    self._book.say(
                        f"{action.item}: worker died ({error}), attempt {attempt} of {decisions.MAX_ATTEMPTS}"
                    )
                case decisions.Finish(status=status, error=error):
                    try:
                        self._finish(running, status, error)
                    except Exception as exc:  # noqa: BLE001 - the actions of other items follow
                        self._break(running, exc)
                        self._book.lost(running.entry, running.broken or "")
                case decisions.Drain() if worker is not None:
                    self._send(running, wire.Drain(reason=self._scheduler.stopping or "stop"))
                case decisions.PrintStacks() if worker is not None:
                    self._book.say(f"{action.item}: no end after {self._config.timeout:g} s, killing it")
                    running.muted = True
                    worker.signal(STACKS_SIGNAL)
                case decisions.Terminate() if worker is not None:
                    worker.signal_group(signal.SIGTERM)
                case decisions.Kill() if worker is not None:
                    worker.signal_group(signal.SIGKILL)

    def _start(self, running: Running) -> None:
        attempt = running.tally.attempts = self._scheduler.attempts[running.label]
        if attempt == 1:
            self._book.begin(running.entry)
            running.tally.began = time.monotonic()
        try:
            worker = running.worker = self._supervisor.start(running.label)
        except StartFailed as exc:
            self._act(self._scheduler.gone(running.label, time.monotonic(), status=None, error=str(exc)))
            return
        running.ended, running.node, running.detail, running.until = None, "", "", None
        running.greeted = False
        running.streams = {stream: OutputPrefixer(redact) for stream in (worker.out, worker.err)}
        self._selector.register(worker.control, selectors.EVENT_READ, (self._on_control, running, worker))
        self._selector.register(
            worker.process.sentinel, selectors.EVENT_READ, (self._on_death, running, worker)
        )
        for stream in running.streams:
            self._selector.register(stream, selectors.EVENT_READ, (self._on_output, running, worker))
        self._book.event(
            "started", item=running.entry.item.id, label=running.label, attempt=attempt, pid=worker.pid
        )
        trace = self._trace.item_started(running.label, item_id=running.entry.item.id, attempt=attempt)
        database = self._book.checkpoint(running.entry)
        job = make_job(
            self._config,
            running.entry,
            run_id=self._book.run_id,
            attempt=attempt,
            database=database,
            trace=trace,
        )
        self._send(running, job)

    def _finish(self, running: Running, status: Status, error: str | None) -> None:
        ended = running.ended
        if status is Status.PAUSED and error is None:
            over = self._scheduler.stopping is Stop.BUDGET
            error = (
                f"the budget is reached: {self._accounts.purse.told()}"
                if over
                else self._watch.reason or None
            )
        error = None if status is Status.APPROVED else error
        verdict = ended.verdict if ended else None
        reviews = ended.reviews if ended and ended.reviews else running.reviews
        self._trace.item_ended(
            running.label, status=status.value, verdict=verdict, reviews=reviews, error=error
        )
        self._book.finish(
            running.entry,
            status,
            running.tally,
            attempts=self._scheduler.attempts.get(running.label, 0),
            error=error,
            verdict=verdict,
            reviews=reviews,
            output=ended.output if ended else None,
            noted=ended.noted if ended else None,
        )

    # What workers say.

    def _on_control(self, running: Running, worker: Worker, _fd: int, mask: int) -> None:
        if mask & selectors.EVENT_WRITE and not worker.flush():
            self._selector.modify(worker.control, selectors.EVENT_READ, (self._on_control, running, worker))
        if not mask & selectors.EVENT_READ:
            return
        messages = worker.receive()
        if messages is None:
            # The end of file is death, whatever is said of the process: the server may be stopped, or dead.
            self._on_death(running, worker, _fd, mask)
            return
        for message in messages:
            self._hear(running, message)

    def _hear(self, running: Running, message: wire.ToCoordinator) -> None:  # noqa: C901 - a case a message
        now = time.monotonic()
        entry, tally = running.entry, running.tally
        self._scheduler.heard(running.label, now)
        match message:
            case wire.Hello():
                if running.greeted:
                    raise wire.ProtocolError("a second greeting")
                running.greeted = True
                self._scheduler.ready(running.label, now)
                self._book.event(
                    "ready", item=entry.item.id, pid=message.pid, resumed=message.resumed, warm=message.warm
                )
            case wire.NodeStarted(node=node, reviews=reviews):
                running.node, running.reviews, running.detail = node, reviews, ""
                running.node_since = now
                self._trace.node_started(running.label, node, reviews=reviews)
                self._book.at_node(entry, node, reviews)
            case wire.NodeEnded(node=node, seconds=seconds):
                tally.busy += seconds
                running.node_since = None
                self._trace.node_ended(running.label, node, seconds=seconds)
            case wire.LeaseWanted():
                running.waiting_since, running.until = now, None
                self._scheduler.waiting(running.label, now)
                self._ask(running, message, now)
            case wire.Vet():
                self._vet(running, message)
            case wire.Settled():
                self._settle(running, message, now)
            case wire.Waiting(seconds=seconds, reason=reason):
                running.detail, running.until = f"tries again, {reason}", now + seconds
                self._book.event("retrying", item=entry.item.id, seconds=round(seconds, 3), reason=reason)
                self._book.say(f"{running.label}: tries again in {seconds:.0f} s: {reason}")
            case wire.Audit(record=record) | wire.PaidBefore(record=record):
                self._audit(running, record, again=isinstance(message, wire.PaidBefore))
            case wire.Ended():
                running.ended = message

    def _vet(self, running: Running, message: wire.Vet) -> None:
        secret = next((name for text in message.texts if (name := find(text)) is not None), None)
        self._send(running, wire.Vetted(number=message.number, secret=secret))

    def _settle(self, running: Running, message: wire.Settled, now: float) -> None:
        tally = running.tally
        tally.tokens_in += message.tokens_in
        tally.tokens_out += message.tokens_out
        running.detail = ""
        usd = self._accounts.settled(running.entry, tally, message)
        self._trace.call_ended(
            running.label,
            lease=message.lease,
            tokens_in=message.tokens_in,
            tokens_out=message.tokens_out,
            error=message.error,
            served=message.served,
            cost_usd=usd,
        )
        self._take(self._keys.settle(running.label, message, now))
        self._ask_again(now)

    def _audit(self, running: Running, record: dict[str, Any], *, again: bool) -> None:
        entry, attempt = running.entry, self._scheduler.attempts[running.label]
        if record.get("kind") == "verdict":
            self._trace.verdict(
                running.label,
                review=record["review"],
                verdict=record["verdict"],
                findings=len(record["findings"]),
            )
        if record.get("kind") == "call":
            record = self._accounts.recorded(entry, running.tally, record, again=again)
        if again:
            self._book.audit_once(entry, attempt, record)
        else:
            self._book.audit(entry, attempt, record)

    def _ask(self, running: Running, wanted: wire.LeaseWanted, now: float) -> None:
        """Pass a call on to the key pool, if there is money for it."""
        if f"{wanted.provider}:{wanted.model}" not in self._models:
            raise wire.ProtocolError("a call of a model that is not the run's")
        purse = self._accounts.purse
        match self._accounts.ask(running.label, wanted):
            case Answer.YES:
                self._take(self._keys.request(running.label, wanted, now))
            case Answer.LATER:
                running.detail = "waits: calls under way may use up the budget"
                self._held.append((running, wanted))
            case Answer.ITEM_OVER:
                running.over_budget = running.detail = purse.told_of(running.label)
                self._send(running, wire.Drain(reason="its budget is reached"))
            case Answer.RUN_OVER if self._scheduler.stopping is None:
                self._book.event("budget_reached", spent=purse.spent, carried=purse.carried)
                self._book.say(f"the budget is reached: {purse.told()}")
                self._stop(Stop.BUDGET)

    def _ask_again(self, now: float) -> None:
        """A call is over: what it did not use may be enough for those that were held back."""
        held, self._held = self._held, []
        for running, wanted in held:
            if self._scheduler.stopping is None:
                self._ask(running, wanted, now)

    def _take(self, events: Sequence[pool.Event]) -> None:
        """Carry out what the key pool decided, and let the watch announce it."""
        self._pool_changed = self._pool_changed or bool(events)
        for event in events:
            running = self._items.get(getattr(event, "item", ""))
            self._watch.announce(event, None if running is None else running.entry.item.id)
            self._book.guard(self._keys.note, event, event.at)
            if running is None or running.worker is None:
                continue
            match event:
                case pool.Granted():
                    self._accounts.granted(event)
                    self._trace.call_started(
                        running.label,
                        lease=event.lease,
                        provider=event.provider,
                        model=event.model,
                        key=event.key,
                        waited=event.waited,
                    )
                    self._stop_waiting(running, event.at)
                    running.detail, running.until = event.key, None
                    self._send(running, self._keys.answer(event))
                case pool.Waiting(reason=reason, until=until):
                    running.detail, running.until = f"waits: {reason}", until
                case pool.Refused():
                    self._send(running, wire.LeaseRefused(number=event.number, reason=event.reason))
                    self._stop(Stop.NO_KEY)
                case pool.LeaseExpired():
                    self._book.say(f"{running.label}: its call did not come back in time; ending its worker")
                    running.worker.signal_group(signal.SIGKILL)

    def _stop_waiting(self, running: Running, now: float) -> None:
        if running.waiting_since is not None:
            running.tally.waited += now - running.waiting_since
            running.waiting_since = None
            self._scheduler.served(running.label, now)

    def _on_output(self, running: Running, worker: Worker, stream: int, _mask: int) -> None:
        if self._pass_on(running, worker, stream, _STREAM_READS):
            self._selector.unregister(stream)

    def _pass_on(self, running: Running, worker: Worker, stream: int, reads: int) -> bool:
        """Show what the worker printed, up to so many parts; tell whether the stream has ended."""
        lines: list[str] = []
        data: bytes | None = b"-"
        for _ in range(reads):
            data = worker.read_stream(stream)
            if not data:
                break
            lines += running.streams[stream].feed(data)
        self._book.output(running.label, lines, error=stream == worker.err, shown=not running.muted)
        return data is None

    def _on_death(self, running: Running, worker: Worker, _fd: int, _mask: int) -> None:
        """A worker's process is gone: hear its last words, bury it, decide."""
        self._supervisor.end(worker)
        try:
            for message in worker.last_words() if running.broken is None else ():
                self._hear(running, message)
        except Exception as exc:  # noqa: BLE001 - its words are done with, its end is not
            self._break(running, exc)
        for stream, prefixer in running.streams.items():
            self._pass_on(running, worker, stream, _LAST_READS)
            self._book.output(
                running.label, prefixer.close(), error=stream == worker.err, shown=not running.muted
            )
        for descriptor in (worker.control.fileno(), worker.process.sentinel, *running.streams):
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
        died = self._supervisor.bury(worker)
        self._trace.worker_gone(running.label, error=died if running.ended is None else None)
        now = time.monotonic()
        running.worker, running.streams = None, {}
        if running.node_since is not None:
            running.tally.busy += now - running.node_since
            running.node_since = None
        self._stop_waiting(running, now)
        self._take(self._keys.pool.drop(running.label, now))
        self._accounts.drop(running.entry, running.tally)
        self._held = [one for one in self._held if one[0] is not running]
        ended = running.ended
        status = None if ended is None else Status(ended.status)
        error = died if ended is None else ended.error
        if running.broken is not None:
            status, error = Status.FAILED, running.broken
        elif running.over_budget is not None and status is Status.INTERRUPTED:
            status, error = Status.PAUSED, running.over_budget
        self._ask_again(now)
        self._act(self._scheduler.gone(running.label, now, status=status, error=error))

    def _send(self, running: Running, message: wire.Message) -> None:
        worker = running.worker
        if worker is not None and worker.send(message):
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            with contextlib.suppress(KeyError):  # its end of file was seen; it is as good as dead
                self._selector.modify(worker.control, both, (self._on_control, running, worker))
