"""Anthropic's messages API. Worker process."""

import json
from typing import Any

from agentos.llm.finish import check_finish
from agentos.llm.http import Endpoint, HttpAnswer, KeyHeader, count, incomplete
from agentos.llm.prompt_cache import marked_content
from agentos.llm.provider import Cancel, ModelRequest, Reply, schema_name, thinking_tokens
from agentos.model import Usage
from agentos.model_access import KEY_HEADERS, SERVERS
from agentos.secret import Secret
from agentos.wire import ProviderAccess

VERSION = "2023-06-01"
LEAST_THINKING = 1_024  # tokens; a smaller budget is refused


class Anthropic:
    """Calls `POST /v1/messages`; a schema becomes the one tool the model must use."""

    def __init__(
        self, base_url: str | None, *, call_timeout: float, via: ProviderAccess | None = None
    ) -> None:
        server = base_url or SERVERS["anthropic"]
        self._endpoint = Endpoint("anthropic", server, call_timeout=call_timeout, via=via)

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:  # noqa: ARG002 - the caller enforces the stop
        body: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_output_tokens,
            "system": request.system,
            "messages": [{"role": "user", "content": marked_content(request)}],
        }
        if request.schema is not None:
            name = schema_name(request.schema)
            body["tools"] = [{"name": name, "description": "Give the reply.", "input_schema": request.schema}]
            body["tool_choice"] = {"type": "tool", "name": name}
        body |= _thinking(request)
        key = KeyHeader(name=KEY_HEADERS["anthropic"], secret=secret)
        headers = {"anthropic-version": VERSION}
        return _reply(
            self._endpoint.post("/v1/messages", body, facts=request.facts, key=key, headers=headers)
        )


def _thinking(request: ModelRequest) -> dict[str, Any]:
    """The fields for temperature and thinking; thinking allows no temperature and no forced tool."""
    budget = thinking_tokens(request)
    if budget is None or budget < LEAST_THINKING:
        return {} if request.temperature is None else {"temperature": request.temperature}
    fields: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return fields if request.schema is None else fields | {"tool_choice": {"type": "auto"}}


def _reply(answer: HttpAnswer) -> Reply:
    data = answer.data
    try:
        blocks = data["content"]
        finish = data.get("stop_reason")
        tools = [block["input"] for block in blocks if block["type"] == "tool_use"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        usage = read_usage(data.get("usage") or {})
    except (KeyError, TypeError, AttributeError):
        raise incomplete("it has no content") from None
    model = str(data.get("model", ""))
    check_finish(finish, usage, model=model)
    return Reply(
        text=json.dumps(tools[0], ensure_ascii=False) if tools else text,
        model=model,
        headers=answer.headers,
        **usage.counts(),
    )


def read_usage(usage: Any) -> Usage:
    """What was read from the cache or written to it is not in `input_tokens`."""
    cached = count(usage.get("cache_read_input_tokens"))
    cache_written = count(usage.get("cache_creation_input_tokens"))
    return Usage(
        tokens_in=count(usage.get("input_tokens")) + cached + cache_written,
        tokens_out=count(usage.get("output_tokens")),
        tokens_cached=cached,
        tokens_cache_written=cache_written,
        tokens_exempt=cached,  # the limit on input tokens per minute does not count what was cached
    )
