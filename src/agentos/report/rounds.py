"""The rounds of an item from its audit trail: verdicts, findings and what became of them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentos.events.fields import Record, count_of, dicts_of, moment, number_of, text_of, texts_of
from agentos.events.state import CallSpan
from agentos.report.spans import PaidCall
from agentos.same_finding import identity

_MOST_FINDINGS = 100  # of one round
_MOST_PARTS = 200  # of one repository map
_UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, kw_only=True)
class ReportedFinding:
    """One finding of a review."""

    tier: int
    category: str
    title: str
    text: str
    recommendation: str
    number: int | None = None  # that it keeps; None: a suggestion, or from an older version
    state: str | None = None  # open, resolved, withdrawn, or accepted with the approval; None if unknown
    where: str | None = None  # the reviewer's word on its state
    returned: bool = False  # it was resolved before this review

    @property
    def identity(self) -> tuple[Any, ...]:
        return identity(vars(self))

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value not in (None, False)}


@dataclass(frozen=True, kw_only=True)
class RoundDecision:
    """A person's answer to a review."""

    answer: str | None
    by: str | None
    at: str | None
    note: str | None


@dataclass(frozen=True, kw_only=True)
class Review:
    """The review of one round, and what it cost."""

    at: float | None  # seconds from the start of the run
    verdict: str
    reason: str | None
    model: str | None
    key: str | None
    seconds: float | None
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    findings: tuple[ReportedFinding, ...]
    questions: tuple[str, ...]  # open after it
    ledger: tuple[ReportedFinding, ...] | None = None  # all findings after it; None: from an older version
    earlier: tuple[ReportedFinding, ...] = ()  # what it says about findings of earlier reviews

    @property
    def blocking(self) -> int:
        """How many findings of Tier 1 are open after it."""
        known = self.findings if self.ledger is None else self.ledger
        return sum(one.tier == 1 and one.state in {None, "open"} for one in known)

    def as_dict(self) -> dict[str, Any]:
        data = dict(vars(self))
        del data["ledger"]
        shown = ("number", "state", "where", "title")
        return data | {
            "findings": [one.as_dict() for one in self.findings],
            "questions": list(self.questions),
            "earlier": [{name: getattr(one, name) for name in shown} for one in self.earlier],
        }


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of an item; it has no review if the run with the verdict was deleted."""

    number: int
    draft: int | None
    review: Review | None = None
    decision: RoundDecision | None = None
    call: int = 0  # of the reviewer
    unread: tuple[str, ...] = ()  # what was wrong with replies before that could not be read
    run_id: str | None = None  # only for a round of an earlier run

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"review": self.number, "draft": self.draft, "unread": list(self.unread)}
        if self.review is not None:
            data |= self.review.as_dict()
        data["decision"] = None if self.decision is None else dict(vars(self.decision))
        return data if self.run_id is None else data | {"run_id": self.run_id}


@dataclass(frozen=True, kw_only=True)
class GateCheck:
    """What the gate found in a draft."""

    draft: int
    file: str | None
    lineage: str | None
    missing: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)  # that do not fit the files of the repository
    notes: list[str] = field(default_factory=list)


def read_rounds(records: Iterable[Record], *, started: float) -> list[Round]:
    """The rounds of an item, in order; `started` is the run's start in seconds since 1970."""
    rounds: dict[int, Round] = {}
    draft: int | None = None
    calls: dict[int, Record] = {}
    for record in records:
        match record.get("kind"):
            case "gate":
                draft = count_of(record, "draft") or draft
            case "call" if record.get("role") == "reviewer":
                calls[count_of(record, "number")] = record
            case "verdict":
                number = count_of(record, "review")
                call = count_of(record, "call") or number
                known = rounds.get(number) or Round(number=number, draft=draft)
                # After a crash, a worker records the same verdict again: the last record counts.
                if known.review is not None and known.call != call:
                    known = replace(known, unread=(*known.unread, known.review.reason or _UNREADABLE))
                review = _review(record, calls.get(call, {}), started)
                rounds[number] = replace(known, draft=draft, call=call, review=review)
            case "decision":
                number = count_of(record, "reviews")
                # It may answer a verdict of an earlier run.
                known = rounds.get(number) or Round(number=number, draft=draft)
                rounds[number] = replace(known, decision=_decision(record, known.decision))
            case _:
                pass
    return [rounds[number] for number in sorted(rounds)]


def read_gates(records: Iterable[Record]) -> list[GateCheck]:
    return [_gate(record) for record in records if record.get("kind") == "gate"]


def with_earlier(
    rounds: Sequence[Round], reviews: int, earlier: Iterable[tuple[str, list[Round]]]
) -> list[Round]:
    """Add the rounds of earlier runs; the latest record of each round counts.

    `earlier` has runs and their rounds, latest first; no more of them are read than needed.
    """
    own = {one.number: one for one in rounds}
    last = max([reviews, *own])
    first = min((number for number, one in own.items() if one.review is not None), default=last + 1)
    found: dict[int, Round] = {}
    for run_id, before in earlier if first > 1 else ():
        for one in before:
            known = found.get(one.number)
            if 0 < one.number < first and (known is None or known.review is None):
                review = None if one.review is None else replace(one.review, at=None)
                decision = (known.decision if known else None) or one.decision
                found[one.number] = replace(one, review=review, decision=decision, run_id=run_id)
        if 1 in found and found[1].review is not None:
            break
    for number, one in own.items():
        # A decision recorded by this run answers the verdict of an earlier one.
        whole = one.review is not None or number not in found
        found[number] = one if whole else replace(found[number], decision=one.decision)
    return [found[number] for number in sorted(found)]


def _review(record: Record, call: Record, started: float) -> Review:
    at = moment(record.get("time"))
    ledger = [_finding(one) for one in dicts_of(record, "ledger")[:_MOST_FINDINGS]]
    return Review(
        at=None if at is None else round(max(0.0, at - started), 3),
        verdict=text_of(record, "verdict", 40) or _UNREADABLE,
        reason=text_of(record, "reason"),
        model=text_of(record, "model", 100),
        key=text_of(call, "key", 80),
        seconds=number_of(call, "seconds"),
        tokens_in=count_of(call, "tokens_in"),
        tokens_out=count_of(call, "tokens_out"),
        cost_usd=number_of(call, "cost_usd"),
        findings=tuple(_finding(one) for one in dicts_of(record, "findings")[:_MOST_FINDINGS]),
        questions=texts_of(record, "questions"),
        ledger=tuple(ledger) if isinstance(record.get("ledger"), list) else None,
    )


def _finding(record: Record) -> ReportedFinding:
    return ReportedFinding(
        tier=count_of(record, "tier") or 3,
        category=text_of(record, "category", 100) or "",
        title=text_of(record, "title", 300) or "",
        text=text_of(record, "text") or "",
        recommendation=text_of(record, "recommendation") or "",
        number=count_of(record, "number") or None,
        state=text_of(record, "state", 40),
        where=text_of(record, "where"),
        returned=record.get("returned") is True,
    )


def _decision(record: Record, before: RoundDecision | None) -> RoundDecision:
    """A person's answer; one record for each question that it answers."""
    answer, by, at, note = (text_of(record, name) for name in ("answer", "by", "at", "note"))
    if before is not None and before.at == at and before.note != note:
        note = "\n".join(filter(None, [before.note, note]))
    return RoundDecision(answer=answer, by=by, at=at, note=note)


def _gate(record: Record) -> GateCheck:
    return GateCheck(
        draft=count_of(record, "draft"),
        file=text_of(record, "file", 80),
        lineage=text_of(record, "lineage", 120),
        missing=list(texts_of(record, "missing", 200)),
        paths=list(texts_of(record, "paths", 300)[:_MOST_PARTS]),
        notes=list(texts_of(record, "notes", 500)),
    )


def mark_findings(rounds: Sequence[Round], *, approved: bool) -> list[Round]:
    """Say what became of each finding: open, resolved, withdrawn, or accepted with the approval."""
    readable = [one for one in rounds if one.review is not None and one.review.verdict != _UNREADABLE]
    reviews = [one.review for one in readable if one.review is not None]
    last = "accepted" if approved else "open"
    by_ledger = all(review.ledger is not None for review in reviews)
    marked = _by_ledger(reviews, last) if by_ledger else _by_words(reviews, last)
    found = {one.number: review for one, review in zip(readable, marked, strict=True)}
    return [replace(one, review=found.get(one.number, one.review)) for one in rounds]


def _by_ledger(reviews: Sequence[Review], last: str) -> list[Review]:
    """Each review with what it raised, marked as it stands now, and what it says about earlier findings."""
    latest = {one.number: one.state for one in reviews[-1].ledger or ()} if reviews else {}
    before: dict[int | None, str | None] = {}
    marked: list[Review] = []
    for review in reviews:
        raised: list[ReportedFinding] = []
        earlier: list[ReportedFinding] = []
        for one in review.ledger or ():
            was = before.get(one.number)
            if one.state == "open" and was != "open":
                state = latest.get(one.number, one.state)
                raised.append(replace(one, state=last if state == "open" else state))
            elif was != one.state or was == "open":
                earlier.append(replace(one, returned=False))
        before = {one.number: one.state for one in review.ledger or ()}
        # Suggestions have no number, so nobody says what becomes of them.
        suggested = [one for one in review.findings if one.tier == 3]
        if review is reviews[-1]:
            suggested = [replace(one, state=last) for one in suggested]
        marked.append(replace(review, findings=(*raised, *suggested), earlier=tuple(earlier)))
    return marked


def _by_words(reviews: Sequence[Review], last: str) -> list[Review]:
    """For runs of older versions, which had no numbers: a finding is open as long as it is repeated."""
    marked: list[Review] = []
    for review, after in zip(reviews, (*reviews[1:], None), strict=True):
        again = set() if after is None else {finding.identity for finding in after.findings}
        findings = (
            replace(one, state=last if after is None else "open" if one.identity in again else "resolved")
            for one in review.findings
        )
        marked.append(replace(review, findings=tuple(findings)))
    return marked


def paid_calls(
    calls: Iterable[CallSpan], records: Iterable[Record], *, prompts: bool = False
) -> list[PaidCall]:
    """The calls, with cost and serving model from the audit trail; `prompts`: their texts are kept."""
    paid = [PaidCall(call=call) for call in calls]
    free = [number for number, one in enumerate(paid) if not one.call.error]
    for record in records:
        if record.get("kind") != "call":
            continue
        wanted = (record.get("key"), count_of(record, "tokens_in"), count_of(record, "tokens_out"))
        for number in free:
            call = paid[number].call
            if (call.key, call.tokens_in, call.tokens_out) == wanted:
                cost, served = number_of(record, "cost_usd"), text_of(record, "served", 100)
                kept = f"{text_of(record, 'role', 80)}-{count_of(record, 'number')}" if prompts else None
                paid[number] = PaidCall(call=call, cost_usd=cost, served=served, kept=kept)
                free.remove(number)
                break
    return paid


@dataclass(frozen=True, kw_only=True)
class SentPart:
    """A part of the repository that the item's calls sent."""

    path: str
    kind: str
    tokens: int


@dataclass(frozen=True, kw_only=True)
class LookDone:
    """What a model asked to read."""

    role: str
    look: int
    answers: list[str]
    definitions: int
    files: list[str]
    tokens: int


def read_looks(records: Iterable[Record]) -> tuple[LookDone, ...]:
    """The looks of an item, in order; after a crash, a worker records the same look again."""
    found: dict[tuple[str, int], LookDone] = {}
    for record in records:
        if record.get("kind") == "look":
            role, look = text_of(record, "role", 40) or "", count_of(record, "look")
            places = [place.rpartition(":")[0] for place in texts_of(record, "read", 300)]
            found[role, look] = LookDone(
                role=role,
                look=look,
                answers=list(texts_of(record, "answers", 300)[:_MOST_PARTS]),
                definitions=count_of(record, "definitions"),
                files=list(dict.fromkeys(filter(None, places)))[:_MOST_PARTS],
                tokens=count_of(record, "tokens"),
            )
    return tuple(found.values())


def sent_parts(records: Iterable[Record]) -> tuple[SentPart, ...]:
    """What the latest call of an item sent of the repository."""
    found: tuple[SentPart, ...] = ()
    for record in records:
        if record.get("context"):
            found = tuple(
                SentPart(
                    path=text_of(part, "path", 300) or "",
                    kind=text_of(part, "kind", 20) or "",
                    tokens=count_of(part, "tokens"),
                )
                for part in dicts_of(record, "context")[:_MOST_PARTS]
            )
    return found
