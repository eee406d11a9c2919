"""What the rate limit headers of each provider say. The texts are those that the servers really send."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.credentials.headers import Limit, LimitHeaders, read_headers
from agentos.credentials.pool import KeySpec, Settlement
from agentos.credentials.quota import HOLD_LONGEST
from agentos.events.keys import Leased
from agentos.model import CallError
from unit.credentials.pool_kit import Desk, of

DATE = {"date": "Tue, 17 Nov 2026 10:00:00 GMT"}


def told(headers: dict[str, str]) -> dict[str, tuple[float | None, float | None, float | None, float | None]]:
    """Return limit, remaining, reset and window of each limit."""
    return {
        which.value: (one.limit, one.remaining, one.reset, one.window)
        for which, one in read_headers(headers).items()
    }


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(
            {
                "x-ratelimit-limit-requests": "4",
                "x-ratelimit-remaining-requests": "3",
                "x-ratelimit-reset-requests": "0.25s",
            },
            {"rpm": (4, 3, 0.25, None)},
            id="a gateway's bucket",
        ),
        pytest.param(
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "2026-11-17T10:00:02Z",
                "anthropic-ratelimit-input-tokens-limit": "30000",
                "anthropic-ratelimit-unified-status": "allowed",
            }
            | DATE,
            {"rpm": (50, 49, 2, None), "itpm": (30_000, None, None, None)},
            id="Anthropic",
        ),
        pytest.param(
            {
                "x-ratelimit-limit-req-minute": "720",
                "x-ratelimit-remaining-req-minute": "717",
                "x-ratelimit-limit-tokens-minute": "5000000",
                "x-ratelimit-remaining-tokens-minute": "4999911",
                "x-ratelimit-tokens-query-cost": "52",
                "x-ratelimit-limit-tokens-month": "10000000000",
            },
            {"rpm": (720, 717, None, 60), "tpm": (5_000_000, 4_999_911, None, 60)},
            id="Mistral",
        ),
        pytest.param(
            {
                "x-ratelimitbysize-limit-minute": "500000",
                "x-ratelimitbysize-remaining-minute": "499989",
                "x-ratelimitbysize-limit-month": "1000000000",
            },
            {"tpm": (500_000, 499_989, None, 60)},
            id="Mistral, by size",
        ),
        pytest.param(
            {
                "ratelimitbysize-limit": "2000000",
                "ratelimitbysize-remaining": "1999962",
                "ratelimitbysize-reset": "38",
            },
            {"tpm": (2_000_000, 1_999_962, 38, None)},
            id="Mistral, older",
        ),
        pytest.param(
            {"x-ratelimit-remaining-requests": "79", "x-ratelimit-remaining-tokens": "61353"},
            {"rpm": (None, 79, None, None), "tpm": (None, 61_353, None, None)},
            id="Azure, without limits",
        ),
        pytest.param(
            {
                "x-ratelimit-limit-requests": "10",
                "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-reset-requests": "10",
                "x-rate-limit-reset-tokens": "55",
                "x-ratelimit-limit-tokens": "-1",
                "x-ratelimit-remaining-tokens": "-1",
            },
            {"rpm": (10, 9, 10, None)},
            id="Azure",
        ),
        pytest.param(
            {
                "x-ratelimit-limit-requests": "14400",
                "x-ratelimit-remaining-requests": "14370",
                "x-ratelimit-reset-requests": "2m59.56s",
                "x-ratelimit-limit-tokens": "18000",
                "x-ratelimit-remaining-tokens": "17997",
                "x-ratelimit-reset-tokens": "7.66s",
            },
            {"rpd": (14_400, 14_370, 179.56, None), "tpm": (18_000, 17_997, 7.66, None)},
            id="Groq",
        ),
        pytest.param(
            {
                "x-ratelimit-limit-requests-day": "14400",
                "x-ratelimit-remaining-requests-day": "14399",
                "x-ratelimit-reset-requests-day": "33011.382867",
                "x-ratelimit-limit-tokens-minute": "60000",
                "x-ratelimit-reset-tokens-minute": "11.382867",
            },
            {"rpd": (14_400, 14_399, 33011.382867, 86_400), "tpm": (60_000, None, 11.382867, 60)},
            id="Cerebras",
        ),
        pytest.param(
            {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "58", "x-ratelimit-reset": "1794909612"}
            | DATE,
            {"rpm": (60, 58, 12, None)},
            id="without a unit, seconds since 1970",
        ),
        pytest.param(
            {"x-ratelimit-limit": "20", "x-ratelimit-remaining": "19", "x-ratelimit-reset": "1794913200000"}
            | DATE,
            {"rpd": (20, 19, 3600, None)},
            id="without a unit, milliseconds since 1970",
        ),
        pytest.param(
            {"x-ratelimit-limit": "20", "x-ratelimit-reset": "1794909612"},
            {"rpm": (20, None, None, None)},
            id="since 1970, but the server does not say what time it is",
        ),
        pytest.param(
            {"x-ratelimit-limit-minute": "10", "x-ratelimit-remaining-minute": "9"},
            {"rpm": (10, 9, None, 60)},
            id="Kong",
        ),
        pytest.param(
            {"x-ratelimit-limit-second": "5", "x-ratelimit-limit-hour": "1000"},
            {"rpm": (5, None, None, 1), "rpd": (1000, None, None, 3600)},
            id="Kong, two windows",
        ),
        pytest.param(
            {"x-ratelimit-limit": "4, 4;w=1", "x-ratelimit-remaining": "3", "x-ratelimit-reset": "1"},
            {"rpm": (4, 3, 1, 1)},
            id="Envoy",
        ),
        pytest.param(
            {"ratelimit-limit": "100, 100;w=60, 5000;w=3600", "ratelimit-remaining": "50"},
            {"rpm": (100, 50, None, 60)},
            id="the draft's first versions",
        ),
        pytest.param(
            {
                "ratelimit-limit": "10",
                "ratelimit-remaining": "9",
                "ratelimit-reset": "1",
                "ratelimit-policy": "10;w=1",
            },
            {"rpm": (10, 9, 1, 1)},
            id="the draft's three, with a policy",
        ),
        pytest.param(
            {"ratelimit-limit": "10", "ratelimit-remaining": "9", "ratelimit-reset": "50"},
            {"rpm": (10, 9, 50, None)},
            id="the draft's three",
        ),
        pytest.param(
            {"ratelimit": "limit=100, remaining=50, reset=5", "ratelimit-policy": '100;w=10;comment="a, b"'},
            {"rpm": (100, 50, 5, 10)},
            id="the draft's version 7",
        ),
        pytest.param(
            {"ratelimit": '"burst";r=3;t=1', "ratelimit-policy": '"burst";q=4;w=1, "daily";q=1000;w=86400'},
            {"rpm": (4, 3, 1, 1), "rpd": (1000, None, None, 86_400)},
            id="the draft now",
        ),
        pytest.param(
            {
                "ratelimit": '"100-in-15min"; r=99; t=900',
                "ratelimit-policy": '"100-in-15min"; q=100; w=900; pk=:YzQx:',
            },
            {"rpd": (100, 99, 900, 900)},
            id="the draft now, as Express writes it",
        ),
        pytest.param(
            {"ratelimit-policy": '"a";q=65535;qu="content-bytes";w=10, "b";q=900;qu="tokens";w=30'},
            {"tpm": (900, None, None, 30)},
            id="other units",
        ),
        pytest.param({"ratelimit": '"a";r=0;t=7'}, {"rpm": (None, 0, 7, None)}, id="the draft, no policy"),
        pytest.param({"ratelimit": "sometimes", "ratelimit-policy": ';;,=,"'}, {}, id="nonsense"),
        pytest.param({"ratelimit-policy": f'"{"a" * 300}";q=1;w=1'}, {}, id="too long"),
    ],
)
def test_headers_are_read(headers: dict[str, str], expected: dict[str, tuple[float, ...]]) -> None:
    assert told(headers) == expected


def test_of_two_limits_for_a_minute_the_lower_counts() -> None:
    found = read_headers({"x-ratelimit-limit-requests": "600", "ratelimit-policy": '"a";q=1;w=1'})
    assert found == {Limit.RPM: LimitHeaders(limit=1, remaining=None, reset=None, window=1)}


NAMES = [
    "x-ratelimit-{}-requests",
    "x-ratelimit-{}-tokens",
    "x-ratelimit-{}",
    "x-ratelimit-{}-second",
    "x-ratelimit-{}-req-minute",
    "ratelimit-{}",
    "ratelimitbysize-{}",
    "anthropic-ratelimit-requests-{}",
]
names = st.builds(
    lambda name, what: name.format(what),
    st.sampled_from(NAMES),
    st.sampled_from(["limit", "remaining", "reset"]),
) | st.sampled_from(["ratelimit", "ratelimit-policy", "date"])
numbers = st.sampled_from(
    ["0", "1", "3", "4", "240", "1e12", "-1", "0.25s", "20ms", "1794909612", "1e-300", "nan"]
)
texts = (
    st.text(max_size=30)
    | numbers
    | st.floats().map(str)
    | st.builds('"a";q={};w={}'.format, numbers, numbers)
    | st.builds('"a";r={};t={}'.format, numbers, numbers)
    | st.builds("limit={}, remaining={}, reset={}".format, numbers, numbers, numbers)
)


@given(st.lists(st.tuples(st.dictionaries(names, texts, max_size=6), st.booleans()), max_size=8))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_no_header_can_crash_stall_or_flood(answers: list[tuple[dict[str, str], bool]]) -> None:
    """Whatever a server says: every call goes out in the end, and no more are out than may be."""
    desk = Desk(KeySpec(id="key-1", provider="p", gentle=True))
    for headers, served in answers:
        given = desk.ask("a")
        for _ in range(20):
            if given is None:
                given = next(iter(of(Leased, desk.wake())), None)
        assert given is not None
        error = None if served else CallError.RATE_LIMITED
        desk.settle(given, Settlement(error=error, headers=headers))
        budget = desk.pool.pool_state.groups["p", "=key-1"].budget("m", desk.now)
        assert budget.held_until <= desk.now + HOLD_LONGEST + 1.0
        for bucket in budget.buckets.values():
            assert 0.0 < bucket.rate <= 1e12
            assert bucket.capacity >= 1.0
    out = sum(desk.ask(f"i{n}") is not None for n in range(100))
    assert out <= 64
