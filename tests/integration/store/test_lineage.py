"""Lineage: the numbered trail, and that every step may be repeated after a crash."""

import hashlib
import re
from pathlib import Path

import pytest

from agentos.errors import StorageError
from agentos.stamp import Stamp
from agentos.store.lineage import Lineage, receipts
from agentos.store.rooted_tree import PathRefused


def trail(worktree: Path, name: str = "42-lld") -> Lineage:
    return Lineage(worktree=worktree, folder="docs/lineage", name=name)


def tree(worktree: Path) -> dict[str, str]:
    """Every file of the lineage with its content, hidden ones too."""
    root = worktree / "docs" / "lineage"
    return {
        str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()
    }


DONE = "42-lld-d56195"  # of run-1; anybody who knows the run can tell it
WHOLE = {
    f"done/{DONE}/001-issue.md": "the issue",
    f"done/{DONE}/002-draft.md": "draft",
    f"done/{DONE}/003-verdict.md": "verdict",
    f"done/{DONE}/004-final.md": "final",
}


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_trail_is_the_same_however_often_each_step_is_done(tmp_path: Path, times: int) -> None:
    lineage = trail(tmp_path)
    names = {lineage.begin("issue", "the issue", "run-1") for _ in range(times)}
    assert names == {DONE}
    for _ in range(times):
        lineage.write(2, "draft", "draft")
    for _ in range(times):
        lineage.write(3, "verdict", "verdict")
    done = {lineage.finish(DONE, 4, "final") for _ in range(times)}
    assert done == {Path("docs", "lineage", "done", DONE)}
    assert tree(tmp_path) == WHOLE
    assert list((tmp_path / "docs" / "lineage" / "active").iterdir()) == []


def test_until_it_is_done_a_trail_is_active(tmp_path: Path) -> None:
    lineage = trail(tmp_path)
    lineage.begin("issue", "the issue", "run-1")
    lineage.write(2, "draft", "draft")
    assert list(tree(tmp_path)) == ["active/42-lld/001-issue.md", "active/42-lld/002-draft.md"]


def test_a_finish_cut_off_before_the_move_is_completed(tmp_path: Path) -> None:
    lineage = trail(tmp_path)
    lineage.begin("issue", "the issue", "run-1")
    lineage.write(2, "draft", "draft")
    lineage.write(3, "verdict", "verdict")
    lineage.write(4, "final", "fin")
    lineage.finish(DONE, 4, "final")
    assert tree(tmp_path) == WHOLE


@pytest.mark.parametrize("left", [[], [".001-issue.md.tmp"]], ids=["empty folder", "half a file"])
def test_a_beginning_cut_off_in_its_midst_is_begun_again_as_if_it_were_the_first(
    tmp_path: Path, left: list[str]
) -> None:
    folder = tmp_path / "docs" / "lineage" / "active" / "42-lld"
    folder.mkdir(parents=True)
    for name in left:
        (folder / name).write_text("the i")
    assert trail(tmp_path).begin("issue", "the issue", "run-1") == DONE
    assert tree(tmp_path) == {"active/42-lld/001-issue.md": "the issue"}


def test_a_beginning_with_another_text_takes_the_new_one(tmp_path: Path) -> None:
    trail(tmp_path).begin("issue", "old", "run-1")
    assert trail(tmp_path).begin("issue", "new", "run-1") == DONE
    assert tree(tmp_path) == {"active/42-lld/001-issue.md": "new"}


def test_an_earlier_trail_that_was_given_up_is_kept_apart(tmp_path: Path) -> None:
    first = trail(tmp_path)
    first.begin("issue", "old", "run-1")
    first.write(2, "draft", "old draft")
    name = trail(tmp_path).begin("issue", "new", "run-2")
    kept = sorted(set(tree(tmp_path)) - {"active/42-lld/001-issue.md"})
    folder = kept[0].rpartition("/")[0]
    assert re.fullmatch("done/42-lld-[0-9a-f]{6}", folder)
    assert folder != f"done/{name}"
    assert tree(tmp_path) == {
        "active/42-lld/001-issue.md": "new",
        f"{folder}/001-issue.md": "old",
        f"{folder}/002-draft.md": "old draft",
    }


def test_a_beginning_cut_off_after_the_earlier_trail_was_moved_gives_the_same(tmp_path: Path) -> None:
    first = trail(tmp_path)
    first.begin("issue", "old", "run-1")
    first.write(2, "draft", "old draft")
    names = {trail(tmp_path).begin("issue", "new", "run-2")}
    (tmp_path / "docs/lineage/active/42-lld/001-issue.md").unlink()
    names |= {trail(tmp_path).begin("issue", "new", "run-2") for _ in range(2)}
    assert len(names) == 1
    assert len(list((tmp_path / "docs/lineage/done").iterdir())) == 1


def test_each_run_of_an_item_has_a_folder_of_its_own(tmp_path: Path) -> None:
    names = set()
    for number in range(1, 4):
        name = trail(tmp_path).begin("issue", f"text {number}", f"run-{number}")
        trail(tmp_path).finish(name, 2, f"final {number}")
        names.add(name)
    assert len(names) == 3
    assert all(re.fullmatch("42-lld-[0-9a-f]{6}", name) for name in names)
    finals = {text for path, text in tree(tmp_path).items() if path.endswith("002-final.md")}
    assert finals == {"final 1", "final 2", "final 3"}


def test_a_name_that_is_taken_is_given_to_no_other_trail(tmp_path: Path) -> None:
    (tmp_path / "docs/lineage/done" / DONE).mkdir(parents=True)
    name = trail(tmp_path).begin("issue", "text", "run-1")
    assert name != DONE
    assert name.startswith(DONE)


def test_two_branches_of_a_repository_never_use_the_same_folder(tmp_path: Path) -> None:
    names = set()
    for side in ("ours", "theirs"):
        (tmp_path / side).mkdir()
        names.add(trail(tmp_path / side).begin("issue", "text", f"run-{side}"))
    assert len(names) == 2


def test_the_trails_of_two_items_do_not_meet(tmp_path: Path) -> None:
    first, second = trail(tmp_path), trail(tmp_path, "43-lld")
    name = first.begin("issue", "a", "run-1")
    second.begin("issue", "b", "run-1")
    first.finish(name, 2, "final a")
    assert list(tree(tmp_path)) == [
        "active/43-lld/001-issue.md",
        f"done/{name}/001-issue.md",
        f"done/{name}/002-final.md",
    ]


# What is kept, taken and found again.


def test_a_document_is_kept_once(tmp_path: Path) -> None:
    lineage = trail(tmp_path)
    lineage.begin("issue", "the issue", "run-1")
    assert [lineage.keep("edited", "mine") for _ in range(3)] == ["002-edited.md"] * 3
    assert lineage.keep("edited", "mine, too") == "003-edited.md"
    assert lineage.next_number() == 4


def test_the_final_document_comes_after_all_that_is_there_and_only_once(tmp_path: Path) -> None:
    lineage = trail(tmp_path)
    name = lineage.begin("issue", "the issue", "run-1")
    lineage.keep("edited", "mine")
    lineage.write(3, "final", "cut off here")
    done = tmp_path / lineage.finish(name, 2, "final")
    assert sorted(path.name for path in done.iterdir()) == ["001-issue.md", "002-edited.md", "003-final.md"]
    assert (done / "003-final.md").read_text() == "final"


def test_the_approved_documents_are_those_of_this_item_in_all_its_trails(tmp_path: Path) -> None:
    done = tmp_path / "docs/lineage/done"
    mine = ["42-lld", "42-lld-2", "42-lld-abc123"]
    others = ["142-lld", "42-lld-x", "42-lld-abc123-lld", "42-issue", "42-lld.mock-abc123"]
    for name in (*mine, *others):
        (done / name).mkdir(parents=True)
        (done / name / "004-final.md").write_text(name)
    (done / "42-lld" / "003-draft.md").write_text("a draft")
    (done / "42-lld-abc").symlink_to(done / "142-lld")
    assert sorted(trail(tmp_path).finals()) == sorted(mine)


def test_a_text_is_found_again_by_its_hash(tmp_path: Path) -> None:
    lineage = trail(tmp_path)
    lineage.finish(lineage.begin("issue", "old", "run-1"), 2, "final")
    lineage.begin("issue", "new", "run-2")
    assert lineage.source_with(hashlib.sha256(b"old").hexdigest()) == "old"
    assert lineage.source_with(hashlib.sha256(b"new").hexdigest()) == "new"
    assert lineage.source_with(hashlib.sha256(b"final").hexdigest()) is None


# Receipts.


RECEIPT = Stamp(item="ISSUE-a", input=hashlib.sha256(b"brief").hexdigest(), filed="acme/widgets#7")


def test_a_receipt_lies_in_the_trail_of_its_text_and_is_written_once(tmp_path: Path) -> None:
    lineage = trail(tmp_path, "a-issue")
    name = lineage.begin("brief", "brief", "run-1")
    lineage.finish(name, 2, "final")
    later = lineage.begin("brief", "another brief", "run-2")
    lineage.finish(later, 2, "final")
    for run in ("run-1", "run-3"):
        lineage.write_receipt(RECEIPT, "Filed as https://x/7", run)
    written = [path for path in tree(tmp_path) if path.endswith("-filed.md")]
    assert written == [f"done/{name}/003-filed.md"]
    assert receipts(tmp_path, "docs/lineage", "issue") == {"ISSUE-a": [RECEIPT]}
    assert receipts(tmp_path, "docs/lineage", "lld") == {}


def test_a_receipt_is_written_where_no_trail_is(tmp_path: Path) -> None:
    trail(tmp_path, "a-issue").write_receipt(RECEIPT, "Filed", "run-1")
    assert receipts(tmp_path, "docs/lineage", "issue") == {"ISSUE-a": [RECEIPT]}


def test_without_a_lineage_there_are_no_receipts(tmp_path: Path) -> None:
    assert receipts(tmp_path, "docs/lineage", "issue") == {}


@pytest.mark.parametrize("text", ["no stamp", str(Stamp(item="ISSUE-a", input="0")), "\udcff"])
def test_what_is_no_receipt_is_not_read_as_one(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "docs/lineage/done/a-issue-abc123"
    folder.mkdir(parents=True)
    (folder / "003-filed.md").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert receipts(tmp_path, "docs/lineage", "issue") == {}


# Links.


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("place", ["docs", "docs/lineage", "docs/lineage/active"])
def test_a_folder_that_is_a_link_is_refused(tmp_path: Path, place: str, inside: bool) -> None:
    worktree = tmp_path / "repo"
    outside = worktree / "elsewhere" if inside else tmp_path / "outside"
    outside.mkdir(parents=True)
    (worktree / place).parent.mkdir(parents=True, exist_ok=True)
    (worktree / place).symlink_to(outside)
    with pytest.raises(StorageError, match=f"{Path(place).name} is a symbolic link, and links are not"):
        trail(worktree).begin("issue", "the issue", "run-1")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("place", ["outside", "repo/elsewhere", "repo/.git"])
@pytest.mark.parametrize("there", [[], ["001-issue.md"], ["001-issue.md", "002-draft.md"]])
def test_a_trail_that_is_a_link_is_neither_written_through_nor_moved(
    tmp_path: Path, there: list[str], place: str
) -> None:
    worktree, outside = tmp_path / "repo", tmp_path / place
    outside.mkdir(parents=True)
    for name in there:
        (outside / name).write_text("not ours")
    active = worktree / "docs" / "lineage" / "active"
    active.mkdir(parents=True)
    (active / "42-lld").symlink_to(outside)
    with pytest.raises(PathRefused, match="it is a symbolic link, and links are not followed"):
        trail(worktree).begin("issue", "the issue", "run-1")
    assert (active / "42-lld").is_symlink()
    assert not (worktree / "docs/lineage/done").exists()
    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(there, "not ours")
