"""Discovery: which files are which items, in which order, and what is said of those that cannot be read."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentos.discovery.local import MAX_ITEM_BYTES, brief_id, issue_id, list_files, pick
from agentos.errors import ListingError, ProjectError, UsageError
from agentos.model import Item
from agentos.project import find_worktree
from agentos.settings import Settings
from agentos.wire import ItemData, encode
from agentos.workflows.issue import WORKFLOW as ISSUE
from agentos.workflows.lld import WORKFLOW as LLD

NOBODY = 65_534
FOLDER = "issues/active"
Fill = Callable[..., Path]


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Make a worktree whose issues folder holds the files given."""

    def make(files: dict[str, str | bytes] | None = None) -> Path:
        worktree = tmp_path / "repo"
        (worktree / FOLDER).mkdir(parents=True)
        for name, content in (files or {}).items():
            data = content if isinstance(content, bytes) else content.encode()
            (worktree / FOLDER / name).write_bytes(data)
        return worktree

    return make


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read anything; be somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def listed(worktree: Path, id_of: Callable[[str], str] = issue_id) -> tuple[Item, ...]:
    return list_files(worktree, FOLDER, workflow="lld", prefix="LLD", id_of=id_of)


def ids(items: tuple[Item, ...]) -> list[str]:
    return [item.id for item in items]


def only(items: tuple[Item, ...]) -> Item:
    (item,) = items
    return item


# Names.


@pytest.mark.parametrize(
    ("stem", "found"),
    [
        ("42", "42"),
        ("42-some-title", "42"),
        ("42-", "42"),
        ("042", "042"),
        ("42_title", "42_title"),
        ("some-title", "some-title"),
        ("v2-title", "v2-title"),
        ("42nd-street", "42nd-street"),
    ],
)
def test_an_issue_is_known_by_its_number_else_by_its_stem(stem: str, found: str) -> None:
    assert issue_id(stem) == found


@pytest.mark.parametrize(
    ("stem", "slug"),
    [
        ("dark-mode", "dark-mode"),
        ("Dark Mode!", "Dark-Mode"),
        ("a  b...c", "a-b-c"),
        ("Café über", "Cafe-uber"),
        ("-x-", "x"),
        ("snake_case", "snake_case"),
        ("42-title", "42-title"),
    ],
)
def test_a_brief_is_known_by_the_slug_of_its_name(stem: str, slug: str) -> None:
    assert brief_id(stem) == slug


def test_an_item_has_id_label_title_text_and_source(fill: Fill) -> None:
    item = only(listed(fill({"42-login.md": "\n# Add login\n\nSo that data is mine.\n"})))
    assert (item.workflow, item.id, item.label, item.title) == ("lld", "42", "LLD-42", "Add login")
    assert item.text == "\n# Add login\n\nSo that data is mine.\n"
    assert item.source == f"{FOLDER}/42-login.md"
    assert item.problem is None


def test_items_come_in_the_order_people_count(fill: Fill) -> None:
    names = ["10.md", "2-b.md", "1.md", "100.md", "zebra.md", "apple.md", "20-x.md"]
    worktree = fill(dict.fromkeys(names, "text"))
    assert ids(listed(worktree)) == ["1", "2", "10", "20", "100", "apple", "zebra"]


def test_only_markdown_files_that_are_not_hidden_are_items(fill: Fill) -> None:
    worktree = fill(dict.fromkeys(["1.md", ".2.md", ".md", "3.txt", "README", "4.md.bak", "5.md~"], "text"))
    assert ids(listed(worktree)) == ["1"]


@pytest.mark.parametrize("names", [("42.md", "42-title.md"), ("42-a.md", "42-b.md")])
def test_two_files_for_one_id_are_refused_together(fill: Fill, names: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="both item '42'") as caught:
        listed(fill(dict.fromkeys(names, "text")))
    assert all(name in str(caught.value) for name in names)


def test_two_briefs_with_one_slug_are_refused_together(fill: Fill) -> None:
    with pytest.raises(UsageError, match="both item 'Dark-Mode'"):
        listed(fill({"Dark Mode.md": "a", "Dark-Mode.md": "b"}), brief_id)


def test_two_ids_that_differ_only_in_case_are_refused_together(fill: Fill) -> None:
    with pytest.raises(UsageError, match="differ only in case"):
        listed(fill({"Login.md": "a", "login.md": "b"}))


@pytest.mark.parametrize("name", ["a b.md", "ä.md", "con.md", "-x.md", "x" * 65 + ".md", "a\nb.md"])
def test_a_name_that_gives_no_id_is_refused_with_the_file_to_rename(fill: Fill, name: str) -> None:
    with pytest.raises(UsageError, match="Rename the file"):
        listed(fill({name: "text"}))


def test_a_name_that_is_no_utf8_gives_an_item_that_can_be_sent_to_a_worker(fill: Fill) -> None:
    worktree = fill()
    (worktree / FOLDER / os.fsdecode(b"42-\xff.md")).write_text("text")
    item = only(listed(worktree))
    assert item.id == "42"
    data = ItemData(
        workflow=item.workflow,
        id=item.id,
        label=item.label,
        title=item.title,
        text=item.text,
        source=item.source,
    )
    assert encode(data)


# Contents.


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"<!-- mock: fail=x -->\n", "is empty"),
        (b"text\0text", "is a binary file"),
        ("text".encode("utf-16"), "is a binary file|is not UTF-8"),
        (b"caf\xe9", r"is not UTF-8 text \(byte 3\)"),
        (b"x" * (MAX_ITEM_BYTES + 1), "is larger than 1,000,000 bytes"),
    ],
    ids=["empty", "blank", "mark", "comment", "binary", "utf-16", "latin-1", "too large"],
)
def test_a_file_that_cannot_be_processed_becomes_an_item_that_says_why(
    fill: Fill, content: bytes, problem: str
) -> None:
    item = only(listed(fill({"42.md": content})))
    assert item.problem is not None
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(item.problem)
    assert "42.md" in item.problem
    assert item.text == ""


def test_one_bad_file_does_not_hide_the_others(fill: Fill) -> None:
    items = listed(fill({"1.md": b"\0", "2.md": "text"}))
    assert [item.problem is None for item in items] == [False, True]


def test_a_file_of_exactly_the_limit_is_read(fill: Fill) -> None:
    assert len(only(listed(fill({"42.md": b"x" * MAX_ITEM_BYTES}))).text) == MAX_ITEM_BYTES


def test_line_ends_and_a_byte_order_mark_make_no_other_text(fill: Fill) -> None:
    items = listed(fill({"1.md": "# T\n\ntext\n", "2.md": b"\xef\xbb\xbf# T\r\n\r\ntext\r\n"}))
    assert items[0].input_hash == items[1].input_hash


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\n## Two", "One"),
        ("Intro\n\n### Three ###\n", "Three"),
        ("Plain first line\nsecond", "Plain first line"),
        ("<!-- # hidden -->\n# Seen", "Seen"),
        ("# Bell\x07 and \u202ebidi", "Bell and bidi"),
        ("#nospace\n", "#nospace"),
        ("# " + "x" * 500, "x" * 120),
    ],
)
def test_the_title_is_the_first_heading_or_line_in_printable_characters(
    fill: Fill, text: str, title: str
) -> None:
    assert only(listed(fill({"42.md": text}))).title == title


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text",
    ["# a" + " " * 20_000 + "b", "<!--" * 200_000, "#" * 900_000, "# " + "# " * 20_000 + "x"],
    ids=["spaces in a heading", "comments never closed", "hashes", "hashes in a heading"],
)
def test_no_text_makes_the_listing_hang(fill: Fill, text: str) -> None:
    assert only(listed(fill({"42.md": text}))).id == "42"


# Links, folders and what cannot be listed.


def test_a_link_inside_the_worktree_is_followed(fill: Fill) -> None:
    worktree = fill({"notes.txt": "text"})
    (worktree / FOLDER / "42.md").symlink_to("notes.txt")
    assert only(listed(worktree)).text == "text"


@pytest.mark.parametrize("target", ["secret.txt", "repo-neighbour/secret.txt", "missing.txt"])
def test_a_link_out_of_the_worktree_is_not_read(fill: Fill, tmp_path: Path, target: str) -> None:
    worktree = fill()
    (tmp_path / "repo-neighbour").mkdir()
    for name in ("secret.txt", "repo-neighbour/secret.txt"):
        (tmp_path / name).write_text("the secret")
    (worktree / FOLDER / "42.md").symlink_to(tmp_path / target)
    item = only(listed(worktree))
    assert item.problem is not None
    assert "outside the worktree" in item.problem
    assert item.text == ""


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "dangling"])
def test_what_is_no_regular_file_is_an_item_that_says_so(fill: Fill, kind: str) -> None:
    worktree = fill()
    path = worktree / FOLDER / "42.md"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("42.md" if kind == "loop" else "gone.md")
    assert "not a regular file" in str(only(listed(worktree)).problem)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert listed(tmp_path) == ()


def test_a_folder_that_cannot_be_read_is_an_error_and_not_an_empty_list(fill: Fill) -> None:
    worktree = fill({"42.md": "text"})
    folder = worktree / FOLDER
    folder.chmod(0)
    try:
        with without_privileges(), pytest.raises(ListingError, match="Permission denied"):
            listed(worktree)
    finally:
        folder.chmod(0o755)


def test_a_file_that_may_not_be_read_is_an_item_that_says_so() -> None:
    with TemporaryDirectory() as name:  # pytest's own folders are the user's alone
        worktree = Path(name)
        worktree.chmod(0o755)
        (worktree / FOLDER).mkdir(parents=True)
        (worktree / FOLDER / "42.md").write_text("text")
        (worktree / FOLDER / "42.md").chmod(0)
        with without_privileges():
            found = listed(worktree)
    assert "cannot be read" in str(only(found).problem)


@pytest.mark.parametrize("kind", ["file", "loop"])
def test_a_folder_that_is_something_else_is_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / FOLDER
    path.parent.mkdir()
    if kind == "file":
        path.write_text("text")
    else:
        path.symlink_to("active")
    with pytest.raises(ListingError, match="Cannot list"):
        listed(tmp_path)


def test_a_folder_that_is_a_link_out_of_the_worktree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "42.md").write_text("secret")
    (tmp_path / "repo" / "issues").mkdir(parents=True)
    (tmp_path / "repo" / FOLDER).symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="leads outside"):
        listed(tmp_path / "repo")


# Choosing.


def test_items_are_chosen_by_id_or_label_each_once_in_the_order_named(fill: Fill) -> None:
    items = listed(fill(dict.fromkeys(["1.md", "2.md", "login.md"], "text")))
    chosen = pick(items, ["login", "LLD-2", "2"], folder=FOLDER, what="issue")
    assert ids(chosen) == ["login", "2"]


def test_an_id_that_is_not_there_is_refused_with_those_that_are(fill: Fill) -> None:
    items = listed(fill(dict.fromkeys([f"{n}.md" for n in range(1, 13)], "text")))
    with pytest.raises(UsageError, match=r"No issue '99' in issues/active\. There are: 1, 2, .*10, \.\.\.\."):
        pick(items, ["99"], folder=FOLDER, what="issue")
    with pytest.raises(UsageError, match="It is empty"):
        pick((), ["99"], folder=FOLDER, what="issue")


def test_an_id_that_could_never_be_there_is_told_so(fill: Fill) -> None:
    with pytest.raises(UsageError, match="not valid"):
        pick((), ["../../etc/passwd"], folder=FOLDER, what="issue")


@pytest.mark.parametrize("wanted", ["42", "LLD-42", "42-login.md", f"{FOLDER}/42-login.md"])
def test_an_lld_may_be_named_by_id_label_or_file(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    worktree = fill({"42-login.md": "text", "43.md": "text"})
    monkeypatch.chdir(worktree / FOLDER if wanted == "42-login.md" else worktree)
    assert ids(LLD.discover(worktree, Settings(), [wanted])) == ["42"]
    assert ids(LLD.discover(worktree, Settings(), [])) == ["42", "43"]


@pytest.mark.parametrize("wanted", ["44.md", f"{FOLDER}/44.md", "README.md", "../42.md"])
def test_a_file_that_is_no_item_is_refused_by_its_name(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    worktree = fill({"42.md": "text"})
    (worktree / "README.md").write_text("text")
    monkeypatch.chdir(worktree)
    with pytest.raises(UsageError, match=wanted):
        LLD.discover(worktree, Settings(), [wanted])


@pytest.mark.parametrize("target", ["notes.txt", "../notes.md"])
def test_an_item_whose_file_is_a_link_may_be_named_by_it(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    worktree = fill()
    (worktree / FOLDER / target).write_text("text")
    (worktree / FOLDER / "42-login.md").symlink_to(target)
    monkeypatch.chdir(worktree)
    assert ids(LLD.discover(worktree, Settings(), [f"{FOLDER}/42-login.md"])) == ["42"]


def test_briefs_are_found_in_their_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ideas" / "active").mkdir(parents=True)
    (tmp_path / "ideas" / "active" / "Dark Mode.md").write_text("# Dark mode\n")
    found = only(ISSUE.discover(tmp_path, Settings(), ["ideas/active/Dark Mode.md"]))
    assert (found.workflow, found.id, found.label) == ("issue", "Dark-Mode", "ISSUE-Dark-Mode")


def test_the_folder_of_issues_can_be_another(tmp_path: Path) -> None:
    (tmp_path / "todo").mkdir()
    (tmp_path / "todo" / "7.md").write_text("text")
    assert ids(LLD.discover(tmp_path, Settings(issues_folder="todo"), [])) == ["7"]


# The project.


@pytest.mark.parametrize("marker", [".git/", ".git", "agentos.toml"])
def test_the_project_is_the_nearest_folder_above_that_looks_like_one(tmp_path: Path, marker: str) -> None:
    deep = tmp_path / "project" / "a" / "b"
    deep.mkdir(parents=True)
    place = tmp_path / "project" / marker
    place.mkdir() if marker.endswith("/") else place.write_text("")
    assert find_worktree(deep) == tmp_path / "project"


def test_a_folder_with_a_backlog_is_a_project_itself_but_not_for_those_below(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    assert find_worktree(tmp_path) == tmp_path
    with pytest.raises(ProjectError, match="agentos init"):
        find_worktree(tmp_path / "issues")
