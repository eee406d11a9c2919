"""Folds the events of a run into its state, one record at a time. Pure.

Any sequence of records gives a state. Feeding one part and then the next is the same as feeding both, so a
reader of a growing file continues where it stopped.
"""

from collections.abc import Iterable

from agentos.events import catalogue as run
from agentos.events import filing, keys
from agentos.events.catalogue import Event, ItemEnded, ItemEvent, RunStarted, Waiting, WaitKind
from agentos.events.fields import Record, moment, web_address
from agentos.events.record import read
from agentos.events.state import (
    MOCK,
    RUNNING,
    CallSpan,
    DisabledSpan,
    FiledAs,
    FilingSpan,
    ItemState,
    KeyTimeline,
    NodeSpan,
    QueuedItem,
    RateLimitSpan,
    RefusalMark,
    RunMark,
    RunState,
    WaitSpan,
    WorkerSpan,
)
from agentos.lease import LeaseNumber

LEAST_WAIT = 0.005  # seconds; a person does not notice a shorter wait for a lease
_AFTER_REVIEW = frozenset({"hold", "finalize"})


def fold(records: Iterable[Record]) -> RunState:
    """The state after all these records."""
    state = RunState()
    for record in records:
        feed(state, record)
    return state


def feed(state: RunState, record: Record) -> None:
    """Add one record to the state."""
    if not isinstance(record.get("event"), str):
        return
    event = read(record)
    _advance(state, record, repaired=isinstance(event, ItemEnded) and event.repaired)
    if isinstance(event, filing.FilingEvent):
        # It may be about an item of an earlier run, which is not in this run.
        if (known := state.items.get(event.item)) is not None:
            known.events += 1
            _filing_event(known, event, state.last)
    elif isinstance(event, run.Queued):
        state.queue[event.item] = QueuedItem(
            id=event.item, label=event.label or event.item, title=event.title
        )
    elif isinstance(event, ItemEvent):
        item = state.items.setdefault(event.item, ItemState(id=event.item, label=event.item))
        item.events += 1
        item.label = getattr(event, "label", None) or item.label
        _item_event(state, item, event, state.last)
    elif event is not None:
        _run_event(state, event, state.last)


def _advance(state: RunState, record: Record, *, repaired: bool) -> None:
    """Move to the time of the record. A clock that was set back must not make a span negative."""
    now = moment(record.get("time"))
    if state.started is None:
        state.started = now
    if now is not None and state.started is not None and not repaired:
        state.last = max(state.last, round(now - state.started, 3))


# One item.


def _item_event(state: RunState, item: ItemState, event: ItemEvent, at: float) -> None:  # noqa: C901 - one case per event
    match event:
        case run.Started():
            _start(item, event, at)
        case run.Ready() if item.worker is not None:
            item.worker.ready, item.worker.resumed = at, event.resumed
        case run.NodeEntered():
            _enter(item, event, at)
        case Waiting():
            _wait(item, event, at)
        case keys.Leased():
            _lease(state, item, event, at)
        case keys.Settled():
            _settle(state, event.lease, at, error=event.error, used=event)
            _pay(item, event)
        case keys.CallCounted():
            _pay(item, event)
        case keys.Returned():
            _settle(state, event.lease, at, error="worker gone")
        case keys.LeaseExpired():
            _settle(state, event.lease, at, error="no answer in time")
        case keys.Refused():
            _end_wait(item, at)
        case run.Crashed():
            _end_worker(item, at, ended="crashed", error=event.error)
        case ItemEnded():
            item.status, item.verdict = event.status.value, event.verdict
            item.reviews = event.reviews or item.reviews
            item.error, item.reason, item.output = event.error, event.reason, event.output
            item.questions, item.dropped = event.questions, event.dropped
            item.attempts = event.attempts or item.attempts
            item.busy_seconds, item.filing_state, item.ended = event.busy_seconds, event.filing, at
            _end_worker(item, at, ended=item.status, error=item.error)


def _start(item: ItemState, event: run.Started, at: float) -> None:
    _end_worker(item, at)
    item.attempts = event.attempt or item.attempts + 1
    item.status, item.node, item.ended = RUNNING, None, None
    if item.began is None:
        item.began = max(0.0, round(at - event.took, 3))
    item.worker = WorkerSpan(start=at, attempt=item.attempts)
    item.spans.append(item.worker)


def _end_worker(item: ItemState, at: float, *, ended: str | None = None, error: str | None = None) -> None:
    """Close everything that the worker of an item was doing."""
    _end_wait(item, at)
    _end_filing(item, at)
    if item.node is not None and item.node.end is None:
        item.node.end = at
    if item.worker is not None:
        item.worker.end, item.worker.ended, item.worker.error = at, ended, error
        item.worker = None


def _enter(item: ItemState, event: run.NodeEntered, at: float) -> None:
    item.reviews = event.reviews
    if item.node is not None and item.node.end is None:
        item.node.end = at
    # A review is counted once it is judged.
    number = item.reviews + (event.node not in _AFTER_REVIEW) or 1
    item.node = NodeSpan(start=at, node=event.node, round=number)
    item.spans.append(item.node)


def _wait(item: ItemState, event: Waiting, at: float) -> None:
    if item.wait is None or item.wait.of is not event.kind or event.kind is WaitKind.BACKOFF:
        _end_wait(item, at)
        item.wait = WaitSpan(start=at, of=event.kind)
        item.spans.append(item.wait)
    wait = item.wait
    wait.reason, wait.model = event.reason or wait.reason, event.model or wait.model
    wait.until = None if event.until_seconds is None else round(at + event.until_seconds, 3)
    if wait.of is WaitKind.BACKOFF:
        wait.end = wait.until  # no event marks the end of this wait


def _end_wait(item: ItemState, at: float) -> bool:
    """End the item's wait; return whether it waited for a lease."""
    if (wait := item.wait) is None:
        return False
    item.wait = None
    wait.end = wait.ends(at)
    if wait.of is WaitKind.BACKOFF:
        return False
    if at - wait.start < LEAST_WAIT:
        _forget(item, wait)
    return True


def _forget(item: ItemState, wait: WaitSpan) -> None:
    for number in reversed(range(len(item.spans))):  # it is near the end
        if item.spans[number] is wait:
            del item.spans[number]
            return


def _lease(state: RunState, item: ItemState, event: keys.Leased, at: float) -> None:
    if not _end_wait(item, at) and event.waited >= LEAST_WAIT:
        start = max(0.0, round(at - event.waited, 3))
        item.spans.append(WaitSpan(start=start, end=at, of=WaitKind.KEY))
    key = _key(state, event.key)
    key.provider = event.provider or key.provider
    node = None if item.node is None else item.node.node
    item.call = state.in_flight[event.lease] = CallSpan(
        start=at, node=node, key=key.id, model=event.model or None
    )
    item.spans.append(item.call)
    if event.provider == MOCK:
        state.mock = state.mock or state.begun is None or state.begun.mock is None


def _settle(
    state: RunState, lease: LeaseNumber, at: float, *, error: str | None, used: keys.Settled | None = None
) -> None:
    if (call := state.in_flight.pop(lease, None)) is not None:
        call.end, call.error = at, error
        if used is not None:
            call.tokens_in, call.tokens_out = used.tokens_in, used.tokens_out
            call.tokens_cached, call.tokens_reasoning = used.tokens_cached, used.tokens_reasoning


def _pay(item: ItemState, call: keys.Settled | keys.CallCounted) -> None:
    item.tokens_in += call.tokens_in
    item.tokens_out += call.tokens_out
    item.tokens_cached += call.tokens_cached
    item.tokens_reasoning += call.tokens_reasoning
    item.usd = None if item.usd is None or call.usd is None else item.usd + call.usd


def _filing_event(item: ItemState, event: filing.FilingEvent, at: float) -> None:
    if event.earlier:
        if isinstance(event, filing.FilingUnknown):
            item.filing_state, item.error = "unknown", item.error or filing.EARLIER_UNKNOWN
        return
    _end_filing(item, at)
    match event:
        case filing.FilingStarted():
            item.filing = FilingSpan(start=at)
            item.spans.append(item.filing)
        case filing.Filed():
            item.filed = FiledAs(number=event.number, url=web_address(event.url))
            item.filing_state, item.output, item.reason = "filed", event.url or item.output, None
        case filing.FilingRefused():
            item.filing_state, item.error = "wanted", f"not filed: {event.reason}"
        case filing.FilingUnknown():
            item.filing_state, item.error = "unknown", event.reason


def _end_filing(item: ItemState, at: float) -> None:
    if item.filing is not None:
        item.filing.end, item.filing = at, None


# The run, its keys and its models.


def _run_event(state: RunState, event: Event, at: float) -> None:  # noqa: C901, PLR0912 - one case per event
    match event:
        case RunStarted():
            state.begun, state.mock = event, bool(event.mock)
        case run.RunFinished():
            state.finished, state.exit_code = True, event.exit_code
            state.wall_seconds = event.seconds
            state.stopped = event.stopped or state.stopped
            for item in state.items.values():
                _end_filing(item, at)
            _outages_end(state, at)
        case run.Stopping():
            state.stopped = event.reason
            _mark(state, "stopping", at, (event.reason or "stopping").replace("_", " "))
        case run.Paused():
            _resume(state, at)
            state.pause = RunMark(of="pause", start=at, text=event.reason or "no key can be used")
            state.pause.until = None if event.seconds is None else round(at + event.seconds, 3)
            state.marks.append(state.pause)
        case run.Resumed():
            _resume(state, at)
        case run.ParallelChanged():
            _mark(state, "parallel", at, "", allowed=event.allowed)
        case run.BudgetReached():
            _mark(state, "budget", at, "budget reached")
        case run.ProviderDown():
            _outages_end(state, at, event.provider)
            text = f"{event.provider} is down: {event.reason}"
            state.outages[event.provider] = RunMark(
                of="outage", start=at, text=text, about=event.provider or None
            )
            state.marks.append(state.outages[event.provider])
        case run.ProviderBack():
            _outages_end(state, at, event.provider)
        case keys.Capacity():
            _overload(state, event, at)
        case keys.CapacityRecovered():
            _overload_ends(state, f"{event.provider}:{event.model}", at)
        case keys.GroupLimited():
            _limit(state, event, at)
        case keys.KeyRecovered():
            _recover(_key(state, event.key), at)
        case keys.KeyDisabled():
            key = _key(state, event.key)
            _recover(key, at)
            key.state, key.unusable = "disabled", DisabledSpan(start=at, reason=event.reason or None)
            key.spans.append(key.unusable)


def _mark(
    state: RunState, of: str, at: float, text: str, *, seconds: float = 0.0, allowed: int | None = None
) -> None:
    state.marks.append(RunMark(of=of, start=at, end=round(at + seconds, 3), text=text, allowed=allowed))


def _outages_end(state: RunState, at: float, provider: str | None = None) -> None:
    """The outage of a provider is over; without a name, all are."""
    for name in [name for name in state.outages if provider in {None, name}]:
        state.outages.pop(name).end = at


def _overload(state: RunState, event: keys.Capacity, at: float) -> None:
    """Calls to a model slow down for some time; a new refusal starts that time again."""
    model = f"{event.provider}:{event.model}"
    _overload_ends(state, model, at)
    mark = RunMark(of="capacity", start=at, end=round(at + event.seconds, 3), about=model)
    mark.text = f"{model} is overloaded"
    state.overloads[model] = mark
    state.marks.append(mark)


def _overload_ends(state: RunState, model: str, at: float) -> None:
    if (mark := state.overloads.pop(model, None)) is not None:
        mark.end = mark.ends(at)


def _resume(state: RunState, at: float) -> None:
    if state.pause is not None:
        state.pause.end, state.pause = at, None


def _key(state: RunState, name: str) -> KeyTimeline:
    return state.keys.setdefault(name or "?", KeyTimeline(id=name or "?"))


def _recover(key: KeyTimeline, at: float) -> None:
    if key.unusable is not None:
        key.unusable.end, key.unusable = key.unusable.ends(at), None
    key.state = "available"


def _limit(state: RunState, event: keys.GroupLimited, at: float) -> None:
    """The refused key and all others of its quota group are not used for some time."""
    hit = event.key or (event.keys[0] if event.keys else "?")
    for name in dict.fromkeys([hit, *event.keys]):
        key = _key(state, name)
        key.provider, key.group = event.provider or key.provider, event.group or key.group
        if key.state != "disabled":
            _recover(key, at)
            key.state = event.name
            key.unusable = RateLimitSpan(
                start=at,
                end=round(at + event.seconds, 3),
                reason=event.name,
                planned=round(event.seconds, 3),
                told=event.told,
                model=event.model,
            )
            key.spans.append(key.unusable)
        if name == hit:
            key.spans.append(RefusalMark(start=at, end=at, reason=event.name))
