"""Events about filing issues on GitHub. Pure."""

from dataclasses import dataclass

from agentos.events.catalogue import ItemEvent

EARLIER_UNKNOWN = "an earlier version may already be filed on GitHub"


@dataclass(frozen=True, kw_only=True)
class FilingEvent(ItemEvent):
    """Something about the issue of an item."""

    earlier: bool = False  # about an earlier version of the item's text


@dataclass(frozen=True, kw_only=True)
class FilingStarted(FilingEvent):
    """The issue is about to be created."""

    name = "filing"
    repository: str | None


@dataclass(frozen=True, kw_only=True)
class Filed(FilingEvent):
    """The issue is on GitHub."""

    name = "filed"
    number: int | None
    url: str | None


@dataclass(frozen=True, kw_only=True)
class FilingRefused(FilingEvent):
    """The issue was not created."""

    name = "filing_refused"
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class FilingUnknown(FilingEvent):
    """It is not known whether the issue was created; the next run checks."""

    name = "filing_unknown"
    reason: str | None
