"""The documents of an item: which ones a run names, and their texts, limited and inside the worktree."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from agentos.redact import learn
from agentos.report.data import run_data
from agentos.report.documents import read_text, with_texts
from agentos.report.on_request import open_document
from agentos.report.page import report_html
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.view.access import Door, Guard
from agentos.view.server import make_view

RUN = "2026-11-16T00-37-24.647Z"
TRAIL = "docs/lineage/done/1-lld-x"
OUTPUT = "docs/lld/active/LLD-1.md"


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def file(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one run: item 1 was approved after two drafts, item 2 waits for an answer."""
    file(tmp_path, f"{TRAIL}/001-issue.md", "# Export\n\nText.\n")
    file(tmp_path, f"{TRAIL}/002-draft.md", "# Draft one\n")
    file(tmp_path, f"{TRAIL}/003-draft.md", "# Draft two\n")
    file(tmp_path, f"{TRAIL}/004-verdict.md", "# Review\n\n- [x] **APPROVED**\n")
    file(tmp_path, f"{TRAIL}/005-final.md", "# Draft two\n")
    file(tmp_path, f"{TRAIL}/notes.txt", "not ours")
    file(tmp_path, OUTPUT, "# Draft two\n\n## Review log\n\nOne.\n\n<!-- agentos: item=LLD-1 -->\n")
    file(tmp_path, "docs/lineage/active/2-lld/001-issue.md", "# Two\n")
    file(tmp_path, "docs/lineage/active/2-lld/002-draft.md", "# Of this run\n")
    file(tmp_path, "docs/lineage/active/2-lld/003-verdict.md", "# Of this run\n")
    file(tmp_path, "docs/lineage/active/2-lld/004-draft.md", "# Of a later run\n")
    file(tmp_path, "secret.md", "secret")
    run = Path(".agentos", "logs", "parallel", RUN)
    gate = {"kind": "gate", "lineage": "1-lld-x"}
    one = lines(
        gate | {"draft": 1, "file": "002-draft.md", "missing": ["Context"]},
        gate | {"draft": 2, "file": "003-draft.md", "paths": ["src/none.py (Modify)"]},
        {"kind": "verdict", "review": 1, "verdict": "APPROVED", "file": "004-verdict.md"},
    )
    two = lines(
        {"kind": "gate", "draft": 1, "file": "002-draft.md", "lineage": "2-lld-y"},
        {"kind": "verdict", "review": 1, "verdict": "DISCUSS", "file": "003-verdict.md"},
    )
    file(tmp_path, f"{run}/workflow-audit-1.jsonl", one)
    file(tmp_path, f"{run}/workflow-audit-2.jsonl", two)
    rows = [
        {"id": "1", "label": "LLD-1", "status": "approved", "cost_usd": 0.0, "output": OUTPUT},
        {"id": "2", "label": "LLD-2", "status": "discuss", "cost_usd": 0.0},
    ]
    summary = {"workflow": "lld", "items": rows, "totals": {}, "exit_code": 3}
    file(tmp_path, f"{run}/summary.json", json.dumps(summary))
    return tmp_path


def run_of(root: Path) -> Path:
    return root / ".agentos" / "logs" / "parallel" / RUN


def data_of(root: Path) -> dict[str, Any]:
    return run_data(run_of(root), worktree=root)


def opened(root: Path, label: str, name: str) -> Any:
    return open_document(run_of(root), label, name, worktree=root, lineage_folder="docs/lineage")


def named(item: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(one["file"], one["number"]) for one in item["documents"]]


def test_the_documents_of_an_item_are_those_of_its_run(root: Path) -> None:
    one, two = data_of(root)["items"]
    assert named(one) == [
        ("001-issue.md", None),
        ("002-draft.md", 1),
        ("003-draft.md", 2),
        ("004-verdict.md", 1),
        ("005-final.md", None),
        (OUTPUT, None),
    ]
    assert named(two) == [("001-issue.md", None), ("002-draft.md", 1), ("003-verdict.md", 1)]


def test_the_paths_that_the_gate_found_wrong_are_in_the_data(root: Path) -> None:
    one, _ = data_of(root)["items"]
    assert [gate["paths"] for gate in one["gates"]] == [[], ["src/none.py (Modify)"]]


def test_a_document_is_opened_as_a_tree_without_its_stamp(root: Path) -> None:
    found = opened(root, "LLD-1", OUTPUT)
    assert found.nodes == [["h1", "Draft two"], ["h2", "Review log"], ["p", "One."]]
    assert found.cut is False


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("LLD-1", "notes.txt"),
        ("LLD-1", "secret.md"),
        ("LLD-1", "../../../../secret.md"),
        ("LLD-1", f"{TRAIL}/002-draft.md"),
        ("LLD-1", ""),
        ("LLD-2", "004-draft.md"),
        ("LLD-2", OUTPUT),
        ("LLD-3", "001-issue.md"),
        ("..", "001-issue.md"),
    ],
)
def test_only_what_the_run_names_is_opened(root: Path, label: str, name: str) -> None:
    assert opened(root, label, name) is None


def test_a_link_in_the_place_of_a_document_is_not_followed(root: Path) -> None:
    draft = root / TRAIL / "002-draft.md"
    draft.unlink()
    draft.symlink_to(root / "secret.md")
    assert opened(root, "LLD-1", "002-draft.md") is None
    assert "002-draft.md" not in {name for name, _ in named(data_of(root)["items"][0])}


@pytest.mark.parametrize("output", ["/etc/hostname.md", "../out.md", "https://x.y/z.md", "src/code.py"])
def test_an_output_that_is_no_document_of_the_worktree_is_not_named(root: Path, output: str) -> None:
    path = run_of(root) / "summary.json"
    path.write_text(path.read_text("utf-8").replace(OUTPUT, output), "utf-8")
    assert output not in {name for name, _ in named(data_of(root)["items"][0])}


def test_a_large_document_is_cut(root: Path) -> None:
    found = read_text(root, OUTPUT, most=11)
    assert found is not None
    assert (found.nodes, found.cut) == ([["h1", "Draft two"]], True)


def test_a_report_has_texts_up_to_a_limit_and_those_of_problems_first(root: Path) -> None:
    data = data_of(root)
    whole = with_texts(data, run=run_of(root), worktree=root)["documents"]
    assert (len(whole["texts"]), whole["left_out"], whole["base"]) == (9, 0, "../../../..")
    some = with_texts(data, run=run_of(root), worktree=root, most=30)["documents"]
    assert list(some["texts"])[:2] == [
        "docs/lineage/active/2-lld/003-verdict.md",
        "docs/lineage/active/2-lld/002-draft.md",
    ]
    assert len(some["texts"]) + some["left_out"] == 9
    assert "documents" not in data


def test_a_key_in_a_document_is_not_shown(root: Path) -> None:
    learn("key-9", "a-secret-of-this-test-only")
    (root / OUTPUT).write_text("Use a-secret-of-this-test-only here.\n", "utf-8")
    assert opened(root, "LLD-1", OUTPUT).nodes == [["p", "Use [secret: key-9] here."]]


def test_a_report_shows_no_markup_of_a_document(root: Path) -> None:
    (root / OUTPUT).write_text("<script>alert(1)</script>\n", "utf-8")
    html = report_html(with_texts(data_of(root), run=run_of(root), worktree=root))
    assert "<script>alert(1)" not in html


def test_the_live_page_gets_a_document_by_its_run_item_and_name(root: Path) -> None:
    view = make_view(
        home=Home(path=root / ".agentos"),
        worktree=root,
        folders=Settings().folders,
        failed=lambda _path, exc: pytest.fail(str(exc)),
    )
    client = TestClient(
        Guard(view.app(), Door(port=8765, token="t" * 43)),
        base_url="http://127.0.0.1:8765",
        headers={"Authorization": f"Bearer {'t' * 43}"},
    )
    place = f"/api/runs/{RUN}/document/LLD-1"
    assert client.get(place, params={"file": "002-draft.md"}).json()["nodes"] == [["h1", "Draft one"]]
    for wrong in ("", "secret.md", "../../../../secret.md"):
        answer = client.get(place, params={"file": wrong})
        assert (answer.status_code, "secret\n" in answer.text) == (404, False)
    assert client.get(f"/api/runs/..%2f/document/LLD-1?file={OUTPUT}").status_code == 404
