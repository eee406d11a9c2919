"""What a repository sets itself does no harm: no made-up reviews, no programs, no bills, no secrets sent."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.github import FakeGitHub, running_fakegithub
from harness.project import Project, Result
from harness.provider import Bench

FOLDERS = ("briefs_folder", "issues_folder", "lld_folder", "lineage_folder")
PRIVATE = (".git", ".GIT/x", "docs/.git/hooks", ".agentos", ".AgentOS/logs", "a/.agentos/b", ".git.", "GIT~1")


def told(result: Result) -> list[str]:
    """The lines that name what the repository sets."""
    return [line for line in result.err.splitlines() if "in this repository sets" in line]


# Models.


@pytest.mark.parametrize("place", ["agentos.toml", "pyproject.toml"])
@pytest.mark.parametrize("role", ["drafter", "reviewer"])
@pytest.mark.parametrize("model", ["mock:r", "claude-cli:opus", "gemini-cli:x", "anything-cli:x"])
def test_a_repo_names_no_mock_and_no_command(bench: Bench, role: str, model: str, place: str) -> None:
    head = "[tool.agentos]\n" if place == "pyproject.toml" else ""
    bench.project.write(place, f'{head}{role} = "{model}"\n')
    bench.config.write_text("")
    result = bench.run("config", "--json")
    assert result.json[role] == {"value": None, "origin": "default", "where": None}
    assert role in result.err
    assert "Ignoring" in result.err
    mine = bench.run("lld", "--all", "--dry-run", f"--{role}", "mock:x")
    assert mine.code == 0, mine


def test_no_issue_is_filed_that_a_mock_of_the_repo_approved(bench: Bench) -> None:
    with running_fakegithub() as github:
        _clone(bench.project, github)
        bench.project.write("agentos.toml", 'reviewer = "mock:r"\ndrafter = "mock:d"\n')
        bench.project.brief("one")
        bench.config.write_text("")
        env = {"GITHUB_API_URL": github.url, "GH_TOKEN": github.token}
        result = bench.run("issue", "one", "--yes", **env)
        assert result.code == 2, result
        assert "No drafter is set" in result.err
        assert github.issues == {}


def _clone(project: Project, github: FakeGitHub) -> None:
    git = ["git", "-C", str(project.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    origin = f"https://github.com/{github.repository}.git"
    subprocess.run([*git, "remote", "add", "origin", origin], check=True)


# Bills.


@pytest.mark.slow
def test_a_repo_cannot_have_more_than_ten_reviews_paid(bench: Bench) -> None:
    bench.project.write("agentos.toml", "max_iterations = 1000000\n")
    bench.provider.verdicts.extend(["REVISE"] * 40)
    bench.project.issue(1)
    result = bench.run("lld", "1")
    assert result.code == 3, result
    assert len(bench.provider.of("reviewer")) == 10
    assert "max_iterations" in result.err
    assert "at most 10" in result.err
    planned = bench.run("lld", "--all", "--dry-run", "--json", "--fresh")
    assert planned.json["calls"]["high"] == 20
    mine = bench.run("lld", "--all", "--dry-run", "--json", "--fresh", "--max-iterations", "12")
    assert mine.json["calls"]["high"] == 24


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"max_iterations = {10**18}", "max_iterations"),
        (f"max_iterations = {10**30}", "max_iterations"),
        (f"parallel = {10**30}", "parallel"),
        ("parallel = -1", "parallel"),
        ("parallel = 1e30", "parallel"),
        (f'drafter = "openai:{"x" * 900_000}"', "drafter"),
        (f'lld_folder = "{"d/" * 400_000}"', "lld_folder"),
        ('lld_folder = "a\\u0000b"', "lld_folder"),
        ('lld_folder = "a\\u001b[2Jb"', "lld_folder"),
        ('drafter = "openai:a\\u202eb"', "drafter"),
        ('context = ["a\\u0007"]', "context"),
        (f"context = {json.dumps(['a'] * 5000)}", "context"),
        (f"{'x' * 100_000} = 1", "Unknown setting"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_nonsense_is_a_short_clear_error(project: Project, line: str, named: str) -> None:
    project.write("agentos.toml", line + "\n")
    for words in (["config"], ["lld", "--all", "--mock", "--dry-run"]):
        result = project.run(*words)
        assert result.code == 2, result
        assert named in result.err
        assert "agentos.toml" in result.err
        assert len(result.err) < 600, len(result.err)
        assert result.out == ""


@pytest.mark.parametrize("line", [f"rpm = {10**400}", f"burst = {10**30}", 'quota_group = "a\\u001bb"'])
def test_nonsense_of_the_users_own_file_is_a_clear_error_too(project: Project, line: str) -> None:
    config = project.outside / "user.toml"
    config.write_text(f'[[keys]]\nid = "k"\nprovider = "openai"\nenv = "K"\n{line}\n')
    result = project.run("--config", config, "keys")
    assert result.code == 2, result
    assert len(result.err) < 400
    config.write_text(f'[prices."openai:x"]\ninput = {10**400}\noutput = 1\n')
    assert project.run("--config", config, "keys").code == 2


# Folders.


@pytest.mark.parametrize("name", [*FOLDERS, "issue_template", "lld_template", "context"])
def test_no_folder_of_a_repo_is_gits_or_ours(project: Project, name: str) -> None:
    subprocess.run(["git", "-C", str(project.root), "init", "-q"], check=True)
    for value in (*PRIVATE, *(["."] if name in FOLDERS else [])):
        written = json.dumps([value] if name == "context" else value)
        project.write("agentos.toml", f"{name} = {written}\n")
        result = project.run("config", "--json")
        assert result.code == 0, result
        assert result.json[name]["origin"] == "default", value
        assert name in result.err
        # Whoever sets it: for the user it is an error.
        config = project.outside / "user.toml"
        config.write_text(f"{name} = {written}\n")
        project.write("agentos.toml", "")
        refused = project.run("--config", config, "config")
        assert refused.code == 2, (value, refused)


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_lies_in_a_home_elsewhere(project: Project, name: str) -> None:
    project.write("agentos.toml", f'{name} = "state/logs"\n')
    project.issue(1)
    result = project.run("--home", project.root / "state", "lld", "1", "--mock")
    assert result.code == 2, result
    assert name in result.err
    assert not (project.root / "state").exists()


def test_nothing_is_written_below_git(project: Project) -> None:
    subprocess.run(["git", "-C", str(project.root), "init", "-q"], check=True)
    project.write("agentos.toml", 'lld_folder = ".git/hooks"\nlineage_folder = ".GIT"\n')
    before = set((project.root / ".git").rglob("*"))
    project.issue(1)
    assert project.lld("1").code == 0
    assert set((project.root / ".git").rglob("*")) == before
    assert not (project.root / ".GIT").exists() or (project.root / ".GIT").samefile(project.root / ".git")


# Context.


def test_a_repo_gives_only_what_git_tracks(bench: Bench) -> None:
    bench.project.write("docs/shown.md", "tracked-words\n")
    bench.project.write("agentos.toml", 'context = ["docs", "notes.txt", "link.md"]\n')
    (bench.root / "link.md").symlink_to("private.txt")
    bench.project.issue(1)
    bench.commit()
    bench.project.write("docs/ignored.md", "untracked-words\n")
    bench.project.write("notes.txt", "untracked-notes\n")
    bench.project.write("private.txt", "untracked-behind-a-link\n")
    result = bench.run("lld", "1")
    assert result.code == 0, result
    prompts = "".join(one.prompt for one in bench.provider.asked)
    assert "tracked-words" in prompts
    assert "untracked-" not in prompts
    assert "notes.txt" in result.err
    # The user's own word counts.
    mine = bench.run("lld", "1", "--fresh", "--context", "notes.txt")
    assert mine.code == 0, mine
    assert "untracked-notes" in bench.provider.of("drafter")[-1]


def test_without_git_a_repos_context_is_ignored(bench: Bench) -> None:
    bench.project.write("agentos.toml", 'context = ["notes.txt"]\n')
    bench.project.write("notes.txt", "unknown-notes\n")
    bench.project.issue(1)
    result = bench.run("lld", "1")
    assert result.code == 0, result
    assert "unknown-notes" not in "".join(one.prompt for one in bench.provider.asked)
    assert "context" in result.err
    assert "Ignoring" in result.err


@pytest.mark.slow
def test_asking_git_starts_no_program_of_the_repo(bench: Bench, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    bench.project.write("agentos.toml", 'context = ["docs"]\n')
    bench.project.write("docs/shown.md", "tracked-words\n")
    bench.project.issue(1)
    bench.commit()
    program = bench.project.write("bin/git", f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    bench.git("config", "core.fsmonitor", str(program))
    path = f"bin:{program.parent}:{bench.project.environment['PATH']}"
    result = bench.run("lld", "1", "--source", "local", PATH=path)
    assert result.code == 0, result
    assert not marker.exists()
    assert "tracked-words" in "".join(one.prompt for one in bench.provider.asked)


# What is set is told.


@pytest.mark.slow
def test_a_run_names_once_what_the_repo_sets(bench: Bench) -> None:
    content = 'lld_folder = "docs/designs"\nparallel = 2\nmax_iterations = 3\n'
    bench.project.write("agentos.toml", content)
    bench.project.issue(1)
    assert told(bench.run("lld", "1", "--dry-run")) == []
    first = bench.run("lld", "1", "-q")
    assert first.code == 0, first
    line = "agentos.toml in this repository sets lld_folder, parallel and max_iterations"
    assert [one for one in told(first) if line in one], first
    assert told(bench.run("lld", "1", "--fresh")) == []
    bench.project.write("agentos.toml", "# a comment changes nothing\n" + content)
    assert told(bench.run("lld", "1", "--fresh")) == []
    bench.project.write("agentos.toml", content.replace("designs", "others"))
    assert len(told(bench.run("lld", "1", "--fresh"))) == 1
    bench.project.write("agentos.toml", "")
    assert told(bench.run("lld", "1", "--fresh")) == []
