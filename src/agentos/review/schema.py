"""The structured review that a model is asked for, and how its untrusted reply is read. Pure."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agentos.review.findings import suggestion
from agentos.review.parsed_review import EarlierAnswer, Finding, ParsedReview, Verdict, VerdictReason, settle
from agentos.review.phrases import clean, says_nothing, stands_open, tidy, title_line

Kind = Literal["lld", "issue"]
Words = Annotated[str, AfterValidator(clean)]

_FENCE = "```"
# Each pattern also matches what is never closed, so that no text makes the search slow.
_STRING = r'"(?:[^"\\]|\\.)*(?:"|\Z)'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_NOT_IN_ISSUES = "Observability"


class NotAReviewError(ValueError):
    """A text that is not a structured review; the message is the reason, in one sentence."""


def _has_words(title: str) -> str:
    if not title_line(title):
        raise ValueError("a finding needs a title")
    return title


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PreFlight(_Closed):
    """Whether the draft has all that a review needs."""

    passed: bool
    note: Words = Field(description="What is missing, or an empty string.")


class _OpenFinding(_Closed):
    category: str
    title: Annotated[Words, AfterValidator(_has_words)] = Field(description="A few words, no Markdown.")
    text: Words = Field(description="What is wrong and where.")
    recommendation: Words = Field(description="What to change, or an empty string.")


class Tier1Finding(_OpenFinding):
    """An open point that blocks the draft."""

    category: Literal["Cost", "Safety", "Security", "Legal"]


class Tier2Finding(_OpenFinding):
    """An open point of high priority."""

    category: Literal["Architecture", "Observability", "Quality"]


class AnswerToEarlier(_Closed):
    """The answer to a numbered finding or question of an earlier review."""

    number: Annotated[str, Field(pattern=r"^[FQ][0-9]{1,4}$")] = Field(
        description='Its number, such as "F1".'
    )
    state: Literal["resolved", "open", "withdrawn"] = Field(
        description="resolved: the draft settles it; open: it still holds; withdrawn: it was a mistake."
    )
    where: Words = Field(description="Where the draft settles it, or what is still missing.")


class StructuredReview(_Closed):
    """A governance review."""

    identity: Words = Field(description="Who you are and in which role you review.")
    pre_flight: PreFlight
    earlier: list[AnswerToEarlier] = Field(
        default_factory=list, description="One answer for each open finding that has a number."
    )
    summary: Words
    tier1: list[Tier1Finding] = Field(description="New blocking findings only; empty if there are none.")
    tier2: list[Tier2Finding] = Field(description="New high-priority findings only; empty if there are none.")
    suggestions: list[Words]
    questions: list[Words] = Field(description="Questions that only the orchestrator can answer.")
    verdict: Literal["APPROVED", "REVISE", "DISCUSS"]

    def open_findings(self) -> tuple[Finding, ...]:
        """List the findings as they are kept, without placeholders."""
        return (*self._tier(1), *self._tier(2), *filter(None, map(suggestion, self.suggestions)))

    def open_questions(self) -> tuple[str, ...]:
        """List the questions, without placeholders."""
        asked = (tidy(question) for question in self.questions)
        return tuple(question for question in asked if not says_nothing(question))

    def reading(self) -> ParsedReview:
        """Return the review as the rest of the program sees it."""
        findings = self.open_findings()
        decision = settle(
            VerdictReason(verdict=Verdict(self.verdict)),
            findings=findings,
            gate_failed=not self.pre_flight.passed,
        )
        return ParsedReview(
            verdict=decision.verdict,
            findings=findings,
            questions=self.open_questions(),
            reason=decision.reason,
            answers=tuple(
                EarlierAnswer(number=one.number, state=one.state, where=tidy(one.where))
                for one in self.earlier
            ),
            structured=True,
        )

    def _tier(self, tier: Literal[1, 2]) -> Iterator[Finding]:
        for given in self.tier1 if tier == 1 else self.tier2:
            title = title_line(given.title)
            text, recommendation = tidy(given.text), tidy(given.recommendation)
            if stands_open(title=title, text=text, recommendation=recommendation):
                yield Finding(
                    tier=tier, category=given.category, title=title, text=text, recommendation=recommendation
                )


@cache
def review_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON schema of a review, without references, which some providers do not accept."""
    schema = StructuredReview.model_json_schema()
    definitions = schema.pop("$defs")
    schema["title"] = "review"
    schema["required"] = list(schema["properties"])
    if kind == "issue":
        definitions["Tier2Finding"]["properties"]["category"]["enum"].remove(_NOT_IN_ISSUES)
    resolved = _resolve(schema, definitions)
    assert isinstance(resolved, dict)
    return resolved


def looks_structured(text: str) -> bool:
    """Say whether a text is meant as JSON: an object, or a single json fence around everything."""
    return _payload(text).startswith("{")


def structured_review(text: str) -> StructuredReview | None:
    """Read a text as a structured review, if it is one."""
    try:
        return parse_review(text)
    except NotAReviewError:
        return None


def parse_review(text: str, kind: Kind | None = None) -> StructuredReview:
    """Read JSON that follows the schema, with nothing around it, or raise NotAReviewError."""
    try:
        review = StructuredReview.model_validate(_loads(_payload(text)))
    except ValidationError as exc:
        raise NotAReviewError(_first_error(exc)) from exc
    except NotAReviewError:
        raise
    except RecursionError as exc:
        raise NotAReviewError("The JSON is nested too deeply.") from exc
    except ValueError as exc:
        raise NotAReviewError(f"The JSON cannot be read ({exc}).") from exc
    if kind == "issue" and any(finding.category == _NOT_IN_ISSUES for finding in review.tier2):
        raise NotAReviewError(
            f"The JSON does not follow the schema: an issue has no {_NOT_IN_ISSUES} findings."
        )
    return review


def _loads(text: str) -> Any:
    """Read JSON. Comments and commas before a closing bracket have only one meaning, so they may be there."""
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except json.JSONDecodeError:
        bare = _COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
        bare = _COMMA.sub(lambda found: found[0] if found[0].startswith('"') else "", bare)
        return json.loads(bare, object_pairs_hook=_distinct)


def _payload(text: str) -> str:
    bare = text.lstrip("\ufeff").strip()
    opening, _, rest = bare.partition("\n")
    if opening.strip().lower() == f"{_FENCE}json" and rest.endswith(f"\n{_FENCE}"):
        return rest.removesuffix(_FENCE).strip()
    return bare


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotAReviewError(f"The JSON has {clean(key)[:40]!r} twice.")
        found[key] = value
    return found


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = clean(".".join(str(step) for step in first["loc"]))[:80] or "the whole"
    return f"The JSON does not follow the schema: {place}: {first['msg']}."


def _resolve(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolve(one, definitions) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolve(deepcopy(definitions[node["$ref"].rpartition("/")[2]]), definitions)
    return {key: _resolve(value, definitions) for key, value in node.items()}
