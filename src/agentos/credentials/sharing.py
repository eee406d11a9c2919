"""Whether the models of a quota group have limits of their own, or share them. Pure.

OpenAI, Anthropic and Google limit each model, gateways mostly limit a key. No header says which. Limits that
are learnt are each model's at first, and so nothing is lost where that is true. If calls are refused although
each model keeps to its limits, and the limits are the same, then they are one. Different limits never are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentos.credentials.headers import Limit

DOUBTS = 2  # refusals, before models with the same limits are believed to share them
DOUBT_SECONDS = 10.0  # the longest time between them
TOLD_SECONDS = 60.0  # limits that were named longer ago are not compared
SHARED_SECONDS = 3600.0  # for so long it is believed; then it is tried again
ALIKE = 0.05  # share by which two estimates of the same limit may differ

Limits = Mapping[Limit, float]


@dataclass(slots=True)
class Told:
    """The limits that a server named for a model."""

    at: float
    limits: dict[Limit, float] = field(default_factory=dict)


@dataclass(slots=True)
class Sharing:
    """What the answers of a group have said so far."""

    shared_until: float | None = None  # refusals showed that the models share their limits
    apart: bool = False  # the server named different limits for different models
    told: dict[str, Told] = field(default_factory=dict)  # by model
    doubts: int = 0  # refusals of one model, while another with the same limits was in use
    doubted_at: float = -math.inf

    def doubt(self, now: float) -> bool:
        """Count a refusal of a model; return whether it seems to share its limits with another."""
        self.doubts = self.doubts + 1 if now - self.doubted_at < DOUBT_SECONDS else 1
        self.doubted_at = now
        return self.doubts >= DOUBTS

    def believe(self, now: float) -> None:
        self.shared_until, self.doubts = now + SHARED_SECONDS, 0

    def named(self, model: str, limits: Limits, now: float) -> None:
        """Note the limits that the server named for a model, and whether another model has others."""
        mine = self.told.setdefault(model, Told(now))
        mine.at = now
        mine.limits.update(limits)
        for one in [name for name, told in self.told.items() if now - told.at > TOLD_SECONDS]:
            del self.told[one]
        others = [told.limits for name, told in self.told.items() if name != model]
        if others:
            self.apart = any(
                which in mine.limits and not alike(mine.limits[which], value)
                for other in others
                for which, value in other.items()
            )


def alike(one: float, other: float) -> bool:
    return abs(one - other) <= ALIKE * max(one, other)


def same_limits(one: Limits, other: Limits) -> bool:
    """Whether limits are the same, although each was estimated for itself."""
    return one.keys() == other.keys() and all(alike(one[which], other[which]) for which in one)
