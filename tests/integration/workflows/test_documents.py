"""Documents: what is saved and what is left alone, review log, marker, templates; and the registry."""

from pathlib import Path
from typing import Any

import pytest

from agentos.errors import ConfigError, ItemFailed, UsageError
from agentos.model import Item
from agentos.settings import Settings
from agentos.workflows.documents import MAX_TEMPLATE_BYTES, load_template, save, with_log
from agentos.workflows.gates import Kind
from agentos.workflows.issue import WORKFLOW as ISSUE
from agentos.workflows.lld import WORKFLOW as LLD
from agentos.workflows.prompts import shipped_template
from agentos.workflows.registry import ItemContext
from agentos.workflows.reviewed import ReviewedWorkflow

ITEM = Item(workflow="lld", id="42", label="LLD-42", title="T", text="text", source="42.md")
TARGET = Path("docs/lld/active/LLD-42.md")
MARKER = f"<!-- agentos: item=LLD-42 input=sha256:{ITEM.input_hash} -->"


def context(worktree: Path = Path("/nowhere")) -> ItemContext:
    return ItemContext(item=ITEM, worktree=worktree, run_id="run-1")


def entry(**more: Any) -> dict[str, Any]:
    told = {"review": 1, "draft": 1, "verdict": "REVISE", "model": "m-1", "findings": ["Tier 1 Cost: dear"]}
    return told | more


def test_a_document_is_saved_where_it_belongs_and_again(tmp_path: Path) -> None:
    for text in ("one", "two"):
        document = with_log(context(tmp_path), text, [entry()], [])
        assert save(context(tmp_path), TARGET, document) == str(TARGET)
        assert (tmp_path / TARGET).read_text() == document


@pytest.mark.parametrize("kind", ["file of a person", "link", "dangling link", "binary", "folder"])
def test_what_is_there_and_not_ours_is_left_alone_and_the_item_fails(tmp_path: Path, kind: str) -> None:
    target = tmp_path / TARGET
    target.parent.mkdir(parents=True)
    other = tmp_path / "other.md"
    other.write_text(f"mine\n{MARKER}\n")
    if kind == "folder":
        target.mkdir()
    elif "link" in kind:
        target.symlink_to(other if kind == "link" else tmp_path / "gone.md")
    else:
        target.write_bytes(b"mine" if "file" in kind else b"\xff\0")
    with pytest.raises(ItemFailed, match=r"LLD-42\.md .*move it away"):
        save(context(tmp_path), TARGET, f"ours\n{MARKER}\n")
    assert other.read_text().startswith("mine")
    assert target.is_dir() or target.is_symlink() or b"ours" not in target.read_bytes()


def test_a_document_is_never_saved_outside_the_worktree(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "docs").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="leads outside"):
        save(context(tmp_path / "repo"), TARGET, "text")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("kind", ["issue", "lld"])
def test_without_one_of_its_own_a_repo_gets_ours(tmp_path: Path, kind: Kind) -> None:
    assert load_template(tmp_path, kind, None) == shipped_template(kind)


def test_a_repo_may_have_a_template_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "t.md").write_bytes(
        b"\xef\xbb\xbf" + shipped_template("lld").encode() + b"\n## Extra\n"
    )
    assert load_template(tmp_path, "lld", "docs/t.md") == shipped_template("lld") + "\n## Extra\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read"),
        (b"# Nothing", "lacks the section"),
        (b"\xff", "not UTF-8"),
        (b"x" * (MAX_TEMPLATE_BYTES + 1), "larger than"),
    ],
    ids=["missing", "incomplete", "binary", "too large"],
)
def test_a_template_that_cannot_be_used_is_an_error_that_names_it(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "t.md").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"lld_template 't\.md'.*{told}"):
        load_template(tmp_path, "lld", "t.md")


def test_a_template_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.md").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_template(tmp_path, "lld", "t.md")


@pytest.mark.parametrize("way", ["../t.md", "link.md", "folder/t.md"])
def test_a_template_outside_the_worktree_is_refused(tmp_path: Path, way: str) -> None:
    (tmp_path / "t.md").write_text(shipped_template("lld"))
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "link.md").symlink_to(tmp_path / "t.md")
    (repo / "folder").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="outside"):
        load_template(repo, "lld", way)


@pytest.mark.parametrize("found", [LLD, ISSUE], ids=["lld", "issue"])
def test_a_workflow_prepares_the_template_its_settings_name(tmp_path: Path, found: ReviewedWorkflow) -> None:
    assert found.prepare(tmp_path, Settings()) == {found.name: shipped_template(found.name)}
    with pytest.raises(ConfigError, match=f"{found.name}_template"):
        found.prepare(tmp_path, Settings(lld_template="gone.md", issue_template="gone.md"))


def test_the_result_of_an_issue_lies_where_the_lld_workflow_looks(tmp_path: Path) -> None:
    brief = Item(workflow="issue", id="dark-mode", label="ISSUE-dark-mode", title="T", text="x", source="s")
    told = ItemContext(item=brief, worktree=tmp_path, run_id="r", folders={"issues": "issues/active"})
    assert ISSUE.output(told) == Path("issues/active/dark-mode.md")
