"""The lines of the footer, for a terminal of any size: no line is wider than the terminal. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentos.console.colours import LABEL, STATUS_COLOURS
from agentos.console.fitting import columns, cut, cut_middle, label_room, padded
from agentos.console.screen import Line, Paint
from agentos.console.visible import one_line
from agentos.duration import between, clock, rounded
from agentos.money import amount
from agentos.naming import step_in_words

if TYPE_CHECKING:
    from agentos.console.console import Doing, FooterView
    from agentos.events.progress import RunProgress

_GAP = "  "  # between two columns
_NODE = 12  # columns of a node's name at most
_DETAIL = 20  # columns wanted for the key in use or the reason of a wait
_DETAIL_WITH_TITLE = 40
_LEAST_TITLE, _MOST_TITLE = 16, 60
_LEAST_BAR, _MOST_BAR = 8, 40
_NO_BAR = " " * _LEAST_BAR  # its place, until the room for it is known
_NARROW = 60  # columns; below, a round is `r2`
_KEPT_ROWS = 4  # rows of the screen kept for the scrolling lines
_TEN = 10


def footer_lines(view: "FooterView", *, width: int, height: int) -> list[Line]:
    """Lay out the footer for a terminal of this size."""
    head = _head(view, width)
    notice: list[Line] = [(Paint(cut(one_line(view.notice), width), fg="yellow"),)] if view.notice else []
    room = max(1, height - _KEPT_ROWS - len(head) - len(notice))
    hidden = len(view.running) - room + 1 if len(view.running) > room else 0
    rows = _rows(view.running[: len(view.running) - hidden], width)
    more: list[Line] = [(Paint(cut(f"and {hidden} more", width), dim=True),)] if hidden else []
    return [*head, *rows, *more, *notice][: max(1, height - 1)]


# How far the run is.


def _head(view: "FooterView", width: int) -> list[Line]:
    """The bar and its facts, and the counts: on one line if they fit, otherwise the counts on their own."""
    progress = view.progress
    done, time = Paint(f"{progress.done}/{progress.total} done", bold=True), f" {clock(view.seconds)}"
    has_bar = width >= columns(done.text) + 1 + _LEAST_BAR + len(time)
    facts: list[Line] = [(done, " ", _NO_BAR, time) if has_bar else (done, time)]
    facts += [(text,) for text in progress_facts(progress)]
    counts: list[Line] = [
        (Paint(f"{count} {status.replace('_', ' ')}", fg=STATUS_COLOURS.get(status)),)
        for status, count in progress.counts.items()
    ]
    counts += [(Paint(f"{progress.skipped} skipped", dim=True),)] * bool(progress.skipped)
    lines = _flow([*facts, *counts], width)
    if len(lines) > 1:
        lines = [*_flow(facts, width), *_flow(counts, width)]
    if has_bar:
        wanted = min(_MOST_BAR, width // 4)
        bar = _bar(progress, max(_LEAST_BAR, min(wanted, _LEAST_BAR + width - columns_of(lines[0]))))
        lines[0] = (*lines[0][:2], *bar, *lines[0][3:])
    return lines


def progress_facts(progress: "RunProgress") -> list[str]:
    """What is known about time left, cost and rate, in words."""
    left = progress.left
    known = f"{between(left.least, left.most)} left" if left is not None else ""
    return [text for text in (known, _cost(progress), _rate(progress)) if text]


def columns_of(line: Line) -> int:
    return sum(columns(str(part)) for part in line)


def _flow(pieces: Sequence[Line], width: int) -> list[Line]:
    """Put pieces on as few lines as possible, in their order."""
    lines: list[Line] = []
    for piece in pieces:
        if lines and columns_of(lines[-1]) + len(_GAP) + columns_of(piece) <= width:
            lines[-1] = (*lines[-1], _GAP, *piece)
        elif columns_of(piece) <= width:
            lines.append(piece)
        else:
            lines.append((cut("".join(map(str, piece)), width),))
    return lines


def _bar(progress: "RunProgress", width: int) -> Line:
    full = width * progress.done // max(1, progress.total)
    colour = "green" if progress.done >= progress.total else "cyan"
    return (Paint("━" * full, fg=colour), Paint("─" * (width - full), dim=True))


def _cost(progress: "RunProgress") -> str:
    """What is spent, of the budget if there is one. Money of the mock is marked."""
    if progress.spent is None:
        return "cost unknown"
    unit = "mock USD" if progress.simulated else "USD"
    if progress.budget is not None:
        spent = amount(progress.spent) if progress.spent else "0"
        return f"{spent} of {progress.budget:g} {unit}"
    return f"{amount(progress.spent)} {unit}" if progress.spent else ""


def _rate(progress: "RunProgress") -> str:
    rate = progress.calls_per_minute
    if rate is None:
        return ""
    return f"{rate:.0f} calls/min" if rate >= _TEN else f"{round(rate, 1):g} calls/min"


# What runs.


def _rows(running: "Sequence[Doing]", width: int) -> list[Line]:
    """One line per item, in columns; titles only where there is room for them and for the rest."""
    if not running:
        return []
    labels = [one_line(one.label) for one in running]
    titles = [one_line(one.title) for one in running]
    texts = [
        (cut(step_in_words(one_line(one.node)) or "starting", _NODE), _round(one, width), clock(one.seconds))
        for one in running
    ]
    node_room, round_room, time_room = (max(map(columns, column)) for column in zip(*texts, strict=True))
    others = sum(room + len(_GAP) for room in (node_room, round_room, time_room) if room)
    label_columns = label_room(labels, width=width, others=others + len(_GAP) + _DETAIL)
    rest = width - label_columns - len(_GAP) - others
    title_columns = _title_room(titles, rest - len(_GAP) - _DETAIL_WITH_TITLE)
    rest -= title_columns + len(_GAP) if title_columns else 0
    lines: list[Line] = []
    for one, label, title, (node, number, time) in zip(running, labels, titles, texts, strict=True):
        shown = cut_middle(label, label_columns)
        middle = [padded(cut(title, title_columns), title_columns)] if title_columns else []
        middle += [padded(node, node_room), *[padded(number, round_room)] * bool(round_room)]
        middle.append(time.rjust(time_room))
        text = " " * (label_columns - columns(shown)) + _GAP + _GAP.join(middle)
        line: Line = (Paint(shown, fg=LABEL), text)
        if detail := _detail(one, rest):
            line = (*line, _GAP, Paint(detail, dim=True))
        # A terminal may be too narrow for columns.
        lines.append(line if columns_of(line) <= width else (cut(f"{label} {node} {time}", width),))
    return lines


def _title_room(titles: Sequence[str], room: int) -> int:
    longest = min(_MOST_TITLE, max(map(columns, titles)))
    return min(longest, room) if room >= min(longest, _LEAST_TITLE) else 0


def _round(one: "Doing", width: int) -> str:
    if not one.round:
        return ""
    return f"r{one.round}" if width < _NARROW else f"round {one.round}"


def _detail(one: "Doing", room: int) -> str:
    """The key in use, or the wait: its reason and how long; if there is little room, how long first."""
    text = one_line(one.detail)
    whole = text if one.left is None else f"{text}; {rounded(one.left)}"
    if columns(whole) <= room:
        return whole
    reason = text.removeprefix("waiting: ")
    return cut(reason if one.left is None else f"{rounded(one.left)}: {reason}", room)
