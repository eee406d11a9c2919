"""Reads the error in a provider's answer: codes, reasons, quotas, texts. Pure.

A body that cannot be trusted is an error without any of them.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Never

from agentos.model import LimitName

MAX_BODY_BYTES = 1_000_000  # no provider's error is longer
VIOLATIONS_MOST = 20  # limits that one refusal may name
MAX_QUOTA = 1e12
_METRIC = 300  # characters of a metric's name that are read
# That format omits zeros: a quota of zero is missing from `quotaValue` and appears only in a line like this.
_NO_QUOTA = re.compile(
    r"^\* Quota exceeded for metric: [\w./-]+, limit: 0(?:, model: [\w./-]+)?[ \t]*$", re.MULTILINE
)
_NUMBER = re.compile(r"\d{1,16}(?:\.\d{1,16})?", re.ASCII)


def read_error(body: bytes) -> dict[str, Any]:
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


def codes(error: dict[str, Any]) -> set[str]:
    return {value for name in ("code", "type") if isinstance(value := error.get(name), str)}


def details(error: dict[str, Any], kind: str) -> Iterable[dict[str, Any]]:
    """Yield Google's typed details of one kind."""
    found = error.get("details")
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict) and one.get("@type") == f"type.googleapis.com/google.rpc.{kind}":
            yield one


def named_limits(error: dict[str, Any]) -> dict[LimitName, float]:
    """Return the limits that Google's QuotaFailure names, by `quotaId` and `quotaValue`."""
    found: dict[LimitName, float] = {}
    for failure in details(error, "QuotaFailure"):
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
    tokens = "Tokens" in quota or "token" in str(violation.get("quotaMetric"))[:_METRIC]
    per_day = "PerDay" in quota
    if not per_day and "PerMinute" not in quota:
        return None
    if tokens:
        # What it counts are tokens sent; there is no budget for a day's tokens.
        return None if per_day else ("itpm" if "Input" in quota else "tpm", float(text))
    return ("rpd" if per_day else "rpm", float(text))


def reasons(error: dict[str, Any]) -> set[str]:
    """Return the reasons named in the details: Google's ErrorInfo, Anthropic's error_code."""
    found = [one.get("reason") for one in details(error, "ErrorInfo")]
    if isinstance(more := error.get("details"), dict):
        found.append(more.get("error_code"))
    return {reason for reason in found if isinstance(reason, str)}


def _violations(error: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for one in details(error, "QuotaFailure"):
        violations = one.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict):
                yield violation


def is_daily(error: dict[str, Any]) -> bool:
    ids = (violation.get("quotaId") for violation in _violations(error))
    return any(isinstance(one, str) and "PerDay" in one for one in ids)


def has_no_quota(error: dict[str, Any]) -> bool:
    """Say whether this key has no quota at all for the model, so that no reset will bring any."""
    if any(violation.get("quotaValue") in ("0", 0) for violation in _violations(error)):
        return True
    message = error.get("message")
    return (
        error.get("status") == "RESOURCE_EXHAUSTED"
        and isinstance(message, str)
        and bool(_NO_QUOTA.search(message))
    )


def first_text(error: dict[str, Any], *names: str) -> str:
    return next((one for name in names if isinstance(one := error.get(name), str) and one), "")
