"""How fast a server's bucket fills, told by its answers; and how a pace is found without any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.credentials.fixed_window import READINGS_MOST as WINDOW_READINGS_MOST
from agentos.credentials.fixed_window import FixedWindow
from agentos.credentials.headers import LimitHeaders
from agentos.credentials.pace_guess import BELOW, FIRST, PROBE_FIRST, PaceGuess
from agentos.credentials.refill import READINGS_MOST, Refill

GRAIN = 0.001


def after(limit: float, *readings: tuple[float, float], grain: float = GRAIN) -> Refill:
    """Return what is known after answers with these values of remaining and reset."""
    refill = Refill(limit)
    for remaining, reset in readings:
        reading = LimitHeaders(limit=limit, remaining=remaining, reset=reset, grain=grain)
        refill.read(reading, served=True, unit=1.0)
    return refill


def test_a_minutes_limit_in_a_small_bucket() -> None:
    refill = after(240.0, (3, 0.25), (2, 0.5), (0, 1.0))
    assert refill.is_clear
    assert refill.per_minute == 240.0
    assert refill.size == pytest.approx(4.0, abs=0.01)


def test_a_minutes_limit_in_a_bucket_of_that_size() -> None:
    refill = after(10_000.0, (9_999, 0.006), (9_990, 0.06))
    assert (refill.is_clear, refill.per_minute) == (True, 10_000.0)


@pytest.mark.parametrize(
    "readings",
    [
        [(3, 0.25), (3, 0.25), (3, 0.25)],  # full again before each call
        [(3, 0.25), (2, 0.5), (1, 0.75)],  # several at once
    ],
)
def test_a_shorter_time_than_a_minute_is_believed_after_several_answers(
    readings: list[tuple[float, float]],
) -> None:
    for number in (1, 2):
        refill = after(4.0, *readings[:number])
        assert not refill.is_clear
        assert refill.per_minute == 4.0
    refill = after(4.0, *readings)
    assert refill.is_clear
    assert 238.0 <= refill.per_minute <= 240.0
    assert refill.size == 4.0


def test_a_bucket_of_one() -> None:
    refill = after(1.0, (0, 1.0), (0, 1.0), (0, 1.0))
    assert refill.per_minute == pytest.approx(60.0, rel=0.01)


@pytest.mark.parametrize(
    ("limit", "readings", "grain"),
    [
        (60.0, [(59, 50.0), (40, 45.0), (39, 44.0)], 1.0),  # the middle of a minute
        (10.0, [(9, 1.6), (8, 1.3), (7, 1.0), (9, 58.0)], 0.1),  # its last seconds, and the next
    ],
)
def test_a_fixed_window_is_taken_for_a_minute(
    limit: float, readings: list[tuple[float, float]], grain: float
) -> None:
    refill = after(limit, *readings, grain=grain)
    assert refill.is_clear
    assert refill.per_minute == limit


def test_what_stays_unclear_is_taken_for_a_minute() -> None:
    refill = after(9.0, *[(8 - n % 2, 0.5 - 0.0001 * n) for n in range(2)], grain=0.1)
    for _ in range(max(READINGS_MOST, WINDOW_READINGS_MOST)):
        reading = LimitHeaders(limit=9.0, remaining=0.0, reset=0.4, grain=0.1)
        refill.read(reading, served=False, unit=1.0)
    assert refill.is_clear
    assert refill.per_minute == 9.0


def windows(limit: float, seconds: float, *, calls: int, every: float, took: float) -> Refill:
    """Return what is known after calls to a server with fixed windows, which answers after `took` seconds."""
    refill, used, window = Refill(limit), 0.0, -1.0
    for number in range(calls):
        at = number * every
        if at // seconds != window:
            window, used = at // seconds, 0.0
        used += 1.0
        reading = LimitHeaders(
            limit=limit, remaining=max(0.0, limit - used), reset=seconds * (window + 1) - at, grain=GRAIN
        )
        refill.read(reading, served=used <= limit, unit=1.0, since=at, now=at + took)
    return refill


@pytest.mark.parametrize("took", [0.0, 0.3])
@pytest.mark.parametrize(("limit", "seconds"), [(4.0, 1.0), (20.0, 10.0), (100.0, 30.0)])
def test_the_length_of_a_fixed_window_follows_from_its_ends(
    limit: float, seconds: float, took: float
) -> None:
    refill = windows(limit, seconds, calls=int(8 * limit), every=seconds / limit + 0.001, took=took)
    assert refill.is_clear
    true = limit * 60.0 / seconds
    assert 0.9 * true <= refill.per_minute <= 1.01 * true
    assert refill.size == limit


@pytest.mark.parametrize("took", [0.0, 5.0, 40.0])
def test_a_minutes_window_stays_a_minutes_however_long_calls_take(took: float) -> None:
    refill = windows(60.0, 60.0, calls=600, every=1.001, took=took)
    assert (refill.is_clear, refill.per_minute) == (True, 60.0)


@given(
    seconds=st.floats(0.5, 60.0),
    every=st.floats(0.05, 20.0),
    took=st.lists(st.floats(0.0, 30.0), min_size=40, max_size=40),
)
def test_a_window_is_never_believed_to_be_shorter_than_it_is(
    seconds: float, every: float, took: list[float]
) -> None:
    """Whenever an answer was made and however late it came."""
    window = FixedWindow()
    for number, late in enumerate(took):
        at = number * every
        end = seconds * (at // seconds + 1)
        window.read(1.0, 4.0, end - at, GRAIN, since=at - late / 2, now=at + late / 2)
    assert window.upper is None or window.upper >= seconds - 3 * GRAIN


def test_windows_without_calls_do_not_make_the_others_longer() -> None:
    window = FixedWindow()
    for at in (0.5, 1.5, 2.5, 3.5, 500.5, 501.5):
        window.read(1.0, 4.0, 0.5, GRAIN, since=at, now=at)
    assert window.length == pytest.approx(1.0, abs=0.01)


def test_a_slower_limit_is_never_believed_to_be_faster() -> None:
    """A day's limit under a minute's name."""
    refill = after(10_000.0, (9_999, 8.64), (9_998, 17.28), (9_997, 25.92))
    assert refill.is_clear
    assert refill.per_minute == 10_000.0


def run(guess: PaceGuess, *, rate: float, burst: float, seconds: float) -> tuple[int, int]:
    """Send calls as fast as the guess allows to a bucket; return how many were served and refused."""
    now, level, at, served, refused = 0.0, burst, 0.0, 0, 0
    while now < seconds:
        now = max(now + 1e-6, guess.ready(now))
        guess.take(now)
        level, at = min(burst, level + (now - at) * rate), now
        if level >= 1.0:
            level -= 1.0
            served += 1
            guess.succeeded(now)
        else:
            refused += 1
            guess.refused(now)
            now += guess.wait()
    return served, refused


@pytest.mark.parametrize(("rate", "burst"), [(4.0, 4.0), (1.0, 1.0), (0.5, 5.0), (20.0, 20.0), (1.0, 60.0)])
def test_a_pace_is_found_in_a_few_refusals_and_kept(rate: float, burst: float) -> None:
    guess = PaceGuess(since=0.0)
    served, refused = run(guess, rate=rate, burst=burst, seconds=600.0)
    # With a burst of one, every moment of waiting too long is lost.
    assert served >= (0.85 if burst > 1.0 else 0.75) * rate * 600.0
    assert refused <= 0.05 * (served + refused)


def test_a_guess_starts_gently_and_probes_seldom() -> None:
    guess = PaceGuess(since=0.0)
    guess.take(0.0)
    assert guess.ready(0.0) == pytest.approx(1 / FIRST, abs=0.01)
    guess.refused(0.0)
    for n in range(1, 9):
        guess.take(float(n))
    guess.refused(8.0)
    assert guess.found == pytest.approx(7 / 8)
    assert guess.rate == pytest.approx(BELOW * 7 / 8)
    guess.succeeded(8.0 + PROBE_FIRST / 2)
    assert guess.rate == pytest.approx(BELOW * 7 / 8)
    guess.succeeded(8.0 + PROBE_FIRST)
    assert guess.rate > BELOW * 7 / 8


def test_a_bucket_that_gets_a_little_more_at_each_reset_is_no_window() -> None:
    """100 at most, 10 more every 10 seconds, and 2 calls a second: 60 a minute, not 600."""
    refill, level = Refill(100.0), 100.0
    for second in range(300):
        level = min(100.0, level + (10.0 if second % 10 == 0 else 0.0))
        for _ in range(2):
            served, level = level >= 1.0, max(0.0, level - 1.0)
            reading = LimitHeaders(limit=100.0, remaining=level, reset=10.0 - second % 10, grain=1.0)
            refill.read(reading, served=served, unit=1.0, since=float(second), now=float(second))
    assert refill.per_minute == 100.0


def test_one_odd_reset_is_forgotten() -> None:
    window = FixedWindow()
    for second in range(60):
        reset = 55.0 if second == 20 else 10.0 - second % 10
        window.read(second % 10, 20.0, reset, GRAIN, since=float(second), now=float(second))
    for second in range(100, 160):
        window.read(second % 10, 20.0, 10.0 - second % 10, GRAIN, since=float(second), now=float(second))
    assert window.length == pytest.approx(10.0, abs=0.1)


@pytest.mark.parametrize(
    ("remaining", "reset", "grain"), [(0.0, 1.0, 1.0), (0.0, 1e-9, 1e-9), (60.0, 1.0, 1.0)]
)
def test_any_reading_gives_values_that_can_be_saved(remaining: float, reset: float, grain: float) -> None:
    refill = Refill(1e12 if reset < 1e-6 else 60.0)
    refill.read(
        LimitHeaders(limit=refill.limit, remaining=remaining, reset=reset, grain=grain),
        served=False,
        unit=1.0,
    )
    assert refill.size is None or refill.size > 0.0
    assert refill.rate_low < 1e18
