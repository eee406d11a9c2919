"""Lineage: the numbered trail, and that every step may be repeated after a crash."""

import contextlib
from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.store.lineage import Lineage


def trail(worktree: Path, name: str = "42-lld") -> Lineage:
    return Lineage(worktree=worktree, folder="docs/lineage", name=name)


def tree(worktree: Path) -> dict[str, str]:
    """Every file of the lineage with its content, hidden ones too."""
    root = worktree / "docs" / "lineage"
    return {
        str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()
    }


WHOLE = {
    "done/42-lld/001-issue.md": "the issue",
    "done/42-lld/002-draft.md": "draft",
    "done/42-lld/003-verdict.md": "verdict",
    "done/42-lld/004-final.md": "final",
}


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_trail_is_the_same_however_often_each_step_is_done(tmp_path: Path, times: int) -> None:
    lineage = trail(tmp_path)
    names = {lineage.begin("issue", "the issue") for _ in range(times)}
    assert names == {"42-lld"}
    for _ in range(times):
        lineage.write(2, "draft", "draft")
    for _ in range(times):
        lineage.write(3, "verdict", "verdict")
    done = {lineage.finish("42-lld", 4, "final") for _ in range(times)}
    assert done == {tmp_path / "docs" / "lineage" / "done" / "42-lld"}
    assert tree(tmp_path) == WHOLE
    assert list((tmp_path / "docs" / "lineage" / "active").iterdir()) == []


def test_until_it_is_done_a_trail_is_active(tmp_path: Path) -> None:
    lineage = trail(tmp_path)
    lineage.begin("issue", "the issue")
    lineage.write(2, "draft", "draft")
    assert list(tree(tmp_path)) == ["active/42-lld/001-issue.md", "active/42-lld/002-draft.md"]


def test_a_finish_cut_off_before_the_move_is_completed(tmp_path: Path) -> None:
    lineage = trail(tmp_path)
    lineage.begin("issue", "the issue")
    lineage.write(2, "draft", "draft")
    lineage.write(3, "verdict", "verdict")
    lineage.write(4, "final", "fin")
    lineage.finish("42-lld", 4, "final")
    assert tree(tmp_path) == WHOLE


@pytest.mark.parametrize("left", [[], [".001-issue.md.tmp"]], ids=["empty folder", "half a file"])
def test_a_beginning_cut_off_in_its_midst_is_begun_again_as_if_it_were_the_first(
    tmp_path: Path, left: list[str]
) -> None:
    folder = tmp_path / "docs" / "lineage" / "active" / "42-lld"
    folder.mkdir(parents=True)
    for name in left:
        (folder / name).write_text("the i")
    assert trail(tmp_path).begin("issue", "the issue") == "42-lld"
    assert tree(tmp_path) == {"active/42-lld/001-issue.md": "the issue"}


def test_a_beginning_with_another_text_takes_the_new_one(tmp_path: Path) -> None:
    trail(tmp_path).begin("issue", "old")
    assert trail(tmp_path).begin("issue", "new") == "42-lld"
    assert tree(tmp_path) == {"active/42-lld/001-issue.md": "new"}


def test_an_earlier_trail_that_was_given_up_is_kept_apart(tmp_path: Path) -> None:
    first = trail(tmp_path)
    first.begin("issue", "old")
    first.write(2, "draft", "old draft")
    assert trail(tmp_path).begin("issue", "new") == "42-lld-2"
    assert tree(tmp_path) == {
        "active/42-lld/001-issue.md": "new",
        "done/42-lld/001-issue.md": "old",
        "done/42-lld/002-draft.md": "old draft",
    }


def test_a_beginning_cut_off_after_the_earlier_trail_was_moved_gives_the_same(tmp_path: Path) -> None:
    earlier = tmp_path / "docs" / "lineage" / "done" / "42-lld"
    earlier.mkdir(parents=True)
    (earlier / "001-issue.md").write_text("old")
    assert [trail(tmp_path).begin("issue", "new") for _ in range(2)] == ["42-lld-2"] * 2


def test_each_run_of_an_item_has_a_folder_of_its_own(tmp_path: Path) -> None:
    names = []
    for number in range(1, 4):
        name = trail(tmp_path).begin("issue", f"text {number}")
        trail(tmp_path).finish(name, 2, f"final {number}")
        names.append(name)
    assert names == ["42-lld", "42-lld-2", "42-lld-3"]
    finals = [text for path, text in tree(tmp_path).items() if path.endswith("002-final.md")]
    assert finals == ["final 1", "final 2", "final 3"]


def test_the_trails_of_two_items_do_not_meet(tmp_path: Path) -> None:
    first, second = trail(tmp_path), trail(tmp_path, "43-lld")
    first.begin("issue", "a")
    second.begin("issue", "b")
    first.finish("42-lld", 2, "final a")
    assert list(tree(tmp_path)) == [
        "active/43-lld/001-issue.md",
        "done/42-lld/001-issue.md",
        "done/42-lld/002-final.md",
    ]


@pytest.mark.parametrize("place", ["docs", "docs/lineage", "docs/lineage/active"])
def test_a_folder_that_is_a_link_out_of_the_worktree_is_refused(tmp_path: Path, place: str) -> None:
    worktree, outside = tmp_path / "repo", tmp_path / "outside"
    outside.mkdir()
    (worktree / place).parent.mkdir(parents=True)
    (worktree / place).symlink_to(outside)
    with pytest.raises(UsageError, match="leads outside"):
        trail(worktree).begin("issue", "the issue")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("there", [[], ["001-issue.md"], ["001-issue.md", "002-draft.md"]])
def test_a_trail_that_is_a_link_out_of_the_worktree_is_not_written_through(
    tmp_path: Path, there: list[str]
) -> None:
    worktree, outside = tmp_path / "repo", tmp_path / "outside"
    outside.mkdir()
    for name in there:
        (outside / name).write_text("not ours")
    active = worktree / "docs" / "lineage" / "active"
    active.mkdir(parents=True)
    (active / "42-lld").symlink_to(outside)
    with contextlib.suppress(UsageError):
        trail(worktree).begin("issue", "the issue")
    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(there, "not ours")
