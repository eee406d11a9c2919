"""Input that cannot be used: a clear line and the right exit code, nothing written, never a traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.project import Project


def refused(project: Project, *arguments: str, told: str, command: str = "lld") -> None:
    """The command is refused in one line before any work."""
    before = project.snapshot()
    result = project.run(command, *arguments, "--mock")
    assert result.code == 2, (arguments, result.text)
    assert result.out == ""
    assert told in result.err, result.err
    assert len(result.err.splitlines()) == 1, result.err
    assert project.snapshot() == before, arguments


def test_no_project_here(make_project: Callable[[str], Project]) -> None:
    project = make_project("empty")
    refused(project, "--all", told="agentos init")
    refused(project, "idea", told="agentos init", command="issue")
    for command in ("status", "config", "clean"):
        assert project.run(command).code == 2
    assert project.files() == set()


def test_a_project_is_found_from_a_folder_below_and_a_git_file_is_enough(
    make_project: Callable[[str], Project],
) -> None:
    project = make_project("worktree")
    project.write(".git", "gitdir: /nowhere\n")  # as a linked worktree has it
    project.issue(1)
    below = project.write("src/deep/file", "").parent
    planned = project.lld("--all", "--dry-run", "--json", cwd=below).json
    assert [one["id"] for one in planned["items"]] == ["1"]


@pytest.mark.parametrize(
    "wrong",
    [
        "../x",
        "..",
        ".",
        "a/b",
        "a b",
        "CON",
        "com1",
        "x" * 65,
        "\u00e9",
        "42\n",
        "4;2",
        "",
        "*",
        "~",
        "$HOME",
    ],
)
def test_an_id_that_is_no_id_is_refused_by_name(project: Project, wrong: str) -> None:
    project.issue(1)
    result = project.lld("1", wrong)
    assert result.code == 2, result.text
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert "Traceback" not in result.text
    assert not project.home.exists()


def test_ids_that_look_like_flags_or_differ_in_case(project: Project) -> None:
    project.issue("abc")
    refused(project, "--", "-x", told="-x")
    dash = project.lld("-x")
    assert dash.code == 2
    assert "-x" in dash.err
    refused(project, "abc", "ABC", told="case")
    refused(project, "xyz", told="xyz")  # unknown
    refused(project, "../../etc/passwd.md", told="passwd")
    refused(project, "#abc", told="#abc")
    longest = "y" * 64
    project.issue(longest)
    assert project.lld(longest, "--dry-run").code == 0


BAD = {
    "my issue.md": "my-issue.md",
    "gr\u00f6\u00dfe.md": "groesse.md",
    "con.md": "con-2.md",
    "7-x.md": "8-x.md",
    "7.md": "9.md",
    "ABC.md": "ABC-2.md",
    "abc.md": "abc-3.md",
}


def test_files_that_cannot_be_used_are_refused_together_and_the_others_run(project: Project) -> None:
    project.issue(1)
    project.issue("good")
    for name in BAD:
        project.write(f"issues/active/{name}", f"# {name}\n\nText.\n")
    planned = project.lld("--all", "--dry-run", "--json")
    assert planned.code == 0
    actions = [one["action"] for one in planned.json["items"]]
    assert actions == ["start"] * 2 + ["refuse"] * len(BAD)
    result = project.lld("--all", "-j2")
    assert result.code == 1, result.text
    rows = project.summary()["items"]
    assert [row["status"] for row in rows] == ["approved"] * 2 + ["failed"] * len(BAD)
    assert len({row["id"] for row in rows}) == len(rows)
    told = {row["error"].partition(": rename it to ")[0]: row["error"] for row in rows[2:]}
    for name, better in BAD.items():
        assert f": rename it to {better}. " in told[f"issues/active/{name}"]
    numbers = [at for at, line in enumerate(result.lines) if ": rename it to " in line]
    assert numbers == list(range(numbers[0], numbers[0] + len(BAD)))  # told together
    assert "--retry-failed" not in result.out  # which would not help
    again = project.lld("--all")
    assert again.code == 1
    assert project.statuses()["good"] == "skipped"


def test_what_is_named_runs_whatever_lies_beside_it(project: Project) -> None:
    for name in BAD:
        project.write(f"issues/active/{name}", f"# {name}\n\nText.\n")
    project.issue(42)
    assert project.lld("42").code == 0
    assert project.statuses() == {"42": "approved"}
    refused(project, "7", told="issues/active/7.md")
    refused(project, "7", told="issues/active/7-x.md")
    refused(project, "issues/active/my issue.md", told="rename it to my-issue.md")
    refused(project, "abc", "ABC", told="case")
    by_path = project.lld("issues/active/7-x.md")
    assert by_path.code == 0, by_path.text
    assert "# 7-x.md" in project.read("docs/lineage/done/7-lld/001-issue.md")


@pytest.mark.parametrize("name", ["42", "#42", "LLD-42", "42-some-title", "issues/active/42-some-title.md"])
def test_every_name_of_an_item_is_taken_everywhere(project: Project, name: str) -> None:
    project.issue("42-some-title", mock="verdicts=DISCUSS,APPROVED")
    below = project.write("src/deep/file", "").parent
    assert project.lld(name, cwd=below).code == 3
    assert "discuss" in project.run("logs", name).out
    decided = project.run("decide", name, "--revise")
    assert decided.code == 0, decided.text
    assert "LLD-42: sent back for revision" in decided.out
    absolute = project.root / "issues/active/42-some-title.md"
    assert project.lld(absolute, cwd=below).code == 0
    assert project.statuses() == {"42": "approved"}


def test_front_matter_names_the_item_and_its_labels_choose_it(project: Project) -> None:
    project.write("issues/active/1.md", "---\ntitle: Add login\nlabels: [design, ui]\n---\n\nText.\n")
    project.write("issues/active/2.md", "---\nlabels: design\n---\n# Other\n")
    project.issue(3)

    def planned(*flags: str, **env: str) -> list[tuple[str, str]]:
        result = project.lld("--dry-run", "--json", *flags, env=env)
        assert result.code == 0, result.text
        return [(one["id"], one["title"]) for one in result.json["items"]]

    assert planned("--label", "design") == [("1", "Add login"), ("2", "Other")]
    assert planned("--label", "design", "--label", "ui") == [("1", "Add login")]
    assert planned(AGENTOS_LABEL="design,ui") == [("1", "Add login")]
    refused(project, "--all", "--label", "desing", told="Available: design")


def test_a_file_that_is_not_there_is_not_taken_for_one_that_is(project: Project) -> None:
    project.brief("idea")
    assert project.run("issue", "ideas/active/idea.md", "--mock", "--dry-run").code == 0
    result = project.run("issue", "/no/such/folder/idea.md", "--mock", "--dry-run")
    assert result.code == 2, result.text


def test_items_that_cannot_be_read_fail_and_the_others_go_on(project: Project) -> None:
    project.brief("empty")
    project.write("ideas/active/empty.md", "")
    project.write("ideas/active/blank.md", " \n\n<!-- mock: latency=0 -->\n")
    project.write("ideas/active/binary.md", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    project.write("ideas/active/latin.md", "# Caf\u00e9\n\nSchlie\u00dfen.\n".encode("latin-1"))
    project.write("ideas/active/huge.md", "# Huge\n\n" + "All work and no play.\n" * 250_000)
    (project.root / "ideas/active/folder.md").mkdir()
    project.brief("good")
    project.write("ideas/active/bom.md", "\ufeff# With a mark\r\n\r\nAnd carriage returns.\r\n".encode())
    result = project.run("issue", "--all", "--mock", "--json")
    assert result.code == 1, result.text
    rows = {row["id"]: row for row in result.json["items"]}
    assert {item for item, row in rows.items() if row["status"] == "approved"} == {"good", "bom"}
    told = {"empty": "empty", "blank": "empty", "binary": "binary", "latin": "UTF-8", "huge": "larger"}
    for item, word in told.items():
        assert rows[item]["status"] == "failed"
        assert word in rows[item]["error"], rows[item]["error"]
        assert f"ideas/active/{item}.md" in rows[item]["error"]
        assert rows[item]["attempts"] == 0
    assert rows["folder"]["status"] == "failed"
    assert len(result.text) < 50_000
    assert project.read("issues/active/bom.md").startswith("# With a mark")


def test_a_5_mb_issue_alone(project: Project) -> None:
    project.write("issues/active/1.md", "# Huge\n\n" + "x" * 5_000_000)
    result = project.lld("1")
    assert result.code == 1, result.text[:1000]
    assert len(result.text) < 5_000
    assert project.statuses() == {"1": "failed"}


def test_templates_of_the_repo(project: Project) -> None:
    project.issue(1)
    project.write("agentos.toml", 'lld_template = "docs/template.md"\n')
    refused(project, "1", told="docs/template.md")  # not there
    template = project.write("docs/template.md", "# LLD\n\n**Issue:** #TBD\n\n## Context\n\nWhy.\n")
    refused(project, "1", told="Proposed Changes")
    template.write_bytes(b"\xff\xfe\0")
    refused(project, "1", told="UTF-8")
    template.write_text("# LLD\n\n**Issue:** #TBD\n\n## Context\n\nWhy.\n\n## Proposed Changes\n\nWhat.\n")
    assert project.lld("1", "--dry-run").code == 0
    template.unlink()
    template.symlink_to("/etc/passwd")
    refused(project, "1", told="it is a symbolic link, and links are not followed")


def test_records_and_checkpoints_that_are_damaged(project: Project) -> None:
    project.issue(1, mock="verdicts=DISCUSS")
    assert project.lld("1").code == 3
    assert project.run("decide", "1", "--revise").code == 0
    checkpoint = project.home / "checkpoints" / "lld_workflow_1.mock.db"
    checkpoint.write_bytes(b"this is no database" * 100)
    result = project.lld("1")
    assert result.code == 1, result.text
    assert "--fresh" in project.row("1")["error"]
    assert project.lld("1", "--fresh").code == 3
    (project.home / "records.db").write_bytes(b"this is no database" * 100)
    for arguments in (["lld", "1", "--mock"], ["lld", "1", "--mock", "--dry-run"], ["status"]):
        broken = project.run(*arguments)
        assert broken.code == 1, (arguments, broken.text)
        assert "records.db" in broken.err
        assert "This is a bug" not in broken.err


def test_a_folder_that_cannot_be_written(project: Project, tmp_path: Path) -> None:
    project.issue(1)
    project.write("docs", "a file where a folder is needed\n")
    result = project.lld("1")
    assert result.code == 1, result.text
    assert "docs" in project.row("1")["error"]
    assert "unexpected" not in project.row("1")["error"]
    project.home = tmp_path / "file"
    project.home.write_text("not a folder")
    other = project.run("--home", project.home, "lld", "1", "--mock")
    assert other.code in {1, 2}
    assert str(project.home) in other.err
    assert "This is a bug" not in other.err
