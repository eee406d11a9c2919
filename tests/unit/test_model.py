"""Ids, items and usage: what is refused before any work, and what adds up."""

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.errors import UsageError
from agentos.model import MAX_ID_LENGTH, Item, Status, check_distinct, check_id, counted

STEADY = settings(derandomize=True, database=None, deadline=None)


@pytest.mark.parametrize(
    "good", ["42", "a", "A-b_c", "_x", "dark-mode", "0", "x" * 64, "conx", "com10", "lpt", "nul-1"]
)
def test_letters_digits_underscore_and_dash_make_an_id(good: str) -> None:
    assert check_id(good) == good


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "-",
        "-1",
        "--all",
        "a b",
        "a/b",
        "../x",
        ".",
        "..",
        "a.md",
        "42\n",
        "\n42",
        "a\0",
        "ä",
        "٤٢",
        "a\x1b[0m",
        "a:b",
        "a\\b",
        "a*",
        "\ud800",
        "\u202e42",
        "😀",
    ],
)
def test_anything_else_is_refused_by_name(bad: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(bad))):
        check_id(bad)


def test_a_control_character_in_an_id_is_not_printed_raw() -> None:
    with pytest.raises(UsageError) as caught:
        check_id("a\x1b[2J")
    assert "\x1b" not in str(caught.value)


def test_an_id_has_at_most_64_characters() -> None:
    assert MAX_ID_LENGTH == 64
    with pytest.raises(UsageError, match="65 characters"):
        check_id("x" * 65)


@pytest.mark.parametrize("device", ["con", "CON", "Prn", "aux", "NUL", "com1", "COM9", "lpt1", "LPT9"])
def test_the_name_of_a_windows_device_is_refused(device: str) -> None:
    with pytest.raises(UsageError, match=f"{device}.*device"):
        check_id(device)


@STEADY
@given(st.text(max_size=80))
def test_an_id_that_passes_is_exactly_of_the_allowed_shape(text: str) -> None:
    try:
        check_id(text)
    except UsageError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}", text, re.ASCII)


def test_ids_that_differ_only_in_case_are_refused_together() -> None:
    with pytest.raises(UsageError, match=r"'Dark'.*'dark'"):
        check_distinct(["Dark", "other", "dark"])


def test_the_same_id_twice_and_different_ids_are_fine() -> None:
    check_distinct(["42", "42", "a", "b"])
    check_distinct([])


def item(text: str) -> Item:
    return Item(workflow="lld", id="42", label="LLD-42", title="T", text=text, source="issues/active/42.md")


def test_the_hash_of_an_item_follows_its_text_alone() -> None:
    assert item("a").input_hash == dataclasses.replace(item("a"), title="other").input_hash
    assert item("a").input_hash != item("b").input_hash
    assert item("ä😀").input_hash == item("ä😀").input_hash


@pytest.mark.parametrize(("number", "told"), [(0, "0 items"), (1, "1 item"), (2, "2 items")])
def test_one_is_not_plural(number: int, told: str) -> None:
    assert counted(number, "item") == told


def test_the_statuses_are_those_of_the_summary() -> None:
    assert {status.value for status in Status} == {
        "approved",
        "needs_revision",
        "discuss",
        "failed",
        "timed_out",
        "interrupted",
        "paused",
        "pending",
        "skipped",
    }
