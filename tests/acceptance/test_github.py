"""GitHub through the real command: a backlog listed there, issues filed there exactly once."""

import fcntl
import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentos.errors import Exit
from agentos.simulator import KeyConfig, SimulatorConfig, running_simulator
from harness import github as fakegithub
from harness.github import FakeGitHub, running_fakegithub
from harness.processes import wait_until
from harness.project import MODULE, Project, Result


@dataclass(kw_only=True)
class Repo:
    """A clone of a repository on the fake GitHub, with simulated models."""

    project: Project
    github: FakeGitHub
    config: Path

    @property
    def env(self) -> dict[str, str]:
        return {"GITHUB_API_URL": self.github.url, "GH_TOKEN": self.github.token, "OPENAI_API_KEY": "secret"}

    def arguments(self, *args: str) -> list[str]:
        return ["--config", str(self.config), *args]

    def run(self, *args: str, **more: str) -> Result:
        return self.project.run(*self.arguments(*args), env=self.env | more, timeout=90)

    def bodies(self) -> list[str]:
        return [issue["body"] for issue in self.github.issues.values()]


@pytest.fixture
def repo(project: Project) -> Iterator[Repo]:
    simulator = SimulatorConfig(keys=(KeyConfig(secret="secret"),))
    with running_fakegithub() as github, running_simulator(simulator) as url:
        config = project.root.parent / "user.toml"
        config.write_text(
            f'drafter = "openai:drafter"\nreviewer = "openai:reviewer"\n'
            f'[providers.openai]\nbase_url = "{url}/v1"\n'
        )
        origin = f"https://github.com/{github.repository}.git"
        git = ["git", "-C", str(project.root)]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "remote", "add", "origin", origin], check=True)
        yield Repo(project=project, github=github, config=config)


# The backlog.


def test_all_pages_of_issues_with_a_label_are_found_and_no_pull_request(repo: Repo) -> None:
    repo.github.fill(250, labels=("design",))
    repo.github.add("Not meant")
    repo.github.add("A change", labels=("design",), pull_request=True)
    repo.github.add("Over", labels=("design",), state="closed")
    found = repo.run("lld", "--dry-run", "--json", "--label", "design")
    assert found.code == Exit.OK
    assert [item["id"] for item in found.json["items"]] == [str(number) for number in range(1, 251)]
    assert repo.github.count("GET", "/issues?") == 3


def test_all_labels_must_be_there_and_one_that_does_not_exist_is_an_error(repo: Repo) -> None:
    repo.github.add("One", labels=("design",))
    repo.github.add("Two", labels=("design", "small"))
    repo.github.unused_labels = ("later",)
    found = repo.run("lld", "--dry-run", "--json", "--label", "design", "--label", "small")
    assert [item["id"] for item in found.json["items"]] == ["2"]
    assert repo.github.count("GET", "/labels") == 0
    empty = repo.run("lld", "--all", "--label", "later", "--dry-run")
    assert empty.code == Exit.OK
    assert "Nothing pending" in empty.out
    for flags in (("--all",), ("--dry-run",)):
        wrong = repo.run("lld", *flags, "--label", "desing")
        assert wrong.code == Exit.USAGE, wrong.text
        assert "does not have the label 'desing'. Available: design, " in wrong.said


def test_a_run_says_where_its_items_come_from_and_when_that_changes(repo: Repo) -> None:
    repo.project.issue(7)
    repo.github.fill(1)
    there, here = f"{repo.github.repository} on GitHub", "issues/active"
    none = {"GH_TOKEN": "", "PATH": "/usr/bin:/bin"}
    first = repo.run("lld", "--all", **none)
    assert first.code == Exit.OK, first.text
    assert first.lines[0] == f"[COORDINATOR] issues from {here}"
    assert repo.project.summary()["source"] == f"issues from {here}"
    moved = f"LLD items now come from {there} (before: {here}); use --source local for the files."
    for _time in range(2):  # a dry run remembers nothing
        planned = repo.run("lld", "--dry-run")
        assert planned.out.splitlines()[:2] == [f"issues from {there}", moved]
    assert repo.run("lld", "--dry-run", "--json").json["source"] == f"issues from {there}"
    second = repo.run("lld", "--all")
    assert second.lines[:2] == [f"[COORDINATOR] issues from {there}", f"[COORDINATOR] {moved}"]
    assert repo.project.summary()["source"] == f"issues from {there}"
    assert "now come from" not in repo.run("lld", "--all").said
    back = repo.run("lld", "--all", "--source", "local")
    assert f"now come from {here} (before: {there}); use --source github" in back.said
    repo.project.brief("idea")
    assert repo.run("issue", "--dry-run").out.splitlines()[0] == "briefs from ideas/active"
    assert "now come from" not in repo.run("issue", "--all", "--no-file").said


@pytest.mark.parametrize("name", ["2", "#2", "LLD-2"])
def test_an_issue_on_github_has_the_same_names(repo: Repo, name: str) -> None:
    repo.github.fill(2)
    found = repo.run("lld", name, "--dry-run", "--json")
    assert [item["id"] for item in found.json["items"]] == ["2"]


def test_issues_from_github_become_designs(repo: Repo) -> None:
    repo.github.fill(3)
    done = repo.run("lld", "--all", "-j3")
    assert done.code == Exit.OK, done.text
    for number in (1, 2, 3):
        assert f"#{number}" in (repo.project.root / f"docs/lld/active/LLD-{number}.md").read_text()
    assert "skipped" in repo.run("lld", "--all").said
    repo.github.issues[2]["body"] = "Something else."
    changed = repo.run("lld", "--all", "--dry-run")
    assert "LLD-2 would be revised (its text has changed)" in changed.said


def test_named_issues_are_read_one_by_one_also_closed_ones(repo: Repo) -> None:
    repo.github.add("One")
    repo.github.add("Two", state="closed")
    repo.github.add("A change", pull_request=True)
    done = repo.run("lld", "2", "--mock", "--source", "github")
    assert done.code == Exit.OK, done.text
    assert repo.github.count("GET", "/issues?") == 0
    for wanted, told in (("3", "pull request"), ("99", "no issue 99"), ("brief", "--source local")):
        refused = repo.run("lld", wanted)
        assert refused.code == Exit.USAGE
        assert told in refused.said


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_list_that_fails_is_never_an_empty_one(repo: Repo, status: int) -> None:
    repo.github.fill(2)
    repo.github.fail_lists(status)
    for flags in (("--all",), ("--dry-run",)):
        failed = repo.run("lld", *flags)
        assert failed.code not in {Exit.OK, Exit.ATTENTION}
        assert "othing pending" not in failed.said
        assert repo.github.token not in failed.text


def test_the_source_is_local_without_a_token_and_with_the_mock(repo: Repo) -> None:
    repo.project.issue(7)
    repo.github.fill(2)
    for flags, more in (((), {"GH_TOKEN": "", "PATH": "/usr/bin:/bin"}), (("--mock",), {})):
        listed = repo.run("lld", "--dry-run", "--json", *flags, **more)
        assert [item["id"] for item in listed.json["items"]] == ["7"]
    assert repo.github.requests == []
    refused = repo.run("lld", "--all", "--source", "github", GH_TOKEN="", PATH="/usr/bin:/bin")
    assert refused.code == Exit.USAGE
    assert "GH_TOKEN" in refused.said


# Filing.


def test_approved_issues_are_filed_once_with_labels_and_no_trace_is_left_here(repo: Repo) -> None:
    for slug in ("dark-mode", "export", "search"):
        repo.project.brief(slug)
    done = repo.run("issue", "--all", "-j3", "--yes")
    assert done.code == Exit.OK, done.text
    assert len(repo.github.issues) == 3
    assert {row["filing"] for row in repo.project.summary()["items"]} == {"filed"}
    assert all(row["output"].startswith("https://") for row in repo.project.summary()["items"])
    assert list((repo.project.root / "issues/active").glob("*.md")) == []
    assert all(body.count("<!-- agentos-filing:") == 1 for body in repo.bodies())
    gaps = [
        later - earlier
        for earlier, later in zip(repo.github.write_times, repo.github.write_times[1:], strict=False)
    ]
    assert all(gap >= 0.99 for gap in gaps)

    again = repo.run("issue", "--all", "--yes")
    assert again.code == Exit.OK
    assert set(repo.project.statuses().values()) == {"skipped"}
    assert len(repo.github.issues) == 3


def test_without_a_terminal_and_without_yes_drafts_stay_here(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    kept = repo.run("issue", "--all")
    assert kept.code == Exit.ATTENTION
    assert repo.github.issues == {}
    assert (repo.project.root / "issues/active/dark-mode.md").is_file()
    assert "--yes" in kept.said
    assert "would be filed" in repo.run("issue", "--dry-run").said
    filed = repo.run("issue", "--all", "--yes")
    assert filed.code == Exit.OK, filed.text
    assert len(repo.github.issues) == 1
    assert repo.project.row("dark-mode")["status"] == "approved"


@pytest.mark.parametrize(
    ("answer", "count", "code"),
    [("y", 2, Exit.OK), pytest.param("n", 0, Exit.ATTENTION, marks=pytest.mark.slow)],
)
def test_on_a_terminal_it_asks_once_for_all(repo: Repo, answer: str, count: int, code: int) -> None:
    repo.project.brief("dark-mode")
    repo.project.brief("export")
    ours, theirs = pty.openpty()
    command = [*MODULE, *repo.arguments("issue", "--all", "-j2")]
    environment = repo.project.environment | (repo.env | {"TERM": "dumb"})
    process = subprocess.Popen(
        command, cwd=repo.project.root, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while b"[y/N]" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        while True:
            shown += os.read(ours, 4096)
    except OSError:  # the terminal is gone with the process
        pass
    finally:
        os.close(ours)
    assert process.wait(60) == code, shown.decode()
    assert shown.count(b"[y/N]") == 1
    assert len(repo.github.issues) == count


def test_with_filing_off_issues_are_local_files_until_one_is_named(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    assert repo.run("issue", "--all", "--no-file").code == Exit.OK
    assert repo.run("issue", "--all", "--yes").code == Exit.OK
    assert repo.github.issues == {}
    assert repo.run("issue", "dark-mode", "--yes").code == Exit.OK
    assert len(repo.github.issues) == 1


NO_TOKEN = {"GH_TOKEN": "", "GITHUB_TOKEN": "", "PATH": "/usr/bin:/bin"}


def test_without_a_token_nothing_is_lost_and_nothing_passes_for_done(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    for flag in ("--yes", "--file"):
        refused = repo.run("issue", "--all", flag, **NO_TOKEN)
        assert refused.code == Exit.USAGE
        assert f"needs a token for {repo.github.repository}" in refused.said
        assert "--no-file" in refused.said
    assert repo.project.runs() == []
    for _time in range(2):
        waiting = repo.run("issue", "--all", **NO_TOKEN)
        assert waiting.code == Exit.ATTENTION, waiting.text
        assert "no token found" in waiting.said
        assert repo.project.row("dark-mode")["filing"] == "wanted"
    filed = repo.run("issue", "--all", "--yes")
    assert filed.code == Exit.OK, filed.text
    assert len(repo.github.issues) == 1


def test_a_link_or_a_foreign_file_in_the_place_of_the_document_is_not_filed(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    assert repo.run("issue", "--all", "--no-file").code == Exit.OK
    document = repo.project.root / "issues/active/dark-mode.md"
    text = document.read_text()
    secret = repo.project.root.parent / "secret.txt"
    secret.write_text(text)
    document.unlink()
    document.symlink_to(secret)
    linked = repo.run("issue", "dark-mode", "--yes")
    assert linked.code == Exit.FAILED
    assert "was not written by agentos" in linked.said
    document.unlink()
    document.write_text("Something of my own.\n")
    foreign = repo.run("issue", "dark-mode", "--yes")
    assert foreign.code == Exit.FAILED
    assert "was not written by agentos" in foreign.said
    assert repo.github.issues == {}
    document.write_text(text)
    assert repo.run("issue", "dark-mode", "--yes").code == Exit.OK
    assert len(repo.github.issues) == 1
    assert secret.read_text() == text


@pytest.mark.slow
def test_an_unknown_filing_is_not_forgotten_when_its_brief_changes(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    repo.github.next_posts(fakegithub.CREATE_502)
    repo.github.fail_lists(500)
    assert repo.run("issue", "--all", "--yes").code == Exit.ATTENTION
    unfiled = repo.run("issue", "--all", "--no-file")
    assert unfiled.code == Exit.ATTENTION
    assert repo.project.row("dark-mode")["filing"] == "unknown"
    repo.project.brief("dark-mode", "Another text altogether.")
    held = repo.run("issue", "--all", "--yes")
    assert held.code == Exit.ATTENTION
    assert "ISSUE-dark-mode: an earlier version may already be filed" in held.said
    assert len(repo.github.issues) == 1
    repo.github.fail_lists(None)
    done = repo.run("issue", "--all", "--yes")
    assert done.code == Exit.OK, done.text
    assert "ISSUE-dark-mode: an earlier version was filed as #1" in done.said
    assert "an earlier version was filed as #1" in done.said
    assert len(repo.github.issues) == 2


def test_an_unknown_filing_is_looked_up_when_its_brief_is_gone(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    repo.github.next_posts(fakegithub.CREATE_502)
    repo.github.fail_lists(500)
    assert repo.run("issue", "--all", "--yes").code == Exit.ATTENTION
    for brief in repo.project.root.rglob("dark-mode.md"):
        brief.unlink()
    repo.project.brief("export")
    repo.github.fail_lists(None)
    done = repo.run("issue", "--all", "--yes")
    assert done.code == Exit.OK, done.text
    assert "issue dark-mode: an earlier version was filed as #1" in done.said
    assert len(repo.github.issues) == 2


def test_two_runs_file_one_after_the_other(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    repo.project.make_home()
    with open(repo.project.home / "filing.lock", "w") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = repo.project.start(*repo.arguments("issue", "--all", "--yes"), env=repo.env)
        wait_until(
            lambda: any("another run is filing" in log.read_text() for log in waiting(repo)), "the line"
        )
        assert repo.github.write_times == []
        process.signal(signal.SIGINT)
        assert repo.project.finish(process, timeout=10).code == Exit.INTERRUPTED
    assert repo.run("issue", "--all", "--yes").code == Exit.OK
    assert len(repo.github.issues) == 1


def waiting(repo: Repo) -> list[Path]:
    return list(repo.project.home.rglob("coordinator.log"))


def test_the_mock_never_files(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    assert repo.run("issue", "--all", "--mock", "--yes", "--file").code == Exit.OK
    assert repo.run("issue", "--all", "--yes", "--reviewer", "mock:reviewer").code == Exit.OK
    assert repo.github.requests == []


@pytest.mark.parametrize("mode", ["create-502", "create-close", "create-garbled", "secondary"])
def test_a_github_that_breaks_off_gets_one_issue(repo: Repo, mode: str) -> None:
    repo.project.brief("dark-mode")
    repo.github.next_posts(fakegithub.MODES[mode])
    done = repo.run("issue", "--all", "--yes")
    assert done.code == Exit.OK, done.text
    assert len(repo.github.issues) == 1


@pytest.mark.slow
def test_unknown_stays_unknown_until_github_can_be_asked(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    repo.github.next_posts(fakegithub.CREATE_502)
    repo.github.fail_lists(500)
    unknown = repo.run("issue", "--all", "--yes")
    assert unknown.code == Exit.ATTENTION
    assert repo.project.row("dark-mode")["filing"] == "unknown"
    assert "may already be filed" in unknown.said
    repo.github.fail_lists(None)
    assert repo.run("issue", "--all", "--yes").code == Exit.OK
    assert len(repo.github.issues) == 1


@pytest.mark.slow
@pytest.mark.parametrize("sent", [fakegithub.CREATE_HANG, fakegithub.HANG])
def test_a_coordinator_killed_while_it_files_goes_on_with_one_issue(
    repo: Repo, sent: fakegithub.Fault
) -> None:
    repo.project.brief("dark-mode")
    repo.github.next_posts(sent)
    process = repo.project.start(*repo.arguments("issue", "--all", "--yes"), env=repo.env)
    wait_until(lambda: repo.github.write_times, "the issue on its way")
    process.signal(signal.SIGKILL)
    process.wait()
    assert repo.run("issue", "--all", "--yes").code == Exit.OK
    assert len(repo.github.issues) == 1


def test_ctrl_c_while_github_hangs_ends_at_once_and_the_next_run_knows(repo: Repo) -> None:
    repo.project.brief("dark-mode")
    repo.github.next_posts(fakegithub.CREATE_HANG)
    process = repo.project.start(*repo.arguments("issue", "--all", "--yes"), env=repo.env)
    wait_until(lambda: repo.github.write_times, "the issue on its way")
    process.signal(signal.SIGINT)
    stopped = repo.project.finish(process, timeout=10)
    assert stopped.code == Exit.INTERRUPTED
    assert json.loads((repo.project.runs()[-1] / "summary.json").read_text())["exit_code"] == Exit.INTERRUPTED
    assert repo.run("issue", "--all", "--yes").code == Exit.OK
    assert len(repo.github.issues) == 1
