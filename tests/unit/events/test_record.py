"""An event as a record and back: what is written comes back, what is not ours does no harm."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from hypothesis import given

from agentos.credentials.outcome import InFlightChanged
from agentos.events import catalogue, filing, keys
from agentos.events.asker import Asker
from agentos.events.catalogue import (
    Completed,
    Event,
    PoolEvent,
    RunStarted,
    Stopping,
    Waiting,
    WaitKind,
    is_recorded,
)
from agentos.events.fields import shortened
from agentos.events.record import CATALOGUE, as_record, read
from unit.events.histories import RECORDS

_BY_TYPE: dict[object, Any] = {
    str: "x",
    str | None: "x",
    int: 3,
    int | None: 3,
    float: 1.5,
    float | None: 1.5,
    bool: True,
    bool | None: True,
    tuple[str, ...] | None: ("--budget 2", "--no-file"),
    tuple[str, ...]: ("k1", "k2"),
    Mapping[str, int]: {"approved": 2},
    WaitKind: WaitKind.BUDGET,
    Asker: Asker("run-1", "LLD-1", 1),
}


def made(kind: type[Event], *, whole: bool = False) -> Event:
    """An event with a value in each field that is recorded, or in each field."""
    hints = get_type_hints(kind)
    filled = [one.name for one in fields(kind) if whole or is_recorded(one)]
    return kind(**{name: _BY_TYPE[hints[name]] for name in filled})


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=CATALOGUE)
def test_every_event_comes_back_as_it_was_written(kind: type[Event]) -> None:
    event = made(kind)
    assert read(as_record(event)) == event
    assert as_record(made(kind, whole=True)) == as_record(event)
    assert set(as_record(event)) - {"event", "status"} == {
        one.name for one in fields(kind) if is_recorded(one)
    }


def test_the_fields_that_are_not_recorded() -> None:
    left_out = {one.name for kind in CATALOGUE.values() for one in fields(kind) if not is_recorded(one)}
    assert left_out == {"at", "until", "expires", "asker", "credit"}


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=CATALOGUE)
def test_every_event_says_what_it_means(kind: type[Event]) -> None:
    assert kind.__doc__
    assert kind.__doc__.endswith(".")


def test_the_names_in_the_file() -> None:
    """Whoever reads events.jsonl builds on these."""
    assert set(CATALOGUE) == {
        "run_started", "run_finished", "stopping", "paused", "resumed", "parallel_changed", "budget_reached",
        "started", "ready", "node", "waiting", "crashed", "completed", "failed", "timed_out", "interrupted",
        "queued", "item_paused", "not_started", "skipped", "discuss", "needs_revision", "filing", "filed",
        "filing_refused", "filing_unknown", "leased", "settled", "settle_refused", "refused", "returned",
        "lease_expired", "rate_limited", "quota_exhausted", "key_disabled", "key_recovered", "capacity",
        "capacity_recovered", "limit_learnt", "ask_refused", "call_counted", "provider_down", "provider_back",
    }  # fmt: skip


def test_an_end_tells_its_status() -> None:
    told = as_record(Completed(item="1", label="LLD-1", verdict="APPROVED", reviews=2))
    assert list(told) == [
        "event", "item", "label", "status", "verdict", "reviews", "output", "error",
        "reason", "attempts", "busy_seconds", "filing", "questions", "dropped",
    ]  # fmt: skip
    assert told["status"] == "approved"
    assert as_record(Completed(item="1", repaired=True))["repaired"] is True


@pytest.mark.parametrize(
    ("record", "event"),
    [
        # Of older versions.
        ({"event": "retrying", "item": "1", "seconds": 2.5, "reason": "cut"},
         Waiting(item="1", reason="cut", until_seconds=2.5, kind=WaitKind.BACKOFF)),
        ({"event": "waiting", "item": "1", "reason": "rests"},
         Waiting(item="1", reason="rests", until_seconds=None)),
        ({"event": "run_started", "run_id": "r", "items": 2, "parallel": 1},
         RunStarted(run_id="r", items=2, parallel=1)),
        # Of a later one, perhaps: the status tells.
        ({"event": "accepted", "item": "1", "status": "approved"}, Completed(item="1")),
        ({"event": "completed", "item": "1", "status": "failed"}, catalogue.Failed(item="1")),
        # Forged.
        ({"event": "completed", "item": "1"}, None),
        ({"event": "failed", "item": "1", "status": ["failed"]}, None),
        ({"event": "started", "item": ["1"], "label": "LLD-1"}, None),
        ({"event": "started"}, None),
        ({"event": "said", "item": "1"}, None),
        ({"event": ["started"], "item": "1"}, None),
        ({}, None),
        ({"event": "stopping", "reason": "x" * 5000}, Stopping(reason="x" * 2000 + " …")),
        ({"event": "stopping", "reason": "half \ud83d"}, Stopping(reason="half ?")),
        ({"event": "node", "item": "1", "node": {"a": 1}, "reviews": True},
         catalogue.NodeEntered(item="1", node=None, reviews=0)),
        ({"event": "resumed", "seconds": float("nan")}, catalogue.Resumed(seconds=0.0)),
        ({"event": "resumed", "seconds": -3}, catalogue.Resumed(seconds=0.0)),
        ({"event": "run_finished", "exit_code": -5, "totals": [], "stopped": 7},
         catalogue.RunFinished(exit_code=None, totals={}, stopped=None)),
        ({"event": "filed", "item": "1", "number": 10**30, "url": 5},
         filing.Filed(item="1", number=None, url=None)),
    ],
)  # fmt: skip
def test_what_is_read_is_typed_and_bounded(record: dict[str, Any], event: Event | None) -> None:
    assert read(record) == event


@given(records=RECORDS)
def test_no_record_is_an_error_and_what_is_read_stays_so(records: list[dict[str, Any]]) -> None:
    for record in records:
        if (event := read(record)) is not None:
            assert read(as_record(event)) == event


# What the pool says.

ASKER = Asker("run-1", "LLD-1", 1)


def test_a_wait_for_the_pool_is_recorded_as_a_duration() -> None:
    told = {"item": "1", "number": 1, "provider": "p", "model": "m", "reason": "rests"}
    key = Waiting(**told, until_seconds=2.5, at=5.0, until=7.5, asker=ASKER)  # type: ignore[arg-type]
    assert as_record(key) == {"event": "waiting", **told, "until_seconds": 2.5, "kind": "key"}
    model = Waiting(**told, until_seconds=None, kind=WaitKind.OVERLOADED)  # type: ignore[arg-type]
    assert as_record(model) == {"event": "waiting", **told, "until_seconds": None, "kind": "overloaded"}


def test_all_that_the_pool_says_is_in_the_catalogue_but_for_the_slots_of_a_key() -> None:
    said = {one.name: one for one in descendants(PoolEvent) if hasattr(one, "name")}
    assert said.keys() - CATALOGUE.keys() == {"in_flight_changed"}
    assert said["in_flight_changed"] is InFlightChanged
    assert {name for name in said if name in CATALOGUE} == {
        "waiting", "leased", "settled", "ask_refused", "settle_refused", "refused", "returned",
        "lease_expired", "rate_limited", "quota_exhausted", "key_disabled", "key_recovered", "capacity",
        "capacity_recovered", "limit_learnt",
    }  # fmt: skip


def descendants(kind: type[Event]) -> set[type[Event]]:
    return {kind}.union(*map(descendants, kind.__subclasses__()))


def test_a_lease_is_recorded_without_the_clock_of_the_pool() -> None:
    leased = keys.Leased(
        at=9.0,
        item="1",
        asker=ASKER,
        number=2,
        lease=3,
        key="k",
        provider="p",
        model="m",
        tokens=4,
        waited=0.5,
        expires=99.0,
    )
    assert list(as_record(leased).items()) == [
        ("event", "leased"), ("item", "1"), ("number", 2), ("lease", 3), ("key", "k"), ("provider", "p"),
        ("model", "m"), ("tokens", 4), ("waited", 0.5),
    ]  # fmt: skip


def test_a_torn_lease_has_empty_names() -> None:
    assert read({"event": "leased", "item": "1", "key": 5, "expires": 9.0, "asker": "x"}) == keys.Leased(
        item="1", number=0, lease=0, key="", provider="", model="", tokens=0, waited=0.0
    )


def test_a_text_is_cut_where_a_word_ends() -> None:
    assert shortened("one two three", 13) == "one two three"
    assert shortened("one two three", 12) == "one two …"
    assert shortened("one two three", 7) == "one two …"
    assert shortened("a" * 50, 10) == "a" * 10 + " …"
