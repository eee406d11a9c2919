"""Writes a structured review as the Markdown document people read. Pure.

The model's text cannot add structure: the document, read back, says what the review said.
"""

from collections.abc import Iterable, Iterator, Sequence

from agentos.review.parsed_review import Finding
from agentos.review.phrases import clean, escape_inline, escape_line, escape_title, tidy
from agentos.review.schema import Kind, StructuredReview

SO_FAR = "## Findings So Far"
_NAMES: dict[Kind, str] = {"lld": "LLD Review", "issue": "Issue Review"}
_BLOCKING: dict[Kind, tuple[str, ...]] = {
    "lld": ("Cost", "Safety", "Security", "Legal"),
    "issue": ("Security", "Safety", "Cost", "Legal"),
}
_HIGH: dict[Kind, tuple[str, ...]] = {
    "lld": ("Architecture", "Observability", "Quality"),
    "issue": ("Quality", "Architecture"),
}
_ACTIONABLE: dict[Kind, str] = {"lld": "LLD is approved for implementation.", "issue": "Issue is actionable."}
_READY: dict[Kind, str] = {"lld": "Ready for implementation", "issue": "Ready to enter backlog"}


def render_review(review: StructuredReview, *, kind: Kind, title: str, ledger: Sequence[str] = ()) -> str:
    """Write the review as a Markdown document."""
    findings = review.open_findings()
    lines = [
        f"# {_NAMES[kind]}: {escape_inline(' '.join(clean(title).split()))}",
        "",
        "## Identity Confirmation",
        *_text(review.identity),
        "",
        "## Pre-Flight Gate",
        "**PASSED**" if review.pre_flight.passed else "**FAILED**",
        *_apart(_text(review.pre_flight.note)),
        "",
        *_so_far(ledger),
        "## Review Summary",
        *_text(review.summary),
        "",
        "## Tier 1: BLOCKING Issues",
        *_tier(findings, tier=1, categories=_BLOCKING[kind], nothing=_nothing_blocking(review, kind)),
        "## Tier 2: HIGH PRIORITY Issues",
        *_tier(findings, tier=2, categories=_HIGH[kind], nothing="No high-priority issues found."),
        "## Tier 3: SUGGESTIONS",
        *(_suggestions(findings) or ["- None."]),
        "",
        "## Questions for Orchestrator",
        *(_questions(review.open_questions()) or ["1. None."]),
        "",
        "## Verdict",
        _box("APPROVED", _READY[kind], review.verdict),
        _box("REVISE", "Fix Tier 1/2 issues first", review.verdict),
        _box("DISCUSS", "Needs Orchestrator decision", review.verdict),
    ]
    return "\n".join(lines) + "\n"


def _so_far(ledger: Sequence[str]) -> list[str]:
    """All findings of the item as they stand after this review."""
    lines = [f"- {escape_inline(line)}" for line in ledger]
    return [SO_FAR, *lines, ""] if lines else []


def _nothing_blocking(review: StructuredReview, kind: Kind) -> str:
    nothing = "No blocking issues found."
    return f"{nothing} {_ACTIONABLE[kind]}" if review.verdict == "APPROVED" else nothing


def _tier(
    findings: Iterable[Finding], *, tier: int, categories: Iterable[str], nothing: str
) -> Iterator[str]:
    own = [finding for finding in findings if finding.tier == tier]
    if not own:
        yield nothing
    yield ""
    # A category that this kind of review does not list is shown anyway.
    for category in dict.fromkeys([*categories, *(finding.category for finding in own)]):
        yield f"### {category}"
        mine = [finding for finding in own if finding.category == category]
        for finding in mine:
            yield from _finding(finding, box="[ ] ")
        if not mine:
            yield "- [ ] No issues found."
        yield ""


def _suggestions(findings: Iterable[Finding]) -> list[str]:
    return [line for finding in findings if finding.tier == 3 for line in _finding(finding, box="")]


def _finding(finding: Finding, *, box: str) -> Iterator[str]:
    first, *more = finding.text.split("\n")
    if finding.title:
        yield f"- {box}**{escape_title(finding.title)}:** {escape_inline(first)}".rstrip()
    else:
        yield f"- {box}{escape_line(first)}"
    yield from (f"  {escape_line(line)}" for line in more)
    if finding.recommendation:
        first, *more = finding.recommendation.split("\n")
        yield f"    - **Recommendation:** {escape_inline(first)}"
        yield from (f"      {escape_line(line)}" for line in more)


def _questions(questions: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for number, question in enumerate(questions, start=1):
        first, *more = question.split("\n")
        marker = f"{number}. "
        lines.append(marker + escape_line(first))
        lines.extend(" " * len(marker) + escape_line(line) for line in more)
    return lines


def _text(text: str) -> list[str]:
    return [escape_line(line) for line in tidy(text).split("\n") if line]


def _apart(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []


def _box(word: str, meaning: str, verdict: str) -> str:
    return f"[{'x' if word == verdict else ' '}] **{word}** - {meaning}"
