"""A call that is not sent to the key pool yet, when a failed one is tried again, and its events. Pure."""

from dataclasses import dataclass

from agentos import wire
from agentos.coordinator.running_item import RunningItem
from agentos.credentials.key_state import usable_delay
from agentos.credentials.outcome import BACKOFF, RATE_LIMIT_LONGEST
from agentos.events.catalogue import Waiting, WaitKind
from agentos.events.keys import CallCounted
from agentos.model import CallError
from agentos.spending.call import Call


@dataclass(frozen=True, kw_only=True)
class DeferredCall:
    """A call that is not sent to the pool yet."""

    item: RunningItem
    call: Call
    until: float | None = None  # when it is tried again; None: after another call is settled
    down: bool = False  # it waits until its provider is back


@dataclass(frozen=True, kw_only=True)
class Retry:
    """When a failed call may be retried, and why it failed."""

    at: float
    reason: str

    @classmethod
    def after(cls, call: Call, settled: wire.CallSettled, now: float) -> "Retry":
        """When the server says, otherwise with doubling delays."""
        requested = usable_delay(settled.retry_after, RATE_LIMIT_LONGEST)
        delay = requested or BACKOFF.delay(call.tries + 1, f"{call.item}/{call.role}")
        error = CallError.TRANSIENT if call.error is None else call.error
        return cls(at=now + delay, reason=f"{error.value.replace('_', ' ')}: {settled.message}")


def wait_of(
    item: RunningItem, call: Call, reason: str, kind: WaitKind, seconds: float | None = None
) -> Waiting:
    """The event that a call waits, not for a key."""
    return Waiting(
        item=item.id,
        number=call.number,
        provider=call.provider,
        model=call.model,
        reason=reason,
        until_seconds=None if seconds is None else round(seconds, 3),
        kind=kind,
    )


def counted(item: RunningItem, call: Call) -> CallCounted:
    """The event that the tokens of a call count, although the pool does not know its lease any more."""
    return CallCounted(
        item=item.id,
        tokens_in=call.tokens_in,
        tokens_out=call.tokens_out,
        tokens_cached=call.tokens_cached,
        tokens_reasoning=call.tokens_reasoning,
        usd=call.cost,
    )
