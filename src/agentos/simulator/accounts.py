"""The keys of a simulator: who may call, what quota is left, and what was counted."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from agentos.simulator.config import KeyConfig, SimulatorConfig
from agentos.simulator.limits import Level, LimitName, Limits, Refusal


@dataclass(kw_only=True)
class Counts:
    """What happened to the calls of a key. Times are seconds since the start."""

    calls: int = 0  # with a known key and a valid request
    served: int = 0  # answered with a text
    refused: int = 0  # by a limit
    faulted: int = 0  # answered with a configured fault
    abandoned: int = 0  # the client left before the end
    in_flight: int = 0
    max_in_flight: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0  # the part of tokens_in that was read from the cache
    service_seconds: float = 0.0  # total of the served calls
    first_call: float | None = None
    last_admitted: float | None = None  # when the latest served call was admitted
    last_served: float | None = None


class Account:
    """One key and its counts."""

    def __init__(self, number: int, config: KeyConfig) -> None:
        self.id = f"key-{number}"
        self.config = config
        self.group = config.group or self.id
        self.counts = Counts()


class Accounts:
    def __init__(self, config: SimulatorConfig) -> None:
        self._config = config
        self._accounts = {key.secret: Account(number, key) for number, key in enumerate(config.keys, start=1)}
        self.reset()

    def reset(self) -> None:
        """Fill every bucket and set all counts to zero."""
        self._limits: dict[tuple[str, str], Limits] = {}
        self._start = self._config.clock()
        self.unauthorized = 0
        self.invalid = 0
        self.keys_in_urls = 0
        self._in_flight = self._max_in_flight = 0
        for account in self._accounts.values():
            account.counts = Counts()

    def find(self, secret: str | None) -> Account | None:
        return self._accounts.get(secret) if secret else None

    def count_call(self, account: Account) -> None:
        account.counts.calls += 1
        if account.counts.first_call is None:
            account.counts.first_call = self._now() - self._start

    def admit(self, account: Account, model: str, tokens: int) -> Refusal | None:
        """Admit the call and charge it, or return the limit that refuses it."""
        most = account.config.max_in_flight
        if most is not None and account.counts.in_flight >= most:
            refusal: Refusal | None = Refusal(limit=LimitName.CONCURRENCY, value=most, wait=None)
        else:
            limits = self._limits_of(account, model)
            refusal = limits.admit(tokens, self._now(), refused_count=self._config.refused_count)
        account.counts.refused += refusal is not None
        return refusal

    def levels(self, account: Account, model: str) -> dict[LimitName, Level]:
        return self._limits_of(account, model).levels(self._now())

    @contextlib.contextmanager
    def serving(self, account: Account) -> Iterator[None]:
        """Count a call as in flight."""
        counts = account.counts
        counts.in_flight += 1
        counts.max_in_flight = max(counts.max_in_flight, counts.in_flight)
        self._in_flight += 1
        self._max_in_flight = max(self._max_in_flight, self._in_flight)
        try:
            yield
        finally:
            counts.in_flight -= 1
            self._in_flight = max(0, self._in_flight - 1)  # there may have been a reset meanwhile

    def count_served(
        self, account: Account, *, tokens_in: int, tokens_out: int, tokens_cached: int, since: float
    ) -> None:
        counts = account.counts
        now = self._now()
        counts.served += 1
        counts.tokens_in += tokens_in
        counts.tokens_out += tokens_out
        counts.tokens_cached += tokens_cached
        counts.service_seconds += now - since
        counts.last_admitted = max(since - self._start, counts.last_admitted or 0.0)
        counts.last_served = now - self._start

    def stats(self) -> dict[str, Any]:
        """Return all counts, and the most calls the buckets allowed since the first call."""
        elapsed = self._now() - self._start
        counts = [account.counts for account in self._accounts.values()]
        first = min((one.first_call for one in counts if one.first_call is not None), default=elapsed)
        last = max((one.last_served for one in counts if one.last_served is not None), default=first)
        # Buckets are checked when a call arrives, so their allowance counts up to that time.
        admitted = max((one.last_admitted for one in counts if one.last_admitted is not None), default=first)
        groups: dict[str, dict[str, Any]] = {}
        for account in self._accounts.values():
            members = [one.counts for one in self._accounts.values() if one.group == account.group]
            served = sum(one.served for one in members)
            tokens = sum(one.tokens_in + one.tokens_out for one in members)
            mean = tokens / served if served else 1.0
            groups[account.group] = {
                "served": served,
                "max_calls": self._most(account, elapsed - first, mean),
                "max_calls_at_last_served": self._most(account, admitted - first, mean),
            }
        names = (
            "calls",
            "served",
            "refused",
            "faulted",
            "abandoned",
            "tokens_in",
            "tokens_out",
            "tokens_cached",
        )
        totals: dict[str, Any] = {name: sum(getattr(one, name) for one in counts) for name in names}
        for name in ("max_calls", "max_calls_at_last_served"):
            bounds = [group[name] for group in groups.values()]
            totals[name] = None if None in bounds else sum(bounds)
        return {
            "seconds": elapsed,
            "first_call": first,
            "last_served": last,
            "totals": totals
            | {
                "unauthorized": self.unauthorized,
                "invalid": self.invalid,
                "keys_in_urls": self.keys_in_urls,
                "in_flight": self._in_flight,
                "max_in_flight": self._max_in_flight,
            },
            "groups": groups,
            "keys": {one.id: {"group": one.group, **asdict(one.counts)} for one in self._accounts.values()},
        }

    def _most(self, account: Account, seconds: float, tokens_per_call: float) -> int | None:
        found = [limits for (group, _), limits in self._limits.items() if group == account.group]
        if not found:  # no call yet: all buckets are full
            found = [self._new_limits(account)]
        bounds = [limits.most_calls(seconds, tokens_per_call) for limits in found]
        return None if None in bounds else sum(bound for bound in bounds if bound is not None)

    def _limits_of(self, account: Account, model: str) -> Limits:
        name = (account.group, model if self._config.per_model else "")
        if name not in self._limits:
            self._limits[name] = self._new_limits(account)
        return self._limits[name]

    def _new_limits(self, account: Account) -> Limits:
        return Limits(self._config.group_limits(account.config), now=self._now())

    def _now(self) -> float:
        return self._config.clock()
