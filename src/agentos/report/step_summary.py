"""A run as the summary and the annotations of a step in GitHub Actions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentos.console.visible import one_line
from agentos.duration import rounded
from agentos.errors import MEANINGS, Exit
from agentos.model import Status, counted
from agentos.naming import command_of
from agentos.report.summary import ItemRow, Summary, as_markdown, cell
from agentos.report.time_shares import TimeShares

MOST_ANNOTATIONS = 10  # GitHub shows no more of one level and step
_MOST_BYTES = 900_000  # GitHub refuses a summary of more than 1 MiB
_MOST_NEEDS = 100
_MOST_FINDINGS = 3
_BROKEN = frozenset({Status.FAILED, Status.TIMED_OUT})

Level = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """A remark beside a document."""

    level: Level
    title: str
    text: str
    file: str | None  # relative to the repository; None: the item is not a file


def needs_in_words(needs: Sequence[ItemRow]) -> str:
    """How many questions and items need a person."""
    asked = [row for row in needs if row.status is Status.DISCUSS]
    questions = sum(len(row.questions) or 1 for row in asked)
    unfiled = sum(row.status is Status.APPROVED for row in needs)
    others = len(needs) - len(asked) - unfiled
    words = [counted(questions, "question")] * bool(questions)
    words += [f"{counted(others, 'item')} not approved"] * bool(others)
    words += [f"{unfiled} not filed"] * bool(unfiled)
    return ", ".join(words)


def time_in_words(time: TimeShares) -> str:
    """The three largest shares of the workers' time; empty if no worker ran."""
    percent = time.percent()
    return ", ".join(f"{percent[kind]} % {kind.words}" for kind in time.largest(3))


def annotations(summary: Summary, files: Mapping[str, str]) -> list[Annotation]:
    """One remark for each item that needs a person; `files` has their documents, by label."""
    made: dict[Level, list[Annotation]] = {"error": [], "warning": []}
    for row in summary.needs_you:
        level: Level = "error" if row.status in _BROKEN else "warning"
        title = f"{row.label}: {row.status.value.replace('_', ' ')}"
        made[level].append(Annotation(level=level, title=title, text=_said(row), file=_document(row, files)))
    return [one for found in made.values() for one in _capped(found)]


def _capped(found: list[Annotation]) -> list[Annotation]:
    if len(found) <= MOST_ANNOTATIONS:
        return found
    kept = found[: MOST_ANNOTATIONS - 1]
    text = "The summary of this step lists all of them."
    more = Annotation(
        level=found[0].level, title=f"{len(found) - len(kept)} more items need you", text=text, file=None
    )
    return [*kept, more]


def _said(row: ItemRow) -> str:
    """Its reason, then the first findings that are still open."""
    findings = [
        f"{one.get('category', '')}: {one.get('title') or one.get('text', '')}".strip(": ")
        for one in row.findings[:_MOST_FINDINGS]
    ]
    return "\n".join([row.error or row.reason or "no reason is recorded", *findings])


def _document(row: ItemRow, files: Mapping[str, str]) -> str | None:
    """The document of the item, or else its issue or brief."""
    found = row.output or files.get(row.label)
    return None if found is None or "://" in found else found


def step_summary(summary: Summary, *, commands: Sequence[str], time: TimeShares) -> str:
    """What needs a person first, then what it took, then every item."""
    needs = summary.needs_you
    code = Exit(summary.exit_code)
    lines = [
        f"## agentos {command_of(summary.workflow)}: {summary.totals_in_words() or 'nothing pending'}",
        "",
    ]
    if needs:
        lines += [
            f"### Needs you: {needs_in_words(needs)}",
            "",
            "| item | status | why |",
            "| --- | --- | --- |",
        ]
        lines += [
            f"| {row.label} | {row.status.value.replace('_', ' ')} | {cell(row.error or row.reason or '')} |"
            for row in needs[:_MOST_NEEDS]
        ]
        lines += [f"| | | and {len(needs) - _MOST_NEEDS} more |"] * (len(needs) > _MOST_NEEDS)
        lines.append("")
    if remarks := summary.remarks:
        more = [f"- and {len(remarks) - _MOST_NEEDS} more"] * (len(remarks) > _MOST_NEEDS)
        lines += ["### To know", "", *(f"- {cell(one)}" for one in remarks[:_MOST_NEEDS]), *more, ""]
    if commands:
        lines += [
            "To continue with them, in a checkout on your machine:",
            "",
            "```sh",
            *map(one_line, commands),
            "```",
            "",
        ]
    cost = f", cost {summary.cost_in_words()}" if any(row.tokens_in for row in summary.items) else ""
    lines.append(f"**Exit {code.value}**: {MEANINGS[code]}. {rounded(summary.wall_seconds)}{cost}.")
    if shares := time_in_words(time):
        lines += ["", f"Where the time went: {shares}."]
    whole = as_markdown(summary)
    if len(whole.encode()) > _MOST_BYTES:
        lines += ["", "Too many items to list here; `summary.md` in the run's folder has them all."]
    else:
        lines += ["", "<details><summary>Every item</summary>", "", whole.rstrip("\n"), "", "</details>"]
    return "\n".join(lines) + "\n"
