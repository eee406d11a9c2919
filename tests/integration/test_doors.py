"""Files of the worktree and the home are opened by the tree alone: every other way in fails here.

Read from the source: what a call is named, and what it is called on. A module that has a reason to look at
files itself is named below, with the reason; none of them reads or writes in the worktree or the home.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentos

SOURCE = Path(agentos.__file__).parent
OUTSIDE = {
    "store/rooted_tree.py": "it is the door",
    "store/known_homes.py": "the user's state folder, and whose the home is",
    "store/home.py": "makes a home that the user has named",
    "store/work_folder.py": "a temporary folder of its own",
    "project.py": "looks for markers in the folders above",
    "os_process.py": "/proc",
    "programs.py": "the folders of PATH",
    "config.py": "whether the user's own file is there",
    "cli/init.py": "the user's own file",
    "app/set_price.py": "the user's own file",
    "cli/summary_view.py": "the file that GitHub Actions names",
    "cli/user_programs.py": "the folders in which programs for the desktop are listed",
    "engine/job_queue.py": "the connections of the queue, no files",
    "llm/command.py": "the work folder of a command model",
    "view/browser_login.py": "a page in a temporary folder of its own",
    "doctor/": "says what is there, and gives none of it away",
}
METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "open", "iterdir", "glob", "rglob", "unlink"),
    *("rmdir", "mkdir", "rename", "touch", "chmod", "symlink_to", "hardlink_to", "is_file", "is_dir"),
    *("is_symlink", "exists", "stat", "lstat", "samefile", "readlink"),
}
FUNCTIONS = re.compile(
    r"os\.(open|scandir|listdir|walk|fwalk|remove|unlink|rename|renames|replace|rmdir|removedirs|mkdir|makedirs"
    r"|link|symlink|readlink|stat|lstat|chmod|chown|truncate|utime|mkfifo|access)"
    r"|os\.path\.(exists|lexists|isfile|isdir|islink|getsize|getmtime)"
    r"|shutil\.(rmtree|move|copy\w*|make_archive|unpack_archive|chown|disk_usage)|io\.open|open"
)
DOORS = re.compile(r"(\b|_)(tree|home|Tree|lineage|worktree_tree|run_tree|home_of)(\(.*\))?(\.tree)?")
SHIPPED = re.compile(r"(resources|files)\(|resources\.files\(|entry$")  # what is part of the program


def calls_outside(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of each call that opens, lists or changes files by another way than a tree."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        first = ast.unparse(node.args[0]) if node.args else ""
        if FUNCTIONS.fullmatch(called):
            if first != "os.devnull":
                yield node.lineno, called
        elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            owner = ast.unparse(node.func.value)
            if not DOORS.search(owner.replace("\n", "")) and not SHIPPED.search(owner):
                yield node.lineno, called


def modules() -> list[str]:
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


@pytest.mark.parametrize("name", [name for name in modules() if not name.startswith(tuple(OUTSIDE))])
def test_no_module_has_a_way_of_its_own_to_files(name: str) -> None:
    found = list(calls_outside((SOURCE / name).read_text("utf-8")))
    assert not found, f"{name}: go through agentos.store.rooted_tree"


def test_every_exception_is_needed() -> None:
    needed = {
        place
        for place in OUTSIDE
        for name in modules()
        if name.startswith(place) and any(calls_outside((SOURCE / name).read_text("utf-8")))
    }
    assert needed == set(OUTSIDE)


@pytest.mark.parametrize(
    "text",
    [
        "open('a')",
        "Path('a').read_text()",
        "(root / 'a').exists()",
        "os.open(path, os.O_RDONLY)",
        "os.scandir(folder)",
        "shutil.rmtree(path)",
        "path.unlink(missing_ok=True)",
        "run.parent.iterdir()",
    ],
)
def test_the_check_finds_what_it_looks_for(text: str) -> None:
    assert list(calls_outside(text))


@pytest.mark.parametrize(
    "text",
    [
        "self._tree.open(path)",
        "worktree_tree(root).exists(path)",
        "home.tree.stat(path)",
        "os.open(os.devnull, os.O_RDWR)",
        "os.fdopen(run_tree(run).open(path))",
    ],
)
def test_the_check_lets_the_door_be_used(text: str) -> None:
    assert not list(calls_outside(text))
