"""The run folders as the page reads them: rows, data, logs; no path traversal, no links."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.events.state import RunState
from agentos.report.items import ItemReader
from agentos.view import run_index as module
from agentos.view.run_index import NotThere, RunIndex

RUN = "2026-11-16T00-37-24.647Z"


def make_run(runs: Path, name: str = RUN, **files: str) -> Path:
    run = runs / name
    run.mkdir(parents=True)
    (run / ".lock").touch()
    for key, text in files.items():
        (run / f"{key.replace('__', '.').replace('_', '-')}").write_text(text, "utf-8")
    return run


def events(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


BEGUN = {"time": "2026-11-16T00:37:24.655Z", "event": "run_started", "items": 4, "parallel": 2}
STARTED = {"event": "started", "item": "41", "label": "LLD-41", "attempt": 1}
ENDED = {"event": "completed", "item": "41", "label": "LLD-41", "status": "approved"}
SUMMARY = {
    "run_id": RUN,
    "workflow": "lld",
    "started_at": "2026-11-16T00:37:24.655Z",
    "wall_seconds": 8.6,
    "exit_code": 3,
    "totals": {"approved": 1, "needs_revision": 1},
    "items": [{"label": "LLD-41", "cost_usd": 0.25}, {"label": "LLD-42", "cost_usd": 0.5}],
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "home" / "logs" / "parallel"


@pytest.fixture
def held() -> Iterator[Any]:
    """Hold the lock of a run, as its coordinator does."""
    descriptors: list[int] = []

    def hold(run: Path) -> None:
        descriptors.append(os.open(run / ".lock", os.O_RDWR))
        fcntl.flock(descriptors[-1], fcntl.LOCK_EX)

    yield hold
    for descriptor in descriptors:
        os.close(descriptor)


def run_index_of(runs: Path, made: list[str] | None = None) -> RunIndex:
    def make(run: Path, _events: Callable[[Path], RunState], _reader: ItemReader) -> dict[str, Any]:
        if made is not None:
            made.append(run.name)
        return {"run": run.name}

    return RunIndex(runs, make)


def test_a_home_without_runs_is_empty(runs: Path) -> None:
    assert run_index_of(runs).rows() == []


def test_a_row_comes_from_the_summary(runs: Path) -> None:
    make_run(runs, summary__json=json.dumps(SUMMARY))
    assert run_index_of(runs).rows() == [
        {
            "run_id": RUN,
            "workflow": "lld",
            "mock": False,
            "live": False,
            "started_at": "2026-11-16T00:37:24.655Z",
            "wall_seconds": 8.6,
            "items": 2,
            "totals": {"approved": 1, "needs_revision": 1},
            "cost_usd": 0.75,
            "exit_code": 3,
        }
    ]


def test_an_unknown_cost_is_unknown(runs: Path) -> None:
    unknown = SUMMARY | {
        "items": [{"label": "LLD-41", "cost_usd": 0.25}, {"label": "LLD-42", "cost_usd": None}]
    }
    make_run(runs, summary__json=json.dumps(unknown))
    assert run_index_of(runs).rows()[0]["cost_usd"] is None


def test_a_live_run_is_told_from_its_events_as_they_come(runs: Path, held: Any) -> None:
    run = make_run(runs, events__jsonl=events(BEGUN, STARTED))
    held(run)
    run_index = run_index_of(runs)
    [row] = run_index.rows()
    assert (row["live"], row["workflow"], row["items"]) == (True, "lld", 4)
    assert row["totals"] == {"running": 1, "pending": 3}
    with (run / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(events(ENDED) + '{"event": "completed", "item": "4')  # cut off in the middle
    assert run_index.rows()[0]["totals"] == {"approved": 1, "pending": 3}
    with (run / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write('2", "status": "failed"}\nnonsense\n[]\n')
    assert run_index.rows()[0]["totals"] == {"approved": 1, "failed": 1, "pending": 2}


def test_a_killed_run_is_cut_off(runs: Path) -> None:
    make_run(runs, events__jsonl=events(BEGUN, STARTED))
    [row] = run_index_of(runs).rows()
    assert (row["live"], row["exit_code"]) == (False, None)
    assert row["totals"] == {"cut_off": 1, "pending": 3}


def test_a_broken_summary_does_not_break_the_list(runs: Path) -> None:
    make_run(runs, summary__json="{", events__jsonl=events(BEGUN, STARTED, ENDED))
    make_run(runs, "2026-11-17T00-00-00.000Z", summary__json='{"items": 3}')
    assert [row["totals"] for row in run_index_of(runs).rows()] == [{}, {"approved": 1, "pending": 3}]


def test_the_newest_run_comes_first(runs: Path) -> None:
    for name in (RUN, f"{RUN}-2", f"{RUN}-10", "2026-11-15T00-00-00.000Z"):
        make_run(runs, name)
    rows = [row["run_id"] for row in run_index_of(runs).rows()]
    assert rows == [f"{RUN}-10", f"{RUN}-2", RUN, "2026-11-15T00-00-00.000Z"]


def test_the_search_looks_at_items_and_states(runs: Path) -> None:
    make_run(runs, summary__json=json.dumps(SUMMARY))
    make_run(runs, "2026-11-17T00-00-00.000Z", events__jsonl=events(BEGUN, STARTED))
    run_index = run_index_of(runs)
    assert [row["run_id"] for row in run_index.rows("lld-42")] == [RUN]
    assert [row["run_id"] for row in run_index.rows("needs revision")] == [RUN]
    assert [row["run_id"] for row in run_index.rows("2026-11-17")] == ["2026-11-17T00-00-00.000Z"]
    assert len(run_index.rows("LLD")) == 2
    assert [row["run_id"] for row in run_index.rows("not started")] == ["2026-11-17T00-00-00.000Z"]
    assert run_index.rows("LLD-99") == []


def test_data_are_made_again_only_when_a_file_changed(runs: Path) -> None:
    run = make_run(runs, summary__json=json.dumps(SUMMARY), LLD_41__log="a\n")
    made: list[str] = []
    run_index = run_index_of(runs, made)
    assert json.loads(run_index.data(RUN)) == {"run": RUN}
    run_index.data(RUN)
    assert made == [RUN]
    with (run / "LLD-41.log").open("a", encoding="utf-8") as file:
        file.write("b\n")
    run_index.data(RUN)
    assert made == [RUN, RUN]


def test_each_look_at_a_live_run_reads_only_the_new_events(runs: Path, held: Any) -> None:
    run = make_run(runs, events__jsonl=events(STARTED))
    held(run)
    run_index = RunIndex(runs, lambda path, read, _reader: {"items": list(read(path).items)})
    assert json.loads(run_index.data(RUN)) == {"items": ["41"]}
    file = run / "events.jsonl"
    # Whoever reads from the start again does not find the first event any more.
    file.write_text(" " * (file.stat().st_size - 1) + "\n" + events(STARTED | {"item": "42"}), "utf-8")
    assert json.loads(run_index.data(RUN)) == {"items": ["41", "42"]}


def test_only_few_runs_are_kept_in_memory(runs: Path) -> None:
    names = [f"2026-11-1{day}T00-00-00.000Z" for day in range(module.KEPT_DATA + 1)]
    made: list[str] = []
    run_index = run_index_of(runs, made)
    for name in names:
        make_run(runs, name, summary__json=json.dumps(SUMMARY))
        run_index.data(name)
    run_index.data(names[-1])
    assert made == names
    run_index.data(names[0])
    assert made == [*names, names[0]]


@pytest.mark.parametrize("name", ["..", ".", "", "../parallel", f"./{RUN}", f"{RUN}/", "x", f"{RUN}\0"])
def test_a_run_is_one_of_those_that_exist(runs: Path, name: str) -> None:
    make_run(runs, summary__json=json.dumps(SUMMARY))
    for look in (run_index_of(runs).data, run_index_of(runs).folder):
        with pytest.raises(NotThere):
            look(name)


@pytest.mark.parametrize(
    "label", ["..", "../secret", "LLD-41.log", "/etc/passwd", "", "events.jsonl", "LLD-41\0"]
)
def test_a_log_is_one_of_those_that_exist(runs: Path, label: str) -> None:
    make_run(runs, LLD_41__log="a\n")
    (runs / "secret.log").write_text("secret", "utf-8")
    with pytest.raises(NotThere):
        run_index_of(runs).log(RUN, label, None)


def test_no_link_is_followed(runs: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "LLD-41.log").write_text("secret", "utf-8")
    run = make_run(runs, summary__json=json.dumps(SUMMARY))
    (runs / "2026-11-18T00-00-00.000Z").symlink_to(outside)
    run_index = run_index_of(runs)
    assert [row["run_id"] for row in run_index.rows()] == [RUN]
    with pytest.raises(NotThere):
        run_index.log("2026-11-18T00-00-00.000Z", "LLD-41", None)
    (run / "LLD-41.log").symlink_to(outside / "LLD-41.log")
    with pytest.raises(NotThere):
        run_index.log(RUN, "LLD-41", None)
    assert b"secret" not in run_index.data(RUN)  # the rest of the run is still shown


def test_a_linked_summary_or_folder_of_runs_is_not_read(runs: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text(json.dumps(SUMMARY), "utf-8")
    run = make_run(runs)
    (run / "summary.json").symlink_to(real)
    assert run_index_of(runs).rows()[0]["exit_code"] is None
    (tmp_path / "linked").symlink_to(runs)
    assert run_index_of(tmp_path / "linked").rows() == []


def test_a_log_is_read_on_from_where_the_page_stands(runs: Path) -> None:
    run = make_run(runs, LLD_41__log="one\ntwö\n")
    run_index = run_index_of(runs)
    first = run_index.log(RUN, "LLD-41", None)
    assert first == {"text": "one\ntwö\n", "start": 0, "next": 9, "size": 9, "live": False}
    with (run / "LLD-41.log").open("ab") as file:
        file.write(b"three\nhal")
    more = run_index.log(RUN, "LLD-41", first["next"])
    assert (more["text"], more["next"]) == ("three\n", 15)
    assert run_index.log(RUN, "LLD-41", 10_000)["text"] == ""


def test_an_item_at_work_that_has_said_nothing_has_an_empty_log(runs: Path, held: Any) -> None:
    run = make_run(runs, events__jsonl=events(BEGUN, STARTED))
    run_index = run_index_of(runs)
    with pytest.raises(NotThere):
        run_index.log(RUN, "LLD-41", None)
    held(run)
    assert run_index.log(RUN, "LLD-41", None) == {"text": "", "start": 0, "next": 0, "size": 0, "live": True}
    with pytest.raises(NotThere):
        run_index.log(RUN, "LLD-42", None)


def test_of_a_long_log_the_end_comes_first_and_a_block_at_a_time(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_TAIL", 25)
    monkeypatch.setattr(module, "LOG_BLOCK", 30)
    text = "".join(f"line {number:04d}\n" for number in range(20))
    make_run(runs, LLD_41__log=text)
    run_index = run_index_of(runs)
    tail = run_index.log(RUN, "LLD-41", None)
    assert (tail["text"], tail["start"], tail["next"]) == ("line 0018\nline 0019\n", 180, 200)
    read, after = "", 0
    while (part := run_index.log(RUN, "LLD-41", after))["text"]:
        assert part["text"].endswith("\n")
        read, after = read + part["text"], part["next"]
    assert read == text


def test_a_fifo_in_the_place_of_a_log_does_not_hang(runs: Path) -> None:
    run = make_run(runs)
    os.mkfifo(run / "LLD-41.log")
    with pytest.raises(NotThere):
        run_index_of(runs).log(RUN, "LLD-41", None)
