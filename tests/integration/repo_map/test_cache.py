"""What is kept in the home: by blob, private, bounded, never trusted, and never needed."""

import threading
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest

from agentos.repo_map import cache as cache_module
from agentos.repo_map import repository as repository_module
from agentos.repo_map.cache import MapCache
from agentos.repo_map.git_state import Git
from agentos.repo_map.parts import RepositoryMap
from agentos.repo_map.tag_process import TagProcess
from agentos.repo_map.word_index import Counted, WordIndex
from agentos.store.rooted_tree import Tree
from harness.git_project import GitProject, item


@pytest.fixture
def project(tmp_path: Path) -> GitProject:
    made = GitProject(tmp_path / "shop")
    for number in range(5):
        made.put(f"src/part{number}.py", f"class Part{number}:\n    def turn(self): ...\n")
    made.put("logo.bin", b"\0\1")
    made.commit("Start the parts")
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def made(project: GitProject, home: Path, *, write: bool = True) -> RepositoryMap:
    repository = project.open(cache=home, write=write)
    found = repository.map_for(item("Turn Part3 faster"), tokens=2_000)
    repository.close()
    return found


def packs(home: Path) -> list[Path]:
    return sorted((home / "context").iterdir()) if (home / "context").exists() else []


def test_the_second_run_reads_no_text_it_does_not_show(
    project: GitProject, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(project, home)
    assert {pack.name.split("-")[0] for pack in packs(home)} == {"words", "messages", "paths", "tags"}
    assert {pack.stat().st_mode & 0o777 for pack in packs(home)} == {0o600}
    assert (home / "context").stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(Git, "commits", lambda *_: pytest.fail("the messages are in the cache"))
    monkeypatch.setattr(TagProcess, "parse", lambda *_: pytest.fail("the definitions are in the cache"))
    assert made(project, home) == first


def test_a_changed_file_adds_a_pack(project: GitProject, home: Path) -> None:
    made(project, home)
    project.put("src/part3.py", "class Wheel:\n    def roll(self): ...\n")
    project.commit("Roll the wheel")
    repository = project.open(cache=home)
    assert repository.map_for(item("Roll a wheel"), tokens=0).ranked[0] == "src/part3.py"
    repository.close()
    assert len([pack for pack in packs(home) if pack.name.startswith("words")]) == 2


def test_many_small_packs_are_put_together(project: GitProject, home: Path) -> None:
    for number in range(20):
        project.put(f"src/part{number}.py", f"class Part{number}:\n    def turn(self): ...\n    x = 1\n")
        project.git("add", "-A")
        made(project, home)
        for kind in ("words", "tags"):
            found = [pack for pack in packs(home) if pack.name.startswith(kind)]
            assert len(found) <= cache_module.MAX_PACKS + 2
    assert made(project, home).ranked[0] == "src/part3.py"


def test_packs_of_other_states_are_removed_in_the_end(project: GitProject, home: Path) -> None:
    kept = MapCache(Tree(home), write=True)
    for number in range(cache_module.MAX_FILES + 5):
        kept.put_words(WordIndex.build([Counted(f"{number:040x}", {}, 0)]), {}, [])
    assert len(packs(home)) == cache_module.MAX_FILES
    assert made(project, home).ranked


def test_without_permission_nothing_is_written(project: GitProject, home: Path) -> None:
    first = made(project, home, write=False)
    assert packs(home) == []
    made(project, home)
    before = {pack: pack.read_bytes() for pack in packs(home)}
    project.put("src/part9.py", "class Part9: ...\n")
    project.git("add", "-A")
    assert made(project, home, write=False).ranked
    assert {pack: pack.read_bytes() for pack in packs(home)} == before
    assert first.ranked


@pytest.mark.parametrize("damage", [b"", b"agentos context 1 00000000\n{}", b"\xff" * 5_000])
def test_damage_is_ignored(project: GitProject, home: Path, damage: bytes) -> None:
    first = made(project, home)
    for pack in packs(home):
        pack.write_bytes(damage)
    assert made(project, home, write=False) == first
    for pack in packs(home):
        pack.write_bytes(pack.read_bytes()[:-1] + b"?")
    assert made(project, home) == first


def test_links_and_folders_in_its_place_are_ignored(project: GitProject, home: Path, tmp_path: Path) -> None:
    first = made(project, home)
    target = tmp_path / "elsewhere"
    packs(home)[0].rename(target)
    packs(home)[0].with_name("words-link").symlink_to(target)
    (home / "context" / "words-folder").mkdir()
    assert made(project, home) == first
    for pack in packs(home):
        pack.rmdir() if pack.is_dir() and not pack.is_symlink() else pack.unlink()
    (home / "context").rmdir()
    (home / "context").symlink_to(tmp_path)
    assert made(project, home) == first
    assert not [one for one in tmp_path.iterdir() if one.name.startswith("words")]


def test_a_home_that_cannot_be_written_is_no_problem(project: GitProject, home: Path) -> None:
    (home / "context").write_text("a file")
    assert made(project, home).ranked[0] == "src/part3.py"


def test_two_writers_at_once_leave_whole_packs(home: Path) -> None:
    index = WordIndex.build([Counted(f"{n:040x}", {f"word{n}": 1}, 1) for n in range(2_000)])

    def write(number: int) -> None:
        for round_ in range(10):
            mine = MapCache(Tree(home), write=True)
            mine.put_words(index, {f"{number}-{round_ % 3}": "not text"}, [])
            mine.put_tags({f"python:{number}-{round_}": {"definitions": [], "references": []}})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = MapCache(Tree(home), write=False)
    assert reader.words(frozenset(index.names))
    assert reader.tags()
    assert not [pack for pack in packs(home) if pack.name.startswith(".")]


def test_the_cache_is_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_BYTES", 3_000)
    kept = MapCache(Tree(home), write=True)
    for number in range(20):
        kept.index("messages", f"{number:040x}", partial(WordIndex.build, [Counted("a" * 900, {}, number)]))
        assert sum(pack.stat().st_size for pack in packs(home)) <= 3_000
    empty = WordIndex.build([])
    assert kept.index("messages", f"{19:040x}", lambda: empty).lengths[0] == 19
    assert kept.index("messages", f"{0:040x}", lambda: empty) is empty


def test_packs_made_by_other_rules_are_ignored(
    project: GitProject, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new version may leave out other files, or give another reason."""
    with monkeypatch.context() as older:
        older.setattr(cache_module, "rules_checksum", lambda: 0x0BAD)
        older.setattr(repository_module, "why_not_by_text", lambda _text: "an old reason")
        assert {one.why for one in made(project, home).left_out if one.path.endswith(".py")} == {
            "an old reason"
        }
    old = packs(home)
    found = made(project, home)
    assert {one.path: one.why for one in found.left_out} == {"logo.bin": "not text"}
    assert found.ranked[0] == "src/part3.py"
    new = set(packs(home)) - set(old)
    assert {pack.name.split("-")[0] for pack in new} >= {"words", "tags"}
    assert made(project, home, write=False) == found


def test_a_pack_of_the_first_format_is_ignored(project: GitProject, home: Path) -> None:
    first = made(project, home)
    for pack in packs(home):
        body = pack.read_bytes().partition(b"\n")[2]
        pack.write_bytes(f"agentos context 1 {crc32(body):08x}\n".encode() + body)
    assert MapCache(Tree(home), write=False).tags() == {}
    assert made(project, home) == first
