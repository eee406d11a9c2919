"""Replies by the schema: the whole of it, once, or not at all."""

import inspect
import json
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from agentos.review import (
    Finding,
    StructuredReview,
    Verdict,
    read_document,
    read_reply,
    review_schema,
    structured_review,
)

LOOP = {
    "category": "Cost",
    "title": "**Loop:**",
    "text": "It never\n\n  ends.",
    "recommendation": "Bound it.",
}
TESTS = {"category": "Quality", "title": "Tests", "text": "Too few.", "recommendation": ""}


def reply(**changes: Any) -> dict[str, Any]:
    return {
        "identity": "I am the reviewer.",
        "pre_flight": {"passed": True, "note": ""},
        "summary": "A sound design.",
        "tier1": [],
        "tier2": [],
        "suggestions": [],
        "questions": [],
        "verdict": "APPROVED",
    } | changes


def verdict(text: str) -> Verdict:
    assert read_document(text).verdict is read_reply(text, "lld").verdict
    return read_reply(text, "lld").verdict


@pytest.mark.parametrize("word", ["APPROVED", "REVISE", "DISCUSS"])
def test_the_verdict_is_taken_as_given(word: str) -> None:
    reading = read_reply(json.dumps(reply(verdict=word)), "lld")
    assert reading.verdict.value == word
    assert reading.reason == ""


def test_findings_and_questions() -> None:
    text = json.dumps(
        reply(
            tier1=[LOOP],
            tier2=[TESTS],
            suggestions=["**Label:** add one", "None.", ""],
            questions=["Who pays?", "None"],
            verdict="REVISE",
        )
    )
    reading = read_reply(text, "issue")
    assert reading.findings == (
        Finding(tier=1, category="Cost", title="Loop", text="It never\nends.", recommendation="Bound it."),
        Finding(tier=2, category="Quality", title="Tests", text="Too few.", recommendation=""),
        Finding(tier=3, category="Suggestion", title="Label", text="add one", recommendation=""),
    )
    assert reading.questions == ("Who pays?",)


def test_an_approval_beside_a_blocking_finding_is_revise() -> None:
    reading = read_reply(json.dumps(reply(tier1=[LOOP])), "lld")
    assert reading.verdict is Verdict.REVISE
    assert reading.reason == 'APPROVED with the open Tier 1 finding "Cost: Loop" is read as REVISE.'


def test_an_approval_beside_a_high_priority_finding_stands() -> None:
    assert verdict(json.dumps(reply(tier2=[TESTS]))) is Verdict.APPROVED


def test_an_approval_beside_a_failed_gate_is_revise() -> None:
    assert verdict(json.dumps(reply(pre_flight={"passed": False, "note": "No link."}))) is Verdict.REVISE


def test_a_placeholder_is_no_finding() -> None:
    nothing = {"category": "Cost", "title": "No issues found", "text": "", "recommendation": ""}
    assert verdict(json.dumps(reply(tier1=[nothing]))) is Verdict.APPROVED
    assert verdict(json.dumps(reply(tier1=[nothing | {"text": "The loop never ends."}]))) is Verdict.REVISE
    assert verdict(json.dumps(reply(tier1=[nothing | {"recommendation": "Bound it."}]))) is Verdict.REVISE


@pytest.mark.parametrize("wrap", ["```json\n{}\n```", " \n```JSON\n{}\n```\n\n", "\ufeff{}", "\n\n{}\n"])
def test_one_fence_around_all_of_it_is_allowed(wrap: str) -> None:
    text = wrap.replace("{}", json.dumps(reply(), indent=2))
    assert verdict(text) is Verdict.APPROVED
    assert structured_review(text) is not None


GOOD = json.dumps(reply())


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{",
        "null",
        "[]",
        "true",
        '"APPROVED"',
        GOOD[:-1],
        GOOD[:-40],
        GOOD + "}",
        GOOD + " trailing",
        GOOD + GOOD,
        f"Here it is:\n{GOOD}",
        f"[{GOOD}]",
        f"```\n{GOOD}\n```",
        f"```json\n{GOOD}\n```\nDone.",
        f"Here:\n```json\n{GOOD}\n```",
        f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```",
        f"```json\n{GOOD}\n",
        f"> {GOOD}",
        GOOD.replace('"verdict": "APPROVED"', '"verdict": "REVISE", "verdict": "APPROVED"'),
        GOOD.replace('"passed": true', '"passed": false, "passed": true'),
        GOOD.replace('"APPROVED"', '"approved"'),
        GOOD.replace('"APPROVED"', '"BLOCKED"'),
        GOOD.replace('"APPROVED"', '["APPROVED"]'),
        GOOD.replace('"APPROVED"', "null"),
        GOOD.replace("true", '"true"'),
        GOOD.replace("true", "1"),
        GOOD.replace('"tier1": []', '"tier1": null'),
        GOOD.replace('"tier1": []', '"tier1": [{}]'),
        GOOD.replace('"tier1": []', '"tier1": NaN'),
        GOOD.replace('"tier1": []', f'"tier1": {"9" * 5000}'),
        GOOD.replace('"tier1": [], ', ""),
        GOOD.replace("sound", "so\nund"),
        json.dumps(reply(confidence=1)),
        json.dumps(reply(tier1=[LOOP | {"severity": "high"}])),
        json.dumps(reply(tier1=[LOOP | {"category": "Quality"}])),
        json.dumps(reply(tier1=[LOOP | {"title": " ** : "}])),
        json.dumps(reply(tier2=[TESTS | {"category": "Cost"}])),
        json.dumps(reply(suggestions=[1])),
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_anything_else_is_unreadable(text: str) -> None:
    reading = read_reply(text, "lld")
    assert reading.verdict is Verdict.UNREADABLE
    assert reading.reason
    assert "\n" not in reading.reason
    assert len(reading.reason) < 300
    assert read_document(text).verdict is Verdict.UNREADABLE
    assert structured_review(text) is None


def test_half_a_character_is_made_visible() -> None:
    text = GOOD.replace("sound", "\\ud800 \\u0000")
    review = structured_review(text)
    assert review is not None
    assert review.summary == "A \ufffd \ufffd design."
    assert "\ufffd" in review.model_dump_json()


def test_an_issue_has_no_observability() -> None:
    text = json.dumps(reply(tier2=[TESTS | {"category": "Observability"}]))
    assert read_reply(text, "lld").verdict is Verdict.APPROVED
    assert read_reply(text, "issue").verdict is Verdict.UNREADABLE
    assert read_document(text).verdict is Verdict.APPROVED


def test_a_deep_stack_of_the_caller_does_no_harm() -> None:
    def deep(left: int) -> Verdict:
        return deep(left - 1) if left else read_reply("> " * 30 + "- " * 30 + "x", "lld").verdict

    depth = len(inspect.stack(context=0))
    for spare in (30, 45, 60):
        assert deep(sys.getrecursionlimit() - depth - spare) is Verdict.UNREADABLE


def test_the_schema_is_closed_and_needs_no_references() -> None:
    schema = review_schema("lld")
    assert "$ref" not in json.dumps(schema)
    assert schema["title"] == "review"
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(StructuredReview.model_fields)
    finding = schema["properties"]["tier2"]["items"]
    assert finding["additionalProperties"] is False
    assert list(finding["properties"]) == ["category", "title", "text", "recommendation"]
    assert finding["properties"]["category"]["enum"] == ["Architecture", "Observability", "Quality"]
    issue = review_schema("issue")["properties"]["tier2"]["items"]
    assert issue["properties"]["category"]["enum"] == ["Architecture", "Quality"]


def test_a_review_cannot_be_changed() -> None:
    review = structured_review(GOOD)
    assert review is not None
    with pytest.raises(ValidationError):
        review.verdict = "REVISE"
