"""The folder of a run: whole lines in every file, one folder a run, and a lock that tells who lives."""

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentos.errors import StorageError
from agentos.events.catalogue import Completed, Event, Started, Stopping
from agentos.events.record import as_record
from agentos.store.home import Home
from agentos.store.records import Outcome, timestamp
from agentos.store.run_folder import (
    RunFolder,
    create_run,
    is_live,
    last_review,
    only_skipped,
    open_findings,
    read_audits,
    read_lines,
    repair_events,
    was_mock,
)

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
STEADY = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(path=tmp_path / "home").create()


@pytest.fixture
def run(home: Home) -> Iterator[RunFolder]:
    folder = create_run(home)
    yield folder
    folder.close()


def json_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_run_has_a_private_folder_named_after_its_start(run: RunFolder, home: Home) -> None:
    assert run.path == home.runs / run.run_id
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?Z", run.run_id)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700


def test_runs_of_the_same_second_have_folders_of_their_own(home: Home) -> None:
    runs = [create_run(home) for _ in range(5)]
    assert len({run.run_id for run in runs}) == 5
    assert {path.name for path in home.runs.iterdir()} == {run.run_id for run in runs}
    for run in runs:
        run.close()


def test_a_home_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Cannot create"):
        create_run(Home(path=tmp_path / "gone"))


def test_events_are_json_lines_in_order_with_time_and_name(run: RunFolder) -> None:
    run.event(record(Started(item="42", label="LLD-42", attempt=1, pid=1)))
    run.event(record(Completed(item="42")))
    first, second = json_lines(run.path / "events.jsonl")
    assert (first["event"], first["item"], first["pid"]) == ("started", "42", 1)
    assert (second["event"], second["error"]) == ("completed", None)
    assert re.fullmatch(STAMP, str(first["time"]))


def test_the_audit_of_each_item_has_a_file_of_its_own(run: RunFolder) -> None:
    run.audit("42", {"kind": "call", "tokens_in": 5})
    run.audit("43", {"kind": "verdict"})
    (record,) = json_lines(run.path / "workflow-audit-42.jsonl")
    assert (record["kind"], record["tokens_in"]) == ("call", 5)
    assert "time" in record
    assert len(json_lines(run.path / "workflow-audit-43.jsonl")) == 1


def test_the_log_of_an_item_has_time_and_stream_before_every_line(run: RunFolder) -> None:
    run.item_lines("LLD-42", ["one", "", "drei ä 😀"], "out")
    run.item_lines("LLD-42", ["four"], "err")
    run.item_lines("LLD-42", [], "out")
    lines = (run.path / "LLD-42.log").read_text("utf-8").splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["out one", "out ", "out drei ä 😀", "err four"]
    assert all(re.fullmatch(STAMP, line.split(" ", 1)[0]) for line in lines)


@pytest.mark.parametrize("line", ["plain", "one\ntwo", "a\r\nb", "half \ud83d", "ä"])
def test_every_line_of_the_coordinators_log_starts_with_its_time(run: RunFolder, line: str) -> None:
    run.coordinator_line(line)
    run.coordinator_line("next")
    lines = (run.path / "coordinator.log").read_bytes().decode("utf-8").split("\n")
    assert lines.pop() == ""
    assert all(re.match(STAMP + " ", one) for one in lines), lines


@STEADY
@given(text=st.text(st.characters(exclude_categories=[])))
@example(text="\n\r\u2028\0\x1b[0m")
@example(text="half \ud83d")
def test_any_text_stays_one_line_of_json_and_comes_back(run: RunFolder, text: str) -> None:
    run.event(record(Stopping(reason=text)))
    last = (run.path / "events.jsonl").read_bytes().decode("utf-8").split("\n")[-2]
    assert json.loads(last)["reason"] == text


def test_files_are_private_and_never_written_through_a_link(run: RunFolder, tmp_path: Path) -> None:
    run.event(record(Stopping(reason="quota")))
    run.write("summary.json", "{}")
    for name in ("events.jsonl", "summary.json"):
        assert stat.S_IMODE((run.path / name).stat().st_mode) == 0o600
    (run.path / "LLD-42.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        run.item_lines("LLD-42", ["secret"], "out")
    assert not (tmp_path / "elsewhere").exists()


def test_an_item_that_is_done_keeps_no_file_open_and_can_still_be_written_to(run: RunFolder) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for number in range(50):
        run.item_lines(f"LLD-{number}", ["line"], "out")
        run.audit(f"{number}", {})
        run.done_with(f"{number}", f"LLD-{number}")
    assert len(list(Path("/dev/fd").iterdir())) == before
    run.item_lines("LLD-7", ["late"], "out")
    assert len((run.path / "LLD-7.log").read_text().splitlines()) == 2
    run.done_with("nobody", "LLD-nobody")


def test_a_run_that_wrote_nothing_can_be_taken_back(home: Home) -> None:
    run = create_run(home)
    run.discard()
    run.close()
    assert list(home.runs.iterdir()) == []


# Reading what is there.


def test_lines_that_are_no_records_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a": 1}\n\nnot json\n[1]\n{"b": "\xff"}\n{"c": 2}\n{"d": ')
    assert list(read_lines(path)) == [{"a": 1}, {"c": 2}]
    assert list(read_lines(tmp_path / "gone.jsonl")) == []


def test_the_audits_of_an_item_are_found_in_all_runs(home: Home) -> None:
    for number in range(3):
        one = create_run(home)
        one.audit("42", {"number": number})
        one.audit("43", {"number": -1})
        one.close()
    assert sorted(str(record["number"]) for record in read_audits(home, "42")) == ["0", "1", "2"]


def reviewed(home: Home, *records: dict[str, object]) -> None:
    one = create_run(home)
    for record in records:
        one.audit("42", {"kind": "verdict", "verdict": "REVISE", "workflow": "lld"} | record)
    one.close()


def test_the_open_findings_are_those_of_the_latest_review_that_could_be_read(home: Home) -> None:
    assert last_review(home, "lld", "42") == {}
    reviewed(home, {"findings": [{"title": "first"}]}, {"findings": [{"title": "second"}]})
    assert last_review(home, "lld", "42")["findings"] == [{"title": "second"}]
    reviewed(home, {"kind": "call"}, {"verdict": "UNREADABLE", "findings": []})
    reviewed(home, {"workflow": "issue", "findings": [{"title": "of a brief"}]})
    assert last_review(home, "lld", "42")["findings"] == [{"title": "second"}]
    assert last_review(home, "lld", "43") == {}
    reviewed(home, {"verdict": "APPROVED", "findings": []})
    assert open_findings(last_review(home, "lld", "42")) == ()


def test_with_a_ledger_the_open_findings_are_those_of_every_review() -> None:
    states = [{"number": 1, "state": "open"}, {"number": 2, "state": "resolved"}]
    record = {"kind": "verdict", "verdict": "REVISE", "findings": [{"tier": 1}, {"tier": 3}]}
    assert open_findings(record | {"ledger": states}) == (states[0], {"tier": 3})


@pytest.mark.parametrize(
    ("events", "mock"),
    [
        ([{"event": "run_started", "mock": True}], True),
        ([{"event": "run_started", "mock": False}], False),
        (
            [{"event": "run_started"}, {"event": "leased", "item": "1", "provider": "mock"}],
            True,
        ),  # of an older version
        ([{"event": "run_started"}, {"event": "leased", "item": "1", "provider": "openai"}], False),
        ([], False),
    ],
)
def test_events_tell_whether_a_run_used_the_mock(
    tmp_path: Path, events: list[dict[str, object]], mock: bool
) -> None:
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    assert was_mock(tmp_path) is mock


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ('{"items": [{"status": "skipped"}, {"status": "skipped"}]}', True),
        ('{"items": []}', True),
        ('{"items": [{"status": "skipped"}, {"status": "discuss"}]}', False),
        ('{"items": [{"stat', False),
        ("{}", False),
        (None, False),
    ],
)
def test_a_run_only_skipped_if_its_summary_says_so(tmp_path: Path, text: str | None, only: bool) -> None:
    if text is not None:
        (tmp_path / "summary.json").write_text(text, "utf-8")
    assert only_skipped(tmp_path) is only


def outcome(run_id: str) -> Outcome:
    return Outcome(
        workflow="lld",
        item="42",
        input_hash="x",
        run_id=run_id,
        verdict="APPROVED",
        reviews=2,
        output="out.md",
        finished_at="2026-01-01T00:00:00.000Z",
    )


STARTED = Started(item="42", label="LLD-42", attempt=1, pid=1)


def record(event: Event) -> dict[str, Any]:
    return {"time": timestamp(), **as_record(event)}


def completed(run: RunFolder) -> list[dict[str, object]]:
    return [event for event in read_lines(run.path / "events.jsonl") if event["event"] == "completed"]


@pytest.mark.parametrize("cut_off", [b"", b'{"time": "2026", "eve'])
def test_an_approval_that_a_killed_run_did_not_tell_of_is_told_once(home: Home, cut_off: bytes) -> None:
    run = create_run(home)
    run.event(record(STARTED))
    run.event(record(Completed(item="43")))
    run.close()
    with (run.path / "events.jsonl").open("ab") as file:
        file.write(cut_off)
    for _ in range(2):
        repair_events(home.runs, outcome(run.run_id))
    assert [event["item"] for event in completed(run)] == ["43", "42"]
    assert completed(run)[1]["time"] == "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize("state", ["alive", "finished", "told", "gone"])
def test_the_events_of_any_other_run_are_left_as_they_are(home: Home, state: str) -> None:
    run = create_run(home)
    run.event(record(Completed(item="42") if state == "told" else STARTED))
    if state == "finished":
        run.write("summary.json", "{}")
    if state != "alive":
        run.close()
    before = (run.path / "events.jsonl").read_bytes()
    repair_events(home.runs, outcome("another-run" if state == "gone" else run.run_id))
    assert (run.path / "events.jsonl").read_bytes() == before
    assert [path.name for path in home.runs.iterdir()] == [run.run_id]
    if state == "alive":
        run.close()


# Who lives.


def test_a_run_lives_while_its_folder_is_open(home: Home) -> None:
    run = create_run(home)
    assert is_live(run.path)
    assert is_live(run.path), "asking takes no lock away"
    run.close()
    assert not is_live(run.path)


def test_a_folder_without_a_lock_belongs_to_no_living_run(tmp_path: Path) -> None:
    assert not is_live(tmp_path)
    assert not is_live(tmp_path / "gone")


HOLDER = """
import sys
from pathlib import Path
from typing import Any
from agentos.store.home import Home
from agentos.store.run_folder import create_run

run = create_run(Home(path=Path(sys.argv[1])))
print(run.path, flush=True)
sys.stdin.read()
"""


def test_a_killed_run_is_dead_at_once(home: Home) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        path = Path(holder.stdout.readline().strip())
        assert is_live(path)
        holder.kill()
        holder.wait()
    assert not is_live(path)
    assert path.is_dir()


def test_a_new_run_removes_what_a_killed_one_had_half_written(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home").create()
    dead, live = create_run(home), create_run(home)
    for run in (dead, live):
        (run.path / ".summary.md.tmp").write_text("half")
    dead.close()
    create_run(home).close()
    assert not (dead.path / ".summary.md.tmp").exists()
    assert (live.path / ".summary.md.tmp").exists()
    live.close()
