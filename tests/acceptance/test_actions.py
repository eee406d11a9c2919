"""The how-to for GitHub Actions works as it is written: its steps run here, with the mock."""

import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from agentos.errors import Exit
from harness.project import Project, Result

PAGE = Path(__file__).parents[2] / "docs/how-to/github-actions.md"


def run_steps() -> dict[str, str]:
    """The scripts of the workflow on the page, by the name of their step."""
    [workflow] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    steps = re.split(r"^      - ", workflow, flags=re.MULTILINE)[1:]
    found: dict[str, str] = {}
    for step in steps:
        named = re.match(r"name: (.+)\n", step)
        script = re.search(r"^        run: (?:\|\n((?:          .*\n)+)|(.+)\n)", step, re.MULTILINE)
        if named and script:
            found[named[1]] = textwrap.dedent(script[1]) if script[1] else script[2]
    return found


class Runner:
    """A clone of the repository on a new machine, as GitHub Actions has it."""

    def __init__(self, project: Project, origin: Path, number: int) -> None:
        self.root = project.tmp / f"runner-{number}" / "work"
        self.root.parent.mkdir()
        self.page = self.root.parent / "step-summary.md"
        tools = self.root.parent / "bin"
        tools.mkdir()
        (tools / "pipx").write_text('#!/bin/sh\necho "$@" > "$(dirname "$0")/installed"\n')
        (tools / "pipx").chmod(0o755)
        self.installed = tools / "installed"
        self.environment = project.environment | {
            "PATH": f"{tools}:{project.environment['PATH']}",
            "HOME": str(self.root.parent),
            "XDG_STATE_HOME": str(self.root.parent / "state"),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "GITHUB_STEP_SUMMARY": str(self.page),
            "PACKAGE": "agentos-from-somewhere",
            "AGENTOS_MOCK": "1",
        }
        self.environment.pop("AGENTOS_HOME", None)
        git(project, "clone", "-q", str(origin), str(self.root))

    def step(self, script: str) -> Result:
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Result(code=done.returncode, out=done.stdout, err=done.stderr)


def git(project: Project, *words: str, folder: Path | None = None) -> str:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.invalid")
    done = subprocess.run(
        ["git", *author, *words],
        cwd=folder or project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


@pytest.fixture
def origin(project: Project) -> Path:
    """A repository with three issues, on a server."""
    project.issue(1)
    project.issue(2, mock="verdicts=DISCUSS")
    project.issue(3, mock='fail="no schema: 100 %, really"')
    bare = project.tmp / "origin.git"
    git(project, "init", "-q", "--bare", "-b", "main", str(bare))
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Start")
    git(project, "push", "-q", str(bare), "main")
    return bare


@pytest.mark.slow
def test_the_workflow_of_the_how_to_works_and_keeps_nothing_but_the_repository(
    project: Project, origin: Path
) -> None:
    steps = run_steps()
    assert list(steps) == ["Install", "Run", "Keep the documents"]

    first = Runner(project, origin, 1)
    assert first.step(steps["Install"]).code == 0
    assert first.installed.read_text() == "install agentos-from-somewhere\n"
    ran = first.step(steps["Run"])
    assert ran.code == Exit.FAILED, ran
    lines = ran.out.splitlines()
    question = "Q1: Is a wait of up to one hour acceptable to users, or should the work stop instead?"
    assert f"::warning file=issues/active/2.md,title=LLD-2%3A discuss::{question}" in "\n".join(lines)
    assert "::error file=issues/active/3.md,title=LLD-3%3A failed::no schema: 100 %25, really" in lines
    page = first.page.read_text("utf-8")
    assert page.startswith(
        "## agentos lld: 1 approved, 1 discuss, 1 failed\n\n### Needs you: 1 question, 1 item"
    )
    assert "agentos lld 2 3 --mock\nagentos view\n" in page
    assert "(simulated by the mock)" in page
    kept = first.step(steps["Keep the documents"])
    assert kept.code == 0, kept
    tracked = git(project, "ls-tree", "-r", "--name-only", "main", folder=origin).splitlines()
    assert "docs/lld/active/LLD-1.md" in tracked
    assert not any(name.startswith(".agentos") for name in tracked)

    # Another machine pays for nothing that is done, and starts what is not done again.
    second = Runner(project, origin, 2)
    again = second.step(steps["Run"])
    assert again.code == Exit.FAILED, again
    assert "1 discuss, 1 failed; 1 skipped" in again.out
    assert second.step(steps["Keep the documents"]).code == 0
    # With nothing new there is nothing to commit.
    assert second.step(steps["Keep the documents"]).code == 0
