"""The keys of a run's page: what each key did, from the summary and the events. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from agentos.events.fields import Record, count_of, dicts_of, text_of
from agentos.events.state import MOCK, DisabledSpan, KeyTimeline, RateLimitSpan, RefusalMark, RunState
from agentos.report.items import ReportItem
from agentos.report.spans import PaidCall, call_dict, span_dict

# Refusals are counted separately. A model or a provider that is slow has its own lane: no key helps.
_NOT_THE_KEY = frozenset({"rate_limited", "quota_exhausted", "capacity", "unreachable"})


@dataclass(frozen=True, kw_only=True)
class MadeCall:
    """A call with the item that made it."""

    item: str  # the label
    paid: PaidCall

    def as_dict(self, now: float) -> dict[str, Any]:
        data = call_dict(self.paid, now)
        del data["key"]
        return data | {"item": self.item}


@dataclass(frozen=True, kw_only=True)
class KeyData:
    """One key of the page."""

    id: str
    provider: str | None
    group: str | None
    state: str
    calls: int
    errors: int  # without refusals, slow models and calls that were cut short
    cut_short: int  # calls that ended with their worker; the key is not to blame
    rate_limited: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    busy_seconds: float
    rested_seconds: float
    rests: tuple[RateLimitSpan | RefusalMark | DisabledSpan, ...]
    made: tuple[MadeCall, ...]

    def as_dict(self, now: float) -> dict[str, Any]:
        spans = [span_dict(span, now) for span in self.rests] + [one.as_dict(now) for one in self.made]
        data = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in {"rests", "made"}
        }
        return data | {"spans": sorted(spans, key=lambda span: float(span["start"]))}


def read_keys(summary: Record, state: RunState, items: Sequence[ReportItem], now: float) -> list[KeyData]:
    """The keys of the summary in its order, then the keys that only the events mention."""
    made: dict[str, list[MadeCall]] = {}
    for item in items:
        for paid in item.calls:
            made.setdefault(paid.call.key, []).append(MadeCall(item=item.label, paid=paid))
    rows = {name: row for row in dicts_of(summary, "keys") if (name := text_of(row, "id", 80)) is not None}
    names = dict.fromkeys([*rows, *sorted({*state.keys, *made})])
    return [
        _key(rows.get(name, {}), state.keys.get(name) or KeyTimeline(id=name), made.get(name, []), now)
        for name in names
    ]


def _key(row: Record, key: KeyTimeline, made: Sequence[MadeCall], now: float) -> KeyData:
    calls = [one.paid.call for one in made]
    limited = sum(isinstance(span, RefusalMark) for span in key.spans)
    return KeyData(
        id=key.id,
        provider=text_of(row, "provider", 80) or key.provider,
        group=text_of(row, "group", 80) or key.group,
        state=text_of(row, "state", 40) or key.state_at(now),
        calls=max(count_of(row, "calls"), len(calls)),
        errors=sum(call.failure is not None and call.failure not in _NOT_THE_KEY for call in calls),
        cut_short=sum(call.cut_short is not None for call in calls),
        rate_limited=count_of(row, "rate_limited") or limited,
        tokens_in=sum(call.tokens_in for call in calls),
        tokens_out=sum(call.tokens_out for call in calls),
        tokens_cached=sum(call.tokens_cached for call in calls),
        busy_seconds=round(sum(call.seconds(now) for call in calls), 3),
        rested_seconds=round(sum(one.seconds(now) for one in key.spans if isinstance(one, RateLimitSpan)), 3),
        rests=tuple(key.spans),
        made=tuple(made),
    )


def pretended(providers: Sequence[str | None]) -> bool:
    """Whether the cost is simulated: every key belongs to the mock."""
    return bool(providers) and all(provider == MOCK for provider in providers)
