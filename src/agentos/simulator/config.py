"""How a simulated provider is set up."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agentos.errors import UsageError
from agentos.simulator.faults import FaultRule
from agentos.simulator.limits import LimitConfig

HOST = "127.0.0.1"  # never anything else: it speaks without TLS and trusts its callers

Responder = Callable[[str, str, str, bool], str]
"""(model, system, prompt, wants_json) -> the model's text."""


@dataclass(frozen=True, kw_only=True)
class KeyConfig:
    """One API key the simulator accepts."""

    secret: str = field(repr=False)
    group: str | None = None  # keys of one group share their limits; None is a group of its own
    limits: LimitConfig = field(default_factory=LimitConfig)
    max_in_flight: int | None = None  # calls at once; None is any number


@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """All of a simulated provider; keys are called key-1, key-2, ... in their order."""

    port: int = 0  # 0 is any free one
    keys: tuple[KeyConfig, ...] = (KeyConfig(secret="sim-key"),)  # noqa: S106 - opens nothing
    models: tuple[str, ...] = ()  # names that exist; empty is any
    per_model: bool = False  # limits hold for each model apart
    refused_count: bool = False  # a refused call counts against the limit too
    latency: float = 0.0  # seconds a call takes
    jitter: float = 0.0  # seconds it may take more or less
    faults: tuple[FaultRule, ...] = ()
    seed: int = 0
    responder: Responder | None = None  # None is the built-in one
    clock: Callable[[], float] = time.monotonic  # drives the buckets
    wall: Callable[[], float] = time.time  # dates in bodies and headers
    idle_timeout: float = 120.0  # seconds an unused connection stays open
    request_timeout: float = 30.0  # seconds a request may take to arrive
    max_body: int = 32_000_000  # bytes, as Anthropic has it
    max_header: int = 64_000  # bytes
    max_connections: int = 5_000

    def __post_init__(self) -> None:
        if not self.keys:
            raise UsageError("A simulator needs at least one key.")
        if len({key.secret for key in self.keys}) != len(self.keys) or not all(
            key.secret for key in self.keys
        ):
            raise UsageError("Simulated keys need secrets, each another.")
        if self.latency < 0 or self.jitter < 0:
            raise UsageError("Latency and jitter cannot be negative.")
        for key in self.keys:
            self.group_limits(key)

    def group_limits(self, key: KeyConfig) -> LimitConfig:
        """Return the limits of a key's group: those its keys name, which must not differ."""
        if key.group is None:
            return key.limits
        stated = {one.limits for one in self.keys if one.group == key.group} - {LimitConfig()}
        if len(stated) > 1:
            raise UsageError(f"The keys of group {key.group!r} state different limits; they share one set.")
        return stated.pop() if stated else LimitConfig()


def parse_key(spec: str, *, burst: float | None = None) -> KeyConfig:
    """Read `secret[:rpm[:tpm[:rpd]]][@group]`; an empty number is no limit."""
    text, _, group = spec.partition("@")
    secret, *numbers = text.split(":")
    if not secret or len(numbers) > 3:
        raise UsageError(f"Key {spec!r} is not secret[:rpm[:tpm[:rpd]]][@group].")
    try:
        values = [float(number) if number else None for number in numbers]
    except ValueError as exc:
        raise UsageError(f"Key {spec!r}: rpm, tpm and rpd are numbers.") from exc
    limits = LimitConfig(**dict(zip(("rpm", "tpm", "rpd"), values, strict=False)))
    if burst is not None and limits.rpm is not None:
        limits = replace(limits, burst=burst)
    return KeyConfig(secret=secret, group=group or None, limits=limits)
