"""When a provider counts as down, and who may try it, as histories."""

import pytest

from agentos.coordinator.outage import Outages
from agentos.model import CallError

REFUSED, DROPPED = CallError.UNREACHABLE, CallError.DROPPED
WHY = "127.0.0.1:8000: connection refused"


def down(now: float = 10.0) -> Outages:
    outages = Outages()
    assert outages.failed("open", "a", REFUSED, WHY, sent=now, now=now) is not None
    return outages


def test_a_call_without_a_connection_begins_an_outage_that_names_host_and_cause() -> None:
    outages = down()
    outage = outages.of("open")
    assert outage is not None
    assert outage.describe() == f"open is down: {WHY}"
    assert outages.failed("open", "b", REFUSED, WHY, sent=9.0, now=11.0) is None, "it is known"
    assert not outages.is_down("other")


def test_a_provider_that_answered_since_the_call_went_out_is_not_down() -> None:
    outages = Outages()
    outages.answered("open", 10.0)
    assert outages.failed("open", "a", REFUSED, WHY, sent=9.0, now=11.0) is None
    assert outages.failed("open", "a", REFUSED, WHY, sent=10.5, now=11.0) is not None


def test_one_item_whose_connection_is_dropped_may_be_to_blame_itself_two_are_an_outage() -> None:
    outages = Outages()
    for now in (1.0, 20.0, 60.0):
        assert outages.failed("open", "a", DROPPED, WHY, sent=now, now=now) is None
    outages.answered("open", 61.0)
    assert outages.failed("open", "b", DROPPED, WHY, sent=62.0, now=62.0) is None, "there was an answer"
    assert outages.failed("open", "a", DROPPED, WHY, sent=63.0, now=63.0) is not None


def test_one_call_at_a_time_tries_after_pauses_that_grow_to_a_minute() -> None:
    outages, now = down(0.0), 0.0
    pauses = []
    for _ in range(12):
        outage = outages.of("open")
        assert outage is not None
        assert not outages.admits("open", "a", now)
        assert outages.due(["open"], outage.next_probe - 0.01) == []
        pauses.append(outage.next_probe - now)
        now = outage.next_probe
        assert outages.due(["open", "open", "other"], now) == ["open"]
        assert outages.admits("open", "a", now)
        assert outages.probes("open", "a")
        assert outages.admits("open", "a", now), "the same call may be asked for again"
        assert not outages.admits("open", "b", now)
        assert outages.due(["open"], now) == []
        outages.failed("open", "b", REFUSED, WHY, sent=0.0, now=now)  # sent before; says nothing new
        assert outages.probes("open", "a")
        outages.failed("open", "a", REFUSED, "no host", sent=now, now=now)
    assert 1.0 <= pauses[0] <= 1.2
    assert 2.0 <= pauses[1] <= 2.4
    assert all(50.0 <= pause <= 60.0 for pause in pauses[-5:])
    outage = outages.of("open")
    assert outage is not None
    assert outage.describe() == "open is down: no host"


def test_a_probe_whose_item_is_gone_leaves_the_next_one_in_at_once() -> None:
    outages = down()
    assert outages.admits("open", "a", 20.0)
    outages.gone("a", 21.0)
    assert outages.admits("open", "b", 21.0)


def test_any_answer_ends_it() -> None:
    outages = down(10.0)
    ended = outages.answered("open", 25.0)
    assert ended is not None
    assert ended.since == 10.0
    assert outages.answered("open", 26.0) is None
    assert outages.admits("open", "b", 26.0)


@pytest.mark.parametrize(("waiting", "wake"), [([], None), (["other"], None), (["open"], 11.0)])
def test_it_wakes_only_for_those_who_wait(waiting: list[str], wake: float | None) -> None:
    outages = down(10.0)
    found = outages.next_wake(waiting, 3600.0)
    assert found == (None if wake is None else pytest.approx(wake, abs=0.25))
    assert outages.next_wake(["open"], 0.5) == 10.5


def test_the_wait_is_bounded() -> None:
    outages = down(10.0)
    assert outages.overdue(["open"], 60.0, 69.9) is None
    assert outages.overdue([], 60.0, 70.0) is None
    assert outages.overdue(["open"], 60.0, 70.0) is outages.of("open")
    assert outages.next_wake(["open"], 0.5) == 10.5
