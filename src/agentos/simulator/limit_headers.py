"""How a simulated server names its limits, if not as its format does."""

import math
from collections.abc import Mapping
from enum import StrEnum

from agentos.simulator.dialect import Headers, number
from agentos.simulator.limits import Level, LimitName


class LimitStyle(StrEnum):
    """Which headers name the limits."""

    OWN = "own"  # those of the call's format; Gemini's has none
    OPENAI = "openai"  # OpenAI's, whatever the format
    BURST = "burst"  # names like OpenAI's, but with the size of the bucket and its own reset
    IETF = "ietf"  # RateLimit and RateLimit-Policy
    NONE = "none"  # none, and refusals do not say when to retry either


def limit_headers(style: LimitStyle, levels: Mapping[LimitName, Level]) -> Headers:
    """Return the headers of a style other than a format's own."""
    found: Headers = []
    requests = levels.get(LimitName.REQUESTS) or levels.get(LimitName.DAY)
    for name, level in (("requests", requests), ("tokens", levels.get(LimitName.TOKENS))):
        if level is None:
            continue
        if style is LimitStyle.IETF:
            window = math.ceil(level.size / level.rate)
            found += [
                ("ratelimit-policy", f'"{name}";q={number(level.size)};w={window};qu="{name}"'),
                ("ratelimit", f'"{name}";r={number(level.remaining)};t={math.ceil(level.reset)}'),
            ]
        elif style is LimitStyle.OPENAI:
            found += _three(name, level.limit, level.remaining, f"{math.ceil(level.reset * 1000)}ms")
        elif style is LimitStyle.BURST:
            found += _three(name, level.size, level.remaining, f"{level.reset:.3f}s")
    return found


def _three(name: str, limit: float, remaining: float, reset: str) -> Headers:
    return [
        (f"x-ratelimit-limit-{name}", number(limit)),
        (f"x-ratelimit-remaining-{name}", number(remaining)),
        (f"x-ratelimit-reset-{name}", reset),
    ]
