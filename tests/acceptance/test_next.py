"""The commands a run ends with are the right ones: each is run as it stands, and gets the work further."""

import re
import shlex

import pytest

from agentos.errors import Exit
from harness.project import Project, Result


def commands(result: Result) -> list[list[str]]:
    """What stands below `Next:`, without the remarks."""
    block = re.search(r"^Next:\n((?:  .*\n)+)", result.out, re.MULTILINE)
    assert block, result.text
    return [shlex.split(line, comments=True) for line in block[1].splitlines()]


def carry_out(project: Project, command: list[str]) -> Result:
    """Run a command as it stands; only the dots of an answer are replaced."""
    assert command[0] == "agentos"
    return project.run(*(word.replace("...", "Yes.") for word in command[1:]), env={"BROWSER": "true"})


def test_after_every_ending_the_next_commands_get_the_run_further(project: Project) -> None:
    project.issue(1)
    project.issue(2, mock="verdicts=DISCUSS,APPROVED")
    project.issue(3, mock="verdicts=REVISE stuck")
    project.issue(4, mock='fail="no schema"')
    ended = project.lld("--all", "-j4")
    by_verb = {command[1]: command for command in commands(ended)}
    assert list(by_verb) == ["view", "decide", "lld", "logs", "report"]
    assert carry_out(project, by_verb["decide"]).code == Exit.OK
    assert "no schema" in carry_out(project, by_verb["logs"]).out
    shown = carry_out(project, by_verb["report"])
    assert shown.code == Exit.OK
    assert "report.html" in shown.out
    project.issue(4)
    assert by_verb["lld"] == ["agentos", "lld", "--retry-failed", "--mock", "--parallel", "4"]
    assert carry_out(project, by_verb["lld"]).code == Exit.ATTENTION
    assert project.lld("--all").code == Exit.ATTENTION
    assert project.row("2")["status"] == "approved"


@pytest.mark.slow
def test_after_a_stop_the_next_command_goes_on_with_the_same_flags(project: Project) -> None:
    for number in range(1, 4):
        project.issue(number, mock="latency=0.6")
    stopped = project.lld("--all", "--source", "local", "--max-iterations", "3", "--run-timeout", "2s")
    assert stopped.code == Exit.STOPPED
    resume = commands(stopped)[0]
    wanted = "agentos lld --all --mock --source local --run-timeout 2 --max-iterations 3"
    assert resume == wanted.split()
    # The same time again may be too short again, but every run gets further.
    assert carry_out(project, resume).code in {Exit.OK, Exit.STOPPED}
    assert carry_out(project, resume[:4]).code == Exit.OK


def test_after_a_budget_the_next_command_has_more_of_it(project: Project) -> None:
    project.issue(1)
    project.issue(2)
    stopped = project.lld("1", "--budget", "0.005")
    assert stopped.code == Exit.BUDGET
    resume = commands(stopped)[0]
    assert resume[:3] == ["agentos", "lld", "1"]
    assert carry_out(project, resume).code == Exit.OK
    assert project.statuses() == {"1": "approved"}


def test_the_next_commands_find_the_same_home(project: Project) -> None:
    project.issue(1, mock="verdicts=DISCUSS,APPROVED")
    home = project.root / "another home"
    ended = project.run("--home", home, "lld", "--all", "--mock")
    assert ended.code == Exit.ATTENTION
    decide = commands(ended)[1]
    assert decide[:5] == ["agentos", "--home", str(home), "decide", "LLD-1"]
    decided = carry_out(project, decide)
    assert decided.code == Exit.OK
    resume = shlex.split(decided.out.splitlines()[-1])
    assert resume == ["agentos", "--home", str(home), "lld", "1", "--mock"]
    assert carry_out(project, resume).code == Exit.OK
    assert not project.home.exists()
