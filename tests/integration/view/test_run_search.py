"""The search in the items of all runs: what it finds, and that each request is short."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentos.view import run_search as module
from agentos.view.run_search import RunSearch

FINDING = {
    "tier": 1,
    "category": "Cost",
    "title": "Unbounded retry",
    "text": "Never stops.",
    "recommendation": "Limit it.",
}


class Clock:
    """Time that moves on by one second with each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def make_run(root: Path, name: str, items: list[dict[str, Any]], **audits: Any) -> Path:
    run = root / ".agentos" / "logs" / "parallel" / name
    run.mkdir(parents=True)
    rows = [{"label": f"LLD-{item['id']}", "status": "failed", **item} for item in items]
    (run / "summary.json").write_text(json.dumps({"workflow": "lld", "items": rows}), "utf-8")
    for item, record in audits.items():
        text = json.dumps({"kind": "verdict", "review": 1, **record}) + "\n"
        (run / f"workflow-audit-{item.removeprefix('of_')}.jsonl").write_text(text, "utf-8")
    return run


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    trail = tmp_path / "docs" / "lineage" / "active" / "41-lld"
    trail.mkdir(parents=True)
    (trail / "001-issue.md").write_text("# Keep deleted accounts\n", "utf-8")
    designs = tmp_path / "docs" / "lld" / "active"
    designs.mkdir(parents=True)
    (designs / "LLD-42.md").write_text("# x\n\n## Files changed\n\n- `src/billing/ledger.py`\n", "utf-8")
    output = {"id": "42", "status": "approved", "output": "docs/lld/active/LLD-42.md"}
    first = make_run(tmp_path, "2026-a", [{"id": "41", "error": "no such table: customers"}, output])
    said = {"findings": [FINDING, 3, {"text": 7}], "questions": ["Is an hour acceptable?"]}
    second = make_run(tmp_path, "2026-b", [{"id": "43"}], of_43=said)
    return [second, first]


def search_of(runs: list[Path], **settings: Any) -> RunSearch:
    root = runs[0].parents[3]
    settings.setdefault("mark", lambda run: (run / "summary.json").stat().st_mtime_ns)
    settings.setdefault("clock", lambda: 0.0)  # time stands still: a slow machine reads everything as well
    return RunSearch(worktree=root, lineage_folder="docs/lineage", **settings)


@pytest.mark.parametrize(
    ("words", "run", "label", "where"),
    [
        ("deleted ACCOUNTS", "2026-a", "LLD-41", "title"),
        ("customers", "2026-a", "LLD-41", "error"),
        ("table deleted", "2026-a", "LLD-41", "title"),  # each word may be somewhere else
        ("unbounded", "2026-b", "LLD-43", "finding"),
        ("limit it", "2026-b", "LLD-43", "finding"),
        ("hour acceptable", "2026-b", "LLD-43", "question"),
        ("ledger.py", "2026-a", "LLD-42", "file"),
        ("active/lld-42.md", "2026-a", "LLD-42", "file"),
    ],
)
def test_titles_errors_findings_questions_and_files_are_found(
    runs: list[Path], words: str, run: str, label: str, where: str
) -> None:
    answer = search_of(runs).find(runs, words)
    assert (answer["read"], answer["of"]) == (2, 2)
    assert list(answer["found"]) == [run]
    [hit] = answer["found"][run]["items"]
    assert (hit["label"], hit["where"]) == (label, where)
    if where not in {"title", "label"}:
        assert words.split(maxsplit=1)[0] in hit["text"].casefold()


def test_nothing_is_found_without_words_or_in_a_part_of_them(runs: list[Path]) -> None:
    search = search_of(runs)
    assert search.find(runs, "  ")["found"] == {}
    assert search.find(runs, "customers nowhere")["found"] == {}


def test_each_request_reads_for_a_short_time_and_the_next_one_reads_on(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 1.5)  # one look at the clock, so one item
    search = search_of(runs, clock=Clock())
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["read"] < 2:
        seen.append(search.find(runs, "customers"))
        assert len(seen) < 10
    assert seen[0] == {"found": {}, "read": 0, "of": 2}
    assert "2026-a" in seen[-1]["found"]
    assert len(seen) > 3


def test_a_run_that_changed_is_read_again_and_many_hits_are_counted(runs: list[Path]) -> None:
    search = search_of(runs, mark=lambda run: (run / "summary.json").stat().st_size)
    assert search.find(runs, "timeout")["found"] == {}
    rows = [{"id": str(n), "label": f"LLD-{n}", "status": "failed", "error": "timeout"} for n in range(9)]
    (runs[1] / "summary.json").write_text(json.dumps({"workflow": "lld", "items": rows}), "utf-8")
    found = search.find(runs, "timeout")["found"]["2026-a"]
    assert (len(found["items"]), found["more"]) == (5, 4)
    assert search.find(runs[:1], "timeout")["found"] == {}  # the other one was removed


def test_what_is_kept_is_bounded(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    answer = search_of(runs).find(runs, "customers")  # in the older run, for which there is no room
    assert answer == {"found": {}, "read": 2, "of": 2}


def test_a_huge_audit_trail_is_not_read(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AUDIT_BYTES", 100)
    search = search_of(runs)
    assert search.find(runs, "unbounded")["found"] == {}
    assert list(search.find(runs, "lld-43")["found"]) == ["2026-b"]


@pytest.mark.parametrize("name", ["../../secret", "a/b", "..", "\0"])
def test_an_item_with_a_strange_id_leads_nowhere(runs: list[Path], name: str) -> None:
    strange = make_run(runs[0].parents[3], "2026-c", [{"id": name, "label": "x", "error": "strange"}])
    found = search_of(runs).find([strange, *runs], "strange")["found"]
    assert list(found) == ["2026-c"]
