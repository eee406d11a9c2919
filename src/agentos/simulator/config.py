"""The settings of a simulator."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agentos.errors import UsageError
from agentos.simulator.faults import FaultRule
from agentos.simulator.limit_headers import LimitStyle
from agentos.simulator.limits import LimitConfig

HOST = "127.0.0.1"  # never another one: there is no TLS, and callers are trusted

Responder = Callable[[str, str, str, str], str]
"""(model, system, prompt, the name of the reply's schema or "") -> the model's text."""


@dataclass(frozen=True, kw_only=True)
class KeyConfig:
    """One API key the simulator accepts."""

    secret: str = field(repr=False)
    group: str | None = None  # keys of a group share their limits; None is a separate group
    limits: LimitConfig = field(default_factory=LimitConfig)
    max_in_flight: int | None = None  # calls at the same time; None: no limit


@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """All settings of a simulator. Keys are called key-1, key-2, ... in this order."""

    port: int = 0  # 0 is any free port
    keys: tuple[KeyConfig, ...] = (KeyConfig(secret="sim-key"),)  # noqa: S106 - not a real secret
    models: tuple[str, ...] = ()  # names that exist; empty accepts any name
    max_output: int | None = None  # tokens that a call may ask for; None is no limit
    per_model: bool = False  # each model has its own limits
    refused_count: bool = False  # refused calls count against the limit too
    limit_style: LimitStyle = LimitStyle.OWN
    latency: float = 0.0  # seconds per call
    jitter: float = 0.0  # seconds, up or down
    faults: tuple[FaultRule, ...] = ()
    seed: int = 0
    responder: Responder | None = None  # None is the built-in responder
    clock: Callable[[], float] = time.monotonic  # for the buckets
    wall: Callable[[], float] = time.time  # for dates in bodies and headers
    idle_timeout: float = 120.0  # seconds an unused connection stays open
    request_timeout: float = 30.0  # seconds a request may take to arrive
    max_body: int = 32_000_000  # bytes, as at Anthropic
    max_header: int = 64_000  # bytes
    max_connections: int = 5_000

    def __post_init__(self) -> None:
        if not self.keys:
            raise UsageError("The simulator needs at least one key.")
        if len({key.secret for key in self.keys}) != len(self.keys) or not all(
            key.secret for key in self.keys
        ):
            raise UsageError("Each simulated key needs its own secret.")
        if self.latency < 0 or self.jitter < 0:
            raise UsageError("Latency and jitter cannot be negative.")
        for key in self.keys:
            self.group_limits(key)

    def group_limits(self, key: KeyConfig) -> LimitConfig:
        """Return the limits of a key's group; keys of one group must not set different ones."""
        if key.group is None:
            return key.limits
        limits = {one.limits for one in self.keys if one.group == key.group} - {LimitConfig()}
        if len(limits) > 1:
            raise UsageError(
                f"The keys of group {key.group!r} have different limits; a group shares one set."
            )
        return limits.pop() if limits else LimitConfig()


def parse_key(spec: str, *, burst: float | None = None) -> KeyConfig:
    """Read `secret[:rpm[:tpm[:rpd]]][@group]`; an empty number: no limit."""
    text, _, group = spec.partition("@")
    secret, *numbers = text.split(":")
    if not secret or len(numbers) > 3:
        raise UsageError(f"Key {spec!r} is not valid; write secret[:rpm[:tpm[:rpd]]][@group].")
    try:
        values = [float(number) if number else None for number in numbers]
    except ValueError as exc:
        raise UsageError(f"Key {spec!r}: rpm, tpm and rpd must be numbers.") from exc
    limits = LimitConfig(**dict(zip(("rpm", "tpm", "rpd"), values, strict=False)))
    if burst is not None and limits.rpm is not None:
        limits = replace(limits, burst=burst)
    return KeyConfig(secret=secret, group=group or None, limits=limits)
