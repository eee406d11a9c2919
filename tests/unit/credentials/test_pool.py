"""Leases, queue and expiry of the key pool."""

import json

import pytest

from agentos.credentials.pool import CredentialCoordinator, KeySpec, KeyState, Settlement
from agentos.events.catalogue import Waiting, WaitKind
from agentos.events.keys import KeyDisabled, Leased, LeaseExpired, Refused, Returned, Settled, SettleRefused
from agentos.events.record import as_record
from agentos.model import CallError
from unit.credentials.pool_kit import Desk, key, of

REJECTED = Settlement(error=CallError.KEY_REJECTED)


def test_a_lease_is_given_at_once_and_settled() -> None:
    desk = Desk(key())
    given = desk.lease("a", tokens=100)
    assert (given.item, given.key, given.provider, given.model) == ("a", "key-1", "p", "m")
    assert given.expires == desk.now + 900
    assert desk.key().in_flight == 1
    desk.settle(given, Settlement(tokens_in=7, tokens_out=3))
    view = desk.key()
    assert (view.in_flight, view.calls, view.tokens_in, view.tokens_out) == (0, 1, 7, 3)


def test_one_key_without_limits_takes_six_at_once() -> None:
    desk = Desk(key())
    assert all(desk.ask(f"item-{n}") for n in range(6))
    assert desk.key().in_flight == 6


def test_max_in_flight_1_is_strict() -> None:
    desk = Desk(key(max_in_flight=1))
    first = desk.lease("a")
    assert desk.ask("b") is None
    assert desk.key().state is KeyState.RESERVED
    assert desk.waiting("b").reason == "key-1 reserved"
    assert desk.waiting("b").until is None
    events = desk.settle(first)
    assert [one.item for one in of(Leased, events)] == ["b"]
    assert desk.key().limit == 1


def test_lease_numbers_only_grow() -> None:
    desk = Desk(key(1), key(2))
    numbers = []
    for n in range(20):
        given = desk.lease(f"i{n % 3}")
        numbers.append(given.lease)
        desk.settle(given)
    assert numbers == sorted(set(numbers))


def test_first_come_first_served() -> None:
    desk = Desk(key(max_in_flight=1))
    given = desk.lease("x")
    for item in "abc":
        desk.ask(item)
    served = []
    for _ in range(3):
        given = of(Leased, desk.settle(given))[0]
        served.append(given.item)
    assert served == ["a", "b", "c"]


def test_an_item_that_just_had_a_call_queues_behind_those_who_wait() -> None:
    desk = Desk(key(max_in_flight=1))
    given = desk.lease("greedy")
    desk.ask("patient")
    desk.ask("greedy")
    given = of(Leased, desk.settle(given))[0]
    assert given.item == "patient"
    assert of(Leased, desk.settle(given))[0].item == "greedy"


def test_a_stuck_model_holds_up_no_other() -> None:
    desk = Desk(key(rpm=60))
    desk.lease("a", model="slow")
    assert desk.ask("b", model="slow") is None
    assert desk.ask("c", model="other") is not None


def test_the_longest_waiting_of_two_models_gets_the_free_place() -> None:
    desk = Desk(key(max_in_flight=1))
    given = desk.lease("x", model="m")
    desk.ask("a", model="two")
    desk.ask("b", model="m")
    assert of(Leased, desk.settle(given))[0].item == "a"


def test_the_same_request_again_keeps_its_place() -> None:
    desk = Desk(key(max_in_flight=1))
    given = desk.lease("x")
    desk.ask("a", number=7)
    desk.ask("b")
    assert desk.ask("a", number=7) is None
    assert len(desk.snapshot().waiting) == 2
    assert of(Leased, desk.settle(given))[0].item == "a"


def test_another_request_of_an_item_takes_the_place_of_the_first() -> None:
    desk = Desk(key(max_in_flight=1))
    desk.lease("x")
    desk.ask("a", number=1)
    desk.ask("a", number=2)
    assert [(one.item, one.number) for one in desk.snapshot().waiting] == [("a", 2)]


def test_a_request_that_was_granted_gives_the_same_lease_when_repeated() -> None:
    desk = Desk(key())
    first = desk.ask("a", number=1)
    again = desk.ask("a", number=1)
    assert first is not None
    assert again is not None
    assert first.lease == again.lease
    assert desk.key().in_flight == 1


def test_no_key_of_that_provider() -> None:
    desk = Desk(key())
    desk.ask("a", provider="other")
    assert of(Refused, desk.events)[0].reason == "no key for other"
    assert desk.snapshot().waiting == ()


def test_a_rejected_key_is_disabled_named_and_not_tried_again() -> None:
    desk = Desk(key(1), key(2))
    given = desk.lease("a")
    events = desk.settle(given, REJECTED)
    assert [one.key for one in of(KeyDisabled, events)] == [given.key]
    view = desk.key(given.key)
    assert (view.state, view.reason) == (KeyState.DISABLED, "rejected by the provider")
    others = {desk.lease(f"b{n}").key for n in range(8)}
    assert others == {"key-1", "key-2"} - {given.key}


def test_in_a_group_only_the_rejected_key_is_disabled() -> None:
    desk = Desk(key(1, group="g"), key(2, group="g"))
    given = desk.lease("a")
    desk.settle(given, REJECTED)
    assert desk.snapshot().usable_keys == 1


def test_when_all_keys_are_disabled_those_who_wait_are_refused() -> None:
    desk = Desk(key(1, max_in_flight=1))
    given = desk.lease("a")
    desk.ask("b")
    events = desk.settle(given, REJECTED)
    assert [(one.item, one.reason) for one in of(Refused, events)] == [
        ("b", "all keys disabled: key-1 (rejected by the provider)")
    ]
    assert desk.ask("c") is None
    assert of(Refused, desk.events)[-1].item == "c"
    assert desk.snapshot().waiting == ()
    assert desk.pool.next_wake(desk.now) is None


def test_calls_of_a_disabled_key_that_are_still_out_can_be_settled() -> None:
    desk = Desk(key())
    first, second = desk.lease("a"), desk.lease("b")
    desk.settle(first, REJECTED)
    assert not of(SettleRefused, desk.settle(second))
    assert desk.key().in_flight == 0
    assert desk.key().state is KeyState.DISABLED


def test_a_worker_gone_gives_back_leases_and_request() -> None:
    desk = Desk(key(max_in_flight=2))
    first = desk.lease("a")
    desk.lease("b")
    desk.ask("a")
    desk.ask("c")
    events = desk.drop("a")
    assert [one.lease for one in of(Returned, events)] == [first.lease]
    assert [one.item for one in of(Leased, events)] == ["c"]
    assert desk.snapshot().waiting == ()


def test_dropping_an_unknown_item_does_nothing() -> None:
    desk = Desk(key())
    assert desk.drop("nobody") == []


@pytest.mark.parametrize(
    ("item", "lease", "reason"),
    [
        ("b", 1, "held by another item"),
        ("a", 99, "never granted"),
        ("a", 0, "never granted"),
        ("a", -1, "never granted"),
    ],
)
def test_a_settlement_of_a_lease_not_held_is_refused(item: str, lease: int, reason: str) -> None:
    desk = Desk(key())
    desk.lease("a")
    before = desk.snapshot()
    events = desk.pool.settle(lease, asker=desk.asker(item), settlement=REJECTED, now=desk.now)
    assert [one.reason for one in of(SettleRefused, events)] == [reason]
    assert desk.snapshot() == before


def test_a_lease_is_settled_once() -> None:
    desk = Desk(key())
    given = desk.lease("a")
    desk.settle(given)
    assert of(SettleRefused, desk.settle(given))[0].reason == "already ended"
    assert desk.key().in_flight == 0


def test_an_expired_lease_keeps_its_place_until_the_item_is_dropped() -> None:
    desk = Desk(key(max_in_flight=1), lease_seconds=30)
    given = desk.lease("a")
    desk.ask("b")
    assert desk.pool.next_wake(desk.now) == desk.now + 30
    events = desk.wait(30)
    assert [(one.item, one.lease, one.key) for one in of(LeaseExpired, events)] == [
        ("a", given.lease, "key-1")
    ]
    assert not of(Leased, events)
    assert desk.key().in_flight == 1
    assert desk.pool.next_wake(desk.now) is None
    assert of(SettleRefused, desk.settle(given))[0].reason == "expired"
    assert desk.key().in_flight == 1
    assert [one.item for one in of(Leased, desk.drop("a"))] == ["b"]


def test_a_late_settlement_changes_nothing_even_if_it_is_a_refusal() -> None:
    desk = Desk(key(), lease_seconds=30)
    given = desk.lease("a")
    desk.wait(31)
    events = desk.settle(given, REJECTED)
    assert [type(one) for one in events] == [SettleRefused]
    assert desk.key().state is KeyState.AVAILABLE


def test_a_lease_expires_once() -> None:
    desk = Desk(key(), lease_seconds=30)
    desk.lease("a")
    desk.wait(30)
    desk.wait(30)
    assert len(of(LeaseExpired, desk.events)) == 1


def test_a_clock_that_goes_back_has_not_moved() -> None:
    desk = Desk(key(max_in_flight=1), lease_seconds=30)
    desk.lease("a")
    desk.now -= 7200
    assert desk.ask("b") is None
    assert desk.wait(10) == []
    desk.now += 7200
    assert of(LeaseExpired, desk.wait(30))


def test_the_same_time_again_and_again() -> None:
    desk = Desk(key(rpm=60))
    for n in range(5):
        desk.ask(f"i{n}")
        desk.wait(0)
    assert len(of(Leased, desk.events)) == 1


def test_nothing_to_do_needs_no_waking() -> None:
    desk = Desk(key(rpm=60))
    assert desk.pool.next_wake(desk.now) is None


def test_the_key_with_most_room_is_taken() -> None:
    desk = Desk(key(1, max_in_flight=2), key(2, max_in_flight=8))
    keys = [desk.lease(f"i{n}").key for n in range(10)]
    assert keys.count("key-2") == 8
    assert keys[:3] == ["key-1", "key-2", "key-2"]


def test_equal_keys_take_turns() -> None:
    desk = Desk(key(1), key(2), key(3))
    keys = []
    for n in range(6):
        given = desk.lease(f"i{n}")
        keys.append(given.key)
        desk.settle(given)
    assert keys == ["key-1", "key-2", "key-3"] * 2


def test_two_keys_may_not_share_an_id() -> None:
    with pytest.raises(ValueError, match="two keys have the id key-1"):
        CredentialCoordinator([key(1), key(1)])


@pytest.mark.parametrize("rpm", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_is_a_positive_number(rpm: float) -> None:
    with pytest.raises(ValueError, match="key-1: rpm"):
        key(1, rpm=rpm)


def test_absurd_token_counts_do_no_harm() -> None:
    desk = Desk(key(tpm=60_000))
    given = desk.ask("a", tokens=10**400)
    assert given is not None
    desk.settle(given, Settlement(tokens_in=-5, tokens_out=10**400))
    assert desk.key().tokens_in == 0


def test_every_event_is_a_json_object_with_its_name() -> None:
    desk = Desk(key(1, rpm=60), key(2, group="g"), lease_seconds=30)
    for n, error in enumerate([None, *CallError]):
        given = desk.ask(f"i{n}")
        if given is not None:
            headers = {"x-ratelimit-limit-requests": "60", "x-ratelimit-limit-tokens": str(1000 + n)}
            desk.settle(given, Settlement(error=error, headers=headers))
        desk.ask(f"w{n}")
        desk.wait(20)
    desk.drop("i0")
    desk.ask("z", provider="none")
    events = desk.events
    names = {one.name for one in events}
    assert {"leased", "settled", "refused", "limit_learnt", "lease_expired", "capacity"} <= names
    for one in events:
        data = as_record(one)
        assert data["event"] == one.name
        assert json.loads(json.dumps(data))["event"] == one.name
        assert not {"at", "until", "expires", "asker"} & set(data)
        assert one.at <= desk.now


def test_waiting_says_why_and_until_when() -> None:
    desk = Desk(key(rpm=60))
    desk.lease("a")
    desk.ask("b")
    told = of(Waiting, desk.events)[0]
    assert (told.item, told.reason) == ("b", "rpm budget")
    assert told.until == pytest.approx(desk.now + 1.0, rel=0.01)
    assert told.until is not None
    assert (told.at, told.until_seconds) == (desk.now, round(told.until - desk.now, 3))
    assert told.kind is WaitKind.KEY


def test_waiting_for_a_call_in_flight_has_no_end() -> None:
    desk = Desk(key(max_in_flight=1))
    desk.lease("a")
    desk.ask("b")
    told = of(Waiting, desk.events)[0]
    assert (told.until, told.until_seconds, told.kind) == (None, None, WaitKind.KEY)


def test_waiting_for_a_model_that_its_provider_is_short_of_is_a_kind_of_its_own() -> None:
    desk = Desk(key())
    desk.settle(desk.lease("a"), Settlement(error=CallError.CAPACITY, retry_after=5.0))
    desk.ask("b")
    told = of(Waiting, desk.events)[0]
    assert (told.until, told.until_seconds, told.kind) == (desk.now + 5.0, 5.0, WaitKind.OVERLOADED)


def test_a_key_alone_does_not_fall_into_a_group_of_its_name() -> None:
    desk = Desk(KeySpec(id="shared", provider="p"), KeySpec(id="key-1", provider="p", quota_group="shared"))
    given = desk.lease("a")
    desk.settle(given, Settlement(error=CallError.RATE_LIMITED, retry_after=5.0))
    assert desk.snapshot().usable_keys == 1


@pytest.mark.parametrize(("exempt", "at_once"), [(0, False), (5_900, True)])
def test_tokens_that_the_provider_does_not_count_leave_room(exempt: int, at_once: bool) -> None:
    desk = Desk(key(tpm=60_000))
    given = desk.lease(tokens=6_000)
    desk.settle(given, Settlement(tokens_in=5_900, tokens_out=100, tokens_cached=5_900, tokens_exempt=exempt))
    settled = of(Settled, desk.events)[-1]
    assert (settled.tokens_in, settled.tokens_cached) == (5_900, 5_900)
    assert desk.key().tokens_in == 5_900
    assert (desk.ask("b", tokens=6_000) is not None) is at_once
