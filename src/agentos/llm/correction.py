"""Understands a server that says what is wrong with a request, and changes the request accordingly. Pure.

Servers word this in many ways, so free text decides here. A wrong guess costs a refused request, never money:
a correction must change the request, there are few per call, and only what worked is remembered.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentos.model_facts import LARGEST, OPTIONAL, SMALLEST_OUTPUT, LimitName, ModelFacts

CORRECTIONS_MOST = 4  # per call
MARGIN = 64  # tokens that are left free when a request has to fit into a context
SPREAD = 1.35  # how much longer a prompt may be than estimated
_READ = 4_000  # characters of an error that are read
_DEPTH = 6
_QUOTED = frozenset({"input", "ctx", "url"})  # fields that repeat the request

LIMITS = ("max_tokens", "max_completion_tokens", "maxOutputTokens")
_OTHER_NAME: dict[str, LimitName] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_ALIASES = {
    "reasoning_effort": ("reasoningEffort", "reasoning effort", "reasoning.effort"),
    "response_format": ("json_schema", "structured output", "guided_json"),
    "thinking": ("extended thinking",),
    "thinkingConfig": (
        "thinking_config",
        "thinking_budget",
        "thinkingBudget",
        "thinking level",
        "thinking_level",
    ),
    "responseJsonSchema": ("response_json_schema", "responseSchema", "response_schema", "responseMimeType"),
}
_NUMBER = r"[`'\"]?(\d[\d,_]{0,11})"
_INSTEAD = re.compile(r"use\s+[`'\"]?(max_completion_tokens|max_tokens)[`'\"]?", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"unsupported|not (?:yet )?(?:supported|permitted|allowed|available|enabled|accepted)|unrecogni[sz]ed"
    r"|unknown|unexpected|extra_forbidden|does(?: not|n't) (?:support|accept)|deprecated|cannot find field"
    r"|may not be|no longer|not a valid|invalid (?:parameter|argument|field)|not compatible|incompatible",
    re.IGNORECASE,
)
_ABOUT_OUTPUT = re.compile(
    r"max_tokens|max_completion_tokens|maxOutputTokens|max_output_tokens|max_new_tokens|max tokens"
    r"|maximum tokens|output tokens|completion tokens",
    re.IGNORECASE,
)
# What the context holds, and how much of it the prompt takes.
_CONTEXTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # 64000 > 64001 - 24235
        r"\d+\s*>\s*(?P<context>\d+)\s*-\s*(?P<prompt>\d+)",
        # exceed context limit: 178959 + 64000 > 200000
        r"(?P<prompt>\d+)\s*\+\s*\d+\s*>\s*(?P<context>\d+)",
        # maximum context length is 8192 tokens. However, you requested 8256 tokens (64 in the messages, ...
        r"context length is (?P<context>[\d,]+).{0,120}?\((?P<prompt>[\d,]+) (?:in|of|for)\b",
        # maximum context length is 2048 tokens. However, your request has 8 input tokens
        r"context length is (?P<context>[\d,]+).{0,160}?(?:has|contains)(?: at least)? (?P<prompt>\d+) input",
        # maximum context length of 32768 tokens. You requested ...: 20000 tokens from the input messages
        r"context length of (?P<context>[\d,]+).{0,160}?(?P<prompt>\d[\d,]*) tokens from the input",
        # `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 1000 `inputs` tokens
        r"must be <= (?P<context>\d+)\. Given: (?P<prompt>\d+) `?inputs",
    )
)
_LARGEST = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), too_large)
    for pattern, too_large in (
        (rf"\d+\s*>\s*{_NUMBER}", 0),
        (rf"\(inclusive\) to {_NUMBER} \(exclusive\)", 1),
        (rf"\(inclusive\) to {_NUMBER}", 0),
        (rf"\[\s*\d+\s*,\s*{_NUMBER}\s*\]", 0),
        (rf"between \d+ and {_NUMBER}", 0),
        (rf"(?:less than or equal to|<=|≤|at most|no more than|not exceed|cannot exceed|up to) {_NUMBER}", 0),
        (rf"(?:maximum|limit|max)(?: \w+){{0,4}}?(?: is| of| to|:) {_NUMBER}", 0),
        (rf"(?:less than|lower than|smaller than|below|<) {_NUMBER}", 1),
        (rf"(?:max_tokens|max_completion_tokens) > {_NUMBER} must", 0),
        (rf"(?:not|n't)(?: be)?(?: set)?(?: to)? (?:greater|more|larger|higher|bigger) than {_NUMBER}", 0),
        (rf"\b1 ?(?:to|-|\.\.\.?) ?{_NUMBER}", 0),
    )
)
# A text about output tokens with one number in it names the largest value, unless it is about something else.
_ALONE = re.compile(r"(?<![\w.,-])(\d[\d,_]{0,11})(k?)(?![\w-]|\.\d)", re.IGNORECASE)
_NOT_THE_LARGEST = re.compile(
    r"at least|minimum|>=|≥|greater than or equal|budget|context|prompt", re.IGNORECASE
)
# These refusals are about something else, so a request without a schema would be refused as well.
_NOT_THE_SCHEMA = re.compile(
    r"model_not_found|context_length_exceeded|content_filter|content_policy|invalid_api_key|API key|billing"
    r"|quota|credit|context length|too long|safety",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Correction:
    """How a request has to change; one of these is set."""

    limit_name: LimitName | None = None
    max_output: int | None = None
    context: int | None = None
    prompt: int | None = None  # with `context`: the tokens of this request, as the server counts them
    unsupported: str | None = None

    @property
    def room(self) -> int | None:
        """How many tokens the reply to this request may have, where its context is too small."""
        return None if self.context is None or self.prompt is None else self.context - self.prompt - MARGIN

    def applied(self, facts: ModelFacts) -> ModelFacts:
        """What is known of the model from now on."""
        changes: dict[str, Any] = {}
        if self.limit_name is not None:
            changes["limit_name"] = self.limit_name
        if self.max_output is not None:
            changes["max_output"] = min(self.max_output, facts.max_output or self.max_output)
        if self.context is not None:
            changes["context"] = self.context
        if self.unsupported is not None and self.unsupported not in facts.unsupported:
            changes["unsupported"] = (*facts.unsupported, self.unsupported)
        return facts.model_copy(update=changes)


def understand(status: int, body: bytes, sent: Mapping[str, Any]) -> Correction | None:
    """Read from a refusal how to change the request; None if it does not say. Never raises."""
    if not 400 <= status < 500:
        return None
    parameters = _parameters(sent)
    error = _parsed(body)
    text = " ".join(_texts(error, _DEPTH))[:_READ]
    limit = next((name for name in LIMITS if name in parameters), None)
    return (
        _limit(text, limit, parameters)
        or _unsupported(text, _named_parameter(error), parameters)
        or _without_schema(status, text, parameters)
    )


def output_limit(asked: int, prompt_tokens: int, facts: ModelFacts) -> int:
    """How many tokens to ask for: as many as are wanted, within what the model allows."""
    limit = min(asked, facts.max_output or asked)
    if facts.context is not None:
        limit = min(limit, facts.context - int(prompt_tokens * SPREAD) - MARGIN)
    return max(limit, min(asked, SMALLEST_OUTPUT))


def fitted(body: Mapping[str, Any], facts: ModelFacts) -> dict[str, Any]:
    """The request without what the server does not accept, and with the right name of its limit."""
    made = dict(body)
    for name in facts.unsupported:
        made.pop(name, None)
    if isinstance(settings := made.get("generationConfig"), dict):
        made["generationConfig"] = {
            name: value for name, value in settings.items() if name not in facts.unsupported
        }
    if "cache_control" in facts.unsupported:
        made = _without_marks(made)
    if facts.limit_name is not None and (limit := made.pop(_OTHER_NAME[facts.limit_name], None)) is not None:
        made[facts.limit_name] = limit
    return made


def _without_marks(value: Any) -> Any:
    """The blocks of a request without cache marks."""
    if isinstance(value, dict):
        return {
            name: _without_marks(one) if name in {"system", "messages", "content"} else one
            for name, one in value.items()
            if name != "cache_control"
        }
    return [_without_marks(one) for one in value] if isinstance(value, list) else value


def _parameters(sent: Mapping[str, Any]) -> dict[str, Any]:
    settings = sent.get("generationConfig")
    found = {**sent, **(settings if isinstance(settings, dict) else {})}
    if _marked(sent):
        found["cache_control"] = True
    return found


def _marked(sent: Mapping[str, Any]) -> bool:
    return bool(_without_marks(dict(sent)) != dict(sent))


def _limit(text: str, name: str | None, parameters: Mapping[str, Any]) -> Correction | None:
    """What is said about the output limit: another name, the room that is left, or the largest value."""
    asked = parameters.get(name or "")
    if name is None or not isinstance(asked, int):
        return None
    for pattern in _CONTEXTS:
        if (found := pattern.search(text)) is not None:
            context, prompt = _count(found["context"]), _count(found["prompt"])
            fits = SMALLEST_OUTPUT <= context - prompt - MARGIN < asked and context <= LARGEST
            return Correction(context=context, prompt=prompt) if fits else None
    return _output_limit(text, name, asked) if _ABOUT_OUTPUT.search(text) else None


def _output_limit(text: str, name: str, asked: int) -> Correction | None:
    for pattern, too_large in _LARGEST:
        for found in pattern.finditer(text):
            if SMALLEST_OUTPUT <= (largest := _count(found[1]) - too_large) < asked:
                return Correction(max_output=largest)
    other = _OTHER_NAME.get(name)
    if other is not None and _names(text, other) and (_names(text, name) or _INSTEAD.search(text)):
        return Correction(limit_name=other)
    only = _only_number(text, asked)
    if only is None and (other is None or not _UNSUPPORTED.search(text) or not _names(text, name)):
        return None
    return Correction(limit_name=other) if only is None else Correction(max_output=only)


def _names(text: str, parameter: str) -> bool:
    return re.search(rf"(?<!\w){parameter}(?!\w)", text, re.IGNORECASE) is not None


def _only_number(text: str, asked: int) -> int | None:
    """The one number in a text that may be the largest value."""
    if _NOT_THE_LARGEST.search(text):
        return None
    numbers = {_count(found[1]) * (1_000 if found[2] else 1) for found in _ALONE.finditer(text)}
    possible = {one for one in numbers if SMALLEST_OUTPUT <= one < asked}
    return possible.pop() if len(possible) == 1 else None


def _unsupported(text: str, named: str, parameters: Mapping[str, Any]) -> Correction | None:
    """A parameter that the server does not accept and that can be left out."""
    for name in OPTIONAL:
        if name not in parameters:
            continue
        spellings = (name, *_ALIASES.get(name, ()))
        # With a field of its own for the parameter, the words do not matter.
        if {named.partition(".")[0], named.rpartition(".")[2]} & set(spellings):
            return Correction(unsupported=name)
        said = any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text, re.IGNORECASE) for one in spellings)
        if said and _UNSUPPORTED.search(text):
            return Correction(unsupported=name)
    return None


def _without_schema(status: int, text: str, parameters: Mapping[str, Any]) -> Correction | None:
    """Many compatible servers do not know schemas and do not say so; the reply is then read as Markdown."""
    schema = "response_format" if "response_format" in parameters else None
    guess = schema is not None and status in {400, 422} and not _NOT_THE_SCHEMA.search(text)
    return Correction(unsupported=schema) if guess else None


def _count(text: str) -> int:
    return int(re.sub(r"\D", "", text) or 0)


def _parsed(body: bytes) -> Any:
    text = body[: 16 * _READ].decode("utf-8", errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text[:_READ]


def _named_parameter(error: Any) -> str:
    """The parameter that the error's own field names, in OpenAI's format or in FastAPI's."""
    if isinstance(error, list) and error:
        error = error[0]
    inner = error.get("error", error) if isinstance(error, dict) else None
    if not isinstance(inner, dict):
        return ""
    param = inner.get("param")
    return param[:200] if isinstance(param, str) else ""


def _texts(value: Any, depth: int) -> Iterator[str]:
    """Every text in an error, except for repeated parts of the request."""
    if isinstance(value, str):
        yield value[:_READ]
    elif depth > 0 and isinstance(value, dict):
        for name, one in list(value.items())[:50]:
            if name not in _QUOTED:
                yield from _texts(one, depth - 1)
    elif depth > 0 and isinstance(value, list):
        for one in value[:20]:
            yield from _texts(one, depth - 1)
