"""Reads an issue from GitHub's JSON, which may contain anything. Pure."""

import contextlib
import re
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from agentos.errors import ListingError
from agentos.github import RemoteIssue
from agentos.github.repository import Repository

MAX_NUMBER = 2**53  # not every JSON parser keeps a larger number exact
MAX_URL = 500
_WEB = re.compile(r"https?://[!#-;=?-~]+")  # printable ASCII without quotes and angle brackets


class _Issue(BaseModel):
    number: int = Field(gt=0, le=MAX_NUMBER, strict=True)
    title: str | None = None
    body: str | None = None
    html_url: str | None = None
    state: str | None = None
    labels: list[dict[str, Any] | str] | None = None
    user: dict[str, Any] | None = None
    created_at: str | None = None
    pull_request: Any = None


def read_issue(data: Any, repository: Repository) -> RemoteIssue | None:
    """Return the issue, or None for a pull request; only the number is required."""
    problem: str | None = None
    try:
        read = _Issue.model_validate(data)
    except ValidationError as exc:
        wrong = {str(error["loc"][0]) for error in exc.errors() if error["loc"]}
        problem = f"GitHub's answer about {repository} contains "
        if "number" in wrong or not wrong:
            raise ListingError(f"{problem}an issue whose number cannot be read.") from None
        read = _Issue(number=data["number"], pull_request=data.get("pull_request"))
        problem += f"issue {read.number}, which cannot be read ({', '.join(sorted(wrong))})."
    if read.pull_request is not None:
        return None
    names = (label if isinstance(label, str) else label.get("name") for label in read.labels or ())
    user = read.user or {}
    return RemoteIssue(
        number=read.number,
        title=_text(read.title or ""),
        body=_text(read.body or ""),
        url=_page(read.html_url or "", repository, read.number),
        labels=tuple(_text(name) for name in names if isinstance(name, str)),
        state="closed" if read.state == "closed" else "open",
        author=_text(str(user.get("login") or "")),
        by_bot=user.get("type") == "Bot",
        created_at=_text(read.created_at or ""),
        problem=problem,
    )


def _text(text: str) -> str:
    """Return text that can be written anywhere; half a surrogate pair, which JSON allows, cannot."""
    return text.encode(errors="replace").decode()


def _page(url: str, repository: Repository, number: int) -> str:
    """Return the issue's web page: the server's URL, if it is on the server's own site."""
    if len(url) <= MAX_URL and _WEB.fullmatch(url):
        with contextlib.suppress(ValueError):
            if repository.has_page_at(urlsplit(url).hostname or ""):
                return url
    return repository.page(number)
