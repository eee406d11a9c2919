"""Who asks the key pool: runs, items and attempts apart, and machines that have some of the keys."""

from agentos.credentials.pool import KeyState, Settlement
from agentos.credentials.pool_state import ATTEMPTS_REMEMBERED
from agentos.events.asker import Asker
from agentos.events.catalogue import PoolEvent
from agentos.events.keys import AskRefused, Leased, Refused, Returned, SettleRefused
from agentos.events.record import as_record
from agentos.model import CallError
from unit.credentials.pool_kit import Desk, key, of

REJECTED = Settlement(error=CallError.KEY_REJECTED)
ONE, TWO = frozenset({"key-1"}), frozenset({"key-2"})


def ask(desk: Desk, asker: Asker, number: int = 1) -> list[PoolEvent]:
    return desk.pool.request(asker=asker, number=number, provider="p", model="m", tokens=10, now=desk.now)


def test_two_runs_with_an_item_of_the_same_name_do_not_meet() -> None:
    desk = Desk(key(max_in_flight=1))
    mine, yours = Asker("mine", "a", 1), Asker("yours", "a", 1)
    lease = of(Leased, ask(desk, mine))[0].lease
    ask(desk, yours)
    assert [one.number for one in desk.snapshot().waiting] == [1]
    refused = desk.pool.settle(lease, asker=yours, settlement=REJECTED, now=desk.now)
    assert [one.reason for one in of(SettleRefused, refused)] == ["held by another item"]
    assert desk.key().state is KeyState.RESERVED
    assert desk.pool.drop(Asker("third", "a", 1), desk.now) == []
    assert [one.asker for one in of(Leased, desk.pool.drop(mine, desk.now))] == [yours]


def test_an_attempt_that_was_dropped_may_not_ask_again() -> None:
    desk = Desk(key())
    asker = Asker("run", "a", 1)
    desk.pool.drop(asker, desk.now)
    events = ask(desk, asker)
    assert [(type(one), one.reason) for one in of(AskRefused, events)] == [
        (AskRefused, "the attempt is over")
    ]
    assert len(events) == 1
    assert desk.key().in_flight == 0
    assert of(Leased, ask(desk, asker._replace(attempt=2)))


def test_a_later_attempt_ends_the_request_of_the_one_before() -> None:
    desk = Desk(key(max_in_flight=1))
    desk.lease("x")
    first, second = Asker("run", "a", 1), Asker("run", "a", 2)
    ask(desk, first)
    ask(desk, second, number=7)
    assert [one.number for one in desk.snapshot().waiting] == [7]
    assert [type(one) for one in ask(desk, first)] == [AskRefused]


def test_a_settlement_of_an_attempt_that_another_took_over_changes_nothing() -> None:
    desk = Desk(key(max_in_flight=2))
    first, second = Asker("run", "a", 1), Asker("run", "a", 2)
    old = of(Leased, ask(desk, first))[0].lease
    new = of(Leased, ask(desk, second))[0].lease
    before = desk.snapshot()
    reasons = [
        of(SettleRefused, desk.pool.settle(lease, asker=asker, settlement=REJECTED, now=desk.now))[0].reason
        for lease, asker in [(old, first), (new, first), (old, second)]
    ]
    assert reasons == ["the attempt is over", "held by another attempt", "held by another attempt"]
    assert desk.snapshot() == before


def test_dropping_one_attempt_leaves_the_other_alone() -> None:
    desk = Desk(key(max_in_flight=2))
    first, second = Asker("run", "a", 1), Asker("run", "a", 2)
    old = of(Leased, ask(desk, first))[0].lease
    ask(desk, second)
    ask(desk, second, number=2)
    events = desk.pool.drop(first, desk.now)
    assert [one.lease for one in of(Returned, events)] == [old]
    assert [(one.asker, one.number) for one in of(Leased, events)] == [(second, 2)]
    assert desk.key().in_flight == 2


def test_ended_attempts_are_remembered_up_to_a_number() -> None:
    desk = Desk(key())
    for n in range(ATTEMPTS_REMEMBERED + 1):
        desk.pool.drop(Asker("run", f"i{n}", 1), desk.now)
    assert len(desk.pool.pool_state.over) == ATTEMPTS_REMEMBERED
    last = Asker("run", f"i{ATTEMPTS_REMEMBERED}", 1)
    assert [type(one) for one in ask(desk, last)] == [AskRefused]


def test_a_log_names_the_item_alone() -> None:
    desk = Desk(key())
    given = desk.lease("a")
    data = as_record(given)
    assert list(data) == [
        "event", "item", "number", "lease", "key", "provider", "model", "tokens", "waited",
    ]  # fmt: skip
    assert data["item"] == "a"
    assert given.asker == Asker("run", "a", 1)


def test_a_request_gets_only_keys_that_its_machine_has() -> None:
    desk = Desk(key(1), key(2), key(3))
    for n in range(8):
        given = desk.ask(f"i{n}", keys=TWO)
        assert given is not None
        assert given.key == "key-2"


def test_a_request_waits_for_its_own_key_and_holds_up_nobody_else() -> None:
    desk = Desk(key(1, max_in_flight=1), key(2, max_in_flight=1))
    mine = desk.ask("x", keys=ONE)
    assert mine is not None
    assert desk.ask("a", keys=ONE) is None
    other = desk.ask("b")
    assert other is not None
    assert other.key == "key-2"
    assert desk.waiting("a").reason == "key-1 reserved"
    assert not of(Leased, desk.settle(other))
    assert [one.item for one in of(Leased, desk.settle(mine))] == ["a"]


def test_a_shared_key_goes_to_the_one_who_waits_longest() -> None:
    desk = Desk(key(1, max_in_flight=1), key(2, max_in_flight=1))
    first, second = desk.lease("x"), desk.lease("y")
    desk.ask("a", keys=frozenset({first.key}))
    desk.ask("b")
    desk.ask("c", keys=frozenset({first.key}))
    given = of(Leased, desk.settle(first))
    assert [one.item for one in given] == ["a"]
    assert [one.item for one in of(Leased, desk.settle(given[0]))] == ["b"]
    assert [one.item for one in of(Leased, desk.settle(second))] == []
    assert desk.waiting("c").reason == "key-1 reserved"


def test_small_calls_of_another_machine_do_not_overtake_a_large_one() -> None:
    desk = Desk(key(1, tpm=6_000), key(2, max_in_flight=1))
    assert desk.ask("x", tokens=590, keys=ONE) is not None
    assert desk.ask("y", keys=TWO) is not None
    assert desk.ask("large", tokens=590, keys=ONE) is None
    assert desk.ask("small", tokens=1) is None
    assert not desk.wait(1.0), "there is room for the small one, but it is not its turn"
    assert desk.waiting("small").reason == "key-2 reserved"
    assert of(Leased, desk.wake())[0].item == "large"


def test_a_request_behind_an_older_one_needs_no_waking_of_its_own() -> None:
    desk = Desk(key(1, rpm=60, burst=1), key(2))
    desk.ask("x", keys=ONE)
    desk.ask("a", keys=ONE)
    desk.ask("b", keys=frozenset({"key-1", "other"}))
    assert desk.waiting("b").reason == "earlier requests"
    at = desk.pool.next_wake(desk.now)
    assert at == desk.waiting("a").until


def test_no_key_of_the_machine_will_ever_serve() -> None:
    desk = Desk(key(1), key(2), key(3, provider="q"))
    desk.ask("a", keys=frozenset({"key-3", "unknown"}))
    assert of(Refused, desk.events)[-1].reason == "no key for p on the machine that runs this item"
    given = desk.ask("b", keys=ONE)
    assert given is not None
    desk.settle(given, REJECTED)
    desk.ask("c", keys=ONE)
    told = of(Refused, desk.events)[-1]
    assert (told.item, told.reason) == ("c", "all keys disabled: key-1 (rejected by the provider)")
    assert desk.ask("d") is not None


def test_a_rejected_key_ends_the_waiting_of_those_who_have_no_other() -> None:
    desk = Desk(key(1, max_in_flight=1), key(2, max_in_flight=1))
    given = desk.ask("x", keys=ONE)
    desk.ask("y", keys=TWO)
    desk.ask("a", keys=ONE)
    desk.ask("b")
    assert given is not None
    events = desk.settle(given, REJECTED)
    assert [one.item for one in of(Refused, events)] == ["a"]
    assert [one.item for one in desk.snapshot().waiting] == ["b"]


def test_the_keys_that_those_who_wait_may_use_decide_whether_all_is_exhausted() -> None:
    desk = Desk(key(1), key(2, max_in_flight=1))
    given = desk.ask("x", keys=ONE)
    assert given is not None
    desk.ask("y", keys=TWO)
    desk.settle(given, Settlement(error=CallError.RATE_LIMITED, retry_after=60.0))
    desk.ask("a", keys=ONE)
    exhausted = desk.snapshot().exhausted
    assert exhausted is not None
    assert exhausted.until == desk.now + 60
    desk.ask("b", keys=TWO)
    assert desk.snapshot().exhausted is None
