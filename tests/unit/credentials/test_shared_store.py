"""Several runs on one state: what one of them does counts for all, and none can block another."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.credentials.pool import KeySpec
from agentos.credentials.shared_store import ALIVE_SECONDS, EXPIRED_SECONDS, UNUSED_KEYS
from agentos.events.keys import Refused, Settled
from agentos.model import CallError
from unit.credentials.shared_kit import BROKEN, BUSY, Rows, SharingRun, pass_time


def key(number: int = 1, **limits: object) -> KeySpec:
    return KeySpec(id=f"key-{number}", provider="open", **limits)  # type: ignore[arg-type]


STRICT = key(max_in_flight=1)


def test_two_runs_stay_within_one_limit() -> None:
    rows = Rows()
    runs = [SharingRun(rows, name, key(rpm=60, burst=1)) for name in ("a", "b")]
    for number in range(40):
        for run in runs:
            run.ask(f"LLD-{number}")
    pass_time(rows, 30, *runs)
    given = sorted(lease.at for run in runs for lease in run.leases)
    assert 25 <= len(given) <= 31
    assert min(later - earlier for earlier, later in pairwise(given)) > 0.9
    assert abs(len(runs[0].leases) - len(runs[1].leases)) <= 1


def test_requests_are_served_in_the_order_in_which_they_came() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    one.ask("LLD-3")
    served: list[SharingRun] = []
    for _ in range(3):
        run = next(run for run in (one, other) if len(run.leases) > sum(name == run for name in served))
        served.append(run)
        run.settle(run.leases[-1])
        pass_time(rows, 0.1, one, other)
    assert served == [one, other, one]


def test_a_lease_that_another_run_granted_is_seen_at_the_next_look() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    assert "waiting" in other.names()
    one.settle(one.leases[0])
    assert other.leases == []
    wake = other.pool.next_wake(rows.now)
    assert wake is not None
    assert wake <= rows.now + rows.look_seconds
    rows.now = wake
    other.advance()
    assert [lease.item for lease in other.leases] == ["LLD-2"]


def test_little_is_written_while_nothing_happens() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    before = rows.transactions
    pass_time(rows, 10, one, other)
    assert rows.transactions - before <= 10 / ALIVE_SECONDS + 1  # whether `one` is alive


def test_the_requests_of_one_turn_are_one_transaction() -> None:
    rows = Rows()
    run = SharingRun(rows, "a", key(max_in_flight=8))
    before = rows.transactions
    for number in range(5):
        run.pool.request(item=f"LLD-{number}", attempt=1, number=1, provider="open", model="m", tokens=1)
    assert len(run.advance()) == 5
    assert rows.transactions == before + 1


def test_a_key_with_two_ids_is_one_key() -> None:
    rows = Rows()
    one = SharingRun(rows, "a", STRICT, values={"key-1": "same"})
    other = SharingRun(rows, "b", key(9, max_in_flight=1), values={"key-9": "same"})
    one.ask("LLD-1")
    other.ask("LLD-1")
    assert (len(one.leases), len(other.leases)) == (1, 0)
    one.settle(one.leases[0])
    pass_time(rows, 0.1, other)
    assert [lease.key for lease in other.leases] == ["key-9"]


def test_keys_of_one_group_wait_together_in_all_runs() -> None:
    rows = Rows()
    one = SharingRun(rows, "a", key(1, quota_group="project"))
    other = SharingRun(rows, "b", key(2, quota_group="project"))
    one.ask("LLD-1")
    one.settle(one.leases[0], error=CallError.RATE_LIMITED, retry_after=30)
    other.ask("LLD-2")
    assert other.leases == []
    limited = next(event for event in other.events if event.name == "rate_limited")
    assert limited.keys == ("key-2",)  # type: ignore[attr-defined]
    pass_time(rows, 31, one, other)
    assert len(other.leases) == 1
    assert "key_recovered" in other.names()


def test_a_rejected_key_is_disabled_in_all_runs_until_its_value_changes() -> None:
    rows = Rows()
    one = SharingRun(rows, "a", key())
    one.ask("LLD-1")
    one.settle(one.leases[0], error=CallError.KEY_REJECTED)
    assert "key_disabled" in one.names()
    other = SharingRun(rows, "b", key())
    other.ask("LLD-1")
    assert other.names() == ["key_disabled", "refused"]
    repaired = SharingRun(rows, "c", key(), values={"key-1": "a new value"})
    repaired.ask("LLD-1")
    assert repaired.names() == ["leased"]


def test_waiting_requests_of_other_runs_are_refused_when_the_last_key_is_rejected() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    one.settle(one.leases[0], error=CallError.KEY_REJECTED)
    pass_time(rows, 0.1, other)
    assert other.names() == ["waiting", "key_disabled", "refused"]


def test_a_killed_run_leaves_nothing_reserved() -> None:
    rows = Rows()
    one, other, third = (SharingRun(rows, name, STRICT) for name in ("a", "b", "c"))
    one.ask("LLD-1")
    other.ask("LLD-2")
    third.ask("LLD-3")
    rows.dead = {"a", "b"}
    third.ask("LLD-4")
    pass_time(rows, ALIVE_SECONDS + 0.1, third)
    third.ask("LLD-5")
    assert [lease.item for lease in third.leases] == ["LLD-3"]
    assert sorted(rows.removed) == ["a", "b"]


def test_a_run_that_waits_finds_out_that_another_was_killed() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    rows.dead = {"a"}
    pass_time(rows, ALIVE_SECONDS + 0.1, other)
    assert [lease.item for lease in other.leases] == ["LLD-2"]


def test_a_stopped_run_gives_back_its_leases_when_they_end() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    pass_time(rows, 900 + EXPIRED_SECONDS + 5, other)  # `one` is alive, but does nothing
    assert [lease.item for lease in other.leases] == ["LLD-2"]
    assert [event.name for event in one.settle(one.leases[0])] == ["settle_refused"]


def test_a_run_that_leaves_gives_everything_back() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    one.store.leave()
    pass_time(rows, 0.1, other)
    assert len(other.leases) == 1


def test_the_lower_limit_counts_while_both_runs_are_there() -> None:
    rows = Rows()
    one = SharingRun(rows, "a", key(max_in_flight=4))
    other = SharingRun(rows, "b", key(max_in_flight=1))
    for number in range(3):
        one.ask(f"LLD-{number}")
    assert len(one.leases) == 1
    other.store.leave()
    pass_time(rows, 0.1, one)
    assert len(one.leases) == 3


def test_each_run_is_told_of_its_own_calls_and_keys_only() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", key(1)), SharingRun(rows, "b", key(2))
    one.ask("LLD-1")
    other.ask("LLD-1")
    one.settle(one.leases[0], error=CallError.RATE_LIMITED, retry_after=30)
    pass_time(rows, 1, one, other)
    assert other.names() == ["leased"]
    shown = other.pool.snapshot(rows.now)
    assert [view.id for view in shown.keys] == ["key-2"]
    assert (shown.in_flight, shown.usable_keys) == (1, 1)
    assert shown.exhausted is None


def test_numbers_of_leases_differ_between_providers() -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", key(), row="x"), SharingRun(rows, "a", key(), row="y")
    for number in range(3):
        one.ask(f"LLD-{number}")
        other.ask(f"LLD-{number}")
    numbers = [lease.lease for lease in one.leases + other.leases]
    assert len(set(numbers)) == 6


def test_a_busy_database_delays_a_request_and_loses_nothing() -> None:
    rows = Rows()
    run = SharingRun(rows, "a", key())
    rows.fails["begin"] = BUSY
    run.ask("LLD-1")
    assert run.events == []
    pass_time(rows, 0.1, run)
    assert len(run.leases) == 1
    rows.fails["commit"] = BUSY
    assert run.settle(run.leases[0]) == []
    pass_time(rows, 0.1, run)
    assert run.names() == ["leased", "settled"]
    assert run.pool.snapshot(rows.now).in_flight == 0


@pytest.mark.parametrize("method", ["begin", "state", "commit"])
def test_a_run_continues_alone_if_the_database_fails(method: str) -> None:
    rows = Rows()
    run = SharingRun(rows, "a", STRICT)
    run.ask("LLD-1")
    rows.fails[method] = BROKEN
    run.ask("LLD-2")
    run.settle(run.leases[0])
    pass_time(rows, 1, run)
    assert [lease.item for lease in run.leases] == ["LLD-1", "LLD-2"]
    assert run.said == ["The disk is full. This run no longer shares limits with your other runs."]


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"keys": 7}', "[" * 100_000])
def test_a_damaged_state_starts_over_and_requests_are_made_again(state: str) -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    row = rows.stored["open"]
    rows.stored["open"] = type(row)(version=row.version + 1, state=state, written=None)
    pass_time(rows, 1, other)
    assert [lease.item for lease in other.leases] == ["LLD-2"]
    assert len(other.said) == 1
    assert "settle_refused" in [event.name for event in one.settle(one.leases[0])]


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 86_400.0 * 30, -86_400.0 * 30])
def test_a_jump_of_the_wall_clock_ends_no_lease_and_blocks_nobody(jump: float) -> None:
    rows = Rows()
    one, other = SharingRun(rows, "a", key(rpm=60, burst=1)), SharingRun(rows, "b", key(rpm=60, burst=1))
    one.ask("LLD-1")
    other.ask("LLD-2")
    rows.ahead += jump
    one.ask("LLD-3")
    pass_time(rows, 5, one, other)
    assert (len(one.leases), len(other.leases)) == (2, 1)
    assert "lease_expired" not in one.names() + other.names()
    assert "settled" in [event.name for event in one.settle(one.leases[0])]


def test_after_a_restart_of_the_machine_only_what_waits_longer_counts() -> None:
    rows = Rows()
    one = SharingRun(rows, "a", key(1), key(2))
    one.ask("LLD-1")
    one.settle(one.leases[0], error=CallError.QUOTA_EXHAUSTED, quota_reset=7200)
    one.ask("LLD-2")
    row = rows.stored["open"]
    rows.stored["open"] = type(row)(version=row.version, state=row.state, written=None)
    rows.now, rows.ahead, rows.dead = 5.0, rows.ahead + rows.now + 600, {"a"}
    later = SharingRun(rows, "b", key(1), key(2))
    later.ask("LLD-1")
    states = {view.id: (view.state.value, view.in_flight) for view in later.pool.snapshot(rows.now).keys}
    assert states["key-1"] == ("quota_exhausted", 0)
    assert states["key-2"] == ("available", 1)
    until = next(view.until for view in later.pool.snapshot(rows.now).keys if view.id == "key-1")
    assert until == pytest.approx(5 + 7200 - 600 + 5, abs=10)


def test_a_first_run_after_a_break_starts_at_full_pace() -> None:
    rows = Rows()
    one = SharingRun(rows, "a", key())
    for number in range(3):
        one.ask(f"LLD-{number}")
        one.settle(one.leases[-1], error=CallError.RATE_LIMITED, retry_after=1)
        pass_time(rows, 11, one)
    assert one.pool.snapshot(rows.now).keys[0].limit < 10
    one.store.leave()
    rows.dead = {"a"}
    assert SharingRun(rows, "b", key()).pool.snapshot(rows.now).keys[0].limit == 10


def test_keys_that_nobody_uses_are_forgotten_in_the_end() -> None:
    rows = Rows()
    for number in range(UNUSED_KEYS + 10):
        run = SharingRun(rows, f"run-{number}", key(number))
        run.ask("LLD-1")
        rows.dead.add(f"run-{number}")
        rows.now += 1
    assert rows.stored["open"].state.count('"max_in_flight"') <= UNUSED_KEYS + 1


def test_no_value_of_a_key_and_no_id_is_stored() -> None:
    rows = Rows()
    run = SharingRun(rows, "a", key(quota_group=None), values={"key-1": "f00d"})
    run.ask("LLD-1")
    assert "key-1" not in rows.stored["open"].state
    assert "f00d" in rows.stored["open"].state


KEYS = ("key-1", "key-2", "key-3")


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    sets=st.lists(
        st.none() | st.frozensets(st.sampled_from([*KEYS, "key-9"]), min_size=1), min_size=1, max_size=12
    )
)
def test_a_request_gets_only_a_key_that_its_machine_has(sets: list[frozenset[str] | None]) -> None:
    rows = Rows()
    specs = [key(number, max_in_flight=1) for number in (1, 2, 3)]
    # The second run calls the same keys otherwise, and has only two of them.
    one = SharingRun(rows, "a", *specs)
    other = SharingRun(rows, "b", key(4, max_in_flight=1), specs[0], values={"key-4": "mark of key-2"})
    for number, only in enumerate(sets):
        one.ask(f"LLD-{number}", only=only)
        other.ask(f"LLD-{number}")
    for _ in range(3 * len(sets) + 3):
        for run in (one, other):
            settled = {event.item for event in run.events if isinstance(event, Settled)}
            for lease in run.leases:
                if lease.item not in settled:
                    run.settle(lease)
        pass_time(rows, 0.1, one, other)
    for number, only in enumerate(sets):
        mine = [lease.key for lease in one.leases if lease.item == f"LLD-{number}"]
        refused = [
            event for event in one.events if isinstance(event, Refused) and event.item == f"LLD-{number}"
        ]
        allowed = set(KEYS) if only is None else set(KEYS) & only
        assert len(mine) == bool(allowed)
        assert set(mine) <= allowed
        assert len(refused) == (not allowed)
    assert len(other.leases) == len(sets)
    assert {lease.key for lease in other.leases} <= {"key-1", "key-4"}


def test_a_request_whose_machine_has_no_key_is_refused_with_a_reason() -> None:
    run = SharingRun(Rows(), "a", key(1), key(2))
    run.ask("LLD-1", only=frozenset({"key-9"}))
    (refused,) = run.events
    assert isinstance(refused, Refused)
    assert refused.reason == "no key for open on the machine that runs this item"
    run.ask("LLD-2", only=frozenset({"key-2"}))
    assert [lease.key for lease in run.leases] == ["key-2"]


def test_a_run_is_told_when_another_one_answered_its_request() -> None:
    rows = Rows()
    one, other, third = (SharingRun(rows, name, STRICT) for name in ("a", "b", "c"))
    one.ask("LLD-1")
    other.ask("LLD-2")
    third.ask("LLD-3")
    assert not rows.notified
    one.settle(one.leases[0])
    assert rows.notified == {"b": 1}
    pass_time(rows, 0.1, other)
    other.store.leave()
    assert rows.notified == {"b": 1, "c": 1}


def test_a_run_that_is_told_looks_at_once() -> None:
    rows = Rows(look_seconds=1.0)
    one, other = SharingRun(rows, "a", STRICT), SharingRun(rows, "b", STRICT)
    one.ask("LLD-1")
    other.ask("LLD-2")
    one.settle(one.leases[0])
    assert other.advance() == []
    rows.calls_heard += 1
    other.advance()
    assert [lease.item for lease in other.leases] == ["LLD-2"]


# What a person may have repaired between two runs.


def refused_run(rows: Rows, *specs: KeySpec, name: str = "a", **settlement: Any) -> None:
    """A run whose only call is refused."""
    run = SharingRun(rows, name, *specs)
    run.ask("LLD-1")
    run.settle(run.leases[0], tokens_in=0, tokens_out=0, **settlement)
    run.store.leave()


def test_a_new_run_tries_a_key_without_credit_by_one_call() -> None:
    rows = Rows()
    refused_run(rows, key(), error=CallError.NO_CREDIT)
    run = SharingRun(rows, "b", key())
    for number in range(5):
        run.ask(f"LLD-{number}")
    pass_time(rows, 30, run)
    assert len(run.leases) == 1, "the others wait for its answer, however long that takes"
    assert run.leases[0].at < 1000.1
    assert "quota_exhausted" not in run.names()
    run.settle(run.leases[0], tokens_in=0, tokens_out=0, error=CallError.NO_CREDIT)
    pass_time(rows, 30, run)
    assert len(run.leases) == 1
    run.store.leave()
    run = SharingRun(rows, "c", key())
    for number in range(5):
        run.ask(f"LLD-{number}")
    run.settle(run.leases[0])
    pass_time(rows, 3, run)
    assert len(run.leases) == 5


def test_only_the_keys_of_the_new_run_are_tried() -> None:
    rows = Rows()
    refused_run(rows, key(1), error=CallError.NO_CREDIT)
    other = SharingRun(rows, "other", key(2))
    assert other.pool.pool(rows.now).pool_state.keys["mark of key-1"].group.cooldown.until is not None
    refused_run(rows, key(2), name="b", error=CallError.NO_CREDIT)
    run = SharingRun(rows, "c", key(1))
    run.ask("LLD-1")
    assert len(run.leases) == 1, "also while another run uses the state"


@pytest.mark.parametrize(
    "settlement",
    [
        {"error": CallError.QUOTA_EXHAUSTED, "quota_reset": 40_000.0},
        {"error": CallError.RATE_LIMITED, "retry_after": 900.0},
        {"error": CallError.CAPACITY, "retry_after": 200.0},
        {"error": CallError.RATE_LIMITED},
    ],
)
def test_a_rest_that_the_server_told_or_that_passes_by_itself_holds_for_a_new_run(
    settlement: dict[str, Any],
) -> None:
    rows = Rows()
    refused_run(rows, key(), **settlement)
    run = SharingRun(rows, "b", key())
    run.ask("LLD-1")
    pass_time(rows, 5, run)
    assert run.leases == []


def test_a_new_run_tries_an_overloaded_model_unless_another_run_already_does() -> None:
    rows = Rows()
    refused_run(rows, key(), error=CallError.CAPACITY)
    run = SharingRun(rows, "b", key())
    run.ask("LLD-1")
    assert len(run.leases) == 1
    run.settle(run.leases[0], tokens_in=0, tokens_out=0, error=CallError.CAPACITY)
    other = SharingRun(rows, "c", key())
    other.ask("LLD-2")
    assert other.leases == []


@pytest.mark.parametrize(("rpd", "served"), [(10, 0), (16, 6), (1000, 12), (None, 12)])
def test_a_daily_limit_that_the_user_raises_counts_at_once(rpd: int | None, served: int) -> None:
    rows = Rows()
    for name, limit in (("a", 10), ("b", rpd)):
        run = SharingRun(rows, name, key(rpd=limit))
        for number in range(12):
            run.ask(f"LLD-{number}")
        for lease in run.leases:
            run.settle(lease)
        pass_time(rows, 5, run)
        run.store.leave()
    assert len(run.leases) == served


def test_what_was_used_today_counts_for_a_lower_daily_limit() -> None:
    rows = Rows()
    for name, limit in (("a", 1000), ("b", 8)):
        run = SharingRun(rows, name, key(rpd=limit))
        for number in range(6):
            run.ask(f"LLD-{number}")
        for lease in run.leases:
            run.settle(lease)
        run.store.leave()
    assert len(run.leases) == 2
