"""Files and the home: whole or not at all, inside or refused, for the owner alone."""

import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agentos.store.files import inside, open_private, private_folder, write_all, write_atomic
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentos.errors import ProjectError, StorageError, UsageError
from agentos.store.home import Home, checkpoint_files, locate_home

NOBODY = 65_534
STEADY = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write anywhere; be somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """A disk that takes no file beyond that many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


# Inside.


@pytest.mark.parametrize("path", ["a.md", "docs/a.md", "docs/../a.md", "missing/deep/a.md", "link-in/a.md"])
def test_a_path_inside_is_made_absolute(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "link-in").symlink_to("docs")
    found = inside(root, Path(path))
    assert found.is_absolute()
    assert found.is_relative_to(root)
    assert found.name == "a.md"


@pytest.mark.parametrize(
    "path",
    ["..", "../a.md", "../root-neighbour/a.md", "docs/../../a.md", "/etc/passwd", "link-out/a.md", "up/a.md"],
)
def test_a_path_that_leaves_the_root_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "link-out").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("..")
    with pytest.raises(UsageError, match="leads outside"):
        inside(root, Path(path))


def test_a_root_that_is_reached_through_a_link_is_itself_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    assert inside(tmp_path / "root", Path("a.md")) == tmp_path / "real" / "a.md"


# Writing as a whole.


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.md"
    write_atomic(path, "one")
    write_atomic(path, "zwei ä 😀\n")
    assert tree(tmp_path) == {"a": b"", "a/b": b"", "a/b/c.md": "zwei ä 😀\n".encode()}


def test_line_ends_are_written_as_they_are(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "x\r\ny\n")
    assert (tmp_path / "a").read_bytes() == b"x\r\ny\n"


@pytest.mark.parametrize(
    ("asked", "mask", "made"), [(0o600, 0o000, 0o600), (None, 0o022, 0o644), (None, 0o077, 0o600)]
)
def test_the_mode_is_the_one_asked_for_else_what_the_user_has_set(
    tmp_path: Path, asked: int | None, mask: int, made: int
) -> None:
    with umask(mask):
        write_atomic(tmp_path / "a", "text", mode=asked)
    assert mode(tmp_path / "a") == made


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "a").symlink_to("other")
    write_atomic(tmp_path / "a", "text")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "a").read_text() == "text"


def test_a_full_disk_leaves_the_old_content_and_nothing_half_written(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "old")
    with room_for(10), pytest.raises(StorageError, match="Cannot write"):
        write_atomic(tmp_path / "a", "new" * 1000)
    assert tree(tmp_path) == {"a": b"old"}


def test_what_a_killed_process_left_is_gone_with_the_next_write(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from agentos.store import files\n"
        "files.os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
        "files.write_atomic(pathlib.Path(sys.argv[1]), 'half')"
    )
    write_atomic(tmp_path / "a", "old")
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=False)
    assert killed.returncode == -9
    assert (tmp_path / "a").read_text() == "old"
    write_atomic(tmp_path / "a", "new")
    assert tree(tmp_path) == {"a": b"new"}


@pytest.mark.parametrize("kind", ["folder in its place", "file as its folder", "name too long"])
def test_what_cannot_be_written_is_a_storage_error_that_names_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    if kind == "folder in its place":
        path.mkdir()
    elif kind == "file as its folder":
        path.write_text("")
        path /= "b"
    else:
        path = tmp_path / ("x" * 300)
    before = tree(tmp_path)
    with pytest.raises(StorageError, match=f"Cannot write {path}"):
        write_atomic(path, "text")
    assert tree(tmp_path) == before


def test_a_folder_that_may_not_be_written_is_a_storage_error(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with without_privileges(), pytest.raises(StorageError, match="Permission denied"):
        write_atomic(folder / "a", "text")
    folder.chmod(0o700)
    assert list(folder.iterdir()) == []


@STEADY
@given(text=st.text(st.characters(exclude_categories=[])))
@example(text="half of a pair: \ud83d")
@example(text="an undecodable byte: \udcff")
def test_any_text_is_written_as_utf8_also_what_a_model_should_not_have_sent(
    tmp_path: Path, text: str
) -> None:
    write_atomic(tmp_path / "a", text)
    written = (tmp_path / "a").read_bytes().decode("utf-8")
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert written == text


# For the owner alone.


@pytest.mark.parametrize("existing", [None, 0o755, 0o777])
def test_a_private_folder_is_the_owners_alone_also_where_it_was_not(
    tmp_path: Path, existing: int | None
) -> None:
    path = tmp_path / "home"
    if existing is not None:
        path.mkdir()
        path.chmod(existing)
    with umask(0):
        assert private_folder(path) == path
    assert mode(path) == 0o700


@pytest.mark.parametrize("kind", ["link to folder", "link to file", "dangling link", "file"])
def test_a_private_folder_is_never_a_link_or_a_file(tmp_path: Path, kind: str) -> None:
    path, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    if kind == "link to folder":
        elsewhere.mkdir(mode=0o755)
    elif kind == "link to file":
        elsewhere.write_text("")
    if kind == "file":
        path.write_text("")
    else:
        path.symlink_to(elsewhere)
    with pytest.raises(StorageError, match="link or a file"):
        private_folder(path)
    assert not elsewhere.is_dir() or mode(elsewhere) == 0o755


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with without_privileges(), pytest.raises(StorageError, match="Permission denied"):
        private_folder(tmp_path / "locked" / "home")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        private_folder(tmp_path / "file" / "home")


def test_a_private_file_is_the_owners_alone_and_not_passed_on_to_programs(tmp_path: Path) -> None:
    with umask(0):
        descriptor = open_private(tmp_path / "a", os.O_RDWR)
    try:
        assert mode(tmp_path / "a") == 0o600
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("dangling", [True, False])
def test_a_private_file_is_never_opened_through_a_link(tmp_path: Path, dangling: bool) -> None:
    target = tmp_path / "target"
    if not dangling:
        target.write_text("mine")
    (tmp_path / "a").symlink_to(target)
    with pytest.raises(StorageError, match="Cannot open"):
        open_private(tmp_path / "a", os.O_WRONLY | os.O_TRUNC)
    assert target.exists() is not dangling


def test_everything_is_written_however_little_the_kernel_takes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        write_all(descriptor, b"")
        write_all(descriptor, b"x" * 300_000)
    finally:
        os.close(descriptor)
    assert path.stat().st_size == 300_000


# The home.


def test_a_home_is_private_ignored_by_git_and_made_again_without_harm(tmp_path: Path) -> None:
    home = locate_home(tmp_path, None).create()
    assert home.path == tmp_path / ".agentos"
    assert "*" in (home.path / ".gitignore").read_text().splitlines()
    before = tree(home.path)
    assert home.create().path == home.path
    assert tree(home.path) == before
    for path in [home.path, *home.path.rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_runs_that_make_the_same_home_at_once_do_not_trip_over_each_other(tmp_path: Path) -> None:
    runs = 4
    for number in range(20):
        home, gate = Home(path=tmp_path / f"home-{number}"), threading.Barrier(runs)
        failures: list[str] = []

        def create(home: Home = home, gate: threading.Barrier = gate, failures: list[str] = failures) -> None:
            gate.wait()
            try:
                home.create()
            except StorageError as error:
                failures.append(str(error))

        threads = [threading.Thread(target=create) for _ in range(runs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert "*" in (home.path / ".gitignore").read_text().splitlines()


def test_names_in_the_home_are_those_people_look_for(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    assert home.checkpoint("lld", "42") == tmp_path / "checkpoints" / "lld_workflow_42.db"
    assert home.checkpoint("issue", "dark-mode") == tmp_path / "checkpoints" / "issue_workflow_dark-mode.db"
    assert home.runs == tmp_path / "logs" / "parallel"


def test_the_users_own_setting_may_be_anywhere(tmp_path: Path) -> None:
    assert locate_home(tmp_path / "repo", tmp_path / "else").path == tmp_path / "else"


def test_a_home_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".agentos").symlink_to("elsewhere")
    with pytest.raises(ProjectError, match="symbolic link"):
        locate_home(tmp_path, None)


@pytest.mark.parametrize("name", ["checkpoints", "logs", "logs/parallel"])
def test_a_link_inside_the_home_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / ".agentos" / name
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="link"):
        locate_home(tmp_path, None).create()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_all_files_of_a_checkpoint_are_known(tmp_path: Path) -> None:
    endings = ["", "-wal", "-shm", "-journal", ".lock"]
    assert list(checkpoint_files(tmp_path / "x.db")) == [tmp_path / f"x.db{ending}" for ending in endings]
