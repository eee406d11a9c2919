"""Budgets with the real command: a run stops in time, loses nothing, and remembers what was spent."""

import json
import re
import signal
from typing import Any

import pytest

from agentos.errors import Exit
from harness.processes import wait_until
from harness.project import Project


def spent(project: Project) -> float:
    """What all calls of all runs cost, by the audit trails."""
    return float(sum(call["cost_usd"] for call in calls(project)))


def calls(project: Project) -> list[dict[str, Any]]:
    lines = [
        json.loads(line)
        for run in project.runs()
        for path in run.glob("workflow-audit-*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    return [line for line in lines if line["kind"] == "call"]


@pytest.fixture
def backlog(project: Project) -> Project:
    for number in range(1, 7):
        project.issue(number, mock="verdicts=REVISE,APPROVED latency=0.05")
    return project


def test_a_budget_stops_the_run_in_time_and_more_budget_goes_on(backlog: Project) -> None:
    stopped = backlog.lld("--all", "--parallel", "3", "--budget", "0.01")
    assert stopped.code == Exit.BUDGET
    assert 0 < spent(backlog) <= 0.01
    held = [event for event in backlog.events("waiting") if event["kind"] == "budget"]
    assert held, "a call that is held back is told of"
    assert all(event["reason"] and event["item"] for event in held)
    assert backlog.events("run_started")[0]["budget"] == 0.01
    assert set(backlog.statuses().values()) <= {"paused", "pending"}
    assert backlog.summary()["cost_usd"] == pytest.approx(spent(backlog), abs=1e-5)
    (suggested,) = re.findall(r"--budget (0\.\d+)", stopped.said)
    assert 0.02 <= float(suggested) <= 0.04

    again = backlog.lld("--all", "--parallel", "3", "--budget", "0.01")
    assert again.code == Exit.BUDGET
    assert "before this run" in again.said
    assert spent(backlog) <= 0.01

    before = len(calls(backlog))
    done = backlog.lld("--all", "--parallel", "3", "--budget", "1")
    assert done.code == Exit.OK, done.text
    assert set(backlog.statuses().values()) == {"approved"}
    paid = {(call["item"], call["role"], call["number"]) for call in calls(backlog)}
    assert len(paid) == len(calls(backlog)) == 6 * 4 > before, "no call was paid twice"


def test_an_item_that_reaches_its_own_budget_is_paused_and_the_others_go_on(project: Project) -> None:
    project.issue(1, mock="verdicts=REVISE,REVISE,REVISE,APPROVED")
    project.issue(2)
    result = project.lld("--all", "--item-budget", "0.01")
    assert result.code == Exit.BUDGET
    assert project.statuses() == {"1": "paused", "2": "approved"}
    assert "item budget reached" in project.row("1")["error"]
    assert project.lld("--all", "--item-budget", "1").code == Exit.OK


def test_what_was_spent_survives_the_death_of_the_coordinator(backlog: Project) -> None:
    process = backlog.start("lld", "--all", "--mock", "--parallel", "2", "--budget", "0.03")
    wait_until(lambda: len(calls(backlog)) >= 3, "three paid calls")
    process.signal(signal.SIGKILL)
    process.wait()
    assert backlog.lld("--all", "--parallel", "2", "--budget", "0.03").code == Exit.BUDGET
    assert spent(backlog) <= 0.03


def test_a_finished_run_leaves_nothing_to_the_next_ones_budget(project: Project) -> None:
    project.issue(1)
    assert project.lld("--all", "--budget", "0.02").code == Exit.OK
    project.issue(2)
    assert project.lld("--all", "--budget", "0.02").code == Exit.OK


def test_a_budget_for_a_model_without_a_price_is_refused_with_what_to_do(project: Project) -> None:
    project.issue(1)
    flags = ("--drafter", "openai:no-such-model", "--reviewer", "openai:no-such-model", "--budget", "1")
    result = project.run("lld", "--all", *flags, env={"OPENAI_API_KEY": "sk-test"})
    assert result.code == Exit.USAGE
    assert "agentos config price openai:no-such-model --input USD --output USD" in result.said
    assert project.runs() == []


def test_the_dry_run_estimates_from_assumptions_then_from_history(project: Project) -> None:
    for number in range(1, 5):
        project.issue(number)
    assumed = project.lld("--dry-run", "--json").json
    assert assumed["cost_usd"]["low"] < assumed["cost_usd"]["high"]
    assert (assumed["cost_basis"], assumed["cost_based_on"]) == ("assumed", 0)
    assert "because no item has finished with these models)" in project.lld("--dry-run").said
    assert project.lld("1", "2", "3").code == Exit.OK
    measured = project.lld("--dry-run", "--json").json
    assert (measured["cost_basis"], measured["cost_based_on"]) == ("measured", 3)
    assert measured["cost_usd"]["high"] < assumed["cost_usd"]["high"]
    assert "measured on 3 finished items with these models" in project.lld("--dry-run").said


def test_items_of_the_mock_tell_nothing_about_other_models(project: Project) -> None:
    project.issues(4)
    assert project.lld("1", "2", "3").code == Exit.OK
    flags = ("--drafter", "openai:gpt-4o", "--reviewer", "openai:gpt-4o-mini")
    other = project.run("lld", "--dry-run", "--json", *flags).json
    assert (other["cost_basis"], other["cost_based_on"]) == ("assumed", 0)
    none_set = project.run("lld", "--dry-run", "--json").json
    assert (none_set["cost_usd"], none_set["cost_basis"]) == (None, "assumed")


def test_the_dry_run_says_why_the_cost_is_unknown(project: Project) -> None:
    project.issue(1)
    unset = "cost unknown: no {} set ('agentos doctor' shows how)."
    assert unset.format("models are") in project.run("lld", "--dry-run").said
    drafter = ("--drafter", "openai:gpt-4o")
    assert unset.format("reviewer is") in project.run("lld", "--dry-run", *drafter).said
    unknown = project.run("lld", "--dry-run", *drafter, "--reviewer", "openai:no-such-model")
    assert "cost unknown: no price for openai:no-such-model." in unknown.said


def test_the_dry_run_counts_the_files_of_context(project: Project) -> None:
    project.issue(1)
    project.write("docs/notes.md", "A note about the code. " * 2_000)
    without = project.lld("--dry-run", "--json").json["cost_usd"]
    counted = project.lld("--dry-run", "--json", "--context", "docs/notes.md").json["cost_usd"]
    assert counted["low"] > without["low"]
    assert counted["high"] > without["high"]
    assert "11,504 of --context" in project.lld("--dry-run", "--context", "docs/notes.md").said
