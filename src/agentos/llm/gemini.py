"""Gemini's generateContent API. Worker process."""

import re
from typing import Any
from urllib.parse import quote

from agentos.llm.finish import check_finish
from agentos.llm.http import Endpoint, HttpAnswer, KeyHeader, count, declined, incomplete
from agentos.llm.provider import Cancel, ModelRequest, Reply, thinking_tokens
from agentos.model import Usage
from agentos.model_access import KEY_HEADERS, SERVERS
from agentos.secret import Secret
from agentos.wire import ProviderAccess

_BY_BUDGET = re.compile(r"(?:.*/)?gemini-[12](?:\D.*)?")  # later models take a level instead


class Gemini:
    """Calls `POST /v1beta/models/{model}:generateContent`."""

    def __init__(
        self, base_url: str | None, *, call_timeout: float, via: ProviderAccess | None = None
    ) -> None:
        self._endpoint = Endpoint("gemini", base_url or SERVERS["gemini"], call_timeout=call_timeout, via=via)

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:  # noqa: ARG002 - the caller enforces the stop
        settings: dict[str, Any] = {"maxOutputTokens": request.max_output_tokens}
        if request.schema is not None:
            settings |= {"responseMimeType": "application/json", "responseJsonSchema": request.schema}
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.reasoning_effort is not None:
            by_budget = _BY_BUDGET.fullmatch(request.model) is not None
            settings["thinkingConfig"] = (
                {"thinkingBudget": thinking_tokens(request)}
                if by_budget
                else {"thinkingLevel": request.reasoning_effort}
            )
        body = {
            "systemInstruction": {"parts": [{"text": request.system}]},
            "contents": [{"role": "user", "parts": [{"text": request.prompt}]}],
            "generationConfig": settings,
        }
        path = f"/v1beta/models/{quote(request.model, safe='')}:generateContent"
        key = KeyHeader(name=KEY_HEADERS["gemini"], secret=secret)
        return _reply(self._endpoint.post(path, body, facts=request.facts, key=key))


def _reply(answer: HttpAnswer) -> Reply:
    data = answer.data
    try:
        if blocked := (data.get("promptFeedback") or {}).get("blockReason"):
            raise declined(str(blocked)[:200])
        candidate = data["candidates"][0]
        finish = candidate.get("finishReason")
        parts = (candidate.get("content") or {}).get("parts") or []
        text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
        usage = _usage(data.get("usageMetadata") or {})
    except (KeyError, IndexError, TypeError, AttributeError):
        raise incomplete("it has no candidate") from None
    model = str(data.get("modelVersion", ""))
    check_finish(finish, usage, model=model)
    return Reply(text=text, model=model, headers=answer.headers, **usage.counts())


def _usage(usage: Any) -> Usage:
    """Cached tokens are part of the prompt's, thoughts are not part of the candidates'."""
    tokens_in, thoughts = count(usage.get("promptTokenCount")), count(usage.get("thoughtsTokenCount"))
    return Usage(
        tokens_in=tokens_in,
        tokens_out=count(usage.get("candidatesTokenCount")) + thoughts,
        tokens_cached=min(count(usage.get("cachedContentTokenCount")), tokens_in),
        tokens_reasoning=thoughts,
    )
