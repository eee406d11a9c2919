"""How a reply ended, in the words of many servers; and errors that come with a 200."""

import json
from typing import Any

import pytest

from agentos.llm import anthropic, gemini, openai
from agentos.llm.classify import classify, error_status
from agentos.llm.http import HttpAnswer
from agentos.llm.provider import CutReply, ProviderError, Reply
from agentos.model import CallError


def from_openai(finish: Any, content: Any = "hello") -> Reply:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
    usage = {"prompt_tokens": 3, "completion_tokens": 5}
    return openai._reply(HttpAnswer(data={"model": "m", "choices": [choice], "usage": usage}, headers={}))


def from_anthropic(finish: Any) -> Reply:
    usage = {"input_tokens": 3, "output_tokens": 5}
    data = {"model": "m", "content": [{"type": "text", "text": "hello"}], "stop_reason": finish}
    return anthropic._reply(HttpAnswer(data=data | {"usage": usage}, headers={}))


def from_gemini(finish: Any) -> Reply:
    candidate = {"content": {"parts": [{"text": "hello"}]}, "finishReason": finish}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 5}
    data = {"modelVersion": "m", "candidates": [candidate], "usageMetadata": usage}
    return gemini._reply(HttpAnswer(data=data, headers={}))


ALL = pytest.mark.parametrize("reply", [from_openai, from_anthropic, from_gemini])


@ALL
@pytest.mark.parametrize("finish", ["stop", "STOP", "eos", "eos_token", "end_turn", "stop_sequence"])
def test_complete(reply: Any, finish: str) -> None:
    assert reply(finish).text == "hello"


@ALL
@pytest.mark.parametrize(
    "finish", ["length", "MAX_TOKENS", "max_tokens", "model_length", "model_context_window_exceeded"]
)
def test_cut(reply: Any, finish: str) -> None:
    with pytest.raises(CutReply) as caught:
        reply(finish)
    assert (caught.value.model, caught.value.usage.tokens_out) == ("m", 5)


@ALL
@pytest.mark.parametrize("finish", ["content_filter", "refusal", "SAFETY"])
def test_declined(reply: Any, finish: str) -> None:
    with pytest.raises(ProviderError, match=f"the model declined: {finish}"):
        reply(finish)


@ALL
@pytest.mark.parametrize("finish", [None, 7, "odd", ["stop"]])
def test_unknown_is_paid_for_and_may_be_tried_again(reply: Any, finish: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        reply(finish)
    assert caught.value.error_class is CallError.TRANSIENT
    assert caught.value.usage.tokens_out == 5


def test_text_in_parts_is_joined_without_the_thinking() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [thinking, {"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    assert from_openai("stop", parts).text == "hello"
    for broken in ([{"type": "text"}], [7], None):
        with pytest.raises(ProviderError):
            from_openai("stop", broken)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "Provider returned error", "code": 400}, CallError.BAD_REQUEST),
        ({"message": "Upstream failed", "code": 502}, CallError.TRANSIENT),
        ({"message": "Slow down", "code": "429"}, CallError.RATE_LIMITED),
        ({"message": "Slow down", "code": "rate_limit_exceeded"}, CallError.RATE_LIMITED),
        ({"message": "No credit", "code": "insufficient_quota"}, CallError.NO_CREDIT),
        ({"message": "No such key", "code": "invalid_api_key"}, CallError.KEY_REJECTED),
        ({"message": "No such model", "type": "model_not_found"}, CallError.NO_MODEL),
        ({"message": "odd"}, CallError.TRANSIENT),
    ],
)
def test_an_error_with_a_200_is_classified_by_what_it_says(error: Any, expected: CallError) -> None:
    body = json.dumps({"error": error}).encode()
    assert classify("openai", error_status(body), {}, body, now_wall=0.0).error_class is expected
