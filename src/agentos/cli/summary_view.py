"""Prints the summary of a run: one row per item, what the exit code means, what to type next."""

import sys
from collections.abc import Sequence
from pathlib import Path

from agentos.app.workflow import FinishedRun
from agentos.console.colours import STATUS_COLOURS
from agentos.console.console import Console
from agentos.console.fitting import columns, cut, cut_middle, cut_start, label_room, listed, padded
from agentos.console.safe_stream import SafeStream
from agentos.console.screen import Line, Paint, json_text
from agentos.console.visible import one_line
from agentos.errors import MEANINGS, Exit
from agentos.model import Status, counted
from agentos.money import shown
from agentos.report.overlaps import Overlap
from agentos.report.summary import ItemRow, Summary, as_markdown

_SHOWN_ROWS = 60
_SHOWN_OVERLAPS = 10
_RESULT = 14  # columns wanted for the result of an item


def show_finished(finished: FinishedRun, console: Console) -> int:
    """Print the summary of a run, also as JSON if asked for; return its exit code."""
    if finished.request.settings.json:
        SafeStream(sys.stdout).write(json_text(finished.summary.as_dict()) + "\n")
    show_summary(finished, console)
    return finished.summary.exit_code


def show_summary(finished: FinishedRun, console: Console) -> None:
    """Print the summary for people."""
    summary, project, width = finished.summary, finished.request.project, console.width

    def line(*parts: str | Paint) -> None:
        console.print(*parts)

    line()
    line(f"Run {summary.run_id}: {summary.wall_seconds:.1f} s{_cost(summary)}")
    line(summary.totals_in_words() or "nothing pending")
    rows = _shown(summary)
    for parts in row_lines(rows, width=width):
        line(*parts)
    hidden = len(summary.items) - len(rows)
    if hidden > 0:
        line(f"  and {hidden} more in summary.md")
    for overlap in summary.overlaps[:_SHOWN_OVERLAPS]:
        line(overlap_line(overlap, width=width))
    if len(summary.overlaps) > _SHOWN_OVERLAPS:
        line(f"  and {len(summary.overlaps) - _SHOWN_OVERLAPS} more overlaps in summary.md")
    line(f"Exit {summary.exit_code}: {MEANINGS[Exit(summary.exit_code)]}")
    if finished.suggestions:
        line("Next:")
    for one in finished.suggestions:
        text = f"  {one.command}    # {one.why}"
        # On a narrow terminal only the command, uncut: it is what people copy.
        line(text if width is None or columns(text) <= width else f"  {one.command}")
    line(f"Logs: {_short(summary.folder, project.worktree)}")
    if path := project.config.environment.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(as_markdown(summary))
        except OSError as exc:
            line(f"Warning: cannot write GITHUB_STEP_SUMMARY: {exc.strerror}")


def row_lines(rows: Sequence[ItemRow], *, width: int | None) -> list[Line]:
    """One line per item, in columns. If there is little room, only label and result are shortened."""
    texts = [
        (
            row.status.value.replace("_", " "),
            counted(row.reviews, "review") if row.reviews else "",
            f"{row.seconds:.1f} s",
        )
        for row in rows
    ]
    status_room, reviews_room, time_room = (
        max((len(columns_of_row[at]) for columns_of_row in texts), default=0) for at in range(3)
    )
    others = 2 + 2 + status_room + 2 + reviews_room + 2 + time_room + 2
    for_label = label_room((row.label for row in rows), width=width, others=others + _RESULT)
    lines: list[Line] = []
    for row, (status, reviews, seconds) in zip(rows, texts, strict=True):
        coloured = Paint(f"{status:<{status_room}}", fg=STATUS_COLOURS.get(row.status))
        label = padded(cut_middle(row.label, for_label), for_label)
        result = _result(row, None if width is None else width - others - for_label)
        rest = f"  {reviews:<{reviews_room}}  {seconds:>{time_room}}  {result}".rstrip()
        lines.append((f"  {label}  ", coloured, rest))
    return lines


def _result(row: ItemRow, room: int | None) -> str:
    said = one_line(row.error or row.reason or "")
    output = one_line(row.output or "")
    if room is None:
        return said or output
    return cut(said, room) if said else cut_start(output, room)


def overlap_line(overlap: Overlap, *, width: int | None) -> str:
    """One line for an overlap: the files first, since the rest can be looked up from them."""
    between = ": changed by "
    files = listed(overlap.files, None if width is None else max(1, width // 2 - 2))
    room = None if width is None else max(1, width - 2 - columns(files) - len(between))
    return f"  {files}{between}{listed(overlap.items, room)}"


def _shown(summary: Summary) -> list[ItemRow]:
    """All rows of a short run; of a long one, those that need attention first."""
    if len(summary.items) <= _SHOWN_ROWS:
        return list(summary.items)
    calm = {Status.APPROVED, Status.SKIPPED}
    return sorted(summary.items, key=lambda row: row.status in calm)[:_SHOWN_ROWS]


def _short(path: str, worktree: Path) -> str:
    full = Path(path)
    return str(full.relative_to(worktree)) if full.is_relative_to(worktree) else path


def _cost(summary: Summary) -> str:
    if not any(row.tokens_in for row in summary.items):
        return ""
    simulated = " (simulated by the mock)" if _mocked(summary) else ""
    return f", cost {shown(summary.cost_usd)}{simulated}"


def _mocked(summary: Summary) -> bool:
    return all(key.provider == "mock" for key in summary.keys)
