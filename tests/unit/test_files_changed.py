"""Which files a design says it changes, and which of them cannot be right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.files_changed import (
    FileChange,
    Mark,
    WrongPath,
    added_in,
    changes_in,
    check_paths,
    files_changed,
    marked_headings,
)

TRACKED = (
    "README.md",
    "src/pool.py",
    "src/keys/lease.py",
    "tests/test_pool.py",
    "docs/a b.md",
    "app/[id]/page.tsx",
)


def marks(lines: str) -> dict[str, str]:
    document = f"# T\n\n### Files changed\n\n{lines}\n\n## Next\n\n- `no/file.py`: added\n"
    return {change.path: change.mark.value for change in changes_in(document)}


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("- [src/a.py](src/a.py): changed", "changed"),
        ("- [`src/a.py`](../blob/main/src/a.py): changed", "changed"),
        ("- __src/a.py__: changed", "changed"),
        ("- **src/a.py**: added", "added"),
        ("- `src/a.py#L10-L20`: changed", "changed"),
        ("- `src/a.py:10-20`: changed", "changed"),
        ("- `src/a.py (line 10)`: changed", "changed"),
        ("- Add `src/a.py` handling: changed", "changed"),
        ("- Add `src/a.py` with retries", "added"),
        ("- `src/a.py`: added; checks the request.", "added"),
        ("- `src/a.py`: Added. Checks the request.", "added"),
        ("- `src/a.py` (new): checks", "added"),
        ("- `src/a.py` (new file)", "added"),
        ("- `src/a.py` - new", "added"),
        ("- **`src/a.py`** \u2013 created, with tests", "added"),
        ("- src/a.py: added", "added"),
        ("- src/a.py, added, the module", "added"),
        ("- Add `src/a.py`: the module", "added"),
        ("- [ ] Create `src/a.py`", "added"),
        ("- New: `src/a.py`", "added"),
        ("- [new] `src/a.py`", "added"),
        ("1. `src/a.py`: new module for leases", "added"),
        ("| `src/a.py` | added | the module |", "added"),
        ("| 1 | `src/a.py` | New | the module |", "added"),
        ("| add | src/a.py | the module |", "added"),
        ("`src/a.py`: added", "added"),
        ("**Added**\n\n- `src/a.py`", "added"),
        ("#### New files\n\n- `src/a.py`: the module", "added"),
        ("- Added:\n  - `src/a.py`", "added"),
        ("- `src/a.py`: changed; calls the new module.", "changed"),
        ("- `src/a.py` (modified)", "changed"),
        ("- Modify `src/a.py`", "changed"),
        ("- `src/a.py`: update the parser", "changed"),
        ("- `src/a.py`: will be extended", "changed"),
        ("| `src/a.py` | edit | text |", "changed"),
        ("- `src/a.py`: removed", "removed"),
        ("- Delete `src/a.py`", "removed"),
        ("| src/a.py | deleted |", "removed"),
        # It says what happens in the file, not to it.
        ("- `src/a.py`: add a retry", "unknown"),
        ("- `src/a.py`: added a retry loop", "unknown"),
        ("- `src/a.py`: new endpoint for keys", "unknown"),
        ("- `src/a.py`: added / changed / removed", "unknown"),
        ("- `src/a.py`: calls the new module", "unknown"),
        ("- `src/a.py`", "unknown"),
        ("- `src/a.py`: the module is new", "unknown"),
    ],
)
def test_the_mark_of_a_file(line: str, mark: str) -> None:
    assert marks(line) == {"src/a.py": mark}


def test_a_group_ends_with_the_next_one() -> None:
    lines = (
        "#### Added\n- `a/a.py`\n\n#### Changed\n- `a/b.py`\n- `a/c.py`: removed\n\n#### Notes\n- `a/d.py`"
    )
    assert marks(lines) == {"a/a.py": "added", "a/b.py": "changed", "a/c.py": "removed", "a/d.py": "unknown"}


def test_a_move_removes_one_path_and_adds_the_other() -> None:
    assert marks("- `src/a.py` -> `src/b.py`: the same") == {"src/a.py": "removed", "src/b.py": "added"}
    assert marks("- rename `src/a.py` to `src/b.py`") == {"src/a.py": "removed", "src/b.py": "added"}


def test_several_files_in_one_line_have_the_same_mark() -> None:
    assert marks("- `src/a.py`, `src/b.py`: changed") == {"src/a.py": "changed", "src/b.py": "changed"}


def test_a_file_that_is_listed_twice_counts_once_for_overlaps() -> None:
    assert files_changed("## Files changed\n\n- `a/b.py`: added\n- `a/b.py`: changed\n") == ("a/b.py",)


def test_added_in_several_designs() -> None:
    design = "## Files changed\n\n- `a/{}.py`: added\n- `a/old.py`: changed\n"
    assert added_in([design.format("x"), design.format("y")]) == {"a/x.py", "a/y.py"}


# Paths that cannot be right.


def change(path: str, mark: Mark = Mark.CHANGED) -> FileChange:
    return FileChange(path=path, mark=mark)


@pytest.mark.parametrize("mark", [Mark.CHANGED, Mark.REMOVED])
@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("src/pools.py", ("src/pool.py",)),
        ("lib/pool.py", ("src/pool.py",)),
        ("src/lease.py", ("src/keys/lease.py",)),
        ("src/Pool.py", ("src/pool.py",)),
        ("src/zebra/quagga.rs", ()),
        ("src/nothing/*.py", ()),
        ("pool.py", ("src/pool.py",)),
    ],
)
def test_what_is_changed_or_removed_must_exist(mark: Mark, path: str, nearest: tuple[str, ...]) -> None:
    (wrong,) = check_paths([change(path, mark)], TRACKED)
    assert (wrong.path, wrong.exists) == (path, False)
    assert wrong.nearest[: len(nearest)] == nearest
    assert nearest or not wrong.nearest


def test_the_nearest_path_with_the_same_name_comes_first() -> None:
    tracked = [f"pkg{number}/src/__init__.py" for number in range(2_000)]
    (wrong,) = check_paths([change("pkg1999/lib/__init__.py")], tracked)
    assert wrong.nearest[0] == "pkg1999/src/__init__.py"
    assert len(wrong.nearest) == 3


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("docs/advanced/auth.md", ("docs/advanced/authentication.md",)),
        ("docs/advanced/zebra.md", ("docs/advanced/authentication.md", "docs/advanced/proxies.md")),
        ("docs/nowhere/zebra.md", ()),
    ],
)
def test_a_wrong_name_leads_to_the_names_in_its_folder(path: str, nearest: tuple[str, ...]) -> None:
    tracked = ["docs/advanced/authentication.md", "docs/advanced/proxies.md", "docs/index.md", "setup.py"]
    (wrong,) = check_paths([change(path)], tracked)
    assert wrong.nearest == nearest


def test_what_is_added_must_not_exist() -> None:
    assert check_paths([change("src/pool.py", Mark.ADDED)], TRACKED) == (
        WrongPath(path="src/pool.py", exists=True),
    )


@pytest.mark.parametrize(
    "changes",
    [
        [change("src/pool.py")],
        [change("src")],  # a folder
        [change("src/keys")],
        [change("src/*.py")],
        [change("src/**/lease.py")],
        [change("src/{pool,other}.py")],
        [change("app/[id]/page.tsx")],
        [change("src/new.py", Mark.ADDED)],
        [change("src/keys", Mark.ADDED)],
        [change("src/unknown.py", Mark.UNKNOWN)],
        [change("Foo.bar")],  # a name in the code
        [change("src/planned.py")],  # another design adds it
        [change("src/new.py", Mark.ADDED), change("src/new.py")],
        [change("src/pool.py", Mark.REMOVED), change("src/pool.py", Mark.ADDED)],
        [change("src/pool.py", Mark.REMOVED), change("lib/pool.py", Mark.ADDED), change("lib/pool.py")],
    ],
)
def test_these_are_fine(changes: list[FileChange]) -> None:
    assert check_paths(changes, TRACKED, {"src/planned.py"}) == ()


def test_where_nothing_is_tracked_nothing_is_wrong() -> None:
    assert check_paths([change("src/gone.py")], ()) == ()


def test_how_a_wrong_path_is_shown() -> None:
    assert str(WrongPath(path="a.py", nearest=("b.py", "c.py"))) == "a.py (nearest: b.py, c.py)"
    assert str(WrongPath(path="a.py")) == "a.py"
    assert str(WrongPath(path="a.py", exists=True)) == "a.py (exists already)"


def test_only_some_wrong_paths_are_named() -> None:
    assert len(check_paths([change(f"src/{number}.py") for number in range(500)], TRACKED)) == 20


@given(st.text(alphabet="ab/.`*-|: \n#(new)added", max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    changes = changes_in(f"## Files changed\n{text}")
    assert {one.path for one in check_paths(changes, TRACKED)} <= {one.path for one in changes}


@pytest.mark.parametrize("piece", [" ", "`", "# ", "- `a", "#", "."])
def test_any_document_is_read_at_once(piece: str) -> None:
    """With a pattern that looks ahead without a bound, this test would not end."""
    text = piece * (300_000 // len(piece))
    assert changes_in(f"## Files changed\n\n- {text}x\n# {text}x\n") == ()


@pytest.mark.parametrize(
    "heading",
    [
        "Files to be changed",
        "Changed files",
        "Files modified",
        "Files changed (summary)",
        "Files changed <!-- x -->",
    ],
)
def test_usual_headings_of_the_section(heading: str) -> None:
    assert files_changed(f"## {heading}\n\n- `src/a.py`: changed\n") == ("src/a.py",)


@pytest.mark.parametrize(
    "where", ["### Geänderte Dateien <!-- files -->", "### Geänderte Dateien\n\n<!-- files -->"]
)
def test_a_template_may_name_the_section_in_any_language(where: str) -> None:
    headings = marked_headings(f"# Titel\n\n## Hintergrund\n\n{where}\n")
    decomposed = "### Gea\u0308nderte Dateien"
    for heading in ("### Geänderte Dateien", decomposed):
        document = f"{heading}\n\n- `src/a.py`: changed\n"
        assert [change.path for change in changes_in(document, headings)] == ["src/a.py"]
    assert changes_in("### Hintergrund\n\n- `src/a.py`: changed\n", headings) == ()


def test_names_that_look_like_emphasis_stay_whole() -> None:
    assert set(marks("- `src/__init__.py`: changed\n- src/__main__.py: changed\n- src/**/b.py: changed")) == {
        "src/__init__.py",
        "src/__main__.py",
        "src/**/b.py",
    }


@pytest.mark.parametrize(
    "heading",
    [
        "## 3. 変更ファイル",
        "## 3.1 変更ファイル",
        "## \uff13\uff0e変更ファイル",
        "## 変更ファイル\uff1a",
        "変更ファイル\n----",
    ],
)
def test_a_number_or_another_way_to_write_a_heading_makes_no_difference(heading: str) -> None:
    lines = (
        "- `src/a.py`\uff1achanged",
        "- src/b.py\uff08added\uff09",
        "\uff5c`src/c\uff08案\uff09.py`\uff5cremoved\uff5c",
    )
    document = "\n".join(["# T", "", heading, "", *lines, ""])
    for template in ("## 2. 変更ファイル <!-- files -->", "変更ファイル\n---\n\n<!-- files -->"):
        found = {one.path: one.mark.value for one in changes_in(document, marked_headings(template))}
        assert found == {"src/a.py": "changed", "src/b.py": "added", "src/c\uff08案\uff09.py": "removed"}


def test_a_mark_inside_code_marks_nothing() -> None:
    assert (
        marked_headings("## Dateien\n\n```\n<!-- files -->\n## Andere <!-- files -->\n```\n") == frozenset()
    )


def test_all_that_read_the_section_know_the_same_headings() -> None:
    headings = marked_headings("## Dateien <!-- files -->")
    design = "## Dateien\n\n- `a/x.py`: added\n- `a/old.py`: changed\n"
    assert files_changed(design, headings) == ("a/x.py", "a/old.py")
    assert added_in([design], headings) == {"a/x.py"}
