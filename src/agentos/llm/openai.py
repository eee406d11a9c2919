"""OpenAI, and every server with its chat completions API. Worker process."""

from typing import Any

from agentos.llm.http import Endpoint, HttpAnswer, KeyHeader, count, declined, incomplete
from agentos.llm.provider import Cancel, ModelRequest, ProviderError, Reply
from agentos.model import CallError, Usage
from agentos.secret import Secret

BASE_URL = "https://api.openai.com/v1"


class OpenAI:
    """Calls `POST /chat/completions` without streaming."""

    def __init__(self, base_url: str | None, *, call_timeout: float) -> None:
        self._endpoint = Endpoint("openai", base_url or BASE_URL, call_timeout=call_timeout)
        # OpenAI itself now requires the new name; other servers know the old one.
        self._limit_name = "max_tokens" if base_url else "max_completion_tokens"
        self._takes_schema = True

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:  # noqa: ARG002 - the caller enforces the stop
        key = KeyHeader(name="authorization", scheme="Bearer ", secret=secret)
        body = self._body(request)
        try:
            answer = self._endpoint.post("/chat/completions", body, key=key)
        except ProviderError as error:
            if error.error_class is not CallError.BAD_REQUEST or "response_format" not in body:
                raise
            # Many compatible servers do not support schemas; the reply is then read as Markdown.
            self._takes_schema = False
            answer = self._endpoint.post("/chat/completions", self._body(request), key=key)
        return _reply(answer)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.prompt},
            ],
            self._limit_name: request.max_output_tokens,
        }
        if request.schema is not None and self._takes_schema:
            schema = {"name": "review", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body


def _reply(answer: HttpAnswer) -> Reply:
    data = answer.data
    try:
        choice = data["choices"][0]
        message = choice["message"]
        finish = choice.get("finish_reason")
        content, refusal = message.get("content"), message.get("refusal")
        usage = _usage(data.get("usage") or {})
    except (KeyError, IndexError, TypeError, AttributeError):
        raise incomplete("no message in it") from None
    if refusal or finish == "content_filter":
        raise declined(str(refusal or finish)[:200], usage)
    if finish != "stop" or not isinstance(content, str):
        raise incomplete(f"finish reason {finish!r}", usage)
    model = str(data.get("model", ""))
    return Reply(text=content, model=model, headers=answer.headers, **usage.counts())


def _usage(usage: Any) -> Usage:
    """The cached tokens are part of the prompt's, the reasoning part of the completion's."""
    tokens_in, tokens_out = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    sent, written = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    # DeepSeek and servers with its format count cache hits outside of the details.
    cached = count(sent.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens"))
    return Usage(
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_cached=min(cached, tokens_in),
        tokens_reasoning=min(count(written.get("reasoning_tokens")), tokens_out),
    )
