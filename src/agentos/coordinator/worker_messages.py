"""What the messages of workers mean for a run. Coordinator process."""

from collections.abc import Callable

from agentos import audit_record, wire
from agentos.coordinator.calls import Calls
from agentos.coordinator.recorder import RunRecorder
from agentos.coordinator.running_item import RunningItem
from agentos.coordinator.scheduler import Scheduler
from agentos.events import catalogue as events
from agentos.repo_map.parts import Reading
from agentos.tracing.run import RunTrace


class WorkerMessages:
    """Passes each message on to the parts that it concerns."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        calls: Calls,
        recorder: RunRecorder,
        trace: RunTrace,
        keep_prompts: bool,
        look_up: Callable[..., Reading],
        send: Callable[[RunningItem, wire.Message], None],
    ) -> None:
        self._scheduler = scheduler
        self._calls = calls
        self._recorder = recorder
        self._trace = trace
        self._keep_prompts = keep_prompts
        self._look_up = look_up
        self._send = send

    def take(self, item: RunningItem, message: wire.ToCoordinator, now: float) -> None:  # noqa: C901, PLR0912 - one case per message
        """Take a message of the item's worker; raises ProtocolError if it must not send it."""
        self._scheduler.heard(item.label, now)
        match message:
            case wire.Hello():
                if item.greeted:
                    raise wire.ProtocolError("a second hello")
                item.greeted, item.queued = True, False
                self._scheduler.ready(item.label, now)
                self._recorder.record(
                    events.Ready(item=item.id, pid=message.pid, resumed=message.resumed, warm=message.warm)
                )
            case wire.NodeStarted(node=node, reviews=reviews):
                item.node, item.reviews, item.detail = node, reviews, ""
                item.node_since = now
                self._trace.node_started(item.label, node, reviews=reviews)
                self._recorder.at_node(item.entry, node, reviews, item.attempt)
            case wire.NodeEnded(node=node, seconds=seconds):
                item.busy_seconds += seconds
                item.node_since = None
                self._trace.node_ended(item.label, node, seconds=seconds)
            case wire.LeaseWanted():
                self._calls.ask(item, message, now)
            case wire.Vet():
                self._calls.vet(item, message)
            case wire.LookUp():
                asked = message.model_dump(include={"wishes", "names", "known", "tokens"})
                self._send(item, wire.LookedUp(number=message.number, reading=self._look_up(**asked)))
            case wire.CallSettled():
                self._calls.settle(item, message, now)
            case wire.CallTexts():
                if not self._keep_prompts:
                    raise wire.ProtocolError("texts of a call, which are not kept")
                self._recorder.keep_texts(item.entry, message)
            case wire.PaidBefore(record=journal):
                self._calls.replay(item, journal)
            case wire.Audit(record=audited):
                self._audit(item, audited)
            case wire.Ended():
                item.ended = message

    def _audit(self, item: RunningItem, audited: audit_record.Audited) -> None:
        if isinstance(audited, audit_record.VerdictRecord):
            self._trace.verdict(
                item.label, review=audited.review, verdict=audited.verdict, findings=len(audited.findings)
            )
        self._recorder.trail.audit(item.entry, item.attempt, audited.model_dump(exclude_unset=True))
