"""Issues on GitHub: repository, token, reading, writing, and making text harmless. Coordinator process."""

from dataclasses import dataclass

from agentos.errors import AgentosError


@dataclass(frozen=True, kw_only=True)
class RemoteIssue:
    """An issue as GitHub has it."""

    number: int
    title: str
    body: str
    url: str  # for people
    labels: tuple[str, ...]
    state: str  # "open" or "closed"
    author: str  # empty if GitHub does not say
    by_bot: bool
    created_at: str  # by GitHub's clock, as 2026-01-31T12:00:00Z
    problem: str | None = None  # why the rest of GitHub's data about it cannot be read


class IssueRefused(AgentosError):  # noqa: N818 - the name says what happened
    """GitHub certainly did not create the issue."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds after which GitHub will accept it, if it said so


class FilingUncertain(AgentosError):  # noqa: N818
    """It is unknown whether GitHub created the issue."""
