"""Reads a review written in Markdown, in the requested shape or close to it. Pure."""

from agentos.review import blocks, sections, verdict_section
from agentos.review.findings import findings_in, questions_in
from agentos.review.parsed_review import ParsedReview, settle
from agentos.review.phrases import clean
from agentos.review.sections import Part


def read_markdown(text: str, *, strict: bool) -> ParsedReview:
    """Read a review; `strict` requires the tiers, and boxes for an approval."""
    document = blocks.parse(clean(text))
    if document.problem:
        return ParsedReview.unreadable(document.problem)
    if not document.blocks:
        return ParsedReview.unreadable("The review is empty.")
    parts = sections.split(document.blocks)
    findings = tuple(finding for part in parts if part.part is Part.TIER for finding in findings_in(part))
    questions = tuple(
        question for part in parts if part.part is Part.QUESTIONS for question in questions_in(part)
    )
    tiers = {part.tier for part in parts if part.numbered}
    missing = next((number for number in (1, 2) if number not in tiers), None)
    if strict and missing:
        return ParsedReview.unreadable(f"The review has no Tier {missing} section.")
    failed = any(verdict_section.gate_failed(part) for part in parts if part.part is Part.GATE)
    decision = settle(
        verdict_section.decide(parts, bare_approval=not strict), findings=findings, gate_failed=failed
    )
    return ParsedReview(
        verdict=decision.verdict, findings=findings, questions=questions, reason=decision.reason
    )
