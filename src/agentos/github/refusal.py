"""Reads a refusal of GitHub's: how long to wait, and what to tell a person. Pure, but reads the clock."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentos.github.exchange import ServerAnswer  # loads an HTTP client
    from agentos.github.repository import Repository

UNTOLD_LIMIT_SECONDS = 60.0  # GitHub's advice where a secondary limit names no time
MAX_QUOTED = 200  # characters of a server's own message


def wait_seconds(answer: "ServerAnswer") -> float | None:
    """How long a rate limit lasts, in seconds, if this is one."""
    if answer.status not in {403, 429}:
        return None
    after = _seconds(answer.headers.get("retry-after"))
    if after is not None:
        return after
    if answer.headers.get("x-ratelimit-remaining") == "0":
        reset = _seconds(answer.headers.get("x-ratelimit-reset"))
        if reset is not None:
            # A second more: it is not told when within that second.
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
    repository: "Repository", answer: "ServerAnswer", rest: float | None
) -> str:
    status = answer.status
    if rest is not None:
        until = datetime.now(UTC) + timedelta(seconds=min(rest, 1e10))
        return f"GitHub asks to wait until {until:%Y-%m-%d %H:%M:%S} UTC (rate limit, {status})."
    told = quoted(answer)
    match status:
        case 401:
            return "GitHub refused the token (401). Check GH_TOKEN or run `gh auth login`."
        case 403:
            return f"The token may not do this in {repository} (403){told}."
        case 404:
            return f"{repository} is not there or the token may not see it (404)."
        case 410:
            return f"Issues are turned off in {repository} (410)."
        case _ if 300 <= status < 400:
            return f"{repository} has moved ({status}). Set the new URL of origin."
    return f"GitHub answered {status} for {repository}{told}."


def _message(answer: "ServerAnswer") -> str:
    try:
        data = json.loads(answer.content)
    except (ValueError, RecursionError):
        return ""
    message = data.get("message") if isinstance(data, dict) else None
    return message if isinstance(message, str) else ""


def quoted(answer: "ServerAnswer") -> str:
    """At most one line of what the server says, for people to read."""
    message = "".join(char if char.isprintable() else " " for char in _message(answer)[:MAX_QUOTED]).strip()
    return f": {message}" if message else ""
