"""Takes each call of a run from request to record: budget, key, retries, settlement. Coordinator process.

A call is one value (`spending/call.py`) from start to end. It waits here for money, for a provider that is
down or for its next try, and in the pool for a key. Nothing else waits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentos import audit_record, wire
from agentos.coordinator.keys import KeyService
from agentos.coordinator.outage import NO_CONNECTION, Outages
from agentos.coordinator.pool_watch import PoolWatch
from agentos.coordinator.recorder import RunRecorder
from agentos.coordinator.refusals import Refusals
from agentos.coordinator.running_item import RunningItem
from agentos.coordinator.scheduler import Scheduler, Stop
from agentos.coordinator.waiting_call import DeferredCall, Retry, counted, wait_of
from agentos.credentials.key_state import KeyState
from agentos.duration import words
from agentos.events import catalogue as events
from agentos.events.keys import Leased, LeaseExpired, Refused, Settled
from agentos.model import OF_ACCOUNT, SAME_FOR_ALL, CallError
from agentos.redact import find
from agentos.spending.call import Call
from agentos.spending.spending import BudgetAnswer, Spending
from agentos.tracing.run import RunTrace

if TYPE_CHECKING:
    from agentos.lease import LeaseNumber

# Errors after which this module decides when the call is tried again; for the others, the pool does.
_RETRIED = NO_CONNECTION | SAME_FOR_ALL | {CallError.TRANSIENT}


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
        refusals: Refusals,
        max_wait: float,
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
        self._refusals = refusals
        self._outages = Outages()
        self._max_wait = max_wait
        self._items = items
        self._actions = actions
        self._deferred: list[DeferredCall] = []
        self._refused: list[tuple[RunningItem, wire.LeaseWanted]] = []  # items that wait for a verdict
        self._retries: dict[tuple[str, LeaseNumber], Retry] = {}  # by item and the lease that failed
        self.pool_changed = True  # since the last check
        self.stop_reason = ""  # why no more calls are made in this run

    def advance(self, now: float) -> None:
        """Let time pass: request the calls that are due for a retry, and handle what the pool grants."""
        due = [one for one in self._deferred if one.until is not None and one.until <= now]
        self._deferred = [deferred for deferred in self._deferred if deferred not in due]
        for deferred in due:
            self._request(deferred.item, deferred.call, now)
        if self._refused:
            self._judge_refused()
        if self._scheduler.stopping is None:
            self._probe(now)
        self._take(self._keys.advance(now))

    def next_wake(self, now: float) -> float | None:
        times = [deferred.until for deferred in self._deferred] + [self._keys.next_wake(now)]
        if self._scheduler.stopping is None:
            times.append(self._outages.next_wake(self._held_providers(), self._max_wait))
        return min((time for time in times if time is not None), default=None)

    def waiting_items(self) -> list[RunningItem]:
        """The items whose own wait is limited. An outage has a limit for all that wait for it."""
        held = {deferred.item.label for deferred in self._deferred if deferred.down}
        return [item for item in self._items.values() if item.label not in held]

    def ask(self, item: RunningItem, wanted: wire.LeaseWanted, now: float) -> None:
        """A worker wants to make a call."""
        if f"{wanted.provider}:{wanted.model}" not in self._models:
            raise wire.ProtocolError("a call to a model that this run does not use")
        if self.stop_reason or self._refusals.is_refused(item.label, wanted.after):
            self._refused.append((item, wanted))
            self._scheduler.waiting(item.label, now)
            item.waits("waiting: whether another item is refused, too")
            self._judge_refused()
            return
        if others := self._keys.others(wanted):
            self._recorder.say_once(
                f"{', '.join(sorted(others))}: a machine has another key under this id; it is not used there"
            )
            kept = tuple(key for key in wanted.only or () if key not in others)
            wanted = wanted.model_copy(update={"only": kept})
        call = Call.asked(item.label, item.attempt, wanted)
        item.wants_call(now)
        retry = self._retries.pop((item.label, wanted.after), None)
        if retry is None or retry.at <= now:
            self._request(item, call, now)
            return
        seconds = retry.at - now
        item.waits(f"retrying: {retry.reason}", retry.at)
        self._recorder.record(wait_of(item, call, retry.reason, events.WaitKind.BACKOFF, seconds))
        self._recorder.say(f"{item.label}: retrying in {words(seconds)}: {retry.reason}")
        self._deferred.append(DeferredCall(item=item, call=call, until=retry.at))

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
                tokens_cached=call.tokens_cached,
            )
            self._recorder.trail.record_call(item.entry, call)
            if call.unverified:
                self._recorder.say_once(
                    f"{call.provider}:{call.model}: the server calls the model {call.served[:100]!r}; "
                    "whether that is the same model cannot be told, so its reviews are accepted"
                )
            if settled.facts is not None:
                self._recorder.learn_model(f"{call.provider}:{call.model}", settled.facts)
            self._judge(item, call, settled, now)
        decided = self._keys.settle(item.label, item.attempt, settled, now)
        if call is not None:
            if not any(isinstance(event, Settled) for event in decided):
                self._recorder.record(counted(item, call))  # its lease had expired
            decided = [
                replace(event, usd=call.cost, tokens_reasoning=call.tokens_reasoning)
                if isinstance(event, Settled)
                else event
                for event in decided
            ]
        self._take(decided)
        self._ask_again(now)

    def replay(self, item: RunningItem, journal: audit_record.CallRecord) -> None:
        """A worker found a call in its item's journal; its message about it may have been lost."""
        call = self.spending.priced(Call.from_journal(item.label, item.attempt, journal))
        if self._recorder.trail.record_call(item.entry, call, again=True):
            self.spending.add(call)
            self._recorder.record(counted(item, call))

    def vet(self, item: RunningItem, message: wire.Vet) -> None:
        """A worker asks whether a server's texts contain a secret; a worker knows only its own keys."""
        secret = next((name for text in message.texts if (name := find(text)) is not None), None)
        self._actions.send(item, wire.Vetted(number=message.number, secret=secret))

    def no_key(self, reason: str, fix: str, now: float) -> None:
        """No machine has a key for the items that wait."""
        self._end(Stop.NO_KEY, reason, f"{reason[0].upper()}{reason[1:]}. {fix}", now)

    def drop(self, item: RunningItem, now: float) -> None:
        """An item's worker is gone, and its calls with it."""
        item.stops_waiting(now)
        self._outages.gone(item.label, now)
        self._deferred = [deferred for deferred in self._deferred if deferred.item is not item]
        self._retries = {key: retry for key, retry in self._retries.items() if key[0] != item.label}
        self._refused = [one for one in self._refused if one[0] is not item]
        self._take(self._keys.drop(item.label, item.attempt, now))
        # A worker that ran into an error may have had an answer that it could not report.
        failed = item.broken is not None or (item.ended is not None and item.ended.status == "failed")
        error = CallError.UNREADABLE if failed else CallError.WORKER_GONE
        for call in self.spending.drop(item.label, error):
            self._recorder.trail.record_call(item.entry, call)
            if call.paid:
                self._recorder.record(counted(item, call))
        self._ask_again(now)

    def _request(self, item: RunningItem, call: Call, now: float) -> None:
        """Send a call to the key pool, if there is money for it."""
        if self._scheduler.stopping is not None:
            return  # its worker is asked to stop and needs no answer
        item.until = None
        self._scheduler.waiting(item.label, now)
        if not self._outages.admits(call.provider, item.label, now):
            self._hold(item, call, now)
            return
        match self.spending.ask(call):
            case BudgetAnswer.YES:
                without = self._refusals.no_access(call.provider, call.model)
                self._take(self._keys.request(call, now, without=without))
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
            self._recorder.record(wait_of(item, call, reason, events.WaitKind.BUDGET))
        item.waits(f"waiting: {reason}")
        self._deferred.append(DeferredCall(item=item, call=call))

    # Providers that are down, and refusals that every item would get.

    def _judge(self, item: RunningItem, call: Call, settled: wire.CallSettled, now: float) -> None:
        """Decide what a result means for calls other than this one, and whether this one waits."""
        message = settled.message or "no reason given"
        self._judge_connection(item, call, message, sent=now - settled.seconds, now=now)
        if call.error in {None, CallError.OTHER_MODEL}:
            for line in self._refusals.answered(call):
                self._recorder.say(line)
        elif (refused := self._refusals.refused(call, message, self._keys.snapshot(now).keys)) is not None:
            self._end(refused.stop, refused.reason, refused.text, now)
        elif call.error in OF_ACCOUNT and call.key in self._refusals.no_access(call.provider, call.model):
            # Another key may serve it at once, and the calls that wait for this key too.
            for waiting, withdrawn in self._withdraw(now, call.provider, call.model):
                self._request(waiting, withdrawn, now)
        elif call.error in _RETRIED and not self._outages.is_down(call.provider):
            self._retries[item.label, call.lease] = Retry.after(call, settled, now)

    def _judge_connection(
        self, item: RunningItem, call: Call, message: str, *, sent: float, now: float
    ) -> None:
        """Notice that a provider is down, or back."""
        if call.error in NO_CONNECTION:
            outage = self._outages.failed(call.provider, item.label, call.error, message, sent=sent, now=now)
            if outage is not None:
                self._recorder.record(events.ProviderDown(provider=call.provider, reason=message))
                self._recorder.say(f"{outage.describe()}; its items wait, and one at a time tries again")
                for waiting, withdrawn in self._withdraw(now, call.provider):
                    self._hold(waiting, withdrawn, now)
        elif call.error is not CallError.GIVEN_UP:
            self._back(call.provider, now)
        else:
            self._outages.gone(item.label, now)

    def _judge_refused(self) -> None:
        """Tell refused items that it is their own fault, unless other items may yet show that it is not."""
        held = [item for item, _ in self._refused]
        others = (item for item in self._items.values() if item not in held)
        alone = not any(item.alive and not item.queued for item in others)
        # An item that runs alone waits for the next one, which is started in its place.
        next_one = len(held) == len(self._scheduler.running) == 1 and self._scheduler.pending > 0
        for item, wanted in self._refused[:]:
            known = (alone and not next_one) or not self._refusals.is_open(wanted, item.label)
            own = known and self._scheduler.stopping is None
            if self.stop_reason or own:
                self._refused.remove((item, wanted))
                told = wire.LeaseRefused(number=wanted.number, reason=self.stop_reason, own_fault=own)
                self._actions.send(item, told)
        self._scheduler.held = next_one and bool(self._refused)

    def _back(self, provider: str, now: float) -> None:
        """A provider answered. If it was down, its calls continue."""
        if (outage := self._outages.answered(provider, now)) is None:
            return
        seconds = now - outage.since
        self._recorder.record(events.ProviderBack(provider=provider, seconds=round(seconds, 3)))
        self._recorder.say(f"{provider} is back after {words(seconds)}; resuming")
        held = [one for one in self._deferred if one.down and one.call.provider == provider]
        self._deferred = [one for one in self._deferred if one not in held]
        for one in held:
            self._request(one.item, one.call, now)

    def _hold(self, item: RunningItem, call: Call, now: float) -> None:
        """Keep a call until its provider is back, or until it is the one that tries."""
        outage = self._outages.of(call.provider)
        assert outage is not None
        reason, seconds = outage.describe(), max(0.0, outage.next_probe - now)
        item.waits(f"waiting: {reason}")
        self._recorder.record(wait_of(item, call, reason, events.WaitKind.OUTAGE, seconds))
        self._deferred.append(DeferredCall(item=item, call=call, down=True))

    def _held_providers(self) -> list[str]:
        return [deferred.call.provider for deferred in self._deferred if deferred.down]

    def _probe(self, now: float) -> None:
        """Let one of the waiting calls try a provider that is down; give up after --max-wait."""
        held = self._held_providers()
        if (outage := self._outages.overdue(held, self._max_wait, now)) is not None:
            reason = f"{outage.provider} is down"
            text = f"{outage.provider} is still down after {words(now - outage.since)}: {outage.reason}"
            self._end(Stop.OUTAGE, reason, text, now)
            return
        for provider in self._outages.due(held, now):
            first = next(one for one in self._deferred if one.down and one.call.provider == provider)
            self._deferred.remove(first)
            self._request(first.item, first.call, now)

    def _end(self, stop: Stop, reason: str, text: str, now: float) -> None:
        """Stop the run for a reason that holds for all calls: no other call goes out."""
        if self._scheduler.stopping is not None:
            return
        self.stop_reason = reason
        if text:
            self._recorder.say(text)
        self._withdraw(now)
        self._judge_refused()
        self._actions.stop(stop)

    def _withdraw(
        self, now: float, provider: str | None = None, model: str | None = None
    ) -> list[tuple[RunningItem, Call]]:
        """Take the waiting calls to a provider, to one model of it, or all, back from the key pool."""
        taken: list[tuple[RunningItem, Call]] = []
        for item in self._items.values():
            wanted = item.alive and self.spending.waiting(item.label)
            if not wanted or provider not in {None, wanted.provider} or model not in {None, wanted.model}:
                continue
            self.spending.withdraw(wanted)
            self._take(self._keys.withdraw(item.label, item.attempt, now))
            taken.append((item, wanted))
        return taken

    def _ask_again(self, now: float) -> None:
        """A call is over: the money it did not use may be enough for a waiting call."""
        waiting = [deferred for deferred in self._deferred if deferred.until is None and not deferred.down]
        self._deferred = [deferred for deferred in self._deferred if deferred not in waiting]
        for deferred in waiting:
            if self._scheduler.stopping is None:
                self._request(deferred.item, deferred.call, now)
        self._judge_refused()

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
                    self._refuse(item, event)
                case LeaseExpired():
                    self._recorder.say(f"{item.label}: call timed out; stopping its worker")
                    self._actions.kill(item)

    def _refuse(self, item: RunningItem, event: Refused) -> None:
        """No key can serve a call. If others can, only its machine lacks one, and another one takes over."""
        call = self.spending.waiting(item.label)
        keys = [key for key in self._keys.snapshot(event.at).keys if key.provider == event.provider]
        limited = call is not None and call.only is not None
        without = self._refusals.no_access(event.provider, event.model)
        usable = (key for key in keys if key.state is not KeyState.DISABLED and key.id not in without)
        elsewhere = limited and any(usable)
        where = event.provider if elsewhere else ""
        refused = wire.LeaseRefused(number=event.number, reason=event.reason, elsewhere=where)
        self._actions.send(item, refused)
        if not elsewhere:
            said = self._refusals.unsaid(f"{event.provider}:{event.model}")
            self._end(Stop.NO_KEY, event.reason, "\n".join(said), event.at)

    def _grant(self, item: RunningItem, event: Leased) -> None:
        call = self.spending.granted(
            item.label, event.number, lease=event.lease, key=event.key, waited=event.waited
        )
        self._trace.call_started(
            item.label,
            lease=event.lease,
            provider=event.provider,
            model=event.model,
            key=event.key,
            waited=event.waited,
        )
        self._scheduler.served(item.label, event.at)
        item.waits(event.key)
        item.stops_waiting(event.at)
        probe = self._outages.probes(event.provider, item.label)
        only = None if call is None else call.only
        self._actions.send(item, self._keys.answer(event, probe=probe, only=only))
