"""The coordinator's loop: events come in, the scheduler decides, the engine acts, the recorder writes.

One thread. It sleeps until the engine has an event, a stop signal arrives or a deadline passes. It owns no
process and no socket: see `engine/protocol.py`.
"""

import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Protocol

from agentos import wire
from agentos.console.console import REFRESH_SECONDS, Console
from agentos.coordinator import scheduler as decisions
from agentos.coordinator.calls import CallActions, Calls
from agentos.coordinator.job import ParallelRunConfig, make_job, run_started
from agentos.coordinator.keys import KeyService
from agentos.coordinator.plan import PlannedItem
from agentos.coordinator.pool_watch import PoolWatch, view
from agentos.coordinator.recorder import RunRecorder
from agentos.coordinator.refusals import Refusals
from agentos.coordinator.running_item import RunningItem
from agentos.coordinator.scheduler import Action, Scheduler, Stop
from agentos.coordinator.worker_messages import WorkerMessages
from agentos.engine.protocol import AttemptTaken, Ending, Engine, EngineEvent, Gone, Printed, Said, Unable
from agentos.errors import ItemFailed, StartFailed
from agentos.events import catalogue as events
from agentos.model import Item, Status
from agentos.repo_map.parts import NO_MAP, Reading, RepositoryMap
from agentos.spending.spending import Spending
from agentos.tracing.run import RunTrace

STOP_MESSAGES = {
    Stop.INTERRUPTED: "Stopping; progress is saved. Press Ctrl+C again to quit now.",
    Stop.TERMINATED: "Terminated. Stopping; progress is saved.",
    Stop.RUN_TIMEOUT: "--run-timeout reached. Stopping; run the same command to resume.",
    Stop.FAIL_FAST: "An item failed and --fail-fast is set. Stopping.",
    Stop.QUOTA: "No key became free within --max-wait. Stopping; run the same command to resume.",
    Stop.OUTAGE: "--max-wait reached. Stopping; run the same command to resume.",
    Stop.BUDGET: "Stopping; to resume, run the same command with a larger budget.",
    Stop.NO_KEY: "No usable key is left. Stopping.",
    Stop.MISCONFIGURED: "Stopping; once it is fixed, run the same command to resume.",
    Stop.STORAGE: "Records cannot be written. Stopping.",
}
_ENDINGS: dict[type[Action], Ending] = {
    decisions.PrintStacks: Ending.STACKS,
    decisions.Terminate: Ending.TERMINATE,
    decisions.Kill: Ending.KILL,
}


class Signals(Protocol):
    """Where the loop reads the stop signals that have arrived."""

    def read(self) -> list[int]: ...


class ParallelCoordinator:
    """Runs the items of a plan."""

    def __init__(
        self,
        config: ParallelRunConfig,
        plan: Sequence[PlannedItem],
        *,
        engine: Engine,
        keys: KeyService,
        recorder: RunRecorder,
        console: Console,
        signals: Signals,
        spending: Spending,
        trace: RunTrace,
        map_of: Callable[[Item], RepositoryMap] = lambda _item: NO_MAP,
        look_up: Callable[..., Reading] = lambda **_asked: Reading(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._plan = plan
        self._engine = engine
        self._keys = keys
        self._recorder = recorder
        self._console = console
        self._signals = signals
        self._spending = spending
        self._trace = trace
        self._map_of = map_of
        self._clock = clock
        self._items = {entry.item.label: RunningItem(entry=entry) for entry in plan if entry.runs}
        self._scheduler = Scheduler(
            items=tuple(self._items),
            parallel=config.parallel,
            timeout=config.timeout,
            run_ends=None if config.run_timeout is None else recorder.started + config.run_timeout,
            fail_fast=config.fail_fast,
        )
        self._watch = PoolWatch(recorder, max_wait=config.max_wait)
        self._calls = Calls(
            spending=spending,
            keys=keys,
            scheduler=self._scheduler,
            watch=self._watch,
            recorder=recorder,
            trace=trace,
            models=frozenset({config.drafter, config.reviewer}),
            refusals=Refusals(set_in=config.set_in, user_file=config.user_file),
            max_wait=config.max_wait,
            items=self._items,
            actions=CallActions(send=self._send, kill=self._kill, stop=self._stop),
        )
        self._messages = WorkerMessages(
            scheduler=self._scheduler,
            calls=self._calls,
            recorder=recorder,
            trace=trace,
            keep_prompts=config.keep_prompts,
            look_up=look_up,
            send=self._send,
        )
        self._next_refresh = 0.0
        self._stop_announced = self._quitting = False

    def run(self) -> Stop | None:
        """Carry out the plan; return why it stopped early, or None."""
        self._recorder.record(
            run_started(
                self._config,
                run_id=self._recorder.run_id,
                items=len(self._plan),
                mock=self._recorder.mock,
                carried=round(self._spending.carried, 6),
            )
        )
        self._recorder.record_not_run([entry for entry in self._plan if not entry.runs])
        for item in self._items.values():
            title = item.entry.item.title or None
            self._recorder.record(events.Queued(item=item.id, label=item.label, title=title))
        try:
            self._calls.advance(self._clock())
            self._check_pool(self._clock())
            self._read_signals()
            self._act(self._scheduler.fill(self._clock()))
            while not self._scheduler.done:
                self._turn()
        finally:
            self._announce_stop()
            self._console.close()
        self._recorder.guard(self._keys.save, self._clock())
        return self._scheduler.stopping

    def _turn(self) -> None:
        """Sleep until something happens, then act on it."""
        for event in self._engine.events(self._next_deadline()):
            self._handle(event)
        self._read_signals()
        now = self._clock()
        self._calls.advance(now)
        if self._scheduler.stopping is None:
            due = self._watch.deadline()
            if self._calls.pool_changed or (due is not None and now >= due):
                self._check_pool(now)
            if (stop := self._watch.check_items(self._calls.waiting_items(), now)) is not None:
                self._stop(stop)
            if self._recorder.storage_error is not None:
                self._stop(Stop.STORAGE)
        self._act(self._scheduler.tick(now))
        self._announce_stop()
        if self._console.live and now >= self._next_refresh:
            self._next_refresh = now + REFRESH_SECONDS
            self._show(now)

    def _next_deadline(self) -> float:
        deadlines = [self._scheduler.next_deadline(), self._calls.next_wake(self._clock())]
        if self._scheduler.stopping is None:
            deadlines.append(self._watch.deadline())
            deadlines.append(self._watch.item_deadline(self._calls.waiting_items(), self._clock()))
        if self._console.live:
            deadlines.append(self._next_refresh)
        return min((one for one in deadlines if one is not None), default=inf)

    def _show(self, now: float) -> None:
        notice = self._watch.notice(now)
        self._console.show(view(self._recorder, self._items.values(), notice=notice, now=now))

    def _check_pool(self, now: float) -> None:
        self._calls.pool_changed = False
        snapshot = self._keys.snapshot(now)
        self._scheduler.allowed = self._watch.allowed(snapshot, self._config.parallel, now)
        if (stop := self._watch.check(snapshot, now)) is not None:
            self._stop(stop)

    def _read_signals(self) -> None:
        for number in self._signals.read():
            if self._scheduler.stopping in {Stop.INTERRUPTED, Stop.TERMINATED} and not self._quitting:
                self._quitting = True
                self._recorder.say("Quitting now.")
            self._stop(Stop.INTERRUPTED if number == signal.SIGINT else Stop.TERMINATED)

    def _stop(self, reason: Stop) -> None:
        # Calls that are paid for and may still be answered are not given up for a reason that can wait.
        gentle = self._calls.stop_reason and reason in decisions.PAUSING
        sparing = self._spending.in_flight if gentle else ()
        self._act(self._scheduler.stop(reason, self._clock(), sparing=sparing))

    def _announce_stop(self) -> None:
        if self._scheduler.stopping is not None and not self._stop_announced:
            self._stop_announced = True
            self._recorder.record(events.Stopping(reason=self._scheduler.stopping.value))
            text = STOP_MESSAGES[self._scheduler.stopping]
            if self._scheduler.stopping is Stop.BUDGET:
                text = f"Budget reached: {self._spending.describe()}. {text}"
            self._recorder.say(text)

    # Actions of the scheduler.

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            item = self._items[action.item]
            match action:
                case decisions.Start() if self._scheduler.stopping is not None:
                    self._act([self._scheduler.not_started(item.label)])
                case decisions.Start():
                    self._start(item)
                case decisions.StartAgain(attempt=attempt, error=error, released=True):
                    self._recorder.record(events.Crashed(item=item.id, attempt=attempt, error=error))
                    self._recorder.say(f"{action.item}: {error}; another machine continues it")
                case decisions.StartAgain(attempt=attempt, error=error):
                    self._recorder.record(events.Crashed(item=item.id, attempt=attempt, error=error))
                    self._recorder.say(
                        f"{action.item}: worker crashed on attempt {attempt} of {decisions.MAX_ATTEMPTS}"
                        f" ({error}); retrying"
                    )
                case decisions.Finish(status=status, error=error):
                    self._finish(item, status, error)
                case decisions.AskToStop():
                    self._send(item, wire.Drain(reason=self._scheduler.stopping or "stop"))
                case decisions.PrintStacks() | decisions.Terminate() | decisions.Kill() if item.alive:
                    if isinstance(action, decisions.PrintStacks):
                        self._recorder.say(
                            f"{action.item}: still running after {self._config.timeout:g} s; stopping it"
                        )
                        item.muted = True
                    self._engine.end(item.label, _ENDINGS[type(action)])

    def _start(self, item: RunningItem) -> None:
        attempt = self._scheduler.attempts[item.label]
        now = self._clock()
        item.started(attempt, now)
        try:
            self._recorder.begin(item.entry, attempt)
            repository = self._map_of(item.entry.item)
        except ItemFailed as exc:
            item.alive = False
            self._attempt_ended(item, Status.FAILED, str(exc))
            return
        self._recorder.trail.sends(item.id, repository)
        job = make_job(
            self._config,
            item.entry,
            run_id=self._recorder.run_id,
            attempt=attempt,
            database=self._recorder.checkpoints.place(item.entry.item),
            trace=self._trace.item_started(item.label, item_id=item.id, attempt=attempt),
            repository=repository,
            facts=self._recorder.models.known(),
        )
        try:
            pid = self._engine.start(item.label, job)
        except StartFailed as exc:
            item.alive = False
            self._read_signals()  # a signal may be the reason; then it is no crash
            self._attempt_ended(item, None, None if self._scheduler.stopping else str(exc))
            return
        except ItemFailed as exc:
            item.alive = False
            self._attempt_ended(item, Status.FAILED, str(exc))
            return
        if pid:
            self._record_started(item, pid, now)
        else:
            self._scheduler.waiting(item.label, now)  # until a machine has taken it
            item.queued = True
            item.waits("waiting for a machine")

    def _record_started(self, item: RunningItem, pid: int, since: float) -> None:
        took = round(self._clock() - since, 3)
        self._recorder.record(
            events.Started(item=item.id, label=item.label, attempt=item.attempt, pid=pid, took=took)
        )

    def _finish(self, item: RunningItem, status: Status, error: str | None) -> None:
        """Record how an item ended. If that fails, the other items continue."""
        try:
            self._record_end(item, status, error)
        except Exception as exc:  # noqa: BLE001 - the actions of other items must still run
            self._recorder.lost(item.entry, self._mark_broken(item, exc))

    def _record_end(self, item: RunningItem, status: Status, error: str | None) -> None:
        ended = item.ended
        if status is Status.PAUSED and error is None:
            over = self._scheduler.stopping is Stop.BUDGET
            waited_for = self._calls.stop_reason or self._watch.reason or None
            error = f"budget reached: {self._spending.describe()}" if over else waited_for
        error = None if status is Status.APPROVED else error
        verdict = ended.verdict if ended else None
        reviews = ended.reviews if ended and ended.reviews else item.reviews
        self._trace.item_ended(item.label, status=status.value, verdict=verdict, reviews=reviews, error=error)
        self._recorder.finish(
            item.entry,
            status,
            attempts=self._scheduler.attempts.get(item.label, 0),
            error=error,
            verdict=verdict,
            reviews=reviews,
            output=ended.output if ended else None,
            text_hash=ended.text_hash if ended else "",
            busy_seconds=item.busy_seconds,
            noted=ended.noted if ended else None,
            questions=ended.questions if ended else (),
            dropped=ended.dropped if ended else (),
        )

    # Events of the engine.

    def _handle(self, event: EngineEvent) -> None:  # noqa: C901 - one case per event
        """Handle one event. If that fails, its item ends, never the run."""
        item = self._items[event.item]
        if event.attempt != item.attempt:
            return  # from an attempt that is over; a local process cannot do this, another engine may
        try:
            match event:
                case AttemptTaken():
                    self._scheduler.served(item.label, self._clock())
                    item.waits("")
                    self._record_started(item, 0, self._clock())
                case Said(message=message):
                    if item.broken is None:
                        self._messages.take(item, message, self._clock())
                case Printed(lines=lines, error=error):
                    self._recorder.output(item.label, lines, error=error, shown=not item.muted)
                case Gone():
                    self._worker_gone(item, event)
                case Unable(reason=reason, fix=fix):
                    self._calls.no_key(reason, fix, self._clock())
        except Exception as exc:  # noqa: BLE001 - the last line of defence
            self._mark_broken(item, exc)
            if not isinstance(event, Gone):
                self._engine.end(item.label, Ending.KILL)
            elif item.label in self._scheduler.running:
                self._attempt_ended(item, Status.FAILED, item.broken)

    def _mark_broken(self, item: RunningItem, exc: Exception) -> str:
        """Ignore everything else from an item's worker; the item fails with this reason."""
        if isinstance(exc, wire.ProtocolError):
            reason = f"its worker broke the protocol: {exc}"
        elif isinstance(exc, ItemFailed):
            reason = str(exc)
        else:
            reason = f"unexpected {type(exc).__name__} while reading from its worker; details are in the log"
            with suppress(Exception):
                for line in "".join(traceback.format_exception(exc)).splitlines():
                    self._recorder.log(item.label, line)
        item.broken = item.broken or reason
        return item.broken

    def _worker_gone(self, item: RunningItem, gone: Gone) -> None:
        """A worker is gone: decide what happens to its item."""
        now = self._clock()
        item.broken = item.broken or gone.broken
        item.gone(now)
        self._trace.worker_gone(item.label, error=gone.how if item.ended is None else None)
        self._calls.drop(item, now)
        ended = item.ended
        status = None if ended is None else Status(ended.status)
        error = gone.how if ended is None else ended.error
        if item.broken is not None:
            status, error = Status.FAILED, item.broken
        elif item.over_budget is not None and status is Status.INTERRUPTED:
            status, error = Status.PAUSED, item.over_budget
        if self._scheduler.stopping is not None and not gone.begun:
            self._act([self._scheduler.not_started(item.label)])
            return
        self._attempt_ended(item, status, error, released=gone.released)

    def _attempt_ended(
        self, item: RunningItem, status: Status | None, error: str | None, *, released: bool = False
    ) -> None:
        now = self._clock()
        self._act(self._scheduler.gone(item.label, now, status=status, error=error, released=released))

    def _send(self, item: RunningItem, message: wire.Message) -> None:
        if item.alive:
            self._engine.send(item.label, message)

    def _kill(self, item: RunningItem) -> None:
        self._engine.end(item.label, Ending.KILL)
