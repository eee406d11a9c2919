"""Reads a refusal from GitHub: how long to wait, and the message for a person. Coordinator process."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentos.github.exchange import ServerAnswer  # loads an HTTP client
    from agentos.github.repository import Repository

UNTOLD_LIMIT_SECONDS = 60.0  # GitHub's advice if a secondary limit names no time
MAX_QUOTED = 200  # characters of a server's own message


def wait_seconds(answer: "ServerAnswer") -> float | None:
    """Return how long the rate limit lasts, in seconds, or None if it is not a rate limit."""
    if answer.status not in {403, 429}:
        return None
    after = _seconds(answer.headers.get("retry-after"))
    if after is not None:
        return after
    if answer.headers.get("x-ratelimit-remaining") == "0":
        reset = _seconds(answer.headers.get("x-ratelimit-reset"))
        if reset is not None:
            # One second more: the header has whole seconds.
            return max(0.0, reset - time.time()) + 1.0
    message = _message(answer).lower()
    limited = answer.status == 429 or "rate limit" in message or "abuse detection" in message
    return UNTOLD_LIMIT_SECONDS if limited else None


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < 1e12 else None


def refusal_text(  # noqa: PLR0911 - a table
    repository: "Repository", answer: "ServerAnswer", delay: float | None
) -> str:
    status = answer.status
    if delay is not None:
        until = datetime.now(UTC) + timedelta(seconds=min(delay, 1e10))
        return f"GitHub's rate limit is reached ({status}). Try again after {until:%Y-%m-%d %H:%M:%S} UTC."
    detail = quoted(answer)
    match status:
        case 401:
            return "GitHub refused the token (401). Check GH_TOKEN or run 'gh auth login'."
        case 403:
            return f"The token is not allowed to do this in {repository} (403){detail}."
        case 404:
            return f"{repository} does not exist, or the token cannot see it (404)."
        case 410:
            return f"Issues are turned off in {repository} (410)."
        case _ if 300 <= status < 400:
            return f"{repository} has moved ({status}). Set the new URL of origin."
    return f"GitHub answered {status} for {repository}{detail}."


def _message(answer: "ServerAnswer") -> str:
    try:
        data = json.loads(answer.content)
    except (ValueError, RecursionError):
        return ""
    message = data.get("message") if isinstance(data, dict) else None
    return message if isinstance(message, str) else ""


def quoted(answer: "ServerAnswer") -> str:
    """Quote at most one line of the server's message."""
    message = "".join(char if char.isprintable() else " " for char in _message(answer)[:MAX_QUOTED]).strip()
    return f": {message}" if message else ""
