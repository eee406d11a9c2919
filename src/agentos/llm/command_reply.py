"""Reads what `claude` and `gemini` print as a reply or a classified error. Pure.

Exit codes and the fields of the printed JSON decide; free text does not.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentos.llm.anthropic import read_usage
from agentos.llm.http import count, declined, incomplete
from agentos.llm.provider import CutReply, ProviderError, Reply
from agentos.model import CallError

MAX_LINE = 300  # characters of a program's own error message
LONGEST_RESET = 40 * 86_400.0  # seconds; longer than any real reset, so not a reset
MODELS_MOST = 100  # of one call; so that the sum of their tokens stays within what a message may carry

_SECRET = re.compile(r"\b(?:sk-|AIza|ya29\.)\S*", re.ASCII)
_LOGIN = "{program} is not logged in, or its login was refused; run {program} once by hand and log in"

_BY_STATUS = {
    400: CallError.BAD_REQUEST,
    401: CallError.KEY_REJECTED,
    402: CallError.KEY_REJECTED,
    403: CallError.KEY_REJECTED,
    404: CallError.BAD_REQUEST,
    413: CallError.BAD_REQUEST,
    429: CallError.RATE_LIMITED,
    503: CallError.CAPACITY,
    529: CallError.CAPACITY,
}
_CLAUDE_WORDS = {  # the `error` of a message or of the result
    "authentication_failed": CallError.KEY_REJECTED,
    "oauth_org_not_allowed": CallError.KEY_REJECTED,
    "billing_error": CallError.KEY_REJECTED,
    "rate_limit": CallError.RATE_LIMITED,
    "overloaded": CallError.CAPACITY,
    "invalid_request": CallError.BAD_REQUEST,
    "model_not_found": CallError.BAD_REQUEST,
}
_GEMINI_CODES = _BY_STATUS | {
    41: CallError.KEY_REJECTED,  # its own exit codes: no login,
    42: CallError.BAD_REQUEST,  # an input it does not accept,
    52: CallError.BAD_REQUEST,  # a configuration it does not accept,
    55: CallError.BAD_REQUEST,  # a folder it does not trust
}
_GEMINI_TYPES = {
    "TerminalQuotaError": CallError.QUOTA_EXHAUSTED,
    "RetryableQuotaError": CallError.RATE_LIMITED,
    "FatalAuthenticationError": CallError.KEY_REJECTED,
    "UnauthorizedError": CallError.KEY_REJECTED,
    "ForbiddenError": CallError.KEY_REJECTED,
    "BadRequestError": CallError.BAD_REQUEST,
    "ModelNotFoundError": CallError.BAD_REQUEST,
    "FatalInputError": CallError.BAD_REQUEST,
    "FatalConfigError": CallError.BAD_REQUEST,
    "FatalUntrustedWorkspaceError": CallError.BAD_REQUEST,
}


@dataclass(frozen=True, kw_only=True)
class ProgramOutput:
    """What is left of a program that ended by itself."""

    code: int  # negative: killed by that signal
    out: bytes
    err: bytes  # only its end, if it is long


Reader = Callable[[ProgramOutput, float], Reply]
"""(a program's output, the time of day) -> the reply; raises ProviderError if there is none."""


def read_claude(finished: ProgramOutput, now_wall: float) -> Reply:
    """Read what `claude -p --output-format json` printed: a result, or the list of all its messages."""
    found = _json(finished.out, (dict, list))
    messages = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
    result = next((one for one in reversed(messages) if one.get("type") == "result"), None)
    if result is None:
        raise _no_answer("claude", finished)
    text = result.get("result")
    if result.get("is_error") or result.get("subtype") != "success":
        raise _claude_error(messages, result, now_wall)
    usage = read_usage(_table(result, "usage"))
    if result.get("stop_reason") == "refusal":
        raise declined("refusal", usage)
    if result.get("stop_reason") == "max_tokens":
        raise CutReply(usage, fixed=True)
    if not isinstance(text, str):
        raise incomplete(f"stop reason {result.get('stop_reason')!r}", usage)
    return Reply(text=text, model=_claude_model(messages, result), **usage.counts())


def read_gemini(finished: ProgramOutput, now_wall: float) -> Reply:  # noqa: ARG001 - same signature as the other reader
    """Read what `gemini --output-format json` printed; its errors are on standard error."""
    found = _json(finished.out, (dict,)) or _json(finished.err, (dict,))
    if not isinstance(found, dict):
        raise _no_answer("gemini", finished, _GEMINI_CODES)
    if found.get("error"):
        raise _gemini_error(_table(found, "error"))
    text = found.get("response")
    if finished.code != 0 or not isinstance(text, str):
        raise _no_answer("gemini", finished, _GEMINI_CODES)
    models = _table(_table(found, "stats"), "models")
    few = list(models.items())[:MODELS_MOST]
    tokens = {name: _table(one, "tokens") for name, one in few if isinstance(one, dict)}
    out = {name: count(one.get("candidates")) + count(one.get("thoughts")) for name, one in tokens.items()}
    return Reply(
        text=text,
        # Helper models may have taken part; the model that wrote most wrote the answer.
        model=max(out, key=lambda name: out[name], default=""),
        tokens_in=sum(count(one.get("prompt")) for one in tokens.values()),
        tokens_out=sum(out.values()),
        tokens_cached=sum(min(count(one.get("cached")), count(one.get("prompt"))) for one in tokens.values()),
        tokens_reasoning=sum(count(one.get("thoughts")) for one in tokens.values()),
    )


def _claude_model(messages: list[dict[str, Any]], result: dict[str, Any]) -> str:
    for message in reversed(messages):
        if message.get("type") == "assistant":
            model = _table(message, "message").get("model")
            if isinstance(model, str) and model and not model.startswith("<"):
                return model
    used = {name: one for name, one in _table(result, "modelUsage").items() if isinstance(one, dict)}
    return max(used, key=lambda name: count(used[name].get("outputTokens")), default="")


def _claude_error(messages: list[dict[str, Any]], result: dict[str, Any], now_wall: float) -> ProviderError:
    words = [one.get("error") for one in (result, *reversed(messages))]
    word = next((one for one in words if isinstance(one, str) and one in _CLAUDE_WORDS), "")
    status = result.get("api_error_status")
    found = _CLAUDE_WORDS.get(word) or _by_code(_BY_STATUS, status)
    reset = None
    if found is CallError.RATE_LIMITED:
        reset = _claude_reset(messages, now_wall)
        found = found if reset is None else CallError.QUOTA_EXHAUSTED
    listed = result.get("errors")
    said = result.get("result") or (listed[-1] if isinstance(listed, list) and listed else "")
    head = f"HTTP {status}" if isinstance(status, int) else word or str(result.get("subtype"))[:40]
    return _error("claude", found, head, said, quota_reset=reset)


def _claude_reset(messages: list[dict[str, Any]], now_wall: float) -> float | None:
    """Return the seconds until a subscription's used-up limit resets, if the program says when."""
    for message in reversed(messages):
        info = _table(message, "rate_limit_info")
        moment = info.get("resetsAt")
        if info.get("status") == "rejected" and isinstance(moment, int | float) and abs(moment) < 1e12:
            seconds = moment - now_wall
            return seconds if 0 < seconds <= LONGEST_RESET else None
    return None


def _gemini_error(error: Mapping[str, Any]) -> ProviderError:
    code, kind = error.get("code"), error.get("type")
    found = _GEMINI_TYPES.get(kind) if isinstance(kind, str) else None
    head = kind if isinstance(kind, str) and kind.isidentifier() else "error"
    if isinstance(code, int | str):
        head += f" {str(code)[:40]}"
    return _error("gemini", found or _by_code(_GEMINI_CODES, code), head, error.get("message"))


def _by_code(meanings: Mapping[int, CallError], code: Any) -> CallError:
    if isinstance(code, str) and code.isdecimal() and len(code) <= 3:
        code = int(code)
    known = isinstance(code, int) and not isinstance(code, bool)
    return meanings.get(code, CallError.TRANSIENT) if known else CallError.TRANSIENT


def _no_answer(
    program: str, finished: ProgramOutput, meanings: Mapping[int, CallError] | None = None
) -> ProviderError:
    """Make the error for a program that left no JSON: only its exit code and last line are known."""
    if finished.code == 0:
        return ProviderError(CallError.TRANSIENT, f"{program} printed no readable reply")
    said = finished.err.decode("utf-8", errors="replace") or finished.out.decode("utf-8", errors="replace")
    ended = f"exit code {finished.code}" if finished.code > 0 else f"killed by signal {-finished.code}"
    return _error(program, _by_code(meanings or {}, finished.code), ended, said)


def _error(
    program: str, found: CallError, head: str, said: Any, *, quota_reset: float | None = None
) -> ProviderError:
    if found is CallError.KEY_REJECTED:
        # A program's own message may quote parts of a key.
        return ProviderError(found, f"{head}: {_LOGIN.format(program=program)}")
    line = _last_line(said) if isinstance(said, str) else ""
    return ProviderError(
        found, f"{program}: {head}: {line}" if line else f"{program}: {head}", quota_reset=quota_reset
    )


def _last_line(text: str) -> str:
    clean = "".join(char if char.isprintable() or char == "\n" else " " for char in text[-20 * MAX_LINE :])
    last = next((line.strip() for line in reversed(clean.split("\n")) if line.strip()), "")
    last = _SECRET.sub("[key]", last)
    return last if len(last) <= MAX_LINE else f"{last[: MAX_LINE - 3]}..."


def _json(data: bytes, kinds: tuple[type, ...]) -> dict[str, Any] | list[Any] | None:
    """Find the JSON at the end of the output; lines such as notices may come before it."""
    text = data.decode("utf-8", errors="replace").strip()
    for start in _line_starts(text):
        if text[start : start + 1] in {"{", "["}:
            try:
                found = json.loads(text[start:])
            except (ValueError, RecursionError):
                continue
            if isinstance(found, kinds):
                return found if isinstance(found, dict | list) else None
    return None


def _line_starts(text: str) -> Iterator[int]:
    start = 0
    for _ in range(100):  # no notice is longer; reading garbled output must not take forever
        yield start
        start = text.find("\n", start) + 1
        if not start:
            return


def _table(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
