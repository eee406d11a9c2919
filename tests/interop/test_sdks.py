"""The official clients against the simulated provider: they accept its answers and know its errors.

So the simulator, which everything else is tested against, is true to the formats it claims to speak.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types

from agentos.review.schema import StructuredReview, parse_review, review_schema
from agentos.simulator import KeyConfig, LimitConfig, SimulatorConfig, parse_fault, running_simulator

SECRET = "sim-key"
PROMPT = "Draft #42"
SECONDS = 20.0
MISSING = {"type": "object", "properties": {}, "additionalProperties": False}


class Clients:
    """One client of each kind, without retries of its own."""

    def __init__(self, url: str, secret: str) -> None:
        self.openai = openai.OpenAI(api_key=secret, base_url=f"{url}/v1", max_retries=0, timeout=SECONDS)
        self.anthropic = anthropic.Anthropic(api_key=secret, base_url=url, max_retries=0, timeout=SECONDS)
        options = types.HttpOptions(base_url=url, timeout=int(1000 * SECONDS))
        self.gemini = genai.Client(api_key=secret, http_options=options)

    def chat(self, **more: Any) -> Any:
        messages: Any = [{"role": "system", "content": "s"}, {"role": "user", "content": PROMPT}]
        return self.openai.chat.completions.create(model="gpt-x", messages=messages, **more)

    def message(self, **more: Any) -> Any:
        messages: Any = [{"role": "user", "content": PROMPT}]
        return self.anthropic.messages.create(
            model="claude-x", max_tokens=4000, system="s", messages=messages, **more
        )

    def generate(self, **more: Any) -> Any:
        config = types.GenerateContentConfig(system_instruction="s", **more)
        return self.gemini.models.generate_content(model="gemini-x", contents=PROMPT, config=config)

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()
        self.gemini.close()


Make = Callable[..., Clients]


@pytest.fixture
def clients() -> Iterator[Make]:
    """Start a simulator with faults and give the clients of it."""
    with ExitStack() as stack:

        def make(*faults: str, secret: str = SECRET, **more: Any) -> Clients:
            config = SimulatorConfig(faults=tuple(map(parse_fault, faults)), **more)
            made = Clients(stack.enter_context(running_simulator(config)), secret)
            stack.callback(made.close)
            return made

        yield make


# Answers.


def test_openai_reads_an_answer(clients: Make) -> None:
    answer = clients().chat()
    assert isinstance(answer, openai.types.chat.ChatCompletion)
    (choice,) = answer.choices
    assert choice.finish_reason == "stop"
    assert choice.message.content is not None
    assert "## Proposed Changes" in choice.message.content
    assert answer.model == "gpt-x"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def test_anthropic_reads_an_answer(clients: Make) -> None:
    answer = clients().message()
    assert isinstance(answer, anthropic.types.Message)
    (block,) = answer.content
    assert block.type == "text"
    assert "## Proposed Changes" in block.text
    assert (answer.model, answer.stop_reason, answer.role) == ("claude-x", "end_turn", "assistant")
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0


def test_gemini_reads_an_answer(clients: Make) -> None:
    answer = clients().generate()
    assert isinstance(answer, types.GenerateContentResponse)
    assert "## Proposed Changes" in (answer.text or "")
    assert answer.model_version == "gemini-x"
    assert answer.candidates
    assert answer.candidates[0].finish_reason is types.FinishReason.STOP
    assert answer.usage_metadata
    assert answer.usage_metadata.total_token_count


def test_openai_reads_a_schema(clients: Make) -> None:
    messages: Any = [{"role": "user", "content": PROMPT}]
    parsed = clients().openai.chat.completions.parse(
        model="gpt-x", messages=messages, response_format=StructuredReview
    )
    review = parsed.choices[0].message.parsed
    assert review is not None
    assert review.verdict == "APPROVED"


def test_anthropic_reads_the_use_of_a_tool(clients: Make) -> None:
    tool = {"name": "review", "description": "Give the review.", "input_schema": review_schema("lld")}
    answer = clients().message(tools=[tool], tool_choice={"type": "tool", "name": "review"})
    (block,) = answer.content
    assert (block.type, block.name, answer.stop_reason) == ("tool_use", "review", "tool_use")
    assert StructuredReview.model_validate(block.input).verdict == "APPROVED"


def test_gemini_reads_a_schema(clients: Make) -> None:
    answer = clients().generate(
        response_mime_type="application/json", response_json_schema=review_schema("lld")
    )
    assert answer.parsed["verdict"] == "APPROVED"
    assert parse_review(answer.text or "", "lld").verdict == "APPROVED"


def test_tools_are_called_as_each_client_expects(clients: Make) -> None:
    one = clients()
    function = {"name": "look", "description": "d", "parameters": MISSING}
    chosen = one.chat(tools=[{"type": "function", "function": function}]).choices[0]
    assert (chosen.finish_reason, chosen.message.tool_calls[0].function.name) == ("tool_calls", "look")
    declared = types.FunctionDeclaration(name="look", description="d", parameters_json_schema=MISSING)
    answer = one.generate(
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    assert [call.name for call in answer.function_calls or ()] == ["look"]


def test_streams_come_to_the_same_text(clients: Make) -> None:
    one = clients()
    whole = one.chat().choices[0].message.content
    parts = [chunk.choices[0].delta.content or "" for chunk in one.chat(stream=True) if chunk.choices]
    assert len(parts) > 2
    assert "".join(parts) == whole
    messages: Any = [{"role": "user", "content": PROMPT}]
    with one.anthropic.messages.stream(model="claude-x", max_tokens=4000, messages=messages) as stream:
        text = "".join(stream.text_stream)
        assert stream.get_final_message().stop_reason == "end_turn"
    assert "## Proposed Changes" in text
    chunks = list(one.gemini.models.generate_content_stream(model="gemini-x", contents=PROMPT))
    assert len(chunks) > 2
    assert "## Proposed Changes" in "".join(chunk.text or "" for chunk in chunks)


def test_models_are_listed(clients: Make) -> None:
    one = clients(models=("gpt-x", "gpt-y"))
    assert [model.id for model in one.openai.models.list()] == ["gpt-x", "gpt-y"]
    assert [model.id for model in one.anthropic.models.list()] == ["gpt-x", "gpt-y"]
    assert [model.name for model in one.gemini.models.list()] == ["models/gpt-x", "models/gpt-y"]


def test_limits_are_told_in_headers_where_the_provider_tells_them(clients: Make) -> None:
    keys = (KeyConfig(secret=SECRET, limits=LimitConfig(rpm=60, tpm=100_000)),)
    one = clients(keys=keys)
    messages: Any = [{"role": "user", "content": PROMPT}]
    told = one.openai.chat.completions.with_raw_response.create(model="gpt-x", messages=messages).headers
    assert told["x-ratelimit-limit-requests"] == "60"
    told = one.anthropic.messages.with_raw_response.create(
        model="claude-x", max_tokens=4000, messages=messages
    ).headers
    assert told["anthropic-ratelimit-requests-limit"] == "60"


# Answers that are not whole.


def test_a_truncated_answer_says_so(clients: Make) -> None:
    one = clients("length")
    assert one.chat().choices[0].finish_reason == "length"
    assert one.message().stop_reason == "max_tokens"
    assert one.generate().candidates[0].finish_reason is types.FinishReason.MAX_TOKENS


def test_a_limit_on_the_output_truncates(clients: Make) -> None:
    one = clients()
    assert one.chat(max_completion_tokens=5).choices[0].finish_reason == "length"
    assert one.generate(max_output_tokens=5).candidates[0].finish_reason is types.FinishReason.MAX_TOKENS


def test_a_refused_text_says_so(clients: Make) -> None:
    one = clients("filtered")
    assert one.chat().choices[0].finish_reason == "content_filter"
    assert one.message().stop_reason == "refusal"
    assert one.generate().candidates[0].finish_reason is types.FinishReason.SAFETY


def test_another_model_is_named(clients: Make) -> None:
    one = clients("other-model")
    assert one.chat().model == "gpt-x-mini"
    assert one.message().model == "claude-x-mini"
    assert one.generate().model_version == "gemini-x-mini"


# Errors, by the clients' own types.


@pytest.mark.parametrize(
    ("fault", "expected", "code"),
    [
        ("400", openai.BadRequestError, None),
        ("401", openai.AuthenticationError, "invalid_api_key"),
        ("403", openai.PermissionDeniedError, "unsupported_country_region_territory"),
        ("429", openai.RateLimitError, "rate_limit_exceeded"),
        ("quota", openai.RateLimitError, "insufficient_quota"),
        ("500", openai.InternalServerError, None),
        ("502", openai.InternalServerError, None),
        ("503", openai.InternalServerError, "server_is_overloaded"),
        ("529", openai.InternalServerError, "server_is_overloaded"),
    ],
)
def test_openai_raises_its_own_error(
    clients: Make, fault: str, expected: type[openai.APIStatusError], code: str | None
) -> None:
    with pytest.raises(expected) as caught:
        clients(fault).chat()
    assert caught.value.status_code == {"quota": 429}.get(fault, int(fault) if fault.isdigit() else 0)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("fault", "expected", "kind"),
    [
        ("400", anthropic.BadRequestError, "invalid_request_error"),
        ("401", anthropic.AuthenticationError, "authentication_error"),
        ("403", anthropic.PermissionDeniedError, "permission_error"),
        ("429", anthropic.RateLimitError, "rate_limit_error"),
        ("quota", anthropic.RateLimitError, "rate_limit_error"),
        ("500", anthropic.InternalServerError, "api_error"),
        ("503", anthropic.InternalServerError, "api_error"),
        ("529", anthropic.InternalServerError, "overloaded_error"),
    ],
)
def test_anthropic_raises_its_own_error(
    clients: Make, fault: str, expected: type[anthropic.APIStatusError], kind: str
) -> None:
    with pytest.raises(expected) as caught:
        clients(fault).message()
    body: Any = caught.value.body
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert caught.value.request_id == body["request_id"]
    assert caught.value.status_code == (429 if fault == "quota" else int(fault))


@pytest.mark.parametrize(
    ("fault", "expected", "code", "status"),
    [
        ("400", genai_errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("401", genai_errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("403", genai_errors.ClientError, 403, "PERMISSION_DENIED"),
        ("429", genai_errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("quota", genai_errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("500", genai_errors.ServerError, 500, "INTERNAL"),
        ("503", genai_errors.ServerError, 503, "UNAVAILABLE"),
    ],
)
def test_gemini_raises_its_own_error(
    clients: Make, fault: str, expected: type[genai_errors.APIError], code: int, status: str
) -> None:
    with pytest.raises(expected) as caught:
        clients(fault).generate()
    assert (caught.value.code, caught.value.status) == (code, status)


def test_how_long_to_wait_is_told_as_each_provider_tells_it(clients: Make) -> None:
    one = clients("429,seconds=7")
    with pytest.raises(openai.RateLimitError) as first:
        one.chat()
    assert first.value.response.headers["retry-after"] == "7"
    assert first.value.response.headers["retry-after-ms"] == "7000"
    with pytest.raises(anthropic.RateLimitError) as second:
        one.message()
    assert second.value.response.headers["retry-after"] == "7"
    with pytest.raises(genai_errors.ClientError) as third:
        one.generate()
    told: Any = third.value.details
    assert {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"} in told["error"][
        "details"
    ]


def test_a_wrong_key_is_refused(clients: Make) -> None:
    one = clients(secret="wrong")
    with pytest.raises(openai.AuthenticationError):
        one.chat()
    with pytest.raises(anthropic.AuthenticationError):
        one.message()
    with pytest.raises(genai_errors.ClientError, match="API key not valid"):
        one.generate()


def test_a_model_that_does_not_exist_is_not_found(clients: Make) -> None:
    one = clients(models=("other",))
    with pytest.raises(openai.NotFoundError):
        one.chat()
    with pytest.raises(anthropic.NotFoundError):
        one.message()
    with pytest.raises(genai_errors.ClientError) as caught:
        one.generate()
    assert caught.value.code == 404


@pytest.mark.parametrize("fault", ["reset", "cut", "garbage"])
def test_a_broken_connection_is_a_connection_error(clients: Make, fault: str) -> None:
    one = clients(fault)
    with pytest.raises(openai.APIConnectionError):
        one.chat()
    with pytest.raises(anthropic.APIConnectionError):
        one.message()
    with pytest.raises(httpx2.TransportError):  # this client passes its transport's errors on
        one.generate()


def test_a_body_that_is_no_json_is_a_decoding_error(clients: Make) -> None:
    one = clients("garbage-body")
    for call in (one.chat, one.message, one.generate):
        with pytest.raises(ValueError, match=r"utf-8|Expecting"):
            call()
