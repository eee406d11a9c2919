"""Writes the end and the stamp of an approved document, and loads the templates. Worker process."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agentos.console.lines import one_line
from agentos.decisions import Decision, asked_by, settled
from agentos.end_matter import EndMatter, day, with_end, without_markers
from agentos.errors import ConfigError
from agentos.model import counted
from agentos.repo_map.secret_files import secret_in
from agentos.stamp import author, seal
from agentos.store.rooted_tree import why_unreadable, worktree_tree
from agentos.workflows.gates import check_template
from agentos.workflows.ledger import Ledger
from agentos.workflows.prompts import Kind, shipped_template
from agentos.workflows.registry import ItemContext

MAX_TEMPLATE_BYTES = 200_000
_MOST_SHOWN = 200  # characters of a line in the log


@dataclass(frozen=True, kw_only=True)
class Approval:
    """What is written below an approved draft."""

    earlier: EndMatter  # of the document before
    decisions: Sequence[Decision]
    ledger: Ledger
    reviews: int
    trail: str  # the folder with drafts and reviews
    at: str  # the day
    dropped: Sequence[str] = ()  # lines of a person that the draft lacks
    by: Decision | None = None  # a person's approval; None: the reviewer's


def finished(context: ItemContext, draft: str, approval: Approval) -> str:
    """Add decisions, what is open, one line for this approval, and the stamp. Repeated, it adds nothing."""
    ledger = approval.ledger.answered(asked_by(approval.decisions))
    follow_ups, decisions = ledger.open, approval.decisions
    if approval.by is not None and ledger.open:
        accepted = f"Accepted as it is: {'; '.join(map(str, ledger.open))}."
        decisions = settled(decisions, [replace(approval.by, id=0, question="", text=accepted, answer="")])
        follow_ups = ()
    log = approval.earlier.log
    end = EndMatter(
        decisions=tuple(decisions),
        questions=ledger.questions,
        follow_ups=tuple(asdict(one) for one in follow_ups),
        log=log if approval.earlier.trail == approval.trail else (*log, _entry(context, approval)),
    )
    item = context.item
    by = author(dict(context.models))
    return seal(with_end(draft, end), item=item.label, input_hash=item.input_hash, by=by)


def lacking(before: str, theirs: str, result: str) -> list[str]:
    """The lines that a person added to a text and that are not in the result."""
    known, there = set(map(_words, before.splitlines())), set(map(_words, result.splitlines()))
    lines = (" ".join(line.split()) for line in theirs.splitlines())
    return [line for line in lines if _words(line) and _words(line) not in known | there]


def _words(line: str) -> str:
    return "".join(letter for letter in line.casefold() if letter.isalnum())


def _entry(context: ItemContext, approval: Approval) -> str:
    """One line for an approval, and one for each line of a person that it lacks."""
    now = (("F", approval.ledger.found), ("Q", approval.ledger.asked))
    about = ", ".join(
        filter(None, (_numbers(letter, approval.earlier.last(letter), last) for letter, last in now))
    )
    reviewer = context.models.get("reviewer", "")
    who = f", approved by {one_line(approval.by.by)}" if approval.by is not None else ""
    line = (
        f"- {counted(approval.reviews, 'review')} by {reviewer}{who}, {day(approval.at)}"
        f"{f' ({about})' if about else ''}; details in `{approval.trail}`"
    )
    lost = [f"  - Not taken over, although a person added it: {cut}" for cut in map(_shown, approval.dropped)]
    return without_markers("\n".join([line, *lost]))


def _numbers(letter: str, before: int, last: int) -> str:
    """The numbers that are new since the last approval."""
    first = f"{letter}{before + 1}"
    return "" if last <= before else first if last == before + 1 else f"{first} to {letter}{last}"


def _shown(line: str) -> str:
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]} ..."


def load_template(worktree: Path, kind: Kind, override: str | None) -> str:
    """Read the repo's own template, which must have every section the gate requires, or the shipped one."""
    if override is None:
        return shipped_template(kind)
    name = f"{kind}_template {override!r}"
    try:
        template = worktree_tree(worktree).read(Path(override), MAX_TEMPLATE_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{name} {why_unreadable(exc)}.") from exc
    if secret := secret_in(template):
        raise ConfigError(f"{name} is refused: {secret}. Remove it from the file. None of it was sent.")
    if missing := check_template(kind, template):
        raise ConfigError(
            f"{name} is missing the section {', '.join(missing)}, which every draft must have. Add it."
        )
    return template
