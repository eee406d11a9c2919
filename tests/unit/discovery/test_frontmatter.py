"""Front matter: the simple forms of title, labels and context are read, anything else is ignored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.discovery.frontmatter import MOST_PATHS, read_front_matter


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("title: Add login", "Add login"),
        ("title:   Add login   # for now", "Add login"),
        ("title: Fix #12", "Fix"),
        ("title: C#", "C#"),
        ('title: "Fix #12: \\"quotes\\""', 'Fix #12: "quotes"'),
        ('title: "x" # said', "x"),
        ("title: 'It''s here'", "It's here"),
        ("title: Two: parts", "Two: parts"),
        ("title:", ""),
        ("title: ", ""),
        ("title: |", ""),
        ("title: >-", ""),
        ("title: [a, b]", ""),
        ("title: *anchor", ""),
        ('title: "open', ""),
        ('title: "x" y', ""),
        ("  title: nested", ""),
        ("Title: other", ""),
        ("title:x", ""),
        ("subtitle: x", ""),
        ("title: first\ntitle: second", "first"),
    ],
)
def test_titles(line: str, title: str) -> None:
    assert read_front_matter(f"---\n{line}\n---\nText.").title == title


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        ("labels: [a, b]", ("a", "b")),
        ("labels: [a]", ("a",)),
        ("labels: [ 'a b' , \"c, d\", e f ]", ("a b", "c, d", "e f")),
        ("labels: a, b", ("a", "b")),
        ("labels: good first issue", ("good first issue",)),
        ("labels: a, b # both", ("a", "b")),
        ('labels: "a #1"', ("a #1",)),
        ("labels:\n- a\n- b", ("a", "b")),
        ("labels:\n  - a\n\n  # why\n  - 'b c'\nowner: me\n  - d", ("a", "b c")),
        ("labels: # below\n  - a", ("a",)),
        ("labels: [a, a]", ("a",)),
        ("labels: []", ()),
        ("labels:", ()),
        ("labels: [a, b", ()),
        ("labels: [a, [b]]", ()),
        ("labels: {a: b}", ()),
        ("labels:\n  - {name: a}", ()),
        ("labels:\n  name: a", ()),
        ('labels: "a', ()),
    ],
)
def test_labels(lines: str, labels: tuple[str, ...]) -> None:
    assert read_front_matter(f"---\n{lines}\n---\nText.").labels == labels


@pytest.mark.parametrize(
    ("lines", "context"),
    [
        ("context: [src/a.py, docs]", ("src/a.py", "docs")),
        ("context: src/a.py", ("src/a.py",)),
        ("context:\n  - src/a.py\n  - 'my notes.md'\nlabels: [a]", ("src/a.py", "my notes.md")),
        ("context: [a, [b]]", ()),
        ("labels: [a]", ()),
    ],
)
def test_context(lines: str, context: tuple[str, ...]) -> None:
    assert read_front_matter(f"---\n{lines}\n---\nText.").context == context


def test_one_item_names_a_limited_number_of_paths() -> None:
    named = "\n".join(f"- f{number}" for number in range(1000))
    assert len(read_front_matter(f"---\ncontext:\n{named}\n---\n").context) == MOST_PATHS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text",
        "# T\n---\ntitle: x\n---\n",
        "---\ntitle: x\n",
        " ---\ntitle: x\n---\n",
        "----\ntitle: x\n---\n",
    ],
)
def test_what_is_no_front_matter_is_text(text: str) -> None:
    found = read_front_matter(text)
    assert (found.title, found.labels, found.body) == ("", (), text)


@pytest.mark.parametrize("end", ["---", "...", "---  "])
def test_the_text_begins_after_it(end: str) -> None:
    assert read_front_matter(f"--- \ntitle: x\n{end}\n\n# T\n").body == "\n# T\n"


@given(st.text(alphabet="-\n: []{}\"'\\#,abtitlelabels", max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    found = read_front_matter("---\n" + text)
    assert all(found.labels)
