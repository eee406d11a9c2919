"""Takes each call of a run from request to record: budget, key, retries, settlement. Coordinator process.

A call is one value (`spending/call.py`) from start to end. It waits here for money or for its next try, and
in the pool for a key. Nothing else waits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentos import audit_record, wire
from agentos.coordinator.item import RunningItem
from agentos.coordinator.keys import KeyService
from agentos.coordinator.pool_watch import PoolWatch
from agentos.coordinator.recorder import RunRecorder
from agentos.coordinator.scheduler import Scheduler, Stop
from agentos.credentials.key_state import usable_delay
from agentos.credentials.outcome import BACKOFF, RATE_LIMIT_LONGEST
from agentos.duration import words
from agentos.events import catalogue as events
from agentos.events.keys import Leased, LeaseExpired, Refused
from agentos.model import CallError
from agentos.redact import find
from agentos.spending.call import Call
from agentos.spending.spending import BudgetAnswer, Spending
from agentos.tracing.run import RunTrace


@dataclass(frozen=True, kw_only=True)
class _DeferredCall:
    """A call that is not sent to the pool yet."""

    item: RunningItem
    call: Call
    until: float | None  # when it is tried again; None: after another call is settled


@dataclass(frozen=True, kw_only=True)
class _Retry:
    """When a failed call may be retried, and why it failed."""

    at: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class CallActions:
    """What a call may do to items and to the run."""

    send: Callable[[RunningItem, wire.Message], None]
    kill: Callable[[RunningItem], None]
    stop: Callable[[Stop], None]


class Calls:
    """Every call that is in flight or waiting."""

    def __init__(
        self,
        *,
        spending: Spending,
        keys: KeyService,
        scheduler: Scheduler,
        watch: PoolWatch,
        recorder: RunRecorder,
        trace: RunTrace,
        models: frozenset[str],
        items: dict[str, RunningItem],
        actions: CallActions,
    ) -> None:
        self.spending = spending
        self._keys = keys
        self._scheduler = scheduler
        self._watch = watch
        self._recorder = recorder
        self._trace = trace
        self._models = models
        self._items = items
        self._actions = actions
        self._deferred: list[_DeferredCall] = []
        self._retries: dict[tuple[str, int], _Retry] = {}  # by item and the lease that failed
        self.pool_changed = True  # since the last check

    def advance(self, now: float) -> None:
        """Let time pass: request the calls that are due for a retry, and handle what the pool grants."""
        due = [
            deferred for deferred in self._deferred if deferred.until is not None and deferred.until <= now
        ]
        self._deferred = [deferred for deferred in self._deferred if deferred not in due]
        for deferred in due:
            self._request(deferred.item, deferred.call, now)
        self._take(self._keys.advance(now))

    def next_wake(self, now: float) -> float | None:
        times = [deferred.until for deferred in self._deferred if deferred.until is not None]
        if (wake := self._keys.next_wake(now)) is not None:
            times.append(wake)
        return min(times, default=None)

    def ask(self, item: RunningItem, wanted: wire.LeaseWanted, now: float) -> None:
        """A worker wants to make a call."""
        if f"{wanted.provider}:{wanted.model}" not in self._models:
            raise wire.ProtocolError("a call to a model that this run does not use")
        call = Call.asked(item.label, item.attempt, wanted)
        item.wants_call(now)
        retry = self._retries.pop((item.label, wanted.after), None)
        if retry is None or retry.at <= now:
            self._request(item, call, now)
            return
        seconds = retry.at - now
        item.waits(f"retrying: {retry.reason}", retry.at)
        self._record_wait(item, call, retry.reason, events.WaitKind.BACKOFF, seconds)
        self._recorder.say(f"{item.label}: retrying in {words(seconds)}: {retry.reason}")
        self._deferred.append(_DeferredCall(item=item, call=call, until=retry.at))

    def settle(self, item: RunningItem, settled: wire.CallSettled, now: float) -> None:
        """A worker reports the result of a call."""
        item.detail = ""
        call = self.spending.settle(item.label, settled)
        if call is not None:
            if call.error in {None, CallError.OTHER_MODEL}:
                item.idle = 0.0  # an answer is progress; a refusal or a failure is not
            self._trace.call_ended(
                item.label,
                lease=call.lease,
                tokens_in=call.tokens_in,
                tokens_out=call.tokens_out,
                error=None if call.error is None else call.error.value,
                served=call.served,
                cost_usd=call.usd,
            )
            self._recorder.trail.record_call(item.entry, call)
            if call.error is CallError.TRANSIENT:
                self._retries[item.label, call.lease] = _retry(call, settled, now)
        self._take(self._keys.settle(item.label, item.attempt, settled, now))
        self._ask_again(now)

    def replay(self, item: RunningItem, journal: audit_record.CallRecord) -> None:
        """A worker found a call in its item's journal; its message about it may have been lost."""
        call = self.spending.priced(Call.from_journal(item.label, item.attempt, journal))
        if self._recorder.trail.record_call(item.entry, call, again=True):
            self.spending.add(call)

    def vet(self, item: RunningItem, message: wire.Vet) -> None:
        """A worker asks whether a server's texts contain a secret; a worker knows only its own keys."""
        secret = next((name for text in message.texts if (name := find(text)) is not None), None)
        self._actions.send(item, wire.Vetted(number=message.number, secret=secret))

    def drop(self, item: RunningItem, now: float) -> None:
        """An item's worker is gone, and its calls with it."""
        self._stop_waiting(item, now)
        self._deferred = [deferred for deferred in self._deferred if deferred.item is not item]
        self._retries = {key: retry for key, retry in self._retries.items() if key[0] != item.label}
        self._take(self._keys.drop(item.label, item.attempt, now))
        for call in self.spending.drop(item.label):
            self._recorder.trail.record_call(item.entry, call)
        self._ask_again(now)

    def _request(self, item: RunningItem, call: Call, now: float) -> None:
        """Send a call to the key pool, if there is money for it."""
        if item.waiting_since is None:
            item.waiting_since = now
        item.until = None
        self._scheduler.waiting(item.label, now)
        match self.spending.ask(call):
            case BudgetAnswer.YES:
                self._take(self._keys.request(call, now))
            case BudgetAnswer.LATER:
                self._wait_for_money(item, call)
            case BudgetAnswer.ITEM_OVER:
                item.over_budget = item.detail = self.spending.describe_item(item.label)
                self._actions.send(item, wire.Drain(reason="item budget reached"))
            case BudgetAnswer.RUN_OVER if self._scheduler.stopping is None:
                spending = self.spending
                self._recorder.record(events.BudgetReached(spent=spending.spent, carried=spending.carried))
                self._actions.stop(Stop.BUDGET)

    def _wait_for_money(self, item: RunningItem, call: Call) -> None:
        """Hold a call back until calls in flight are settled; it is requested again after each of them."""
        reason = "calls in flight may use up the budget"
        if item.detail != f"waiting: {reason}":
            self._record_wait(item, call, reason, events.WaitKind.BUDGET)
        item.waits(f"waiting: {reason}")
        self._deferred.append(_DeferredCall(item=item, call=call, until=None))

    def _record_wait(
        self, item: RunningItem, call: Call, reason: str, kind: events.WaitKind, seconds: float | None = None
    ) -> None:
        self._recorder.record(
            events.Waiting(
                item=item.id,
                number=call.number,
                provider=call.provider,
                model=call.model,
                reason=reason,
                until_seconds=None if seconds is None else round(seconds, 3),
                kind=kind,
            )
        )

    def _ask_again(self, now: float) -> None:
        """A call is over: the money it did not use may be enough for a waiting call."""
        waiting = [deferred for deferred in self._deferred if deferred.until is None]
        self._deferred = [deferred for deferred in self._deferred if deferred.until is not None]
        for deferred in waiting:
            if self._scheduler.stopping is None:
                self._request(deferred.item, deferred.call, now)

    def _take(self, decided: Sequence[events.PoolEvent]) -> None:
        """Carry out what the key pool decided, and announce it."""
        self.pool_changed = self.pool_changed or bool(decided)
        for event in decided:
            item = self._items.get(event.asker.item) if isinstance(event, events.AskerEvent) else None
            self._watch.announce(event, None if item is None else item.id)
            self._recorder.guard(self._keys.note, event, event.at)
            if item is None or not item.alive:
                continue
            match event:
                case Leased():
                    self._grant(item, event)
                case events.Waiting(reason=reason, until=until):
                    item.waits(f"waiting: {reason}", until)
                case Refused():
                    self._actions.send(item, wire.LeaseRefused(number=event.number, reason=event.reason))
                    self._actions.stop(Stop.NO_KEY)
                case LeaseExpired():
                    self._recorder.say(f"{item.label}: call timed out; stopping its worker")
                    self._actions.kill(item)

    def _grant(self, item: RunningItem, event: Leased) -> None:
        self.spending.granted(item.label, event.number, lease=event.lease, key=event.key, waited=event.waited)
        self._trace.call_started(
            item.label,
            lease=event.lease,
            provider=event.provider,
            model=event.model,
            key=event.key,
            waited=event.waited,
        )
        self._stop_waiting(item, event.at)
        self._scheduler.served(item.label, event.at)
        item.waits(event.key)
        self._actions.send(item, self._keys.answer(event))

    def _stop_waiting(self, item: RunningItem, now: float) -> None:
        item.stops_waiting(now)
        if item.waiting_since is not None:
            item.tally.waited += now - item.waiting_since
            item.waiting_since = None


def _retry(call: Call, settled: wire.CallSettled, now: float) -> _Retry:
    """When to retry: when the server says, otherwise with doubling delays."""
    requested = usable_delay(settled.retry_after, RATE_LIMIT_LONGEST)
    delay = requested or BACKOFF.delay(call.tries + 1, f"{call.item}/{call.role}")
    return _Retry(at=now + delay, reason=f"{CallError.TRANSIENT.value}: {settled.message}")
