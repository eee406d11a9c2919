"""Reads the keys of a run, and answers lease requests: the pool picks a key, this adds its secret.

Coordinator process. The key pool never sees a secret.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentos import wire
from agentos.config import Config
from agentos.coordinator.shared_pools import SharedPools
from agentos.credentials.headers import Limit
from agentos.credentials.pool import CredentialCoordinator, KeySpec, PoolSnapshot, Settlement
from agentos.credentials.pool_store import MemoryStore
from agentos.credentials.run_pool import RunPool
from agentos.credentials.snapshot import combine
from agentos.errors import ConfigError
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import (
    KeyDisabled,
    Leased,
    LimitLearnt,
    QuotaExhausted,
    RateLimited,
    Returned,
    Settled,
)
from agentos.key_tables import KeyReference
from agentos.lease import OWN_FROM, LeaseNumber
from agentos.llm.mock import REFUSED_SECRET
from agentos.model import CallError
from agentos.model_access import COMMAND_PROVIDERS, KINDS, provider_of, usual_variable
from agentos.secret import Secret, read_secret
from agentos.spending.call import Call
from agentos.store.key_health import HealthFile
from agentos.store.rooted_tree import read_named

MOCK_KEYS = tuple(KeySpec(id=f"mock-{number}", provider="mock") for number in (1, 2, 3))
GOOGLE_KEY = "GOOGLE_API_KEY"  # for Gemini, if GEMINI_API_KEY is not set
MAX_KEY_BYTES = 100_000  # of a file with a key
SAVE_SECONDS = 1.0  # how long something learnt may stay unsaved
LEASE_MARGIN = 60.0  # a lease outlives the longest call by this many seconds


@dataclass(kw_only=True)
class KeyCounts:
    """What one run used of a key; the pool counts the calls of all runs."""

    calls: int = 0
    rate_limited: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, kw_only=True)
class KeyRing:
    """The keys of a run and their secrets."""

    specs: tuple[KeySpec, ...]
    secrets: Mapping[str, Secret]
    unusable: tuple[str, ...] = ()  # why keys are left out, one sentence per key

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(spec.id for spec in self.specs)})"


def key_ring(config: Config, providers: Sequence[str]) -> KeyRing:
    """Collect the keys of the providers that a run uses."""
    specs: list[KeySpec] = []
    secrets: dict[str, Secret] = {}
    if "mock" in providers:
        specs += MOCK_KEYS
        secrets |= {spec.id: Secret(spec.id, "mock") for spec in MOCK_KEYS}
    found, unusable = _read_keys(config, providers)
    specs += (spec_of(reference, config) for reference in found)
    secrets |= {reference.id: secret for reference, secret in found.items()}
    for name in sorted(keyless(config, providers) - {spec.provider for spec in specs}):
        # The pool treats it as one key without a secret.
        specs.append(KeySpec(id=name, provider=name))
        secrets[name] = Secret(name, "")
    limit = config.environment.get("AGENTOS_CREDENTIAL_LIMIT")
    if limit is not None:
        if not limit.isdigit() or int(limit) < 1:
            raise ConfigError(
                f"AGENTOS_CREDENTIAL_LIMIT must be a whole number of at least 1, not {limit!r}."
            )
        specs = specs[: int(limit)]
    return KeyRing(
        specs=tuple(specs), secrets={spec.id: secrets[spec.id] for spec in specs}, unusable=unusable
    )


def _read_keys(
    config: Config, providers: Sequence[str]
) -> tuple[dict[KeyReference, Secret], tuple[str, ...]]:
    """Read the keys, and say which cannot be used. Fails only if a provider has no usable key at all."""
    found: dict[KeyReference, Secret] = {}
    problems: dict[str, list[str]] = {}  # by provider
    for reference in key_references(config):
        if reference.provider in providers:
            try:
                found[reference] = read_key(reference, config.environment)
            except ConfigError as exc:
                problems.setdefault(reference.provider, []).append(str(exc))
    for provider, sentences in problems.items():
        if all(reference.provider != provider for reference in found):
            raise ConfigError(" ".join(sentences))
    return found, tuple(sentence for sentences in problems.values() for sentence in sentences)


def key_references(config: Config) -> tuple[KeyReference, ...]:
    """The keys that the user's file lists, or else those in the usual variables."""
    return config.keys or usual_keys(config.environment, config.providers)


def usual_keys(environment: Mapping[str, str], named: Iterable[str] = ()) -> tuple[KeyReference, ...]:
    """The keys in the usual variables, for users who configured none."""
    found: list[tuple[str, int, str]] = []
    for provider in dict.fromkeys((*KINDS, *named)):
        own = _numbered(environment, usual_variable(provider))
        if provider == "gemini" and not own:
            own = _numbered(environment, GOOGLE_KEY)
        found += ((provider, number, name) for number, name in own)
    ids: dict[str, KeyReference] = {}
    for provider, number, name in sorted(found):
        usual = f"{provider}-{number}" if number else provider
        # A provider named azure-2 and the second key of azure must not have the same id.
        chosen = name.lower() if usual in ids else usual
        ids[chosen] = KeyReference(id=chosen, provider=provider, env=name)
    return tuple(ids.values())


def _numbered(environment: Mapping[str, str], variable: str) -> list[tuple[int, str]]:
    """The variables with this name and those with a number at the end, if they are not empty."""
    spelled = re.compile(rf"{variable}(?:_([1-9]\d{{0,3}}))?")
    found = [(spelled.fullmatch(name), name) for name, value in environment.items() if value.strip()]
    return [(int(match[1] or 0), name) for match, name in found if match is not None]


def keyless(config: Config, providers: Iterable[str]) -> frozenset[str]:
    """The providers that work without a key: programs with a login, and servers that need none."""
    specs = {name: config.provider(name) for name in providers}
    free = {name for name, spec in specs.items() if spec is not None and not spec.needs_key}
    return frozenset(free | (COMMAND_PROVIDERS & specs.keys()))


def login_keys(config: Config, known: Iterable[str]) -> tuple[KeyReference, ...]:
    """The providers without a key that are chosen or known from a run. Each counts as one, see key_ring."""
    chosen = {provider_of(str(model)) for model in (config.settings.drafter, config.settings.reviewer)}
    taken = {reference.provider for reference in key_references(config)}
    names = keyless(config, chosen | set(known)) - taken
    return tuple(KeyReference(id=name, provider=name) for name in sorted(names))


def spec_of(reference: KeyReference, config: Config) -> KeySpec:
    """The key as the pool knows it. OpenAI, Anthropic and Google limit each model, other servers each key."""
    return KeySpec(
        id=reference.id,
        provider=reference.provider,
        quota_group=reference.quota_group,
        rpm=reference.rpm,
        tpm=reference.tpm,
        rpd=reference.rpd,
        burst=reference.burst,
        max_in_flight=reference.max_in_flight,
        gentle=True,
        per_model=reference.provider not in config.base_urls,
    )


def read_key(reference: KeyReference, environment: Mapping[str, str]) -> Secret:
    """Read one key and check it. An error never shows a character of it."""
    if reference.env is not None:
        found = environment.get(reference.env, "")
        if not found.strip():
            raise ConfigError(f"Key {reference.id!r}: the variable {reference.env} is not set.")
        return read_secret(reference.id, found, where=f"Key {reference.id!r}: the variable {reference.env}")
    assert reference.file is not None
    try:
        found = read_named(Path(reference.file).expanduser(), MAX_KEY_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        # Not `from exc`: the error contains what was read.
        raise ConfigError(f"Key {reference.id!r}: the file {reference.file} cannot be read.") from None
    return read_secret(reference.id, found, where=f"Key {reference.id!r}: the file {reference.file}")


class KeyService:
    """Answers lease requests of workers: the pool decides, this class passes on the secret.

    The keys of real providers are in the state that all runs of the user share, if there is one. The mock's
    are this run's own.
    """

    def __init__(
        self,
        ring: KeyRing,
        health: HealthFile | None,
        *,
        run_id: str,
        call_timeout: float,
        refuse_every: int | None,
        shared: SharedPools | None = None,
    ) -> None:
        self._ring = ring
        self._run_id = run_id
        self._health = health
        self._unsaved_since: float | None = None
        self._refuse_every = refuse_every
        self._shared: Mapping[str, RunPool] = {} if shared is None else shared.by_provider
        specs = [spec for spec in ring.specs if spec.provider not in self._shared]
        self._pool = CredentialCoordinator(specs, lease_seconds=call_timeout + LEASE_MARGIN)
        if self._shared:
            self._pool.pool_state.last_lease = OWN_FROM
        self._own = RunPool(MemoryStore(self._pool), run=run_id)
        self._pools = (self._own, *self._shared.values())
        self._by_lease: dict[LeaseNumber, RunPool] = {}
        self._counts = {spec.id: KeyCounts() for spec in ring.specs}
        # A shared state knows a key with two ids by the first; a machine may have it by the other one.
        first: dict[tuple[str, Secret], str] = {}
        self._known_as = {
            spec.id: first.setdefault((spec.provider, ring.secrets[spec.id]), spec.id)
            for spec in ring.specs
            if spec.provider in self._shared
        }

    def advance(self, now: float) -> list[PoolEvent]:
        """Let time pass; take over what another run found out, and save what this run found out."""
        events: list[PoolEvent] = []
        if self._health is not None and self._health.changed():
            events += self._own.restore(self._health.read(), now, time.time())
        for pool in self._pools:
            events += self._noted(pool, pool.advance(now))
        if self._unsaved_since is not None and now - self._unsaved_since >= SAVE_SECONDS:
            self.save(now)
        return events

    def next_wake(self, now: float) -> float | None:
        wakes = [wake for pool in self._pools if (wake := pool.next_wake(now)) is not None]
        if self._unsaved_since is not None:
            wakes.append(self._unsaved_since + SAVE_SECONDS)
        return min(wakes, default=None)

    def note(self, event: PoolEvent, now: float) -> None:
        """Save what outlives the run: immediately if it is serious, otherwise soon."""
        if isinstance(event, QuotaExhausted | KeyDisabled):
            self.save(now)
        elif isinstance(event, RateLimited | LimitLearnt) and self._unsaved_since is None:
            self._unsaved_since = now

    def save(self, now: float) -> None:
        """Save the health of the keys in the home, if it is not in a shared state."""
        self._unsaved_since = None
        if self._health is not None:
            self._health.merge(self._pool.export(now, time.time()))

    def request(self, call: Call, now: float, *, without: frozenset[str] = frozenset()) -> list[PoolEvent]:
        """Ask for a lease of any key but some. In a shared state, the requests of one turn go together."""
        pool = self._shared.get(call.provider, self._own)
        only = None if call.only is None else frozenset(map(self._known, call.only))
        if without:
            own = (spec.id for spec in self._ring.specs if spec.provider == call.provider)
            only = (frozenset(map(self._known, own)) if only is None else only) - without
        pool.request(
            item=call.item,
            attempt=call.attempt,
            number=call.number,
            provider=call.provider,
            model=call.model,
            tokens=call.tokens,
            only=only,
        )
        return self._noted(pool, pool.advance(now)) if pool is self._own else []

    def others(self, wanted: wire.LeaseWanted) -> frozenset[str]:
        """The ids by which its machine means other keys than this process."""
        if not wanted.fingerprints:
            return frozenset()  # of this machine: there is nothing to compare
        salt = self._run_id.encode()
        ours = {key: secret.fingerprint(salt) for key, secret in self._ring.secrets.items()}
        theirs = zip(wanted.only or (), wanted.fingerprints, strict=False)
        return frozenset(key for key, mark in theirs if ours.get(key, mark) != mark)

    def settle(self, item: str, attempt: int, settled: wire.CallSettled, now: float) -> list[PoolEvent]:
        settlement = Settlement(
            tokens_in=settled.tokens_in,
            tokens_out=settled.tokens_out,
            tokens_cached=settled.tokens_cached,
            tokens_exempt=settled.tokens_exempt,
            # An answer from another model is still an answer: the key works.
            error=None if settled.error is CallError.OTHER_MODEL else settled.error,
            retry_after=settled.retry_after,
            quota_reset=settled.quota_reset,
            headers=settled.headers,
            limits={Limit(which): value for which, value in settled.limits.items()},
        )
        pool = self._by_lease.pop(settled.lease, self._own)
        return self._noted(pool, pool.settle(settled.lease, item, attempt, settlement, now))

    def withdraw(self, item: str, attempt: int, now: float) -> list[PoolEvent]:
        """Take back the waiting request of an attempt."""
        return [
            event for pool in self._pools for event in self._noted(pool, pool.withdraw(item, attempt, now))
        ]

    def drop(self, item: str, attempt: int, now: float) -> list[PoolEvent]:
        """Give back the leases of an attempt whose worker is gone."""
        return [event for pool in self._pools for event in self._noted(pool, pool.drop(item, attempt, now))]

    def answer(
        self, leased: Leased, *, probe: bool = False, only: frozenset[str] | None = None
    ) -> wire.LeaseGranted:
        """Make the message that carries the secret to its worker.

        `only` are the ids that its machine knows keys by, if it is not this one.
        """
        refused = self._refuse_every is not None and leased.lease % self._refuse_every == 0
        secret = self._ring.secrets[leased.key]
        if refused and leased.provider == "mock":
            secret = Secret(leased.key, REFUSED_SECRET)
        name = leased.key
        if only is not None and name not in only:
            name = next((one for one in sorted(only) if self._known(one) == name), name)
        return wire.LeaseGranted(
            number=leased.number, lease=leased.lease, key=name, secret=secret, probe=probe
        )

    def _known(self, key: str) -> str:
        return self._known_as.get(key, key)

    def snapshot(self, now: float) -> PoolSnapshot:
        """Return the state of this run's keys, with what this run used of them."""
        whole = combine([pool.snapshot(now) for pool in self._pools])
        keys = tuple(replace(key, **vars(self._counts[key.id])) for key in whole.keys)
        return replace(whole, keys=keys)

    def _noted(self, pool: RunPool, events: list[PoolEvent]) -> list[PoolEvent]:
        for event in events:
            match event:
                case Leased():
                    self._by_lease[event.lease] = pool
                    self._counts[event.key].calls += 1
                case Settled():
                    counts = self._counts[event.key]
                    counts.tokens_in += event.tokens_in
                    counts.tokens_out += event.tokens_out
                    counts.rate_limited += event.error == CallError.RATE_LIMITED
                case Returned():
                    self._by_lease.pop(event.lease, None)
                case _:
                    pass
        return events
