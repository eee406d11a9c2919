"""Reads a review written in Markdown, in the shape it was asked for or drifted from it. Pure."""

from agentos.review import ballot, blocks, entries, sections
from agentos.review.reading import Reading, settle
from agentos.review.sections import Part
from agentos.review.wording import clean


def read_markdown(text: str, *, strict: bool) -> Reading:
    """Read a review; a strict reader insists on the tiers, and on boxes for an approval."""
    document = blocks.parse(clean(text))
    if document.problem:
        return Reading.unreadable(document.problem)
    if not document.blocks:
        return Reading.unreadable("The review is empty.")
    parts = sections.split(document.blocks)
    findings = tuple(
        finding for part in parts if part.part is Part.TIER for finding in entries.findings_in(part)
    )
    questions = tuple(
        question for part in parts if part.part is Part.QUESTIONS for question in entries.questions_in(part)
    )
    tiers = {part.tier for part in parts if part.numbered}
    missing = next((number for number in (1, 2) if number not in tiers), None)
    if strict and missing:
        return Reading.unreadable(f"The review has no Tier {missing} section.")
    failed = any(ballot.gate_failed(part) for part in parts if part.part is Part.GATE)
    decision = settle(ballot.decide(parts, bare_approval=not strict), findings=findings, gate_failed=failed)
    return Reading(verdict=decision.verdict, findings=findings, questions=questions, reason=decision.reason)
