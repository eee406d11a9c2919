"""Reads a provider's refusal: what it means and how long to wait. Pure.

Status, headers and the fields of a parsed body decide; free text does not. The exceptions are sentences that
are a provider's only sign of a final limit or of a model that does not exist: they must match as whole,
anchored lines.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agentos.http_date import seconds_since_epoch
from agentos.llm.error_body import (
    codes,
    details,
    first_text,
    has_no_quota,
    is_daily,
    named_limits,
    read_error,
    reasons,
)
from agentos.model import CallError, LimitName
from agentos.model_access import Kind

MAX_DELAY = 86_400.0  # seconds; longer waits are shortened to this
ABSURD_DELAY = 40 * 86_400.0  # seconds; beyond any real reset, so not a delay at all
CLOCK_TOLERANCE = 5.0  # seconds; a Date header has whole seconds and is a little old
SHORT_DELAY = 3_600.0  # seconds; a daily quota that resets sooner is a temporary limit
MAX_MESSAGE = 300  # characters

_BLAMED = {401: CallError.KEY_REJECTED, 403: CallError.KEY_REJECTED, 407: CallError.PROXY_REFUSED}
_KEY_REASONS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED", "organization_on_hold"})  # these come as 400
_KEY_CODES = frozenset({"invalid_api_key", "authentication_error"})
_NO_SERVER = frozenset({502, 521, 522, 523})  # a gateway did not reach the server behind it
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
        "exceeded_current_quota_error",
        "Arrearage",
        "AccountOverdueError",
    }
)
_MODEL_CODES = frozenset(  # as `code` or `type`: OpenAI, Azure, Mistral, Together, GitHub, LiteLLM
    {
        "model_not_found",
        "DeploymentNotFound",
        "invalid_model",
        "model_not_available",
        "model_not_supported",
        "unknown_model",
        "key_model_access_denied",
        "team_model_access_denied",
        "user_model_access_denied",
    }
)
# A 404 is about the model if it mentions one; else the address is wrong. A 403 likewise, else it is the key.
_ABOUT_MODEL = re.compile(r"\b(?:models?|deployment)\b", re.IGNORECASE)
_NO_MODEL = re.compile(  # DeepSeek, OpenRouter, LiteLLM, vLLM, Bedrock and others say it with a 400
    r"(?:the )?(?:requested )?model ['\"`]?[\w.:/@-]{0,200}['\"`]? ?"
    r"(?:does not exist|not exist|not found|is not found|is not supported|is not available)\b.*"
    r"|(?:.{0,200}[:,] )?invalid model name passed in model=.*"
    r"|(?:invalid|unknown|unsupported) model(?: name| id)?:? .*"
    r"|the provided model identifier is invalid\b.*"
    r"|unable to access model .*"
    r"|no (?:allowed )?(?:endpoints|providers) (?:found|are available) for .*"
    r"|[\w.:/@-]{1,200} is not a valid model(?: ID)?\b.*",
    re.IGNORECASE,
)
_NO_API = re.compile(r"(?:unsupported|invalid|unknown|missing) api[ -]version\b.*", re.IGNORECASE)
# The key is fine, but its project or its place may not use the API; as a code, a reason or a whole line.
_FORBIDDEN_CODES = frozenset({"unsupported_country_region_territory", "SERVICE_DISABLED"})
_FORBIDDEN = re.compile(r"user location is not supported\b.*", re.IGNORECASE)
# What is wrong with one prompt says nothing about others.
_PROMPT_CODES = frozenset(
    {"context_length_exceeded", "string_above_max_length", "content_filter", "content_policy_violation"}
)
_TOO_LONG = re.compile(r"context (?:length|window)|too long|token count", re.IGNORECASE)
_OVERLOAD_CODES = frozenset({"overloaded_error", "server_is_overloaded", "server_overloaded"})
_NO_CREDIT = (
    re.compile(  # OpenRouter, Google, xAI, Zhipu and others: a 400, 403 or 429 without a code of its own
        r"key limit exceeded \(\w+ limit\).*"
        r"|your prepayment credits are depleted\b.*"
        r"|your team .{0,80}has either used all available credits\b.*"
        r"|your newly created teams? does ?n[o']t have any credits\b.*"
        r"|insufficient (?:account )?(?:balance|credits?|funds)\b.*",
        re.IGNORECASE,
    )
)
_SPEND_LIMIT_MESSAGES = (  # nothing else distinguishes their 400 from a bad request
    "Your credit balance is too low to access the ",
    "You have reached your specified API usage limits",
    "You have reached your specified workspace API usage limits",
)
_NUMBER = re.compile(r"\d{1,16}(?:\.\d{1,16})?", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,12})?(?:d|h|ms|m|us|µs|ns|s))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|us|µs|ns|s)", re.ASCII)
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RESET = re.compile(
    r"x-ratelimit-reset(?:-(?P<a>[a-z-]+))?|anthropic-ratelimit-(?P<b>[a-z-]+)-reset", re.ASCII
)
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


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
    error = read_error(body)
    now = _server_time(fields, now_wall)
    asked = _asked_delay(fields, error, now)
    error_class = _error_class(provider, status, fields, error, asked)
    retry_after = quota_reset = None
    if error_class in {CallError.RATE_LIMITED, CallError.CAPACITY, CallError.TRANSIENT, CallError.DROPPED}:
        retry_after = asked
        if retry_after is None and error_class is CallError.RATE_LIMITED:
            retry_after = _reset_delay(fields, error, now)
    elif error_class is CallError.QUOTA_EXHAUSTED:
        quota_reset = asked or seconds_to_pacific_midnight(now)
    return Classified(
        error_class=error_class,
        message=_message(status, error_class, error, body),
        retry_after=retry_after,
        quota_reset=quota_reset,
        limits=named_limits(error)
        if error_class in {CallError.RATE_LIMITED, CallError.QUOTA_EXHAUSTED}
        else {},
    )


def error_status(body: bytes) -> int:
    """The status that an error with a 2xx status should have had, as gateways send it."""
    error = read_error(body)
    numbers = [str(error.get(name)) for name in ("code", "status", "status_code")]
    found = next((int(one) for one in numbers if re.fullmatch(r"[45]\d\d", one, re.ASCII)), None)
    if found is not None:
        return found
    if codes(error) & {"rate_limit_exceeded", "rate_limit_error"}:
        return 429
    known = codes(error) & (_FINAL_CODES | _MODEL_CODES | _KEY_CODES | {"invalid_request_error"})
    return 400 if known else 500


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
    if reasons(error) & _KEY_REASONS or codes(error) & _KEY_CODES:
        found = CallError.KEY_REJECTED
    elif (known := _for_every_item(status, fields, error)) is not None:
        found = known
    elif status == 402 or (400 <= status < 500 and _is_final(provider, status, fields, error)):
        found = CallError.NO_CREDIT
    elif status in _BLAMED:
        found = _BLAMED[status]
    elif status in _NO_SERVER and not error:
        found = CallError.DROPPED  # like a connection without a reply; an error of the provider's is a reply
    elif status in {503, 529} or (status >= 429 and codes(error) & _OVERLOAD_CODES):
        found = CallError.CAPACITY
    elif status == 429:
        lasting = is_daily(error) and (asked is None or asked > SHORT_DELAY)
        found = CallError.QUOTA_EXHAUSTED if lasting else CallError.RATE_LIMITED
        if has_no_quota(error):
            found = CallError.NO_MODEL  # whatever else it says: no reset will bring any
    elif 400 <= status < 500 and status not in _PASSING_STATUSES:
        own = status == 413 or codes(error) & _PROMPT_CODES or _TOO_LONG.search(first_text(error, "message"))
        found = CallError.DECLINED if own else CallError.BAD_REQUEST
    return found


def _for_every_item(status: int, fields: Mapping[str, str], error: dict[str, Any]) -> CallError | None:
    """Recognize what is wrong with the model, the address or the account; no key is to blame for it."""
    if not 300 <= status < 500 or status in _PASSING_STATUSES | {402, 407, 429}:
        return None
    message = first_text(error, "message", "detail")
    if (codes(error) | reasons(error)) & _FORBIDDEN_CODES or _FORBIDDEN.fullmatch(message):
        return CallError.FORBIDDEN
    if codes(error) & _MODEL_CODES or (status in {400, 404, 422} and _NO_MODEL.fullmatch(message)):
        return CallError.NO_MODEL
    if status in {403, 404} and _ABOUT_MODEL.search(message):
        return CallError.NO_MODEL
    page = status != 401 and not error and fields.get("content-type", "").lower().startswith("text/html")
    if status in {404, 405} or status < 400 or page or _NO_API.fullmatch(message):
        return CallError.WRONG_ENDPOINT
    return None


def _is_final(provider: Kind, status: int, fields: Mapping[str, str], error: dict[str, Any]) -> bool:
    """Say whether it is a limit on money, which waiting does not cure, rather than on rate."""
    if codes(error) & _FINAL_CODES or _NO_CREDIT.fullmatch(first_text(error, "message", "detail")):
        return True
    if provider != "anthropic":
        return False
    if any(reason.endswith("spend_limit_reached") for reason in reasons(error)):
        return "retry-after" not in fields
    message = error.get("message")
    return status == 400 and isinstance(message, str) and message.startswith(_SPEND_LIMIT_MESSAGES)


def _asked_delay(fields: Mapping[str, str], error: dict[str, Any], now: float) -> float | None:
    """Return the delay that the server asks for: headers first, then Google's RetryInfo."""
    milliseconds = fields.get("retry-after-ms", "")
    if _NUMBER.fullmatch(milliseconds) and (delay := _sane(float(milliseconds) / 1000)):
        return delay
    if delay := _delay(fields.get("retry-after", ""), now):
        return delay
    for one in details(error, "RetryInfo"):
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
    chosen = used_up or (codes(error) & resets.keys()) or unknown
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
    code = first_text(error, "code", "type")
    code = code if _CODE.fullmatch(code) else ""
    head = f"HTTP {status} {code}" if code else f"HTTP {status}"
    if error_class is CallError.KEY_REJECTED:
        return f"{head}: the provider rejected this key."  # a provider's own text may quote parts of the key
    if 300 <= status < 400:
        return f"{head}: the server redirects elsewhere; the key is not sent there."
    text = first_text(error, "message", "detail", "status") or _phrase(status)
    if body and not error:
        text += f" ({len(body)} bytes that are not an error of this provider)"
    text = " ".join("".join(one if one.isprintable() else " " for one in text[: 20 * MAX_MESSAGE]).split())
    line = f"{head}: {text}" if text else head
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 3]}..."


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "overloaded" if status == 529 else "no reason given"
