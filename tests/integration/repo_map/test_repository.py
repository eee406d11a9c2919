"""The map of a real repository: which files are in it, whose text, and what is left out and why."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentos.repo_map import git_state, texts
from agentos.repo_map.file_kinds import MapOptions
from agentos.repo_map.parts import PartKind, RepositoryMap, ranges_of
from harness.git_project import GitProject, item

PRIVATE_KEY = "-----BEGIN RSA PRIVATE " + "KEY-----"
PARSER = '''"""Reads option lines."""


class OptionParser:
    """Turns arguments into options."""

    def parse(self, arguments: list[str]) -> dict[str, str]:
        return {}
'''


@pytest.fixture
def project(tmp_path: Path) -> GitProject:
    made = GitProject(tmp_path / "shop")
    made.put("README.md", "# Shop\n\nSells options, and whatever people need to make use of them.\n")
    made.put("src/parser.py", PARSER)
    made.put("src/basket.py", "class Basket:\n    def add(self, article): ...\n")
    made.put("tests/test_parser.py", "def test_parse(): ...\n")
    made.commit("Start")
    return made


def map_of(
    project: GitProject,
    title: str = "Parse options",
    text: str = "",
    *,
    tokens: int = 4_000,
    named: Sequence[str] = (),
) -> RepositoryMap:
    return project.open().map_for(item(title, text), tokens=tokens, named=named)


def reasons(found: RepositoryMap) -> dict[str, str]:
    return {one.path: one.why for one in found.left_out}


def everything(found: RepositoryMap) -> str:
    return "\n".join(part.text for part in found.parts)


def bodies(found: RepositoryMap) -> list[str]:
    """The definitions that are shown whole."""
    return [name for part in found.parts if part.kind is PartKind.BODY for name in part.name.split(", ")]


def assert_nothing_twice(found: RepositoryMap) -> None:
    lines = Counter(
        (path, line) for path, first, last in ranges_of(found.parts) for line in range(first, last + 1)
    )
    assert [place for place, times in lines.items() if times > 1] == []


def long_class(name: str, methods: Sequence[str], lines: int = 12) -> str:
    """A class with some lines in each method."""
    return f'class {name}:\n    """Keeps rows."""\n' + "".join(
        f"\n    def {method}(self, row: int) -> int:\n"
        + "".join(f"        {method}_value_{number} = row * {number}\n" for number in range(lines))
        for method in methods
    )


def test_a_map_has_the_tree_the_guides_the_tests_and_the_best_files(project: GitProject) -> None:
    found = map_of(project)
    assert [(part.kind, part.path) for part in found.shared] == [
        (PartKind.TREE, "."),
        (PartKind.GUIDE, "README.md"),
        (PartKind.GUIDE, "."),
    ]
    assert "parser.py" in found.shared[0].text
    assert "Sells options," in found.shared[1].text
    assert "tests/: 1 file, such as test_parser.py" in found.shared[2].text
    assert found.ranked[0] == "src/parser.py"
    first = found.own[0]
    assert (first.kind, first.place, first.text) == (PartKind.FILE, "src/parser.py:1-8", PARSER.rstrip())
    assert first.why == "text: parse, options"


def test_a_map_has_the_best_definitions_whole_and_all_names_around_them(project: GitProject) -> None:
    methods = ["insert", "_compact_rows", "delete", "_flush", "close", "_check", "query", "count"]
    project.put("src/store.py", long_class("Store", methods, 60))
    project.commit()
    found = map_of(project, "Compact the rows of a store", tokens=1_000)
    body, listed = (part for part in found.own if part.path == "src/store.py" and "Store._" in part.name)
    assert body.kind is PartKind.BODY
    assert body.text.startswith("[lines 66-126: Store._compact_rows]\n    def _compact_rows(self, row: int)")
    assert body.text.endswith("_compact_rows_value_59 = row * 59\n")
    assert listed.kind is PartKind.SIGNATURE
    for method in set(methods) - {"_compact_rows"}:
        assert f"    def {method}(self, row: int) -> int  [" in listed.text
    assert "_compact_rows" not in listed.text
    assert "_value_" not in listed.text
    more = map_of(project, "Compact the rows of a store", tokens=3_000)
    assert set(bodies(found)) < set(bodies(more))
    assert found.tokens <= 1_000 < more.tokens <= 3_000


def test_a_definition_that_is_shown_whole_is_not_listed_beside(project: GitProject) -> None:
    for name in ("store", "table", "row"):
        project.put(
            f"src/{name}.py", long_class(name.title(), [f"keep_{n}" for n in range(9)], 3 + len(name))
        )
    project.commit()
    repository = project.open()
    for tokens in range(1_000, 5_000, 200):
        found = repository.map_for(item("Keep rows in the store", "The table, too."), tokens=tokens)
        assert_nothing_twice(found)
        whole = set(bodies(found))
        listed = [part.name.split(", ") for part in found.parts if part.kind is PartKind.SIGNATURE]
        assert whole.isdisjoint(name for names in listed for name in names)


def test_items_of_a_run_begin_with_the_same_code_and_repeat_none_of_it(project: GitProject) -> None:
    topics = ["store", "basket", "order", "ledger", "parcel", "refund"]
    for topic in topics:
        methods = [f"{topic}_{what}" for what in ("open", "close", "count", "merge", "sort", "split")]
        project.put(f"src/{topic}.py", long_class(topic.title(), methods, 40))
    project.commit()
    items = [
        replace(item(f"Merge and count each {topic}", f"See src/{topic}.py"), id=topic) for topic in topics
    ]
    repository = project.open()
    repository.share_among(items)
    maps = [repository.map_for(one, tokens=22_000) for one in items]
    assert len({found.shared for found in maps}) == 1
    assert {PartKind.BODY, PartKind.SIGNATURE} <= {part.kind for part in maps[0].shared}
    for topic, found in zip(topics, maps, strict=True):
        assert_nothing_twice(found)
        assert all(f"{topic}_{what}_value_39" in everything(found) for what in ("open", "merge", "split"))
        assert found.tokens <= 22_000
    alone = project.open().map_for(items[0], tokens=22_000)
    assert {part.kind for part in alone.shared} == {PartKind.TREE, PartKind.GUIDE}


def test_the_tests_of_a_source_are_listed(project: GitProject) -> None:
    for number in range(40):
        project.put(f"src/parse_{number}.py", f"def parse_options_{number}(): ...\n")
    project.put("src/option_reader.py", "def read_options(): ...\n")
    project.put("tests/unit/test_option_reader.py", "def test_nothing_is_read():\n    assert True\n")
    project.commit()
    (listed,) = (part for part in map_of(project, "option_reader").own if part.path.startswith("tests/unit"))
    assert "def test_nothing_is_read()" in listed.text


def test_a_changelog_or_a_long_document_is_never_shown_whole(project: GitProject) -> None:
    project.put("CHANGES.md", "# 1.0\n\nParse all options.\n")
    sections = (f"## Part {n}\n\n" + f"Options of part {n} are parsed.\n" * 20 for n in range(10))
    project.put("docs/guide.md", "\n".join(sections))
    project.put("docs/short.md", "# Options\n\nParse them.\n")
    project.commit()
    found = map_of(project, "Parse options", "See CHANGES.md, docs/guide.md and docs/short.md")
    assert set(found.ranked[:3]) == {"CHANGES.md", "docs/guide.md", "docs/short.md"}
    kinds = {part.path: part.kind for part in found.own}
    assert kinds["docs/short.md"] is PartKind.FILE
    assert kinds["docs/guide.md"] in {PartKind.BODY, PartKind.SIGNATURE}
    assert "Parse all options" not in everything(found)


def test_a_guide_that_says_the_same_as_another_one_is_dropped(project: GitProject) -> None:
    rules = "".join(f"Rule {number}: write the test before the code.\n" for number in range(20))
    project.put("AGENTS.md", f"# For agents\n\n{rules}")
    project.put("CLAUDE.md", f"# For Claude\n\n{rules}")
    project.put("CONTRIBUTING.md", "# Contributing\n\nEvery change needs a reason that people understand.\n")
    project.commit()
    guides = [part.path for part in map_of(project).shared if part.kind is PartKind.GUIDE]
    assert guides == ["AGENTS.md", "CONTRIBUTING.md", "README.md", "."]


def test_a_file_that_the_item_names_comes_whole_and_first(project: GitProject) -> None:
    found = map_of(project, "Parse options", "See src/basket.py, line 3.")
    assert found.ranked[0] == "src/basket.py"
    assert found.own[0].kind is PartKind.FILE
    assert found.own[0].text == "class Basket:\n    def add(self, article): ..."
    assert map_of(project, "Look at basket.py").own[0].path == "src/basket.py"
    assert map_of(project, "Look at `test_parser.py`").ranked[0] == "tests/test_parser.py"


def test_a_file_that_the_user_names_comes_whole_also_if_git_does_not_track_it(project: GitProject) -> None:
    project.put("notes.txt", "by hand\n")
    found = map_of(project, named=["notes.txt", "tests", "no-such-file"])
    assert [(part.kind, part.path) for part in found.own[:2]] == [
        (PartKind.FILE, "notes.txt"),
        (PartKind.FILE, "tests/test_parser.py"),
    ]
    assert "cannot be read" in reasons(found)["no-such-file"]


def test_a_file_too_large_for_the_budget_is_cut_with_a_marker(project: GitProject) -> None:
    project.put("src/long.py", "".join(f"VALUE_{number} = {number}\n" for number in range(5_000)))
    project.commit()
    by_user = map_of(project, named=["src/long.py"])
    assert (by_user.own[0].path, by_user.own[0].is_cut) == ("src/long.py", True)
    by_item = map_of(project, "Change src/long.py")
    assert (by_item.own[0].path, by_item.own[0].kind) == ("src/long.py", PartKind.BODY)
    assert by_user.tokens <= 4_000 >= by_item.tokens


def test_shared_parts_are_the_same_bytes_for_all_items(project: GitProject) -> None:
    repository = project.open()
    one = repository.map_for(item("Parse options"), tokens=2_000)
    other = repository.map_for(item("Add an article to the basket"), tokens=2_000)
    again = project.open().map_for(item("Something else"), tokens=2_000)
    assert one.shared == other.shared == again.shared
    assert one.own != other.own


def test_no_tokens_give_no_parts_but_a_ranking(project: GitProject) -> None:
    found = project.open().map_for(item("Parse options"), tokens=0)
    assert found.parts == ()
    assert found.ranked[0] == "src/parser.py"


def test_earlier_commits_say_what_a_file_is_about(project: GitProject) -> None:
    project.put("src/one.py", "x = 1\n")
    project.put("src/two.py", "x = 1\n")
    project.commit("Start two")
    project.put("src/two.py", "x = 2\n")
    project.commit("Charge the value added tax in Norway")
    assert map_of(project, "Norway has another tax").ranked[0] == "src/two.py"


def test_what_the_best_file_uses_comes_behind_the_first_ten(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "shop")
    project.put("src/checkout.py", "def checkout(order):\n    return Ledger(compute_total(order))\n")
    project.put("src/zz.py", "class Ledger: ...\n\n\ndef compute_total(x): ...\n")
    for number in range(15):
        project.put(f"src/checkout_{number:02}.py", f"def checkout_{number}(order): ...\n")
    project.commit()
    found = map_of(project, "The checkout of an order", "See checkout.py")
    assert found.ranked[0] == "src/checkout.py"
    assert found.ranked[10] == "src/zz.py"


# Whose text


def test_the_text_is_the_worktrees_where_it_differs(project: GitProject) -> None:
    project.put("src/basket.py", "class Hamper: ...\n")
    project.put("src/parser.py", PARSER)  # touched, but the same
    project.put("staged.py", "class Staged: ...\n")
    project.git("add", "staged.py")
    project.put("untracked.py", "class Untracked: ...\n")
    repository = project.open()
    assert repository.changed == ("src/basket.py", "staged.py")
    assert repository.commit == project.git("rev-parse", "HEAD")[:12]
    assert "untracked.py" not in repository.files
    found = repository.map_for(item("basket.py and staged.py"), tokens=2_000)
    assert {part.text for part in found.own[:2]} == {"class Hamper: ...", "class Staged: ..."}


def test_a_change_of_the_line_ends_alone_is_none(project: GitProject) -> None:
    project.put("src/parser.py", PARSER.replace("\n", "\r\n"))
    assert project.open().changed == ()


def test_a_text_that_a_filter_writes_is_not_sent(project: GitProject) -> None:
    """The worktree of a repository with git-crypt has the plain text of files that are encrypted in git."""
    project.put(".gitattributes", "src/vault.py filter=crypt\n")
    project.put("src/vault.py", "class Options: encrypted = True\n")
    project.commit()
    project.put("src/vault.py", "class Options: plain = True\n")
    project.put("src/basket.py", "class Basket: changed = True\n")
    repository = project.open()
    text = everything(repository.map_for(item("Options", "src/vault.py src/basket.py"), tokens=4_000))
    assert "encrypted = True" in text
    assert "plain = True" not in text
    assert repository.changed == ("src/basket.py",)


def test_a_pointer_to_a_large_file_is_left_out(project: GitProject) -> None:
    project.put("src/options.py", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    project.commit()
    assert reasons(map_of(project))["src/options.py"] == "kept in Git LFS"


def test_large_sources_are_read_also_if_their_words_are_cached(
    project: GitProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "BATCH_BYTES", 1_000_000)
    monkeypatch.setattr(git_state, "MAX_BATCH_BYTES", 4_000_000)
    for number in range(60):
        project.put(f"src/large_{number}.py", "# parse options\n" * 6_000 + f"x = {number}\n")
    project.commit()
    (tmp_path / "home").mkdir()
    cold, warm = (
        project.open(cache=tmp_path / "home").map_for(item("Parse options"), tokens=4_000) for _ in range(2)
    )
    assert warm == cold
    assert "src/large_0.py" not in reasons(warm)


def test_a_deleted_file_is_left_out(project: GitProject) -> None:
    (project.folder / "src/parser.py").unlink()
    repository = project.open()
    assert "src/parser.py" not in repository.files
    found = repository.map_for(item("Parse options"), tokens=2_000)
    assert reasons(found)["src/parser.py"] == "not in the worktree"
    assert "OptionParser" not in everything(found)


def test_a_file_replaced_by_a_link_is_left_out(project: GitProject, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("class Outside: ...\n")
    (project.folder / "src/basket.py").unlink()
    (project.folder / "src/basket.py").symlink_to(tmp_path / "outside.py")
    found = map_of(project, "basket.py")
    assert reasons(found)["src/basket.py"] == "not in the worktree"
    assert "Outside" not in everything(found)


def test_a_file_outside_a_sparse_checkout_has_the_commits_text(project: GitProject) -> None:
    project.git("sparse-checkout", "set", "tests")
    assert not (project.folder / "src").exists()
    repository = project.open()
    assert "src/parser.py" in repository.files
    assert "OptionParser" in everything(repository.map_for(item("Parse options"), tokens=2_000))


def test_where_nothing_is_tracked_there_is_no_map(tmp_path: Path) -> None:
    empty = GitProject(tmp_path / "empty")
    empty.put("a.py")
    assert empty.try_open() is None
    plain = tmp_path / "plain"
    plain.mkdir()
    assert empty.try_open(folder=plain) is None


def test_a_repository_without_a_commit_has_a_map(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "new")
    project.put("src/parser.py", PARSER)
    project.git("add", "-A")
    repository = project.open()
    assert repository.commit == ""
    assert repository.map_for(item("Parse options"), tokens=2_000).ranked == ("src/parser.py",)


def test_a_shallow_clone_and_a_detached_head_have_a_map(project: GitProject, tmp_path: Path) -> None:
    project.put("src/parser.py", PARSER + "\n\nX = 1\n")
    project.commit("More")
    clone = GitProject(tmp_path / "elsewhere")
    clone.git("fetch", "-q", "--depth", "1", f"file://{project.folder}", "main")
    clone.git("checkout", "-q", "FETCH_HEAD")
    assert map_of(clone).ranked[0] == "src/parser.py"


def test_a_project_in_a_folder_of_a_repository_sees_only_that_folder(tmp_path: Path) -> None:
    whole = GitProject(tmp_path / "whole")
    whole.put("api/src/parser.py", PARSER)
    whole.put("web/index.js", "function parse() {}\n")
    whole.commit("Parse options")
    whole.put("api/src/parser.py", PARSER + "X = 1\n")
    repository = whole.open(folder=whole.folder / "api")
    assert repository.files == {"src/parser.py"}
    assert repository.changed == ("src/parser.py",)
    assert repository.map_for(item("Parse options"), tokens=2_000).ranked == ("src/parser.py",)


def test_git_starts_no_program_that_the_repository_names(project: GitProject, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in (
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.external",
        "gpg.program",
    ):
        project.git("config", name, f"sh -c 'touch {ran}; cat'")
    project.git("config", "log.showSignature", "true")
    project.put(".gitattributes", "*.py filter=evil diff=evil\n")
    project.put("src/basket.py", "class Hamper: ...\n")
    assert map_of(project).ranked
    assert not ran.exists()


# Left out, one by one


def test_secrets_are_left_out_and_the_map_is_made(project: GitProject) -> None:
    mine = "k" * 12 + "-my-own-key-" + "9" * 8
    project.put(".env", "PASSWORD=parse-options\n")
    project.put("src/options_key.py", f"PARSE_OPTIONS = '''{PRIVATE_KEY}\nMIIE\n'''\n")
    project.put("src/parse_options.py", f"parse_options = '{mine}'\n")
    project.put("src/parse_allowed.py", f"parse_options = '''{PRIVATE_KEY}'''\n")
    project.put("ignored.py", "class IgnoredOptions: ...\n")
    project.put(".gitignore", "ignored.py\n")
    project.commit()
    options = MapOptions(allow=("src/parse_allowed.py",), holds_key=lambda text: mine in text)
    found = project.open(options).map_for(item("Parse options", "See src/options_key.py"), tokens=4_000)
    why = reasons(found)
    assert why[".env"] == "files with this name hold secrets"
    assert "a private key" in why["src/options_key.py"]
    assert why["src/parse_options.py"] == "it contains one of your keys"
    assert "src/parse_allowed.py" in found.ranked
    assert "ignored.py" not in why
    text = everything(found)
    assert "MIIE" not in text
    assert mine not in text
    assert "IgnoredOptions" not in text
    assert not {"src/options_key.py", "src/parse_options.py"} & {part.path for part in found.parts}
    assert found.ranked[0] == "src/options_key.py"  # it matters, although no model sees it
    assert "src/parse_options.py" not in found.ranked
    assert ".env" not in found.ranked


def test_what_nobody_wrote_here_is_left_out(project: GitProject) -> None:
    contents: dict[str, str | bytes] = {
        "vendor/lib/parse.py": "class ParseOptions: ...\n",
        "web/node_modules/a/index.js": "function parseOptions() {}\n",
        "poetry.lock": "parse options\n",
        "web/parse.min.js": "function parseOptions() {}\n",
        "web/parse_pb2.py": "def parse_options(): ...\n",
        "src/made.py": "# Generated by a tool. Do not edit.\ndef parse_options(): ...\n",
        "src/wide.js": "parse_options();" * 1_000 + "\n",
        "src/huge.py": "parse_options = 1\n" * 100_000,
        "src/binary.py": b"parse_options\0\x01\x02",
        "logo.png": b"\x89PNG",
        "docs/lineage/active/42-lld/001-issue.md": "Parse options\n",
        "issues/active/42.md": "Parse options\n",
        "private/plan.md": "Parse options\n",
    }
    for name, content in contents.items():
        project.put(name, content)
    project.commit()
    options = MapOptions(
        lineage_folder="docs/lineage", backlog_folders=("issues/active",), exclude=("private/*",)
    )
    found = project.open(options).map_for(item("Parse options"), tokens=8_000)
    why = reasons(found)
    assert set(contents) == set(why)
    assert set(contents).isdisjoint(found.ranked)
    assert why["src/huge.py"].startswith("larger than")
    assert why["private/plan.md"] == "context_exclude names it"
    assert "parseOptions" not in everything(found)


def test_designs_are_listed_by_title_and_never_ranked(project: GitProject) -> None:
    project.put("docs/lld/active/LLD-7.md", "# Parse options faster\n\nSecret sauce.\n")
    project.put("docs/lineage/done/7-lld/001-issue.md")
    project.commit()
    options = MapOptions(design_folders=("docs/lld",), lineage_folder="docs/lineage")
    found = project.open(options).map_for(item("Parse options"), tokens=4_000)
    assert "docs/" not in found.shared[0].text
    assert "docs/lld/active/LLD-7.md: Parse options faster\n" in [part.text for part in found.shared]
    assert "docs/lld/active/LLD-7.md" not in found.ranked
    assert "Secret sauce" not in everything(found)


def test_links_and_other_repositories_are_no_files(project: GitProject, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("class Outside: ...\n")
    (project.folder / "link.py").symlink_to(tmp_path / "outside.py")
    inner = GitProject(project.folder / "inner")
    inner.put("a.py")
    inner.commit()
    project.git("add", "link.py", "inner")
    project.git("commit", "-q", "-m", "Link")
    repository = project.open()
    assert {"link.py", "inner"} <= repository.files  # a design may change them
    found = repository.map_for(item("Outside"), tokens=4_000, named=["link.py"])
    assert reasons(found)["inner"] == "another repository"
    assert "link.py" in reasons(found)
    assert reasons(map_of(project))["link.py"] == "a link"
    assert "Outside" not in everything(found)


@pytest.mark.parametrize(
    "name", [b"a b.py", b'quo"te.py', b"new\nline.py", b"caf\xe9.py", "grün.py".encode()]
)
def test_odd_names_are_shown_on_one_line(project: GitProject, name: bytes) -> None:
    project.put(name, "class ParseOptionsOddly: ...\n")
    project.commit("Parse options oddly")
    repository = project.open()
    assert os.fsdecode(name) in repository.files
    found = repository.map_for(item("Parse options oddly"), tokens=4_000)
    assert "ParseOptionsOddly" in everything(found)
    for path in found.ranked:
        assert path.isprintable()
        path.encode()
    assert len(found.shared[0].text.splitlines()) == 7


def test_a_damaged_clone_leaves_out_what_it_does_not_have(project: GitProject) -> None:
    blob = project.git("rev-parse", "HEAD:src/parser.py").strip()
    (project.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    found = map_of(project)
    assert reasons(found)["src/parser.py"] == "its text is not in this clone"
    assert found.ranked


def test_named_files_left_out_by_their_path_are_read_if_the_user_names_them(project: GitProject) -> None:
    project.put("vendor/lib.py", "class Lib: ...\n")
    project.put(".env", "PASSWORD=hunter2hunter2\n")
    project.commit()
    found = map_of(project, named=["vendor/lib.py", ".env"])
    assert found.own[0].text == "class Lib: ...\n"
    assert reasons(found)[".env"] == "files with this name hold secrets"
    assert "hunter2" not in everything(found)


def test_a_named_file_is_sent_although_nobody_wrote_it_here(project: GitProject) -> None:
    project.put("dist/app.js", "function app() {}\n")
    project.put("src/made.py", "# Generated by a tool. Do not edit.\nMADE = 1\n")
    project.put("src/mine.py", "MINE = 1\n")
    project.commit()
    named = ["dist/app.js", "src/made.py", "src/mine.py"]
    repository = project.open(MapOptions(exclude=("./src/mine.py", "/nowhere/")))
    found = repository.map_for(item("Parse options"), tokens=4_000, named=named)
    assert {"dist/app.js", "src/made.py"} <= {part.path for part in found.own}
    assert reasons(found) == {"src/mine.py": "context_exclude names it"}
    assert repository.only_named(named, tokens=4_000).own[0].text == "function app() {}\n"
    assert repository.unmatched() == ["/nowhere/"]


def test_an_excluded_design_is_not_even_listed(project: GitProject) -> None:
    project.put("docs/lld/LLD-7.md", "# A hidden plan\n")
    project.commit()
    options = MapOptions(design_folders=("docs/lld",), exclude=("docs/lld/",))
    assert "A hidden plan" not in everything(project.open(options).map_for(item("Plan"), tokens=4_000))


def test_the_map_does_not_depend_on_the_name_of_the_folder(project: GitProject, tmp_path: Path) -> None:
    project.git("clone", "-q", str(project.folder), str(tmp_path / "parser"))
    one, other = (
        project.open(folder=folder).map_for(item("Parser options"), tokens=4_000)
        for folder in (project.folder, tmp_path / "parser")
    )
    assert one == other


def test_the_texts_of_all_designs_are_read_at_once(
    project: GitProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        project.put(f"docs/lld/LLD-{number}.md", f"# Design {number}\n")
    project.commit()
    asked: list[object] = []
    read = git_state.Git.texts

    def counted(git: git_state.Git, blobs: Sequence[str]) -> dict[str, bytes]:
        asked.append(blobs)
        return read(git, blobs)

    monkeypatch.setattr(git_state.Git, "texts", counted)
    project.open(MapOptions(design_folders=("docs/lld",))).map_for(item("Plan"), tokens=4_000)
    assert len(asked) < 10


@pytest.mark.parametrize("path", ["src/vault.py", "vendor/vault.py"])
def test_a_named_file_that_git_decrypts_is_refused_unless_it_is_allowed(
    project: GitProject, path: str
) -> None:
    """Also one that is left out by its path, which is read from the worktree if it is named."""
    project.put(".gitattributes", "vault.py filter=git-crypt\n*.big filter=lfs\n")
    project.put(path, b"\0GITCRYPT\0as it is in git")
    project.put("a.big", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")
    project.commit()
    project.put(path, "PLAIN = 'words'\n")
    for options, sent in ((MapOptions(), False), (MapOptions(allow=(path,)), True)):
        repository = project.open(options)
        for found in (
            repository.map_for(item("Parse options"), tokens=4_000, named=[path]),
            repository.only_named([path], tokens=4_000),
        ):
            assert ("PLAIN = 'words'" in everything(found)) is sent
            assert sent or "filter=git-crypt" in reasons(found)[path]
    assert "git lfs pull" in reasons(map_of(project, named=["a.big"]))["a.big"]
    project.put("a.big", "FETCHED = 1\n")
    assert "FETCHED = 1" in everything(map_of(project, named=["a.big"]))


def test_a_guide_that_is_named_comes_whole_if_all_items_get_only_a_part_of_it(project: GitProject) -> None:
    for name, lines in (("AGENTS.md", 900), ("CONTRIBUTING.md", 900), ("README.md", 300)):
        project.put(name, f"# {name}\n\n" + "".join(f"Line {number} of {name}.\n" for number in range(lines)))
    project.commit()
    for title, named in (("Parse options", ["README.md"]), ("Correct README.md", [])):
        found = project.open().map_for(item(title), tokens=8_000, named=named)
        (part,) = (one for one in found.own if one.path == "README.md")
        assert "Line 299 of README.md" in part.text
        assert "Line 299 of README.md" not in "".join(one.text for one in found.shared)
    # If all of it is among the guides, it is not sent again.
    project.put("README.md", "# Shop\n\n" + "Sells options and all that belongs to them.\n" * 5)
    project.commit()
    found = map_of(project, "Correct README.md", tokens=8_000, named=["README.md"])
    assert [one.kind for one in found.parts if one.path == "README.md"] == [PartKind.GUIDE]
