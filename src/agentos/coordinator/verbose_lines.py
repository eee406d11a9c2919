"""What --verbose says about nodes, calls and limits, in words. Pure."""

from agentos.duration import rounded
from agentos.events.catalogue import Event, NodeEntered, ParallelChanged
from agentos.events.keys import Leased, LimitLearnt, Settled
from agentos.events.state import CUT_SHORT, RunState
from agentos.model import counted
from agentos.money import shown

_LIMITS = {
    "rpm": "requests per minute",
    "rpd": "requests per day",
    "tpm": "tokens per minute",
    "itpm": "input tokens per minute",
    "otpm": "output tokens per minute",
}


def verbose_line(event: Event, state: RunState) -> str | None:
    """A line about an event that only --verbose shows; `state` includes the event."""
    line: str | None = None
    match event:
        case NodeEntered():
            at = "waiting for a decision" if event.node == "hold" else f"at {event.node}"
            line = f"{_label(state, event.item)}: {at}, {counted(event.reviews, 'review')} so far"
        case Leased():
            waited = f" after waiting {rounded(event.waited)}" if event.waited >= 1 else ""
            model = f"{event.provider}:{event.model}"
            line = f"{_label(state, event.item)}: call to {model} with {event.key}{waited}"
        case Settled():
            used = f"{event.tokens_in:,} tokens in, {event.tokens_out:,} out, {shown(event.usd)}"
            how = f"answer from {event.key}" if event.error is None else f"no answer from {event.key}"
            what = used if event.error is None else CUT_SHORT.get(event.error, event.error.replace("_", " "))
            line = f"{_label(state, event.item)}: {how} after {rounded(event.seconds)}: {what}"
        case ParallelChanged():
            line = f"up to {counted(event.allowed, 'item')} at a time from now on"
        case LimitLearnt():
            limit = f"{event.value:,.0f} {_LIMITS.get(event.limit, event.limit)}"
            line = f"{event.group}: the limit for {event.provider}:{event.model} is {limit}"
        case _:
            pass
    return line


def _label(state: RunState, item: str) -> str:
    known = state.items.get(item)
    return item if known is None else known.label
