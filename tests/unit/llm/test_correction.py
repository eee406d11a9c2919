"""What a server says about a request it refuses, in the words of many servers."""

# ruff: noqa: E501 - the words of servers stay in one piece

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.llm.correction import Correction, fitted, output_limit, understand
from agentos.model_facts import UNKNOWN, ModelFacts

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "draft"}],
    "max_tokens": 16_000,
    "temperature": 0.2,
    "reasoning_effort": "high",
    "prompt_cache_key": "agentos-1",
    "response_format": {"type": "json_schema"},
}
NEWER = {name: value for name, value in CHAT.items() if name != "max_tokens"} | {
    "max_completion_tokens": 16_000
}
CLAUDE: dict[str, Any] = {
    "model": "m",
    "max_tokens": 64_000,
    "temperature": 0.2,
    "thinking": {"type": "enabled", "budget_tokens": 8_000},
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "draft"}],
    "tools": [{"name": "review"}],
    "tool_choice": {"type": "tool", "name": "review"},
}
GEMINI: dict[str, Any] = {
    "contents": [],
    "generationConfig": {
        "maxOutputTokens": 65_536,
        "thinkingConfig": {"thinkingLevel": "high"},
        "responseMimeType": "application/json",
        "responseJsonSchema": {},
    },
}


def error(message: str, **more: Any) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def name(new: Any) -> Correction:
    return Correction(limit_name=new)


def most(tokens: int) -> Correction:
    return Correction(max_output=tokens)


def room(context: int, prompt: int) -> Correction:
    return Correction(context=context, prompt=prompt)


def without(parameter: str) -> Correction:
    return Correction(unsupported=parameter)


INSTEAD = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
SAID: dict[str, tuple[dict[str, Any], Any, Correction]] = {
    "OpenAI, new name": (
        CHAT,
        error(INSTEAD, param="max_tokens", code="unsupported_parameter"),
        name("max_completion_tokens"),
    ),
    "Copilot, new name": (CHAT, {"error": {"message": INSTEAD, "code": "invalid_request_body"}}, name("max_completion_tokens")),
    "LiteLLM, new name": (
        CHAT,
        error(f"litellm.BadRequestError: AzureException BadRequestError - {INSTEAD}", param=None, code="400"),
        name("max_completion_tokens"),
    ),
    "Azure, old name": (
        NEWER,
        error("Unrecognized request argument supplied: max_completion_tokens", param=None, code=None),
        name("max_tokens"),
    ),
    "Mistral, old name": (
        NEWER,
        {"object": "error", "message": {"detail": [
            {"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"],
             "msg": "Extra inputs are not permitted", "input": 16_000}]}},
        name("max_tokens"),
    ),
    "OpenAI, largest": (
        CHAT,
        error("max_tokens is too large: 16000. This model supports at most 4096 completion tokens, whereas you provided 16000.", param="max_tokens"),
        most(4096),
    ),
    "a gateway, largest in another field": (
        CHAT,
        error("Param Incorrect", param="max_tokens is too large: 16000. This model supports at most 8192 completion tokens, whereas you provided 16000."),
        most(8192),
    ),
    "Anthropic, largest": (
        CLAUDE,
        {"type": "error", "error": {"type": "invalid_request_error", "message":
            "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022"}},
        most(8192),
    ),
    "Gemini, largest": (
        GEMINI,
        {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
            "Unable to submit request because it has a maxOutputTokens value of 65536 but the supported range is"
            " from 1 (inclusive) to 8193 (exclusive). Update the value and try again."}},
        most(8192),
    ),
    "DeepSeek, largest": (
        CHAT,
        error("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", param=None),
        most(8192),
    ),
    "Groq, largest": (
        CHAT,
        error("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model"),
        most(8192),
    ),
    "Groq, largest of one model": (
        CHAT,
        error("max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000"),
        most(8000),
    ),
    "Volcengine, largest": (
        NEWER,
        {"error": {"code": "InvalidParameter", "param": "max_completion_tokens", "message":
            "The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum"
            " value, expected a value <= 12288, but got 16000 instead."}},
        most(12_288),
    ),
    "Alibaba, largest": (CHAT, error("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"), most(8192)),
    "Bedrock, largest": (
        CHAT,
        {"message": "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."},
        most(4096),
    ),
    "Cohere, largest": (
        CHAT,
        {"message": "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 16000."},
        most(4096),
    ),
    "Fireworks, largest without a stream": (CHAT, error("Requests with max_tokens > 4096 must have stream=true"), most(4096)),
    "OpenAI and vLLM, context": (
        CHAT,
        error("This model's maximum context length is 8192 tokens. However, you requested 17064 tokens (1064 in the messages, 16000 in the completion). Please reduce the length of the messages or completion.", code="context_length_exceeded", param="messages"),
        room(8192, 1064),
    ),
    "vLLM, newer": (
        CHAT,
        {"object": "error", "code": 400, "message":
            "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length is"
            " 16384 tokens and your request has 4235 input tokens (16000 > 16384 - 4235). None"},
        room(16_384, 4235),
    ),
    "vLLM, newest": (
        CHAT,
        error("This model's maximum context length is 16384 tokens. However, you requested 16000 output tokens and your prompt contains at least 4000 input tokens, for a total of at least 20000 tokens. Please reduce the length of the input prompt or the number of requested output tokens."),
        room(16_384, 4000),
    ),
    "Anthropic, context": (
        CLAUDE,
        error("input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"),
        room(200_000, 178_959),
    ),
    "OpenRouter, context": (
        CHAT,
        error("This endpoint's maximum context length is 20000 tokens. However, you requested about 24000 tokens (8000 of text input, 16000 in the output). Please reduce the length of either one."),
        room(20_000, 8000),
    ),
    "Together, context": (
        CHAT,
        error("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 1000 `inputs` tokens and 16000 `max_new_tokens`"),
        room(8193, 1000),
    ),
    "OpenAI, temperature": (
        CHAT,
        error("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.", param="temperature", code="unsupported_value"),
        without("temperature"),
    ),
    "Anthropic, temperature": (CLAUDE, error("`temperature` is deprecated for this model."), without("temperature")),
    "OpenAI, effort": (
        CHAT,
        error("Unrecognized request argument supplied: reasoning_effort"),
        without("reasoning_effort"),
    ),
    "xAI, effort": (CHAT, {"code": "Client specified an invalid argument", "error": "Argument not supported on this model: reasoningEffort"}, without("reasoning_effort")),
    "LiteLLM, effort": (
        CHAT,
        error("litellm.UnsupportedParamsError: openai does not support parameters: ['reasoning_effort'], for model=gpt-4o."),
        without("reasoning_effort"),
    ),
    "Mistral, cache key": (
        CHAT,
        {"object": "error", "message": {"detail": [
            {"type": "extra_forbidden", "loc": ["body", "prompt_cache_key"],
             "msg": "Extra inputs are not permitted", "input": "agentos-1"}]}},
        without("prompt_cache_key"),
    ),
    "Groq, cache key": (CHAT, error("property 'prompt_cache_key' is unsupported"), without("prompt_cache_key")),
    "Groq, schema": (CHAT, error("This model does not support response format `json_schema`."), without("response_format")),
    "Ollama, nothing said": (CHAT, {"error": "invalid format"}, without("response_format")),
    "Anthropic, thinking with a tool": (
        CLAUDE,
        error("Thinking may not be enabled when tool_choice forces tool use."),
        without("thinking"),
    ),
    "a gateway without cache marks": (
        CLAUDE,
        error("system.0.cache_control: Extra inputs are not permitted"),
        without("cache_control"),
    ),
    "Gemini, thinking": (
        GEMINI,
        {"error": {"code": 400, "message": "Thinking level is not supported for this model.", "status": "INVALID_ARGUMENT"}},
        without("thinkingConfig"),
    ),
    "Gemini, schema": (
        GEMINI,
        {"error": {"code": 400, "message": "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field."}},
        without("responseJsonSchema"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("server", SAID)
def test_what_servers_say_is_understood(server: str) -> None:
    sent, body, expected = SAID[server]
    assert understand(400, json.dumps(body).encode(), sent) == expected


@pytest.mark.parametrize("server", SAID)
def test_the_same_refusal_of_the_corrected_request_is_not_corrected_again(server: str) -> None:
    sent, body, expected = SAID[server]
    facts = expected.applied(UNKNOWN)
    limit = next(
        one
        for one in ("max_tokens", "max_completion_tokens", "maxOutputTokens")
        if one in {**sent, **sent.get("generationConfig", {})}
    )
    holder = sent.get("generationConfig", sent)
    asked = min(output_limit(holder[limit], 0, facts), expected.room or holder[limit])
    smaller = (
        {**sent, limit: asked} if holder is sent else {**sent, "generationConfig": {**holder, limit: asked}}
    )
    changed = fitted(smaller, facts)
    again = understand(400, json.dumps(body).encode(), changed)
    assert changed != sent
    assert again != expected
    assert ModelFacts.model_validate_json(facts.model_dump_json()) == facts, "it can be kept in a file"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "The model `gpt-6` does not exist or you do not have access to it."),
        (
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        ),
        (400, "max_tokens must be greater than thinking.budget_tokens"),
        (400, "thinking.budget_tokens must be at least 1024 and less than max_tokens"),
        (400, "max_tokens is wrong: 4096 or 8192"),
        (400, "max_tokens is too large: 16000. This model supports at most 12 completion tokens."),
        (400, "max_tokens is too small: it must be at most 999999999999999"),
        (500, INSTEAD),
        (302, INSTEAD),
    ],
)
def test_what_cannot_be_corrected_is_not(status: int, message: str) -> None:
    sent = {"model": "m", "messages": [], "max_tokens": 16_000}
    assert understand(status, json.dumps(error(message)).encode(), sent) is None


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens cannot be greater than 8192",
        "max_tokens (16000) must not be greater than 8192",
        "The max_tokens value must not be larger than 8192.",
        "max_tokens must be from 1 to 8192",
        "max_tokens must be in range 1-8192",
        "max_tokens should be in [1..8192]",
        "Value error, max_tokens: 16000 is out of range (1, 8192)",
        "max_tokens=16000 exceeds maximum 8192",
        "max_tokens exceeds limit 8192",
        "max_tokens exceeds the limit (8192)",
        "max_tokens too large, max allowed 8192",
        "The value of max_tokens (16000) is greater than the maximum allowed (8192)",
        "Requested 16000 output tokens, but the model only supports 8192",
        "max_tokens value 16000 is larger than the largest permitted value 8192",
        "16000 is greater than the maximum of 8192 - 'max_tokens'",
        "The value 16000 of `max_tokens` is above the maximum value 8,192",
        "max_tokens: 16000 is not supported by gpt-4-0613, which writes 8192",
    ],
)
def test_the_largest_value_is_understood_in_many_words(message: str) -> None:
    sent = {"model": "m", "messages": [], "max_tokens": 16_000}
    assert understand(400, json.dumps(error(message)).encode(), sent) == Correction(max_output=8_192)


@pytest.mark.parametrize(
    "message",
    [
        "Please provide max_completion_tokens instead of max_tokens",
        "max_tokens has been replaced by max_completion_tokens for reasoning models of 2024",
        "'max_tokens' is not allowed for this model; please specify 'max_completion_tokens'",
        "Parameter max_tokens must not be set for o-series models. Set max_completion_tokens.",
        "Invalid parameter: max_tokens (did you mean max_completion_tokens?)",
        "max_tokens: Extra inputs are not permitted",
    ],
)
def test_the_other_name_is_understood_in_many_words(message: str) -> None:
    sent = {"model": "m", "messages": [], "max_tokens": 16_000}
    expected = Correction(limit_name="max_completion_tokens")
    assert understand(400, json.dumps(error(message)).encode(), sent) == expected


def test_a_quoted_request_says_nothing() -> None:
    detail = {"type": "string_type", "loc": ["body", "messages"], "msg": "Input should be a valid string"}
    quoted = detail | {"input": "max_tokens: supports at most 300 completion tokens"}
    sent = {"model": "m", "messages": [], "max_tokens": 16_000}
    assert understand(422, json.dumps({"detail": [quoted]}).encode(), sent) is None


@settings(max_examples=300, deadline=None)
@given(
    status=st.integers(100, 599),
    body=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)),
)
def test_nothing_a_server_sends_breaks_it(status: int, body: bytes) -> None:
    understand(status, body, CHAT)


def test_a_limit_that_is_known_is_asked_for_at_once() -> None:
    assert output_limit(16_000, 1_000, UNKNOWN) == 16_000
    assert output_limit(16_000, 1_000, ModelFacts(max_output=8_192)) == 8_192
    assert output_limit(16_000, 1_000, ModelFacts(context=8_192)) == 8_192 - 1_350 - 64
    assert output_limit(16_000, 9_000, ModelFacts(context=8_192)) == 256, (
        "the server says that it is too long"
    )
    assert output_limit(100, 0, ModelFacts(context=8_192)) == 100


def test_facts_are_told_in_words_and_only_what_is_new() -> None:
    before = ModelFacts(max_output=8_192)
    now = ModelFacts(max_output=8_192, limit_name="max_tokens", unsupported=("temperature",))
    assert now.described(before) == (
        "takes its output limit as max_tokens",
        "does not accept temperature; it is left out",
    )
    assert now.described(now) == ()
