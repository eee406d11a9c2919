"""The same command again: done is skipped, changed is done anew, stopped goes on; looking changes nothing."""

import pytest

from agentos.stamp import split
from harness.project import Project


def test_skipped_items_are_one_line_unless_they_are_named(project: Project) -> None:
    project.issues(3)
    assert project.lld("--all").code == 0

    again = project.lld("--all")
    assert "[COORDINATOR] 3 items skipped: already approved\n" in again.out
    assert "LLD-1: skipped" not in again.out
    assert "Exit 0: nothing pending" in again.out
    assert project.row("1")["reason"] == "stamped: docs/lld/active/LLD-1.md"
    named, verbose = project.lld("1", "2").out, project.lld("--all", "-v").out
    for number in (1, 2):
        line = f"LLD-{number}: skipped: already approved: docs/lld/active/LLD-{number}.md"
        assert line in named
        assert line in verbose


def test_done_is_skipped_changed_is_done_anew_and_so_is_fresh(project: Project) -> None:
    project.issue(7, "# Seven\n\nThe first text.\n")
    assert project.lld("7").code == 0
    first = project.read("docs/lld/active/LLD-7.md")

    again = project.lld("7", "--json")
    assert again.code == 0
    [row] = again.json["items"]
    assert (row["status"], row["verdict"], row["reviews"]) == ("skipped", "APPROVED", 1)
    assert row["output"] == "docs/lld/active/LLD-7.md"
    assert project.calls("7", run=-1) == []
    assert project.lineage("7-lld-2") == []
    assert project.read("docs/lld/active/LLD-7.md") == first

    project.issue(7, "# Seven\n\nThe second text.\n")
    anew = project.lld("--all")
    assert anew.code == 0
    assert project.statuses() == {"7": "approved"}
    assert project.calls("7", run=-1) == [("drafter", 1), ("reviewer", 1)]
    assert project.read("docs/lineage/done/7-lld/001-issue.md").endswith("The first text.\n")
    assert project.read("docs/lineage/done/7-lld-2/001-issue.md").endswith("The second text.\n")
    assert project.read("docs/lld/active/LLD-7.md") != first

    # The text as it was before is known, too.
    project.issue(7, "# Seven\n\nThe first text.\n")
    assert project.lld("--all", "--dry-run", "--json").json["items"][0]["action"] == "revise"
    project.issue(7, "# Seven\n\nThe second text.\n")

    fresh = project.lld("7", "--fresh")
    assert fresh.code == 0
    assert "--fresh" in fresh.out
    assert project.calls("7", run=-1) == [("drafter", 1), ("reviewer", 1)]
    assert project.lineage("7-lld-3") == ["001-issue.md", "002-draft.md", "003-verdict.md", "004-final.md"]
    assert project.lld("7").code == 0
    assert project.statuses() == {"7": "skipped"}


def test_an_old_document_is_not_passed_off_as_the_design_of_the_present_text(project: Project) -> None:
    project.issue(7, "# Seven\n\nThe first text.\n")
    assert project.lld("7").code == 0
    first = project.read("docs/lld/active/LLD-7.md")
    project.issue(7, "# Seven\n\nThe second text.\n")
    assert project.lld("7").code == 0
    project.issue(7, "# Seven\n\nThe first text.\n")
    assert project.lld("7").code == 0
    # Whether it was done anew or taken from before: what stands there must be the design of this text.
    stamp, now = split(first).stamp, split(project.read("docs/lld/active/LLD-7.md")).stamp
    assert stamp is not None
    assert now is not None
    assert now.input == stamp.input


def test_an_unfinished_item_whose_text_changed_starts_anew_and_says_so(project: Project) -> None:
    project.issue(7, mock="verdicts=DISCUSS")
    assert project.lld("7").code == 3
    assert project.run("decide", "7", "--approve").code == 0
    project.issue(7, "# Seven\n\nAnother text.\n")  # the decision was about the other text
    result = project.lld("7")
    assert result.code == 0, result.text
    assert "text has changed" in result.out
    assert project.calls("7", run=-1) == [("drafter", 1), ("reviewer", 1)]
    trails = {path.name for path in (project.root / "docs/lineage/done").iterdir()}
    assert trails == {"7-lld", "7-lld-2"}  # the trail that was given up is kept
    done = project.root / "docs/lineage/done"
    assert max(path.name for path in (done / "7-lld").iterdir()) == "003-verdict.md"
    assert project.lineage("7-lld-2")[-1] == "004-final.md"


def test_failed_items_are_tried_again_and_only_they(project: Project) -> None:
    project.issue(1)
    project.issue(2, mock='fail="not yet"')
    project.issue(3, mock="verdicts=DISCUSS")
    project.issue(10)
    assert project.lld("--all", "--limit", "3").code == 1
    assert project.statuses() == {"1": "approved", "2": "failed", "3": "discuss"}  # 10 comes after 3
    planned = project.lld("--retry-failed", "--dry-run", "--json").json
    assert [(one["id"], one["action"]) for one in planned["items"]] == [("2", "resume")]
    project.issue(2)
    assert project.lld("--retry-failed").code == 0
    assert project.statuses() == {"2": "approved"}
    # The limit counts what is run, not what is skipped.
    assert project.lld("--all", "--limit", "1").code == 3
    assert project.statuses() == {"1": "skipped", "2": "skipped", "3": "discuss", "10": "approved"}
    nothing = project.lld("--retry-failed")
    assert nothing.code == 0
    assert "nothing pending" in nothing.said.lower()


def test_nothing_pending_is_success(project: Project) -> None:
    result = project.lld("--all", "--json")
    assert result.code == 0
    assert result.json["items"] == []
    assert result.json["totals"] == {}
    assert project.lld("--all", "--dry-run").out == "issues from issues/active\nNothing pending.\n"


@pytest.fixture
def backlog(project: Project) -> Project:
    """One item of each kind that a run can meet."""
    project.issue(1)
    project.issue(2, mock="verdicts=DISCUSS")
    project.issue(3, mock='fail="not yet"')
    project.issue(4, mock="verdicts=REVISE")
    project.issue(5)
    assert project.lld("--all", "--max-iterations", "2", "-j", "3").code == 1
    project.issue(5, "# Five\n\nChanged.\n")
    project.issue(6)
    project.write("issues/active/7.md", b"\x7fELF\0\0")
    return project


def test_looking_changes_nothing(backlog: Project) -> None:
    before = backlog.snapshot()
    shown = backlog.lld("--all", "--dry-run")
    assert shown.code == 0, shown.text
    for label in ("LLD-1", "LLD-2", "LLD-3", "LLD-4", "LLD-5", "LLD-6", "LLD-7"):
        assert label in shown.out
    planned = backlog.run("lld", "--all", "--mock", "--dry-run", "--json")
    assert planned.code == 0
    actions = {one["id"]: one["action"] for one in planned.json["items"]}
    assert actions.pop("5") == "revise"
    assert actions == {"1": "skip", "2": "wait", "3": "resume", "4": "resume", "6": "start", "7": "refuse"}
    resumed = next(one for one in planned.json["items"] if one["id"] == "4")
    assert (resumed["from"], resumed["reviews"]) == ("hold", 2)
    assert planned.json["calls"]["low"] <= planned.json["calls"]["high"]
    assert planned.err == ""
    for arguments in (
        ["status"], ["status", "--json"], ["logs", "LLD-1"], ["config"], ["config", "--json"],
        ["lld", "99", "--mock"], ["clean", "--dry-run", "--older-than", "1ms"],
    ):  # fmt: skip
        assert backlog.run(*arguments).code in {0, 2}, arguments
        assert backlog.snapshot() == before, arguments
    assert backlog.snapshot() == before


def test_a_dry_run_in_a_new_project_leaves_no_trace(project: Project) -> None:
    project.issue(1)
    project.brief("idea")
    before = project.snapshot()
    assert project.lld("--all", "--dry-run").code == 0
    assert project.briefs("--all", "--dry-run", "--json").json["items"][0]["action"] == "start"
    assert project.run("status").code == 0
    assert project.run("clean").code == 0
    assert project.snapshot() == before


def test_status_and_logs_tell_what_happened(backlog: Project) -> None:
    data = backlog.run("status", "--json").json
    assert data["live"] == []
    assert data["run_id"] == backlog.runs()[-1].name
    unfinished = {one["id"]: one["status"] for one in data["unfinished"]}
    assert unfinished == {"2": "discuss", "3": "failed", "4": "needs_revision"}
    shown = backlog.run("status").out
    assert "not yet" in shown
    assert backlog.run("logs", "1").out == backlog.run("logs", "LLD-1").out != ""
    for wrong in ("99", "../1", "LLD-*"):
        result = backlog.run("logs", wrong)
        assert result.code == 2
        assert result.out == ""


def test_clean_removes_what_is_old_and_nothing_else(backlog: Project) -> None:
    documents = {name for name in backlog.files() if not name.startswith(".agentos")}
    assert backlog.run("clean").code == 0
    assert len(backlog.runs()) == 1
    result = backlog.run("clean", "--older-than", "1ms")
    assert result.code == 0, result.text
    assert backlog.runs() == []
    assert not list((backlog.home / "checkpoints").iterdir())
    assert {name for name in backlog.files() if not name.startswith(".agentos")} == documents
    # What is approved is still known; the others start anew.
    assert backlog.run("clean", "--older-than", "nonsense").code == 2
    planned = backlog.lld("--all", "--dry-run", "--json").json
    actions = {one["id"]: one["action"] for one in planned["items"]}
    assert actions["1"] == "skip"
    assert {actions[item] for item in ("2", "3", "4")} == {"start"}
    assert backlog.lld("3", "4", "--max-iterations", "1").code == 1
    assert backlog.lineage("4-lld", "active") == ["001-issue.md", "002-draft.md", "003-verdict.md"]
