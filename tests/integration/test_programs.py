"""Where programs are looked for and what they get to know, piece by piece."""

import os
import subprocess
from pathlib import Path

import pytest

from agentos import programs

GIT = {
    "PATH": "/usr/bin:/bin:/usr/local/bin",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def put(folder: Path, name: str, body: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def test_a_program_is_found_by_the_first_entry_that_may_be_used(tmp_path: Path, worktree: Path) -> None:
    put(worktree / "bin", "tool")
    put(tmp_path / "one", "other")
    mine = put(tmp_path / "two", "tool")
    (tmp_path / "one" / "tool").write_text("not to be run")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    entries = (
        "",
        ".",
        "bin",
        worktree / "bin",
        tmp_path / "loop",
        "/no/such/folder",
        tmp_path / "one",
        mine.parent,
    )
    environment = {"PATH": ":".join(map(str, entries))}
    assert programs.find_program("tool", environment, worktree) == str(mine)
    assert programs.find_program("tool", environment, None) == str(worktree / "bin" / "tool")
    assert programs.find_program("no-such-tool", environment, worktree) is None
    told = programs.search_path(environment, worktree).split(":")
    assert told == ["/no/such/folder", str(tmp_path / "one"), str(mine.parent)]


def test_an_absolute_path_is_taken_as_it_is_outside_the_project_only(tmp_path: Path, worktree: Path) -> None:
    mine, theirs = put(tmp_path / "one", "tool"), put(worktree / "bin", "tool")
    link = tmp_path / "link"
    link.symlink_to(theirs)
    for name, found in (
        (mine, str(mine)),
        (theirs, None),
        (link, None),
        ("./tool", None),
        ("bin/tool", None),
    ):
        assert programs.find_program(str(name), {}, worktree) == found


def test_where_no_entry_may_be_used_a_program_gets_the_systems_own(worktree: Path) -> None:
    for path in ("", ".", f".:{worktree}", ":"):
        assert programs.search_path({"PATH": path}, worktree) == os.defpath
        assert programs.find_program("sh", {"PATH": path}, worktree) is None
    assert programs.find_program("sh", {}, worktree) is not None


def test_a_repository_around_the_project_is_part_of_it_but_not_a_whole_home_kept_in_git(
    tmp_path: Path,
) -> None:
    (tmp_path / "home" / ".git").mkdir(parents=True)
    below = tmp_path / "home" / "notes"
    below.mkdir()
    mine = put(tmp_path / "home" / "bin", "tool")
    environment = {"PATH": str(mine.parent)}
    assert programs.find_program("tool", environment, below) is None
    environment["HOME"] = str(tmp_path / "home")
    assert programs.find_program("tool", environment, below) == str(mine)


def test_a_project_that_is_reached_by_a_link_is_the_same_project(tmp_path: Path, worktree: Path) -> None:
    put(worktree / "bin", "tool")
    (tmp_path / "link").symlink_to(worktree)
    for path, place in ((tmp_path / "link" / "bin", worktree), (worktree / "bin", tmp_path / "link")):
        assert programs.find_program("tool", {"PATH": str(path)}, place) is None


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("OPENAI_API_KEY", False),
        ("GEMINI_API_KEY_12", False),
        ("SOME_APIKEY", False),
        ("GH_TOKEN", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("PGPASSWORD", False),
        ("DB_PASSWORD", False),
        ("AGENTOS_DATABASE_URL", False),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", False),
        ("MINE", False),
        ("DISPLAY", True),
        ("SSH_AUTH_SOCK", True),
        ("KEYBOARD_LAYOUT", True),
        ("DBUS_SESSION_BUS_ADDRESS", True),
        ("AGENTOS_HOME", True),
    ],
)
def test_what_looks_secret_is_kept_from_a_persons_program(name: str, kept: bool) -> None:
    told = programs.personal_environment({name: "x", "PATH": "/bin"}, None, keys={"MINE"})
    assert (name in told) is kept


def test_git_runs_nothing_that_a_repository_configures(tmp_path: Path, worktree: Path) -> None:
    ran = tmp_path / "ran"
    tool = put(worktree / ".tools", "tool", f'echo "$0" >> {ran}')
    subprocess.run(["git", "init", "-q", str(worktree)], check=True, env=GIT)
    for name in ("post-index-change", "fsmonitor-watchman"):
        put(worktree / ".git" / "hooks", name, f'echo "$0" >> {ran}')
    for name in ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand"):
        subprocess.run(["git", "-C", str(worktree), "config", name, str(tool)], check=True, env=GIT)
    (worktree / "file").touch()
    subprocess.run(["git", "-c", "core.fsmonitor=", "-C", str(worktree), "add", "file"], check=True, env=GIT)
    ran.unlink(missing_ok=True)
    subprocess.run(["git", "-C", str(worktree), "status"], check=True, env=GIT, capture_output=True)
    assert ran.exists()  # so it would
    ran.unlink()
    assert b"file" in (programs.git(["ls-files"], GIT, worktree) or b"")
    assert b"file" in (programs.git(["status", "--porcelain"], GIT, worktree) or b"")
    assert not ran.exists()


def test_a_work_folder_is_where_the_fewest_can_write_and_never_in_the_project(
    tmp_path: Path, worktree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, home = tmp_path / "shared", tmp_path / "home"
    for folder in (shared, home):
        folder.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    with programs.work_folder({"HOME": str(home)}, worktree) as made:
        assert Path(made).parent == home / ".cache" / "agentos"
        assert Path(made).stat().st_mode & 0o777 == 0o700
        assert (home / ".cache" / "agentos").stat().st_mode & 0o777 == 0o700
    with programs.work_folder({"HOME": str(worktree)}, worktree) as made:
        assert Path(made).parent == shared
    with programs.work_folder({}, worktree) as made:
        assert Path(made).parent == shared
    shared.chmod(0o700)
    with programs.work_folder({"HOME": str(home)}, worktree) as made:
        assert Path(made).parent == shared
    shared.chmod(0o1777)
    (home / ".cache" / "agentos").rmdir()
    (home / ".cache" / "agentos").touch()  # something is in the way
    with programs.work_folder({"HOME": str(home)}, worktree) as made:
        assert Path(made).parent == shared
