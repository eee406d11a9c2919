"""Which files a design changes, and which designs change the same ones."""

import pytest

from agentos.files_changed import files_changed, marked_headings
from agentos.report.overlaps import Overlap, overlaps

DESIGN = """# LLD-42: Something

## 2. Proposed changes

The module `src/other.py` is read, not changed.

### Files changed

- `src/item_42/service.py`: added; checks the request, calls `helper.py`.
- `src/item_42/settings.py`
* src/bare/path.py - changed
1. `tests/test_item_42.py`: added

Prose that names `src/prose.py` in its middle, and and/or says nothing.

## 3. Data

- `src/later.py`: not under the heading any more
"""


def changed(lines: str, heading: str = "## Files changed") -> tuple[str, ...]:
    return files_changed(f"# Title\n\n{heading}\n\n{lines}\n")


def test_the_list_under_the_heading_is_read_and_nothing_else() -> None:
    assert files_changed(DESIGN) == (
        "src/item_42/service.py",
        "src/item_42/settings.py",
        "src/bare/path.py",
        "tests/test_item_42.py",
    )


@pytest.mark.parametrize(
    "heading",
    [
        "# Files changed",
        "###### files Changed",
        "## 2.1 Files Changed",
        "### **Files changed**:",
        "## Files changed ##",
    ],
)
def test_the_heading_may_stand_at_any_level(heading: str) -> None:
    assert changed("- `a/b.py`", heading) == ("a/b.py",)


@pytest.mark.parametrize(
    "heading", ["## Files", "## Why files changed hands", "Files changed", "#Files changed"]
)
def test_another_heading_is_not_it(heading: str) -> None:
    assert changed("- `a/b.py`", heading) == ()


def test_a_table_gives_the_first_path_of_each_row() -> None:
    rows = "| 1 | `src/a.py` | reads `src/b.py` |\n| 2 | src/c.py | new |"
    assert changed(f"| # | file | why |\n| --- | --- | --- |\n{rows}") == ("src/a.py", "src/c.py")


def test_sub_headings_belong_to_it_and_the_next_of_its_level_ends_it() -> None:
    assert changed("### Added\n- `a/b.py`\n### Removed\n- `a/c.py`\n## Files read\n- `a/d.py`") == (
        "a/b.py",
        "a/c.py",
    )


def test_each_file_is_named_once_in_one_spelling() -> None:
    assert changed("- `./src//a.py`\n- `src/a.py`\n- `src\\a.py`\n- `src/pkg/`") == ("src/a.py", "src/pkg")


@pytest.mark.parametrize(
    "line",
    [
        "- `../secrets.txt`: leads outside",
        "- `a/../../b.py`",
        "- `/etc/passwd`",
        "- `~/notes.md`",
        "- `https://example.org/a.py`",
        "- `C:\\Windows\\a.py`",
        "- None.",
        "- nothing yet",
        "- The service, and its tests: see `src/a.py`",
        "Only prose about `src/a.py` here.",
        "`src/a.py` is read by the service but stays as it is.",
        "- ",
        "- ``",
        "| file | why |",
    ],
)
def test_what_is_no_path_is_passed_over(line: str) -> None:
    assert changed(line) == ()


@pytest.mark.parametrize(
    "name", ["Makefile", "README.md", ".gitignore", "pyproject.toml", "src/[id]/page.tsx"]
)
def test_files_without_a_folder_or_with_odd_names(name: str) -> None:
    assert changed(f"- `{name}`: changed") == (name,)


def test_a_fence_is_an_example_and_no_list() -> None:
    assert changed("```\n- `a/b.py`\n## Files changed\n```\n- `a/c.py`") == ("a/c.py",)
    assert files_changed("```\n## Files changed\n- `a/b.py`\n```\n") == ()


def test_a_document_without_the_heading_or_without_end() -> None:
    assert files_changed("") == ()
    assert files_changed("## Files changed") == ()
    assert len(changed("\n".join(f"- `src/{number}.py`" for number in range(5000)))) == 500


def test_items_that_change_the_same_files_are_grouped() -> None:
    found = overlaps(
        {
            "LLD-10": "## Files changed\n- `a.py`\n- `b.py`\n- `z.py`",
            "LLD-9": "## Files changed\n- `b.py`\n- `a.py`",
            "LLD-11": "## Files changed\n- `z.py`\n- `only.py`",
            "LLD-12": "nothing",
        }
    )
    assert found == (
        Overlap(items=("LLD-9", "LLD-10"), files=("a.py", "b.py")),
        Overlap(items=("LLD-10", "LLD-11"), files=("z.py",)),
    )


def test_the_widest_overlap_comes_first_and_none_is_none() -> None:
    text = "## Files changed\n- `shared.py`\n"
    found = overlaps({"A-1": text + "- `x.py`", "A-2": text + "- `x.py`", "A-3": text})
    assert [one.items for one in found] == [("A-1", "A-2", "A-3"), ("A-1", "A-2")]
    assert overlaps({}) == ()
    assert overlaps({"A-1": text}) == ()


def test_designs_in_another_language_are_compared_with_each_other_and_with_english_ones() -> None:
    german, english = "## Dateien\n\n- `a.py`: changed\n", "## Files changed\n\n- `a.py`: changed\n"
    (found,) = overlaps(
        {"A-1": german, "A-2": german, "A-3": english}, marked_headings("## Dateien <!-- files -->")
    )
    assert found == Overlap(items=("A-1", "A-2", "A-3"), files=("a.py",))
