"""The end of a document, which agentos writes: decisions, open questions, follow-ups, approvals. Pure.

It begins with a marker and ends with the stamp. People edit it: a decision, question or follow-up that they
delete is gone, one that they add counts. Whatever else they write there belongs to the document.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from agentos.decisions import Decision, Question
from agentos.stamp import without_stamps

MARKER = "<!-- agentos-end: agentos writes what follows, and reads the decisions back -->"
_MARKER = re.compile(r"^<!--\s*agentos-end\b[^\n]*-->[ \t]*$", re.MULTILINE | re.IGNORECASE)
_DECISIONS, _QUESTIONS, _FOLLOW_UPS, _LOG = "Decisions", "Open questions", "Follow-ups", "Review log"
_LIKE_MARKER = re.compile(r"<!--(\s*)agentos-end", re.IGNORECASE)
_SECTIONS = (_DECISIONS, _QUESTIONS, _FOLLOW_UPS, _LOG)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$")
_BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])[ \t]+")
_SIGNED = re.compile(
    r"(\d{1,2}) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4})(?:, ([^:\n]{1,80}))?: "
)
_ASKED = re.compile(r"\*\*(.+?)\*\*[ \t]*", re.DOTALL)
_NUMBERED = re.compile(r"\*\*Q(\d{1,4})\*\*:?[ \t]+")
_FINDING = re.compile(r"\*\*F(\d{1,4})\*\*,? Tier ([12]), ([^:\n]{1,60}): ")
_NUMBERS = re.compile(r"\b([FQ])(\d{1,4})\b")
_DETAILS = re.compile(r"details in `?([^\s`]+?)`?[.;]?$", re.MULTILINE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_OLD_LOG = "## Review Log"  # of earlier versions, without a marker
_OLD_LINES = ("|", "### Follow-ups", "- Tier ")


@dataclass(frozen=True, kw_only=True)
class EndMatter:
    """What the end of a document says."""

    decisions: tuple[Decision, ...] = ()
    questions: tuple[Question, ...] = ()
    follow_ups: tuple[Mapping[str, Any], ...] = ()  # findings that were open at the approval
    log: tuple[str, ...] = ()  # one entry per approval

    @property
    def trail(self) -> str:
        """The lineage folder of the latest approval."""
        found = _DETAILS.findall("\n".join(self.log[-1:]))
        return str(found[-1]) if found else ""

    def last(self, letter: str) -> int:
        """The highest number that a finding (F) or a question (Q) of the document ever had."""
        named = _NUMBERS.findall("\n".join(entry.partition("\n")[0] for entry in self.log))
        own = self.questions if letter == "Q" else ()
        findings = self.follow_ups if letter == "F" else ()
        known = [int(number) for kind, number in named if kind == letter]
        known += [question.number for question in own] + [finding["number"] for finding in findings]
        return max(known, default=0)

    def render(self) -> str:
        """The whole end of the document, without the stamp."""
        parts = {
            _DECISIONS: [_decision(one) for one in self.decisions if one.words],
            _QUESTIONS: [f"**Q{one.number}** {_line(one.text)}" for one in self.questions],
            _FOLLOW_UPS: [follow_up(one) for one in self.follow_ups],
        }
        lines = [MARKER]
        for name, entries in parts.items():
            if entries:
                lines += ["", f"## {name}", "", *(_bullet(entry) for entry in entries)]
        if self.log:
            lines += ["", f"## {_LOG}", "", *self.log]
        return "\n".join(lines)

    def without_names(self) -> str:
        """The decisions alone, for readers elsewhere."""
        entries = [replace(one, by="", at="") for one in self.decisions if one.words]
        return (
            "\n".join([f"## {_DECISIONS}", "", *(_bullet(_decision(one)) for one in entries)])
            if entries
            else ""
        )


NO_END = EndMatter()


def take_end(body: str) -> tuple[str, EndMatter]:
    """Split a document, without its stamp, into its text and its end."""
    found = None
    for found in _MARKER.finditer(body):  # noqa: B007 - the last one is ours
        pass
    if found is None:
        return _without_old_log(body), EndMatter()
    sections: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    others: list[str] = []  # written by a person
    section = others
    for line in body[found.end() :].split("\n"):
        heading = _HEADING.match(line)
        if heading is not None:
            section = sections.get(heading[1], others)
        elif section is sections[_LOG] and re.match(r"[^\s]", line) and not _BULLET.match(line):
            section = others  # below the log, or below the stamp
        if heading is None or section is others:
            section.append(line)
    log = list(_entries(sections[_LOG]))
    end = EndMatter(
        decisions=tuple(map(_read_decision, _entries(sections[_DECISIONS]))),
        questions=_numbered(_entries(sections[_QUESTIONS])),
        follow_ups=_findings(_entries(sections[_FOLLOW_UPS])),
        log=tuple(_bullet(entry) for entry in log),
    )
    end = _with_new_numbers(end)
    after = "\n".join(others).strip("\n")
    text = body[: found.start()].rstrip("\n") + "\n"
    return text + (f"\n{after}\n" if after else ""), end


def with_end(text: str, end: EndMatter) -> str:
    """A document with its end; the text cannot have one of its own."""
    return f"{without_markers(text).rstrip()}\n\n{end.render()}\n"


def without_markers(text: str) -> str:
    """Remove our marker and defuse what looks like it or like our stamp; anybody may write anything."""
    return _LIKE_MARKER.sub(r"<!--\1(agentos)-end", without_stamps(_MARKER.sub("", text)))


def for_reading(text: str) -> str:
    """An item's text as a prompt has it: without our log and marker, with its decisions."""
    body, end = take_end(text)
    decisions = end.without_names()
    return f"{body.rstrip()}\n\n{decisions}\n" if decisions else body


def follow_up(finding: Mapping[str, Any]) -> str:
    """An open finding in one line, as the document lists it."""
    title = f"**{_line(finding['title'])}** " if finding["title"] else ""
    said = f"{title}{_line(finding['text'])}".strip()
    for name, key in (("Recommendation", "recommendation"), ("Still open", "where")):
        if finding.get(key):
            said = f"{said} {name}: {_line(finding[key])}"
    return f"**F{finding['number']}** Tier {finding['tier']}, {_line(finding['category'])}: {said}"


def day(moment: str) -> str:
    """A day as people write it; empty if the text is not a time."""
    try:
        when = date.fromisoformat(moment[:10])
    except ValueError:
        return ""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}"


def _decision(one: Decision) -> str:
    by = " ".join(one.by.replace(":", " ").split())[:80]
    when = day(one.at)
    signed = f"{when}, {by}: " if when and by else f"{when}: " if when else ""
    asked = "".join(f"**{_line(text).replace('**', '')}** " for text in one.questions)
    words = one.words
    if words.startswith(("**", "\\")):
        words = "\\" + words  # otherwise it would be read as a question
    return without_markers(f"{signed}{asked}{words}")


def _read_decision(entry: str) -> Decision:
    by = at = ""
    if signed := _SIGNED.match(entry):
        number, month, year, name = signed.groups()
        by, at = name or "", f"{year}-{_MONTHS.index(month) + 1:02d}-{int(number):02d}"
        entry = entry[signed.end() :]
    questions: list[str] = []
    while asked := _ASKED.match(entry):
        questions.append(" ".join(asked[1].split()))
        entry = entry[asked.end() :]
    return Decision(
        question="\n".join(questions), text=entry.removeprefix("\\").strip(), by=by.strip(), at=at, used=True
    )


def _bullet(entry: str) -> str:
    return "- " + "\n".join(f"  {line}" if line.strip() else "" for line in entry.split("\n")).strip()


def _entries(lines: Sequence[str]) -> Iterator[str]:
    """The entries of a list; a line that is neither indented nor an entry is one of its own."""
    entry: list[str] = []
    for line in lines:
        bullet = _BULLET.match(line)
        if bullet or (line.strip() and not line.startswith((" ", "\t"))):
            yield from _joined(entry)
            entry = [line[bullet.end() :] if bullet else line]
        else:
            entry.append(line.removeprefix("  "))
    yield from _joined(entry)


def _joined(entry: Sequence[str]) -> Iterator[str]:
    if text := "\n".join(entry).strip():
        yield text


def _numbered(entries: Iterable[str]) -> tuple[Question, ...]:
    return tuple(
        Question(number=int(found[1]) if found else 0, text=_line(entry[found.end() if found else 0 :]))
        for entry in entries
        for found in [_NUMBERED.match(entry)]
    )


def _findings(entries: Iterable[str]) -> tuple[Mapping[str, Any], ...]:
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        known = _FINDING.match(entry)
        number, tier, category = known.groups() if known else (0, 2, "Quality")
        said = entry[known.end() if known else 0 :]
        title = _ASKED.match(said)
        found.append(
            {
                "number": int(number),
                "tier": int(tier),
                "category": category,
                "title": title[1] if title else "",
                "text": said[title.end() if title else 0 :].strip(),
                "recommendation": "",
            }
        )
    return tuple(found)


def _with_new_numbers(end: EndMatter) -> EndMatter:
    """Number what a person added."""
    question, finding = end.last("Q"), end.last("F")
    questions: list[Question] = []
    for one in end.questions:
        question += not one.number
        questions.append(one if one.number else replace(one, number=question))
    follow_ups: list[Mapping[str, Any]] = []
    for other in end.follow_ups:
        finding += not other["number"]
        follow_ups.append(other if other["number"] else {**other, "number": finding})
    return replace(end, questions=tuple(questions), follow_ups=tuple(follow_ups))


def _line(text: str) -> str:
    return without_markers(" ".join(text.split()))


def _without_old_log(body: str) -> str:
    """Remove the review log of an earlier version; whatever a person wrote in it or after it stays."""
    before, found, log = ("\n" + body).partition(f"\n{_OLD_LOG}\n")
    if not found:
        return body
    lines = log.split("\n")
    while lines and (not lines[0].strip() or lines[0].startswith(_OLD_LINES)):
        del lines[0]
    after = "\n".join(lines).strip("\n")
    return before.removeprefix("\n").rstrip("\n") + "\n" + (f"\n{after}\n" if after else "")
