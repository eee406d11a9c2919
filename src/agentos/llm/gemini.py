"""Gemini's generateContent API. Worker process."""

from typing import Any
from urllib.parse import quote

from agentos.llm.http import Endpoint, HttpAnswer, KeyHeader, count, declined, incomplete
from agentos.llm.provider import Cancel, CutReply, ModelRequest, Reply
from agentos.model import Usage
from agentos.secret import Secret

BASE_URL = "https://generativelanguage.googleapis.com"

_DECLINED = frozenset({"SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE"})


class Gemini:
    """Calls `POST /v1beta/models/{model}:generateContent`."""

    def __init__(self, base_url: str | None, *, call_timeout: float) -> None:
        self._endpoint = Endpoint("gemini", base_url or BASE_URL, call_timeout=call_timeout)

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:  # noqa: ARG002 - the caller enforces the stop
        settings: dict[str, Any] = {"maxOutputTokens": request.max_output_tokens}
        if request.schema is not None:
            settings |= {"responseMimeType": "application/json", "responseJsonSchema": request.schema}
        body = {
            "systemInstruction": {"parts": [{"text": request.system}]},
            "contents": [{"role": "user", "parts": [{"text": request.prompt}]}],
            "generationConfig": settings,
        }
        path = f"/v1beta/models/{quote(request.model, safe='')}:generateContent"
        key = KeyHeader(name="x-goog-api-key", secret=secret)
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
        raise incomplete("no candidate in it") from None
    if isinstance(finish, str) and finish in _DECLINED:
        raise declined(str(finish), usage)
    if finish == "MAX_TOKENS":
        raise CutReply(usage, model=str(data.get("modelVersion", "")))
    if finish != "STOP":
        raise incomplete(f"finish reason {finish!r}", usage)
    model = str(data.get("modelVersion", ""))
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
