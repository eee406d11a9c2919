"""Our own clients of the three formats against the simulated provider: replies, refusals, broken answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from agentos.llm.anthropic import Anthropic
from agentos.llm.gemini import Gemini
from agentos.llm.openai import OpenAI
from agentos.llm.provider import Cancel, ModelRequest, Provider, ProviderError, Reply
from agentos.llm.request_shape import corrected_call
from agentos.model import CallError
from agentos.review.reader import read_reply
from agentos.review.schema import review_schema
from agentos.secret import Secret
from agentos.simulator import SimulatorConfig, parse_fault, running_simulator
from harness.simulator import stats

SECRET = "sim-key"
DRAFT = ModelRequest(role="drafter", model="model-x", number=1, system="s", prompt="Draft #42")
REVIEW = ModelRequest(
    role="reviewer", model="model-x", number=1, system="s", prompt="Review", schema=review_schema("lld")
)
KINDS: dict[str, tuple[Callable[..., Provider], str]] = {
    "openai": (OpenAI, "/v1"),
    "anthropic": (Anthropic, ""),
    "gemini": (Gemini, ""),
}
Make = Callable[..., Provider]


@pytest.fixture(params=KINDS)
def provider(request: pytest.FixtureRequest) -> Iterator[Make]:
    make, path = KINDS[request.param]
    with ExitStack() as stack:

        def start(*faults: str, call_timeout: float = 20.0) -> Provider:
            config = SimulatorConfig(faults=tuple(map(parse_fault, faults)))
            url = stack.enter_context(running_simulator(config))
            made: Any = make(url + path, call_timeout=call_timeout)
            stack.callback(made._endpoint._client.close)
            opened: Provider = made
            return opened

        yield start


def ask(provider: Provider, request: ModelRequest = DRAFT, secret: str = SECRET) -> Reply:
    return provider.call(request, secret=Secret("key-1", secret), cancel=Cancel())


def fails(provider: Provider, secret: str = SECRET) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(provider, secret=secret)
    return caught.value


def test_a_draft_comes_whole_with_model_and_tokens(provider: Make) -> None:
    reply = ask(provider())
    assert "## Proposed Changes" in reply.text
    assert reply.model == "model-x"
    assert reply.tokens_in > 0
    assert reply.tokens_out > 0


def test_a_review_comes_by_the_schema(provider: Make) -> None:
    assert read_reply(ask(provider(), REVIEW).text, "lld").verdict.value == "APPROVED"


@pytest.mark.parametrize("title", ["look", "Another name!"])
def test_a_schema_is_told_by_its_name(provider: Make, title: str) -> None:
    schema = {"title": title, "type": "object"}
    script = '<<<BEGIN x1 issue\n<!-- mock: look="src/a.py words" -->\n<<<END x1\n'
    looked_up = f"{script}<<<BEGIN x2 looked up\nsrc/a.py\n<<<END x2\n"
    made = provider()
    first, later = (
        json.loads(ask(made, replace(REVIEW, prompt=prompt, schema=schema)).text)
        for prompt in (script, looked_up)
    )
    if title == "look":
        assert (first, later) == ({"wishes": ["src/a.py", "words"]}, {"wishes": []})
    else:
        assert first["verdict"] == later["verdict"] == "APPROVED"


def test_the_model_that_served_is_told(provider: Make) -> None:
    assert ask(provider("other-model")).model == "model-x-mini"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("429,seconds=3", CallError.RATE_LIMITED),
        ("429-bare", CallError.RATE_LIMITED),
        ("400", CallError.BAD_REQUEST),
        ("401", CallError.KEY_REJECTED),
        ("402", CallError.NO_CREDIT),
        ("500", CallError.TRANSIENT),
        ("502", CallError.DROPPED),
        ("503", CallError.CAPACITY),
        ("529", CallError.CAPACITY),
        ("redirect", CallError.WRONG_ENDPOINT),
        ("length", CallError.CUT_OFF),
        ("filtered", CallError.DECLINED),
        ("cut", CallError.TRANSIENT),
        ("reset", CallError.DROPPED),
        ("garbage", CallError.TRANSIENT),
        ("garbage-body", CallError.TRANSIENT),
        ("huge", CallError.TRANSIENT),
    ],
)
def test_every_fault_is_told_by_its_class(provider: Make, fault: str, expected: CallError) -> None:
    error = fails(provider(fault))
    assert error.error_class is expected
    assert error.retry_after == (3.0 if fault == "429,seconds=3" else None)
    assert SECRET not in str(error)


def test_a_403_blames_the_key_only_where_it_is_about_the_key(provider: Make) -> None:
    made = provider("403")
    place = isinstance(made, OpenAI)  # it says that the country is not supported
    assert fails(made).error_class is (CallError.FORBIDDEN if place else CallError.KEY_REJECTED)


def test_a_wrong_key_is_rejected(provider: Make) -> None:
    assert fails(provider(), secret="wrong").error_class is CallError.KEY_REJECTED


@pytest.mark.parametrize("fault", ["drip,seconds=0.05", "hang,seconds=60"])
def test_a_call_has_a_deadline_also_where_bytes_keep_coming(provider: Make, fault: str) -> None:
    error = fails(provider(fault, call_timeout=0.5))
    assert error.error_class is CallError.TRANSIENT
    assert str(error).endswith(("no complete reply within 0 s", ": timed out waiting for a reply"))


def test_a_reply_that_was_cut_short_is_paid_for(provider: Make) -> None:
    error = fails(provider("length"))
    assert min(error.usage.tokens_in, error.usage.tokens_out) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_output_is_taken_from_each_formats_refusal(kind: str) -> None:
    make, path = KINDS[kind]
    with running_simulator(SimulatorConfig(max_output=8_192)) as url:
        made: Any = make(url + path, call_timeout=20.0)
        reply = corrected_call(made, DRAFT, secret=Secret("key-1", SECRET), cancel=Cancel())
        assert reply.text
        totals = stats(url)["totals"]
        assert (totals["invalid"], totals["served"]) == (1, 1)
        made._endpoint._client.close()
