"""The databases and the memory answer alike, whatever is done with them."""

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.model import Item, Status
from agentos.store.records import Fence, FilingState, Records, Stale, memory, sql_records
from agentos.store.records.memory import MemoryRecords
from agentos.store.records.protocols import AllRecords
from harness.records import answer, item, note, open_postgres_records, paid, said

RUNS = ("run-1", "run-2", "run-3")
OLD = item(text="old").input_hash
ITEMS = tuple(replace(item(name, text), old_hash=OLD) for name in ("1", "2") for text in ("old", "new"))
UNSENT = (FilingState.WANTED, FilingState.KEPT)

Do = Callable[[AllRecords], object]


def end(records: AllRecords, one: Item, fence: Fence, how: tuple[Status, FilingState | None, int]) -> object:
    status, filing, reviews = how
    told: dict[str, Any] = {"verdict": "V", "reviews": reviews, "output": "o", "error": status.value}
    told["text_hash"] = f"hash {reviews}"
    return records.end(one, fence, status, **told, filing=filing)


def not_there(records: AllRecords, one: Item, fence: Fence, state: FilingState) -> object:
    row = records.filing(one)
    return None if row is None else records.not_there(row, fence, state)


def use_decisions(records: AllRecords, one: Item, fence: Fence, place: int, kept: bool) -> object:
    numbers = [0, *(decision.id for decision in said(records, one))]
    return records.use_decisions(one, fence, numbers[place % len(numbers)], kept=kept)


def intend(records: AllRecords, one: Item, fence: Fence, how: tuple[str, str]) -> object:
    return records.intend(one, fence, repository="r", marker=how[0], at=how[1])


def pay(records: AllRecords, one: Item, run: str, how: tuple[str, str, int, float | None]) -> object:
    life, role, number, usd = how
    call = replace(paid(life, run_id=run, one=one.id), role=role, number=number, usd=usd)
    return records.pay(replace(call, tokens_out=number * 7, model=f"m:{role}"))


items, runs = st.sampled_from(ITEMS), st.sampled_from(RUNS)
# Mostly the run and attempt that can have the item, so that most writes are carried out.
fences = st.builds(Fence, run_id=st.sampled_from(("run-1", *RUNS)), attempt=st.sampled_from((2, 2, 1, 0)))
flags, numbers = st.booleans(), st.integers(0, 2)
STEPS: tuple[tuple[Callable[..., object], tuple[st.SearchStrategy[Any], ...]], ...] = (
    (
        lambda records, these, run: {k: v.run_id for k, v in records.claim(these, run).items()},
        (st.lists(items), runs),
    ),
    (lambda records, run: records.release(run), (runs,)),
    (lambda records, one, fence, revise: records.begin(one, fence, revise=revise), (items, fences, flags)),
    (
        lambda records, one, fence, node, count: records.at_node(one, fence, node, count),
        (items, fences, st.just("draft"), numbers),
    ),
    (end, (items, fences, st.tuples(st.sampled_from(Status), st.sampled_from((None, *UNSENT)), numbers))),
    (end, (items, fences, st.tuples(st.just(Status.APPROVED), st.sampled_from(UNSENT), numbers))),
    (lambda records, one, fence: records.moved(one, fence, "there"), (items, fences)),
    (lambda records, one, fence, filing: records.forget(one, fence, filing=filing), (items, fences, flags)),
    (lambda records, one: bool(records.drop_progress("lld", one.id)), (items,)),
    (lambda records, one: records.rehash(one), (items,)),
    (
        lambda records, one, count, late: answer(records, one, count, unless=lambda: late),
        (items, numbers, flags),
    ),
    (note, (items, st.sampled_from("tu"))),
    (use_decisions, (items, fences, numbers, flags)),
    (
        lambda records, run, these: records.begin_run(run, "lld", [one.id for one in these]),
        (runs, st.lists(items)),
    ),
    (lambda records, run: records.finish_run(run), (runs,)),
    (
        pay,
        (
            items,
            runs,
            st.tuples(
                st.sampled_from("ab"),
                st.sampled_from(("drafter", "reviewer")),
                numbers,
                st.sampled_from((None, 0.5, 2.0)),
            ),
        ),
    ),
    (lambda records, place: records.note_source("lld", place), (st.sampled_from("xy"),)),
    (intend, (items, fences, st.tuples(st.sampled_from(("m1", "m2")), st.sampled_from(("t0001", "t0009"))))),
    (
        lambda records, one, fence, number: records.filed(one, fence, number=number, url="u"),
        (items, fences, numbers),
    ),
    (not_there, (items, fences, st.sampled_from(UNSENT))),
    (
        lambda records, one, fence, unknown: records.filing_failed(one, fence, error="e", unknown=unknown),
        (items, fences, flags),
    ),
)


def step(index: int) -> st.SearchStrategy[tuple[bool, Do]]:
    do, arguments = STEPS[index]
    return st.tuples(flags, st.tuples(*arguments).map(lambda given_: lambda records: do(records, *given_)))


def seen(answer: object) -> object:
    """An answer without the number of a process."""
    if isinstance(answer, Stale):
        return str(answer)
    return answer


def everything(records: AllRecords) -> dict[str, object]:
    """All that can be read, but for the number of a process."""
    found: dict[str, object] = {
        "claims": {key: asdict(claim) | {"pid": 0} for key, claim in records.claims().items()},
        "filings": records.filings("lld"),
        "unknown": records.unknown_filings(),
        "latest": records.latest_filing(),
        "source": records.source("lld"),
    }
    for mock in (False, True):
        world = records.of(mock=mock)
        found[f"mock {mock}"] = (
            world.outcomes("lld"),
            world.progress(),
            # The numbers of decisions are unique, but other projects have some of them.
            {key: [replace(one, id=0) for one in known] for key, known in world.decisions().items()},
            [world.spent_before("lld", run) for run in RUNS],
            world.spent_on_items("lld"),
            world.usual_outputs("lld"),
            world.tokens_of_items("lld", drafter="m:drafter", reviewer="m:reviewer"),
        )
    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@given(steps=st.lists(st.integers(0, len(STEPS) - 1).flatmap(step), max_size=30))
@settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_both_give_the_same_answers(
    request: pytest.FixtureRequest, kind: str, steps: list[tuple[bool, Do]]
) -> None:
    alive = {"run-1"}.__contains__
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched, ExitStack() as opened:
        moment = "t0000"
        for module in (memory, sql_records):
            patched.setattr(module, "timestamp", lambda: moment)
        stored: AllRecords
        if kind == "sqlite":
            stored = opened.enter_context(Records(Path(folder) / "records.db", alive=alive))
        else:
            url, project = request.getfixturevalue("records_url"), uuid.uuid4().hex
            stored = opened.enter_context(open_postgres_records(url, project=project, alive=alive))
        kept = MemoryRecords(alive=alive)
        for number, (mock, do) in enumerate(steps, start=1):
            moment = f"t{number:04}"
            told = [seen(do(records.of(mock=mock))) for records in (stored, kept)]
            assert told[0] == told[1]
        assert everything(stored) == everything(kept)
