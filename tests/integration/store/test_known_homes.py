"""Which homes this user made: an id that the state folder knows, too."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentos.errors import ProjectError, StorageError
from agentos.store.home import Home
from agentos.store.known_homes import Register, Standing, register_of
from agentos.store.rooted_tree import Tree
from harness.places import make_socket, mode, snapshot, without_privileges

if TYPE_CHECKING:
    from collections.abc import Callable

ID = "0123456789abcdef" * 2
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def register(tmp_path: Path) -> Register:
    return Register(tmp_path / "state" / "agentos")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "repo" / ".agentos"
    path.mkdir(parents=True, mode=0o700)
    return path


def homes(register: Register) -> list[str]:
    assert register.folder is not None
    return (register.folder / "homes").read_text().splitlines()


def earlier(home: Path) -> None:
    """A home as versions made it that gave no ids."""
    for name in ("checkpoints", "logs", "logs/parallel"):
        (home / name).mkdir(mode=0o700)
    for name in ("records.db", "records.lock", "keys.json", ".gitignore"):
        (home / name).write_text("")
        (home / name).chmod(0o600)


# Telling.


def test_what_is_not_there_is_missing(tmp_path: Path, register: Register) -> None:
    assert register.standing(Tree(tmp_path / "gone")) is Standing.MISSING


def test_a_home_is_known_once_it_is_entered_and_wherever_it_moves(home: Path, register: Register) -> None:
    register.enter(Tree(home))
    assert register.standing(Tree(home)) is Standing.KNOWN
    moved = home.rename(home.with_name("elsewhere"))
    assert register.standing(Tree(moved)) is Standing.KNOWN


def test_telling_writes_nothing(home: Path, register: Register, tmp_path: Path) -> None:
    earlier(home)
    before = snapshot(tmp_path)
    register.standing(Tree(home))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "text", [ID, f"{ID}\n", ID.upper(), ID[:-1], "", "\xff", "../x", f"{ID}\n{ID}", "x" * 200, f"{ID} "]
)
def test_an_id_that_is_not_known_here_is_unknown_whatever_it_is(
    home: Path, register: Register, text: str
) -> None:
    earlier(home)
    (home / "id").write_text(text, "latin-1")
    (home / "id").chmod(0o600)
    assert register.standing(Tree(home)) is Standing.UNKNOWN
    register.enter(Tree(home.parent))  # another home is known, this one is none the more
    assert register.standing(Tree(home)) is Standing.UNKNOWN


def test_an_empty_line_or_a_path_in_the_register_makes_nothing_known(home: Path, register: Register) -> None:
    register.enter(Tree(home.parent))
    assert register.folder is not None
    with (register.folder / "homes").open("a") as file:
        file.write(f"\n \nx {ID}\n")
    (home / "id").write_text(ID)
    assert register.standing(Tree(home)) is Standing.UNKNOWN
    (home / "id").write_text("\n")
    assert register.standing(Tree(home)) is Standing.UNKNOWN


@pytest.mark.parametrize("kind", ["link to a known id", "dangling link", "pipe", "socket", "folder"])
def test_an_id_that_is_no_regular_file_is_unknown(home: Path, register: Register, kind: str) -> None:
    earlier(home)
    register.enter(Tree(home.parent))
    makers: dict[str, Callable[[Path], object]] = {
        "link to a known id": lambda path: path.symlink_to("../id"),
        "dangling link": lambda path: path.symlink_to("gone"),
        "pipe": os.mkfifo,
        "socket": make_socket,
        "folder": Path.mkdir,
    }
    makers[kind](home / "id")
    assert register.standing(Tree(home)) is Standing.UNKNOWN


def test_a_home_that_is_a_link_is_unknown(home: Path, register: Register, tmp_path: Path) -> None:
    register.enter(Tree(home))
    (tmp_path / "link").symlink_to(home)
    (tmp_path / "dangling").symlink_to("gone")
    for name in ("link", "dangling"):
        assert register.standing(Tree(tmp_path / name)) is Standing.UNKNOWN


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_what_is_no_folder_holds_nothing_to_believe_and_never_becomes_a_home(
    tmp_path: Path, register: Register, kind: str
) -> None:
    (os.mkfifo if kind == "pipe" else Path.touch)(tmp_path / "home")
    assert register.standing(Tree(tmp_path / "home")) is Standing.EARLIER
    with pytest.raises(StorageError, match=r"Cannot create the home .*Not a directory"):
        Home(path=tmp_path / "home", register=register).create()
    assert register.folder is not None
    assert not register.folder.exists()


# Homes of earlier versions, which had no id.


def test_a_home_of_an_earlier_version_is_told_by_being_private(home: Path, register: Register) -> None:
    earlier(home)
    assert register.standing(Tree(home)) is Standing.EARLIER


@pytest.mark.parametrize("bits", [0o001, 0o004, 0o040, 0o020, 0o055])
@pytest.mark.parametrize(
    "name", ["", "records.db", "records.lock", "checkpoints", "logs", "logs/parallel", "keys.json"]
)
def test_one_that_others_can_look_into_is_unknown(
    home: Path, register: Register, name: str, bits: int
) -> None:
    earlier(home)
    (home / name).chmod(mode(home / name) | bits)
    assert register.standing(Tree(home)) is Standing.UNKNOWN


@pytest.mark.parametrize("name", ["records.db", "checkpoints", "logs", "logs/parallel", "keys.json"])
def test_one_with_a_link_in_it_is_unknown(home: Path, register: Register, name: str, tmp_path: Path) -> None:
    earlier(home)
    (home / name).rename(tmp_path / "moved")
    (home / name).symlink_to(tmp_path / "moved")
    assert register.standing(Tree(home)) is Standing.UNKNOWN


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_one_that_belongs_to_somebody_else_is_unknown(home: Path, register: Register) -> None:
    earlier(home)
    os.chown(home / "records.db", 65_534, 65_534)
    assert register.standing(Tree(home)) is Standing.UNKNOWN


def test_a_home_as_a_clone_has_it_is_unknown(home: Path, register: Register) -> None:
    earlier(home)
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert register.standing(Tree(home)) is Standing.UNKNOWN


def test_an_empty_folder_holds_nothing_to_believe(home: Path, register: Register) -> None:
    home.chmod(0o755)
    assert register.standing(Tree(home)) is Standing.EARLIER
    (home / "anything").write_text("")
    assert register.standing(Tree(home)) is Standing.UNKNOWN


def test_a_first_run_that_was_killed_is_no_strange_home(home: Path, register: Register) -> None:
    (home / ".id.tmp").write_text(ID[:7])  # the one file that is written before the id is there
    assert register.standing(Tree(home)) is Standing.EARLIER
    Home(path=home, register=register).create()
    assert register.standing(Tree(home)) is Standing.KNOWN
    assert not (home / ".id.tmp").exists()


# Entering.


def test_entering_leaves_an_id_that_is_private_random_and_in_the_register(
    tmp_path: Path, register: Register
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        register.enter(Tree(tmp_path / name))
    ids = [(tmp_path / name / "id").read_text() for name in ("a", "b")]
    assert all(re.fullmatch(r"[0-9a-f]{32}\n", one) for one in ids)
    assert ids[0] != ids[1]
    assert mode(tmp_path / "a" / "id") == 0o600
    assert homes(register) == [
        f"{one.strip()} {str(tmp_path / name)!r}" for one, name in zip(ids, ("a", "b"), strict=True)
    ]
    assert register.folder is not None
    assert (mode(register.folder), mode(register.folder / "homes")) == (0o700, 0o600)


def test_entering_again_changes_nothing(home: Path, register: Register, tmp_path: Path) -> None:
    register.enter(Tree(home))
    before = snapshot(tmp_path)
    register.enter(Tree(home))
    assert snapshot(tmp_path) == before


def test_an_id_that_is_there_is_kept_when_the_home_is_adopted(home: Path, register: Register) -> None:
    (home / "id").write_text(f"{ID}\n")
    register.enter(Tree(home))
    assert (home / "id").read_text() == f"{ID}\n"
    assert register.standing(Tree(home)) is Standing.KNOWN
    assert len(homes(register)) == 1


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Kb", f"x\n{ID} 'y'", "\udcff"])
def test_a_path_stays_one_line_of_the_register(tmp_path: Path, register: Register, name: str) -> None:
    home = tmp_path / name
    home.mkdir()
    register.enter(Tree(home))
    assert len(homes(register)) == 1
    assert all(line.isprintable() for line in homes(register))
    assert ID not in {line.partition(" ")[0] for line in homes(register)}


def test_an_id_that_is_a_link_is_replaced_and_what_it_leads_to_stays(
    home: Path, register: Register, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("mine")
    (home / "id").symlink_to(tmp_path / "mine")
    register.enter(Tree(home))
    assert (tmp_path / "mine").read_text() == "mine"
    assert register.standing(Tree(home)) is Standing.KNOWN


def test_a_crash_between_the_two_leaves_a_home_that_can_be_entered(
    home: Path, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tree, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            register.enter(Tree(home))
    assert register.standing(Tree(home)) is Standing.EARLIER
    register.enter(Tree(home))
    assert register.standing(Tree(home)) is Standing.KNOWN


ENTER = """
import pathlib, sys
from agentos.store.home import Home
from agentos.store.known_homes import Register
register = Register(pathlib.Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(30):
    Home(path=pathlib.Path(sys.argv[2], str(number), ".agentos"), register=register).create()
"""


def test_two_processes_that_enter_at_once_leave_a_home_that_is_known(
    tmp_path: Path, register: Register
) -> None:
    for number in range(30):
        (tmp_path / "repos" / str(number)).mkdir(parents=True)
    words = [sys.executable, "-c", ENTER, str(register.folder), str(tmp_path / "repos")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [subprocess.Popen(words, text=True, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for process in started:
        process.stdout.readline()
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in started] == ["", ""]
    for number in range(30):
        home = Tree(tmp_path / "repos" / str(number) / ".agentos")
        assert register.standing(home) is Standing.KNOWN
        assert not [name for name in home.names(Path()) if name.endswith(".tmp")]
    assert all(re.match(r"[0-9a-f]{32} '.*'$", line) for line in homes(register))


# The state folder.


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/ada"}, "/state/agentos"),
        ({"XDG_STATE_HOME": "", "HOME": "/home/ada"}, "/home/ada/.local/state/agentos"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/ada"}, "/home/ada/.local/state/agentos"),
        ({"HOME": "/home/ada"}, "/home/ada/.local/state/agentos"),
        ({"HOME": ""}, None),
        ({"XDG_STATE_HOME": "relative"}, None),
        ({}, None),
    ],
)
def test_the_state_folder_is_where_xdg_has_it(environment: dict[str, str], folder: str | None) -> None:
    assert register_of(environment).folder == (None if folder is None else Path(folder))


def test_without_a_state_folder_a_home_must_be_named(home: Path) -> None:
    register = register_of({})
    with pytest.raises(ProjectError, match=r"HOME.*--home PATH, or AGENTOS_HOME=PATH"):
        register.enter(Tree(home))
    with pytest.raises(ProjectError, match="--home PATH"):
        Home(path=home, register=register).create()
    assert list(home.iterdir()) == []
    assert register.standing(Tree(home)) is Standing.EARLIER
    (home / "id").write_text(ID)
    assert register.standing(Tree(home)) is Standing.UNKNOWN


@pytest.mark.parametrize(
    "kind", ["file above", "file", "homes is a folder", "homes is a link", "homes is a pipe"]
)
def test_a_state_folder_that_cannot_be_written_is_told_with_what_to_type(
    home: Path, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "state" / "agentos"
    if kind == "file above":
        folder.parent.write_text("")
    else:
        folder.parent.mkdir()
        if kind == "file":
            folder.write_text("")
        else:
            folder.mkdir()
    if kind == "homes is a folder":
        (folder / "homes").mkdir()
    elif kind == "homes is a link":
        (folder / "homes").symlink_to(tmp_path / "elsewhere")
    elif kind == "homes is a pipe":
        os.mkfifo(folder / "homes")
    with pytest.raises(ProjectError, match=f"Cannot write to {folder}: .*--home PATH, or AGENTOS_HOME=PATH"):
        Register(folder).enter(Tree(home))
    assert not (home / "id").exists(), "an id that is not known would have the home refused"
    assert not (tmp_path / "elsewhere").exists()


def test_a_state_folder_that_is_not_the_users_is_told_too(home: Path, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        path.chmod(path.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    (tmp_path / "state").mkdir(mode=0o555)
    home.chmod(0o755)
    with without_privileges(), pytest.raises(ProjectError, match=r"Permission denied.*--home PATH"):
        Register(tmp_path / "state" / "agentos").enter(Tree(home))


@pytest.mark.parametrize("place", ["state", "state/agentos"])
def test_a_state_folder_behind_a_link_of_the_users_is_fine(home: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).symlink_to(tmp_path / "real")
    register = Register(tmp_path / "state" / "agentos")
    register.enter(Tree(home))
    assert register.standing(Tree(home)) is Standing.KNOWN
