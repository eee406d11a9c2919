"""Templates, and where documents go; what is in their place is the store's."""

import re
from pathlib import Path

import pytest

from agentos.errors import ConfigError
from agentos.model import Item
from agentos.settings import Settings
from agentos.workflows.document_workflow import ReviewedWorkflow
from agentos.workflows.documents import MAX_TEMPLATE_BYTES, load_template
from agentos.workflows.gates import Kind
from agentos.workflows.issue import WORKFLOW as ISSUE
from agentos.workflows.lld import WORKFLOW as LLD
from agentos.workflows.prompts import shipped_template


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
        (b"# Nothing", "is missing the section"),
        (b"\xff", "not UTF-8"),
        (b"x" * (MAX_TEMPLATE_BYTES + 1), "larger than"),
        (f"{shipped_template('lld')}\nghp_{'a1B2' * 9}\n".encode(), "looks like a GitHub token"),
    ],
    ids=["missing", "incomplete", "binary", "too large", "secret"],
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


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("../t.md", "leads outside"),
        ("link.md", "it is a symbolic link"),
        ("inner.md", "it is a symbolic link"),
        ("folder/t.md", "folder is a symbolic link"),
        (".git/t.md", "nothing in .git is read"),
        (".agentos/t.md", "nothing in .agentos is read"),
    ],
)
def test_a_template_outside_the_worktree_or_behind_a_link_is_refused(
    tmp_path: Path, way: str, told: str
) -> None:
    (tmp_path / "t.md").write_text(shipped_template("lld"))
    repo = tmp_path / "repo"
    repo.mkdir()
    for name in ("own.md", ".git/t.md", ".agentos/t.md"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(shipped_template("lld"))
    (repo / "inner.md").symlink_to("own.md")
    (repo / "link.md").symlink_to(tmp_path / "t.md")
    (repo / "folder").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match=rf"lld_template '{re.escape(way)}' cannot be read: .*{told}"):
        load_template(repo, "lld", way)


@pytest.mark.parametrize("found", [LLD, ISSUE], ids=["lld", "issue"])
def test_a_workflow_prepares_the_template_its_settings_name(tmp_path: Path, found: ReviewedWorkflow) -> None:
    assert found.prepare(tmp_path, Settings()) == {found.name: shipped_template(found.name)}
    with pytest.raises(ConfigError, match=f"{found.name}_template"):
        found.prepare(tmp_path, Settings(lld_template="gone.md", issue_template="gone.md"))


def test_the_result_of_an_issue_lies_where_the_lld_workflow_looks() -> None:
    brief = Item(workflow="issue", id="dark-mode", label="ISSUE-dark-mode", title="T", text="x", source="s")
    assert ISSUE.target(brief, {"issues": "issues/active"}) == Path("issues/active/dark-mode.md")
