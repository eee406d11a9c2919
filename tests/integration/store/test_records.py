"""Records: what is kept, what is kept once, who holds what, and that looking changes nothing."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import StorageError
from agentos.model import Item, Status
from agentos.store.records import _MIGRATIONS, Decided, Paid, Records, Taken, timestamp


def item(item_id: str = "42", text: str = "text", workflow: str = "lld") -> Item:
    return Item(workflow=workflow, id=item_id, label=f"LLD-{item_id}", title="T", text=text, source="x.md")


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    with Records(tmp_path / "records.db") as opened:
        yield opened


def approve(
    records: Records, one: Item, run_id: str = "run-1", output: str = "out.md", reviews: int = 2
) -> None:
    records.end(one, run_id, Status.APPROVED, verdict="APPROVED", reviews=reviews, output=output, error=None)


def end(records: Records, one: Item, status: Status, *, reviews: int = 0, error: str | None = None) -> None:
    records.end(one, "run-1", status, verdict=None, reviews=reviews, output=None, error=error)


def decided(one: Item, reviews: int, answer: str = "approve", note: str = "") -> Decided:
    return Decided(
        workflow=one.workflow,
        item=one.id,
        input_hash=one.input_hash,
        reviews=reviews,
        answer=answer,
        note=note,
        decided_by="ann",
        decided_at="2026-01-01T00:00:00.000Z",
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Outcomes.


def test_an_approval_becomes_the_outcome_of_that_item_and_input(records: Records) -> None:
    records.begin(item(), "run-1")
    approve(records, item())
    outcome = records.outcomes("lld")["42"]
    assert outcome.input_hash == item().input_hash
    assert (outcome.run_id, outcome.verdict, outcome.reviews, outcome.output) == (
        "run-1",
        "APPROVED",
        2,
        "out.md",
    )
    assert records.progress() == {}


def test_an_outcome_is_written_once(records: Records) -> None:
    approve(records, item(), "run-1", "first.md")
    approve(records, item(), "run-2", "second.md")
    (outcome,) = records.outcomes("lld").values()
    assert (outcome.run_id, outcome.output) == ("run-1", "first.md")


def test_the_latest_approval_of_an_item_is_the_one_that_counts(records: Records, tmp_path: Path) -> None:
    approve(records, item(text="old"), "run-1")
    approve(records, item(text="new"), "run-2")
    approve(records, item("43"), "run-1")
    db = sqlite3.connect(tmp_path / "records.db")  # the clock may give both the same millisecond
    with db:
        db.execute("UPDATE outcome SET finished_at = '2026-01-02' WHERE run_id = 'run-2'")
        db.execute("UPDATE outcome SET finished_at = '2026-01-01' WHERE run_id = 'run-1'")
    db.close()
    assert {key: one.run_id for key, one in records.outcomes("lld").items()} == {"42": "run-2", "43": "run-1"}
    assert records.outcomes("issue") == {}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.APPROVED])
def test_any_other_ending_is_no_outcome(records: Records, status: Status) -> None:
    records.begin(item(), "run-1")
    end(records, item(), status)
    assert records.outcomes("lld") == {}


# Progress.


def test_progress_follows_the_item_from_node_to_node(records: Records) -> None:
    records.begin(item(), "run-1")
    begun = records.progress("lld")["lld", "42"]
    assert (begun.status, begun.node, begun.reviews, begun.run_id) == ("running", "", 0, "run-1")
    records.at_node(item(), "review", 1)
    at = records.progress("lld")["lld", "42"]
    assert (at.status, at.node, at.reviews) == ("running", "review", 1)
    end(records, item(), Status.FAILED, reviews=2, error="it broke")
    ended = records.progress("lld")["lld", "42"]
    assert (ended.status, ended.node, ended.reviews, ended.error) == ("failed", "review", 2, "it broke")


def test_a_later_run_on_the_same_input_keeps_how_far_the_item_got(records: Records) -> None:
    records.begin(item(), "run-1")
    records.at_node(item(), "review", 2)
    end(records, item(), Status.INTERRUPTED)
    records.begin(item(), "run-2")
    again = records.progress()["lld", "42"]
    assert (again.status, again.run_id, again.node, again.reviews) == ("running", "run-2", "review", 2)


def test_a_later_run_on_another_input_begins_from_nothing(records: Records) -> None:
    records.begin(item(text="old"), "run-1")
    records.at_node(item(text="old"), "review", 4)
    end(records, item(text="old"), Status.FAILED, reviews=4, error="it broke")
    records.begin(item(text="new"), "run-2")
    anew = records.progress()["lld", "42"]
    assert anew.input_hash == item(text="new").input_hash
    assert (anew.node, anew.reviews, anew.error) == ("", 0, None)


def test_an_ending_that_knows_of_fewer_reviews_takes_none_back(records: Records) -> None:
    records.begin(item(), "run-1")
    records.at_node(item(), "draft", 3)
    end(records, item(), Status.INTERRUPTED, reviews=0)
    assert records.progress()["lld", "42"].reviews == 3


def test_progress_may_be_asked_for_one_workflow_or_all(records: Records) -> None:
    records.begin(item(), "run-1")
    records.begin(item("idea", workflow="issue"), "run-1")
    assert records.progress().keys() == {("lld", "42"), ("issue", "idea")}
    assert records.progress("issue").keys() == {("issue", "idea")}


def test_progress_can_be_dropped(records: Records) -> None:
    records.begin(item(), "run-1")
    records.begin(item("43"), "run-1")
    records.drop_progress("lld", "42")
    records.drop_progress("lld", "nobody")
    assert records.progress().keys() == {("lld", "43")}


def test_a_forgotten_item_is_as_if_it_had_never_been_run(records: Records) -> None:
    for one in (item(), item("43")):
        approve(records, one)
        records.begin(one, "run-2")
        records.decide(decided(one, 1))
    records.forget(item())
    assert records.outcomes("lld").keys() == {"43"}
    assert records.progress().keys() == {("lld", "43")}
    assert records.decision(item(), 1) is None
    assert records.decision(item("43"), 1) is not None


# Decisions.


def test_a_decision_answers_one_discussion_of_one_input_and_no_other(records: Records) -> None:
    records.decide(decided(item(), 2, "revise", "use less"))
    found = records.decision(item(), 2)
    assert found is not None
    assert (found.answer, found.note, found.decided_by) == ("revise", "use less", "ann")
    assert records.decision(item(), 3) is None
    assert records.decision(item("43"), 2) is None
    assert records.decision(item(text="changed"), 2) is None


def test_the_last_word_of_a_person_counts(records: Records) -> None:
    records.decide(decided(item(), 2, "revise"))
    records.decide(decided(item(), 2, "approve"))
    found = records.decision(item(), 2)
    assert found is not None
    assert found.answer == "approve"


# Claims.


def test_an_item_is_held_by_one_living_run(records: Records) -> None:
    both = [item("1"), item("2")]
    assert records.claim(both[:1], "run-1", alive=lambda _: True) == {}
    refused = records.claim(both, "run-2", alive=lambda _: True)
    assert refused.keys() == {"1"}
    assert (refused["1"].run_id, refused["1"].pid) == ("run-1", os.getpid())
    assert {key: claim.run_id for key, claim in records.claims().items()} == {
        ("lld", "1"): "run-1",
        ("lld", "2"): "run-2",
    }


def test_the_claim_of_a_dead_run_is_taken_over(records: Records) -> None:
    records.claim([item()], "run-1", alive=lambda _: True)
    records.claim([item("43")], "run-2", alive=lambda _: True)
    assert records.claim([item()], "run-3", alive=lambda run: run != "run-1") == {}
    assert {key: claim.run_id for key, claim in records.claims().items()} == {
        ("lld", "42"): "run-3",
        ("lld", "43"): "run-2",
    }


def test_the_claims_of_dead_runs_go_also_on_items_nobody_wants(records: Records) -> None:
    records.claim([item("1"), item("2")], "run-1", alive=lambda _: True)
    records.claim([item("3")], "run-2", alive=lambda _: False)
    assert records.claims().keys() == {("lld", "3")}


def test_a_run_releases_its_own_claims_only(records: Records) -> None:
    records.claim([item("1")], "run-1", alive=lambda _: True)
    records.claim([item("2")], "run-2", alive=lambda _: True)
    records.release("run-1")
    assert records.claims().keys() == {("lld", "2")}


def test_the_same_id_in_two_workflows_is_two_items(records: Records) -> None:
    records.claim([item()], "run-1", alive=lambda _: True)
    assert records.claim([item(workflow="issue")], "run-2", alive=lambda _: True) == {}


def test_a_claim_that_fails_in_its_midst_takes_nothing(records: Records) -> None:
    records.claim([item("2")], "run-1", alive=lambda _: True)

    def broken(_run: str) -> bool:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        records.claim([item("1"), item("2")], "run-2", alive=broken)
    assert records.claims().keys() == {("lld", "2")}
    assert records.claim([item("1")], "run-3", alive=lambda _: True) == {}


# The file.


def test_records_survive_their_process_and_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    before = os.umask(0)
    try:
        with Records(path) as first:
            approve(first, item())
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes
    with Records(path) as second:
        assert len(second.outcomes("lld")) == 1


def test_a_timestamp_is_utc_to_the_millisecond() -> None:
    assert len(timestamp()) == len("2026-01-01T00:00:00.000Z")
    assert timestamp().endswith("Z")


@pytest.mark.parametrize("kind", ["garbage", "link", "folder"])
def test_a_file_that_is_no_database_of_ours_is_a_storage_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "records.db"
    if kind == "garbage":
        path.write_bytes(b"not a database" * 100)
    elif kind == "link":
        path.symlink_to(tmp_path / "other.db")
    else:
        path.mkdir()
    with pytest.raises(StorageError, match=r"records\.db"), Records(path) as records:
        records.progress()


def test_garbage_is_a_storage_error_also_for_those_who_only_look(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StorageError), Records(path, write=False) as records:
        records.outcomes("lld")


def test_looking_where_nothing_is_finds_nothing_and_makes_nothing(tmp_path: Path) -> None:
    with Records(tmp_path / "records.db", write=False) as records:
        assert (records.outcomes("lld"), records.progress(), records.claims()) == ({}, {}, {})
        assert records.decision(item(), 1) is None
    assert list(tmp_path.iterdir()) == []


def test_looking_changes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with Records(path) as writer:
        approve(writer, item())
    before = files_of(tmp_path)
    with Records(path, write=False) as reader:
        assert len(reader.outcomes("lld")) == 1
        with pytest.raises((StorageError, AssertionError)):
            reader.begin(item(), "run-1")
    assert files_of(tmp_path) == before


def test_one_who_looks_sees_what_a_living_run_has_written(records: Records, tmp_path: Path) -> None:
    approve(records, item())
    with Records(tmp_path / "records.db", write=False) as reader:
        assert len(reader.outcomes("lld")) == 1
        approve(records, item("43"))
        assert len(reader.outcomes("lld")) == 2


def test_one_who_looks_after_a_kill_sees_everything_and_changes_neither_database_nor_log(
    records: Records, tmp_path: Path
) -> None:
    approve(records, item())
    after_kill = tmp_path / "after-kill"
    after_kill.mkdir()
    for path in tmp_path.glob("records.db*"):
        shutil.copy(path, after_kill)
    before = files_of(after_kill)
    assert "records.db-wal" in before
    with Records(after_kill / "records.db", write=False) as reader:
        assert len(reader.outcomes("lld")) == 1
    after = files_of(after_kill)
    assert after.keys() == before.keys()
    for name in ("records.db", "records.db-wal"):
        assert after[name] == before[name]
    with Records(after_kill / "records.db") as writer:
        assert len(writer.outcomes("lld")) == 1


# What items took.

MODELS = {"drafter": "openai:big", "reviewer": "openai:small"}


def pay(records: Records, one: Item, role: str, number: int = 1, **more: Any) -> None:
    told: dict[str, Any] = {"life": f"life-{one.id}", "run_id": "run-1", "model": MODELS[role], "usd": 0.1}
    told |= {"tokens_in": 100, "tokens_out": 10}
    records.pay(Paid(role=role, number=number, workflow=one.workflow, item=one.id, **told | more))


def test_what_an_item_took_is_known_once_it_is_approved(records: Records) -> None:
    for number, role in ((1, "drafter"), (2, "drafter"), (1, "reviewer")):
        pay(records, item(), role, number)
    assert records.tokens_of_items("lld", **MODELS) == []
    approve(records, item())
    assert records.tokens_of_items("lld", **MODELS) == [
        {
            "drafter": Taken(calls=2, tokens_in=200, tokens_out=20),
            "reviewer": Taken(calls=1, tokens_in=100, tokens_out=10),
        }
    ]
    assert records.tokens_of_items("issue", **MODELS) == []


@pytest.mark.parametrize("role", ["drafter", "reviewer"])
@pytest.mark.parametrize("model", ["mock:drafter", "openai:other", None])
def test_an_item_with_a_call_of_another_or_an_unknown_model_is_not_measured(
    records: Records, role: str, model: str | None
) -> None:
    pay(records, item(), "drafter")
    pay(records, item(), "reviewer")
    pay(records, item(), role, 2, model=model)
    approve(records, item())
    assert records.tokens_of_items("lld", **MODELS) == []
    assert records.tokens_of_items("lld", drafter=None, reviewer=None) == []


def test_an_item_is_measured_by_its_latest_start_and_what_failed_in_it(records: Records) -> None:
    pay(records, item(), "drafter", life="set aside", run_id="run-0", tokens_in=9_000)
    pay(records, item(), "drafter", 0, life="run-0-1", run_id="run-0", tokens_in=5_000)
    records.forget(item())
    pay(records, item(), "drafter")
    pay(records, item(), "drafter", 0, life="run-1-1", tokens_in=7, tokens_out=0)
    pay(records, item(), "reviewer")
    approve(records, item())
    [found] = records.tokens_of_items("lld", **MODELS)
    assert found["drafter"] == Taken(calls=2, tokens_in=107, tokens_out=10)


def test_records_from_before_models_were_noted_are_kept_and_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with Records(path) as records:
        pay(records, item(), "drafter")
        approve(records, item())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE call DROP COLUMN model")
        db.execute(f"PRAGMA user_version={_MIGRATIONS.index('005-models.sql')}")
    for write in (False, True):
        with Records(path, write=write) as records:
            assert records.tokens_of_items("lld", **MODELS) == []
            assert records.tokens_of_items("lld", drafter=None, reviewer=None) == []
            assert records.usual_outputs("lld") == {"drafter": 10}
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(_MIGRATIONS),)


# Two runs at once.

WRITER = """
import sys
from pathlib import Path
from agentos.model import Item, Status
from agentos.store.records import Records

who, count = sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
with Records(Path(sys.argv[1])) as records:
    about = {"workflow": "lld", "label": "L", "title": "T", "text": "x", "source": "s"}
    items = [Item(id=f"{number}", **about) for number in range(count)]
    refused = records.claim(items, who, alive=lambda claim: True)
    for item in items:
        records.begin(item, who)
        records.at_node(item, "draft", 0)
        records.end(item, who, Status.APPROVED, verdict=None, reviews=1, output=who, error=None)
    print(count - len(refused))
"""


def test_processes_that_open_and_write_at_once_lose_nothing_and_each_item_has_one_holder(
    tmp_path: Path,
) -> None:
    count = 20
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "records.db"), f"run-{number}", str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    ends = [writer.communicate(timeout=60) for writer in writers]
    assert [(writer.returncode, told[1]) for writer, told in zip(writers, ends, strict=True)] == [(0, "")] * 4
    assert sum(int(told[0]) for told in ends) == count
    with Records(tmp_path / "records.db", write=False) as records:
        assert len(records.outcomes("lld")) == count
        assert len(records.claims()) == count


def test_the_source_of_each_workflow_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with Records(path) as records:
        assert records.source("lld") is None
        records.note_source("lld", "issues/active")
        records.note_source("issue", "ideas/active")
        records.note_source("lld", "acme/widgets on GitHub")
    with Records(path, write=False) as records:
        assert records.source("lld") == "acme/widgets on GitHub"
        assert records.source("issue") == "ideas/active"
