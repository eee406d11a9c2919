"""The recorder of a run: what it does when another run has taken one of its items."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.coordinator.recorder import RunRecorder
from agentos.errors import ItemFailed
from agentos.model import Status
from agentos.store.home import Home
from agentos.store.records import Outcome
from agentos.store.records.memory import MemoryRecords
from agentos.store.run_folder import RunFolder, create_run
from harness.records import begin, item, note, said

if TYPE_CHECKING:
    from agentos.console.console import Console

ITEM = item()


class Quiet:
    """A console that shows nothing and remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def complain(self, line: str) -> None:
        self.said.append(line)

    def item_done(self, *_about: Any) -> None:
        pass


class Shop:
    """A recorder with in-memory records, and a checkpoint for its one item."""

    def __init__(self, home: Home, folder: RunFolder) -> None:
        self.console = Quiet()
        self.records = MemoryRecords()
        self.recorder = RunRecorder(
            home, records=self.records, folder=folder, console=cast("Console", self.console)
        )
        self.checkpoint = home.checkpoint("lld", "42")
        self.checkpoint.write_text("saved")
        self.records.claim([ITEM], self.recorder.run_id)

    def lose(self) -> None:
        """Let another run take the item over, and begin it."""
        self.records.release(self.recorder.run_id)
        begin(self.records, ITEM, "run-2")

    def finish(self, status: Status, *, attempts: int = 1, noted: int | None = None) -> None:
        entry = PlannedItem(item=ITEM, step=PlanAction.START, decisions=said(self.records, ITEM))
        told = {"verdict": "APPROVED", "reviews": 1, "output": "out.md", "error": None, "noted": noted}
        self.recorder.finish(entry, status, attempts=attempts, **told)  # type: ignore[arg-type]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    home = Home(path=tmp_path / "home").create()
    folder = create_run(home)
    yield Shop(home, folder)
    folder.close()


@pytest.mark.parametrize(
    "step", [PlanAction.START, PlanAction.RESUME, PlanAction.START_OVER, PlanAction.REVISE]
)
@pytest.mark.parametrize("attempt", [1, 2])
def test_an_item_that_another_run_has_is_not_begun(shop: Shop, step: PlanAction, attempt: int) -> None:
    shop.lose()
    before = shop.records.progress()

    with pytest.raises(ItemFailed, match="run run-2 has the item now"):
        shop.recorder.begin(PlannedItem(item=ITEM, step=step), attempt)

    assert shop.checkpoint.exists()
    assert shop.records.progress() == before
    assert shop.console.said == []


@pytest.mark.parametrize(
    ("step", "kept"), [(PlanAction.RESUME, True), (PlanAction.START, False), (PlanAction.START_OVER, False)]
)
def test_only_the_first_attempt_prepares_an_item(shop: Shop, step: PlanAction, kept: bool) -> None:
    shop.recorder.begin(PlannedItem(item=ITEM, step=step), 1)
    assert shop.checkpoint.exists() == kept
    shop.checkpoint.write_text("saved")

    shop.recorder.begin(PlannedItem(item=ITEM, step=step), 2)

    assert shop.checkpoint.exists()
    assert shop.records.progress()["lld", "42"].attempt == 2


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_worker_of_an_item_that_was_lost_is_ended_at_its_next_node(shop: Shop, attempt: int) -> None:
    entry = PlannedItem(item=ITEM, step=PlanAction.START)
    shop.recorder.begin(entry, 1)
    shop.lose()
    before = shop.records.progress()

    with pytest.raises(ItemFailed, match="run run-2 has the item now"):
        shop.recorder.at_node(entry, "review", 1, attempt)

    assert shop.records.progress() == before


@pytest.mark.parametrize("status", [Status.APPROVED, Status.DISCUSS, Status.FAILED, Status.INTERRUPTED])
def test_the_end_of_an_item_that_was_lost_is_shown_but_not_recorded(shop: Shop, status: Status) -> None:
    shop.lose()
    before = shop.records.progress()

    shop.finish(status)

    row = shop.recorder.state.items["42"]
    assert (row.status, row.verdict, row.output) == (Status.FAILED, None, None)
    assert row.error == "run run-2 has the item now; this run recorded nothing for it"
    assert shop.console.said == [f"LLD-42: failed: {row.error}"]
    assert shop.checkpoint.exists()
    assert (shop.records.progress(), shop.records.outcomes("lld")) == (before, {})


def test_the_end_of_an_earlier_attempt_is_not_recorded(shop: Shop) -> None:
    shop.recorder.begin(PlannedItem(item=ITEM, step=PlanAction.RESUME), 2)

    shop.finish(Status.APPROVED, attempts=1)

    assert "attempt 2 of this run" in str(shop.recorder.state.items["42"].error)
    assert shop.records.outcomes("lld") == {}


@pytest.mark.parametrize(
    ("status", "noted", "left"),
    [
        (Status.APPROVED, 2, [(3, False)]),  # the document has what the models got
        (Status.APPROVED, None, [(1, True), (2, True), (3, True)]),  # no document of ours has them
        (Status.DISCUSS, 2, [(1, True), (2, True), (3, False)]),
        (Status.NEEDS_REVISION, 3, [(1, True), (2, True), (3, True)]),
        (Status.FAILED, 3, [(1, False), (2, False), (3, False)]),
        (Status.INTERRUPTED, 3, [(1, False), (2, False), (3, False)]),
    ],
)
def test_decisions_are_used_when_the_models_got_them_and_kept_by_a_document(
    shop: Shop, status: Status, noted: int | None, left: list[tuple[int, bool]]
) -> None:
    for _ in range(3):
        note(shop.records, ITEM)
    shop.finish(status, noted=noted)
    assert [(one.id, one.used) for one in said(shop.records, ITEM)] == left


@pytest.mark.parametrize("lost", [False, True])
def test_the_checkpoint_of_a_skipped_item_is_removed_unless_another_run_has_it(
    shop: Shop, lost: bool
) -> None:
    if lost:
        shop.lose()
    done = Outcome(
        workflow="lld",
        item="42",
        input_hash=ITEM.input_hash,
        run_id="run-0",
        verdict="APPROVED",
        reviews=1,
        output="out.md",
        finished_at="2026-01-01",
    )

    shop.recorder.record_not_run([PlannedItem(item=ITEM, step=PlanAction.SKIP, outcome=done)])

    assert shop.checkpoint.exists() == lost
