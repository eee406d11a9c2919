"""Decides when a provider is down, and which call may try it meanwhile: one for all. Pure.

One run, one network: what another machine or another run finds out about a provider says nothing here. So
this is not part of the key pool's state, which others may share.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from agentos.credentials.key_state import Backoff
from agentos.model import CallError

PROBES = Backoff(first=1.0, last=60.0)
NO_CONNECTION = frozenset({CallError.UNREACHABLE, CallError.DROPPED})
DROPPED_LEAST = 2  # items whose connections must be dropped; one alone may be the item's own fault


@dataclass(kw_only=True)
class Outage:
    """A provider that cannot be reached."""

    provider: str
    reason: str  # host and cause
    since: float
    next_probe: float
    failures: int = 1  # in a row
    probe: str | None = None  # the item whose call tries the provider now

    def describe(self) -> str:
        return f"{self.provider} is down: {self.reason}"


@dataclass(kw_only=True)
class Outages:
    """Knows which providers are down."""

    _down: dict[str, Outage] = field(default_factory=dict)
    _answered: dict[str, float] = field(default_factory=dict)  # when each provider last answered
    _dropped: dict[str, set[str]] = field(default_factory=dict)  # items, since the last answer

    def of(self, provider: str) -> Outage | None:
        return self._down.get(provider)

    def is_down(self, provider: str) -> bool:
        return provider in self._down

    def failed(
        self, provider: str, item: str, error: CallError, reason: str, *, sent: float, now: float
    ) -> Outage | None:
        """A call got no connection, or lost it before a reply; return the outage that begins with it."""
        outage = self._down.get(provider)
        if outage is not None:
            if outage.probe == item:
                outage.probe, outage.reason = None, reason
                outage.failures += 1
                outage.next_probe = now + PROBES.delay(outage.failures, provider)
            return None
        if self._answered.get(provider, -inf) >= sent:
            return None  # other calls get through, so the provider is there
        if error is CallError.DROPPED:
            items = self._dropped.setdefault(provider, set())
            items.add(item)
            if len(items) < DROPPED_LEAST:
                return None
        self._down[provider] = Outage(
            provider=provider, reason=reason, since=now, next_probe=now + PROBES.delay(1, provider)
        )
        return self._down[provider]

    def answered(self, provider: str, now: float) -> Outage | None:
        """A server answered, whatever it said; return the outage that this ends."""
        self._answered[provider] = now
        self._dropped.pop(provider, None)
        return self._down.pop(provider, None)

    def admits(self, provider: str, item: str, now: float) -> bool:
        """Say whether a call may go out: always if the provider is up, else only as the next probe."""
        outage = self._down.get(provider)
        if outage is None or outage.probe == item:
            return True
        if outage.probe is None and now >= outage.next_probe:
            outage.probe = item
            return True
        return False

    def probes(self, provider: str, item: str) -> bool:
        outage = self._down.get(provider)
        return outage is not None and outage.probe == item

    def gone(self, item: str, now: float) -> None:
        """An item makes no more calls: another one may probe in its place."""
        for outage in self._down.values():
            if outage.probe == item:
                outage.probe, outage.next_probe = None, now

    def due(self, waiting: Iterable[str], now: float) -> list[str]:
        """Return the providers that need a probe now, of those that calls wait for."""
        return [
            provider
            for provider in dict.fromkeys(waiting)
            if (outage := self._down.get(provider)) and outage.probe is None and outage.next_probe <= now
        ]

    def overdue(self, waiting: Iterable[str], max_wait: float, now: float) -> Outage | None:
        """Return an outage that calls have waited for longer than the user wants to."""
        for provider in waiting:
            outage = self._down.get(provider)
            if outage is not None and now - outage.since >= max_wait:
                return outage
        return None

    def next_wake(self, waiting: Iterable[str], max_wait: float) -> float | None:
        """Return when a probe or the end of the waiting is due, of the providers that calls wait for."""
        times: list[float] = []
        for provider in set(waiting):
            if (outage := self._down.get(provider)) is not None:
                times.append(outage.since + max_wait)
                if outage.probe is None:
                    times.append(outage.next_probe)
        return min(times, default=None)
