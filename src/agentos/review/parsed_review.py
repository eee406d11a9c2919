"""What a review says, as frozen values, and how a contradiction in it is settled. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

LONGEST_NAME = 100  # characters of a finding in a one-sentence reason


class Verdict(StrEnum):
    """How a review ends."""

    APPROVED = "APPROVED"  # stated explicitly, with nothing in the review against it
    REVISE = "REVISE"  # the draft must be changed first
    DISCUSS = "DISCUSS"  # a person must decide
    UNREADABLE = "UNREADABLE"  # no verdict is certain, which is never an approval


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One open point of a review."""

    tier: int  # 1 blocking, 2 high priority, 3 suggestion
    category: str  # "Cost", "Quality", ...; "Suggestion" in tier 3, "General" if none is given
    title: str  # "" if the reviewer gave none
    text: str
    recommendation: str  # "" if the reviewer gave none

    @property
    def name(self) -> str:
        """The name of the finding in a sentence."""
        words = " ".join((self.title or self.text).split())
        shown = words if len(words) <= LONGEST_NAME else words[: LONGEST_NAME - 3].rstrip() + "..."
        return f"{self.category}: {shown}"

    @property
    def said(self) -> str:
        """Title and text in one."""
        return f"{self.title}: {self.text}".removeprefix(": ")

    def as_dict(self) -> dict[str, Any]:
        return {
            "tier": self.tier,
            "category": self.category,
            "title": self.title,
            "text": self.text,
            "recommendation": self.recommendation,
        }


@dataclass(frozen=True, kw_only=True)
class EarlierAnswer:
    """What a review says about a finding or a question of an earlier one."""

    number: str  # "F1", "Q2"
    state: Literal["open", "resolved", "withdrawn"]
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class VerdictReason:
    """A verdict and, if it needs one, the reason for it."""

    verdict: Verdict
    reason: str = ""

    @classmethod
    def unreadable(cls, reason: str) -> "VerdictReason":
        return cls(verdict=Verdict.UNREADABLE, reason=reason)


@dataclass(frozen=True, kw_only=True)
class ParsedReview:
    """A review as it was understood."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    questions: tuple[str, ...] = ()
    reason: str = ""  # why it is unreadable, or how a contradiction was resolved
    answers: tuple[EarlierAnswer, ...] = ()
    structured: bool = False  # it could answer earlier findings by number

    @classmethod
    def unreadable(cls, reason: str) -> "ParsedReview":
        return cls(verdict=Verdict.UNREADABLE, reason=reason)

    def as_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "findings": [finding.as_dict() for finding in self.findings],
            "questions": list(self.questions),
            "reason": self.reason,
        }


def settle(decision: VerdictReason, *, findings: Sequence[Finding], gate_failed: bool) -> VerdictReason:
    """Turn an approval into REVISE if the review itself contradicts it."""
    if decision.verdict is not Verdict.APPROVED:
        return decision
    blocking = next((finding for finding in findings if finding.tier == 1), None)
    if blocking is not None:
        return VerdictReason(
            verdict=Verdict.REVISE,
            reason=f'APPROVED with the open Tier 1 finding "{blocking.name}" is read as REVISE.',
        )
    if gate_failed:
        return VerdictReason(
            verdict=Verdict.REVISE, reason="APPROVED with a failed Pre-Flight Gate is read as REVISE."
        )
    return decision
