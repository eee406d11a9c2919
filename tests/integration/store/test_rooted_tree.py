"""The one door: what is below the root and nothing else, regular files only, whole or not at all."""

import errno
import itertools
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePath

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentos.errors import StorageError
from agentos.store.rooted_tree import (
    PathRefused,
    TooLarge,
    Tree,
    read_named,
    unfinished,
    worktree_tree,
    write_all,
)
from harness.places import ODD, make_socket, mode, room_for, snapshot, umask, without_privileges

STEADY = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
LINK = "is a symbolic link, and links are not followed"
pytestmark = pytest.mark.timeout(60)  # a pipe must hold nobody


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a folder; beside it, what must stay as it is."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.md").write_text("text")
    outside = tmp_path / "outside"
    (outside / "docs").mkdir(parents=True)
    (outside / "a.md").write_text("not ours")
    (outside / "docs" / "a.md").write_text("not ours")
    return root


@pytest.fixture
def untouched(root: Path) -> Iterator[Path]:
    """What lies outside, which is the same afterwards."""
    outside = root.with_name("outside")
    before = snapshot(outside)
    yield outside
    assert snapshot(outside) == before


@pytest.fixture
def tree(root: Path) -> Tree:
    return Tree(root)


def attempts(tree: Tree) -> dict[str, Callable[[PurePath], object]]:
    """Everything that can be done to a path, where it must raise if the path is not to be taken."""
    return {
        "read": lambda path: tree.read(path, 100),
        "text": lambda path: tree.text(path, 100),
        "open": lambda path: os.close(tree.open(path)),
        "open to write": lambda path: os.close(tree.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
        "entries": tree.entries,
        "check_database": tree.check_database,
        "make_folder": lambda path: tree.make_folder(path / "new"),
        "make_private": lambda path: tree.make_private(path / "new"),
        "new_folder": lambda path: tree.new_folder(path / "new", 0o777),
        "write": lambda path: tree.write(path, "changed"),
        "create": lambda path: tree.create(path, "changed"),
        "move from": lambda path: tree.move(path, Path("moved")),
        "move to": lambda path: tree.move(Path("spare"), path),
        "link from": lambda path: tree.link(path, Path("linked")),
        "link to": lambda path: tree.link(Path("spare"), path),
        "remove": tree.remove,
        "remove_folder": tree.remove_folder,
        "remove_tree": tree.remove_tree,
    }


WAYS = tuple(attempts(Tree(Path())))


# Reading.


def test_a_file_is_read_whole_by_its_path_from_the_root_or_from_the_top(tree: Tree, root: Path) -> None:
    for path in (Path("docs/a.md"), root / "docs" / "a.md", PurePath("docs/./a.md")):
        assert tree.read(path, 4) == b"text"
        assert tree.text(path, 4) == "text"
        assert (tree.is_file(path), tree.is_folder(path), tree.exists(path)) == (True, False, True)
        descriptor = tree.open(path)
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)


def test_a_file_that_is_larger_than_it_may_be_is_refused(tree: Tree, root: Path) -> None:
    (root / "a").write_bytes(b"12345")
    assert tree.read(Path("a"), 5) == b"12345"
    with pytest.raises(TooLarge, match="it is larger than 4 bytes"):
        tree.read(Path("a"), 4)
    os.truncate(root / "a", 2**40)  # takes no room on the disk, and must take none in memory
    with pytest.raises(TooLarge):
        tree.text(Path("a"), 1000)


def test_text_is_utf8(tree: Tree, root: Path) -> None:
    (root / "a").write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        tree.text(Path("a"), 100)


def test_a_folder_is_listed_by_name_with_what_each_entry_is(tree: Tree, root: Path) -> None:
    folder = root / "all"
    folder.mkdir()
    (folder / "b").write_bytes(b"12")
    (folder / "a").mkdir()
    (folder / "link").symlink_to("a")
    os.mkfifo(folder / "pipe")
    make_socket(folder / "socket")
    found = tree.entries(Path("all"))
    assert [one.name for one in found] == ["a", "b", "link", "pipe", "socket"] == tree.names(Path("all"))
    assert [one.name for one in found if one.is_folder] == ["a"]
    assert [one.name for one in found if one.is_file] == ["b"]
    file = (folder / "b").stat()
    assert (found[1].size, found[1].modified, found[1].changed) == (2, file.st_mtime_ns, file.st_mtime)
    assert tree.names(Path()) == ["all", "docs"]


def test_where_nothing_is_nothing_is_found(tree: Tree) -> None:
    for path in (Path("gone"), Path("gone/a"), Path("docs/a.md/b")):
        assert tree.stat(path) is None
        assert not tree.exists(path)
        assert not tree.is_file(path)
        assert not tree.is_folder(path)
        assert tree.names(path) == []
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            tree.read(path, 100)
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            tree.entries(path)


def test_an_error_names_the_path_that_was_asked_for(tree: Tree) -> None:
    for path in ("gone", "gone/deep/a", "docs/a.md/b"):
        with pytest.raises(OSError, match=r"(No such file|Not a directory)") as caught:
            tree.read(Path(path), 100)
        assert caught.value.filename == path


def test_a_root_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "gone")
    assert tree.names(Path()) == []
    assert tree.stat(Path("a")) is None
    with pytest.raises(StorageError, match="Cannot write a"):
        tree.write(Path("a"), "text")
    assert not (tmp_path / "gone").exists()


def test_a_root_may_lie_behind_a_link_but_is_none(root: Path, untouched: Path) -> None:
    (root.parent / "way").symlink_to(".")
    assert Tree(root.parent / "way" / "root").text(Path("docs/a.md"), 100) == "text"
    (root.parent / "link").symlink_to(untouched)
    linked = Tree(root.parent / "link")
    assert not linked.exists(Path("a.md"))
    with pytest.raises(OSError):
        linked.read(Path("a.md"), 100)
    with pytest.raises(StorageError):
        linked.write(Path("a.md"), "changed")


# What is not taken.


@pytest.mark.parametrize("way", WAYS)
def test_no_link_is_followed_on_the_way_wherever_it_leads(
    tree: Tree, root: Path, untouched: Path, way: str
) -> None:
    (root / "deep").mkdir()
    for name in ("link", "deep/link"):
        (root / name).symlink_to(untouched)
    (root / "up").symlink_to("..")
    (root / "inner").symlink_to("docs")
    (root / "spare").write_text("spare")
    before = snapshot(root)
    for place in map(Path, ("link/a.md", "deep/link/docs/a.md", "up/outside/a.md", "inner/a.md")):
        with pytest.raises((PathRefused, StorageError), match=f"(link|up|inner) {LINK}"):
            attempts(tree)[way](place)
        assert snapshot(root) == before, place
        assert not tree.exists(place)
        assert not tree.is_file(place)
        assert not tree.is_folder(place)
        assert tree.names(place.parent) == []


@pytest.mark.parametrize("target", ["../outside/a.md", "docs/a.md", "../outside", "docs", "gone", "a.md"])
def test_a_link_at_the_end_is_not_followed_either(
    tree: Tree, root: Path, untouched: Path, target: str
) -> None:
    place = Path("a.md")
    (root / place).symlink_to(target)
    before = snapshot(root)
    actions = attempts(tree)
    for way in ("read", "text", "open", "open to write", "entries"):
        with pytest.raises(PathRefused, match=f"it {LINK}") as caught:
            actions[way](place)
        assert caught.value.filename == "a.md"
    for way in ("make_folder", "make_private", "new_folder", "remove_tree"):
        with pytest.raises(PathRefused, match=LINK):
            actions[way](place)
    with pytest.raises(PathRefused, match="not a regular file"):
        tree.check_database(place)
    with pytest.raises(FileExistsError):
        tree.create(place, "changed")
    assert snapshot(root) == before
    assert untouched.is_dir()
    assert tree.exists(place), "the link itself is there"
    assert not tree.is_file(place)
    assert not tree.is_folder(place)
    assert tree.names(place) == []


@pytest.mark.parametrize("target", ["../outside/a.md", "docs/a.md", "gone", "a.md"])
def test_a_link_in_the_place_of_a_file_is_replaced_itself(
    tree: Tree, root: Path, untouched: Path, target: str
) -> None:
    (root / "a.md").symlink_to(target)
    tree.write(Path("a.md"), "new")
    assert not (root / "a.md").is_symlink()
    assert (root / "a.md").read_text() == "new"
    assert (root / "docs" / "a.md").read_text() == "text"
    assert (untouched / "a.md").read_text() == "not ours"
    assert not (root / "gone").exists()


def test_a_link_is_moved_linked_and_removed_as_a_link(tree: Tree, root: Path, untouched: Path) -> None:
    (root / "a").symlink_to(untouched)
    tree.move(Path("a"), Path("new/b"))
    tree.link(Path("new/b"), Path("c"))
    assert [(root / name).readlink() for name in ("new/b", "c")] == [untouched] * 2
    tree.remove(Path("c"))
    tree.remove(Path("new/b"))
    assert not os.path.lexists(root / "c")
    assert not os.path.lexists(root / "new/b")


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_what_is_no_regular_file_is_refused_and_holds_nobody(tree: Tree, root: Path, kind: str) -> None:
    ODD[kind](root / "a")
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_APPEND):
        with pytest.raises(OSError) as caught:
            tree.open(Path("a"), flags)
        refused = isinstance(caught.value, PathRefused) and "it is not a regular file" in str(caught.value)
        assert refused or caught.value.errno == errno.EISDIR
    with pytest.raises(PathRefused, match="it is not a regular file"):
        tree.read(Path("a"), 100)
    with pytest.raises(FileExistsError):
        tree.create(Path("a"), "text")
    assert (tree.is_file(Path("a")), tree.is_folder(Path("a"))) == (False, kind == "folder")
    if kind != "folder":
        with pytest.raises(OSError, match="Not a directory"):
            tree.entries(Path("a"))
        with pytest.raises(StorageError, match="Cannot write a/b: Not a directory"):
            tree.write(Path("a/b"), "text")


def test_a_device_is_refused(tree: Tree, root: Path) -> None:
    try:
        os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        return  # nobody but root makes one, so no repository brings one
    with pytest.raises(OSError, match=r"not a regular file|denied|No such device"):
        tree.read(Path("zero"), 100)


OUTSIDE = ("..", "../outside/a.md", "docs/../../outside/a.md", "docs/../a.md", "docs/..", "/etc/passwd")


@pytest.mark.parametrize("way", WAYS)
def test_a_path_that_is_not_below_the_root_is_refused(
    tree: Tree, root: Path, untouched: Path, way: str
) -> None:
    (root / "spare").write_text("spare")
    before = snapshot(root)
    for path in map(Path, (*OUTSIDE, f"{root}-neighbour/a", "a\0b")):
        with pytest.raises((PathRefused, StorageError), match=r"not below|leads outside"):
            attempts(tree)[way](path)
        assert not tree.exists(path)
        assert snapshot(root) == before, path
    assert untouched.is_dir()


@pytest.mark.parametrize("way", [one for one in WAYS if one != "entries"])
def test_the_root_itself_is_not_opened_replaced_or_removed(tree: Tree, root: Path, way: str) -> None:
    (root / "spare").write_text("spare")
    if way in {"make_folder", "make_private", "new_folder"}:
        return  # those make something below it
    for path in (Path(), root):
        with pytest.raises((PathRefused, StorageError), match="it is the root itself"):
            attempts(tree)[way](path)
    assert (root / "docs" / "a.md").read_text() == "text"


CLOSED = (
    ".git/config",
    ".GIT/config",
    ".Git/hooks/pre-commit",
    "vendor/lib/.git/config",
    ".agentos/records.db",
    ".AgentOS/x",
    "sub/.agentos/id",
)


@pytest.mark.parametrize("way", WAYS)
def test_a_worktree_has_no_way_into_git_or_a_home(root: Path, way: str) -> None:
    for name in CLOSED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("kept")
    (root / "spare").write_text("spare")
    before = snapshot(root)
    for path in (*map(Path, CLOSED), root / ".git" / "config"):
        with pytest.raises(
            (PathRefused, StorageError), match=r"(?i)nothing in .(git|agentos) is read or written"
        ):
            attempts(worktree_tree(root))[way](path)
        assert snapshot(root) == before, path
        assert not worktree_tree(root).exists(path)
        assert Tree(root).text(path, 100) == "kept", "the home's own tree has no closed folder"


@pytest.mark.parametrize("path", [".gitignore", ".github/a.md", "x.git/a.md", "agentos/a.md", ".agentos.md"])
def test_names_that_only_look_like_them_are_open(root: Path, path: str) -> None:
    worktree_tree(root).write(Path(path), "text")
    assert worktree_tree(root).text(Path(path), 100) == "text"


# Writing as a whole.


def test_a_file_is_written_with_its_folders_and_replaced(tree: Tree, root: Path) -> None:
    tree.write(Path("a/b/c.md"), "one")
    tree.write(root / "a/b/c.md", "zwei ä 😀\n")
    tree.write(Path("a/b/d"), b"\xff\0")
    assert snapshot(root / "a") == {"b": b"", "b/c.md": "zwei ä 😀\n".encode(), "b/d": b"\xff\0"}


def test_line_ends_are_written_as_they_are(tree: Tree, root: Path) -> None:
    tree.write(Path("a"), "x\r\ny\n")
    assert (root / "a").read_bytes() == b"x\r\ny\n"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_mode_is_the_one_asked_for_else_what_the_user_has_set(tree: Tree, root: Path, mask: int) -> None:
    with umask(mask):
        tree.write(Path("private"), "text", mode=0o600)
        tree.write(Path("new/written"), "text")
        tree.create(Path("new/created"), "text")
        os.close(tree.open(Path("opened"), os.O_RDWR | os.O_CREAT))
    assert mode(root / "private") == mode(root / "opened") == 0o600
    assert mode(root / "new/written") == mode(root / "new/created") == 0o666 & ~mask
    assert mode(root / "new") == 0o777 & ~mask


def test_a_private_file_that_was_not_is_private_after_it_is_written(tree: Tree, root: Path) -> None:
    (root / "a").write_text("old")
    (root / "a").chmod(0o666)
    tree.write(Path("a"), "new", mode=0o600)
    assert mode(root / "a") == 0o600


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b[31m", "\udcff.md", "-rf", " ", "ä", "a\\b", ".a.tmp", "x" * 200]
)
def test_any_name_is_taken_as_it_is(tree: Tree, root: Path, name: str) -> None:
    path = Path("new", name, name)
    tree.write(path, "one")
    assert tree.text(path, 100) == "one"
    assert tree.names(path.parent) == [name] == [one.name for one in (root / "new" / name).iterdir()]
    assert tree.is_file(path)
    tree.move(path, Path(name))
    tree.create(path, "two")
    assert (tree.text(path, 100), tree.text(Path(name), 100)) == ("two", "one")
    tree.remove(Path(name))
    tree.remove_tree(Path("new"))
    assert tree.names(Path()) == ["docs"]


@STEADY
@given(text=st.text(st.characters(exclude_categories=[])))
@example(text="half of a pair: \ud83d")
@example(text="an undecodable byte: \udcff")
def test_any_text_is_written_as_utf8_also_what_a_model_should_not_have_sent(tree: Tree, text: str) -> None:
    tree.write(Path("a"), text)
    written = tree.read(Path("a"), 10_000_000).decode("utf-8")
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert written == text


def test_a_full_disk_leaves_the_old_content_and_nothing_half_written(tree: Tree, root: Path) -> None:
    tree.write(Path("a"), "old")
    before = snapshot(root)
    with room_for(10):
        with pytest.raises(StorageError, match="Cannot write a: File too large"):
            tree.write(Path("a"), "new" * 1000)
        with pytest.raises(StorageError, match="Cannot write b: File too large"):
            tree.create(Path("b"), "new" * 1000)
    assert snapshot(root) == before


@pytest.mark.parametrize("kind", ["folder in its place", "file as its folder", "name too long"])
def test_what_cannot_be_written_is_a_storage_error_that_names_the_file(
    tree: Tree, root: Path, kind: str
) -> None:
    path = {"folder in its place": "docs", "file as its folder": "docs/a.md/b"}.get(kind, "x" * 300)
    before = snapshot(root)
    with pytest.raises(StorageError, match=f"Cannot write {path}: "):
        tree.write(Path(path), "text")
    assert snapshot(root) == before


def test_a_folder_that_may_not_be_written_is_a_storage_error(tree: Tree, root: Path) -> None:
    folder = root / "locked"
    folder.mkdir()
    for place in (root.parent, root, folder):
        place.chmod(0o755)
    with without_privileges():
        for act in (tree.write, tree.create):
            with pytest.raises(StorageError, match="Cannot write locked/a: Permission denied"):
                act(Path("locked/a"), "text")
    assert list(folder.iterdir()) == []


KILLED = """
import os, pathlib, sys
from agentos.store import rooted_tree as tree
tree.os.fsync = lambda _: os.kill(os.getpid(), 9)
getattr(tree.Tree(pathlib.Path(sys.argv[1])), sys.argv[2])(pathlib.Path("a"), "half")
"""


@pytest.mark.parametrize("way", ["write", "create"])
def test_what_a_killed_process_left_is_gone_with_the_next_write(tree: Tree, root: Path, way: str) -> None:
    if way == "write":
        tree.write(Path("a"), "old")
    before = tree.names(Path())
    killed = subprocess.run([sys.executable, "-c", KILLED, str(root), way], check=False)
    assert killed.returncode == -9
    assert len(tree.names(Path())) == len(before) + 1, "it was killed in the midst of it"
    assert way == "create" or (root / "a").read_text() == "old"
    getattr(tree, way)(Path("a"), "new")
    assert snapshot(root) == {"a": b"new", "docs": b"", "docs/a.md": b"text"}


@pytest.mark.parametrize("way", ["write", "create"])
@pytest.mark.parametrize("kind", ["file", "pipe", "socket", "loop", "dangling link", "link out"])
def test_whatever_has_the_name_of_an_unfinished_file_is_replaced_and_not_written_through(
    tree: Tree, root: Path, untouched: Path, kind: str, way: str
) -> None:
    left = root / (".a.tmp" if way == "write" else unfinished("a"))
    if kind == "file":
        left.write_text("left")
    elif kind == "link out":
        left.symlink_to(untouched / "a.md")
    else:
        ODD[kind](left)
    getattr(tree, way)(Path("a"), "new")
    assert snapshot(root) == {"a": b"new", "docs": b"", "docs/a.md": b"text"}


@pytest.mark.parametrize("way", ["write", "create"])
def test_a_folder_with_the_name_of_an_unfinished_file_is_an_error_and_stays(
    tree: Tree, root: Path, way: str
) -> None:
    left = root / (".a.tmp" if way == "write" else unfinished("a"))
    left.mkdir()
    (left / "b").write_text("kept")
    with pytest.raises(StorageError, match="Cannot write a: "):
        getattr(tree, way)(Path("a"), "new")
    assert (left / "b").read_text() == "kept"
    assert not (root / "a").exists()


def test_everything_is_written_however_little_the_kernel_takes_at_a_time(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
    try:
        write_all(descriptor, b"")
        write_all(descriptor, b"x" * 300_000)
    finally:
        os.close(descriptor)
    assert (tmp_path / "a").stat().st_size == 300_000


# A file that is not there yet.


def test_a_new_file_takes_the_place_of_nothing(tree: Tree, root: Path) -> None:
    tree.create(Path("new/a"), "one")
    with pytest.raises(FileExistsError):
        tree.create(Path("new/a"), "two")
    assert snapshot(root / "new") == {"a": b"one"}


@pytest.mark.parametrize("kind", ODD)
def test_a_new_file_takes_the_place_of_nothing_odd(tree: Tree, root: Path, kind: str) -> None:
    ODD[kind](root / "a")
    before = snapshot(root)
    with pytest.raises(FileExistsError):
        tree.create(Path("a"), "text")
    assert snapshot(root) == before


def no_links(*_arguments: object, **_more: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_where_there_are_no_hard_links_a_new_file_takes_the_place_of_nothing_too(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_links)
    tree.create(Path("a"), "one")
    with pytest.raises(FileExistsError):
        tree.create(Path("a"), "two")
    assert snapshot(root) == {"a": b"one", "docs": b"", "docs/a.md": b"text"}


CREATOR = """
import pathlib, sys
from agentos.store.rooted_tree import Tree
tree = Tree(pathlib.Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(50):
    try:
        tree.create(pathlib.Path(str(number), "a"), sys.argv[2] * 1000)
        print(number, flush=True)
    except Exception:
        pass
"""


def test_of_two_processes_that_make_a_file_at_once_neither_takes_the_others_place(root: Path) -> None:
    texts = ("x", "y")
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", CREATOR, str(root), text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for text in texts
    ]
    for maker in makers:
        assert maker.stdout is not None
        maker.stdout.readline()
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("\n")
        maker.stdin.flush()
    made = [maker.communicate()[0].split() for maker in makers]
    assert len(made[0]) + len(made[1]) >= 50
    assert not set(made[0]) & set(made[1]), "one of them was told that the other was first"
    for number in range(50):
        assert (root / str(number) / "a").read_text() in {text * 1000 for text in texts}
        assert [one.name for one in (root / str(number)).iterdir()] == ["a"]


# Moving, linking, removing.


def test_a_file_or_a_folder_moves_to_a_free_name(tree: Tree, root: Path) -> None:
    tree.move(Path("docs"), Path("new/docs"))
    tree.move(Path("new/docs/a.md"), root / "b.md")
    assert snapshot(root) == {"b.md": b"text", "new": b"", "new/docs": b""}


@pytest.mark.parametrize("kind", [*ODD, "file", "empty folder", "link out"])
@pytest.mark.parametrize("source", ["file", "folder"])
def test_nothing_moves_over_anything(tree: Tree, root: Path, untouched: Path, source: str, kind: str) -> None:
    if kind == "file":
        (root / "b").write_text("kept")
    elif kind == "link out":
        (root / "b").symlink_to(untouched)
    else:
        ODD.get(kind, Path.mkdir)(root / "b")
    before = snapshot(root)
    path = Path("docs/a.md") if source == "file" else Path("docs")
    for act in (tree.move, tree.link) if source == "file" else (tree.move,):
        with pytest.raises(FileExistsError):
            act(path, Path("b"))
    assert snapshot(root) == before


def test_what_is_not_there_does_not_move(tree: Tree, root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tree.move(Path("gone"), Path("b"))
    with pytest.raises(FileNotFoundError):
        tree.move(Path("gone/a"), Path("b"))
    assert tree.names(Path()) == ["docs"]


def test_between_two_file_systems_the_copy_is_whole_before_the_file_goes(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(*_arguments: object, **_more: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", elsewhere)
    tree.move(Path("docs/a.md"), Path("b"))
    assert snapshot(root) == {"b": b"text", "docs": b""}
    (root / "link").symlink_to("b")
    for name in ("docs", "link"):
        with pytest.raises(OSError, match="cross-device"):
            tree.move(Path(name), Path("c"))
    assert snapshot(root) == {"b": b"text", "docs": b"", "link": b"-> b"}


def test_a_second_name_is_the_same_file(tree: Tree, root: Path) -> None:
    tree.link(Path("docs/a.md"), Path("new/b"))
    assert (root / "new/b").samefile(root / "docs/a.md")


def test_removing_what_is_not_there_is_no_error(tree: Tree, root: Path) -> None:
    for path in ("gone", "gone/a", "docs/a.md/b"):
        tree.remove(Path(path))
    tree.remove(Path("docs/a.md"))
    assert snapshot(root) == {"docs": b""}


def test_only_an_empty_folder_is_removed_as_one(tree: Tree, root: Path) -> None:
    with pytest.raises(OSError, match="not empty"):
        tree.remove_folder(Path("docs"))
    with pytest.raises(OSError):
        tree.remove(Path("docs"))
    with pytest.raises(NotADirectoryError):
        tree.remove_folder(Path("docs/a.md"))
    tree.remove(Path("docs/a.md"))
    tree.remove_folder(Path("docs"))
    assert snapshot(root) == {}


def test_a_folder_goes_with_all_that_is_in_it_and_what_links_lead_to_stays(
    tree: Tree, root: Path, untouched: Path
) -> None:
    folder = root / "old"
    (folder / "deep").mkdir(parents=True)
    for place in (folder, folder / "deep"):
        (place / "out").symlink_to(untouched)
        (place / "file").symlink_to(untouched / "a.md")
        (place / "up").symlink_to("..")
        (place / "inner").symlink_to(root / "docs")
        for kind, make in ODD.items():
            make(place / f"odd {kind}")
    tree.remove_tree(Path("old"))
    assert snapshot(root) == {"docs": b"", "docs/a.md": b"text"}


@pytest.mark.parametrize("target", ["../outside", "docs"])
def test_a_link_is_no_folder_to_remove(tree: Tree, root: Path, untouched: Path, target: str) -> None:
    (root / "old").symlink_to(target)
    with pytest.raises(PathRefused, match=f"it {LINK}"):
        tree.remove_tree(Path("old"))
    with pytest.raises(NotADirectoryError):
        tree.remove_folder(Path("old"))
    assert (root / "old").is_symlink()
    assert (untouched / "a.md").exists()
    assert (root / "docs" / "a.md").exists()


@pytest.mark.parametrize("kind", ["file", "pipe", "socket"])
def test_what_is_no_folder_is_not_removed_as_one_and_holds_nobody(tree: Tree, root: Path, kind: str) -> None:
    ODD.get(kind, Path.touch)(root / "old")
    for act in (tree.remove_tree, tree.remove_folder):
        with pytest.raises(NotADirectoryError):
            act(Path("old"))
    assert tree.exists(Path("old"))


# Folders.


@pytest.mark.parametrize("existing", [None, 0o755, 0o777])
def test_a_private_folder_is_the_owners_alone_also_where_it_was_not(
    tree: Tree, root: Path, existing: int | None
) -> None:
    if existing is not None:
        (root / "home").mkdir()
        (root / "home").chmod(existing)
    with umask(0):
        tree.make_private(Path("home"))
        tree.make_private(Path("home/new/deep"))
    for name in ("home", "home/new", "home/new/deep"):
        assert mode(root / name) == 0o700


@pytest.mark.parametrize("kind", ["link to folder", "link to file", "dangling link", "file", "pipe"])
def test_a_private_folder_is_never_a_link_or_a_file(
    tree: Tree, root: Path, untouched: Path, kind: str
) -> None:
    path, before = root / "home", mode(root.with_name("outside"))
    if kind == "file":
        path.write_text("")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        targets = {"link to folder": untouched, "link to file": untouched / "a.md"}
        path.symlink_to(targets.get(kind, untouched / "gone"))
    for act in (tree.make_private, tree.make_folder):
        with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
            act(Path("home"))
    with pytest.raises(FileExistsError):
        tree.new_folder(Path("home"), 0o700)
    assert mode(untouched) == before


def test_a_new_folder_is_new_and_those_above_it_are_there(tree: Tree, root: Path) -> None:
    with umask(0):
        tree.new_folder(Path("docs/new"), 0o700)
    assert mode(root / "docs/new") == 0o700
    with pytest.raises(FileExistsError):
        tree.new_folder(Path("docs/new"), 0o700)
    with pytest.raises(FileNotFoundError):
        tree.new_folder(Path("gone/new"), 0o700)
    tree.make_folder(Path("docs/new"))
    tree.make_folder(Path("gone/new"))
    assert (root / "gone/new").is_dir()


# Databases, which SQLite opens by their path.


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", [*ODD, "link out", "link in"])
def test_a_database_and_its_side_files_are_regular_files(
    tree: Tree, root: Path, untouched: Path, kind: str, ending: str
) -> None:
    path = root / "docs" / f"x.db{ending}"
    if kind == "link out":
        path.symlink_to(untouched / "a.md")
    elif kind == "link in":
        path.symlink_to("a.md")
    else:
        ODD[kind](path)
    with pytest.raises(PathRefused, match="it is not a regular file") as caught:
        tree.check_database(Path("docs/x.db"))
    assert caught.value.filename == f"docs/x.db{ending}"


def test_a_database_that_is_there_or_not_is_fine(tree: Tree, root: Path) -> None:
    tree.check_database(Path("docs/x.db"))
    for ending in ("", "-wal", "-shm", "-journal"):
        (root / "docs" / f"x.db{ending}").touch()
    tree.check_database(root / "docs" / "x.db")


# While somebody swaps folders for links.


def swap(root: Path, outside: Path, stop: threading.Event) -> None:
    """Have `docs` be a link to the outside every other moment; the other one makes and removes it, too."""
    docs = root / "docs"
    for number in itertools.count():
        if stop.is_set():
            return
        fresh = root / f"fresh-{number}"
        fresh.mkdir()
        (fresh / "a.md").write_text("text")
        with suppress(OSError):
            docs.rename(root / f"aside-{number}")
        with suppress(OSError):
            docs.symlink_to(outside)
        with suppress(OSError):
            docs.unlink()
        with suppress(OSError):
            fresh.rename(docs)


def move_there_and_back(tree: Tree) -> None:
    tree.move(Path("docs/a.md"), Path("spare/a.md"))
    tree.move(Path("spare/a.md"), Path("docs/a.md"))


def create_again(tree: Tree) -> None:
    tree.remove(Path("docs/new.md"))
    tree.create(Path("docs/new.md"), "changed")


def read_ours(tree: Tree) -> None:
    assert tree.text(Path("docs/a.md"), 100) == "text"


WHILE_SWAPPED: dict[str, Callable[[Tree], object]] = {
    "read": read_ours,
    "write": lambda tree: tree.write(Path("docs/a.md"), "changed"),
    "create": create_again,
    "open": lambda tree: os.close(tree.open(Path("docs/a.md"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
    "make": lambda tree: tree.make_private(Path("docs/new/deep")),
    "move": move_there_and_back,
    "remove": lambda tree: tree.remove(Path("docs/a.md")),
    "remove_tree": lambda tree: tree.remove_tree(Path("docs")),
}


@pytest.mark.parametrize("way", WHILE_SWAPPED)
def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(
    tree: Tree, root: Path, untouched: Path, way: str
) -> None:
    (root / "spare").mkdir()
    stop = threading.Event()
    swapper = threading.Thread(target=swap, args=(root, untouched, stop))
    swapper.start()
    try:
        for _ in range(300):
            with suppress(OSError, StorageError):
                WHILE_SWAPPED[way](tree)
    finally:
        stop.set()
        swapper.join()
    assert (untouched / "a.md").read_text() == "not ours"


# What the user names.


def test_a_file_that_the_user_names_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("a")
    assert read_named(tmp_path / "link", 5) == b"12345"
    with pytest.raises(TooLarge):
        read_named(tmp_path / "link", 4)
    with pytest.raises(IsADirectoryError):
        read_named(tmp_path, 100)
    with pytest.raises(FileNotFoundError):
        read_named(tmp_path / "gone", 100)


def test_a_pipe_that_the_user_names_is_read_to_its_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        for part in (b"one ", b"two"):
            write_all(writing, part)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert read_named(Path(f"/dev/fd/{reading}"), 100) == b"one two"
    finally:
        writer.join()
        os.close(reading)
    os.mkfifo(tmp_path / "pipe")
    assert read_named(tmp_path / "pipe", 100) == b"", "one that nobody writes to holds nobody"
