"""Names of items: what is typed, what a file is called, what it could be called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.errors import UsageError
from agentos.naming import (
    brief_id,
    check_name,
    ids_named,
    is_id,
    issue_id,
    proposal,
    safe_name,
    step_in_words,
)


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


@pytest.mark.parametrize(
    "name",
    [
        "42",
        "#42",
        "LLD-42",
        "42-some-title",
        "LLD-42-some-title",
        "42.md",
        "issues/active/42-some-title.md",
        "/a/b/42-some-title.md",
    ],
)
def test_every_way_to_name_item_42(name: str) -> None:
    check_name(name)
    assert "42" in ids_named(name, "LLD")


def test_the_label_counts_before_an_id_that_looks_like_one() -> None:
    assert ids_named("LLD-42", "LLD") == ("42", "LLD-42")
    assert ids_named("LLD-42", "ISSUE") == ("LLD-42",)


def test_a_brief_with_a_number_is_not_another_with_that_number() -> None:
    assert ids_named("42-title", "ISSUE", brief_id) == ("42-title",)
    assert ids_named("ideas/active/Dark Mode.md", "ISSUE", brief_id)[0] == "Dark-Mode"


@pytest.mark.parametrize("bad", ["", "#", "#x", "##1", "# 1", "a b", "../x", "-1", "#\u0664"])
def test_what_cannot_name_an_item_is_refused(bad: str) -> None:
    with pytest.raises(UsageError):
        check_name(bad)


@given(st.text(max_size=80), st.text(max_size=20), st.sampled_from([issue_id, brief_id]))
def test_a_proposal_is_a_free_id_and_stays_itself(stem: str, title: str, id_of: object) -> None:
    make = issue_id if id_of is issue_id else brief_id
    taken = {"item", "item.md", "1", "con"}
    found = proposal(stem, title=title, id_of=make, taken=taken)
    assert is_id(make(found))
    assert is_id(found)
    assert make(found).lower() not in taken


@given(st.lists(st.text(max_size=80), max_size=6))
def test_shown_names_are_safe_distinct_and_never_an_id(names: list[str]) -> None:
    shown: set[str] = set()
    for name in names:
        found = safe_name(name, shown)
        assert found not in shown
        assert not is_id(found)
        assert "/" not in found
        assert found.isascii()
        assert found.isprintable()
        shown.add(found)


def test_an_item_on_hold_waits_for_a_decision() -> None:
    assert [step_in_words(node) for node in ("hold", "draft", "")] == ["decision", "draft", ""]
