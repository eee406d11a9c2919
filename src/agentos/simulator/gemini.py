"""The Gemini generateContent format."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

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
    dump,
    name_of,
    need_list,
    number,
    objects,
    optional_count,
    pieces,
    schema_text,
    text_of,
)
from agentos.simulator.limits import Level, LimitName

_CALL = re.compile(r"/v1(?:beta)?/models/(?P<model>[^/]+):(?P<method>generateContent|streamGenerateContent)")
_RPC = "type.googleapis.com/google.rpc."
_METRIC = "generativelanguage.googleapis.com/generate_content_paid_tier_"
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "filtered": "SAFETY"}
_QUOTAS = {  # metric and id
    LimitName.REQUESTS: ("requests", "GenerateRequestsPerMinutePerProjectPerModel"),
    LimitName.TOKENS: ("input_token_count", "GenerateContentPaidTierInputTokensPerModelPerMinute"),
    LimitName.DAY: ("requests", "GenerateRequestsPerDayPerProjectPerModel"),
    LimitName.CONCURRENCY: ("requests", "GenerateConcurrentRequestsPerProjectPerModel"),
}
_ERRORS: dict[ProblemKind, tuple[int, str, str]] = {
    ProblemKind.NO_KEY: (
        403,
        "PERMISSION_DENIED",
        "Callers without an identity are not allowed; send an API key.",
    ),
    ProblemKind.BAD_KEY: (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    ProblemKind.PAYMENT: (402, "FAILED_PRECONDITION", "Billing is not enabled."),
    ProblemKind.FORBIDDEN: (403, "PERMISSION_DENIED", "The caller does not have permission."),
    ProblemKind.INVALID: (400, "INVALID_ARGUMENT", "The request is not valid."),
    ProblemKind.NO_MODEL: (404, "NOT_FOUND", "The model is not found for this API version."),
    ProblemKind.NOT_FOUND: (404, "NOT_FOUND", "There is nothing at this address."),
    ProblemKind.RATE_LIMITED: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    ProblemKind.QUOTA: (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    ProblemKind.INTERNAL: (500, "INTERNAL", "An internal error has occurred."),
    ProblemKind.UNAVAILABLE: (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    ProblemKind.OVERLOADED: (529, "UNAVAILABLE", "The model is overloaded. Please try again later."),
}


def is_call(path: str) -> bool:
    return _CALL.fullmatch(path) is not None


class GeminiDialect:
    def too_long(self, call: SimulatedCall, most: int) -> str:
        allowed = f"from 1 (inclusive) to {most + 1} (exclusive)"
        return (
            f"Unable to submit request because it has a maxOutputTokens value of {call.max_tokens} but the "
            f"supported range is {allowed}. Update the value and try again."
        )

    def secret(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        return headers.get("x-goog-api-key") or query.get("key") or None

    def read(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> SimulatedCall:  # noqa: ARG002
        target = _CALL.fullmatch(path)
        if target is None:
            raise RefusedCall(ProblemKind.NOT_FOUND, "")
        prompt = []
        for index, content in enumerate(need_list(body, "contents")):
            prompt.append(text_of(content.get("parts"), f"contents[{index}].parts"))
        system = body.get("systemInstruction") or body.get("system_instruction")
        settings = body.get("generationConfig", {})
        if not isinstance(settings, dict):
            raise RefusedCall(ProblemKind.INVALID, "generationConfig: an object is required.")
        tool = _tool(body)
        schema = settings.get("responseSchema") or settings.get("responseJsonSchema")
        as_json = settings.get("responseMimeType") == "application/json"
        if schema and not as_json:
            raise RefusedCall(ProblemKind.INVALID, "A response schema needs the MIME type application/json.")
        return SimulatedCall(
            model=unquote(target["model"]),
            system=text_of(system.get("parts"), "systemInstruction.parts")
            if isinstance(system, dict)
            else "",
            prompt="\n".join(prompt),
            wanted=tool.name if tool else name_of(schema) if as_json else "",
            schema=schema_text(body.get("tools"), schema),
            tool=tool,
            stream=target["method"] == "streamGenerateContent",
            max_tokens=optional_count(settings, "maxOutputTokens"),
        )

    def body(self, reply: SimulatedReply) -> dict[str, Any]:
        return _response(reply, reply.text, _FINISH[reply.finish])

    def stream(self, reply: SimulatedReply) -> Iterator[bytes]:
        parts = [reply.text] if reply.call.tool else pieces(reply.text)
        for index, piece in enumerate(parts, start=1):
            finish = _FINISH[reply.finish] if index == len(parts) else None
            yield b"data: " + dump(_response(reply, piece, finish)) + b"\r\n\r\n"

    def answer(self, problem: Problem, request_id: str) -> ErrorAnswer:  # noqa: ARG002
        status, name, message = _ERRORS[problem.kind]
        error: dict[str, Any] = {"code": status, "message": problem.message or message, "status": name}
        if problem.kind is ProblemKind.BAD_KEY:
            metadata = {"service": "generativelanguage.googleapis.com"}
            info = {"@type": f"{_RPC}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
            error["details"] = [info | {"metadata": metadata}]
        elif problem.kind is ProblemKind.QUOTA:
            error["message"] += (
                f"\n* Quota exceeded for metric: {_METRIC}requests, limit: 50, model: {problem.model}"
            )
            error["details"] = [_violation(problem, LimitName.DAY, 50)]
        elif problem.kind is ProblemKind.RATE_LIMITED and problem.hints and problem.refusal:
            limit, wait = problem.refusal.limit, problem.refusal.wait
            error["details"] = [
                _violation(problem, limit, problem.refusal.value),
                {
                    "@type": f"{_RPC}Help",
                    "links": [{"description": "Quotas", "url": "https://ai.google.dev/"}],
                },
            ]
            if (
                wait is not None and limit is not LimitName.DAY
            ):  # a daily quota resets at midnight, without a hint
                error["details"].append({"@type": f"{_RPC}RetryInfo", "retryDelay": f"{number(wait)}s"})
        return ErrorAnswer(status=status, body={"error": error})

    def headers(self, levels: Mapping[LimitName, Level], request_id: str, wall: float) -> Headers:  # noqa: ARG002
        return [("server", "scaffolding on HTTPServer2")]  # Gemini never reports limits

    def models(self, names: tuple[str, ...]) -> dict[str, Any]:
        methods = ["generateContent", "streamGenerateContent"]
        return {
            "models": [
                {"name": f"models/{one}", "displayName": one, "supportedGenerationMethods": methods}
                for one in names
            ]
        }


def _tool(body: Mapping[str, Any]) -> ToolChoice | None:
    names: list[str] = []
    for tool in objects(body.get("tools")):
        declared = objects(tool.get("functionDeclarations") or tool.get("function_declarations"))
        names += [one["name"] for one in declared if isinstance(one.get("name"), str)]
    config = body.get("toolConfig") or body.get("tool_config")
    calling = config.get("functionCallingConfig") if isinstance(config, dict) else None
    mode = calling.get("mode") if isinstance(calling, dict) else None
    if not names or mode == "NONE":
        return None
    allowed = calling.get("allowedFunctionNames") if isinstance(calling, dict) else None
    wanted = [one for one in allowed if one in names] if isinstance(allowed, list) else []
    return ToolChoice(name=(wanted or names)[0], demanded=len(wanted) == 1)


def _response(reply: SimulatedReply, text: str, finish: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {"text": text}
    if reply.call.tool:
        part = {"functionCall": {"name": reply.call.tool.name, "args": as_object(text)}}
    candidate: dict[str, Any] = {"content": {"parts": [part], "role": "model"}, "index": 0}
    if not text:
        candidate["content"] = {"role": "model"}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": reply.tokens_in,
            "candidatesTokenCount": reply.tokens_out,
            "totalTokenCount": reply.tokens_in + reply.tokens_out,
            **({"cachedContentTokenCount": reply.cache.read} if reply.cache.read else {}),
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": reply.tokens_in}],
        },
        "modelVersion": reply.model,
        "responseId": reply.id[:22],
    }


def _violation(problem: Problem, limit: LimitName, value: float | None) -> dict[str, Any]:
    metric, quota_id = _QUOTAS[limit]
    violation: dict[str, Any] = {
        "quotaMetric": _METRIC + metric,
        "quotaId": quota_id,
        "quotaDimensions": {"location": "global", "model": problem.model},
    }
    if value is not None:
        violation["quotaValue"] = number(value)
    return {"@type": f"{_RPC}QuotaFailure", "violations": [violation]}
