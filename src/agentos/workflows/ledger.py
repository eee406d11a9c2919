"""The findings and questions of an item's reviews, each with a number that it keeps. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from agentos.decisions import Question, plain
from agentos.end_matter import EndMatter
from agentos.model import counted
from agentos.review import SO_FAR, Finding, ParsedReview

_RESOLVED = re.compile(r"- F(\d{1,4}) resolved, Tier ([12]), ([^:]{1,60}): (.+)")
State = Literal["open", "resolved", "withdrawn"]
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Tracked(Finding):
    """A finding of Tier 1 or 2, from the review that raised it on."""

    number: int
    state: State = "open"
    where: str = ""  # the reviewer's word on its state
    returned: bool = False  # it was resolved, and is open again

    @property
    def key(self) -> tuple[str, str]:
        return _key(self)

    def __str__(self) -> str:
        return f"F{self.number} (Tier {self.tier}, {self.name})"


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All findings and open questions of an item."""

    findings: tuple[Tracked, ...] = ()
    all_questions: tuple[Question, ...] = ()
    asked: int = 0  # the highest number of a question
    found: int = 0  # the highest number of a finding

    @classmethod
    def of(cls, end: EndMatter, *, carry: bool, review: str = "") -> "Ledger":
        """Begin with the numbers of a document and, to revise it, with what was open in it.

        What was resolved is in the last review of its lineage.
        """
        left = [Tracked(**one) for one in end.follow_ups] if carry else []
        done = [one for one in _read(review) if one.number not in {other.number for other in left}]
        return cls(
            findings=tuple(sorted([*left, *done], key=lambda one: one.number)) if carry else (),
            all_questions=end.questions if carry else (),
            asked=end.last("Q"),
            found=end.last("F"),
        )

    @classmethod
    def load(cls, saved: Mapping[str, Any] | None, findings: Sequence[Mapping[str, Any]] = ()) -> "Ledger":
        """From a checkpoint; `findings` are the open ones in a checkpoint without a ledger."""
        if saved is None:
            open_ones = [one for one in findings if one["tier"] < 3]
            return cls(
                findings=tuple(Tracked(**one, number=at) for at, one in enumerate(open_ones, 1)),
                found=len(open_ones),
            )
        return cls(
            findings=tuple(Tracked(**one) for one in saved["findings"]),
            all_questions=tuple(Question(**one) for one in saved["questions"]),
            asked=saved["asked"],
            found=saved["found"],
        )

    def save(self) -> Record:
        """As plain values, for a checkpoint."""
        return {
            "findings": [asdict(one) for one in self.findings],
            "questions": [asdict(one) for one in self.all_questions],
            "asked": self.asked,
            "found": self.found,
        }

    @property
    def questions(self) -> tuple[Question, ...]:
        """Open questions."""
        return tuple(one for one in self.all_questions if one.open)

    @property
    def open(self) -> tuple[Tracked, ...]:
        """Open findings; what was lost again comes first."""
        return tuple(
            sorted(
                (one for one in self.findings if one.state == "open"),
                key=lambda one: (not one.returned, one.tier, one.number),
            )
        )

    @property
    def resolved(self) -> tuple[Tracked, ...]:
        return tuple(one for one in self.findings if one.state == "resolved")

    @property
    def blocking(self) -> tuple[Tracked, ...]:
        return tuple(one for one in self.open if one.tier == 1)

    def gaps(self, reading: ParsedReview) -> tuple[str, ...]:
        """The open numbers that a structured review says nothing about."""
        if not reading.structured:
            return ()
        told = {answer.number for answer in reading.answers} | {
            f"F{one.number}" for one in self.findings if one.key in set(map(_key, reading.findings))
        }
        return tuple(f"F{one.number}" for one in self.open if f"F{one.number}" not in told)

    def reviewed(self, reading: ParsedReview, decided: Collection[str] = ()) -> "Ledger":
        """Take in a review; `decided` are the questions that a person has answered.

        What a structured review does not mention keeps its state. A review in the Markdown shape answers by
        repeating a finding or not.
        """
        # If a review answers a number twice, open counts.
        answers = {one.number: one for one in sorted(reading.answers, key=lambda one: one.state == "open")}
        again = {_key(one): one for one in reading.findings if one.tier < 3}
        known: list[Tracked] = []
        for one in self.findings:
            repeated, answer = again.pop(one.key, None), answers.get(f"F{one.number}")
            if repeated is not None:
                now = replace(
                    one, text=repeated.text, recommendation=repeated.recommendation, state="open", where=""
                )
            elif answer is not None and (answer.state, one.state) != ("resolved", "resolved"):
                now = replace(one, state=answer.state, where=answer.where)
            elif not reading.structured and one.state == "open":
                now = replace(one, state="resolved", where="not repeated")
            else:
                now = one
            if now.state == "open" and one.state == "resolved":
                before = f"It had been resolved: {one.where}" if one.where else ""
                now = replace(now, returned=True, where=" ".join(filter(None, [now.where, before])))
            known.append(now)
        new = [Tracked(**asdict(one), number=self.found + at) for at, one in enumerate(again.values(), 1)]
        asked = self._questions(
            reading, {number for number, one in answers.items() if one.state != "open"}, decided
        )
        return Ledger(
            findings=(*known, *new),
            all_questions=asked,
            asked=max([self.asked, *(one.number for one in asked)]),
            found=self.found + len(new),
        )

    def _questions(
        self, reading: ParsedReview, closed: Collection[str], decided: Collection[str]
    ) -> tuple[Question, ...]:
        """What was asked: a question keeps its number, and one that is decided stays closed."""
        known = [replace(one, open=one.open and f"Q{one.number}" not in closed) for one in self.all_questions]
        number, done = self.asked, set(map(plain, decided))
        for text in reading.questions:
            same = [at for at, one in enumerate(known) if plain(one.text) == plain(text)]
            if same:
                known[same[0]] = replace(known[same[0]], open=True)
            elif plain(text) not in done:
                number += 1
                known.append(Question(number=number, text=" ".join(text.split())))
        return tuple(replace(one, open=one.open and plain(one.text) not in done) for one in known)

    def answered(self, questions: Iterable[str]) -> "Ledger":
        """With the questions closed that a person has answered."""
        done = set(map(plain, questions))
        closed = (replace(one, open=one.open and plain(one.text) not in done) for one in self.all_questions)
        return replace(self, all_questions=tuple(closed))

    def asked_in(self, reading: ParsedReview) -> tuple[Question, ...]:
        """The open questions that a review asks, or names again as open; all if it asks none."""
        named = {answer.number for answer in reading.answers if answer.state == "open"}
        texts = set(map(plain, reading.questions))
        own = [one for one in self.questions if plain(one.text) in texts or f"Q{one.number}" in named]
        return tuple(own) or self.questions

    def progressed(self, before: "Ledger") -> bool:
        """Whether a finding that was open is not any more."""
        still = {one.number for one in self.open}
        return not before.open or any(one.number not in still for one in before.open)


def so_far(ledger: Ledger) -> list[str]:
    """All findings in a line each, for the review in the lineage; `Ledger.of` reads them back."""
    return [
        f"F{one.number} {one.state}, Tier {one.tier}, {one.category}: {one.title or one.text}"
        + (f" ({' '.join(one.where.split())})" if one.where else "")
        for one in ledger.findings
    ]


def _read(review: str) -> list[Tracked]:
    """The resolved findings in a review of the lineage."""
    lines = review.partition(f"\n{SO_FAR}\n")[2].partition("\n\n")[0].split("\n")
    found = [match for line in lines if (match := _RESOLVED.fullmatch(line))]
    return [
        Tracked(
            number=int(one[1]),
            tier=int(one[2]),
            category=one[3],
            title=one[4],
            text="",
            recommendation="",
            state="resolved",
        )
        for one in found
    ]


def in_words(findings: Sequence[Tracked]) -> str:
    """What is open, for a sentence: `2 open findings: F1 (regression), F4`."""
    numbers = ", ".join(f"F{one.number}{' (regression)' if one.returned else ''}" for one in findings)
    return f"{counted(len(findings), 'open finding')}: {numbers}" if findings else ""


def in_full(findings: Iterable[Tracked]) -> str:
    """Findings as both models get them, each with its number."""
    return "\n\n".join(map(_described, findings))


def in_short(findings: Iterable[Tracked]) -> str:
    """Findings in a line each, with the reviewer's word on them."""
    return "\n".join(f"- {one}" + (f": {one.where}" if one.where else "") for one in findings)


def _described(one: Tracked) -> str:
    mark = "REGRESSION (resolved before, and lost again): " if one.returned else ""
    lines = [
        f"F{one.number}. {mark}Tier {one.tier}, {one.category}: {one.title}".rstrip(" :"),
        one.text.strip(),
    ]
    lines += [f"Recommendation: {one.recommendation.strip()}"] if one.recommendation.strip() else []
    lines += [f"Last review: {one.where.strip()}"] if one.where.strip() else []
    return "\n".join(filter(None, lines)).replace("\n", "\n   ")


def _key(finding: Finding) -> tuple[str, str]:
    """Equal for a finding that is reported again: the title is what a reviewer is asked to keep."""
    return finding.category.casefold(), plain(finding.title or finding.text)
