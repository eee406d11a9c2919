"""The desk: which file is posted, and what earlier runs left unknown."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from agentos.cli.desk import Desk, read_document
from agentos.coordinator.plan import Entry, Step
from agentos.coordinator.scheduler import Stop
from agentos.coordinator.signals import StopSignals
from agentos.errors import AgentosError, ItemFailed
from agentos.github.client import GitHub
from agentos.github.repository import Repository
from agentos.model import Item, Status
from agentos.report.summary import ItemRow
from agentos.secret import Secret
from agentos.stamp import seal
from agentos.store.documents import MAX_DOCUMENT_BYTES
from agentos.store.lineage import receipts
from agentos.store.records import FilingState, Records
from harness.github import FakeGitHub, running_fakegithub
from integration.coordinator.filing_process import DOCUMENT, ITEM

if TYPE_CHECKING:
    from agentos.coordinator.book import RunBook

OURS = seal(DOCUMENT, item=ITEM.label, input_hash=ITEM.input_hash, by="a+b")
NAME = "issues/active/dark-mode.md"
LINEAGE = "docs/lineage"


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    (tmp_path / "tree/issues/active").mkdir(parents=True)
    return tmp_path / "tree"


def test_our_own_document_is_read(worktree: Path) -> None:
    (worktree / NAME).write_text(OURS)

    assert read_document(worktree, NAME, ITEM) == OURS


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
        (lambda path: path.write_text(DOCUMENT), "not the document that was approved"),
        (lambda path: path.write_text(OURS.replace(ITEM.label, "ISSUE-x")), "not the document that"),
        (lambda path: path.write_text(OURS.replace(ITEM.label, f"{ITEM.label}-2")), "not the document that"),
        (lambda path: path.write_bytes(b"\xff" + OURS.encode()), "not UTF-8"),
        (lambda path: path.write_text(OURS + "x" * MAX_DOCUMENT_BYTES), "larger than"),
    ],
)
def test_anything_else_in_its_place_is_not(worktree: Path, put: Any, told: str) -> None:
    put(worktree / NAME)

    with pytest.raises(ItemFailed, match=told):
        read_document(worktree, NAME, ITEM)


def test_a_folder_that_is_a_link_is_not_followed(worktree: Path) -> None:
    outside = worktree.with_name("outside")
    outside.mkdir()
    (outside / "dark-mode.md").write_text(OURS)
    (worktree / "issues/active").rmdir()
    (worktree / "issues/active").symlink_to(outside)

    with pytest.raises(AgentosError, match="active is a symbolic link, and links are not followed"):
        read_document(worktree, NAME, ITEM)


# What earlier runs left unknown.


class Office:
    """A desk with everything around it, and an attempt for an item that was made long ago."""

    def __init__(self, fake: FakeGitHub, records: Records, worktree: Path) -> None:
        self.fake, self.records, self.worktree = fake, records, worktree
        self.said: list[str] = []
        told: dict[str, Any] = {"verdict": "APPROVED", "reviews": 1, "output": NAME, "error": None}
        records.end(ITEM, "run-1", Status.APPROVED, **told, filing=FilingState.WANTED)
        records.intend(
            ITEM,
            repository=f"{fake.url}/repos/acme/widgets",
            marker=f"<!-- agentos-filing: {'0' * 32} -->",
            at=(datetime.now(UTC) - timedelta(hours=1)).isoformat(),
        )

    def run(self, *items: Item) -> tuple[Desk, dict[str, ItemRow]]:
        rows = {
            item.label: ItemRow(
                id=item.id, label=item.label, status=Status.APPROVED, output=NAME, filing="wanted"
            )
            for item in items
        }
        book = SimpleNamespace(rows=rows, say=self.said.append, tell=lambda _event: None, run_id="run-2")
        repository = Repository(full_name="acme/widgets", api_url=self.fake.url)
        github = GitHub(repository, Secret("github-token", self.fake.token), sleep=lambda _seconds: None)
        with StopSignals() as signals:
            desk = Desk(
                github, self.records, cast("RunBook", book), signals, yes=True, lineage_folder=LINEAGE
            )
            desk.file([Entry(item=item, step=Step.FILE) for item in items], self.worktree, None)
        return desk, rows

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

    desk, _rows = office.run()

    assert office.state() is FilingState.FILED
    assert not desk.unfinished


def test_what_is_absent_still_waits_where_its_text_may_be_the_latest(office: Office) -> None:
    office.run()

    assert office.state() is FilingState.WANTED


def test_what_is_absent_is_over_where_the_text_changed(office: Office) -> None:
    (office.worktree / NAME).write_text(OURS)

    _desk, rows = office.run(CHANGED)

    assert office.state() is FilingState.KEPT
    assert rows[ITEM.label].filing == "filed"
    assert len(office.fake.issues) == 1


def test_what_stays_unknown_is_unfinished_and_holds_the_new_text_back(office: Office) -> None:
    (office.worktree / NAME).write_text(OURS)
    office.fake.fail_lists(404)

    desk, rows = office.run(CHANGED)

    assert desk.unfinished
    assert rows[ITEM.label].filing == "unknown"
    assert office.fake.count("POST") == 0
    assert office.state() is FilingState.INTENDED
    assert office.run()[0].unfinished


def test_a_run_that_was_stopped_looks_at_nothing(office: Office) -> None:
    book = SimpleNamespace(rows={}, say=office.said.append)
    repository = Repository(full_name="acme/widgets", api_url=office.fake.url)
    github = GitHub(repository, Secret("github-token", office.fake.token))
    with StopSignals() as signals:
        desk = Desk(github, office.records, cast("RunBook", book), signals, yes=True, lineage_folder=LINEAGE)
        assert desk.file([], office.worktree, Stop.INTERRUPTED) is Stop.INTERRUPTED
    assert office.fake.requests == []


# What a person changed, and what is left behind.


def test_a_filed_document_leaves_a_receipt_and_goes(office: Office) -> None:
    (office.worktree / NAME).write_text(
        seal(DOCUMENT, item=ITEM.label, input_hash=CHANGED.input_hash, by="a")
    )

    _desk, rows = office.run(CHANGED)

    assert rows[ITEM.label].filing == "filed"
    assert list((office.worktree / NAME).parent.iterdir()) == []
    (stamp,) = receipts(office.worktree, LINEAGE, ITEM.workflow)[ITEM.label]
    assert (stamp.input, stamp.filed) == (CHANGED.input_hash, f"acme/widgets#{1}")


@pytest.mark.parametrize("by", ["a+b", "mock"])
def test_what_was_edited_since_its_approval_or_is_the_mocks_is_not_filed(office: Office, by: str) -> None:
    text = seal(DOCUMENT, item=ITEM.label, input_hash=ITEM.input_hash, by=by)
    text = text if by == "mock" else f"{text}\nA person's word.\n"
    (office.worktree / NAME).write_text(text)

    _desk, rows = office.run(CHANGED)

    assert office.fake.issues == {}
    assert f"agentos revise {ITEM.id}" in str(rows[ITEM.label].error)
    assert (office.worktree / NAME).read_text() == text
    assert receipts(office.worktree, LINEAGE, ITEM.workflow) == {}
