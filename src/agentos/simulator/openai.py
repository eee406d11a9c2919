"""The OpenAI chat completions format."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agentos.simulator.dialect import (
    ErrorAnswer,
    Headers,
    Problem,
    ProblemKind,
    SimulatedCall,
    SimulatedReply,
    ToolChoice,
    bearer,
    dump,
    name_of,
    need_list,
    need_text,
    number,
    objects,
    optional_count,
    pieces,
    schema_text,
    text_of,
)
from agentos.simulator.limits import Level, LimitName

_FINISH = {"stop": "stop", "length": "length", "filtered": "content_filter"}
_LIMIT_WORDS = {
    LimitName.REQUESTS: "requests per min (RPM)",
    LimitName.TOKENS: "tokens per min (TPM)",
    LimitName.DAY: "requests per day (RPD)",
    LimitName.CONCURRENCY: "concurrent requests",
}


class OpenAIDialect:
    def too_long(self, call: SimulatedCall, most: int) -> str:
        allowed = f"This model supports at most {most} completion tokens"
        return (
            f"max_tokens is too large: {call.max_tokens}. {allowed}, whereas you provided {call.max_tokens}."
        )

    def secret(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:  # noqa: ARG002
        return bearer(headers)

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> SimulatedCall:  # noqa: ARG002
        model = need_text(body, "model")
        system: list[str] = []
        prompt: list[str] = []
        for index, message in enumerate(need_list(body, "messages")):
            content = message.get("content")
            text = "" if content is None else text_of(content, f"messages.{index}.content")
            (system if message.get("role") in {"system", "developer"} else prompt).append(text)
        form = body.get("response_format")
        tool = _tool(body)
        options = body.get("stream_options")
        return SimulatedCall(
            model=model,
            system="\n".join(system),
            prompt="\n".join(prompt),
            wanted=tool.name if tool else _wanted(form),
            schema=schema_text(body.get("tools"), form),
            tool=tool,
            stream=body.get("stream") is True,
            stream_usage=isinstance(options, dict) and options.get("include_usage") is True,
            max_tokens=optional_count(body, "max_completion_tokens") or optional_count(body, "max_tokens"),
        )

    def body(self, reply: SimulatedReply) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text,
            "refusal": None,
            "annotations": [],
        }
        if reply.call.tool:
            message |= {"content": None, "tool_calls": [_tool_call(reply, reply.text)]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        return {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion",
            "created": reply.created,
            "model": reply.model,
            "choices": [choice],
            "usage": _usage(reply),
            "service_tier": "default",
            "system_fingerprint": "fp_simulated",
        }

    def stream(self, reply: SimulatedReply) -> Iterator[bytes]:
        frame = {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion.chunk",
            "created": reply.created,
            "model": reply.model,
            "service_tier": "default",
            "system_fingerprint": "fp_simulated",
        }

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            usage = {"usage": None} if reply.call.stream_usage else {}
            return b"data: " + dump(frame | {"choices": [choice]} | usage) + b"\n\n"

        first: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
        if reply.call.tool:
            first |= {"content": None, "tool_calls": [{"index": 0, **_tool_call(reply, "")}]}
        yield chunk(first)
        for piece in pieces(reply.text):
            if reply.call.tool:
                yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
            else:
                yield chunk({"content": piece})
        yield chunk({}, _finish(reply))
        if reply.call.stream_usage:
            yield b"data: " + dump(frame | {"choices": [], "usage": _usage(reply)}) + b"\n\n"
        yield b"data: [DONE]\n\n"

    def answer(self, problem: Problem, request_id: str) -> ErrorAnswer:  # noqa: ARG002
        found = _error(problem)
        headers: Headers = []
        wait = problem.refusal.wait if problem.refusal else None
        if problem.kind is ProblemKind.RATE_LIMITED and problem.hints and wait is not None:
            headers.append(("retry-after", str(math.ceil(wait))))
            headers.append(("retry-after-ms", str(math.ceil(wait * 1000))))
        error = {"message": problem.message or found.message, "type": found.type, "param": problem.param}
        return ErrorAnswer(status=found.status, body={"error": error | {"code": found.code}}, headers=headers)

    def headers(self, levels: Mapping[LimitName, Level], request_id: str, wall: float) -> Headers:  # noqa: ARG002
        found: Headers = [
            ("x-request-id", request_id),
            ("openai-organization", "org-simulated"),
            ("openai-processing-ms", "1"),
            ("openai-version", "2020-10-01"),
        ]
        requests = levels.get(LimitName.REQUESTS) or levels.get(LimitName.DAY)
        for name, level in (("requests", requests), ("tokens", levels.get(LimitName.TOKENS))):
            if level:
                found.append((f"x-ratelimit-limit-{name}", number(level.limit)))
                found.append((f"x-ratelimit-remaining-{name}", number(level.remaining)))
                found.append((f"x-ratelimit-reset-{name}", go_duration(level.reset)))
        return found

    def models(self, names: tuple[str, ...]) -> dict[str, Any]:
        listed = [
            {"id": one, "object": "model", "created": 1_700_000_000, "owned_by": "simulated"} for one in names
        ]
        return {"object": "list", "data": listed}


def go_duration(seconds: float) -> str:
    """Write a duration as Go does: 20ms, 1.5s, 6m0s, 1h0m0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _wanted(form: Any) -> str:
    if not isinstance(form, dict) or form.get("type") not in {"json_schema", "json_object"}:
        return ""
    return name_of(form.get("json_schema"), "name")


def _tool(body: Mapping[str, Any]) -> ToolChoice | None:
    functions = [tool.get("function") for tool in objects(body.get("tools"))]
    names = [one["name"] for one in functions if isinstance(one, dict) and isinstance(one.get("name"), str)]
    choice = body.get("tool_choice")
    if not names or choice == "none":
        return None
    wanted = choice.get("function") if isinstance(choice, dict) else None
    if isinstance(wanted, dict) and wanted.get("name") in names:
        return ToolChoice(name=wanted["name"], demanded=True)
    return ToolChoice(name=names[0])


def _tool_call(reply: SimulatedReply, arguments: str) -> dict[str, Any]:
    function = {"name": reply.call.tool.name if reply.call.tool else "", "arguments": arguments}
    return {"id": f"call_{reply.id[:24]}", "type": "function", "function": function}


def _finish(reply: SimulatedReply) -> str:
    if reply.finish == "stop" and reply.call.tool and not reply.call.tool.demanded:
        return "tool_calls"
    return _FINISH[reply.finish]


def _usage(reply: SimulatedReply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.tokens_in,
        "completion_tokens": reply.tokens_out,
        "total_tokens": reply.tokens_in + reply.tokens_out,
        "prompt_tokens_details": {"cached_tokens": reply.cache.read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


class _Error(NamedTuple):
    status: int
    type: str
    code: str | None
    message: str


def _error(problem: Problem) -> _Error:
    if problem.kind is ProblemKind.RATE_LIMITED:
        return _rate_limited(problem)
    invalid = "invalid_request_error"
    overloaded = "service_unavailable_error", "server_is_overloaded", "The server is overloaded."
    secret = problem.secret
    # The real API also quotes part of the key: clients are tested for leaking it.
    masked = f"{secret[:3]}{'*' * (len(secret) - 7)}{secret[-4:]}" if len(secret) >= 12 else "***"
    return {
        ProblemKind.NO_KEY: _Error(401, invalid, None, "No API key was sent; use an Authorization header."),
        ProblemKind.BAD_KEY: _Error(
            401, invalid, "invalid_api_key", f"Incorrect API key provided: {masked}."
        ),
        ProblemKind.PAYMENT: _Error(402, invalid, "payment_required", "Payment is required."),
        ProblemKind.FORBIDDEN: _Error(
            403, "request_forbidden", "unsupported_country_region_territory", "No."
        ),
        ProblemKind.INVALID: _Error(400, invalid, None, "The request is not valid."),
        ProblemKind.NO_MODEL: _Error(404, invalid, "model_not_found", f"No model `{problem.model}` exists."),
        ProblemKind.NOT_FOUND: _Error(404, invalid, None, "There is nothing at this address."),
        ProblemKind.QUOTA: _Error(429, "insufficient_quota", "insufficient_quota", "Your quota is used up."),
        ProblemKind.INTERNAL: _Error(500, "server_error", None, "The server had an error."),
        ProblemKind.UNAVAILABLE: _Error(503, *overloaded),
        ProblemKind.OVERLOADED: _Error(529, *overloaded),
    }[problem.kind]


def _rate_limited(problem: Problem) -> _Error:
    refusal = problem.refusal
    limit = refusal.limit if refusal else LimitName.REQUESTS
    message = (
        f"Rate limit reached for {problem.model} in organization org-simulated on {_LIMIT_WORDS[limit]}."
    )
    if refusal:
        message += f" Limit {number(refusal.value)}."
        if refusal.wait is not None and problem.hints:
            message += f" Please try again in {go_duration(refusal.wait)}."
    kind = "tokens" if limit is LimitName.TOKENS else "requests"
    return _Error(429, kind, "rate_limit_exceeded", message)
