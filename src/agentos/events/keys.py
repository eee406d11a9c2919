"""Events about keys and the calls made with them, from the key pool. Pure."""

from dataclasses import dataclass

from agentos.events.catalogue import AskerEvent, ItemEvent, PoolEvent, unrecorded
from agentos.lease import LeaseNumber

# Calls.


@dataclass(frozen=True, kw_only=True)
class Leased(AskerEvent):
    """The item may make one call with one key; the call goes out."""

    name = "leased"
    number: int
    lease: LeaseNumber
    key: str
    provider: str
    model: str
    tokens: int  # charged to the key's token budget
    waited: float
    expires: float = unrecorded(0.0)


@dataclass(frozen=True, kw_only=True)
class Settled(AskerEvent):
    """The call came back."""

    name = "settled"
    number: int
    lease: LeaseNumber
    key: str
    tokens_in: int
    tokens_out: int
    error: str | None
    seconds: float
    tokens_cached: int = 0  # the part of tokens_in that was read from a cache
    tokens_reasoning: int = 0  # the part of tokens_out that is not in the reply
    usd: float | None = None  # its cost, added by the coordinator; None: unknown


@dataclass(frozen=True, kw_only=True)
class CallCounted(ItemEvent):
    """A call without a `settled` event is counted: an earlier worker made it, or its lease had expired."""

    name = "call_counted"
    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    tokens_reasoning: int = 0
    usd: float | None  # None: unknown


@dataclass(frozen=True, kw_only=True)
class AskRefused(AskerEvent):
    """An attempt that is over asked for a call; nothing changed."""

    name = "ask_refused"
    number: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class SettleRefused(AskerEvent):
    """A worker settled a lease that it does not have; nothing changed."""

    name = "settle_refused"
    lease: LeaseNumber
    reason: str


@dataclass(frozen=True, kw_only=True)
class Refused(AskerEvent):
    """No key can ever serve this call."""

    name = "refused"
    number: int
    provider: str
    model: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Returned(AskerEvent):
    """The worker is gone, so its call is too."""

    name = "returned"
    number: int
    lease: LeaseNumber
    key: str


@dataclass(frozen=True, kw_only=True)
class LeaseExpired(AskerEvent):
    """The call did not come back in time."""

    name = "lease_expired"
    number: int
    lease: LeaseNumber
    key: str


# Keys and models.


@dataclass(frozen=True, kw_only=True)
class GroupLimited(PoolEvent):
    """No key of a quota group is used for some time."""

    key: str  # whose call was refused
    group: str
    keys: tuple[str, ...]
    provider: str
    model: str | None
    seconds: float
    told: bool  # the server said how long; otherwise our own backoff
    until: float = unrecorded(0.0)


@dataclass(frozen=True, kw_only=True)
class RateLimited(GroupLimited):
    """The provider refused a call for its rate; the whole quota group waits."""

    name = "rate_limited"


@dataclass(frozen=True, kw_only=True)
class QuotaExhausted(GroupLimited):
    """The quota of the key's group is used up; the whole group waits."""

    name = "quota_exhausted"
    credit: bool = unrecorded(False)  # it is money that is used up


@dataclass(frozen=True, kw_only=True)
class KeyDisabled(PoolEvent):
    """The provider rejected the key; it is not used until a person enables it."""

    name = "key_disabled"
    key: str
    provider: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class KeyRecovered(PoolEvent):
    """The key can be used again."""

    name = "key_recovered"
    key: str
    provider: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Capacity(PoolEvent):
    """The model is overloaded; all calls to it slow down."""

    name = "capacity"
    provider: str
    model: str
    seconds: float
    strikes: int
    told: bool
    until: float = unrecorded(0.0)


@dataclass(frozen=True, kw_only=True)
class CapacityRecovered(PoolEvent):
    """The model answers again."""

    name = "capacity_recovered"
    provider: str
    model: str


@dataclass(frozen=True, kw_only=True)
class LimitLearnt(PoolEvent):
    """The provider named a limit that is new or has changed."""

    name = "limit_learnt"
    provider: str
    group: str
    model: str
    limit: str
    value: float
    used: float  # the limit that counts, considering what is configured
