"""Reads a provider's refusal: what it means and how long to wait. Pure.

Status, headers and the fields of a parsed body decide; free text does not. The exceptions are sentences that
are a provider's only sign of a final limit or of a model that does not exist: they must match as whole,
anchored lines.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Never
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agentos.http_date import seconds_since_epoch
from agentos.model import CallError, LimitName
from agentos.model_access import Kind

MAX_DELAY = 86_400.0  # seconds; longer waits are shortened to this
ABSURD_DELAY = 40 * 86_400.0  # seconds; beyond any real reset, so not a delay at all
CLOCK_TOLERANCE = 5.0  # seconds; a Date header has whole seconds and is a little old
SHORT_DELAY = 3_600.0  # seconds; a daily quota that resets sooner is a temporary limit
MAX_BODY_BYTES = 1_000_000  # no provider's error is longer
MAX_MESSAGE = 300  # characters
VIOLATIONS_MOST = 20  # limits that one refusal may name
MAX_QUOTA = 1e12

_KEY_STATUSES = frozenset({401, 403})
_KEY_REASONS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED", "organization_on_hold"})  # these come as 400
_PASSING_STATUSES = frozenset({408, 409, 421, 425, 499})
_FINAL_CODES = frozenset(  # of OpenAI and of gateways with its protocol, as `code` or `type`
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_usage_limit_exceeded",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "budget_exceeded",
    }
)
_MODEL_CODES = frozenset(  # as `code` or `type`: OpenAI, Azure, Mistral, Together
    {"model_not_found", "DeploymentNotFound", "invalid_model", "model_not_available"}
)
# A 404 is about the model if it mentions one; else the address is wrong.
_ABOUT_MODEL = re.compile(r"\bmodels?\b", re.IGNORECASE)
_NO_MODEL = re.compile(  # DeepSeek, OpenRouter, LiteLLM, vLLM and others say it with a 400
    r"(?:the )?model ['\"`]?[\w.:/@-]{0,200}['\"`]? ?(?:does not exist|not exist|not found|is not found)\b.*"
    r"|(?:.{0,200}[:,] )?invalid model name passed in model=.*"
    r"|invalid model: .*"
    r"|[\w.:/@-]{1,200} is not a valid model(?: ID)?\b.*",
    re.IGNORECASE,
)
_OVERLOAD_CODES = frozenset({"overloaded_error", "server_is_overloaded", "server_overloaded"})
_SPEND_LIMIT_MESSAGES = (  # nothing else distinguishes their 400 from a bad request
    "Your credit balance is too low to access the ",
    "You have reached your specified API usage limits",
    "You have reached your specified workspace API usage limits",
)
# That format omits zeros: a quota of zero is missing from `quotaValue` and appears only in a line like this.
_NO_QUOTA = re.compile(
    r"^\* Quota exceeded for metric: [\w./-]+, limit: 0(?:, model: [\w./-]+)?[ \t]*$", re.MULTILINE
)
_NUMBER = re.compile(r"\d{1,16}(?:\.\d{1,16})?", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,12})?(?:d|h|ms|m|us|µs|ns|s))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|us|µs|ns|s)", re.ASCII)
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RESET = re.compile(
    r"x-ratelimit-reset(?:-(?P<a>[a-z-]+))?|anthropic-ratelimit-(?P<b>[a-z-]+)-reset", re.ASCII
)
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_MASKED = "***"  # in the middle of keys that providers show in part


@dataclass(frozen=True, kw_only=True)
class Classified:
    """What an answer that is not a reply means."""

    error_class: CallError
    message: str  # one line for a person, without control characters
    retry_after: float | None = None  # seconds, as the server says
    quota_reset: float | None = None  # seconds until the quota resets, if known
    limits: Mapping[LimitName, float] = field(default_factory=dict)  # that the refusal names


def classify(
    provider: Kind, status: int, headers: Mapping[str, str], body: bytes, *, now_wall: float
) -> Classified:
    """Classify any answer that is not 2xx; never raises, whatever the server sent."""
    fields = {name.lower(): value.strip() for name, value in headers.items()}
    error = _error(body)
    now = _server_time(fields, now_wall)
    asked = _asked_delay(fields, error, now)
    error_class = _error_class(provider, status, fields, error, asked)
    retry_after = quota_reset = None
    if error_class in {CallError.RATE_LIMITED, CallError.CAPACITY, CallError.TRANSIENT}:
        retry_after = asked
        if retry_after is None and error_class is CallError.RATE_LIMITED:
            retry_after = _reset_delay(fields, error, now)
    elif error_class is CallError.QUOTA_EXHAUSTED and _daily(error) and not _no_quota(error):
        quota_reset = asked or seconds_to_pacific_midnight(now)
    return Classified(
        error_class=error_class,
        message=_message(status, error_class, error, body),
        retry_after=retry_after,
        quota_reset=quota_reset,
        limits=_limits(error) if error_class in {CallError.RATE_LIMITED, CallError.QUOTA_EXHAUSTED} else {},
    )


def seconds_to_pacific_midnight(now_wall: float) -> float | None:
    """Return the seconds until Gemini's daily quotas reset."""
    zone = _pacific()
    try:
        today = datetime.fromtimestamp(now_wall, zone).date()
        midnight = datetime.combine(today + timedelta(days=1), time(), zone)
        return max(1.0, midnight.timestamp() - now_wall)
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(maxsize=1)
def _pacific() -> tzinfo:
    try:
        return ZoneInfo("America/Los_Angeles")
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return timezone(timedelta(hours=-8))  # in summer one hour late, never early


def _error_class(
    provider: Kind, status: int, fields: Mapping[str, str], error: dict[str, Any], asked: float | None
) -> CallError:
    found = CallError.TRANSIENT
    if status in _KEY_STATUSES or _reasons(error) & _KEY_REASONS:
        found = CallError.KEY_REJECTED
    elif status in {503, 529} or (status >= 429 and _codes(error) & _OVERLOAD_CODES):
        found = CallError.CAPACITY
    elif status == 402 or (400 <= status < 500 and _is_final(provider, status, fields, error)):
        found = CallError.NO_CREDIT
    elif status == 429:
        lasting = _daily(error) and (asked is None or asked > SHORT_DELAY)
        found = CallError.QUOTA_EXHAUSTED if lasting or _no_quota(error) else CallError.RATE_LIMITED
    elif 300 <= status < 500 and status not in _PASSING_STATUSES:
        found = _refusal(status, error)
    return found


def _refusal(status: int, error: dict[str, Any]) -> CallError:
    """Tell a refusal of this request from one that every request would get."""
    message = _first_text(error, "message", "detail")
    if _codes(error) & _MODEL_CODES or (status == 400 and _NO_MODEL.fullmatch(message)):
        return CallError.NO_MODEL
    if status == 404 and _ABOUT_MODEL.search(message):
        return CallError.NO_MODEL
    if status in {404, 405} or status < 400:
        return CallError.WRONG_ENDPOINT
    return CallError.BAD_REQUEST


def _is_final(provider: Kind, status: int, fields: Mapping[str, str], error: dict[str, Any]) -> bool:
    """Say whether it is a limit on money, which waiting does not cure, rather than on rate."""
    if _codes(error) & _FINAL_CODES:
        return True
    if provider != "anthropic":
        return False
    if any(reason.endswith("spend_limit_reached") for reason in _reasons(error)):
        return "retry-after" not in fields
    message = error.get("message")
    return status == 400 and isinstance(message, str) and message.startswith(_SPEND_LIMIT_MESSAGES)


def _error(body: bytes) -> dict[str, Any]:
    """Return the error object of a body, or an empty one if the body cannot be trusted."""
    if len(body) > MAX_BODY_BYTES:
        return {}
    try:
        parsed = json.loads(body, object_pairs_hook=_distinct, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {}
    if isinstance(parsed, list) and parsed:  # Google's OpenAI-compatible endpoint wraps it
        parsed = parsed[0]
    if not isinstance(parsed, dict):
        return {}
    inner = parsed.get("error", parsed)
    if isinstance(inner, str):
        return {"message": inner}
    return inner if isinstance(inner, dict) else {}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a duplicate key: which one counts is unknown")
    return found


def _refuse(constant: str) -> Never:
    raise ValueError(constant)


def _codes(error: dict[str, Any]) -> set[str]:
    return {value for name in ("code", "type") if isinstance(value := error.get(name), str)}


def _details(error: dict[str, Any], kind: str) -> Iterable[dict[str, Any]]:
    """Yield Google's typed details of one kind."""
    details = error.get("details")
    for one in details if isinstance(details, list) else ():
        if isinstance(one, dict) and one.get("@type") == f"type.googleapis.com/google.rpc.{kind}":
            yield one


def _limits(error: dict[str, Any]) -> dict[LimitName, float]:
    """Return the limits that Google's QuotaFailure names, by `quotaId` and `quotaValue`."""
    found: dict[LimitName, float] = {}
    for failure in _details(error, "QuotaFailure"):
        violations = failure.get("violations")
        for one in violations[:VIOLATIONS_MOST] if isinstance(violations, list) else ():
            limit = _violated(one) if isinstance(one, dict) else None
            if limit is not None:
                name, value = limit
                found[name] = min(value, found.get(name, value))
    return found


def _violated(violation: dict[str, Any]) -> tuple[LimitName, float] | None:
    quota, value = violation.get("quotaId"), violation.get("quotaValue")
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not isinstance(quota, str) or not _NUMBER.fullmatch(text) or not 1.0 <= float(text) <= MAX_QUOTA:
        return None
    tokens = "Tokens" in quota or "token" in str(violation.get("quotaMetric"))[:MAX_MESSAGE]
    per_day = "PerDay" in quota
    if not per_day and "PerMinute" not in quota:
        return None
    if tokens:
        # What it counts are tokens sent; there is no budget for a day's tokens.
        return None if per_day else ("itpm" if "Input" in quota else "tpm", float(text))
    return ("rpd" if per_day else "rpm", float(text))


def _reasons(error: dict[str, Any]) -> set[str]:
    """Return the reasons named in the details: Google's ErrorInfo, Anthropic's error_code."""
    found = [one.get("reason") for one in _details(error, "ErrorInfo")]
    if isinstance(details := error.get("details"), dict):
        found.append(details.get("error_code"))
    return {reason for reason in found if isinstance(reason, str)}


def _violations(error: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for one in _details(error, "QuotaFailure"):
        violations = one.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict):
                yield violation


def _daily(error: dict[str, Any]) -> bool:
    ids = (violation.get("quotaId") for violation in _violations(error))
    return any(isinstance(one, str) and "PerDay" in one for one in ids)


def _no_quota(error: dict[str, Any]) -> bool:
    """Say whether this key has no quota at all for the model, so that no reset will bring any."""
    if any(violation.get("quotaValue") in ("0", 0) for violation in _violations(error)):
        return True
    message = error.get("message")
    return (
        error.get("status") == "RESOURCE_EXHAUSTED"
        and isinstance(message, str)
        and bool(_NO_QUOTA.search(message))
    )


def _asked_delay(fields: Mapping[str, str], error: dict[str, Any], now: float) -> float | None:
    """Return the delay that the server asks for: headers first, then Google's RetryInfo."""
    milliseconds = fields.get("retry-after-ms", "")
    if _NUMBER.fullmatch(milliseconds) and (delay := _sane(float(milliseconds) / 1000)):
        return delay
    if delay := _delay(fields.get("retry-after", ""), now):
        return delay
    for one in _details(error, "RetryInfo"):
        if isinstance(text := one.get("retryDelay"), str) and (delay := _sane(_duration(text))):
            return delay
    return None


def _reset_delay(fields: Mapping[str, str], error: dict[str, Any], now: float) -> float | None:
    """Return the seconds until the limit that refused the call is full again, from the reset headers.

    A reset is the time to a full refill: a limit with something left did not refuse this call.
    """
    resets: dict[str, float] = {}
    used_up: set[str] = set()
    unknown: set[str] = set()
    for name, value in fields.items():
        match = _RESET.fullmatch(name)
        if match is None or (delay := _delay(value, now)) is None:
            continue
        limit = match["a"] or match["b"] or ""
        resets[limit] = delay
        remaining = fields.get(name.replace("reset", "remaining"))
        if remaining is None:
            unknown.add(limit)
        elif _NUMBER.fullmatch(remaining) and float(remaining) == 0:
            used_up.add(limit)
    chosen = used_up or (_codes(error) & resets.keys()) or unknown
    return max((resets[limit] for limit in chosen), default=None)


def _delay(text: str, now: float) -> float | None:
    """Read seconds, a Go duration, an RFC 3339 or HTTP date, or seconds or milliseconds since 1970."""
    if not text or len(text) > 64:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        since_epoch = number / 1000 if number > 1e11 else number
        return _sane(since_epoch - now if since_epoch > 1e9 else number)
    seconds = _duration(text)
    if seconds is None and (moment := seconds_since_epoch(text)) is not None:
        seconds = moment - now
    return _sane(seconds)


def _duration(text: str) -> float | None:
    if len(text) > 64 or not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))


def _sane(seconds: float | None) -> float | None:
    """Drop what is not a delay (negative, zero, absurd, not a number), shorten what is too long."""
    if seconds is None or not 0 < seconds <= ABSURD_DELAY:
        return None
    return min(seconds, MAX_DELAY)


def _server_time(fields: Mapping[str, str], now_wall: float) -> float:
    """Return the server's time if our clock is wrong, because its dates are based on that."""
    text = fields.get("date", "")
    moment = seconds_since_epoch(text)
    return now_wall if moment is None or abs(moment - now_wall) <= CLOCK_TOLERANCE else moment


def _message(status: int, error_class: CallError, error: dict[str, Any], body: bytes) -> str:
    code = _first_text(error, "code", "type")
    code = code if _CODE.fullmatch(code) else ""
    head = f"HTTP {status} {code}" if code else f"HTTP {status}"
    if error_class is CallError.KEY_REJECTED:
        return f"{head}: the provider rejected this key."  # a provider's own text may quote parts of the key
    if 300 <= status < 400:
        return f"{head}: the server redirects elsewhere; the key is not sent there."
    text = _first_text(error, "message", "detail", "status") or _phrase(status)
    if body and not error:
        text += f" ({len(body)} bytes that are not an error of this provider)"
    words = "".join(char if char.isprintable() else " " for char in text[: 20 * MAX_MESSAGE]).split()
    text = " ".join("[key]" if _MASKED in word else word for word in words)
    line = f"{head}: {text}" if text else head
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 3]}..."


def _first_text(error: dict[str, Any], *names: str) -> str:
    return next((one for name in names if isinstance(one := error.get(name), str) and one), "")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "overloaded" if status == 529 else "no reason given"
