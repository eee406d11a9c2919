"""Events about filing issues on GitHub. Pure."""

from dataclasses import dataclass

from agentos.events.catalogue import ItemEvent


@dataclass(frozen=True, kw_only=True)
class FilingStarted(ItemEvent):
    """The issue is about to be created."""

    name = "filing"
    repository: str | None


@dataclass(frozen=True, kw_only=True)
class Filed(ItemEvent):
    """The issue is on GitHub."""

    name = "filed"
    number: int | None
    url: str | None


@dataclass(frozen=True, kw_only=True)
class FilingRefused(ItemEvent):
    """The issue was not created."""

    name = "filing_refused"
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class FilingUnknown(ItemEvent):
    """It is not known whether the issue was created; the next run checks."""

    name = "filing_unknown"
    reason: str | None
