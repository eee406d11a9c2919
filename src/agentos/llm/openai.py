"""OpenAI, and every server with its chat completions API. Worker process."""

from typing import Any

from agentos.llm.finish import check_finish
from agentos.llm.http import Endpoint, HttpAnswer, KeyHeader, count, incomplete
from agentos.llm.prompt_cache import cache_key
from agentos.llm.provider import Cancel, ModelRequest, Reply, schema_name
from agentos.model import Usage
from agentos.model_access import KEY_HEADERS, SERVERS
from agentos.secret import Secret
from agentos.wire import ProviderAccess


class OpenAI:
    """Calls `POST /chat/completions` without streaming."""

    def __init__(
        self, base_url: str | None, *, call_timeout: float, via: ProviderAccess | None = None
    ) -> None:
        self._endpoint = Endpoint("openai", base_url or SERVERS["openai"], call_timeout=call_timeout, via=via)
        # OpenAI itself requires the new name, other servers know the old one. They correct us if not.
        self._own = base_url is None

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:  # noqa: ARG002 - the caller enforces the stop
        key = KeyHeader(name=KEY_HEADERS["openai"], scheme="Bearer ", secret=secret)
        return _reply(
            self._endpoint.post("/chat/completions", self._body(request), facts=request.facts, key=key)
        )

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.prompt},
            ],
            "max_completion_tokens" if self._own else "max_tokens": request.max_output_tokens,
        }
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.reasoning_effort is not None:
            body["reasoning_effort"] = request.reasoning_effort
        if (key := cache_key(request)) is not None:
            body["prompt_cache_key"] = key
        if request.schema is not None:
            schema = {"name": schema_name(request.schema), "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body


def _reply(answer: HttpAnswer) -> Reply:
    data = answer.data
    try:
        choice = data["choices"][0]
        message = choice["message"]
        finish = choice.get("finish_reason")
        content, refusal = _text(message.get("content")), message.get("refusal")
        usage = _usage(data.get("usage") or {})
    except (KeyError, IndexError, TypeError, AttributeError):
        raise incomplete("it has no message") from None
    model = str(data.get("model", ""))
    check_finish(finish, usage, model=model, refusal=refusal)
    if not isinstance(content, str):
        raise incomplete("it has no text", usage)
    return Reply(text=content, model=model, headers=answer.headers, **usage.counts())


def _text(content: Any) -> Any:
    """The text of a message; some servers send it as a list of parts, thinking among them."""
    if not isinstance(content, list):
        return content
    return "".join(part["text"] for part in content if part.get("type") in {"text", "output_text"})


def _usage(usage: Any) -> Usage:
    """The cached tokens are part of the prompt's, the reasoning part of the completion's."""
    tokens_in, tokens_out = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    sent, written = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    reasoning = count(written.get("reasoning_tokens"))
    if reasoning and count(usage.get("total_tokens")) == tokens_in + tokens_out + reasoning:
        tokens_out += reasoning  # xAI counts it beside the completion, and charges for both
    # DeepSeek and servers with its format count cache hits outside of the details.
    cached = count(sent.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens"))
    return Usage(
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_cached=min(cached, tokens_in),
        tokens_reasoning=min(reasoning, tokens_out),
    )
