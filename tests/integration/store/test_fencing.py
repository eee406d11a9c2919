"""Fencing: who no longer has an item changes nothing of it, in either implementation."""

from collections.abc import Callable
from typing import Any

import pytest

from agentos.model import Status
from agentos.store.records import Claim, Fence, FilingState, Stale
from agentos.store.records.protocols import AllRecords
from harness.records import AT, answer, item, note, paid, said

ITEM = item()
ENDED: dict[str, Any] = {"verdict": "APPROVED", "reviews": 3, "output": "new.md", "error": "x"}

Write = Callable[[AllRecords, Fence], Stale | None]


def not_there(records: AllRecords, fence: Fence) -> Stale | None:
    row = records.filing(ITEM)
    assert row is not None
    return records.not_there(row, fence, FilingState.KEPT)


def approve(records: AllRecords, fence: Fence) -> Stale | None:
    return records.end(ITEM, fence, Status.APPROVED, **ENDED, filing=FilingState.WANTED)


WRITES: dict[str, Write] = {
    "begin": lambda records, fence: records.begin(ITEM, fence, revise=True),
    "at_node": lambda records, fence: records.at_node(ITEM, fence, "review", 2),
    "end, approved": approve,
    "end, failed": lambda records, fence: records.end(ITEM, fence, Status.FAILED, **ENDED),
    "use_decisions": lambda records, fence: records.use_decisions(ITEM, fence, 2**40, kept=False),
    "use_decisions, kept": lambda records, fence: records.use_decisions(ITEM, fence, 2**40, kept=True),
    "moved": lambda records, fence: records.moved(ITEM, fence, "elsewhere"),
    "forget": lambda records, fence: records.forget(ITEM, fence),
    "intend": lambda records, fence: records.intend(ITEM, fence, repository="r", marker="m2", at=AT),
    "filed": lambda records, fence: records.filed(ITEM, fence, number=7, url="u"),
    "not_there": not_there,
    "filing_failed": lambda records, fence: records.filing_failed(ITEM, fence, error="x", unknown=False),
    "filing_failed, unknown": lambda records, fence: records.filing_failed(
        ITEM, fence, error="x", unknown=True
    ),
}


def everything(records: AllRecords) -> tuple[object, ...]:
    """All that can be read about the item, but for when it was written."""
    return (
        records.outcomes("lld"),
        records.progress(),
        records.decisions(),
        records.filing(ITEM),
        records.spent_on_items("lld"),
        records.claims(),
    )


@pytest.fixture
def fence(records: AllRecords) -> Fence:
    """The second attempt of a run at an item that has a row of every kind."""
    first, second = Fence(run_id="run-1", attempt=1), Fence(run_id="run-1", attempt=2)
    records.claim([ITEM], "run-1")
    records.begin(ITEM, first)
    records.end(ITEM, first, Status.APPROVED, **ENDED | {"output": "old.md"})
    records.begin(ITEM, second)
    records.intend(ITEM, second, repository="r", marker="m", at=AT)
    note(records, ITEM)
    records.pay(paid("life-1", one="42"))
    return second


@pytest.mark.parametrize("name", WRITES)
def test_who_has_the_item_writes(records: AllRecords, fence: Fence, name: str) -> None:
    before = everything(records)
    assert WRITES[name](records, fence) is None
    assert everything(records) != before


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(
    ("stale", "told"),
    [
        (Fence(run_id="run-1", attempt=1), "attempt 2 of this run has the item now"),
        (Fence(run_id="run-1", attempt=0), "attempt 2 of this run has the item now"),
        (Fence(run_id="run-2", attempt=1), "run run-1 has the item now"),
        (Fence(run_id="run-2", attempt=3), "run run-1 has the item now"),
    ],
)
@pytest.mark.usefixtures("fence")
def test_an_older_attempt_and_another_run_change_nothing(
    records: AllRecords, name: str, stale: Fence, told: str
) -> None:
    before = everything(records)
    refused = WRITES[name](records, stale)
    assert str(refused) == told
    assert everything(records) == before


@pytest.mark.parametrize("name", WRITES)
def test_a_run_whose_item_was_taken_over_changes_nothing(
    records: AllRecords, fence: Fence, dead: set[str], name: str
) -> None:
    dead.add("run-1")
    assert records.claim([ITEM], "run-2") == {}
    before = everything(records)
    refused = WRITES[name](records, fence)
    assert refused is not None
    assert refused.holder == records.claims()["lld", "42"]
    assert str(refused) == "run run-2 has the item now"
    assert everything(records) == before


@pytest.mark.parametrize("name", WRITES)
def test_a_run_that_has_released_its_items_changes_nothing(
    records: AllRecords, fence: Fence, name: str
) -> None:
    records.release("run-1")
    before = everything(records)
    refused = WRITES[name](records, fence)
    assert str(refused) == "this run no longer has the item"
    assert everything(records) == before


@pytest.mark.parametrize("mock", [False, True])
def test_what_people_say_and_what_was_paid_is_never_refused(
    records: AllRecords, fence: Fence, dead: set[str], mock: bool
) -> None:
    dead.add(fence.run_id)
    records.claim([ITEM], "run-2")
    world = records.of(mock=mock)
    assert answer(world, ITEM, 2, text="Still better.")
    assert world.pay(paid("life-2", one="42", usd=2.0))
    assert said(world, ITEM)[-1].text == "Still better."
    assert world.spent_on_items("lld")["42"] == pytest.approx(2.0 if mock else 3.0)


def test_a_later_attempt_takes_the_item_when_it_begins(records: AllRecords, fence: Fence) -> None:
    third = Fence(run_id="run-1", attempt=3)
    assert records.begin(ITEM, third) is None
    assert records.claims()["lld", "42"].attempt == records.progress()["lld", "42"].attempt == 3
    assert records.at_node(ITEM, fence, "review", 9) is not None
    assert records.at_node(ITEM, third, "review", 1) is None


def test_the_claim_of_a_new_run_starts_with_no_attempt(
    records: AllRecords, fence: Fence, dead: set[str]
) -> None:
    dead.add("run-1")
    records.claim([ITEM], "run-2")
    assert records.claims()["lld", "42"].attempt == 0
    assert records.progress()["lld", "42"].attempt == fence.attempt
    assert records.begin(ITEM, Fence(run_id="run-2", attempt=1)) is None


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_the_rule_itself(attempt: int) -> None:
    held = Claim(workflow="lld", item="42", run_id="run-1", pid=1, since=AT, attempt=1)
    mine, other = Fence(run_id="run-1", attempt=attempt), Fence(run_id="run-2", attempt=attempt)
    assert (mine.check(held) is None) == (attempt >= 1)
    assert other.check(held) == Stale(fence=other, holder=held)
    assert mine.check(None) == Stale(fence=mine, holder=None)
