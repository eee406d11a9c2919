"""The schema of the key pool's saved state, and the checks before a saved state is trusted. Pure.

The data may come from a database that others write to. Times are wall-clock seconds. It contains no secret.
Lists are used wherever the order matters, because a database may sort the fields of an object.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentos.audit_record import first_error
from agentos.credentials.headers import MAX_LIMIT, MAX_RESET
from agentos.credentials.key_state import RATIO_LEAST, RATIO_MOST, SLOTS_MOST, SPREAD_MOST, TOKENS_MOST
from agentos.credentials.outcome import QUOTA_LONGEST
from agentos.credentials.pace_guess import FASTEST, PROBE_FIRST, PROBE_LAST, SLOWEST
from agentos.credentials.pool_state import ATTEMPTS_REMEMBERED
from agentos.credentials.quota import (
    BURST_LEAST,
    EASE_LEAST,
    HISTORY,
    HOLD_LONGEST,
    JITTER_LEAST,
    JITTER_MOST,
)
from agentos.credentials.sharing import SHARED_SECONDS
from agentos.errors import StorageError
from agentos.lease import LeaseNumber
from agentos.model import LimitName

VERSION = 1
GUESS_TIMES = ("since", "anchor", "refused_at")  # the fields of a guess that are times
ROUNDING = 1e-6  # seconds
MANY = 100_000  # entries of a list
MODELS_MOST = 1_000

Text = Annotated[str, Field(max_length=2_000)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Tokens = Annotated[int, Field(ge=0, le=TOKENS_MOST)]
Time = Annotated[float, Field(ge=0, le=2.0**33)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Amount = Annotated[float, Field(ge=-1e18, le=1e18)]
Ratio = Annotated[float, Field(ge=RATIO_LEAST, le=RATIO_MOST)]
Limited = Annotated[float, Field(gt=0, le=MAX_LIMIT)] | None


class PoolStateError(StorageError):
    """The key pool's saved state cannot be used."""


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class SavedKey(_Saved):
    """A key as configured, and what is known about it. Its calls in flight are counted from the leases."""

    id: Text
    provider: Text
    quota_group: Text | None
    rpm: Limited
    tpm: Limited
    rpd: Limited
    burst: Annotated[int, Field(gt=0, le=10**9)] | None
    max_in_flight: Annotated[int, Field(gt=0, le=10**9)] | None
    gentle: bool
    per_model: bool = True
    slots: Annotated[float, Field(ge=1, le=SLOTS_MOST)]
    fast: bool
    disabled: Text | None
    disabled_at: Time | None
    calls: Count
    rate_limited: Count
    tokens_in: Count
    tokens_out: Count
    last_lease: LeaseNumber


class SavedCooldown(_Saved):
    until: Time | None
    state: Literal["rate_limited", "quota_exhausted"]
    told: bool = True  # missing in older states
    strikes: Count
    fence: LeaseNumber
    woke: Time | None
    opened: Count


class SavedBucket(_Saved):
    limit: LimitName
    level: Amount
    at: Time


class SavedSent(_Saved):
    at: Time
    tokens: Amount
    tokens_in: Amount
    tokens_out: Amount


class SavedWindow(_Saved):
    """What a server's answers said about the ends of its fixed windows."""

    readings: Count
    ends: Count
    partly: Count
    least: Amount
    first: Time | None
    soonest: Time | None
    latest: Time | None
    upper: Seconds | None
    longest: Annotated[float, Field(ge=0, le=MAX_RESET)]


class SavedRefill(_Saved):
    """What a server's answers said about one limit; None is no upper bound."""

    which: LimitName
    limit: Annotated[float, Field(gt=0, le=MAX_LIMIT)]
    readings: Count
    minutes: bool
    own: bool
    size_low: Amount
    size_high: Amount | None
    rate_low: Amount
    rate_high: Amount | None
    remaining: Amount | None
    reset: Annotated[float, Field(ge=0, le=MAX_RESET)]
    signs: Count
    window: SavedWindow | None = None


class SavedGuess(_Saved):
    """A pace that is being guessed."""

    since: Time
    rate: Annotated[float, Field(ge=SLOWEST, le=FASTEST)]
    level: Annotated[float, Field(ge=-1e6, le=1)]
    found: Annotated[float, Field(gt=0, le=FASTEST)] | None
    anchor: Time | None
    served: Annotated[int, Field(ge=-1, le=2**63 - 1)]
    probe_after: Annotated[float, Field(ge=PROBE_FIRST, le=PROBE_LAST)]
    refused_at: Time | None


class SavedBudget(_Saved):
    """A group's budget for one model; rates and capacities follow from the limits and the pace."""

    model: Text
    charged_at: Time | None = None
    learnt: dict[LimitName, Annotated[float, Field(gt=0, le=MAX_LIMIT)]]
    buckets: Annotated[list[SavedBucket], Field(max_length=5)]
    grants: Count
    known_since: Count
    long_rate: Limited
    sizes: dict[LimitName, Annotated[float, Field(gt=0, le=MAX_LIMIT)]]
    refills: Annotated[list[SavedRefill], Field(max_length=5)]
    guess: SavedGuess | None
    jitter: Annotated[float, Field(ge=JITTER_LEAST, le=JITTER_MOST)]
    answered: bool
    history: Annotated[list[SavedSent], Field(max_length=HISTORY)]
    held_until: Time | None
    held_for: LimitName | None
    ease: Annotated[float, Field(ge=EASE_LEAST, le=1)]
    refused_ease: Annotated[float, Field(ge=EASE_LEAST, le=1)]
    burst_share: Annotated[float, Field(ge=BURST_LEAST, le=1)]
    strikes: Count
    struck_at: Time | None
    eased_at: Time


class SavedTold(_Saved):
    """The limits that a server named for a model."""

    at: Time
    limits: dict[LimitName, Annotated[float, Field(gt=0, le=MAX_LIMIT)]]


class SavedSharing(_Saved):
    """Whether the models of a group share its limits."""

    shared_until: Time | None
    apart: bool
    told: Annotated[dict[Text, SavedTold], Field(max_length=MODELS_MOST)]
    doubts: Count
    doubted_at: Time | None


class SavedGroup(_Saved):
    provider: Text
    name: Text  # as in the pool state: "=ID" is the group of a single key
    rest: SavedCooldown
    halved_at: Time | None
    sharing: SavedSharing | None = None
    budgets: Annotated[list[SavedBudget], Field(max_length=MODELS_MOST)]


class SavedEstimate(_Saved):
    total: Ratio
    share_in: Ratio
    share_out: Ratio
    spread: Annotated[float, Field(ge=0, le=SPREAD_MOST)]
    tokens: Annotated[float, Field(ge=0, le=2 * TOKENS_MOST)]
    calls: Count


class SavedModel(_Saved):
    provider: Text
    model: Text
    rest: SavedCooldown
    estimate: SavedEstimate
    seconds: Seconds | None


class SavedAttempt(_Saved):
    """An attempt at an item."""

    run_id: Text
    item: Text
    attempt: Count


class SavedAsk(SavedAttempt):
    number: Count
    tokens: Tokens
    lane: Count  # its index in `lanes`
    key_set: Count | None  # its index in `key_sets`; None: every key of the provider
    order: Count
    since: Time
    lease_seconds: Seconds


class SavedLease(SavedAttempt):
    number: LeaseNumber
    call: Count
    key: Text
    lane: Count
    asked: Tokens
    tokens: Amount
    tokens_in: Amount
    tokens_out: Amount
    spread: Annotated[float, Field(ge=0, le=SPREAD_MOST)]
    grant: Count
    since: Time
    waited: Seconds
    expires: Time
    expired: bool


class SavedPool(_Saved):
    version: Literal[1]
    at: Time  # when it was exported
    now: Time | None  # the latest time passed to the pool
    last_lease: LeaseNumber
    last_ask: Count
    keys: Annotated[list[SavedKey], Field(max_length=MANY)]
    groups: Annotated[list[SavedGroup], Field(max_length=MANY)]
    lanes: Annotated[list[SavedModel], Field(max_length=MODELS_MOST)]
    key_sets: Annotated[list[Annotated[list[Text], Field(max_length=MANY)]], Field(max_length=MANY)]
    asks: Annotated[list[SavedAsk], Field(max_length=MANY)]
    leases: Annotated[list[SavedLease], Field(max_length=MANY)]
    over: Annotated[list[SavedAttempt], Field(max_length=ATTEMPTS_REMEMBERED)]


def read_state(data: object) -> SavedPool:
    """Check data that was exported before; PoolStateError if any of it is invalid."""
    version = data.get("version") if isinstance(data, Mapping) else None
    if version != VERSION:
        found = version if isinstance(version, int) and 0 < version < 1_000 else "unknown"
        raise PoolStateError(f"The key pool's state has version {found}; this agentos reads {VERSION}.")
    try:
        saved = SavedPool.model_validate(data)
    except ValidationError as exc:
        raise PoolStateError(f"The key pool's state cannot be used: {first_error(exc)}") from None
    problem = next(_problems(saved), None)
    if problem is not None:
        raise PoolStateError(f"The key pool's state cannot be used: {problem}")
    return saved


def read_text(text: str) -> SavedPool:
    """The same for a state as it is stored."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise PoolStateError("The key pool's state cannot be used: it is not JSON.") from None
    return read_state(data)


def _problems(saved: SavedPool) -> Iterator[str]:
    """Yield the contradictions. Later checks rely on earlier ones."""
    yield from _repeated(saved)
    yield from _missing(saved)
    if any(time > saved.at for time in _past(saved)):
        yield "a past time is after the export"
    if any(time > saved.at + longest + ROUNDING for time, longest in _future(saved)):
        yield "a future time is further ahead than any wait"


def _repeated(saved: SavedPool) -> Iterator[str]:
    yield from _twice("keys", [key.id for key in saved.keys])
    yield from _twice("groups", [(group.provider, group.name) for group in saved.groups])
    yield from _twice("lanes", [(lane.provider, lane.model) for lane in saved.lanes])
    yield from _twice("key_sets", [frozenset(key_ids) for key_ids in saved.key_sets])
    yield from _twice("asks", [ask.order for ask in saved.asks])
    yield from _twice("asks", [(ask.run_id, ask.item) for ask in saved.asks])
    yield from _twice("leases", [lease.number for lease in saved.leases])
    for group in saved.groups:
        yield from _twice("budgets", [budget.model for budget in group.budgets])
        for budget in group.budgets:
            yield from _twice("buckets", [bucket.limit for bucket in budget.buckets])
            yield from _twice("refills", [refill.which for refill in budget.refills])


def _twice(name: str, found: Sequence[object]) -> Iterator[str]:
    if len(set(found)) < len(found):
        yield f"{name}: a duplicate entry"


def _missing(saved: SavedPool) -> Iterator[str]:
    """Yield references to something that does not exist."""
    providers = {key.id: key.provider for key in saved.keys}
    asks, leases, lanes = saved.asks, saved.leases, saved.lanes
    if not {lane.provider for lane in lanes} <= set(providers.values()):
        yield "lanes: a provider without keys"
    if any(ask.lane >= len(lanes) for ask in asks) or any(lease.lane >= len(lanes) for lease in leases):
        yield "lanes: no entry has that number"
    if any(ask.key_set is not None and ask.key_set >= len(saved.key_sets) for ask in asks):
        yield "key_sets: no entry has that number"
    if any(providers.get(lease.key) != lanes[lease.lane].provider for lease in leases):
        yield "leases: a key that the provider does not have"
    if any(ask.order > saved.last_ask for ask in asks):
        yield "asks: a number that was never granted"
    if any(lease.number > saved.last_lease for lease in leases):
        yield "leases: a number that was never granted"


def _past(saved: SavedPool) -> Iterable[float]:
    """Yield the times that were past when the state was exported."""
    times: list[float | None] = [saved.now, *(key.disabled_at for key in saved.keys)]
    times += [ask.since for ask in saved.asks]
    times += [lease.since for lease in saved.leases]
    times += [cooldown.woke for cooldown in _cooldowns(saved)]
    for group in saved.groups:
        times.append(group.halved_at)
        if group.sharing is not None:
            times += [group.sharing.doubted_at, *(told.at for told in group.sharing.told.values())]
        for budget in group.budgets:
            times += [budget.struck_at, budget.eased_at, budget.charged_at]
            if budget.guess is not None:
                times += [budget.guess.since, budget.guess.anchor, budget.guess.refused_at]
            times += [bucket.at for bucket in budget.buckets]
            times += [sent.at for sent in budget.history]
    return (time for time in times if time is not None)


def _cooldowns(saved: SavedPool) -> list[SavedCooldown]:
    return [*(group.rest for group in saved.groups), *(lane.rest for lane in saved.lanes)]


def _future(saved: SavedPool) -> Iterator[tuple[float, float]]:
    """Yield the times that were in the future, each with the longest it may be ahead."""
    yield from (
        (cooldown.until, QUOTA_LONGEST) for cooldown in _cooldowns(saved) if cooldown.until is not None
    )
    shared = (group.sharing.shared_until for group in saved.groups if group.sharing is not None)
    yield from ((until, SHARED_SECONDS) for until in shared if until is not None)
    held = (budget.held_until for group in saved.groups for budget in group.budgets)
    yield from ((until, HOLD_LONGEST) for until in held if until is not None)
