"""Attacks by what lies in a cloned repository: links, pipes and folders that lead somewhere else."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.errors import Exit
from harness.places import make_socket
from harness.project import Project
from harness.provider import Bench

DOCUMENTS = ("lld", "lld/active", "lineage", "lineage/active", "lineage/done")
CANARY = "canary-of-the-environment-4711"


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.project.write(".env", f"PASSWORD={CANARY}\n")
    bench.commit()
    bench.project.write("README.md", f"# Read me\n\n{CANARY}\n")  # not tracked, so not for a model
    with (bench.root / ".git" / "config").open("a") as file:
        file.write(f"# {CANARY}\n")
    return bench


@pytest.fixture
def treasure(project: Project) -> Path:
    """Somebody's folder outside the repository, which must stay as it is."""
    folder = project.outside / "treasure"
    (folder / "old" / ".git").mkdir(parents=True)
    (folder / "old" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "parallel" / "old").mkdir(parents=True)
    (folder / "notes.md").write_text(f"# Notes\n\n{CANARY}\n")
    for path in (folder / "old", folder / "parallel/old", folder / "parallel", folder):
        os.utime(path, (1, 1))
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def assert_not_sent(bench: Bench) -> None:
    assert not any(CANARY in one.prompt for one in bench.provider.asked)
    assert not bench.holding(CANARY, "docs")


@pytest.mark.parametrize("folder", ["logs", "logs/parallel", "checkpoints"])
def test_clean_deletes_nothing_behind_a_link(project: Project, treasure: Path, folder: str) -> None:
    project.issue(1)
    assert project.lld("--all").code == Exit.OK
    (treasure / "lld_workflow_9.db").write_bytes(b"theirs")
    os.utime(treasure / "lld_workflow_9.db", (1, 1))
    before = contents(treasure)
    shutil.rmtree(project.home / folder)
    (project.home / folder).symlink_to(treasure)
    result = project.run("clean", "--older-than", "1s")
    assert contents(treasure) == before, result
    assert result.code != Exit.OK
    assert "symbolic link" in result.text


@pytest.mark.parametrize("target", ["../../.env", "../../.git/config", "../../README.md", "missing"])
def test_an_issue_that_is_a_link_is_not_read(bench: Bench, target: str) -> None:
    bench.project.issue(2)
    (bench.root / "issues/active/1.md").symlink_to(target)
    result = bench.run("lld", "--all", "-j2")
    assert result.code == Exit.FAILED, result
    assert bench.project.statuses() == {"1": "failed", "2": "approved"}
    assert "symbolic link" in bench.project.row("1")["error"]
    assert bench.free("lld", "1").code != Exit.OK
    assert_not_sent(bench)


@pytest.mark.parametrize("place", ["issues", "issues/active"])
def test_a_folder_of_issues_that_is_a_link_is_not_listed(bench: Bench, treasure: Path, place: str) -> None:
    before = contents(treasure)
    (treasure / "active").mkdir()
    shutil.copy(treasure / "notes.md", treasure / "active/notes.md")
    before = contents(treasure)
    shutil.rmtree(bench.root / place, ignore_errors=True)
    (bench.root / place).parent.mkdir(parents=True, exist_ok=True)
    (bench.root / place).symlink_to(treasure / "active" if "/" in place else treasure)
    for args in (("lld", "--all"), ("lld", "--all", "--dry-run"), ("doctor",), ("lld", "notes")):
        result = bench.free(*args)
        assert result.code != Exit.OK, result
        result.assert_no_traceback()
    assert contents(treasure) == before
    assert_not_sent(bench)


@pytest.mark.parametrize("target", ["../../../.git", "../../../.agentos", "../../../../treasure"])
def test_a_trail_that_is_a_link_moves_nothing(bench: Bench, treasure: Path, target: str) -> None:
    bench.project.issues(2)
    before = contents(treasure)
    repository = contents(bench.root / ".git")
    trail = bench.root / "docs/lineage/active/1-lld"
    trail.parent.mkdir(parents=True)
    trail.symlink_to(target)
    result = bench.run("lld", "--all")
    assert result.code == Exit.FAILED, result
    assert bench.project.statuses() == {"1": "failed", "2": "approved"}
    assert "symbolic link" in bench.project.row("1")["error"]
    assert contents(treasure) == before
    assert contents(bench.root / ".git") == repository
    assert trail.is_symlink()


@pytest.mark.parametrize(
    "place",
    ["docs", "docs/lld", "docs/lld/active", "docs/lineage", "docs/lineage/active", "docs/lineage/done"],
)
def test_nothing_is_written_behind_a_link(bench: Bench, treasure: Path, place: str) -> None:
    bench.project.issue(1)
    before = contents(treasure)
    (bench.root / place).parent.mkdir(parents=True, exist_ok=True)
    (bench.root / place).symlink_to(treasure)
    result = bench.run("lld", "--all")
    assert result.code != Exit.OK, result
    assert "symbolic link" in result.text
    assert contents(treasure) == before


@pytest.mark.parametrize("place", ["docs/lld/active", "docs/lineage/active", "docs/lineage/done"])
def test_nothing_is_written_into_git_through_a_link(bench: Bench, place: str) -> None:
    bench.project.issue(1)
    before = contents(bench.root / ".git")
    (bench.root / place).parent.mkdir(parents=True, exist_ok=True)
    (bench.root / place).symlink_to(bench.root / ".git")
    result = bench.run("lld", "--all")
    assert result.code != Exit.OK, result
    assert contents(bench.root / ".git") == before


@pytest.mark.parametrize("place", ["docs/lineage/active/1-lld", "docs/lineage/active", "docs/lld"])
def test_a_file_where_a_folder_should_be_is_told_in_words(bench: Bench, place: str) -> None:
    bench.project.issue(1)
    bench.project.write(place, "A file.\n")
    result = bench.run("lld", "--all")
    assert result.code == Exit.FAILED, result
    error = bench.project.row("1")["error"]
    assert place in error, error
    assert "unexpected" not in error, error


def test_a_document_that_is_a_link_is_put_aside_and_not_read(bench: Bench) -> None:
    bench.project.issue(1)
    bench.document(1).parent.mkdir(parents=True)
    bench.document(1).symlink_to("../../../.env")
    env = (bench.root / ".env").read_text()
    bench.run("lld", "--all", "--fresh")
    bench.run("revise", "1", "--note", "Go on.", "--run")
    assert (bench.root / ".env").read_text() == env
    assert_not_sent(bench)


@pytest.mark.parametrize("name", ["agentos.toml", "pyproject.toml"])
def test_settings_are_not_read_through_a_link(bench: Bench, name: str) -> None:
    (bench.project.outside / "theirs.toml").write_text("[tool.agentos]\nmax_iterations = 2\n")
    (bench.root / name).unlink(missing_ok=True)
    (bench.root / name).symlink_to(bench.project.outside / "theirs.toml")
    for args in (("config",), ("lld", "--all"), ("status",)):
        result = bench.free(*args)
        assert result.code == Exit.USAGE, result
        assert "symbolic link" in result.text


def test_a_template_that_is_a_link_is_not_read(bench: Bench) -> None:
    bench.project.issue(1)
    bench.project.write("agentos.toml", 'lld_template = "template.md"\n')
    (bench.root / "template.md").symlink_to(".env")
    result = bench.free("lld", "--all")
    assert result.code == Exit.USAGE, result
    assert "symbolic link" in result.text


def test_context_is_not_read_through_a_link(bench: Bench) -> None:
    bench.project.issue(1)
    (bench.root / "notes.md").symlink_to(".env")
    (bench.root / "sources").mkdir()
    (bench.root / "sources/link").symlink_to("../.env")
    bench.project.write("sources/a.txt", "Plain.\n")
    bench.git("add", "sources")
    assert bench.free("lld", "1", "--context", "notes.md").code == Exit.USAGE
    assert bench.run("lld", "1", "--context", "sources").code == Exit.OK
    assert_not_sent(bench)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**11)


ODD = pytest.mark.parametrize("make", [make_pipe, make_socket, make_folder, make_huge])


@ODD
def test_an_odd_issue_ends_itself_alone(bench: Bench, make: Callable[[Path], None]) -> None:
    bench.project.issue(2)
    make(bench.root / "issues/active/1.md")
    result = bench.run("lld", "--all")
    assert result.code == Exit.FAILED, result
    assert bench.project.statuses() == {"1": "failed", "2": "approved"}


@pytest.mark.slow
@ODD
@pytest.mark.parametrize("name", ["summary.json", "events.jsonl", "LLD-1.log", "workflow-audit-1.jsonl"])
def test_an_odd_file_of_a_run_is_passed_over(
    project: Project, make: Callable[[Path], None], name: str
) -> None:
    project.issue(1)
    assert project.lld("--all").code == Exit.OK
    path = project.runs()[-1] / name
    if make is make_huge and name.endswith(".log"):
        return  # a log is printed however long it is
    path.unlink()
    make(path)
    for args in (
        ("status",),
        ("report",),
        ("report", "--json"),
        ("logs", "1"),
        ("lld", "--all", "--dry-run"),
    ):
        result = project.run(*args, timeout=60)
        assert result.code in {Exit.OK, Exit.USAGE}, result
    assert project.lld("--all").code == Exit.OK


def test_a_log_that_is_a_link_is_not_shown(project: Project, treasure: Path) -> None:
    project.issue(1)
    assert project.lld("--all").code == Exit.OK
    log = project.runs()[-1] / "LLD-1.log"
    log.unlink()
    log.symlink_to(treasure / "notes.md")
    for args in (("logs", "1"), ("report", "--json"), ("status", "--json")):
        assert CANARY not in project.run(*args).text


def test_a_database_that_is_a_link_is_not_used(project: Project, treasure: Path) -> None:
    project.issue(1)
    assert project.lld("--all").code == Exit.OK
    shutil.move(project.home / "records.db", treasure / "records.db")
    (project.home / "records.db").symlink_to(treasure / "records.db")
    before = contents(treasure)
    for args in (("status",), ("lld", "--all", "--mock"), ("lld", "--all", "--mock", "--dry-run")):
        result = project.run(*args)
        assert result.code != Exit.OK, result
        assert "records.db" in result.text
    assert contents(treasure) == before
