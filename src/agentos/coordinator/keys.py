"""The keys of a run: the pool that decides, and the secrets it never sees. Coordinator process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentos.config import Config, KeyReference
from agentos.credentials.events import Event, Granted
from agentos.credentials.pool import CredentialCoordinator, KeySpec, PoolSnapshot, Settlement
from agentos.errors import ConfigError
from agentos.llm.mock import REFUSED_SECRET
from agentos.llm.provider import ErrorClass
from agentos.wire import Leased, LeaseWanted, Settled

MOCK_KEYS = tuple(KeySpec(id=f"mock-{number}", provider="mock") for number in (1, 2, 3))
LEASE_MARGIN = 60.0  # a lease outlives the longest call by this many seconds


@dataclass(frozen=True, kw_only=True)
class KeyRing:
    """Which keys there are; a secret shows itself to nobody but the one who asks by id."""

    specs: tuple[KeySpec, ...]
    secrets: Mapping[str, str]

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(spec.id for spec in self.specs)})"


def key_ring(config: Config, providers: Sequence[str]) -> KeyRing:
    """Collect the keys of the providers a run uses."""
    specs: list[KeySpec] = []
    secrets: dict[str, str] = {}
    if "mock" in providers:
        specs += MOCK_KEYS
        secrets |= {spec.id: "mock" for spec in MOCK_KEYS}
    for reference in config.keys:
        if reference.provider in providers:
            specs.append(_spec(reference))
            secrets[reference.id] = _secret(reference, config.environment)
    limit = config.environment.get("AGENTOS_CREDENTIAL_LIMIT")
    if limit is not None:
        if not limit.isdigit() or int(limit) < 1:
            raise ConfigError(f"AGENTOS_CREDENTIAL_LIMIT is {limit!r}: a whole number from 1 is needed.")
        specs = specs[: int(limit)]
    return KeyRing(specs=tuple(specs), secrets={spec.id: secrets[spec.id] for spec in specs})


def _spec(reference: KeyReference) -> KeySpec:
    return KeySpec(
        id=reference.id,
        provider=reference.provider,
        quota_group=reference.quota_group,
        rpm=reference.rpm,
        tpm=reference.tpm,
        rpd=reference.rpd,
        burst=reference.burst,
        max_in_flight=reference.max_in_flight,
    )


def _secret(reference: KeyReference, environment: Mapping[str, str]) -> str:
    if reference.env is not None:
        found = environment.get(reference.env, "").strip()
        if not found:
            raise ConfigError(f"Key {reference.id!r}: the variable {reference.env} is not set.")
        return found
    assert reference.file is not None
    try:
        found = Path(reference.file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"Key {reference.id!r}: the file {reference.file} cannot be read.") from exc
    if not found:
        raise ConfigError(f"Key {reference.id!r}: the file {reference.file} is empty.")
    return found


class KeyService:
    """Answers workers' requests for leases; the pool decides, this hands over the secret."""

    def __init__(self, ring: KeyRing, *, call_timeout: float, refuse_every: int | None) -> None:
        self._ring = ring
        self._refuse_every = refuse_every
        self.pool = CredentialCoordinator(ring.specs, lease_seconds=call_timeout + LEASE_MARGIN)

    def request(self, item: str, wanted: LeaseWanted, now: float) -> list[Event]:
        return self.pool.request(
            item=item,
            number=wanted.number,
            provider=wanted.provider,
            model=wanted.model,
            tokens=max(0, wanted.tokens),
            now=now,
        )

    def settle(self, item: str, settled: Settled, now: float) -> list[Event]:
        error = None
        if settled.error is not None:
            error = ErrorClass(settled.error) if settled.error in set(ErrorClass) else ErrorClass.TRANSIENT
        settlement = Settlement(
            tokens_in=settled.tokens_in,
            tokens_out=settled.tokens_out,
            error=error,
            retry_after=settled.retry_after,
            quota_reset=settled.quota_reset,
            headers=settled.headers,
        )
        return self.pool.settle(settled.lease, item=item, settlement=settlement, now=now)

    def answer(self, granted: Granted) -> Leased:
        """Make the message that carries the secret to its worker."""
        refused = self._refuse_every is not None and granted.lease % self._refuse_every == 0
        secret = REFUSED_SECRET if refused and granted.provider == "mock" else self._ring.secrets[granted.key]
        return Leased(number=granted.number, lease=granted.lease, key=granted.key, secret=secret)

    def snapshot(self, now: float) -> PoolSnapshot:
        return self.pool.snapshot(now)
