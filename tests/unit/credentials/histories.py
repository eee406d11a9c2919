"""What can happen to a key pool, to draw random histories from."""

import random
from itertools import product

from hypothesis import strategies as st

from agentos.credentials.headers import Limit
from agentos.credentials.pool import KeySpec, Settlement
from agentos.model import CallError

ITEMS = [f"i{n}" for n in range(8)]
NONSENSE = [None, 0.0, -3.0, float("nan"), float("inf")]

specs = st.builds(
    KeySpec,
    id=st.just("key-0"),
    provider=st.sampled_from(["p", "p", "p", "q"]),
    quota_group=st.sampled_from([None, None, "g"]),
    rpm=st.sampled_from([None, None, 60.0, 1200.0]),
    tpm=st.sampled_from([None, None, 600.0, 60_000.0]),
    rpd=st.sampled_from([None, None, None, 20.0]),
    burst=st.sampled_from([None, None, 1, 5]),
    max_in_flight=st.sampled_from([None, None, 1, 3]),
    gentle=st.booleans(),
    per_model=st.booleans(),
)
TOLD = [0.05, 1.0, 30.0, 5_000.0]
HEADERS: list[dict[str, str]] = [
    {},
    {"x-ratelimit-limit-requests": "30", "x-ratelimit-remaining-requests": "1"},
    {"x-ratelimit-limit-requests": "100000", "x-ratelimit-limit-tokens": "90000000"},
    {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7s"},
    {"x-ratelimit-limit-requests": "nan", "x-ratelimit-remaining-tokens": "-1"},
    {"anthropic-ratelimit-output-tokens-limit": "1000000"},
    {
        "x-ratelimit-limit-requests": "4",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-reset-requests": "0.25s",
    },
    {
        "x-ratelimit-limit-requests": "4",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "0.1s",
    },
    {"ratelimit-policy": '"a";q=4;w=1, "b";q=50;w=3600', "ratelimit": '"a";r=2;t=1'},
]
SETTLEMENTS = [
    Settlement(
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        error=error,
        retry_after=delay,
        quota_reset=delay,
        headers=headers,
        limits={Limit.RPM: 90.0} if error is CallError.RATE_LIMITED and tokens_in == 10 else {},
    )
    for error, delay, headers, (tokens_in, tokens_out) in product(
        [None] * 10 + [CallError.RATE_LIMITED] * 2 + list(CallError),
        [*TOLD, *NONSENSE],
        HEADERS,
        [(0, 0), (10, 10), (500, 0), (9_000, 3_000)],
    )
]
ASKS = list(product(ITEMS, ["p"] * 6 + ["q"], ["m", "m", "n"], [0, 10, 1_000, 100_000]))
# Numbers that are drawn tend to be small: what they stand for must not depend on that.
random.Random(4).shuffle(SETTLEMENTS)
random.Random(4).shuffle(ASKS)


def settlement_of(number: int) -> Settlement:
    return SETTLEMENTS[number]


def ask_of(number: int) -> tuple[str, str, str, int]:
    return ASKS[number]


# Whole values are drawn, not their parts: each draw costs more than the step it is for.
settlements = st.integers(0, len(SETTLEMENTS) - 1).map(settlement_of)
asks = st.integers(0, len(ASKS) - 1).map(ask_of)
# Whole ticks, so that a model may compare times exactly.
moments = st.sampled_from([0.0, 1 / 1024, 0.0625, 0.3125, 1.0, 5.0])
