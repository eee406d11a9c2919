"""What the key pool makes of refusals: rests, backoff, gentle starts, overload."""

from itertools import pairwise

import pytest

from agentos.credentials.key_state import Backoff, Cooldown
from agentos.credentials.outcome import InFlightChanged
from agentos.credentials.pool import KeyState, Settlement
from agentos.events.keys import Capacity, CapacityRecovered, KeyRecovered, Leased, QuotaExhausted, RateLimited
from agentos.model import CallError
from unit.credentials.pool_kit import Desk, key, of

OK = Settlement(tokens_in=50, tokens_out=50)


def limited(retry_after: float | None = None) -> Settlement:
    return Settlement(error=CallError.RATE_LIMITED, retry_after=retry_after)


def overloaded(retry_after: float | None = None) -> Settlement:
    return Settlement(error=CallError.CAPACITY, retry_after=retry_after)


def test_a_429_rests_the_key_as_long_as_the_server_says() -> None:
    desk = Desk(key())
    events = desk.settle(desk.lease("a"), limited(12.0))
    told = of(RateLimited, events)[0]
    assert (told.key, told.keys, told.until, told.seconds) == ("key-1", ("key-1",), desk.now + 12, 12)
    assert told.told
    view = desk.key()
    assert (view.state, view.until, view.rate_limited) == (KeyState.RATE_LIMITED, desk.now + 12, 1)
    assert desk.ask("a") is None
    assert desk.waiting("a").reason == "key-1 rate limited"
    desk.wait(11.9)
    assert not of(KeyRecovered, desk.events)
    events = desk.wake()
    assert [one.key for one in of(KeyRecovered, events)] == ["key-1"]
    assert [one.item for one in of(Leased, events)] == ["a"]


def test_another_key_is_taken_at_once() -> None:
    desk = Desk(key(1), key(2))
    given = desk.lease("a")
    desk.settle(given, limited(60.0))
    assert desk.lease("a").key != given.key


def test_two_keys_of_one_group_rest_together() -> None:
    desk = Desk(key(1, group="g"), key(2, group="g"), key(3))
    given = desk.lease("a")
    assert given.key == "key-1"
    events = desk.settle(given, limited(60.0))
    assert of(RateLimited, events)[0].keys == ("key-1", "key-2")
    states = {one.id: one.state for one in desk.snapshot().keys}
    assert states == {
        "key-1": KeyState.RATE_LIMITED,
        "key-2": KeyState.RATE_LIMITED,
        "key-3": KeyState.AVAILABLE,
    }


def test_groups_of_the_same_name_at_two_providers_are_two() -> None:
    desk = Desk(key(1, group="g"), key(2, group="g", provider="q"))
    desk.settle(desk.lease("a"), limited(60.0))
    assert desk.key("key-2").state is KeyState.AVAILABLE


@pytest.mark.parametrize("nonsense", [None, 0.0, -1.0, float("nan"), float("inf"), float("-inf")])
def test_without_a_usable_delay_there_is_backoff(nonsense: float | None) -> None:
    desk = Desk(key())
    told = of(RateLimited, desk.settle(desk.lease("a"), limited(nonsense)))[0]
    assert not told.told
    assert 10.0 <= told.seconds <= 12.0


def test_a_delay_is_capped_at_an_hour() -> None:
    desk = Desk(key())
    assert of(RateLimited, desk.settle(desk.lease("a"), limited(1e9)))[0].seconds == 3600


def test_backoff_doubles_up_to_300_seconds_and_success_ends_it() -> None:
    desk = Desk(key())
    seconds = []
    for _ in range(8):
        desk.ask("a")
        given = of(Leased, desk.events)[-1]
        seconds.append(of(RateLimited, desk.settle(given, limited()))[0].seconds)
        desk.wait(seconds[-1])
    assert all(later >= 1.5 * before for before, later in pairwise(seconds[:5]))
    assert all(one <= 300 for one in seconds)
    assert seconds[-1] >= 250
    desk.settle(desk.lease("a"), OK)
    assert of(RateLimited, desk.settle(desk.lease("a"), limited()))[0].seconds <= 12


def test_jitter_depends_on_who_waits_and_is_the_same_every_time() -> None:
    backoff = Backoff(first=10.0, last=300.0)
    delays = {backoff.delay(1, f"p/key-{n}") for n in range(20)}
    assert len(delays) > 10
    assert backoff.delay(3, "p/g") == backoff.delay(3, "p/g")
    assert all(backoff.delay(n, "x") <= 300 for n in range(1, 2000, 7))


def test_calls_that_were_out_already_do_not_count_again() -> None:
    desk = Desk(key())
    out = [desk.lease(f"i{n}") for n in range(5)]
    first = of(RateLimited, desk.settle(out[0], limited()))[0]
    for given in out[1:]:
        desk.now += 0.01
        again = of(RateLimited, desk.settle(given, limited()))[0]
        assert again.until == first.until
    assert desk.key().rate_limited == 5
    assert len(of(InFlightChanged, desk.events)) == 1
    desk.wait(first.seconds)
    given = desk.lease("a")
    second = of(RateLimited, desk.settle(given, limited()))[0]
    assert 20 <= second.seconds <= 24


def test_a_longer_delay_of_a_call_that_was_out_already_extends_the_rest() -> None:
    desk = Desk(key())
    first, second = desk.lease("a"), desk.lease("b")
    desk.settle(first, limited(5.0))
    desk.settle(second, limited(30.0))
    assert desk.key().until == desk.now + 30


def test_a_success_of_a_call_that_was_out_already_ends_no_rest() -> None:
    desk = Desk(key())
    first, second = desk.lease("a"), desk.lease("b")
    desk.settle(first, limited(30.0))
    desk.settle(second, OK)
    assert desk.key().state is KeyState.RATE_LIMITED


def test_calls_at_once_grow_with_success_while_they_are_used() -> None:
    desk = Desk(key())
    before = desk.key().limit
    out = [desk.lease(f"i{n}") for n in range(before)]
    for given in out:
        desk.settle(given)
    assert desk.key().limit > before
    used = desk.key().limit
    for n in range(30):
        desk.settle(desk.lease(f"j{n}"))
    assert desk.key().limit == used


def test_calls_at_once_are_halved_on_a_429_once_a_cooldown() -> None:
    desk = Desk(key())
    limits = []
    for _ in range(3):
        given = desk.lease("a")
        desk.settle(given, limited(1.0))
        limits.append(desk.key().limit)
        desk.wait(1.0)
    assert limits == [5, 5, 5]
    desk.wait(10)
    for _ in range(10):
        desk.settle(desk.lease("a"), limited(1.0))
        desk.wait(15)
    assert desk.key().limit == 1
    assert desk.ask("a") is not None


def test_growth_after_a_429_is_by_one_a_round() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), limited(1.0))
    desk.wait(1)
    desk.wait(60)
    for _ in range(2):
        out = [desk.lease(f"i{n}") for n in range(desk.key().limit)]
        for given in out:
            desk.settle(given)
    assert 6 <= desk.key().limit <= 7


def test_calls_at_once_that_are_configured_stay() -> None:
    desk = Desk(key(max_in_flight=4))
    desk.settle(desk.lease("a"), limited(1.0))
    assert desk.key().limit == 4
    desk.wait(1)
    desk.wait(60)
    for given in [desk.lease(f"i{n}") for n in range(4)]:
        desk.settle(given)
    assert desk.key().limit == 4


def test_after_a_rest_calls_start_gently() -> None:
    desk = Desk(key())
    given = desk.lease("a")
    desk.settle(given, limited(5.0))
    for n in range(20):
        desk.ask(f"i{n}")
    assert len(of(Leased, desk.wake())) == 1
    events = desk.wake()
    assert len(of(Leased, events)) == 1
    assert desk.now == pytest.approx(1006.0)
    out = [one for one in of(Leased, desk.events) if one.item.startswith("i")]
    assert len(of(Leased, desk.settle(out[0]))) == 2


def test_the_gentle_start_opens_with_time_alone() -> None:
    rest = Cooldown()
    rest.begin(10.0, 5)
    rest.wake(10.0)
    for n in range(1, 8):
        assert rest.blocked_until(10.0 + n - 1, 100) is None
        rest.given(5 + n)
        assert rest.blocked_until(10.0 + n - 1, 100) == pytest.approx(10.0 + n)


def test_transient_errors_and_bad_requests_do_nothing_to_the_key() -> None:
    desk = Desk(key())
    for error in (CallError.TRANSIENT, CallError.BAD_REQUEST):
        desk.settle(desk.lease("a"), Settlement(error=error, retry_after=50.0))
        view = desk.key()
        assert (view.state, view.limit, view.rate_limited) == (KeyState.AVAILABLE, 10, 0)


def test_overload_slows_the_model_for_all_and_blames_no_key() -> None:
    desk = Desk(key(1), key(2))
    events = desk.settle(desk.lease("a"), overloaded())
    told = of(Capacity, events)[0]
    assert (told.provider, told.model, told.strikes) == ("p", "m", 1)
    assert 10.0 <= told.seconds <= 12.0
    assert desk.snapshot().usable_keys == 2
    assert desk.ask("b") is None
    assert desk.waiting("b").reason == "m is overloaded"
    assert desk.ask("c", model="other") is not None
    assert all(one.rate_limited == 0 and one.limit == 10 for one in desk.snapshot().keys)
    assert of(Leased, desk.wake())[0].item == "b"


def test_overload_backs_off_and_recovers_after_a_success() -> None:
    desk = Desk(key())
    seconds = []
    for _ in range(8):
        told = of(Capacity, desk.settle(desk.lease("a"), overloaded()))[0]
        seconds.append(told.seconds)
        desk.wait(told.seconds)
    assert seconds[1] > 1.5 * seconds[0]
    assert max(seconds) <= 300
    events = desk.settle(desk.lease("a"), OK)
    assert of(CapacityRecovered, events)
    assert of(Capacity, desk.settle(desk.lease("a"), overloaded()))[0].strikes == 1


def test_many_calls_overloaded_together_are_one_strike() -> None:
    desk = Desk(key())
    told = [
        of(Capacity, desk.settle(one, overloaded()))[0] for one in [desk.lease(f"i{n}") for n in range(6)]
    ]
    assert {one.strikes for one in told} == {1}
    assert len({one.until for one in told}) == 1


def test_an_overloaded_server_that_names_a_delay_is_believed() -> None:
    desk = Desk(key())
    assert of(Capacity, desk.settle(desk.lease("a"), overloaded(3.0)))[0].seconds == 3
    desk.wait(3)
    assert of(Capacity, desk.settle(desk.lease("a"), overloaded(1e9)))[0].seconds == 300


def test_after_overload_calls_start_gently() -> None:
    desk = Desk(key(1), key(2))
    desk.settle(desk.lease("a"), overloaded(3.0))
    for n in range(10):
        desk.ask(f"i{n}")
    assert len(of(Leased, desk.wake())) == 1


def exhausted(*, reset: float | None = None, retry_after: float | None = None) -> Settlement:
    return Settlement(error=CallError.QUOTA_EXHAUSTED, quota_reset=reset, retry_after=retry_after)


def test_a_used_up_quota_rests_the_group_to_its_reset() -> None:
    desk = Desk(key(1, group="g"), key(2, group="g"))
    told = of(QuotaExhausted, desk.settle(desk.lease("a"), exhausted(reset=40_000.0)))[0]
    assert (told.keys, told.seconds) == (("key-1", "key-2"), 40_000)
    assert {one.state for one in desk.snapshot().keys} == {KeyState.QUOTA_EXHAUSTED}
    assert desk.key().rate_limited == 0
    assert len(of(KeyRecovered, desk.wake())) == 2


def test_a_used_up_quota_without_a_reset_rests_an_hour() -> None:
    desk = Desk(key())
    assert of(QuotaExhausted, desk.settle(desk.lease("a"), exhausted()))[0].seconds == 3600


def test_a_used_up_quota_takes_the_delay_where_there_is_no_reset() -> None:
    desk = Desk(key())
    event = of(QuotaExhausted, desk.settle(desk.lease("a"), exhausted(reset=-1.0, retry_after=7_000.0)))[0]
    assert event.seconds == 7_000


def test_a_late_429_does_not_shorten_a_quota_rest() -> None:
    desk = Desk(key())
    first, second, third = desk.lease("a"), desk.lease("b"), desk.lease("c")
    desk.settle(first, exhausted(reset=40_000.0))
    desk.settle(second, limited(5.0))
    desk.settle(third, exhausted())
    view = desk.key()
    assert (view.state, view.until) == (KeyState.QUOTA_EXHAUSTED, desk.now + 40_000)


def test_a_quota_rest_that_ends_starts_the_days_count_again() -> None:
    desk = Desk(key(rpd=2))
    desk.settle(desk.lease("a"))
    desk.settle(desk.lease("a"), exhausted(reset=100.0))
    desk.wait(100)
    desk.settle(desk.lease("a"))
    desk.settle(desk.lease("a"))
    assert desk.ask("a") is None
    assert desk.waiting("a").reason == "rpd budget"


def test_enable_clears_a_disabled_key_and_its_groups_rest() -> None:
    desk = Desk(key(1, group="g"), key(2, group="g"))
    given, other = desk.lease("a"), desk.lease("b")
    desk.settle(given, Settlement(error=CallError.KEY_REJECTED))
    desk.settle(other, exhausted(reset=40_000.0))
    desk.ask("c")
    events = desk.note(desk.pool.enable(given.key, desk.now))
    assert {one.key for one in of(KeyRecovered, events)} == {"key-1", "key-2"}
    assert {one.reason for one in of(KeyRecovered, events)} == {"enabled by hand"}
    assert [one.item for one in of(Leased, events)] == ["c"]


def test_enable_of_an_unknown_key_is_an_error() -> None:
    with pytest.raises(KeyError):
        Desk(key()).pool.enable("key-9", 1000.0)
