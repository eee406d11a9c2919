"""Any string at all gets a reading, soon, and never an approval that the reviewer did not give."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.review import Verdict, read_document, read_reply
from agentos.review.schema import Kind

MEGABYTES_5 = 5_000_000
PARSED = 200_000  # characters, short enough to be parsed
SECONDS = 4.0  # of this process, so that a busy machine does no harm

BOXES = "[x] **APPROVED** - Ready\n[ ] **REVISE** - Fix\n[ ] **DISCUSS** - Ask"
APPROVAL = f"## Tier 1\nNone.\n\n## Tier 2\nNone.\n\n## Verdict\n{BOXES}\n"

PIECES = [
    "# ", "## Verdict\n", "## Tier 1: BLOCKING\n", "## Tier 2\n", "### Cost\n", "- ", "* ", "  ", "    ",
    "\n", "\n\n", "[x] ", "[ ] ", "[X]", "**APPROVED**", "**REVISE**", "DISCUSS", "- [ ] **Leak:** x",
    "```\n", "~~~\n", "> ", "<!--", "-->", "<div>", "</div>", "<pre>", "---\n", "1. ", "\\", "`", "~~",
    "\x00", "\ud800", "\u2028", "\r", "\t", "{", "}", '{"verdict": "APPROVED"}', "None.",
    "No issues found.", ":", " - ", "but", "\u2705",
]  # fmt: skip
SOUP = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
ANYTHING = SOUP | st.text(st.characters(codec=None, exclude_categories=[]), max_size=200)


@settings(max_examples=120, deadline=None)
@given(text=ANYTHING, kind=st.sampled_from(["lld", "issue"]))
def test_no_text_raises(text: str, kind: Kind) -> None:
    for reading in (read_document(text), read_reply(text, kind)):
        assert isinstance(reading.verdict, Verdict)
        assert (reading.verdict is not Verdict.UNREADABLE) or reading.reason
        repr(reading.as_dict()).encode("utf-8")


@settings(max_examples=120, deadline=None)
@given(text=SOUP)
def test_an_approved_reply_has_no_blocking_finding_and_all_its_parts(text: str) -> None:
    reading = read_reply(text, "lld")
    if reading.verdict is Verdict.APPROVED:
        assert all(finding.tier > 1 for finding in reading.findings)
        assert "## Tier 1" in text
        assert "## Tier 2" in text


@settings(max_examples=60, deadline=None)
@given(
    before=st.text(st.sampled_from("ab #-*\n1."), max_size=30),
    wrap=st.sampled_from(
        ["```\n{}\n```", "~~~~ md\n{}\n~~~~", "<!--\n{}\n-->", "<pre>\n{}\n</pre>", "<script>\n{}\n</script>"]
    ),
    after=st.text(st.sampled_from("ab #-*\n1."), max_size=30),
)
def test_nothing_inside_a_fence_or_comment_is_an_approval(before: str, wrap: str, after: str) -> None:
    text = f"{before}\n\n{wrap.format(APPROVAL)}\n\n{after}"
    assert read_document(text).verdict is Verdict.UNREADABLE
    assert read_reply(text, "lld").verdict is Verdict.UNREADABLE


@settings(max_examples=60, deadline=None)
@given(
    before=st.text(st.sampled_from("ab #-*\n1."), max_size=30),
    prefix=st.sampled_from(["> ", ">", "     ", "\t", "> > "]),
    after=st.text(st.sampled_from("ab #*\n1."), max_size=30),
)
def test_nothing_quoted_or_indented_is_an_approval(before: str, prefix: str, after: str) -> None:
    quoted = "".join(prefix + line for line in APPROVAL.splitlines(keepends=True))
    text = f"{before}\n\nText\n\n{quoted}\n\n{after}"
    assert read_document(text).verdict is Verdict.UNREADABLE


HOSTILE = {
    "letters": "a", "lines": "a\n", "bullets": "- a\n", "nested bullets": "- ", "quotes": ">",
    "quoted lists": "> - ", "boxes": "[x] ", "box lines": "[ ] **APPROVED**\n", "brackets": "[",
    "ticks": "`", "ticks and text": "`a``b", "stars": "*", "bold": "**a", "fences": "```\n",
    "comments": "<!--", "comment lines": "a <!-- b\n", "tags": "<a", "spaces": " ", "dashes": "- - -\n",
    "rules": "a\n---\n", "numbers": "1.\n", "headings": "# Verdict\n", "tiers": "## Tier 1\n- a\n",
    "backslashes": "\\", "braces": "{", "object": '{"a":', "array": "[[", "nulls": "\x00",
    "surrogates": "\ud800", "carriage returns": "\r", "placeholders": "No issues found ",
    "dashes and spaces": " -", "digits": "9",
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "size"),
    [*((case, PARSED) for case in HOSTILE), *((case, MEGABYTES_5) for case in ("surrogates", "object"))],
)
def test_hostile_texts_take_little_time(case: str, size: int) -> None:
    piece = HOSTILE[case]
    text = "## Tier 1\n- [ ] **" + piece * (size // len(piece)) + "\n\n## Verdict\n" + piece * 20_000
    started = time.process_time()
    assert read_reply(text, "lld").verdict is Verdict.UNREADABLE
    assert time.process_time() - started < SECONDS


def test_text_of_many_short_lines_is_read_within_its_limit() -> None:
    quoted = (">" * 30 + " a\nb\n") * 1_500
    started = time.process_time()
    read_document(quoted + APPROVAL)
    read_document("- > a\n" * 3_000 + APPROVAL)
    assert time.process_time() - started < SECONDS


def test_a_long_review_is_still_read() -> None:
    findings = "".join(f"- [ ] **Finding {n}:** {'words ' * 20}\n" for n in range(1_500))
    text = f"## Tier 1\nNone.\n\n## Tier 2\n### Quality\n{findings}\n## Verdict\n{BOXES}\n"
    reading = read_reply(text, "lld")
    assert reading.verdict is Verdict.APPROVED
    assert len(reading.findings) == 1_500


def test_what_is_too_long_says_so() -> None:
    assert all("too long" in read_reply(APPROVAL + piece * 1_000_000, "lld").reason for piece in ("a", "\r"))


def test_deep_nesting_says_so() -> None:
    assert "nested too deeply" in read_document("- " * 50 + "x\n\n" + APPROVAL).reason
