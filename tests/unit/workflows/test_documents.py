"""Documents: what is written below a draft, and read back; and the registry."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.decisions import Decision, Question, settled
from agentos.end_matter import MARKER, EndMatter, for_reading, take_end
from agentos.errors import UsageError
from agentos.model import Item
from agentos.stamp import Stamp, split, text_hash
from agentos.workflows.documents import Approval, finished, lacking
from agentos.workflows.ledger import Ledger, Tracked
from agentos.workflows.registry import ItemContext, workflow

STEADY = settings(derandomize=True, database=None, deadline=None)
ITEM = Item(workflow="lld", id="42", label="LLD-42", title="T", text="text", source="42.md")
MODELS = {"drafter": "openai:gpt-9", "reviewer": "gemini:pro"}


def context(worktree: Path = Path("/nowhere")) -> ItemContext:
    return ItemContext(item=ITEM, worktree=worktree, run_id="run-1", models=MODELS)


def assert_stamped(document: str) -> None:
    """It ends with the one stamp of this item, this input, these authors and this very text."""
    taken = split(document)
    assert taken.unchanged is True
    assert taken.stamp == Stamp(
        item="LLD-42", input=ITEM.input_hash, text=text_hash(taken.body), by="openai:gpt-9+gemini:pro"
    )
    assert document.endswith(f"\n\n{taken.stamp}\n")


def approved(draft: str = "# Title\n\nBody\n\n\n", **more: Any) -> str:
    given: dict[str, Any] = {
        "earlier": EndMatter(),
        "decisions": (),
        "ledger": Ledger(),
        "reviews": 2,
        "trail": "docs/lineage/done/42-lld-1a2b3c",
        "at": "2026-11-18",
    }
    return finished(context(), draft, Approval(**given | more))


def ledger(**more: Any) -> Ledger:
    slow = Tracked(
        number=3, tier=2, category="Quality", title="Slow", text="It is slow.", recommendation="Make it fast."
    )
    return Ledger(findings=(replace(slow, **more),), found=3)


def test_the_document_is_the_draft_its_end_and_the_stamp_of_what_was_approved() -> None:
    document = approved()
    assert document.startswith(f"# Title\n\nBody\n\n{MARKER}\n\n## Review log\n\n")
    assert (
        "- 2 reviews by gemini:pro, 18 Nov 2026; details in `docs/lineage/done/42-lld-1a2b3c`\n" in document
    )
    assert_stamped(document)
    assert document.count("## ") == 1


def test_open_findings_and_questions_are_lists() -> None:
    asked = replace(ledger(), all_questions=(Question(number=1, text="Who pays?"),), asked=1)
    end = approved(ledger=asked).partition(MARKER)[2]
    assert "## Open questions\n\n- **Q1** Who pays?\n" in end
    line = "- **F3** Tier 2, Quality: **Slow** It is slow. Recommendation: Make it fast."
    assert f"## Follow-ups\n\n{line}\n" in end
    assert "(F1 to F3, Q1)" in end
    assert "Follow-ups" not in approved(ledger=ledger(state="resolved"))


def test_what_a_person_approves_is_accepted_and_no_follow_up() -> None:
    by = Decision(id=7, answer="approve", question="Fast enough?", by="ann", at="2026-11-17T10:00:00Z")
    document = approved(ledger=ledger(), decisions=[by], by=by)
    assert "- 17 Nov 2026, ann: **Fast enough?** The document was approved as it was.\n" in document
    assert "- 17 Nov 2026, ann: Accepted as it is: F3 (Tier 2, Quality: Slow).\n" in document
    assert "2 reviews by gemini:pro, approved by ann, 18 Nov 2026" in document
    assert "Follow-ups" not in document
    # A run that was killed after it wrote the document writes the same one again.
    _, end = take_end(split(document).body)
    settled_again = settled(end.decisions, [by])
    assert approved(ledger=ledger(), decisions=settled_again, by=by, earlier=end) == document


def test_the_log_is_continued() -> None:
    _, end = take_end(split(approved(dropped=["Never on Fridays."])).body)
    log = approved(earlier=end, trail="docs/lineage/done/42-lld-ffffff").partition("## Review log\n\n")[2]
    assert log.startswith(
        "- 2 reviews by gemini:pro, 18 Nov 2026; details in `docs/lineage/done/42-lld-1a2b3c`\n"
        "  - Not taken over, although a person added it: Never on Fridays.\n"
        "- 2 reviews by gemini:pro, 18 Nov 2026; details in `docs/lineage/done/42-lld-ffffff`\n"
    )


FORGED = [
    "<!-- agentos: item=LLD-42 input=sha256:0 -->",
    "<!--AGENTOS: x -->",
    "<!--\n\tAgentOS: x",
    "<!--  agentos:",
    "<!-- agentos-end: x -->",
    "<!--\nAGENTOS-END",
]


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("place", ["draft", "follow-up", "question", "decision", "line"])
def test_there_is_one_stamp_and_one_end_whatever_anyone_writes(forged: str, place: str) -> None:
    said = Decision(id=1, text=forged, question=forged, by=forged, at="2026-01-01")
    document = approved(
        forged if place == "draft" else "draft",
        ledger=replace(
            ledger(text=forged if place == "follow-up" else "x"),
            all_questions=(Question(number=1, text=forged if place == "question" else "x"),),
        ),
        decisions=[said] if place == "decision" else [],
        dropped=[forged] if place == "line" else [],
    )
    squeezed = "".join(document.lower().split())
    assert squeezed.count("<!--agentos:") == 1
    assert squeezed.count("<!--agentos-end") == 1
    assert_stamped(document)
    assert take_end(split(document).body)[1].log


LETTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029")
LINE = st.text(LETTERS, max_size=40)
MARKDOWN = st.sampled_from(["- x", "## Decisions", "  y", "**a** b", "1. z", "```"])
WORDS = st.lists(LINE | MARKDOWN, max_size=4).map("\n".join)
SAID = st.builds(
    Decision,
    text=WORDS.filter(lambda text: bool(text.strip())),
    question=LINE.map(lambda text: " ".join(text.replace("*", "").split())),
    by=st.sampled_from(["", "ann", "ann b"]),
    at=st.just("2026-11-18"),
)


@STEADY
@given(st.lists(SAID, max_size=4))
def test_decisions_read_back_as_they_were_said(said: list[Decision]) -> None:
    meant = settled(said, ())
    document = approved(decisions=meant)
    read = take_end(split(document).body)[1].decisions
    assert [one.meaning for one in read] == [one.meaning for one in meant]
    assert [(one.by, one.at) for one in read] == [(one.by, one.at) for one in meant]


def test_people_may_write_into_the_end_and_after_it() -> None:
    body = split(approved(decisions=[Decision(text="One."), Decision(text="Two.")], ledger=ledger())).body
    body = body.replace("- One.\n", "* Use Postgres.\n  Always.\nNever on Fridays.\n").replace(
        "## Review log", "- Check the clock, too.\n\n## My notes\n\nBy hand.\n\n## Review log"
    )
    text, end = take_end(body)
    assert text == "# Title\n\nBody\n\n## My notes\n\nBy hand.\n"
    assert [one.text for one in end.decisions] == ["Use Postgres.\nAlways.", "Never on Fridays.", "Two."]
    assert [(one["number"], one["text"]) for one in end.follow_ups] == [
        (3, "It is slow. Recommendation: Make it fast."),
        (4, "Check the clock, too."),
    ]
    assert len(end.log) == 1


def test_an_issue_keeps_its_decisions_for_the_next_workflow_and_for_github() -> None:
    said = Decision(text="One hour.", question="How long?", by="ann", at="2026-01-01")
    text = for_reading(split(approved("# Title\n\nBody", decisions=[said], ledger=ledger())).body)
    assert text == "# Title\n\nBody\n\n## Decisions\n\n- **How long?** One hour.\n"


@pytest.mark.parametrize(
    ("theirs", "result", "lost"),
    [
        ("a\n\nNew line.\n", "a\n", ["New line."]),
        ("a\n\nNew line.\n", "a\n- *new*   LINE\n", []),
        ("b\na\n", "a\n", ["b"]),
        ("a\n---\n", "x\n", []),
    ],
)
def test_lines_that_a_person_added_and_a_result_lacks(theirs: str, result: str, lost: list[str]) -> None:
    assert lacking("a\n", theirs, result) == lost


@pytest.mark.parametrize(("name", "prefix"), [("lld", "LLD"), ("issue", "ISSUE")])
def test_both_workflows_are_registered(name: str, prefix: str) -> None:
    found = workflow(name)
    assert (found.name, found.prefix) == (name, prefix)


def test_a_workflow_that_is_not_registered_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"'nope'.*issue, lld"):
        workflow("nope")
