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
_LEAST_NEEDS = 3  # rows of questions, and of items that are not approved, even on a small screen
_MOST_OVERLAPS = 5
_LEAST_REMARKS = 3
_RESULT = 14  # columns wanted for the result of an item
_NARROW = 60  # columns; below, a row has no columns
_UNFINISHED = frozenset({Status.INTERRUPTED, Status.PAUSED, Status.PENDING})
_STOPS: Mapping[str | None, str] = {
    "budget": "the budget is reached",
    "interrupted": "interrupted",
    "terminated": "terminated",
    "run_timeout": "--run-timeout is reached",
    "quota": "no key became free in time",
    "outage": "the provider is down",
    "no_key": "no usable key is left",
    "storage": "records could not be written",
    "fail_fast": "an item failed, and --fail-fast is set",
    "misconfigured": "the configuration does not work",
}
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
    """The whole ending, for a terminal of this size; None: there is no terminal.

    If the screen is small, what went well is only counted, then of what needs a person only the first rows
    are shown, and then a comment has no line of its own.
    """
    summary = ending.summary
    needs, unfinished = summary.needs_you, _unfinished(summary)
    needy = {row.label for row in needs}
    ran = [row for row in summary.ran if row.label not in needy]
    asked = [row for row in needs if row.status is Status.DISCUSS]
    questions = [replace(row, error=text) for row in asked for text in row.questions or (row.error,)]
    groups = [part for part in (questions, needs[len(asked) :]) if part]  # questions come first
    heading: list[Line] = []
    if needs or unfinished:
        heading = _folded((Paint("Needs you:", bold=True), f" {needs_in_words(needs) or unfinished}"), width)
    narrower = None if width is None else width - 2
    also = [("  ", *line) for line in _folded((unfinished,), narrower)] if needs and unfinished else []
    commands = _commands(ending.suggestions, width, comments=0)
    overlaps, facts = _overlaps(summary, width), _facts(ending, width)
    least_remarks = _remarks(summary, width, _LEAST_REMARKS)
    room = _MOST_ROWS
    if height is not None:
        around = [*heading, *also, *commands, *([()] if ran else []), *least_remarks, *overlaps, *facts]
        room = height - 1 - sum(_screen_rows(line, width) for line in around)  # 1 for the prompt
    least = sum(min(len(part), _LEAST_NEEDS) for part in groups)
    commented = _commands(ending.suggestions, width, comments=max(0, room - least))
    room = min(_MOST_ROWS, max(least, room - len(commented) + len(commands)))
    rows = _needs(groups, room, width)
    happened = _happened(ran, room - len(rows), width)
    left = room - len(rows) - max(0, len(happened) - 1)  # its heading is not in the room
    happened += _remarks(summary, width, left + len(least_remarks))
    if heading:
        return [(), *heading, *rows, *also, *commented, *happened, *overlaps, *facts]
    return [(), *happened, *overlaps, *commented, *facts]


def _unfinished(summary: Summary) -> str:
    """How many items have not finished, and why."""
    open_items = [row.status for row in summary.items if row.status in _UNFINISHED]
    if not open_items:
        return ""
    why = _STOPS.get(summary.stopped, "")
    if summary.stopped is None and Status.PAUSED in open_items:
        why = "the item's budget is reached" if len(open_items) == 1 else "their budgets are reached"
    verb = "has" if len(open_items) == 1 else "have"
    return f"{counted(len(open_items), 'item')} {verb} not finished" + (f": {why}" if why else "")


def _needs(groups: Sequence[Sequence[ItemRow]], room: int, width: int | None) -> list[Line]:
    """The rows of each group, in the same columns, and the number of those that are not shown."""
    shares = _shared(room, [len(group) for group in groups])
    shown = [_kept(group, most) for group, most in zip(groups, shares, strict=True)]
    rows = iter(row_lines([row for kept in shown for row in kept], width=width, reasons=True))
    lines: list[Line] = []
    for group, kept in zip(groups, shown, strict=True):
        lines += [next(rows) for _ in kept]
        if more := len(group) - len(kept):
            statuses = {row.status for row in group}
            what = " questions" if Status.DISCUSS in statuses else " not approved"
            lines.append((f"  and {more} more{'' if Status.APPROVED in statuses else what} in summary.md",))
    return lines


def _shared(room: int, sizes: Sequence[int]) -> list[int]:
    """The rows for each group: half of the room, or what the other does not need."""
    if len(sizes) != 2:
        return [room] * len(sizes)
    first, second = sizes
    half = room // 2
    if first <= half:
        return [first, room - first]
    return [room - second, second] if second <= half else [room - half, half]


# What to type.


def _commands(suggestions: Sequence[Suggestion], width: int | None, *, comments: int) -> list[Line]:
    """Each command, uncut, since it is what people copy; at most so many comments on lines of their own."""
    if not suggestions:
        return []
    lines: list[Line] = [(Paint("Next:", bold=True),)]
    for one in suggestions:
        why = f"    # {one.why}"
        if width is None or 2 + columns(one.command) + columns(why) <= width:
            lines.append((f"  {one.command}", Paint(why, dim=True)))
            continue
        lines.append((f"  {one.command}",))
        if comments and columns(why) <= width:
            lines.append((Paint(why, dim=True),))
            comments -= 1
    return lines


# What happened.


def _happened(ran: Sequence[ItemRow], room: int, width: int | None) -> list[Line]:
    """A heading and the items that need nobody; only their number if there is no room for two rows."""
    if not ran:
        return []
    heading = "Approved:" if all(row.status is Status.APPROVED for row in ran) else "This run:"
    if room < min(len(ran), 2):
        return [(Paint(heading, bold=True), f" {counted(len(ran), 'item')}, see summary.md")]
    kept = _kept(ran, room)
    lines: list[Line] = [(Paint(heading, bold=True),), *row_lines(kept, width=width)]
    more = len(ran) - len(kept)
    return [*lines, (f"  and {more} more in summary.md",)] if more else lines


def _kept(rows: Sequence[ItemRow], most: int) -> Sequence[ItemRow]:
    """As many rows as there is room for, with a line for the number of the others."""
    return rows if len(rows) <= most else rows[: max(1, most - 1)]


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


def _remarks(summary: Summary, width: int | None, most: int) -> list[Line]:
    """What a person should know although nothing waits for them; at least a few lines."""
    found = [one_line(remark) for remark in summary.remarks]
    most = max(most, _LEAST_REMARKS)
    kept = found if len(found) <= most else found[: most - 1]
    lines: list[Line] = [(f"  {one if width is None else cut(one, width - 2)}",) for one in kept]
    more = len(found) - len(kept)
    return [*lines, (f"  and {more} more to know in summary.md",)] if more else lines


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
    lines: list[Line] = [(summary.totals_in_words() or "nothing pending",), (_took(ending, width),)]
    if ending.time.largest():
        lines.append((_time(ending.time, width),))
    lines.append((f"Logs: {ending.folder}",))
    meaning = MEANINGS[code]
    if code is Exit.OK:
        meaning = "all approved" if summary.ran else "nothing pending"
    lines.append((Paint(f"Exit {code.value}: {meaning}", fg=_EXIT_COLOURS.get(code, "yellow")),))
    return [part for line in lines for part in _folded(line, width)]


def _took(ending: RunEnding, width: int | None) -> str:
    """How long the run took and what it cost, unless no call was made."""
    summary = ending.summary
    line = f"Run {summary.run_id}: {rounded(summary.wall_seconds)}"
    if any(row.tokens_in for row in summary.items):
        line += f", cost {summary.cost_in_words(ending.budget)}"
    short = line.replace("USD (simulated by the mock)", "mock USD")
    return line if width is None or columns(line) <= width else short


def _time(time: TimeShares, width: int | None) -> str:
    """The three largest shares of the workers' time."""
    shares = time_in_words(time)
    lines = [f"{start}: {shares}" for start in ("Where the time went", "Where time went", "Time went")]
    return next((line for line in lines if width is None or columns(line) <= width), lines[-1])


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
