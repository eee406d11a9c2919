"""The ending of a run, as lines: what needs a person, what to type, what happened, what it cost. Pure.

On a terminal it is about as long as the screen: of many items, those that need a person are shown first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from agentos.app.suggestions import Suggestion
from agentos.console.colours import LABEL, STATUS_COLOURS
from agentos.console.fitting import columns, cut, cut_middle, cut_start, label_room, listed, padded
from agentos.console.screen import Line, Paint
from agentos.console.visible import one_line
from agentos.duration import rounded
from agentos.errors import MEANINGS, Exit
from agentos.model import Status, counted
from agentos.report.overlaps import Overlap
from agentos.report.step_summary import needs_in_words, time_in_words
from agentos.report.summary import ItemRow, Summary
from agentos.report.time_shares import TimeShares

_MOST_ROWS = 60  # items in all
_LEAST_ROWS = 8  # even on a small screen
_MOST_OVERLAPS = 5
_RESULT = 14  # columns wanted for the result of an item
_NARROW = 60  # columns; below, a row has no columns
_EXIT_COLOURS: Mapping[Exit, str] = {
    Exit.OK: "green",
    Exit.FAILED: "red",
    Exit.USAGE: "red",
    Exit.NO_KEY: "red",
}


@dataclass(frozen=True, kw_only=True)
class RunEnding:
    """What the ending of a run is about."""

    summary: Summary
    suggestions: tuple[Suggestion, ...]
    time: TimeShares
    folder: str  # as it is shown
    budget: float | None = None


def ending_lines(ending: RunEnding, *, width: int | None, height: int | None) -> list[Line]:
    """The whole ending, for a terminal of this size; None: there is no terminal."""
    needs = ending.summary.needs_you
    needy = {row.label for row in needs}
    ran = [row for row in ending.summary.ran if row.label not in needy]
    commands = _commands(ending.suggestions, width)
    rest = [*_overlaps(ending.summary, width), *([] if needs else commands), *_facts(ending, width)]
    above = _needs_heading(needs, width)
    around = [*([*above, *commands] if needs else []), *([()] if ran else []), *rest]
    room = _MOST_ROWS
    if height is not None:
        taken = sum(_screen_rows(line, width) for line in around) + 1  # and the prompt
        room = min(_MOST_ROWS, max(_LEAST_ROWS, height - taken))
    most_ran = max(room - len(needs), room // 3)
    lines: list[Line] = [()]
    if needs:
        shown_needs = _rows(needs, room - min(len(ran), most_ran), width, reasons=True)
        lines += [*above, *shown_needs, *commands]
    if ran:
        heading = "Approved:" if all(row.status is Status.APPROVED for row in ran) else "This run:"
        lines += [(Paint(heading, bold=True),), *_rows(ran, most_ran, width)]
    return [*lines, *rest]


def _needs_heading(needs: Sequence[ItemRow], width: int | None) -> list[Line]:
    return _folded((Paint("Needs you:", bold=True), f" {needs_in_words(needs)}"), width)


# What to type.


def _commands(suggestions: Sequence[Suggestion], width: int | None) -> list[Line]:
    if not suggestions:
        return []
    lines: list[Line] = [(Paint("Next:", bold=True),)]
    for one in suggestions:
        why = f"    # {one.why}"
        # On a narrow terminal only the command, uncut: it is what people copy.
        fits = width is None or 2 + columns(one.command) + columns(why) <= width
        lines.append((f"  {one.command}", Paint(why, dim=True)) if fits else (f"  {one.command}",))
    return lines


# What happened.


def _rows(rows: Sequence[ItemRow], most: int, width: int | None, *, reasons: bool = False) -> list[Line]:
    """As many rows as there is room for, and the number of the others."""
    if len(rows) <= most:
        return row_lines(rows, width=width, reasons=reasons)
    kept = rows[: max(1, most - 1)]
    more = f"  and {len(rows) - len(kept)} more in summary.md"
    return [*row_lines(kept, width=width, reasons=reasons), (more,)]


def row_lines(rows: Sequence[ItemRow], *, width: int | None, reasons: bool = False) -> list[Line]:
    """One line per item, in columns. If there is little room, only label and result are shortened.

    With `reasons`, the reason has all the room: reviews and times are left out.
    """
    if width is not None and width < _NARROW:
        return [_narrow_row(row, width) for row in rows]
    texts = [
        (
            row.status.value.replace("_", " "),
            counted(row.reviews, "review") if row.reviews and not reasons else "",
            rounded(row.seconds) if row.attempts and not reasons else "",
        )
        for row in rows
    ]
    rooms = [max((len(columns_of_row[at]) for columns_of_row in texts), default=0) for at in range(3)]
    others = 2 + 2 + rooms[0] + 2 + sum(room + 2 for room in rooms[1:] if room)
    for_label = label_room((row.label for row in rows), width=width, others=others + _RESULT)
    lines: list[Line] = []
    for row, (status, reviews, seconds) in zip(rows, texts, strict=True):
        coloured = Paint(f"{status:<{rooms[0]}}", fg=STATUS_COLOURS.get(row.status))
        label = cut_middle(row.label, for_label)
        cells = [f"{reviews:<{rooms[1]}}"] * bool(rooms[1]) + [f"{seconds:>{rooms[2]}}"] * bool(rooms[2])
        cells.append(_result(row, None if width is None else width - others - for_label))
        rest = "".join(f"  {cell}" for cell in cells).rstrip()
        lines.append(("  ", Paint(padded(label, for_label), fg=LABEL), "  ", coloured, rest))
    return lines


def _narrow_row(row: ItemRow, width: int) -> Line:
    label, status = cut_middle(row.label, width // 3), row.status.value.replace("_", " ")
    room = width - 2 - columns(label) - 1 - len(status) - 2
    said = _result(row, max(0, room))
    line: Line = ("  ", Paint(label, fg=LABEL), " ", Paint(status, fg=STATUS_COLOURS.get(row.status)))
    return (*line, f": {said}") if said else line


def _result(row: ItemRow, room: int | None) -> str:
    said = one_line(row.error or row.reason or "")
    output = one_line(row.output or "")
    if room is None:
        return said or output
    return cut(said, room) if said else cut_start(output, room)


def _overlaps(summary: Summary, width: int | None) -> list[Line]:
    lines: list[Line] = [(overlap_line(one, width=width),) for one in summary.overlaps[:_MOST_OVERLAPS]]
    if (more := len(summary.overlaps) - _MOST_OVERLAPS) > 0:
        lines.append((f"  and {counted(more, 'more overlap')} in summary.md",))
    return lines


def overlap_line(overlap: Overlap, *, width: int | None) -> str:
    """One line for an overlap: the files first, since the rest can be looked up from them."""
    between = ": changed by "
    files = listed(overlap.files, None if width is None else max(1, width // 2 - 2))
    room = None if width is None else max(1, width - 2 - columns(files) - len(between))
    line = f"  {files}{between}{listed(overlap.items, room)}"
    return line if width is None else cut(line, width)


# What it took: the last lines, beside the exit code.


def _facts(ending: RunEnding, width: int | None) -> list[Line]:
    summary = ending.summary
    code = Exit(summary.exit_code)
    lines: list[Line] = [
        (summary.totals_in_words() or "nothing pending",),
        (f"Run {summary.run_id}: {rounded(summary.wall_seconds)}{_cost(ending)}",),
    ]
    if ending.time.largest():
        lines.append((_time(ending.time, width),))
    lines.append((f"Logs: {ending.folder}",))
    lines.append((Paint(f"Exit {code.value}: {MEANINGS[code]}", fg=_EXIT_COLOURS.get(code, "yellow")),))
    return [part for line in lines for part in _folded(line, width)]


def _cost(ending: RunEnding) -> str:
    """The cost, unless no call was made."""
    if not any(row.tokens_in for row in ending.summary.items):
        return ""
    return f", cost {ending.summary.cost_in_words(ending.budget)}"


def _time(time: TimeShares, width: int | None) -> str:
    """The three largest shares of the workers' time."""
    shares = time_in_words(time)
    long, short = f"Where the time went: {shares}", f"Where time went: {shares}"
    return long if width is None or columns(long) <= width else short


def _screen_rows(line: Line, width: int | None) -> int:
    """The rows that a line takes on a terminal, which wraps it."""
    length = sum(columns(str(part)) for part in line)
    return 1 if width is None else max(1, ceil(length / width))


def _folded(line: Line, width: int | None) -> list[Line]:
    """A line that is too long for the terminal, broken between its words."""
    if width is None or _screen_rows(line, width) == 1:
        return [line]
    lines: list[list[str | Paint]] = [[]]
    taken = 0
    for part in line:
        for word in str(part).split():
            if taken and taken + 1 + columns(word) > width:
                lines.append(["  "])
                taken = 2
            text = f" {word}" if taken > 2 or (taken and len(lines) == 1) else word
            lines[-1].append(replace(part, text=text) if isinstance(part, Paint) else text)
            taken += columns(text)
    return [tuple(parts) for parts in lines]
