"""A repository that is not to be trusted: links, modules and settings in it lead nowhere."""

import os
import shutil
from pathlib import Path

import pytest

from acceptance.conftest import USUAL_METHODS
from harness.project import MODULE, SCRIPT, Project

SHADOWS = (
    "json", "selectors", "langgraph", "pydantic", "click", "sqlite3", "agentos", "typing_extensions",
    "sitecustomize", "usercustomize", "multiprocessing", "rich", "_socket", "markdown_it",
)  # fmt: skip


# What `python -m` imports is also looked at in test_parallel.py.
@pytest.mark.parametrize(
    "command", [pytest.param(MODULE, id="module", marks=pytest.mark.slow), pytest.param(SCRIPT, id="script")]
)
@pytest.mark.parametrize("method", USUAL_METHODS)
def test_no_module_of_the_repo_is_imported(
    project: Project, command: tuple[str, ...], method: str, tmp_path: Path
) -> None:
    if command is MODULE:
        # Python itself puts the current folder first for `-m`; what it imports then is not in our hands.
        names = [name for name in SHADOWS if name not in {"agentos", "sitecustomize", "usercustomize"}]
    else:
        names = list(SHADOWS)
    marker = tmp_path / "imported"
    for name in names:
        project.write(f"{name}.py", f"open({str(marker)!r}, 'a').write('{name} ')\nraise SystemExit(99)\n")
    project.issue(1)
    result = project.run("lld", "1", "--mock", command=command, env={"AGENTOS_START_METHOD": method})
    assert not marker.exists(), marker.read_text("utf-8")
    assert result.code == 0, result.text
    below = project.root / "issues"
    assert project.run("lld", "1", "--mock", "--dry-run", command=command, cwd=below).code == 0
    assert project.run("verdict", "issues/active/1.md", command=command).code == 1
    assert not marker.exists(), marker.read_text("utf-8")


def test_a_home_that_is_a_link_is_not_followed(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    project.issue(1)
    project.home.symlink_to(outside)
    for arguments in (["lld", "1", "--mock"], ["lld", "1", "--mock", "--dry-run"], ["status"], ["clean"]):
        result = project.run(*arguments)
        assert result.code == 2, (arguments, result.text)
        assert "link" in result.err
    assert list(outside.iterdir()) == []
    # Not below it either, also where the home is known as the user's.
    project.home.unlink()
    for name in ("logs", "logs/parallel", "checkpoints", "records.db", "records.lock"):
        shutil.rmtree(project.home, ignore_errors=True)
        place = project.make_home() / name
        target = outside / place.name
        if place.is_dir():
            shutil.rmtree(place)
            target.mkdir()
        place.symlink_to(target)
        result = project.lld("1")
        assert result.code in {1, 2}, (name, result.text)
        assert "link" in result.err or "regular file" in result.err, (name, result.text)
        assert "This is a bug" not in result.err
        assert len(result.err.splitlines()) == 1
        assert [path for path in outside.rglob("*") if path.is_file()] == []


def test_folders_that_lead_outside_are_not_written_to(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for number, name in enumerate(
        ("docs/lld", "docs/lld/active", "docs/lineage", "docs/lineage/done"), start=1
    ):
        item = str(number)
        project.issue(item)
        shutil.rmtree(project.root / "docs", ignore_errors=True)
        link = project.root / name
        link.parent.mkdir(parents=True)
        link.symlink_to(outside)
        result = project.lld(item)
        assert result.code in {1, 2}, (name, result.text)
        assert list(outside.rglob("*")) == [], name
        assert "unexpected" not in result.text
        link.unlink()
        assert project.lld(item).code == 0  # with the link gone it goes on
        assert project.calls(item) == [("drafter", 1), ("reviewer", 1)]


def test_items_that_lead_outside_are_not_read(project: Project, tmp_path: Path) -> None:
    private = tmp_path / "private.md"
    private.write_text("# Private\n\nnobody-may-read-this\n")
    (project.root / "issues/active/1.md").symlink_to("/etc/passwd")
    (project.root / "issues/active/2.md").symlink_to(private)
    (project.root / "issues/active/3.md").symlink_to("/dev/zero")
    (project.root / "issues/active/4.md").symlink_to(project.root / "gone.md")
    os.mkfifo(project.root / "issues/active/5.md")
    project.issue(6)
    result = project.lld("--all")
    assert result.code == 1, result.text
    statuses = project.statuses()
    assert statuses.pop("6") == "approved"
    assert set(statuses.values()) == {"failed"}
    assert "it is a symbolic link, and links are not followed" in project.row("1")["error"]
    assert "root:" not in result.text
    for path in project.root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"nobody-may-read-this" not in path.read_bytes(), path
    (project.root / "issues/active").rename(project.root / "issues/kept")
    (project.root / "issues/active").symlink_to(tmp_path)
    listed = project.lld("--all")
    assert listed.code in {1, 2}
    assert "it is a symbolic link, and links are not followed" in listed.err


def test_control_characters_of_an_item_are_never_obeyed(project: Project) -> None:
    project.issue(
        1,
        "# Red \x1b[31malert\x07 title\n\nText.\n",
        r'say="\x1b[2J\x1b]0;owned\x07 done\r\nforged [COORDINATOR] line"',
    )
    result = project.lld("1")
    assert result.code == 0, result.text
    status = project.run("status")
    planned = project.lld("1", "--dry-run")
    logs = project.run("logs", "1")
    for shown in (result, status, planned, logs):
        assert not {char for char in shown.text if ord(char) < 32 and char != "\n"}, shown.text
    for line in result.out.splitlines():
        if "forged" in line:
            assert line.startswith("[LLD-1] ")


def test_a_repo_cannot_reach_the_users_own_settings(project: Project, tmp_path: Path) -> None:
    target = tmp_path / "stolen"
    project.write(
        "agentos.toml",
        "mock = true\nall = true\nbudget = 100\nyes = true\n"
        f'[[keys]]\nid = "k"\nprovider = "mock"\nfile = "{target}"\n',
    )
    project.write(".env", "AGENTOS_MOCK=1\nAGENTOS_HOME=/nowhere\n")
    project.issue(1, mock=f'sh="touch {target}"')
    nothing = project.run("lld")
    assert nothing.code == 2
    result = project.lld("1")
    assert result.code == 1, result.text
    assert "AGENTOS_MOCK_SHELL" in project.row("1")["error"]
    assert not target.exists()
    for name in ("mock", "all", "budget", "yes", "keys"):
        assert f"Ignoring '{name}' in" in result.err
