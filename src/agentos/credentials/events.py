"""Everything the key pool can say happened, as values for the events log. Pure.

Times are monotonic seconds; `seconds` beside an `until` is the same as a duration, for a log read later.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from agentos.credentials.asker import Asker


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in the pool."""

    name: ClassVar[str]
    at: float

    def as_dict(self) -> dict[str, Any]:
        return {"event": self.name, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class AskerEvent(Event):
    """Something that concerns one who asked; a log names the item alone."""

    asker: Asker

    @property
    def item(self) -> str:
        return self.asker.item

    def as_dict(self) -> dict[str, Any]:
        return {
            "item" if name == "asker" else name: self.item if name == "asker" else value
            for name, value in super().as_dict().items()
        }


@dataclass(frozen=True, kw_only=True)
class Granted(AskerEvent):
    """An item may make one call with one key."""

    name = "granted"
    number: int
    lease: int
    key: str
    provider: str
    model: str
    tokens: int  # what the token budget was charged with
    waited: float  # seconds
    expires: float


@dataclass(frozen=True, kw_only=True)
class Waiting(AskerEvent):
    """An item queues for a lease."""

    name = "waiting"
    number: int
    provider: str
    model: str
    reason: str
    until: float | None  # None: until a call in flight ends
    overloaded: bool = False  # for a model that its provider is short of


@dataclass(frozen=True, kw_only=True)
class Refused(AskerEvent):
    """No key will serve this request by itself."""

    name = "refused"
    number: int
    provider: str
    model: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class AskRefused(AskerEvent):
    """A request of an attempt that is over; nothing was changed."""

    name = "ask_refused"
    number: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Settled(AskerEvent):
    """A call has come back."""

    name = "settled"
    number: int
    lease: int
    key: str
    tokens_in: int
    tokens_out: int
    error: str | None
    seconds: float  # since the lease was given


@dataclass(frozen=True, kw_only=True)
class SettleRefused(AskerEvent):
    """A settlement of a lease that its sender does not hold; nothing was changed."""

    name = "settle_refused"
    lease: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Returned(AskerEvent):
    """A lease came back because its worker is gone."""

    name = "returned"
    number: int
    lease: int
    key: str


@dataclass(frozen=True, kw_only=True)
class LeaseExpired(AskerEvent):
    """A lease ran out; its place stays taken until the item is dropped."""

    name = "lease_expired"
    number: int
    lease: int
    key: str


@dataclass(frozen=True, kw_only=True)
class RateLimited(Event):
    """The provider refused a call; the key's whole quota group rests."""

    name = "rate_limited"
    key: str
    group: str
    keys: tuple[str, ...]
    provider: str
    model: str | None
    until: float
    seconds: float
    told: bool  # by the server; else by our own backoff


@dataclass(frozen=True, kw_only=True)
class QuotaExhausted(Event):
    """The quota of a key's group is used up."""

    name = "quota_exhausted"
    key: str
    group: str
    keys: tuple[str, ...]
    provider: str
    model: str | None
    until: float
    seconds: float
    told: bool


@dataclass(frozen=True, kw_only=True)
class KeyDisabled(Event):
    """A key is not valid and is not tried again."""

    name = "key_disabled"
    key: str
    provider: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class KeyRecovered(Event):
    """A key can be used again."""

    name = "key_recovered"
    key: str
    provider: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Capacity(Event):
    """The provider is overloaded; a model is slowed for all, no key is blamed."""

    name = "capacity"
    provider: str
    model: str
    until: float
    seconds: float
    strikes: int
    told: bool


@dataclass(frozen=True, kw_only=True)
class CapacityRecovered(Event):
    """An overloaded model answers again."""

    name = "capacity_recovered"
    provider: str
    model: str


@dataclass(frozen=True, kw_only=True)
class LimitLearnt(Event):
    """A provider told a limit that was not known, or has changed."""

    name = "limit_learnt"
    provider: str
    group: str
    model: str
    limit: str
    value: float  # as told
    used: float  # the one that counts, beside what is configured


@dataclass(frozen=True, kw_only=True)
class InFlightChanged(Event):
    """A key takes more or fewer calls at once."""

    name = "in_flight_changed"
    key: str
    before: int
    limit: int
