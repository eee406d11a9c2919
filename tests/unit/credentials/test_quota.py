"""Budgets of the key pool: pacing, estimates, and limits learnt from headers."""

from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.credentials.bucket import Bucket
from agentos.credentials.headers import Limit, LimitHeaders, read_headers, seconds
from agentos.credentials.pool import KeyState, Settlement
from agentos.credentials.quota import (
    JITTER_FIRST,
    JITTER_LEAST,
    JITTER_START,
    JITTER_STEP,
    Cost,
    Quota,
    QuotaPlan,
)
from agentos.events.keys import Leased, LimitLearnt
from agentos.model import CallError
from unit.credentials.pool_kit import Desk, key, of


def granted_over(desk: Desk, duration: float, *, waiting: int = 500, tokens: int = 100) -> list[float]:
    """Return the times at which calls went out, each settled at once, with always enough who wait."""
    numbers = count()
    times: list[float] = []
    end = desk.now + duration
    seen = len(desk.events)
    for _ in range(waiting):
        desk.ask(f"i{next(numbers)}", tokens=tokens)
    while desk.now < end:
        while seen < len(desk.events):
            event = desk.events[seen]
            seen += 1
            if isinstance(event, Leased):
                times.append(event.at)
                desk.settle(event, Settlement(tokens_in=tokens, tokens_out=0))
                desk.ask(f"i{next(numbers)}", tokens=tokens)
        desk.wake()
    return times


def test_requests_are_paced_smoothly_just_below_the_limit() -> None:
    desk = Desk(key(rpm=240))
    times = granted_over(desk, 60.0)
    assert 236 <= len(times) <= 243
    start = times[0]
    assert sum(one == start for one in times) == 3  # 4 calls a second, less what uneven arrival may cost
    for n in range(60):
        assert sum(start + n < one <= start + n + 1 for one in times) <= 5


def test_a_configured_burst_is_let_go_at_once() -> None:
    desk = Desk(key(rpm=60, burst=10))
    assert sum(desk.ask(f"i{n}") is not None for n in range(20)) == 9


def test_a_burst_of_one_leaves_room_for_uneven_arrival_in_its_pace() -> None:
    desk = Desk(key(rpm=240, burst=1))
    times = granted_over(desk, 30.0)
    spans = [later - before for before, later in pairwise(times)]
    assert min(spans) >= 0.25 + JITTER_LEAST
    assert spans[0] >= 0.25 + 0.014
    assert spans[-1] < spans[0]  # without a refusal, it leaves less and less


def test_a_burst_of_one_leaves_more_room_after_a_refusal_and_keeps_its_pace() -> None:
    budget = Quota(QuotaPlan(rpm=60, burst=1), 0.0)
    grant = budget.charge(CALL, 0.0)
    before = pace(budget)
    budget.refused(grant, 0.0, told=0.02)
    assert 1 / pace(budget) == pytest.approx(1 / before + JITTER_STEP)
    assert budget.ease == 1.0
    # The server said that only 0.02 s were missing, so a whole call need not be waited for.
    assert budget.room_at(CALL, 0.0).at == pytest.approx(0.02, abs=0.01)
    for n in range(1, 6):
        budget.refused(budget.charge(CALL, float(n)), float(n))
    assert budget.ease < 1.0


def test_a_burst_of_one_leaves_more_room_for_its_first_calls() -> None:
    budget = Quota(QuotaPlan(rpm=60, burst=1), 0.0)
    gaps = [1 / pace(budget)]
    for n in range(30):
        budget.charge(CALL, 2.0 * n)
        gaps.append(1 / pace(budget))
    assert gaps[0] == pytest.approx(1.0 + JITTER_FIRST + JITTER_START)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] == pytest.approx(1.0 + JITTER_FIRST, abs=1e-3)


def test_the_first_burst_is_never_a_minutes_quota() -> None:
    desk = Desk(key(rpm=6_000, tpm=600_000, max_in_flight=1_000))
    first = sum(desk.ask(f"i{n}", tokens=1) is not None for n in range(1_000))
    assert first <= 100


def test_keys_of_a_group_share_its_budget() -> None:
    desk = Desk(key(1, group="g", rpm=60), key(2, group="g", rpm=60))
    desk.lease("a")
    assert desk.ask("b") is None


def test_a_group_has_the_lowest_limit_its_keys_name() -> None:
    desk = Desk(key(1, group="g", rpm=600), key(2, group="g", rpm=60), key(3, group="g"))
    desk.lease("a")
    assert {(one.limit, one.value) for one in desk.key().budgets} == {("rpm", 60.0)}


def test_each_model_has_its_own_budget() -> None:
    desk = Desk(key(rpm=60))
    desk.lease("a", model="one")
    desk.lease("b", model="two")


def test_a_day_has_its_budget() -> None:
    desk = Desk(key(rpd=3))
    for _ in range(3):
        desk.settle(desk.lease("a"))
    assert desk.ask("a") is None
    assert desk.waiting("a").reason == "rpd budget"
    assert desk.waiting("a").until == pytest.approx(desk.now + 86_400 / 3, rel=0.01)


def test_tokens_are_paced_by_their_estimate() -> None:
    desk = Desk(key(tpm=60_000))
    times = granted_over(desk, 60.0, tokens=2_000)
    assert 29 <= len(times) <= 33


def test_a_call_larger_than_the_bucket_is_served_when_it_is_full() -> None:
    desk = Desk(key(tpm=60_000))
    desk.settle(desk.lease("a", tokens=50_000), Settlement(tokens_in=50_000, tokens_out=0))
    assert desk.ask("b", tokens=50_000) is None
    assert of(Leased, desk.wake())[0].item == "b"
    assert desk.now == pytest.approx(1050.0, rel=0.01)


def test_a_large_call_is_not_overtaken_for_ever_by_small_ones() -> None:
    desk = Desk(key(tpm=60_000))
    desk.lease("first", tokens=4_000)
    desk.ask("large", tokens=50_000)
    for n in range(10):
        assert desk.ask(f"small-{n}", tokens=1) is None
    assert of(Leased, desk.wake())[0].item == "large"


def test_an_estimate_too_high_is_given_back() -> None:
    desk = Desk(key(tpm=60_000))
    given = desk.lease("a", tokens=50_000)
    assert desk.ask("b", tokens=1_000) is None
    events = desk.settle(given, Settlement(tokens_in=100, tokens_out=100))
    assert [one.item for one in of(Leased, events)] == ["b"]


def test_an_estimate_too_low_becomes_debt() -> None:
    desk = Desk(key(tpm=60_000))
    desk.settle(desk.lease("a", tokens=1_000), Settlement(tokens_in=20_000, tokens_out=10_000))
    assert desk.key().budgets[0].room < -20_000
    assert desk.ask("b", tokens=10) is None
    desk.wake()
    assert desk.now >= 1020


def test_estimates_are_learnt() -> None:
    desk = Desk(key())
    first = desk.lease("a", tokens=10_000)
    assert first.tokens == 10_000
    for _ in range(60):
        desk.settle(desk.lease("b", tokens=10_000), Settlement(tokens_in=1_500, tokens_out=500))
    assert desk.lease("c", tokens=10_000).tokens == pytest.approx(2_000, rel=0.1)
    assert desk.lease("d", tokens=10_000, model="other").tokens == 10_000


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (CallError.TRANSIENT, True),
        (CallError.RATE_LIMITED, True),
        (CallError.BAD_REQUEST, False),
        (CallError.CAPACITY, False),
        (CallError.KEY_REJECTED, False),
    ],
)
def test_tokens_of_a_failed_call_come_back_only_if_it_was_not_read(error: CallError, kept: bool) -> None:
    desk = Desk(key(tpm=60_000))
    desk.settle(desk.lease("a", tokens=50_000), Settlement(error=error, retry_after=1.0))
    assert (desk.key().budgets[0].room < 0) is kept


def test_refused_calls_count_as_requests() -> None:
    desk = Desk(key(rpm=60, burst=3))
    given = desk.lease("a")
    desk.settle(given, Settlement(error=CallError.BAD_REQUEST))
    assert sum(desk.ask(f"i{n}") is not None for n in range(5)) == 1


def test_the_calls_of_a_worker_gone_stay_charged() -> None:
    desk = Desk(key(rpm=60))
    desk.lease("a")
    desk.drop("a")
    assert desk.ask("b") is None


CALL = Cost(1.0, 0.0, 0.0, 0.0)


def pace(budget: Quota) -> float:
    rate = budget.calls_per_second(CALL)
    assert rate is not None
    return rate


def test_a_refusal_within_known_limits_slows_the_pace_and_success_regains_it() -> None:
    budget = Quota(QuotaPlan(rpm=600), 0.0)
    full = pace(budget)
    assert full == pytest.approx(9.95)
    budget.refused(budget.charge(CALL, 0.0), 0.0)
    assert pace(budget) == pytest.approx(0.98 * full)
    for n in range(5):
        budget.refused(budget.charge(CALL, 1.0 + n), 1.0 + n)
    assert pace(budget) < 0.7 * full
    for n in range(3_000):
        budget.succeeded(10.0 + n)
    assert pace(budget) == pytest.approx(full)


def test_the_pace_never_falls_to_nothing() -> None:
    budget = Quota(QuotaPlan(rpm=600), 0.0)
    for n in range(1_000):
        budget.refused(budget.charge(CALL, float(n)), float(n))
    assert pace(budget) >= 0.9
    assert budget.buckets[Limit.RPM].capacity >= 1


OPENAI = {
    "x-ratelimit-limit-requests": "240",
    "x-ratelimit-remaining-requests": "3",
    "x-ratelimit-reset-requests": "250ms",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-tokens": "149984",
    "x-ratelimit-reset-tokens": "6m0s",
}
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2026-11-15T21:00:00Z",
    "anthropic-ratelimit-input-tokens-limit": "30000",
    "anthropic-ratelimit-output-tokens-limit": "8000",
    "anthropic-ratelimit-tokens-limit": "38000",
}


def test_openai_headers_are_read() -> None:
    assert read_headers(OPENAI) == {
        Limit.RPM: LimitHeaders(limit=240, remaining=3, reset=0.25, grain=0.001),
        Limit.TPM: LimitHeaders(limit=150_000, remaining=149_984, reset=360, grain=0.001),
    }


def test_anthropic_headers_are_read() -> None:
    found = read_headers(ANTHROPIC)
    assert {which: reading.limit for which, reading in found.items()} == {
        Limit.RPM: 50,
        Limit.TPM: 38_000,
        Limit.ITPM: 30_000,
        Limit.OTPM: 8_000,
    }
    assert found[Limit.RPM] == LimitHeaders(limit=50, remaining=49, reset=None, grain=1.0)


def test_a_reset_that_is_a_date_counts_from_the_servers_own_date() -> None:
    found = read_headers(ANTHROPIC | {"date": "Sun, 15 Nov 2026 20:59:58 GMT"})
    assert found[Limit.RPM].reset == 2.0


def test_a_days_limit_under_the_minutes_name_is_known_by_its_reset() -> None:
    found = read_headers(
        {
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-remaining-requests": "14370",
            "x-ratelimit-reset-requests": "2m59.56s",
        }
    )
    assert list(found) == [Limit.RPD]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20ms", 0.02),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("12", 12.0),
        ("0", 0.0),
        ("500us", 0.0005),
        ("500µs", 0.0005),
        ("", None),
        ("-1s", None),
        ("-1", None),
        ("soon", None),
        ("2026-11-15T21:00:00Z", None),
        ("nan", None),
        ("1e400", None),
        ("99999999999999999999s", None),
        (None, None),
    ],
)
def test_durations(text: str | None, expected: float | None) -> None:
    assert seconds(text) == (pytest.approx(expected) if expected is not None else None)


@pytest.mark.parametrize("value", ["", "0", "-5", "nan", "inf", "lots", "1e99", "NaN", "0x10", "5 5"])
def test_limits_that_make_no_sense_are_ignored(value: str) -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), Settlement(headers={"x-ratelimit-limit-requests": value}))
    assert desk.key().budgets == ()
    assert not of(LimitLearnt, desk.events)


@given(
    st.dictionaries(
        st.sampled_from(sorted({*OPENAI, *ANTHROPIC})),
        st.text(max_size=12) | st.floats().map(str),
        max_size=6,
    )
)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_any_headers_do_no_harm(headers: dict[str, str]) -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), Settlement(headers=headers))
    if desk.ask("b") is None:
        for _ in range(5):
            if desk.snapshot().waiting:
                desk.wake()
    assert desk.snapshot().waiting == ()


def test_limits_are_learnt_and_told_once() -> None:
    desk = Desk(key(1, group="g"), key(2, group="g"))
    desk.settle(desk.lease("a"), Settlement(headers=OPENAI))
    desk.settle(desk.lease("a"), Settlement(headers=OPENAI))
    learnt = of(LimitLearnt, desk.events)
    assert [(one.limit, one.value, one.group, one.model) for one in learnt] == [
        ("rpm", 240, "g", "m"),
        ("tpm", 150_000, "g", "m"),
    ]
    assert {(one.limit, one.value, one.learnt) for one in desk.key("key-2").budgets} == {
        ("rpm", 240, True),
        ("tpm", 150_000, True),
    }


def test_a_learnt_limit_counts_the_calls_that_went_before() -> None:
    desk = Desk(key())
    out = [desk.lease(f"i{n}") for n in range(6)]
    desk.settle(out[0], Settlement(headers={"x-ratelimit-limit-requests": "60"}))
    assert desk.key().budgets[0].room == pytest.approx(-5.0)
    assert desk.ask("a") is None
    desk.wake()
    assert desk.now >= 1006


@pytest.mark.parametrize(("told", "counts", "learnt"), [("600", 60.0, False), ("30", 30.0, True)])
def test_of_a_configured_and_a_learnt_limit_the_lower_counts(told: str, counts: float, learnt: bool) -> None:
    desk = Desk(key(rpm=60))
    desk.settle(desk.lease("a"), Settlement(headers={"x-ratelimit-limit-requests": told}))
    (view,) = desk.key().budgets
    assert (view.value, view.learnt) == (counts, learnt)
    event = of(LimitLearnt, desk.events)[0]
    assert (event.value, event.used) == (float(told), counts)


def test_what_others_use_of_a_key_is_seen() -> None:
    desk = Desk(key(rpm=600, burst=100))
    desk.settle(
        desk.lease("a"),
        Settlement(headers={"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "2"}),
    )
    assert sum(desk.ask(f"i{n}") is not None for n in range(10)) == 2


def test_nothing_remains_and_no_limit_is_known() -> None:
    desk = Desk(key())
    desk.settle(
        desk.lease("a"),
        Settlement(headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "9s"}),
    )
    assert desk.key().state is KeyState.AVAILABLE
    assert desk.ask("b") is None
    assert desk.waiting("b").reason == "rpm budget"
    desk.wake()
    assert desk.now == 1009
    assert desk.snapshot().waiting == ()


def test_a_days_limit_is_learnt_with_what_is_left_of_it() -> None:
    desk = Desk(key())
    headers = {
        "x-ratelimit-limit-requests": "200",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "23h45m36s",
    }
    desk.settle(desk.lease("a"), Settlement(headers=headers))
    assert sum(desk.ask(f"i{n}") is not None for n in range(5)) == 2
    assert desk.waiting("i2").until == pytest.approx(desk.now + 432, rel=0.01)


def test_tokens_in_and_out_have_limits_of_their_own() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a", tokens=1_000), Settlement(tokens_in=900, tokens_out=100, headers=ANTHROPIC))
    for n in range(30):
        if (one := desk.ask(f"i{n}", tokens=1_000)) is not None:
            desk.settle(one, Settlement(tokens_in=900, tokens_out=100))
        else:
            desk.wake()
            desk.settle(of(Leased, desk.events)[-1], Settlement(tokens_in=900, tokens_out=100))
    rate = 30 / (desk.now - 1000.0)
    assert rate == pytest.approx(30_000 / 60 / 900, rel=0.2)  # what goes in is the narrowest


def test_limits_of_one_model_say_nothing_of_another() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), Settlement(headers={"x-ratelimit-limit-requests": "60"}))
    assert all(desk.ask(f"i{n}", model="other") is not None for n in range(5))


def test_a_429_before_the_limit_was_known_does_not_slow_the_pace() -> None:
    desk = Desk(key())
    first, second = desk.lease("a"), desk.lease("b")
    desk.settle(first, Settlement(headers={"x-ratelimit-limit-requests": "600"}))
    desk.settle(second, Settlement(error=CallError.RATE_LIMITED, retry_after=1.0))
    desk.wait(1.0)
    assert len(granted_over(desk, 20.0)) >= 0.97 * 199


amounts = st.floats(min_value=0.0, max_value=1e4)


@given(
    st.floats(min_value=0.01, max_value=1e4),
    st.floats(min_value=1.0, max_value=1e5),
    st.lists(st.tuples(amounts, amounts), max_size=20),
)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_a_bucket_is_ready_when_it_says(
    rate: float, capacity: float, steps: list[tuple[float, float]]
) -> None:
    bucket = Bucket(rate=rate, capacity=capacity, now=0.0)
    now = 0.0
    for need, pause in steps:
        at = bucket.ready(need, now)
        assert at >= now
        assert bucket.ready(need, at) <= at + 1e-3
        now = at + pause / 100
        bucket.take(need, now)
        assert bucket.level(now) <= capacity
        assert bucket.level(now) >= min(0.0, capacity - need) - 1e-2 * max(1.0, need)


def test_a_bucket_asked_about_the_past_answers_as_of_now() -> None:
    bucket = Bucket(rate=1.0, capacity=10.0, now=100.0)
    bucket.take(5.0, 100.0)
    assert bucket.level(50.0) == 5.0
    bucket.take(1.0, 50.0)
    assert bucket.level(101.0) == 5.0
