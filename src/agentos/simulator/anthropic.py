"""The Anthropic messages format."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from agentos.simulator.dialect import (
    ErrorAnswer,
    Headers,
    Problem,
    ProblemKind,
    RefusedCall,
    SimulatedCall,
    SimulatedReply,
    ToolChoice,
    as_object,
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

MARKS_MOST = 4  # blocks with cache_control in one request
_FINISH = {"stop": "end_turn", "length": "max_tokens", "filtered": "refusal"}
_ERRORS: dict[ProblemKind, tuple[int, str, str]] = {
    ProblemKind.NO_KEY: (401, "authentication_error", "x-api-key header is required"),
    ProblemKind.BAD_KEY: (401, "authentication_error", "invalid x-api-key"),
    ProblemKind.PAYMENT: (402, "billing_error", "There is a problem with the payment details."),
    ProblemKind.FORBIDDEN: (403, "permission_error", "This key may not use the resource."),
    ProblemKind.INVALID: (400, "invalid_request_error", "The request is not valid."),
    ProblemKind.NO_MODEL: (404, "not_found_error", "model"),
    ProblemKind.NOT_FOUND: (404, "not_found_error", "Not found."),
    ProblemKind.RATE_LIMITED: (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit.",
    ),
    ProblemKind.QUOTA: (429, "rate_limit_error", "The monthly spend limit of the organization is reached."),
    ProblemKind.INTERNAL: (500, "api_error", "Internal server error"),
    ProblemKind.UNAVAILABLE: (503, "api_error", "Service unavailable"),
    ProblemKind.OVERLOADED: (529, "overloaded_error", "Overloaded"),
}


class AnthropicDialect:
    def too_long(self, call: SimulatedCall, most: int) -> str:
        allowed = f"which is the maximum allowed number of output tokens for {call.model}"
        return f"max_tokens: {call.max_tokens} > {most}, {allowed}"

    def secret(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:  # noqa: ARG002
        return headers.get("x-api-key") or bearer(headers)  # the official client sends either

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> SimulatedCall:  # noqa: ARG002
        if not headers.get("anthropic-version"):
            raise RefusedCall(ProblemKind.INVALID, "anthropic-version: header is required")
        model = need_text(body, "model")
        max_tokens = optional_count(body, "max_tokens")
        if max_tokens is None:
            raise RefusedCall(ProblemKind.INVALID, "max_tokens: Field required")
        prompt = []
        for index, message in enumerate(need_list(body, "messages")):
            if message.get("role") not in {"user", "assistant"}:
                raise RefusedCall(ProblemKind.INVALID, f"messages.{index}.role: must be user or assistant")
            prompt.append(text_of(message.get("content"), f"messages.{index}.content"))
        system = body.get("system")
        tool = _tool(body)
        config = body.get("output_config")
        form = config.get("format") if isinstance(config, dict) else body.get("output_format")
        schema = schema_text(body.get("tools"), form)
        return SimulatedCall(
            model=model,
            system="" if system is None else text_of(system, "system"),
            prompt="\n".join(prompt),
            wanted=tool.name if tool else _wanted(form),
            schema=schema,
            tool=tool,
            stream=body.get("stream") is True,
            max_tokens=max_tokens,
            marks=_marks(schema, system, body["messages"]),
        )

    def body(self, reply: SimulatedReply) -> dict[str, Any]:
        return _message(reply) | {
            "content": [_block(reply)] if reply.text else [],
            "stop_reason": _stop_reason(reply),
            "usage": _usage(reply, reply.tokens_out),
        }

    def stream(self, reply: SimulatedReply) -> Iterator[bytes]:
        def event(kind: str, **values: Any) -> bytes:
            return f"event: {kind}\ndata: ".encode() + dump({"type": kind, **values}) + b"\n\n"

        yield event("message_start", message=_message(reply) | {"usage": _usage(reply, 1)})
        empty = {"type": "text", "text": ""}
        if reply.call.tool:
            empty = _block(reply) | {"input": {}}
        yield event("content_block_start", index=0, content_block=empty)
        yield event("ping")
        for piece in pieces(reply.text):
            delta = {"type": "text_delta", "text": piece}
            if reply.call.tool:
                delta = {"type": "input_json_delta", "partial_json": piece}
            yield event("content_block_delta", index=0, delta=delta)
        yield event("content_block_stop", index=0)
        stop = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        yield event("message_delta", delta=stop, usage=_usage(reply, reply.tokens_out))
        yield event("message_stop")

    def answer(self, problem: Problem, request_id: str) -> ErrorAnswer:
        status, kind, message = _ERRORS[problem.kind]
        error: dict[str, Any] = {"type": kind, "message": problem.message or message}
        if problem.kind is ProblemKind.NO_MODEL:
            error["message"] = f"model: {problem.model}"
        if problem.kind is ProblemKind.QUOTA:
            error["details"] = {"error_code": "enforced_spend_limit_reached"}
        headers: Headers = []
        wait = problem.refusal.wait if problem.refusal else None
        if problem.kind is ProblemKind.RATE_LIMITED and problem.hints and wait is not None:
            headers.append(("retry-after", str(math.ceil(wait))))
        body = {"type": "error", "error": error, "request_id": request_id}
        return ErrorAnswer(status=status, body=body, headers=headers)

    def headers(self, levels: Mapping[LimitName, Level], request_id: str, wall: float) -> Headers:
        found: Headers = [("request-id", request_id), ("anthropic-organization-id", "org-simulated")]
        # One limit covers tokens in and out together, so it is the upper bound of all three token limits.
        names = {"requests": levels.get(LimitName.REQUESTS)}
        names |= dict.fromkeys(("tokens", "input-tokens", "output-tokens"), levels.get(LimitName.TOKENS))
        for name, level in names.items():
            if level:
                reset = datetime.fromtimestamp(math.ceil(wall + level.reset), UTC)
                found.append((f"anthropic-ratelimit-{name}-limit", number(level.limit)))
                found.append((f"anthropic-ratelimit-{name}-remaining", number(level.remaining)))
                found.append((f"anthropic-ratelimit-{name}-reset", f"{reset:%Y-%m-%dT%H:%M:%SZ}"))
        return found

    def models(self, names: tuple[str, ...]) -> dict[str, Any]:
        listed = [
            {"type": "model", "id": one, "display_name": one, "created_at": "2026-01-01T00:00:00Z"}
            for one in names
        ]
        first, last = (names[0], names[-1]) if names else (None, None)
        return {"data": listed, "has_more": False, "first_id": first, "last_id": last}


def _wanted(form: Any) -> str:
    is_schema = isinstance(form, dict) and form.get("type") == "json_schema"
    return name_of(form.get("schema")) if is_schema else ""


def _tool(body: Mapping[str, Any]) -> ToolChoice | None:
    names = [one["name"] for one in objects(body.get("tools")) if isinstance(one.get("name"), str)]
    choice = body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else "auto"
    if not names or kind == "none":
        return None
    if isinstance(choice, dict) and kind == "tool" and choice.get("name") in names:
        return ToolChoice(name=choice["name"], demanded=True)
    return ToolChoice(name=names[0])


def _message(reply: SimulatedReply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.id[:24]}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _block(reply: SimulatedReply) -> dict[str, Any]:
    if not reply.call.tool:
        return {"type": "text", "text": reply.text}
    block = {"type": "tool_use", "id": f"toolu_{reply.id[:24]}", "name": reply.call.tool.name}
    return block | {"input": as_object(reply.text)}


def _stop_reason(reply: SimulatedReply) -> str:
    return "tool_use" if reply.finish == "stop" and reply.call.tool else _FINISH[reply.finish]


def _marks(schema: str, system: Any, messages: list[dict[str, Any]]) -> tuple[int, ...]:
    """Where blocks with a cache mark end, in the text of the whole call."""
    parts = [schema, system, *(message.get("content") for message in messages)]
    found: list[int] = []
    length = 0
    for part in parts:
        blocks = (
            [one for one in part if isinstance(one, dict)] if isinstance(part, list) else [{"text": part}]
        )
        for block in blocks:
            text = block.get("text")
            length += len(text) if isinstance(text, str) else 0
            if "cache_control" in block:
                found.append(length)
            length += 1  # the line end that joins blocks and messages
    if len(found) > MARKS_MOST:
        raise RefusedCall(
            ProblemKind.INVALID,
            f"A maximum of {MARKS_MOST} blocks with cache_control may be provided. Found {len(found)}.",
        )
    return tuple(found)


def _usage(reply: SimulatedReply, tokens_out: int) -> dict[str, Any]:
    return {
        "input_tokens": reply.tokens_in - reply.cache.read - reply.cache.written,
        "cache_creation_input_tokens": reply.cache.written,
        "cache_read_input_tokens": reply.cache.read,
        "cache_creation": {"ephemeral_5m_input_tokens": reply.cache.written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens_out,
        "service_tier": "standard",
    }
