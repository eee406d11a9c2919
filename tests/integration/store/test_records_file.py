"""The file of the records: whose it is, what is refused, who may look, and those of earlier versions."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.resources import files as resources
from pathlib import Path

import pytest

from agentos.decisions import Decision
from agentos.errors import StorageError
from agentos.store.records import Fence, Records
from agentos.store.records.migrations import MIGRATIONS
from harness.records import AT, approve, begin, hold, item, note, said

MODELS = {"drafter": "openai:big", "reviewer": "openai:small"}


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    with Records(tmp_path / "records.db") as opened:
        yield opened


def made_before(path: Path, migration: str) -> sqlite3.Connection:
    """Open a database as it was before this migration."""
    database, before = sqlite3.connect(path), MIGRATIONS.index(migration)
    for name in MIGRATIONS[:before]:
        database.executescript(resources("agentos.store").joinpath("sql", name).read_text("utf-8"))
    database.execute(f"PRAGMA user_version={before}")
    return database


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


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
        assert records.decisions() == {}
    assert list(tmp_path.iterdir()) == []


def test_looking_changes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with Records(path) as writer:
        approve(writer, item())
    before = files_of(tmp_path)
    with Records(path, write=False) as reader:
        assert len(reader.outcomes("lld")) == 1
        with pytest.raises((StorageError, AssertionError)):
            reader.begin(item(), Fence(run_id="run-1", attempt=1))
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


def test_records_from_before_models_were_noted_are_kept_and_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with closing(made_before(path, "005-models.sql")) as db, db:
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
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


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


def test_a_decision_is_used_once_and_by_the_first(records: Records, tmp_path: Path) -> None:
    note(records, item())
    for run in ("run-1", "run-2"):
        (known,) = said(records, item())
        records.use_decisions(item(), hold(records, item(), run), known.id, kept=False)
    with closing(sqlite3.connect(tmp_path / "records.db")) as database:
        assert database.execute("SELECT used_by FROM note").fetchall() == [("run-1",)]


# Two runs at once.

WRITER = """
import sys
from pathlib import Path
from agentos.model import Item, Status
from agentos.store.records import Fence, Records

who, count = sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
fence = Fence(run_id=who, attempt=1)
with Records(Path(sys.argv[1]), alive=lambda run: True) as records:
    about = {"workflow": "lld", "label": "L", "title": "T", "text": "x", "source": "s"}
    items = [Item(id=f"{number}", **about) for number in range(count)]
    refused = records.claim(items, who)
    for item in items:
        records.begin(item, fence)
        records.at_node(item, fence, "draft", 0)
        records.end(item, fence, Status.APPROVED, verdict=None, reviews=1, output=who, error=None)
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
        holders = {item: claim.run_id for (_, item), claim in records.claims().items()}
        assert len(holders) == count
        assert {one.item: one.run_id for one in records.outcomes("lld").values()} == holders


# A database of the version before.


def old_database(home: Path, runs: Mapping[str, str]) -> Path:
    """Write one as it was: a row of each kind for each run, whose item is named as the run."""
    path = home / "records.db"
    now = "2026-01-01T00:00:00.000Z"
    with closing(made_before(path, "004-source.sql")) as database, database:
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
                (known,) = said(world, item(f"{run}-begun"))
                assert (known.question, known.answer, known.used) == ("Which?", "approve", False), run
                assert world.progress()["lld", f"{run}-begun"].error == "Which?"
                assert world.outcomes("lld")[f"{run}-done"].output == "out.md"
            assert len(world.decisions()) == len(mine)
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
        begin(records, item("r1-begun"), "run-2")
        begin(records.of(mock=True), item("r1-begun"), "run-3")
        approve(records.of(mock=True), item("r1-done"))
        note(records, item("r1-done"))
    (tmp_path / "logs/parallel/r1/summary.json").write_text('{"mock": true}')
    with Records(path) as records:
        assert records.progress()["lld", "r1-begun"].run_id == "run-2"
        assert set(records.outcomes("lld")) == {"r1-done"}
        assert set(records.of(mock=True).outcomes("lld")) == {"m1-done", "r1-done"}
        assert list(records.decisions()) == [("lld", "r1-begun"), ("lld", "r1-done")]


def test_an_answer_to_the_mock_is_no_answer_to_a_real_review(tmp_path: Path) -> None:
    path = old_database(tmp_path, {"m1": "mock"})
    done = item("m1-done")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "INSERT INTO decision VALUES ('lld', ?, ?, 1, 'approve', 'Fine.', 'ann', '2026-01-01')",
            (done.id, done.input_hash),
        )
    with Records(path) as records:
        assert said(records, done) == ()
        assert [one.text for one in said(records.of(mock=True), done)] == ["Fine."]


# A database of the version before attempts were recorded.


@pytest.fixture
def without_attempts(tmp_path: Path) -> Path:
    """Made by the migrations up to the sixth: an item under way, an approved one, and a claim on each."""
    path = tmp_path / "records.db"
    with closing(made_before(path, "007-attempts.sql")) as db, db:
        now, begun, done = "2026-01-01T00:00:00.000Z", item("1").input_hash, item("2").input_hash
        for mock in (0, 1):
            db.execute(
                "INSERT INTO progress"
                " VALUES ('lld', '1', ?, 'run-1', 'interrupted', 'review', 2, 'x', ?, ?, 1)",
                (begun, now, mock),
            )
            db.execute(
                "INSERT INTO outcome VALUES ('lld', '2', ?, 'run-1', 'APPROVED', 3, 'out.md', ?, ?)",
                (done, now, mock),
            )
        db.execute(
            "INSERT INTO decision VALUES ('lld', '1', ?, 2, 'revise', 'less', 'ann', ?, 0)", (begun, now)
        )
        db.execute(
            "INSERT INTO note (workflow, item, mock, text, noted_by, noted_at)"
            " VALUES ('lld', '1', 0, 'n', 'ann', ?)",
            (now,),
        )
        db.execute(
            "INSERT INTO call VALUES ('a', 'drafter', 1, 'run-1', 'lld', '1', 5, 10, 0.5, 1, 'm:x', 0)"
        )
        db.execute("INSERT INTO run (run_id, workflow) VALUES ('run-1', 'lld')")
        for one in ("1", "2"):
            db.execute("INSERT INTO claim VALUES ('lld', ?, 'run-1', 7, ?)", (one, now))
        db.execute(
            "INSERT INTO filing (workflow, item, input_hash, state, updated_at)"
            " VALUES ('lld', '2', ?, 'wanted', ?)",
            (done, now),
        )
    return path


@pytest.mark.parametrize("write", [False, True])
def test_nothing_of_the_version_without_attempts_is_lost(without_attempts: Path, write: bool) -> None:
    before = without_attempts.read_bytes()
    with Records(without_attempts, write=write) as records:
        for world in (records, records.of(mock=True)):
            begun = world.progress()["lld", "1"]
            assert (begun.status, begun.node, begun.reviews, begun.error) == ("interrupted", "review", 2, "x")
            assert (begun.run_id, begun.attempt, begun.revise) == ("run-1", 0, 1)
            assert world.outcomes("lld")["2"].output == "out.md"
        assert [one.text for one in said(records, item("1"))] == ["n", "less"]
        assert records.spent_on_items("lld") == {"1": 0.5}
        assert records.filing(item("2")) is not None
        assert {(one.run_id, one.pid, one.attempt) for one in records.claims().values()} == {("run-1", 7, 0)}
    if not write:
        assert without_attempts.read_bytes() == before


def test_an_unfinished_item_of_the_version_without_attempts_resumes(without_attempts: Path) -> None:
    with Records(without_attempts) as records:
        assert records.claim([item("1")], "run-2") == {}
        fence = Fence(run_id="run-2", attempt=1)
        assert records.begin(item("1"), fence) is None
        begun = records.progress()["lld", "1"]
        assert (begun.status, begun.node, begun.reviews, begun.attempt) == ("running", "review", 2, 1)
        records.begin_run("run-2", "lld", ["1"])
        assert records.spent_before("lld", "run-2") == {"1": 0.5}
        stale = records.at_node(item("1"), Fence(run_id="run-1", attempt=1), "draft", 9)
        assert str(stale) == "run run-2 has the item now"
    with Records(without_attempts, write=False) as records:
        assert records.progress()["lld", "1"].reviews == 2


# A database of the version before notes and answers were one.


@pytest.mark.parametrize("write", [False, True])
def test_old_answers_and_notes_are_decisions(tmp_path: Path, write: bool) -> None:
    path = tmp_path / "records.db"
    with closing(made_before(path, "010-decisions.sql")) as db, db:
        for one, status in (("1", "discuss"), ("2", "discuss"), ("3", "failed")):
            db.execute(
                "INSERT INTO progress VALUES ('lld', ?, ?, 'run-1', ?, 'hold', 2, 'Which?', ?, 0, 0, 1)",
                (one, item(one).input_hash, status, AT),
            )
        answers = [
            ("1", "text", 1, "revise", "used"),
            ("1", "text", 1, "revise", ""),
            ("1", "text", 2, "approve", ""),  # not yet used
            ("2", "another text", 2, "revise", "of another text"),
            ("3", "text", 2, "revise", "taken up"),
        ]
        for mock, (one, text, reviews, *told) in enumerate(answers):
            values = (one, item(one, text).input_hash, reviews, *told, AT, int(mock == 1))
            db.execute("INSERT INTO decision VALUES ('lld', ?, ?, ?, ?, ?, 'ann', ?, ?)", values)
        for text, by in (("old", "run-1"), ("new", None)):
            db.execute(
                "INSERT INTO note (workflow, item, mock, text, noted_by, noted_at, used_by)"
                " VALUES ('lld', '1', 0, ?, 'ann', ?, ?)",
                (text, AT, by),
            )
    with Records(path, write=write) as records:
        old, new, used, waits = said(records, item("1"))
        assert [(one.text, one.used, one.answer) for one in (old, new, used)] == [
            ("old", True, ""),
            ("new", False, ""),
            ("used", True, "revise"),
        ]
        assert waits == Decision(
            id=waits.id, question="Which?", answer="approve", reviews=2, by="ann", at=AT, used=False
        )
        assert [(one.text, one.used) for one in said(records, item("2"))] == [("of another text", True)]
        assert [(one.text, one.used) for one in said(records, item("3"))] == [("taken up", True)]
        assert records.of(mock=True).decisions() == {}  # it was used, and has no words


# What is nonsense, and what is secret.


@pytest.mark.parametrize("attempt", [-1, 2**53])
def test_an_attempt_that_makes_no_sense_is_an_error(records: Records, tmp_path: Path, attempt: int) -> None:
    hold(records, item())
    with closing(sqlite3.connect(tmp_path / "records.db")) as db, db:
        db.execute("UPDATE claim SET attempt = ?", (attempt,))
    with pytest.raises(StorageError, match=f"contain an invalid value: attempt is {attempt}"):
        records.begin(item(), Fence(run_id="run-1", attempt=1))
