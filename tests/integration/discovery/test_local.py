"""Discovery: which files are which items, in which order, and what is said of those that cannot be read."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentos.discovery.local import MAX_ITEM_BYTES, Folder, list_files, pick_files
from agentos.errors import ListingError, ProjectError, UsageError
from agentos.frames import encode
from agentos.model import Item, check_id
from agentos.naming import brief_id, issue_id
from agentos.project import find_worktree
from agentos.settings import Settings
from agentos.wire import ItemData
from agentos.workflows.issue import WORKFLOW as ISSUE
from agentos.workflows.lld import WORKFLOW as LLD
from harness.places import without_privileges

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


def folder_of(worktree: Path, id_of: Callable[[str], str] = issue_id) -> Folder:
    return Folder(worktree=worktree, path=FOLDER, workflow="lld", prefix="LLD", id_of=id_of)


def listed(worktree: Path, id_of: Callable[[str], str] = issue_id) -> tuple[Item, ...]:
    return list_files(folder_of(worktree, id_of))


def picked(worktree: Path, *wanted: str) -> tuple[Item, ...]:
    return pick_files(folder_of(worktree), wanted, what="issue")


def ids(items: tuple[Item, ...]) -> list[str]:
    return [item.id for item in items]


def only(items: tuple[Item, ...]) -> Item:
    (item,) = items
    return item


# Names.


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
def test_two_files_for_one_id_are_both_refused_and_nothing_else_is(
    fill: Fill, names: tuple[str, str]
) -> None:
    items = listed(fill(dict.fromkeys([*names, "7.md", "43.md"], "text")))
    assert [item.problem is None for item in items] == [True, True, False, False]
    for item in items[2:]:
        (other,) = {f"{FOLDER}/{name}" for name in names} - {item.source}
        assert f"Item '42' is also in {other}." in str(item.problem)
    told = [str(item.problem).partition(": rename it to ")[2].split(" ")[0] for item in items[2:]]
    assert sorted(issue_id(name.removesuffix(".md.")) for name in told) == ["44", "45"]


def test_two_briefs_with_one_slug_are_both_refused(fill: Fill) -> None:
    items = listed(fill({"Dark Mode.md": "a", "Dark-Mode.md": "b", "other.md": "c"}), brief_id)
    assert [item.problem is None for item in items] == [True, False, False]
    assert len({item.id for item in items}) == 3


def test_ids_that_differ_only_in_case_are_both_refused(fill: Fill) -> None:
    items = listed(fill({"Login.md": "a", "login.md": "b", "other.md": "c"}))
    assert [item.source for item in items if item.problem is None] == [f"{FOLDER}/other.md"]
    assert all("only in case" in str(item.problem) for item in items if item.problem is not None)


def test_a_bad_name_that_looks_like_a_good_one_does_it_no_harm(fill: Fill) -> None:
    """The Kelvin sign is a small k to Python, and nobody else's id."""
    items = listed(fill({"\u212a.md": "a", "k.md": "b"}))
    assert [(item.source, item.problem is None) for item in items] == [
        (f"{FOLDER}/k.md", True),
        (f"{FOLDER}/\u212a.md", False),
    ]


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("my issue.md", "my-issue.md"),
        ("gr\u00f6\u00dfe.md", "groesse.md"),
        ("gro\u0308\u00dfe.md", "groesse.md"),
        ("con.md", "con-2.md"),
        ("-x.md", "x.md"),
        ("x" * 65 + ".md", "x" * 60 + ".md"),
        ("a\nb.md", "a-b.md"),
        ("7 x.md", "7-x.md"),
        ("42 x.md", "43-x.md"),
        ("Good.md.md", "Good-md.md"),
        ("\u65e5\u672c.md", "The-title.md"),
    ],
)
def test_a_name_that_gives_no_id_is_refused_alone_with_the_name_it_could_have(
    fill: Fill, name: str, better: str
) -> None:
    items = listed(fill({name: "# The title\n", "good.md": "text", "42.md": "text"}))
    assert [item.id for item in items if item.problem is None] == ["42", "good"]
    bad = items[-1]
    assert f": rename it to {better}. Item id " in str(bad.problem)
    assert str(bad.problem).isprintable()
    assert bad.source.isprintable()
    assert encode(
        ItemData(workflow="lld", id=bad.id, label=bad.label, title=bad.title, text="", source=bad.source)
    )


def test_proposals_and_shown_ids_never_meet_each_other_or_what_is_there(fill: Fill) -> None:
    names = ["my issue.md", "my  issue.md", "my-issue.md", "My-Issue-2.md", "my?issue.md", "7 a.md", "7 b.md"]
    items = listed(fill(dict.fromkeys(names, "text")))
    assert len({item.id for item in items}) == len(names)
    for item in items:
        if item.problem is not None:
            with pytest.raises(UsageError):
                check_id(item.id)
    proposed = [str(item.problem).partition(" to ")[2].partition(". ")[0] for item in items if item.problem]
    assert sorted(proposed) == ["7-a.md", "8-b.md", "my-issue-3.md", "my-issue-4.md", "my-issue-5.md"]


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
    [
        "---\nlabels: [a" + " " * 100_000 + '"\n---\nx',
        "---\n" + "labels: x\n" * 90_000 + "---\nx",
        "---\n" * 240_000,
        "# a" + " " * 20_000 + "b",
        "<!--" * 200_000,
        "#" * 900_000,
        "# " + "# " * 20_000 + "x",
    ],
    ids=[
        "spaces in a label",
        "labels again and again",
        "only rules",
        "spaces in a heading",
        "comments never closed",
        "hashes",
        "hashes in a heading",
    ],
)
def test_no_text_makes_the_listing_hang(fill: Fill, text: str) -> None:
    assert only(listed(fill({"42.md": text}))).id == "42"


# Links, folders and what cannot be listed.


@pytest.mark.parametrize(
    "target",
    ["secret.txt", "repo-neighbour/secret.txt", "missing.txt", "repo/.env", "repo/.git/config", "repo/notes"],
)
def test_a_link_is_not_read_wherever_it_leads(fill: Fill, tmp_path: Path, target: str) -> None:
    worktree = fill()
    (worktree / ".git").mkdir()
    for name in (".env", ".git/config", "notes"):
        (worktree / name).write_text("the secret")
    (tmp_path / "repo-neighbour").mkdir()
    for name in ("secret.txt", "repo-neighbour/secret.txt"):
        (tmp_path / name).write_text("the secret")
    (worktree / FOLDER / "42.md").symlink_to(tmp_path / target)
    item = only(listed(worktree))
    assert item.problem is not None
    assert "it is a symbolic link, and links are not followed" in item.problem
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
    told = "not a regular file" if kind in {"folder", "pipe"} else "a symbolic link, and links are not"
    assert f"42.md cannot be read: it is {told}" in str(only(listed(worktree)).problem)


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
    with pytest.raises(UsageError if kind == "loop" else ListingError, match="Cannot list"):
        listed(tmp_path)


@pytest.mark.parametrize("place", [FOLDER, "issues"])
def test_a_folder_that_is_a_link_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "outside" / "active").mkdir(parents=True)
    (tmp_path / "outside" / "42.md").write_text("secret")
    (tmp_path / "outside" / "active" / "42.md").write_text("secret")
    (tmp_path / "repo" / place).parent.mkdir(parents=True)
    (tmp_path / "repo" / place).symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="is a symbolic link, and links are not followed"):
        listed(tmp_path / "repo")


# Choosing.


def test_items_are_chosen_each_once_in_the_order_named(fill: Fill) -> None:
    worktree = fill(dict.fromkeys(["1.md", "2-two.md", "login.md"], "text"))
    assert ids(picked(worktree, "login", "LLD-2", "2", "#2", "2-two", "2-two.md")) == ["login", "2"]


def test_an_id_that_is_not_there_is_refused_with_those_that_are(fill: Fill) -> None:
    worktree = fill(dict.fromkeys([f"{n}.md" for n in range(1, 13)] + ["a b.md"], "text"))
    with pytest.raises(UsageError, match=r"No issue '99' in issues/active\. Available: 1, 2, .*10, \.\.\.$"):
        picked(worktree, "99")
    for path in (worktree / FOLDER).iterdir():
        path.unlink()
    with pytest.raises(UsageError, match="The folder is empty"):
        picked(worktree, "99")


def test_an_id_that_could_never_be_there_is_told_so(fill: Fill) -> None:
    with pytest.raises(UsageError, match="not valid"):
        picked(fill(), "../../etc/passwd")


def test_a_number_of_two_files_is_refused_with_both_and_each_works_by_its_path(fill: Fill) -> None:
    worktree = fill({"7.md": "one", "7-x.md": "two", "9.md": "nine"})
    for wanted in ("7", "#7", "LLD-7", "7-x"):
        with pytest.raises(UsageError) as caught:
            picked(worktree, wanted)
        for told in (
            f"{FOLDER}/7.md",
            f"{FOLDER}/7-x.md",
            "Rename issues/active/7-x.md to 10-x.md",
            "by its path",
        ):
            assert told in str(caught.value)
    for name, text in (("7.md", "one"), ("7-x.md", "two")):
        found = only(picked(worktree, f"{FOLDER}/{name}"))
        assert (found.id, found.text) == ("7", text)
    with pytest.raises(UsageError, match="both item '7'"):
        picked(worktree, "7.md", "7-x.md")


def test_what_is_named_is_read_whatever_lies_beside_it(fill: Fill) -> None:
    worktree = fill(dict.fromkeys(["7.md", "a b.md", "abc.md", "ABC.md", "8.md", "8-x.md"], "text"))
    assert [item.problem for item in picked(worktree, "7", "abc")] == [None, None]


def test_a_file_with_a_bad_name_is_refused_by_its_path_with_a_better_one(fill: Fill) -> None:
    with pytest.raises(UsageError, match=r"a b\.md: rename it to a-b\.md\."):
        picked(fill({"a b.md": "text"}), f"{FOLDER}/a b.md")


@pytest.mark.parametrize("here", [".", FOLDER, "src/deep"])
@pytest.mark.parametrize(
    "wanted", ["42", "#42", "LLD-42", "42-login", "42-login.md", f"{FOLDER}/42-login.md", "absolute"]
)
def test_an_lld_may_be_named_in_many_ways_from_everywhere(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, wanted: str, here: str
) -> None:
    worktree = fill({"42-login.md": "text", "43.md": "text"})
    (worktree / here).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(worktree / here)
    name = str(worktree / FOLDER / "42-login.md") if wanted == "absolute" else wanted
    assert ids(LLD.discover(worktree, Settings(), [name])) == ["42"]
    assert ids(LLD.discover(worktree, Settings(), [])) == ["42", "43"]


def test_a_path_may_go_up_from_where_the_shell_is(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    worktree = fill({"42-login.md": "text"})
    (worktree / "src/deep").mkdir(parents=True)
    monkeypatch.chdir(worktree / "src/deep")
    assert ids(LLD.discover(worktree, Settings(), [f"../../{FOLDER}/42-login.md"])) == ["42"]


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
def test_an_item_whose_file_is_a_link_may_be_named_by_it_and_says_why_it_is_not_read(
    fill: Fill, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    worktree = fill()
    (worktree / FOLDER / target).write_text("text")
    (worktree / FOLDER / "42-login.md").symlink_to(target)
    monkeypatch.chdir(worktree)
    item = only(LLD.discover(worktree, Settings(), [f"{FOLDER}/42-login.md"]))
    assert (item.id, item.text) == ("42", "")
    assert "links are not followed" in str(item.problem)


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


# Front matter and labels.


def test_front_matter_gives_title_and_labels_and_stays_part_of_the_text(fill: Fill) -> None:
    text = "---\ntitle: Add login\nlabels: [design, small]\n---\n# Another\n\nText.\n"
    item = only(listed(fill({"42.md": text.replace("\n", "\r\n")})))
    assert (item.title, item.labels, item.text) == ("Add login", ("design", "small"), text)


def test_without_a_title_there_the_first_heading_after_it_counts(fill: Fill) -> None:
    item = only(listed(fill({"42.md": "---\nowner: me\n# no heading\n---\n\n# Seen\n"})))
    assert item.title == "Seen"


def test_front_matter_alone_is_an_empty_file_unless_it_has_a_title(fill: Fill) -> None:
    bare, titled = listed(fill({"1.md": "---\nlabels: a\n---\n", "2.md": "---\ntitle: Do it\n---\n"}))
    assert "is empty" in str(bare.problem)
    assert titled.problem is None


def test_files_are_chosen_by_labels_that_must_all_be_there(fill: Fill) -> None:
    worktree = fill(
        {
            "1.md": "---\nlabels: [Design, small]\n---\ntext",
            "2.md": "---\nlabels: design\n---\ntext",
            "3.md": "text",
            "a b.md": "---\nlabels: small, design\n---\ntext",
            "c d.md": "text",
        }
    )

    def chosen(*labels: str) -> list[str]:
        return [item.source.rpartition("/")[2] for item in LLD.discover(worktree, Settings(label=labels), [])]

    assert chosen("design") == ["1.md", "2.md", "a b.md"]
    assert chosen("design", "SMALL") == ["1.md", "a b.md"]
    with pytest.raises(UsageError, match=r"No issue in issues/active .* 'desing'\. Available: design"):
        chosen("small", "desing")


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
