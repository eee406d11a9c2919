"""The home: for the owner alone, made again without harm, never through a link, and this user's."""

import subprocess
import threading
from pathlib import Path

import pytest

from agentos.errors import ProjectError, StorageError
from agentos.store.home import Home, check_home, checkpoint_files, locate_home
from agentos.store.known_homes import Register, Standing
from harness.places import mode, snapshot, without_privileges

WITH_GIT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture
def register(tmp_path: Path) -> Register:
    return Register(tmp_path / "state" / "agentos")


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path / "repo"


def test_a_home_is_private_ignored_by_git_and_made_again_without_harm(
    worktree: Path, register: Register
) -> None:
    home = locate_home(worktree, None, register).create()
    assert home.path == worktree / ".agentos"
    assert "*" in (home.path / ".gitignore").read_text().splitlines()
    before = snapshot(worktree)
    assert home.create().path == home.path
    assert snapshot(worktree) == before
    for path in [home.path, *home.path.rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_home_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    (home.runs).mkdir(parents=True)
    for path in (home.path, home.path / "logs", home.runs):
        path.chmod(0o777)
    home.create()
    assert {mode(path) for path in (home.path, home.path / "logs", home.runs)} == {0o700}


@pytest.mark.parametrize("known", [False, True])
def test_runs_that_make_the_same_home_at_once_do_not_trip_over_each_other(
    tmp_path: Path, register: Register, known: bool
) -> None:
    runs = 4
    for number in range(20):
        path = tmp_path / f"home-{number}" / ".agentos"
        path.parent.mkdir()
        home, gate = Home(path=path, register=register if known else None), threading.Barrier(runs)
        failures: list[str] = []

        def create(home: Home = home, gate: threading.Barrier = gate, failures: list[str] = failures) -> None:
            gate.wait()
            try:
                check_home(home, home.path.parent, {})
                home.create()
                check_home(home, home.path.parent, {})
            except (StorageError, ProjectError) as error:
                failures.append(str(error))

        threads = [threading.Thread(target=create) for _ in range(runs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert "*" in (home.path / ".gitignore").read_text().splitlines()
        if known:
            assert register.standing(home.tree) is Standing.KNOWN
        assert not [name for name in home.tree.names(Path()) if name.endswith((".tmp", ".new"))]


def test_names_in_the_home_are_those_people_look_for(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    assert home.checkpoint("lld", "42") == tmp_path / "checkpoints" / "lld_workflow_42.db"
    assert home.checkpoint("issue", "dark-mode") == tmp_path / "checkpoints" / "issue_workflow_dark-mode.db"
    assert home.runs == tmp_path / "logs" / "parallel"


def test_the_users_own_setting_may_be_anywhere_and_needs_no_register(
    tmp_path: Path, register: Register
) -> None:
    (tmp_path / "else").mkdir()
    (tmp_path / "link").symlink_to("else")
    for name in ("else", "link"):
        home = locate_home(tmp_path / "repo", tmp_path / name, register)
        assert (home.path, home.register) == (tmp_path / "else", None)
        check_home(home.create(), tmp_path / "repo", {})
    assert register.folder is not None
    assert not register.folder.exists()
    assert not (tmp_path / "else" / "id").exists()


@pytest.mark.parametrize("target", ["elsewhere", "gone", ".agentos"])
def test_a_home_that_is_a_link_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".agentos").symlink_to(target)
    with pytest.raises(ProjectError, match="symbolic link"):
        locate_home(tmp_path, None)


def test_a_home_that_becomes_a_link_after_it_was_looked_at_is_not_made(
    worktree: Path, tmp_path: Path, register: Register
) -> None:
    home = locate_home(worktree, None, register)
    (tmp_path / "elsewhere").mkdir()
    (worktree / ".agentos").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match=r"Cannot create the home .* is a symbolic link"):
        home.create()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", ["checkpoints", "logs", "logs/parallel"])
def test_a_link_inside_the_home_is_refused(
    worktree: Path, tmp_path: Path, register: Register, name: str, known: bool
) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    before = mode(tmp_path / "elsewhere")
    place = worktree / ".agentos" / name
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a symbolic link, and links are not followed"):
        locate_home(worktree, None, register if known else None).create()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert mode(tmp_path / "elsewhere") == before


def test_a_gitignore_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitignore").symlink_to(tmp_path / "elsewhere")
    Home(path=tmp_path / "home").create()
    assert not (tmp_path / "elsewhere").exists()


def test_a_home_that_cannot_be_made_is_a_storage_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(StorageError, match=f"Cannot create the home {path}"):
            Home(path=path).create()
    tmp_path.chmod(0o755)
    (tmp_path / "locked").mkdir(mode=0o555)
    with without_privileges(), pytest.raises(StorageError, match="Permission denied"):
        Home(path=tmp_path / "locked" / "home").create()


@pytest.mark.parametrize("name", ["records.db", "checkpoints/x.db"])
def test_a_file_of_the_home_is_private_and_never_opened_through_a_link(tmp_path: Path, name: str) -> None:
    home = Home(path=tmp_path / "home").create()
    (home.path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match=f"Cannot open .*{name}: it is a symbolic link"):
        home.open(home.path / name)
    assert not (tmp_path / "elsewhere").exists()


def test_all_files_of_a_checkpoint_are_known(tmp_path: Path) -> None:
    endings = ["", "-wal", "-shm", "-journal", ".lock"]
    assert list(checkpoint_files(tmp_path / "x.db")) == [tmp_path / f"x.db{ending}" for ending in endings]


# Whose it is.


def test_a_home_that_nobody_here_made_is_refused_and_stays_as_it_is(
    worktree: Path, register: Register
) -> None:
    (worktree / ".agentos/logs/parallel").mkdir(parents=True)
    (worktree / ".agentos/records.db").write_text("forged")
    before = snapshot(worktree)
    home = locate_home(worktree, None, register)
    with pytest.raises(ProjectError, match=r"was not created by you on this machine.*'agentos home adopt'"):
        check_home(home, worktree, {})
    assert snapshot(worktree) == before
    check_home(locate_home(worktree, worktree / ".agentos", register), worktree, {})  # named by the user


def test_a_known_home_that_git_tracks_is_refused(worktree: Path, register: Register) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=worktree, env=WITH_GIT, check=True, capture_output=True)

    home = locate_home(worktree, None, register).create()
    git("init", "-q")
    check_home(home, worktree, WITH_GIT)
    git("add", "-f", ".agentos/id")
    with pytest.raises(ProjectError, match=r"git tracks files in .*\.agentos.*git rm -r --cached \.agentos"):
        check_home(home, worktree, WITH_GIT)
    git("rm", "-r", "-q", "--cached", ".agentos")
    check_home(home, worktree, WITH_GIT)
