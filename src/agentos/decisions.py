"""What people said about an item: answers to questions, and notes. Pure.

A decision counts as long as its item exists. Before there is a document the records keep it; afterwards the
document's own list does (see `end_matter`), so that it travels with the repository.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Answer = Literal["approve", "revise"]
_APPROVED = "The document was approved as it was."
_LISTED = re.compile(r"(?:^|(?<=\S) / )Q(\d{1,4}): ")
_ANSWERS = re.compile(r"^\s*Q(\d{1,4})\s*[:.)]\s*", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a person said. Without text and answer, it asks for a review of the document as it is."""

    id: int = 0  # of its record; 0: only the document has it
    question: str = ""  # that it answers; several on a line each
    text: str = ""
    answer: Literal["", "approve", "revise"] = ""  # to a DISCUSS
    reviews: int = 0  # how many there were before that DISCUSS
    by: str = ""
    at: str = ""
    used: bool = False  # a run has given it to the models

    @property
    def words(self) -> str:
        """What was decided; empty if it only sends the document back."""
        return self.text.strip() or (_APPROVED if self.answer == "approve" else "")

    @property
    def asks_review(self) -> bool:
        """Whether it only asks for a review of the document as it is."""
        return not self.text.strip() and not self.answer

    @property
    def questions(self) -> tuple[str, ...]:
        return tuple(filter(None, (line.strip() for line in self.question.split("\n"))))

    @property
    def meaning(self) -> tuple[str, str]:
        """Equal for decisions that say the same about the same question."""
        return plain(self.question), plain(self.words)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of a reviewer, with the number that it keeps."""

    number: int
    text: str
    open: bool = True

    def __str__(self) -> str:
        return f"Q{self.number}: {self.text}"


def plain(text: str) -> str:
    """A text for comparison: its words, whatever their case and the white space between them."""
    return " ".join(text.casefold().split())


def settled(document: Iterable[Decision], recorded: Iterable[Decision]) -> tuple[Decision, ...]:
    """Everything that is decided about an item, each once: what its document lists, then what is recorded."""
    found: dict[tuple[str, str], Decision] = {}
    for one in (*document, *recorded):
        if one.words:
            found.setdefault(one.meaning, one)
    return tuple(found.values())


def in_one_line(questions: Iterable[Question]) -> str:
    """Several questions as the reason for which an item waits."""
    return " / ".join(str(question) for question in questions)


def questions_in(reason: str) -> tuple[Question, ...]:
    """The questions in a reason that `in_one_line` made."""
    pieces = _LISTED.split(reason)
    return tuple(
        Question(number=int(number), text=text.strip())
        for number, text in zip(pieces[1::2], pieces[2::2], strict=True)
    )


def answers_in(note: str, questions: Sequence[Question], *, to_all: bool) -> tuple[tuple[str, str], ...]:
    """Split a note into (question, answer): `Q2: no` answers question 2, other words all if `to_all`."""
    asked = {question.number: question.text for question in questions}
    every = "\n".join(asked.values()) if to_all else ""
    pieces = _ANSWERS.split(note)
    known = [(int(number), text) for number, text in zip(pieces[1::2], pieces[2::2], strict=True)]
    if not known or any(number not in asked for number, _ in known):
        return ((every, note.strip()),)
    first = [("", pieces[0].strip())] if pieces[0].strip() else []
    return (*first, *((asked[number], text.strip()) for number, text in known))


def unknown_numbers(note: str, questions: Sequence[Question]) -> list[str]:
    """The questions that a note answers by a number that none has."""
    known = {question.number for question in questions}
    return [f"Q{number}" for number in _ANSWERS.findall(note) if int(number) not in known]


def bound(decisions: Iterable[Decision], questions: Sequence[Question]) -> tuple[Decision, ...]:
    """Give each answer that names a question by its number (`Q2: no`) the question itself."""
    found: list[Decision] = []
    for one in decisions:
        if one.question:
            found.append(one)
        else:
            answers = answers_in(one.text, questions, to_all=False)
            found += [replace(one, question=question, text=text) for question, text in answers]
    return tuple(found)


def asked_by(decisions: Iterable[Decision]) -> frozenset[str]:
    """The questions that are decided."""
    return frozenset(text for one in decisions if one.words for text in one.questions)
