"""Where a prompt may be cached, and what each format is told."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.llm.prompt_cache import MARKS_MOST, cache_key, marked_content
from agentos.llm.provider import ModelRequest

SHARED, ITEM = "s" * 6_000, "i" * 2_000
REQUEST = ModelRequest(
    role="drafter",
    model="m",
    number=1,
    system="You write.",
    prompt=f"{SHARED}{ITEM}round 1",
    breaks=(6_000, 8_000),
)


def test_each_reusable_part_ends_with_a_mark() -> None:
    content = marked_content(REQUEST)
    assert isinstance(content, list)
    assert [block["text"] for block in content] == [SHARED, ITEM, "round 1"]
    assert ["cache_control" in block for block in content] == [True, True, False]


def test_a_part_that_is_too_short_is_not_marked() -> None:
    assert marked_content(replace(REQUEST, breaks=())) == REQUEST.prompt
    assert marked_content(replace(REQUEST, breaks=(100,))) == REQUEST.prompt
    content = marked_content(replace(REQUEST, breaks=(100, 6_000)))
    assert [len(block["text"]) for block in content if isinstance(block, dict)] == [6_000, 2_007]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-5, 9_000), max_size=12))
def test_whatever_the_breaks_are_the_text_stays_and_marks_are_few(breaks: list[int]) -> None:
    content = marked_content(replace(REQUEST, breaks=tuple(breaks)))
    blocks = content if isinstance(content, list) else [{"text": content}]
    assert "".join(block["text"] for block in blocks) == REQUEST.prompt
    assert all(block["text"] for block in blocks)
    assert sum("cache_control" in block for block in blocks) <= MARKS_MOST


def test_calls_with_the_same_start_have_the_same_key() -> None:
    key = cache_key(REQUEST)
    assert key == cache_key(replace(REQUEST, number=2, prompt=f"{SHARED}another item"))
    assert key != cache_key(replace(REQUEST, role="reviewer"))
    assert key != cache_key(replace(REQUEST, system="You review."))
    assert key != cache_key(replace(REQUEST, prompt="x" + REQUEST.prompt))
    assert cache_key(replace(REQUEST, breaks=())) is None
