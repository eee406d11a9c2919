"""The routes of the page, for a home with runs and an item that needs a decision."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from agentos.app.inbox import answer_discussion, discussions
from agentos.model import Item, Status
from agentos.report.markdown_tree import markdown_tree
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.store.records import Records
from agentos.view.access import Door, Guard
from agentos.view.inbox import Inbox
from agentos.view.run_index import RunIndex
from agentos.view.run_search import RunSearch
from agentos.view.server import PageRoutes, make_view
from harness.records import begin, end

PORT = 8765
TOKEN = "t" * 43
OURS = f"http://127.0.0.1:{PORT}"
RUN = "2026-11-16T00-37-24.647Z"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> ![](http://evil.example/x.png)"
FINDING = {
    "tier": 2,
    "category": "Architecture",
    "title": HOSTILE,
    "text": "Both can be argued for.",
    "recommendation": "Decide.",
}
VERDICT = """# LLD Review: x

## Tier 1: BLOCKING Issues
No blocking issues found.

## Tier 2: HIGH PRIORITY Issues
### Architecture
- [ ] **Undecided:** From the document.

## Questions for Orchestrator
1. Wait or stop?

## Verdict
[ ] **APPROVED**
[ ] **REVISE**
[x] **DISCUSS**
"""


def item_43(workflow: str = "lld") -> Item:
    return Item(workflow=workflow, id="43", label="x", title="x", text="text", source="x")


def wait_for_a_person(
    home: Home,
    worktree: Path,
    workflow: str = "lld",
    reviews: int = 1,
    *,
    mock: bool = False,
    asks: str = "Wait or stop?",
) -> None:
    """Write what a run leaves behind when a review of item 43 ends in DISCUSS."""
    home.create()
    item = item_43(workflow)
    with Records(home.records, mock=mock) as records:
        begin(records, item, RUN)
        end(records, item, Status.DISCUSS, reviews=reviews, error=asks)
    run = home.runs / RUN
    run.mkdir(exist_ok=True)
    (run / ".lock").touch()
    verdicts = [
        {
            "kind": "verdict",
            "review": number,
            "verdict": "DISCUSS",
            "findings": [FINDING],
            "questions": ["Wait?"],
        }
        for number in range(1, reviews + 1)
    ]
    text = "".join(json.dumps(one) + "\n" for one in verdicts)
    (run / "workflow-audit-43.jsonl").write_text(text, "utf-8")
    summary = {
        "workflow": workflow,
        "items": [],
        "totals": {},
        "exit_code": 3,
        "keys": [{"provider": "mock"}],
    }
    (run / "summary.json").write_text(json.dumps(summary), "utf-8")
    (run / "LLD-43.log").write_text(f"a line\n{HOSTILE}\n", "utf-8")
    trail = worktree / "docs" / "lineage" / "active" / f"43-{workflow}"
    trail.mkdir(parents=True, exist_ok=True)
    source = "issue" if workflow == "lld" else "brief"
    (trail / f"001-{source}.md").write_text("<!-- mock -->\n# Keep accounts\n\nText.\n", "utf-8")
    (trail / "002-draft.md").write_text("The first draft", "utf-8")
    (trail / "003-verdict.md").write_text("old", "utf-8")
    (trail / "004-draft.md").write_text(f"The draft. {HOSTILE}", "utf-8")
    (trail / "005-verdict.md").write_text(VERDICT, "utf-8")


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    return tmp_path / "project"


@pytest.fixture
def home(worktree: Path) -> Home:
    worktree.mkdir()
    return Home(path=worktree / ".agentos")


@pytest.fixture
def failures() -> list[tuple[str, Exception]]:
    return []


def client_of(view: PageRoutes) -> TestClient:
    return TestClient(
        Guard(view.app(), Door(port=PORT, token=TOKEN)),
        base_url=OURS,
        headers={"Authorization": f"Bearer {TOKEN}", "Origin": OURS},
        raise_server_exceptions=False,
    )


@pytest.fixture
def client(home: Home, worktree: Path, failures: list[tuple[str, Exception]]) -> TestClient:
    return client_of(
        make_view(
            home=home,
            worktree=worktree,
            folders=Settings().folders,
            failed=lambda path, exc: failures.append((path, exc)),
        )
    )


def test_before_anything_was_run_there_is_nothing_and_nothing_is_made(client: TestClient, home: Home) -> None:
    assert client.get("/api/runs").json() == {"project": "project", "runs": []}
    assert client.get("/api/inbox").json() == {"waiting": [], "answered": []}
    refused = client.post("/api/inbox/LLD-43", json={"answer": "approve"})
    assert (refused.status_code, "No runs here" in refused.json()["error"]) == (409, True)
    assert not home.path.exists()


def test_the_page_and_its_files_are_served(client: TestClient) -> None:
    assert "<!doctype html>" in client.get("/").text
    for name, kind in (
        ("view.js", "javascript"),
        ("view.css", "css"),
        ("run.js", "javascript"),
        ("run.css", "css"),
    ):
        answer = client.get(f"/assets/{name}")
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
    page = client.get("/").text
    assert "style=" not in page  # the policy would block it
    assert "<script>" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../server.py",
        "/assets/..%2fserver.py",
        "/assets/%2e%2e/server.py",
        "/assets/view.html",
        "/api/runs/..",
        "/api/runs/%2e%2e",
        "/api/runs/..%2f..%2frecords.db",
        f"/api/runs/{RUN}/log/..%2f..%2f..%2fsecret",
        f"/api/runs/{RUN}/log/%2e%2e",
        f"/api/runs/{RUN}/log/summary.json",
        f"/api/runs/{RUN}%00/log/LLD-43",
        f"/api/runs/{RUN}/log/LLD-43%00",
        "/api/runs/nothing/log/LLD-43",
        "/records.db",
        "/etc/passwd",
    ],
)
def test_nothing_is_served_by_path(client: TestClient, home: Home, worktree: Path, path: str) -> None:
    wait_for_a_person(home, worktree)
    (home.path / "secret.log").write_text("secret", "utf-8")
    answer = client.get(path)
    assert answer.status_code == 404, answer.text
    assert "secret" not in answer.text.replace("..%2fsecret", "").replace("../secret", "")


def test_a_log_comes_in_parts(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    path = f"/api/runs/{RUN}/log/LLD-43"
    assert client.get(path).json()["text"] == f"a line\n{HOSTILE}\n"
    assert client.get(path, params={"after": 7}).json()["text"] == f"{HOSTILE}\n"
    for after in ("-1", "x", "1e3", "٣", "9" * 20):
        assert client.get(path, params={"after": after}).status_code == 400


def test_the_data_of_a_run_come_as_they_are_made(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    answer = client.get(f"/api/runs/{RUN}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["run"]["run_id"] == RUN


@pytest.mark.parametrize("mock", [False, True])
def test_the_inbox_shows_finding_and_draft(
    client: TestClient, home: Home, worktree: Path, mock: bool
) -> None:
    wait_for_a_person(home, worktree, mock=mock)
    found = client.get("/api/inbox").json()
    assert found["answered"] == []
    [one] = found["waiting"]
    assert set(one) == {
        "label",
        "id",
        "workflow",
        "title",
        "run_id",
        "reviews",
        "since",
        "question",
        "questions",
        "findings",
        "blocking",
        "draft",
        "verdict",
        "decided",
        "decide_command",
        "command",
        "mock",
    }
    assert (one["label"], one["title"], one["question"]) == ("LLD-43", "Keep accounts", "Wait or stop?")
    assert one["findings"] == [FINDING]
    assert one["draft"] == {
        "path": "docs/lineage/active/43-lld/004-draft.md",
        "nodes": markdown_tree(f"The draft. {HOSTILE}"),
        "cut": False,
    }
    assert one["verdict"]["nodes"] == markdown_tree(VERDICT)
    assert one["mock"] is mock
    assert one["command"] == "agentos lld 43" + " --mock" * mock
    assert one["blocking"] == 0
    assert one["decide_command"] == 'agentos decide LLD-43 --note "..."'


def test_the_inbox_shows_what_is_open_by_number(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    tracked = [
        FINDING | {"tier": 1, "number": number, "state": state, "where": "", "returned": number == 3}
        for number, state in ((1, "resolved"), (2, "withdrawn"), (3, "open"))
    ]
    suggestion = FINDING | {"tier": 3}
    asked = ["Q1: Wait or stop?", "Q4: Who?"]
    readable = {"kind": "verdict", "review": 1, "call": 2, "verdict": "DISCUSS", "questions": asked}
    readable |= {"findings": [FINDING, suggestion], "ledger": tracked}
    records = ({"kind": "verdict", "review": 1, "call": 1, "verdict": "UNREADABLE"}, readable)
    audit = home.runs / RUN / "workflow-audit-43.jsonl"
    audit.write_text("".join(json.dumps(one) + "\n" for one in records))
    [one] = client.get("/api/inbox").json()["waiting"]
    assert one["findings"] == [tracked[2], suggestion]
    assert (one["questions"], one["blocking"]) == (asked, 1)
    assert one["decide_command"] == 'agentos decide LLD-43 --note "Q1: ..." --note "Q4: ..."'


def test_where_the_run_was_cleaned_away_the_document_is_read(
    client: TestClient, home: Home, worktree: Path
) -> None:
    wait_for_a_person(home, worktree)
    for path in (home.runs / RUN).iterdir():
        path.unlink()
    [one] = client.get("/api/inbox").json()["waiting"]
    assert [finding["text"] for finding in one["findings"]] == ["From the document."]
    assert one["questions"] == ["Wait or stop?"]


def test_an_item_without_a_trail_waits_all_the_same(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    trail = worktree / "docs" / "lineage" / "active" / "43-lld"
    secret = worktree.parent / "secret.md"
    secret.write_text("secret", "utf-8")
    for path in trail.iterdir():
        path.unlink()
    (trail / "002-draft.md").symlink_to(secret)
    [one] = client.get("/api/inbox").json()["waiting"]
    assert (one["draft"], one["verdict"], one["title"]) == (None, None, "")


@pytest.mark.parametrize("mock", [False, True])
@pytest.mark.parametrize(("answer", "note"), [("approve", ""), ("revise", " Stop at once. ")])
def test_an_answer_is_recorded_as_the_command_records_it(  # noqa: PLR0917 - fixtures
    client: TestClient, home: Home, worktree: Path, answer: str, note: str, mock: bool
) -> None:
    wait_for_a_person(home, worktree, mock=mock)
    said = client.post("/api/inbox/LLD-43", json={"answer": answer, "note": note, "reviews": 1})
    assert said.status_code == 200, said.text
    assert said.json() == {
        "label": "LLD-43",
        "answer": answer,
        "note": note.strip(),
        "command": "agentos lld 43" + " --mock" * mock,
        "unanswered": [],
    }
    with Records(home.records, write=False, mock=mock) as records:
        [decided] = records.decisions()["lld", "43"]
        assert records.of(mock=not mock).decisions() == {}
    assert (decided.question, decided.answer, decided.text) == ("Wait or stop?", answer, note.strip())
    found = client.get("/api/inbox").json()
    assert found["waiting"] == []
    assert found["answered"][0]["decided"]["answer"] == answer


def test_questions_are_answered_one_by_one_or_together(
    client: TestClient, home: Home, worktree: Path
) -> None:
    wait_for_a_person(home, worktree, asks="Q1: Wait or stop? / Q2: How long?")

    def after(answer: str, note: str) -> list[tuple[str, str, str]]:
        said = client.post("/api/inbox/LLD-43", json={"answer": answer, "note": note} | shown())
        assert said.status_code == 200, said.text
        with Records(home.records, write=False) as records:
            known = records.decisions()["lld", "43"]
        return [(one.answer, one.question, one.text) for one in known]

    def shown() -> dict[str, str]:
        answered = client.get("/api/inbox").json()["answered"]
        return {"decided_at": answered[0]["decided"]["at"]} if answered else {}

    assert after("revise", "Wait.") == [("revise", "Wait or stop?\nHow long?", "Wait.")]
    one, other = ("revise", "Wait or stop?", "Stop."), ("revise", "How long?", "A day.")
    assert after("revise", "Q1: Stop.\nQ2: A day.") == [one, other]
    [row] = client.get("/api/inbox").json()["answered"]
    assert row["decided"]["note"] == "Q1: Stop.\nQ2: A day."
    assert after("revise", "q2: Two.") == [one, (*other[:2], "Two.")]
    assert after("approve", "") == [("approve", "Wait or stop?\nHow long?", "")]
    assert after("revise", "Q1: Stop.") == [one]  # an approval does not go with it
    assert after("revise", "Q2: A day.") == [one, other]


def test_an_item_is_sent_back_with_a_note(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    said = client.post("/api/revise/LLD-43", json={"note": " Use the cache. "})
    assert said.status_code == 200, said.text
    assert said.json() == {
        "label": "LLD-43",
        "told": "LLD-43: note saved; both models get it in the next run.",
        "command": "agentos lld 43",
    }
    with Records(home.records, write=False) as records:
        [note] = records.decisions()["lld", "43"]
    assert (note.question, note.text) == ("Wait or stop?", "Use the cache.")


@pytest.mark.parametrize(
    ("label", "body", "status"),
    [
        ("LLD-43", {"note": ""}, 409),  # nothing was edited, so there is nothing to review
        ("LLD-44", {"note": "x"}, 409),
        ("LLD-43", {"note": 1}, 400),
        ("LLD-43", {"note": "x", "by": "root"}, 400),
        ("LLD-43", [], 400),
        ("LLD-43", {"note": "x" * 20_001}, 400),
    ],
)
def test_what_cannot_be_sent_back_is_refused(  # noqa: PLR0917 - fixtures
    client: TestClient, home: Home, worktree: Path, label: str, body: Any, status: int
) -> None:
    wait_for_a_person(home, worktree)
    said = client.post(f"/api/revise/{label}", json=body)
    assert (said.status_code, "error" in said.json()) == (status, True), said.text
    with Records(home.records, write=False) as records:
        assert records.decisions() == {}


def test_half_a_character_breaks_nothing(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    audit = home.runs / RUN / "workflow-audit-43.jsonl"
    audit.write_text(
        json.dumps({"kind": "verdict", "review": 1, "findings": [FINDING | {"text": "\ud83d"}]}) + "\n"
    )
    assert client.get("/api/inbox").json()["waiting"][0]["findings"][0]["text"] == "\ud83d"
    content = b'{"answer": "revise", "note": "half \\ud83d"}'
    said = client.post("/api/inbox/LLD-43", content=content, headers={"Content-Type": "application/json"})
    assert (said.status_code, said.json()["note"]) == (200, "half ?")


def test_an_answer_can_be_changed_until_the_next_run(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    assert client.post("/api/inbox/LLD-43", json={"answer": "approve"}).status_code == 200
    shown = client.get("/api/inbox").json()["answered"][0]["decided"]["at"]
    change = {"answer": "revise", "decided_at": shown}
    assert client.post("/api/inbox/LLD-43", json=change).status_code == 200
    assert client.get("/api/inbox").json()["answered"][0]["decided"]["answer"] == "revise"
    with Records(home.records) as records:
        begin(records, item_43(), "later")
    late = client.post("/api/inbox/LLD-43", json={"answer": "approve"})
    assert late.status_code == 409
    assert "is not waiting" in late.json()["error"]
    assert client.get("/api/inbox").json() == {"waiting": [], "answered": []}


def test_a_second_answer_to_the_same_question_is_refused(
    client: TestClient, home: Home, worktree: Path
) -> None:
    wait_for_a_person(home, worktree)
    asked = {"reviews": 1, "decided_at": None}
    assert client.post("/api/inbox/LLD-43", json={"answer": "approve", **asked}).status_code == 200
    late = client.post("/api/inbox/LLD-43", json={"answer": "revise", "note": "No.", **asked})
    assert late.status_code == 409
    assert "LLD-43 is already answered: approve, by" in late.json()["error"]
    assert "not recorded" in late.json()["error"]
    [kept] = client.get("/api/inbox").json()["answered"]
    assert (kept["decided"]["answer"], kept["decided"]["note"]) == ("approve", "")
    # A page that shows an older answer cannot change a newer one.
    change = {"answer": "revise", "decided_at": kept["decided"]["at"]}
    assert client.post("/api/inbox/LLD-43", json=change).status_code == 200
    assert client.post("/api/inbox/LLD-43", json=change | {"answer": "approve"}).status_code == 409
    assert client.get("/api/inbox").json()["answered"][0]["decided"]["answer"] == "revise"


def test_of_many_answers_at_once_one_is_taken(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    with ThreadPoolExecutor(8) as pool:
        answers = ["approve", "revise"] * 4
        said = list(
            pool.map(lambda one: client.post("/api/inbox/LLD-43", json={"answer": one}).status_code, answers)
        )
    assert sorted(said) == [200] + [409] * 7


def test_the_same_note_is_sent_once(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    for note, status in (("Use the cache.", 200), (" Use the cache. ", 409), ("Another.", 200)):
        said = client.post("/api/revise/LLD-43", json={"note": note})
        assert said.status_code == status, said.text
    with Records(home.records, write=False) as records:
        assert [one.text for one in records.decisions()["lld", "43"]] == ["Use the cache.", "Another."]


def test_an_answer_to_an_earlier_review_is_refused(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree, reviews=2)
    late = client.post("/api/inbox/LLD-43", json={"answer": "approve", "reviews": 1})
    assert (late.status_code, "reviewed again" in late.json()["error"]) == (409, True)
    assert client.get("/api/inbox").json()["answered"] == []
    assert client.post("/api/inbox/LLD-43", json={"answer": "approve", "reviews": 2}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"approve"',
        b"{}",
        b'{"answer": "APPROVE"}',
        b'{"answer": ["approve"]}',
        b'{"answer": "approve", "note": 1}',
        b'{"answer": "approve", "reviews": "1"}',
        b'{"answer": "approve", "reviews": true}',
        b'{"answer": "approve", "decided_at": 1}',
        b'{"answer": "approve", "by": "root"}',
        pytest.param(b"[" * 90_000, id="deep"),
        pytest.param(json.dumps({"answer": "approve", "note": "x" * 20_001}).encode(), id="long note"),
        pytest.param(b'{"answer": "approve", "note": "' + b"x" * 200_000 + b'"}', id="long body"),
    ],
)
def test_a_wrong_answer_changes_nothing(client: TestClient, home: Home, worktree: Path, body: bytes) -> None:
    wait_for_a_person(home, worktree)
    answer = client.post("/api/inbox/LLD-43", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 413}, answer.text
    assert client.get("/api/inbox").json()["answered"] == []


def test_a_label_that_does_not_wait_is_refused_by_name(
    client: TestClient, home: Home, worktree: Path
) -> None:
    wait_for_a_person(home, worktree)
    answer = client.post("/api/inbox/LLD-99", json={"answer": "approve"})
    assert answer.status_code == 409
    assert answer.json()["error"] == "LLD-99 is not waiting for a decision; LLD-43 is."
    assert client.get("/api/inbox/LLD-43").status_code == 405


def test_the_same_id_of_two_workflows_is_kept_apart(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree, "lld")
    wait_for_a_person(home, worktree, "issue")
    assert client.post("/api/inbox/43", json={"answer": "approve"}).status_code == 409
    assert client.post("/api/inbox/ISSUE-43", json={"answer": "approve"}).status_code == 200
    found = client.get("/api/inbox").json()
    assert [one["label"] for one in found["waiting"]] == ["LLD-43"]
    assert [one["label"] for one in found["answered"]] == ["ISSUE-43"]


def test_a_workflow_that_is_not_installed_any_more_does_not_break_the_inbox(
    home: Home, worktree: Path
) -> None:
    wait_for_a_person(home, worktree, "gone")
    with Records(home.records, write=False) as records:
        assert [one.label for one in discussions(records)] == ["GONE-43"]
    answered = answer_discussion(home, "GONE-43", answer="approve", note="")
    assert answered.command == "agentos run gone 43"


def test_a_bug_is_told_to_the_terminal_and_not_to_the_page(home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    failures: list[tuple[str, Exception]] = []

    def broken(_run: Path, _events: object, _reader: object) -> dict[str, Any]:
        raise KeyError("inner detail")

    view = PageRoutes(
        worktree=Path("project"),
        home=home,
        folders=Settings().folders,
        run_index=RunIndex(home.runs, broken),
        run_search=RunSearch(worktree=worktree, lineage_folder="docs/lineage", mark=str),
        inbox=Inbox(home=home, worktree=worktree, lineage_folder="docs/lineage"),
        failed=lambda path, exc: failures.append((path, exc)),
    )
    answer = client_of(view).get(f"/api/runs/{RUN}")
    assert (answer.status_code, "inner detail" in answer.text) == (500, False)
    assert [path for path, _ in failures] == [f"/api/runs/{RUN}"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_broken_records_are_told_in_one_line(client: TestClient, home: Home, worktree: Path) -> None:
    wait_for_a_person(home, worktree)
    home.records.write_bytes(b"not a database" * 100)
    for ending in ("-wal", "-shm"):
        home.records.with_name(home.records.name + ending).unlink(missing_ok=True)
    answer = client.get("/api/inbox")
    assert answer.status_code == 500
    assert "records" in answer.json()["error"]
