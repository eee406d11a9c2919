"""What --verbose says can be read by people: labels, words, rounded times, money."""

import pytest

from agentos.coordinator.verbose_lines import verbose_line
from agentos.events.catalogue import Event, NodeEntered, ParallelChanged, Stopping
from agentos.events.fold import fold
from agentos.events.keys import Leased, LimitLearnt, Settled

STATE = fold([{"event": "started", "item": "42", "label": "LLD-42"}])
CALL = {"item": "42", "number": 1, "lease": 7, "key": "key-1"}


def leased(waited: float) -> Leased:
    return Leased(**CALL, provider="openai", model="gpt-5", tokens=1200, waited=waited)  # type: ignore[arg-type]


def settled(error: str | None, usd: float | None = 0.0123) -> Settled:
    return Settled(**CALL, tokens_in=12345, tokens_out=678, error=error, seconds=61.7, usd=usd)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (NodeEntered(item="42", node="draft", reviews=1), "LLD-42: at draft, 1 review so far"),
        (NodeEntered(item="9", node="load", reviews=0), "9: at load, 0 reviews so far"),
        (NodeEntered(item="42", node="hold", reviews=3), "LLD-42: waiting for a decision, 3 reviews so far"),
        (leased(0.002), "LLD-42: call to openai:gpt-5 with key-1"),
        (leased(12.4), "LLD-42: call to openai:gpt-5 with key-1 after waiting 12 s"),
        (settled(None), "LLD-42: answer from key-1 after 62 s: 12,345 tokens in, 678 out, 0.0123 USD"),
        (settled(None, None), "LLD-42: answer from key-1 after 62 s: 12,345 tokens in, 678 out, unknown"),
        (settled("rate_limited"), "LLD-42: no answer from key-1 after 62 s: rate limited"),
        (settled("given_up"), "LLD-42: no answer from key-1 after 62 s: stopped before an answer came"),
        (ParallelChanged(allowed=3), "up to 3 items at a time from now on"),
        (
            LimitLearnt(provider="openai", group="g", model="m", limit="tpm", value=30000.0, used=30000.0),
            "g: the limit for openai:m is 30,000 tokens per minute",
        ),
        (Stopping(reason="interrupted"), None),
    ],
)
def test_a_line(event: Event, line: str | None) -> None:
    assert verbose_line(event, STATE) == line
