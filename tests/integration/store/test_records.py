"""Records: what is kept, what is kept once, who holds what, and that looking changes nothing."""

import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import StorageError
from agentos.model import Item, Status
from agentos.store.records import _MIGRATIONS, Decided, FilingState, Paid, Records, Taken, timestamp


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
    with closing(sqlite3.connect(path)) as db, db:
        before = _MIGRATIONS.index("005-models.sql")
        for name in _MIGRATIONS[:before]:
            db.executescript(resources("agentos.store").joinpath("sql", name).read_text("utf-8"))
        db.execute(f"PRAGMA user_version={before}")
        db.execute(
            "INSERT INTO outcome (workflow, item, input_hash, run_id, reviews, finished_at)"
            " VALUES ('lld', '42', 'x', 'run-1', 1, '2026')"
        )
        db.execute(
            "INSERT INTO call (life, role, number, run_id, workflow, item, tokens_in, tokens_out, counts)"
            " VALUES ('a', 'drafter', 1, 'run-1', 'lld', '42', 5, 10, 0)"
        )
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


# Two worlds: what is real, and what is the mock's.


@pytest.mark.parametrize("mock", [False, True])
def test_nothing_that_one_world_notes_is_seen_in_the_other(records: Records, mock: bool) -> None:
    mine, other = records.of(mock=mock), records.of(mock=not mock)
    mine.begin(item("1"), "run-1")
    mine.at_node(item("1"), "review", 1)
    end(mine, item("1"), Status.DISCUSS, reviews=1, error="Which?")
    mine.decide(decided(item("1"), 1))
    mine.add_note("lld", "1", text="Better.", by="ann")
    mine.begin_run("run-1", "lld", ["1", "2"], lambda _run: False)
    mine.pay(paid("life-1", usd=2.0))
    approve(mine, item("2"))
    assert (mine.mock, other.mock) == (mock, not mock)
    assert list(mine.progress()) == [("lld", "1")]
    assert list(mine.outcomes("lld")) == ["2"]
    assert mine.decision(item("1"), 1) is not None
    assert list(mine.notes()) == [("lld", "1")]
    assert mine.spent_on_items("lld") == {"1": 2.0}
    assert mine.usual_outputs("lld") == {"drafter": 20}
    assert other.progress() == {}
    assert other.outcomes("lld") == {}
    assert other.decision(item("1"), 1) is None
    assert other.notes() == {}
    assert other.spent_on_items("lld") == {}
    assert other.usual_outputs("lld") == {}


def paid(life: str, *, run_id: str = "run-1", one: str = "1", usd: float = 1.0) -> Paid:
    return Paid(
        life=life,
        role="drafter",
        number=1,
        run_id=run_id,
        workflow="lld",
        item=one,
        tokens_in=10,
        tokens_out=20,
        usd=usd,
        model="a:x",
    )


@pytest.mark.parametrize("mock", [False, True])
def test_what_one_world_does_changes_nothing_in_the_other(records: Records, mock: bool) -> None:
    mine, other = records.of(mock=mock), records.of(mock=not mock)
    for world, run in ((mine, "run-1"), (other, "run-2")):
        world.begin(item(), run)
        world.at_node(item(), "review", 3)
        world.decide(decided(item(), 3))
        world.pay(paid(run, run_id=run, one="42"))
        approve(world, item("7"), run)
    before = (other.progress(), other.outcomes("lld"), other.decision(item(), 3), other.spent_on_items("lld"))
    mine.begin(item(text="another"), "run-3")
    mine.at_node(item(text="another"), "draft", 1)
    end(mine, item(text="another"), Status.FAILED, error="x")
    mine.moved(item("7"), "elsewhere.md")
    mine.forget(item())
    mine.forget(item("7"))
    approve(mine, item(), "run-4")
    mine.drop_progress("lld", "42")
    assert before == (
        other.progress(),
        other.outcomes("lld"),
        other.decision(item(), 3),
        other.spent_on_items("lld"),
    )
    assert other.progress()["lld", "42"].run_id == "run-2"
    assert mine.progress() == {}


def test_a_real_run_does_not_go_on_from_one_of_the_mock(records: Records) -> None:
    mock = records.of(mock=True)
    mock.begin_run("run-1", "lld", ["1"], lambda _run: False)
    mock.pay(paid("life-1", usd=5.0))
    records.begin_run("run-2", "lld", ["1"], lambda _run: False)
    assert records.spent_before("lld", "run-2") == {}
    mock.begin_run("run-3", "lld", ["1"], lambda _run: False)
    assert mock.spent_before("lld", "run-3") == {"1": 5.0}


def test_the_history_of_what_items_took_is_of_one_world(records: Records) -> None:
    for world, life in ((records, "a"), (records.of(mock=True), "b")):
        world.pay(paid(life, run_id=f"run-{life}"))
    approve(records.of(mock=True), item("1"))
    assert records.tokens_of_items("lld", drafter="a:x", reviewer="b:y") == []
    [found] = records.of(mock=True).tokens_of_items("lld", drafter="a:x", reviewer="b:y")
    assert found == {"drafter": Taken(calls=1, tokens_in=10, tokens_out=20)}


@pytest.mark.parametrize("filing", [False, True])
def test_the_mock_forgets_nothing_of_what_is_on_github(records: Records, filing: bool) -> None:
    records.end(
        item(),
        "run-1",
        Status.APPROVED,
        verdict="APPROVED",
        reviews=1,
        output="x.md",
        error=None,
        filing=FilingState.WANTED,
    )
    records.of(mock=True).forget(item(), filing=filing)
    row = records.filing(item())
    assert row is not None
    assert row.state is FilingState.WANTED
    records.forget(item(), filing=filing)
    assert records.filing(item()) is None


def test_a_claim_holds_in_both_worlds(records: Records) -> None:
    assert records.claim([item()], "run-1", lambda _run: True) == {}
    assert set(records.of(mock=True).claim([item()], "run-2", lambda _run: True)) == {"42"}


# Notes.


def test_notes_are_given_in_the_order_they_were_said_until_a_run_has_used_them(records: Records) -> None:
    for text in ("First.", "", "Third."):
        records.add_note("lld", "42", text=text, by="ann")
    records.add_note("lld", "43", text="Another.", by="ben")
    records.add_note("issue", "42", text="A brief.", by="ben")
    notes = records.notes("lld")["lld", "42"]
    assert [(note.text, note.noted_by) for note in notes] == [
        ("First.", "ann"),
        ("", "ann"),
        ("Third.", "ann"),
    ]
    assert notes[0].id < notes[1].id < notes[2].id
    assert set(records.notes("lld")) == {("lld", "42"), ("lld", "43")}
    assert set(records.notes()) == {("lld", "42"), ("lld", "43"), ("issue", "42")}
    records.use_notes(notes[:2], "run-1")
    assert records.notes("lld")["lld", "42"] == notes[2:]
    records.use_notes(notes, "run-2")
    assert set(records.notes("lld")) == {("lld", "43")}


def test_a_note_is_used_once_and_by_the_first(records: Records, tmp_path: Path) -> None:
    records.add_note("lld", "42", text="x", by="ann")
    notes = records.notes()["lld", "42"]
    records.use_notes(notes, "run-1")
    records.use_notes(notes, "run-2")
    with contextlib.closing(sqlite3.connect(tmp_path / "records.db")) as database:
        assert database.execute("SELECT used_by FROM note").fetchall() == [("run-1",)]


def test_a_note_that_is_said_while_a_run_uses_others_waits(records: Records) -> None:
    records.add_note("lld", "42", text="before", by="ann")
    notes = records.notes()["lld", "42"]
    records.add_note("lld", "42", text="meanwhile", by="ann")
    records.use_notes(notes, "run-1")
    assert [note.text for note in records.notes()["lld", "42"]] == ["meanwhile"]


# Hashes of the first version.


def test_what_was_noted_under_the_old_hash_of_a_text_is_taken_over(records: Records) -> None:
    old, new = item(text="text and stamp"), replace(item(), old_hash=item(text="text and stamp").input_hash)
    records.end(
        old,
        "run-1",
        Status.APPROVED,
        verdict="APPROVED",
        reviews=1,
        output="x.md",
        error=None,
        filing=FilingState.KEPT,
    )
    records.begin(old, "run-2")
    records.decide(decided(old, 1))
    other = item("43", text="text and stamp")
    records.begin(other, "run-3")
    for _ in range(2):
        records.rehash(new)
    assert records.outcomes("lld")["42"].input_hash == new.input_hash
    assert records.progress()["lld", "42"].input_hash == new.input_hash
    assert records.decision(new, 1) is not None
    assert records.decision(old, 1) is None
    assert records.filing(new) is not None
    assert records.filing(old) is None
    assert records.progress()["lld", "43"].input_hash == other.input_hash


def test_what_the_new_hash_has_already_stays(records: Records) -> None:
    old, new = item(text="old"), replace(item(), old_hash=item(text="old").input_hash)
    approve(records, old, "run-1")
    approve(records, new, "run-2")
    records.rehash(new)
    assert {one.run_id for one in records.outcomes("lld").values()} == {"run-2"}


@pytest.mark.parametrize("old_hash", ["", item().input_hash])
def test_without_an_old_hash_nothing_is_done(records: Records, old_hash: str) -> None:
    approve(records, item(text="old"))
    records.rehash(replace(item(), old_hash=old_hash))
    assert records.outcomes("lld")["42"].input_hash == item(text="old").input_hash


# A database of the version before.


def old_database(home: Path, runs: Mapping[str, str]) -> Path:
    """Write one as it was: a row of each kind for each run, whose item is named as the run."""
    path = home / "records.db"
    now = "2026-01-01T00:00:00.000Z"
    with contextlib.closing(sqlite3.connect(path)) as database:
        for name in ("001-records.sql", "002-spending.sql", "003-filing.sql"):
            database.executescript(resources("agentos.store").joinpath("sql", name).read_text("utf-8"))
        database.execute("PRAGMA user_version=3")
        for run in runs:
            done, under_way = item(f"{run}-done").input_hash, item(f"{run}-begun").input_hash
            database.execute(
                "INSERT INTO outcome VALUES ('lld', ?, ?, ?, 'APPROVED', 2, 'out.md', ?)",
                (f"{run}-done", done, run, now),
            )
            database.execute(
                "INSERT INTO progress VALUES ('lld', ?, ?, ?, 'discuss', 'hold', 1, 'Which?', ?)",
                (f"{run}-begun", under_way, run, now),
            )
            database.execute(
                "INSERT INTO decision VALUES ('lld', ?, ?, 1, 'approve', '', 'ann', ?)",
                (f"{run}-begun", under_way, now),
            )
            database.execute("INSERT INTO run (run_id, workflow) VALUES (?, 'lld')", (run,))
            database.execute(
                "INSERT INTO call VALUES (?, 'drafter', 1, ?, 'lld', ?, 10, 20, 0.5, 1)",
                (f"life-{run}", run, f"{run}-begun"),
            )
            database.execute(
                "INSERT INTO filing (workflow, item, input_hash, state, updated_at)"
                " VALUES ('lld', ?, ?, 'kept', ?)",
                (f"{run}-done", done, now),
            )
        database.commit()
    for run, kind in runs.items():
        if kind == "gone":
            continue
        folder = home / "logs" / "parallel" / run
        folder.mkdir(parents=True)
        told = {
            "real": ("summary.json", {"keys": [{"provider": "openai", "calls": 2}]}),
            "mock": ("summary.json", {"keys": [{"provider": "mock", "calls": 2}]}),
            "said mock": ("summary.json", {"mock": True, "keys": []}),
            "said real": ("summary.json", {"mock": False, "keys": [{"provider": "mock", "calls": 1}]}),
            "real, mock unused": (
                "summary.json",
                {"keys": [{"provider": "openai", "calls": 2}, {"provider": "mock", "calls": 0}]},
            ),
            "half mock": (
                "summary.json",
                {"keys": [{"provider": "openai", "calls": 1}, {"provider": "mock", "calls": 1}]},
            ),
            "killed real": ("events.jsonl", {"event": "leased", "item": "1", "provider": "openai"}),
            "killed mock": ("events.jsonl", {"event": "leased", "item": "1", "provider": "mock"}),
            "broken": ("summary.json", []),
        }
        name, content = told[kind]
        (folder / name).write_text(json.dumps(content) + "\n")
    return path


RUNS = {
    "r1": "real",
    "r2": "said real",
    "r3": "real, mock unused",
    "r4": "killed real",
    "r5": "gone",
    "r6": "broken",
    "m1": "mock",
    "m2": "said mock",
    "m3": "half mock",
    "m4": "killed mock",
}


@pytest.mark.parametrize("write", [True, False])
def test_the_rows_of_the_version_before_come_into_the_world_of_their_run(tmp_path: Path, write: bool) -> None:
    path = old_database(tmp_path, RUNS)
    with Records(path, write=write) as records:
        for world, prefix in ((records, "r"), (records.of(mock=True), "m")):
            mine = [run for run in RUNS if run.startswith(prefix)]
            assert sorted(world.outcomes("lld")) == sorted(f"{run}-done" for run in mine)
            assert {one for _, one in world.progress()} == {f"{run}-begun" for run in mine}
            assert world.spent_on_items("lld") == {f"{run}-begun": 0.5 for run in mine}
            for run in mine:
                assert world.decision(item(f"{run}-begun"), 1) is not None, run
                assert world.progress()["lld", f"{run}-begun"].error == "Which?"
                assert world.outcomes("lld")[f"{run}-done"].output == "out.md"
            assert world.notes() == {}
        assert len(records.filings("lld")) == len(RUNS)


def test_looking_at_the_version_before_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = old_database(tmp_path, RUNS)
    before = path.read_bytes()
    with Records(path, write=False) as records:
        assert records.outcomes("lld")
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("records.db-*"))


def test_the_version_before_is_taken_over_once_and_then_written_to(tmp_path: Path) -> None:
    path = old_database(tmp_path, {"r1": "real", "m1": "mock"})
    with Records(path) as records:
        records.begin(item("r1-begun"), "run-2")
        records.of(mock=True).begin(item("r1-begun"), "run-3")
        approve(records.of(mock=True), item("r1-done"))
        records.add_note("lld", "r1-done", text="x", by="ann")
    (tmp_path / "logs/parallel/r1/summary.json").write_text('{"mock": true}')
    with Records(path) as records:
        assert records.progress()["lld", "r1-begun"].run_id == "run-2"
        assert set(records.outcomes("lld")) == {"r1-done"}
        assert set(records.of(mock=True).outcomes("lld")) == {"m1-done", "r1-done"}
        assert list(records.notes()) == [("lld", "r1-done")]


def test_an_answer_to_the_mock_is_no_answer_to_a_real_review(tmp_path: Path) -> None:
    path = old_database(tmp_path, {"m1": "mock"})
    done = item("m1-done")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "INSERT INTO decision VALUES ('lld', ?, ?, 1, 'approve', '', 'ann', '2026-01-01')",
            (done.id, done.input_hash),
        )
        database.commit()
    with Records(path) as records:
        assert records.decision(done, 1) is None
