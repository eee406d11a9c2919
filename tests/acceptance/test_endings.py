"""Every way an item can end, in both workflows: status, exit code, files, lineage, records."""

import json
import re
from pathlib import Path

import pytest

from agentos.report.summary import ItemFiles, KeyRow, NotInEvents, summary_of
from agentos.store.run_folder import read_events
from harness.project import Project

KEYS = {
    "run_id", "workflow", "parallel", "started_at", "finished_at", "wall_seconds", "exit_code", "totals",
    "items", "keys", "coordination_overhead_percent",
}  # fmt: skip
ITEM_KEYS = {
    "id", "label", "status", "verdict", "reviews", "attempts", "seconds", "waited_seconds", "tokens_in",
    "tokens_out", "cost_usd", "error", "output", "log", "checkpoint",
}  # fmt: skip


def test_what_a_model_wraps_around_its_replies_is_removed(project: Project) -> None:
    for number, script in ((1, "verdicts=REVISE,APPROVED"), (2, "verdicts=REVISE,APPROVED chat")):
        project.issue(number, f"# Export\n\n<!-- mock: {script} -->\n")
    result = project.lld("1", "2")
    assert result.code == 0, result.text
    plain, chatty = (project.read(f"docs/lld/active/LLD-{number}.md") for number in (1, 2))
    assert chatty.startswith("# ")
    assert "think" not in chatty
    assert plain.count("\n") == chatty.count("\n")
    log = project.read(project.runs()[-1] / "LLD-2.log")
    assert "draft 1: removed the model's thinking and the code fence around the reply" in log
    assert "review 2: removed the model's thinking" in log


def test_approved_at_once(project: Project) -> None:
    source = project.issue(42, "# Export as CSV\n\nA button that downloads what the search shows.\n")
    result = project.lld("42", "--json")
    assert result.code == 0, result.text

    summary = result.json  # nothing but JSON on standard output
    assert summary == project.summary()
    assert summary.keys() >= KEYS
    assert summary["workflow"] == "lld"
    assert summary["totals"] == {"approved": 1}
    assert summary["exit_code"] == 0
    assert summary["run_id"] == project.runs()[-1].name
    [row] = summary["items"]
    assert row.keys() >= ITEM_KEYS
    assert (row["id"], row["label"], row["status"], row["verdict"]) == (
        "42",
        "LLD-42",
        "approved",
        "APPROVED",
    )
    assert (row["reviews"], row["attempts"], row["error"]) == (1, 1, None)
    assert row["output"] == "docs/lld/active/LLD-42.md"
    assert row["tokens_in"] > 0
    assert row["tokens_out"] > 0
    assert row["checkpoint"] is None
    assert Path(row["log"]).name == "LLD-42.log"
    assert all({"id", "calls", "rate_limited"} <= key.keys() for key in summary["keys"])
    assert sum(key["calls"] for key in summary["keys"]) == 2

    assert project.lineage("42-lld") == ["001-issue.md", "002-draft.md", "003-verdict.md", "004-final.md"]
    assert project.lineage("42-lld", "active") == []
    trail = Path("docs/lineage/done/42-lld")
    assert project.read(trail / "001-issue.md") == source.read_text("utf-8")
    assert "[x] **APPROVED**" in project.read(trail / "003-verdict.md")

    document = project.read("docs/lld/active/LLD-42.md")
    assert "#42" in document
    log = r"## Review log\n\n- 1 review by mock:\S+, \d+ \w{3} \d{4}; details in `docs/lineage/done/42-lld`"
    assert re.search(rf"\n{log}\n\n<!-- agentos: .*-->\n\Z", document), document
    assert document.startswith(project.read(trail / "004-final.md").rstrip())

    run = {path.name for path in project.runs()[-1].iterdir() if not path.name.startswith(".")}
    assert {
        "LLD-42.log", "workflow-audit-42.jsonl", "events.jsonl", "coordinator.log", "summary.json",
        "summary.md",
    } <= run  # fmt: skip
    assert "LLD-42" in (project.runs()[-1] / "summary.md").read_text("utf-8")
    assert not list((project.home / "checkpoints").iterdir())
    assert "[LLD-42] " in result.err
    assert "[COORDINATOR] " in result.err

    names = [event["event"] for event in project.events()]
    assert names[0] == "run_started"
    assert names[-1] == "run_finished"
    assert {"started", "leased", "settled", "completed"} <= set(names)
    calls = [one for one in project.audits("42") if one["kind"] == "call"]
    assert [(one["role"], one["number"]) for one in calls] == [("drafter", 1), ("reviewer", 1)]
    for call in calls:
        assert {"time", "node", "model", "served", "key", "tokens_in", "tokens_out"} <= call.keys()
        assert call["key"].startswith("mock-")
    [verdict] = [one for one in project.audits("42") if one["kind"] == "verdict"]
    assert verdict["verdict"] == "APPROVED"


def test_approved_after_a_revision_that_resolves_every_finding(project: Project) -> None:
    project.issue("42-with-a-title", mock="verdicts=REVISE,APPROVED")
    result = project.lld("42")
    assert result.code == 0, result.text
    assert project.statuses() == {"42": "approved"}
    assert project.row("42")["reviews"] == 2
    assert project.lineage("42-lld") == [
        "001-issue.md", "002-draft.md", "003-verdict.md", "004-draft.md", "005-verdict.md", "006-final.md"
    ]  # fmt: skip
    trail = Path("docs/lineage/done/42-lld")
    assert "[x] **REVISE**" in project.read(trail / "003-verdict.md")
    document = project.read("docs/lld/active/LLD-42.md")
    assert re.search(
        r"^- 2 reviews by .* \(F1 to F\d\); details in `docs/lineage/done/42-lld`$", document, re.MULTILINE
    )
    assert "## Follow-ups" not in document
    first = next(one for one in project.audits("42") if one["kind"] == "verdict")
    assert first["findings"]
    for finding in first["findings"]:
        if finding["tier"] < 3:
            assert finding["recommendation"] in document
    assert "Exit 0" in result.out
    assert not list((project.home / "checkpoints").iterdir())


@pytest.mark.parametrize("answer", ["approve", "revise", "note"])
def test_a_discussion_is_answered_and_goes_on(project: Project, answer: str) -> None:
    project.issue(43, mock="verdicts=DISCUSS,APPROVED")
    project.issue(44)
    first = project.lld("--all")
    assert first.code == 3, first.text
    assert project.statuses() == {"43": "discuss", "44": "approved"}
    row = project.row("43")
    assert row["verdict"] == "DISCUSS"
    assert row["error"]
    assert row["checkpoint"] == str(project.home / "checkpoints" / "lld_workflow_43.mock.db")
    assert "agentos decide LLD-43" in first.out
    assert project.lineage("43-lld", "active") == ["001-issue.md", "002-draft.md", "003-verdict.md"]
    assert not (project.root / "docs/lld/active/LLD-43.md").exists()

    # Nobody has answered: nothing is called, and it waits on.
    again = project.lld("--all")
    assert again.code == 3
    assert project.statuses() == {"43": "discuss", "44": "skipped"}
    assert project.calls("43", run=-1) == []

    arguments = {"approve": ["--approve"], "revise": ["--revise"], "note": ["--note", "Stop at once."]}[
        answer
    ]
    decided = project.run("decide", "43", *arguments)
    assert decided.code == 0, decided.text
    assert "LLD-43" in decided.out
    last = project.lld("43")
    assert last.code == 0, last.text
    assert project.statuses() == {"43": "approved"}
    document = project.read("docs/lld/active/LLD-43.md")
    question = row["error"].removeprefix("Q1: ")
    if answer == "revise":  # without a word, it decides nothing
        assert f"\n## Open questions\n\n- **Q1** {question}\n" in document
    else:
        words = {"approve": "The document was approved as it was.", "note": "Stop at once."}[answer]
        line = rf"\n## Decisions\n\n- \d+ \w{{3}} \d{{4}}, .+: \*\*{re.escape(question)}\*\* {words}\n"
        assert re.search(line, document)
    paid = [("drafter", 1), ("reviewer", 1)]
    kinds = ["001-issue.md", "002-draft.md", "003-verdict.md"]
    if answer == "approve":
        assert project.calls("43") == paid
        assert project.lineage("43-lld") == [*kinds, "004-final.md"]
        assert ", approved by " in document
    else:
        assert project.calls("43") == [*paid, ("drafter", 2), ("reviewer", 2)]
        assert project.lineage("43-lld") == [*kinds, "004-draft.md", "005-verdict.md", "006-final.md"]
    [noted] = [one for one in project.audits("43") if one["kind"] == "decision"]
    assert noted["answer"] == ("approve" if answer == "approve" else "revise")
    if answer == "note":
        assert noted["note"] == "Stop at once."


def test_decide_refuses_what_it_cannot_mean(project: Project) -> None:
    nothing = project.run("decide", "43", "--approve")
    assert nothing.code == 2
    assert not project.home.exists()
    project.issue("43-with-a-title", mock="verdicts=DISCUSS")
    project.brief("43", mock="verdicts=DISCUSS")
    assert project.lld("43").code == 3
    assert project.briefs("43").code == 3
    for arguments in (["43"], ["43", "--approve", "--revise"], ["42", "--approve"], ["43", "--approve"]):
        refused = project.run("decide", *arguments)
        assert refused.code == 2, (arguments, refused.text)
        assert refused.out == ""
        assert len(refused.err.splitlines()) == 1
    assert "LLD-43" in refused.err  # the same id waits in both workflows
    assert "ISSUE-43" in refused.err
    assert project.run("decide", "ISSUE-43", "--approve").code == 0
    assert project.run("decide", "LLD-43", "--revise", "--note", "Stop.").code == 0
    assert project.lld("43").code == 3  # discussed again, after the second review
    assert project.row("43")["reviews"] == 2
    # The earlier answer was for the earlier discussion.
    assert project.lld("43").code == 3
    assert project.calls("43", run=-1) == []


def test_needs_revision_by_the_limit_and_more_when_it_is_raised(project: Project) -> None:
    project.issue(1, mock="verdicts=REVISE")
    first = project.lld("1", "--max-iterations", "2")
    assert first.code == 3, first.text
    row = project.row("1")
    assert (row["status"], row["verdict"], row["reviews"]) == ("needs_revision", "REVISE", 2)
    assert "2 reviews" in row["error"]
    assert row["output"] is None
    assert Path(row["checkpoint"]).is_file()
    assert not (project.root / "docs/lld/active/LLD-1.md").exists()
    names = ["001-issue.md", "002-draft.md", "003-verdict.md", "004-draft.md", "005-verdict.md"]
    assert project.lineage("1-lld", "active") == names
    assert "--retry-failed" in first.out

    same = project.lld("1", "--max-iterations", "2")
    assert same.code == 3
    assert project.calls("1", run=-1) == []
    assert project.lld("1", "--max-iterations", "3").code == 3
    assert project.calls("1", run=-1) == [("drafter", 3), ("reviewer", 3)]
    assert project.lld("--retry-failed", "--max-iterations", "2").code == 3
    assert project.calls("1", run=-1) == [("drafter", 4), ("reviewer", 4), ("drafter", 5), ("reviewer", 5)]
    assert project.row("1")["reviews"] == 5


def test_needs_revision_when_nothing_moves_and_by_the_default_limit(project: Project) -> None:
    project.issue(1, mock="verdicts=REVISE stuck")
    project.issue(2, mock="verdicts=REVISE")
    result = project.lld("--all")
    assert result.code == 3, result.text
    assert project.statuses() == {"1": "needs_revision", "2": "needs_revision"}
    assert project.row("1")["reviews"] == 3  # the same findings came back twice
    assert "no progress" in project.row("1")["error"]
    assert project.row("2")["reviews"] == 5


def test_failures_take_nothing_with_them(project: Project) -> None:
    project.issue(1, mock='fail="the schema is not described"')
    project.issue(2, mock="gate=4")
    project.issue(3, mock="gate=3")
    project.issue(4)
    project.issue(5, mock="no-such-word=1")
    result = project.lld("--all", "--parallel", "2")
    assert result.code == 1, result.text
    assert project.statuses() == {
        "1": "failed", "2": "failed", "3": "approved", "4": "approved", "5": "failed"
    }  # fmt: skip
    assert project.row("1")["error"] == "the schema is not described"
    gate = project.row("2")
    assert "Proposed Changes" in gate["error"]
    assert gate["reviews"] == 0
    assert project.calls("2") == [("drafter", number) for number in (1, 2, 3, 4)]
    drafts = [f"00{number}-draft.md" for number in (2, 3, 4, 5)]
    assert project.lineage("2-lld", "active") == ["001-issue.md", *drafts]
    assert project.lineage("3-lld") == ["001-issue.md", *drafts, "006-verdict.md", "007-final.md"]
    assert "no-such-word" in project.row("5")["error"]
    assert "the schema is not described" in result.out
    assert "Exit 1" in result.out
    failed = [event for event in project.events() if event["event"] == "failed"]
    assert {event["item"] for event in failed} == {"1", "2", "5"}

    # What the ending tells a person to type must work.
    commands = re.findall(r"^  agentos (logs \S+)", result.out, re.MULTILINE)
    assert commands
    for command in commands:
        shown = project.run(*command.split())
        assert shown.code == 0, shown.text
        assert "the schema is not described" in shown.out


@pytest.mark.parametrize("workflow", ["lld", "issue"])
def test_a_reply_that_is_no_review_never_approves(project: Project, workflow: str) -> None:
    for number, garbage in enumerate(("truncated", "empty", "spoof", "html"), start=1):
        (project.issue if workflow == "lld" else project.brief)(str(number), mock=f"garbage={garbage}")
    result = project.run(workflow, "--all", "--mock", "-j", "2")
    assert result.code == 1, result.text
    assert set(project.statuses().values()) == {"failed"}
    for item in ("1", "2", "3", "4"):
        row = project.row(item)
        assert row["verdict"] == "UNREADABLE"
        assert "read" in row["error"]
        verdicts = [one for one in project.audits(item) if one["kind"] == "verdict"]
        assert [one["verdict"] for one in verdicts] == ["UNREADABLE"] * 3
        assert all(one["reason"] for one in verdicts)
    outputs = "docs/lld/active" if workflow == "lld" else "issues/active"
    assert not list((project.root / outputs).glob("*.md"))
    assert not [event for event in project.events() if event["event"] == "completed"]


def test_a_brief_becomes_an_issue_becomes_a_design(project: Project) -> None:
    project.brief("dark-mode", "# Dark mode\n\nMany of us work at night.\n", "verdicts=REVISE,APPROVED")
    result = project.run("issue", "dark-mode", "--mock", "--json")
    assert result.code == 0, result.text
    [row] = result.json["items"]
    assert (row["id"], row["label"]) == ("dark-mode", "ISSUE-dark-mode")
    assert row["output"] == "issues/active/dark-mode.md"
    assert project.lineage("dark-mode-issue") == [
        "001-brief.md", "002-draft.md", "003-verdict.md", "004-draft.md", "005-verdict.md", "006-final.md"
    ]  # fmt: skip
    issue = project.read("issues/active/dark-mode.md")
    for heading in ("User Story", "Acceptance Criteria", "Definition of Done"):
        assert f"## {heading}" in issue
    verdict = project.read("docs/lineage/done/dark-mode-issue/003-verdict.md")
    assert "### Architecture" in verdict
    assert "### Observability" not in verdict  # an issue's review has none

    planned = project.lld("--all", "--dry-run", "--json").json
    assert [(one["id"], one["action"]) for one in planned["items"]] == [("dark-mode", "start")]
    assert project.lld("--all").code == 0
    assert project.statuses() == {"dark-mode": "approved"}
    assert "dark-mode" in project.read("docs/lld/active/LLD-dark-mode.md")
    assert project.lineage("dark-mode-lld")[0] == "001-issue.md"

    # The same brief again: skipped, and the issue it made is left as it is.
    assert project.briefs("--all").code == 0
    assert project.statuses() == {"dark-mode": "skipped"}
    assert project.read("issues/active/dark-mode.md") == issue


def test_a_document_that_is_not_ours_is_never_overwritten(project: Project) -> None:
    project.issue(42)
    project.write("docs/lld/active/LLD-42.md", "mine\n")
    result = project.lld("42")
    assert result.code == 0, result.text
    assert project.read("docs/lld/active/LLD-42.md") == "mine\n"
    assert project.row("42")["reason"] == "docs/lld/active/LLD-42.md was not written by the mock"
    (project.root / "docs/lld/active/LLD-42.md").unlink()
    assert project.lld("42").code == 0
    assert project.calls("42") == [("drafter", 1), ("reviewer", 1)]  # nothing is paid twice


@pytest.mark.slow
def test_the_events_of_a_run_fold_into_its_summary(project: Project) -> None:
    """Everything that the summary says comes from the events, except for what `given` lists."""
    project.issue(1)
    assert project.lld("1").code == 0
    scripts = ["verdicts=REVISE,APPROVED", "verdicts=DISCUSS", "verdicts=REVISE", "hang=60", "429=2"]
    for item, script in enumerate([*scripts, 'fail="it broke"', "crash=SIGKILL"], 2):
        project.issue(item, mock=script)
    result = project.lld("--all", "--json", "--parallel", "3", "--timeout", "5s", "--max-iterations", "2")
    assert result.code == 1, result.text
    summary = result.json
    assert len(summary["totals"]) >= 4, summary["totals"]

    given = NotInEvents(
        items={
            row["id"]: ItemFiles(
                log=row["log"], checkpoint=row["checkpoint"], findings=tuple(row["findings"])
            )
            for row in summary["items"]
        },
        keys=tuple(KeyRow(**key) for key in summary["keys"]),
        **{name: summary[name] for name in ("folder", "trace_id", "source")},
    )
    folded = summary_of(read_events(project.runs()[-1]), given).as_dict()
    assert json.loads(json.dumps(folded)) == summary == project.summary()
