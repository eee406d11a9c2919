"""Reads a review written in Markdown, in the requested shape or close to it. Pure."""

from agentos.review import blocks, sections, verdict_section
from agentos.review.findings import findings_in, questions_in
from agentos.review.parsed_review import ParsedReview, settle
from agentos.review.phrases import clean
from agentos.review.sections import SectionKind


def read_markdown(text: str, *, strict: bool) -> ParsedReview:
    """Read a review; `strict` requires the tiers, and boxes for an approval."""
    document = blocks.parse(clean(text))
    if document.problem:
        return ParsedReview.unreadable(document.problem)
    if not document.blocks:
        return ParsedReview.unreadable("The review is empty.")
    found = sections.split(document.blocks)
    findings = tuple(
        finding for section in found if section.kind is SectionKind.TIER for finding in findings_in(section)
    )
    questions = tuple(
        question
        for section in found
        if section.kind is SectionKind.QUESTIONS
        for question in questions_in(section)
    )
    tiers = {section.tier for section in found if section.numbered}
    missing = next((number for number in (1, 2) if number not in tiers), None)
    if strict and missing:
        return ParsedReview.unreadable(f"The review has no Tier {missing} section.")
    failed = any(
        verdict_section.gate_failed(section) for section in found if section.kind is SectionKind.GATE
    )
    decision = settle(
        verdict_section.decide(found, bare_approval=not strict), findings=findings, gate_failed=failed
    )
    return ParsedReview(
        verdict=decision.verdict, findings=findings, questions=questions, reason=decision.reason
    )
