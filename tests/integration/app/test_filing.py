"""Filing at the end of a run: which file is posted, and what earlier runs left unknown."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from agentos.app.filing import IssueFiler, home_lock
from agentos.app.summary import FilingResult
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.coordinator.scheduler import Stop
from agentos.events.catalogue import Completed, Event
from agentos.events.fold import feed
from agentos.events.record import as_record
from agentos.events.state import RunState
from agentos.github.client import GitHub
from agentos.github.repository import Repository
from agentos.model import Item
from agentos.report.summary import ItemFiles, ItemRow, item_row
from agentos.secret import Secret
from agentos.signals import StopSignals
from agentos.stamp import seal, text_hash
from agentos.store.documents import MAX_DOCUMENT_BYTES
from agentos.store.lineage import receipts
from agentos.store.records import FilingState, Records, timestamp
from harness.dialog import FakeDialog
from harness.github import FakeGitHub, running_fakegithub
from harness.records import approve
from integration.coordinator.filing_process import DOCUMENT, ITEM

if TYPE_CHECKING:
    from agentos.coordinator.recorder import RunRecorder


def sealed(body: str) -> str:
    return seal(body, item=ITEM.label, input_hash=ITEM.input_hash, by="a+b")


OURS = sealed(DOCUMENT)
NAME = "issues/active/dark-mode.md"
LINEAGE = "docs/lineage"


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    (tmp_path / "tree/issues/active").mkdir(parents=True)
    return tmp_path / "tree"


# What earlier runs left unknown.


class Office:
    """A desk with everything around it, and an attempt for an item that was made long ago."""

    def __init__(self, fake: FakeGitHub, records: Records, worktree: Path) -> None:
        self.fake, self.records, self.worktree = fake, records, worktree
        self.said: list[str] = []
        fence = approve(records, ITEM, output=NAME, filing=FilingState.WANTED)
        records.intend(
            ITEM,
            fence,
            repository=f"{fake.url}/repos/acme/widgets",
            marker=f"<!-- agentos-filing: {'0' * 32} -->",
            at=(datetime.now(UTC) - timedelta(hours=1)).isoformat(),
        )

    def run(
        self, *items: Item, yes: bool = True, dialog: FakeDialog | None = None
    ) -> tuple[FilingResult, dict[str, ItemRow]]:
        for item in items:
            approve(self.records, item, output=NAME, text_hash=text_hash(DOCUMENT), filing=FilingState.WANTED)
        self.records.claim(items, "run-2")
        state = RunState()

        def record(event: Event) -> None:
            feed(state, {"time": timestamp(), **as_record(event)})

        for item in items:
            record(Completed(item=item.id, label=item.label, output=NAME, filing="wanted"))
        recorder = SimpleNamespace(state=state, say=self.said.append, record=record, run_id="run-2")
        repository = Repository(full_name="acme/widgets", api_url=self.fake.url)
        github = GitHub(repository, Secret("github-token", self.fake.token), sleep=lambda _seconds: None)
        with StopSignals() as signals:
            filer = IssueFiler(
                github,
                self.records,
                cast("RunRecorder", recorder),
                signals,
                dialog or FakeDialog(),
                alone=home_lock(self.records.home),
                yes=yes,
                lineage_folder=LINEAGE,
            )
            result = filer.file(
                [PlannedItem(item=item, step=PlanAction.FILE) for item in items], self.worktree, None
            )
        return result, {item.label: item_row(item, ItemFiles()) for item in state.items.values()}

    def state(self) -> FilingState:
        row = self.records.filing(ITEM)
        assert row is not None
        return row.state


@pytest.fixture
def office(worktree: Path, tmp_path: Path) -> Iterator[Office]:
    with running_fakegithub() as fake, Records(tmp_path / "records.db") as records:
        yield Office(fake, records, worktree)


CHANGED = replace(ITEM, text="Another brief")


def test_a_run_without_items_looks_up_what_is_unknown(office: Office) -> None:
    office.fake.add(body="0" * 32 + f"<!-- agentos-filing: {'0' * 32} -->")

    result, _rows = office.run()

    assert office.state() is FilingState.FILED
    assert not result.unfinished


def test_what_is_absent_still_waits_where_its_text_may_be_the_latest(office: Office) -> None:
    office.run()

    assert office.state() is FilingState.WANTED


def test_what_is_absent_is_over_where_the_text_changed(office: Office) -> None:
    (office.worktree / NAME).write_text(OURS)

    _result, rows = office.run(CHANGED)

    assert office.state() is FilingState.KEPT
    assert rows[ITEM.label].filing == "filed"
    assert len(office.fake.issues) == 1


def test_what_stays_unknown_is_unfinished_and_holds_the_new_text_back(office: Office) -> None:
    (office.worktree / NAME).write_text(OURS)
    office.fake.fail_lists(404)

    result, rows = office.run(CHANGED)

    assert result.unfinished
    assert rows[ITEM.label].filing == "unknown"
    assert office.fake.count("POST") == 0
    assert office.state() is FilingState.INTENDED
    assert office.run()[0].unfinished


def test_what_another_living_run_has_is_left_to_it(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.fake.add(body=f"<!-- agentos-filing: {'0' * 32} -->")
    monkeypatch.setattr(office.records, "_alive", lambda _run: True)

    filer, _rows = office.run()

    assert office.state() is FilingState.INTENDED
    assert office.said == ["issue dark-mode: run run-1 looks up whether an earlier version was filed"]
    assert filer.unfinished


def test_an_item_that_another_run_has_is_not_filed_and_its_document_stays(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = seal(DOCUMENT, item=ITEM.label, input_hash=CHANGED.input_hash, by="a")
    (office.worktree / NAME).write_text(text)
    monkeypatch.setattr(office.records, "_alive", lambda _run: True)

    _desk, rows = office.run(CHANGED)

    assert office.fake.count("POST") == 0
    assert rows[ITEM.label].error == "not filed: run run-1 has the item now"
    assert (office.worktree / NAME).read_text() == text


def test_a_run_that_was_stopped_looks_at_nothing(office: Office) -> None:
    recorder = SimpleNamespace(rows={}, say=office.said.append)
    repository = Repository(full_name="acme/widgets", api_url=office.fake.url)
    github = GitHub(repository, Secret("github-token", office.fake.token))
    with StopSignals() as signals:
        filer = IssueFiler(
            github,
            office.records,
            cast("RunRecorder", recorder),
            signals,
            FakeDialog(),
            alone=home_lock(office.records.home),
            yes=True,
            lineage_folder=LINEAGE,
        )
        assert filer.file([], office.worktree, Stop.INTERRUPTED).stopped is Stop.INTERRUPTED
    assert office.fake.requests == []


# Which file is posted.


def put_link(path: Path) -> None:
    path.parent.parent.parent.with_name("secret").write_text(OURS)
    path.symlink_to(path.parent.parent.parent.with_name("secret"))


@pytest.mark.parametrize(
    ("put", "told"),
    [
        (put_link, "it is a symbolic link"),
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "cannot be read: it is not a regular file"),
        (lambda _path: None, "No such file"),
        (lambda path: path.write_text(f"{DOCUMENT}more"), "was edited after its approval"),
        (lambda path: path.write_text(sealed(f"{DOCUMENT}more")), "was edited after its approval"),
        (lambda path: path.write_bytes(b"\xff" + OURS.encode()), "not UTF-8"),
        (lambda path: path.write_text(OURS + "x" * MAX_DOCUMENT_BYTES), "larger than"),
    ],
)
def test_anything_else_in_its_place_is_not_filed(office: Office, put: Any, told: str) -> None:
    put(office.worktree / NAME)

    _result, rows = office.run(CHANGED)

    assert told in str(rows[ITEM.label].error)
    assert office.fake.issues == {}


def test_a_folder_that_is_a_link_is_not_followed(office: Office) -> None:
    outside = office.worktree.with_name("outside")
    outside.mkdir()
    (outside / "dark-mode.md").write_text(OURS)
    (office.worktree / "issues/active").rmdir()
    (office.worktree / "issues/active").symlink_to(outside)

    _result, rows = office.run(CHANGED)

    assert "links are not followed" in str(rows[ITEM.label].error)
    assert office.fake.issues == {}


# The question.


@pytest.mark.parametrize("answer", [True, False, None, KeyboardInterrupt])
def test_without_yes_only_a_yes_files(office: Office, answer: Any) -> None:
    (office.worktree / NAME).write_text(OURS)
    dialog = FakeDialog(answer=answer)

    _result, rows = office.run(CHANGED, yes=False, dialog=dialog)

    [question] = dialog.asked
    assert question.startswith("File 1 approved issue on acme/widgets")
    assert question.endswith(f"({ITEM.label})?")
    assert rows[ITEM.label].filing == ("filed" if answer is True else "wanted")
    assert any("--yes files without asking" in line for line in office.said) is (answer is None)


# What a person changed, and what is left behind.


def test_a_filed_document_leaves_a_receipt_and_goes(office: Office) -> None:
    (office.worktree / NAME).write_text(
        seal(DOCUMENT, item=ITEM.label, input_hash=CHANGED.input_hash, by="a")
    )

    _result, rows = office.run(CHANGED)

    assert rows[ITEM.label].filing == "filed"
    assert list((office.worktree / NAME).parent.iterdir()) == []
    (stamp,) = receipts(office.worktree, LINEAGE, ITEM.workflow)[ITEM.label]
    assert (stamp.input, stamp.filed) == (CHANGED.input_hash, f"acme/widgets#{1}")


def test_what_was_edited_since_its_approval_is_not_filed(office: Office) -> None:
    text = f"{OURS}\nA person's word.\n"
    (office.worktree / NAME).write_text(text)

    _result, rows = office.run(CHANGED)

    assert office.fake.issues == {}
    assert f"agentos revise {ITEM.id}" in str(rows[ITEM.label].error)
    assert (office.worktree / NAME).read_text() == text
    assert receipts(office.worktree, LINEAGE, ITEM.workflow) == {}
