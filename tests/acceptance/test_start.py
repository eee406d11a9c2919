"""Starting: the process that workers are forked from begins early, and is never left behind."""

import signal

import pytest

from harness.processes import wait_until
from harness.project import STOP_SECONDS, Project

pytestmark = pytest.mark.cold


def put_slow_git(project: Project) -> str:
    """A git that does not answer, outside the project; returns the PATH that leads to it."""
    folder = project.outside / "programs"
    folder.mkdir()
    (folder / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (folder / "git").chmod(0o755)
    return f"{folder}:{project.environment['PATH']}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_the_items_are_read_leaves_nothing_behind(project: Project, number: int) -> None:
    project.issues(1)
    command = project.start("lld", "--all", env={"PATH": put_slow_git(project)})
    wait_until(lambda: project.server(command), "the process that workers are forked from")
    wait_until(lambda: any("sleep 60" in one.command for one in project.processes()), "git at work")

    command.signal(number)

    done = command.wait(STOP_SECONDS + 20)
    assert done.code == (130 if number == signal.SIGINT else -signal.SIGTERM)
    done.assert_no_traceback()
    wait_until(lambda: project.server(command) is None, "the end of the process", STOP_SECONDS)
    assert project.runs() == []


@pytest.mark.parametrize(
    "words",
    [["--all"], ["--all", "--mock", "--parallel", "x"], ["--mock"], ["../x", "--mock"], ["99", "--mock"]],
)
def test_a_command_that_cannot_be_carried_out_leaves_nothing_behind(
    project: Project, words: list[str]
) -> None:
    project.issues(1)
    assert project.run("lld", *words).code == 2
    assert project.processes() == []
    assert not project.home.exists()


def test_a_dry_run_starts_no_other_process(project: Project) -> None:
    project.issues(1)
    command = project.start("lld", "--all", "--dry-run", env={"PATH": put_slow_git(project)})
    wait_until(lambda: any("sleep 60" in one.command for one in project.processes()), "git at work")
    assert project.server(command) is None
