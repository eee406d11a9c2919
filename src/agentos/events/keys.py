"""Events about keys, and about calls made with them. Pure.

They are what the key pool says (`agentos.credentials.events`), without its clock.
"""

from dataclasses import dataclass

from agentos.events.catalogue import Event, ItemEvent

# Calls.


@dataclass(frozen=True, kw_only=True)
class Leased(ItemEvent):
    """The item may make one call with one key; the call goes out."""

    name = "leased"
    number: int
    lease: int
    key: str | None
    provider: str | None
    model: str | None
    tokens: int  # charged to the key's token budget
    waited: float


@dataclass(frozen=True, kw_only=True)
class Settled(ItemEvent):
    """The call came back."""

    name = "settled"
    number: int
    lease: int
    key: str | None
    tokens_in: int
    tokens_out: int
    error: str | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class AskRefused(ItemEvent):
    """An attempt that is over asked for a call; nothing was changed."""

    name = "ask_refused"
    number: int
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class SettleRefused(ItemEvent):
    """A worker settled a lease that it does not hold; nothing was changed."""

    name = "settle_refused"
    lease: int
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Refused(ItemEvent):
    """No key will ever serve this call."""

    name = "refused"
    number: int
    provider: str | None
    model: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Returned(ItemEvent):
    """The worker is gone, and its call with it."""

    name = "returned"
    number: int
    lease: int
    key: str | None


@dataclass(frozen=True, kw_only=True)
class LeaseExpired(ItemEvent):
    """The call did not come back in time."""

    name = "lease_expired"
    number: int
    lease: int
    key: str | None


# Keys and models.


@dataclass(frozen=True, kw_only=True)
class RateLimited(Event):
    """The provider refused a call for its rate; all keys of the quota group rest."""

    name = "rate_limited"
    key: str | None
    group: str | None
    keys: tuple[str, ...]
    provider: str | None
    model: str | None
    seconds: float
    told: bool  # by the server; else our own back-off


@dataclass(frozen=True, kw_only=True)
class QuotaExhausted(RateLimited):
    """The quota of the key's group is used up; all its keys rest."""

    name = "quota_exhausted"


@dataclass(frozen=True, kw_only=True)
class KeyDisabled(Event):
    """The key is not valid and is not tried again."""

    name = "key_disabled"
    key: str | None
    provider: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class KeyRecovered(Event):
    """The key can be used again."""

    name = "key_recovered"
    key: str | None
    provider: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Capacity(Event):
    """The provider is short of a model; all calls of the model slow down."""

    name = "capacity"
    provider: str | None
    model: str | None
    seconds: float
    strikes: int
    told: bool


@dataclass(frozen=True, kw_only=True)
class CapacityRecovered(Event):
    """The model answers again."""

    name = "capacity_recovered"
    provider: str | None
    model: str | None


@dataclass(frozen=True, kw_only=True)
class LimitLearnt(Event):
    """The provider named a limit that was not known, or that has changed."""

    name = "limit_learnt"
    provider: str | None
    group: str | None
    model: str | None
    limit: str | None
    value: float
    used: float  # the one that counts, beside what is configured
