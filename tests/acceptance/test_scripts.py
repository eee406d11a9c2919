"""What scripts get: open findings, skipped items apart, errors as JSON, the run that matters."""

import signal
from typing import Any

import pytest

from harness.processes import wait_until
from harness.project import Project

FINDING_KEYS = {"tier", "category", "title", "text", "recommendation"}


def left_open(review: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbered findings that are open after a review, then its suggestions."""
    suggested = [one for one in review["findings"] if one["tier"] == 3]
    return [one for one in review["ledger"] if one["state"] == "open"] + suggested


def test_items_that_are_not_finished_tell_what_is_open(project: Project) -> None:
    project.issue(1, mock="verdicts=REVISE")
    project.issue(2, mock="verdicts=DISCUSS")
    project.issue(3)
    project.issue(4, mock="fail=broken")
    told = project.lld("--all", "--max-iterations", "2", "--json").json
    assert (told["schema_version"], told["mock"], told["skipped"]) == (1, True, 0)
    rows = {row["id"]: row for row in told["items"]}
    assert {one: row["status"] for one, row in rows.items()} == {
        "1": "needs_revision", "2": "discuss", "3": "approved", "4": "failed",
    }  # fmt: skip
    assert rows["1"]["findings"] == left_open(project.audits("1")[-1])
    assert rows["1"]["findings"][0].keys() == FINDING_KEYS | {"number", "state", "where", "returned"}
    assert rows["1"]["findings"][0]["tier"] < 3
    assert rows["3"]["findings"] == rows["4"]["findings"] == []

    # Nothing is reviewed again: what is open is what the run before left.
    again = {row["id"]: row for row in project.lld("--all", "--max-iterations", "2", "--json").json["items"]}
    assert {one: again[one]["status"] for one in "123"} == {
        "1": "needs_revision", "2": "discuss", "3": "skipped",
    }  # fmt: skip
    assert [again[one]["findings"] for one in "123"] == [rows[one]["findings"] for one in "123"]

    # Another text is another item: nobody has reviewed it.
    project.issue(1, mock="fail=broken")
    assert project.lld("1").code == 1
    assert project.row("1")["findings"] == []


@pytest.mark.slow
def test_an_interrupted_item_keeps_its_findings(project: Project) -> None:
    project.issue(1, mock="verdicts=REVISE,APPROVED latency=1")
    run = project.start("lld", "1", "--mock")
    wait_until(lambda: any(one["kind"] == "verdict" for one in project.audits("1")), "the first verdict")
    run.signal(signal.SIGINT)
    assert project.finish(run).code == 130
    row = project.row("1")
    assert row["status"] == "interrupted"
    assert row["findings"]
    verdicts = [one for one in project.audits("1") if one["kind"] == "verdict"]
    assert row["findings"] == left_open(verdicts[-1])
    assert project.lld("1").code == 0
    assert project.row("1")["findings"] == []


def test_skipped_items_are_counted_apart_and_such_a_run_is_not_the_latest(project: Project) -> None:
    project.issues(2)
    first = project.lld("--all")
    assert "2 approved\n" in first.out
    project.issue(3)
    assert "1 approved; 2 skipped\n" in project.lld("--all").out
    mattered = project.runs()[-1]
    assert "1 approved; 2 skipped." in (mattered / "summary.md").read_text("utf-8")
    assert project.summary()["skipped"] == 2
    assert project.summary()["totals"] == {"approved": 1, "skipped": 2}
    assert "\n3 skipped\n" in project.lld("--all").out
    assert project.runs()[-1] != mattered
    status = project.run("status", "--json").json
    assert (status["run_id"], status["mock"]) == (mattered.name, True)
    assert f"Run {mattered.name} with the mock: finished" in project.run("status").out


def test_a_run_that_only_skipped_is_the_latest_where_there_is_no_other(project: Project) -> None:
    project.issue(1)
    for _ in range(2):
        assert project.lld("--all").code == 0
    first, second = project.runs()
    for path in first.iterdir():
        path.unlink()
    first.rmdir()
    assert project.run("status", "--json").json["run_id"] == second.name


def test_status_without_a_run_says_nothing_of_a_mock(project: Project) -> None:
    told = project.run("status", "--json").json
    assert (told["run_id"], told["mock"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["lld", "--json", "--mock"], 2, "Name the items to run"),
        (["lld", "1", "--json"], 2, "No drafter is set"),
        (["lld", "1", "--json", "--mock", "--nonsense"], 2, "--nonsense"),
        (["lld", "1", "--json", "--drafter", "openai:a", "--reviewer", "openai:b"], 4, "No key for openai"),
        (["report", "no-such-run", "--json"], 2, "there is no report"),
        (["verdict", "gone.md", "--json"], 2, "Cannot read gone.md"),
    ],
)
def test_with_json_an_error_is_json_and_a_line_for_people(
    project: Project, arguments: list[str], code: int, message: str
) -> None:
    project.issue(1)
    result = project.run(*arguments)
    assert result.code == code
    error = result.json["error"]
    assert error.keys() == {"message", "exit_code"}
    assert error["exit_code"] == code
    assert message in error["message"]
    assert message in result.err
    assert project.run(*(word for word in arguments if word != "--json")).out == ""
