"""The live footer of a run on a terminal: a bar, and one line per running item. Coordinator process."""

from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, cast

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentos.console.colours import STATUS_COLOURS
from agentos.console.fitting import columns, cut, cut_middle, label_room
from agentos.console.visible import one_line

if TYPE_CHECKING:
    from agentos.console.console import RunProgress
    from agentos.console.safe_stream import FooterStream

LABEL_COLOURS = ("cyan", "magenta", "yellow", "blue", "green", "bright_cyan", "bright_magenta", "bright_blue")
_GAP = 2  # columns between two columns
_NODE = 12  # columns of a node's name at most
_DETAIL = 20  # columns wanted for the key in use or the reason of a wait
_KEPT_ROWS = 6  # rows of the screen kept for the scrolling lines


def label_style(label: str) -> str:
    """A label always gets the same colour."""
    if label == "COORDINATOR":
        return "bold"
    return LABEL_COLOURS[sum(map(ord, label)) % len(LABEL_COLOURS)]


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Footer:
    """Draws below the lines, whenever the caller asks for it."""

    def __init__(self, safe_stream: "FooterStream", *, colour: bool) -> None:
        self._outlet = safe_stream
        self._widths: list[int] = []  # of the lines drawn last
        self._columns = 0  # of the terminal they were drawn on
        self._console = RichConsole(
            file=cast("IO[str]", safe_stream), highlight=False, markup=False, emoji=False, no_color=not colour
        )
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def lines(self, lines: Iterable[str]) -> None:
        text = Text()
        for number, line in enumerate(lines):
            label, bracket, rest = one_line(line).partition("] ")
            text.append("\n" if number else "")
            text.append(label + bracket, style=label_style(label[1:]))
            text.append(rest)
        self._console.print(text, soft_wrap=True)

    def show(self, view: "RunProgress") -> None:
        self._climb_over_wrapped()
        width, height = self._console.size
        drawn = draw(view, width=width, height=height)
        self._widths = [
            sum(segment.cell_length for segment in line)
            for line in self._console.render_lines(drawn, pad=False)
        ]
        self._columns = self._console.size.width
        self._live.update(drawn, refresh=True)

    def _climb_over_wrapped(self) -> None:
        """Clear the rows that a terminal made narrower has wrapped, of which rich knows nothing."""
        columns = max(1, self._console.size.width)
        if columns < self._columns:
            rows = sum(max(1, -(-width // columns)) for width in self._widths)
            extra = rows - len(self._widths)
            self._outlet.write("\r\x1b[2K" + "\x1b[1A\x1b[2K" * extra)

    def close(self) -> None:
        self._climb_over_wrapped()
        self._live.update(Text(""), refresh=False)
        self._live.stop()


def draw(view: "RunProgress", *, width: int, height: int) -> Group:
    """Lay out the footer for a terminal of this size."""
    head = Table.grid(padding=(0, 1))
    counts = Text()
    for status, count in view.counts.items():
        counts.append(f" {count} {status.replace('_', ' ')}", style=STATUS_COLOURS.get(status, "dim"))
    bar = ProgressBar(
        total=max(1, view.total),
        completed=view.done,
        width=max(8, min(40, width // 4)),
        complete_style="cyan",
        finished_style="green",
    )
    head.add_row(Text(f"{view.done}/{view.total} done", style="bold"), bar, Text(clock(view.seconds)), counts)
    rows = Table.grid(padding=(0, _GAP))
    for column in ("label", "node", "round", "time"):
        rows.add_column(no_wrap=True, justify="right" if column == "time" else "left")
    rows.add_column(no_wrap=True, overflow="ellipsis")
    room = max(1, height - _KEPT_ROWS)
    shown = view.running[:room]
    texts_of_rows = [
        (
            cut(one_line(doing.node) or "starting", _NODE),
            f"round {doing.round}" if doing.round else "",
            clock(doing.seconds),
        )
        for doing in shown
    ]
    others = sum(max(map(columns, column)) + _GAP for column in zip(*texts_of_rows, strict=True))
    for_label = label_room((doing.label for doing in shown), width=width, others=others + _GAP + _DETAIL)
    # At most what is left, or it would take columns from the others.
    for_detail = max(1, width - for_label - _GAP - others)
    for doing, texts in zip(shown, texts_of_rows, strict=True):
        label = Text(cut_middle(doing.label, for_label), style=label_style(doing.label))
        rows.add_row(label, *texts, Text(cut(one_line(doing.detail), for_detail), style="dim"))
    parts: list[Table | Text] = [head, rows]
    if len(view.running) > room:
        parts.append(Text(f"and {len(view.running) - room} more", style="dim"))
    if view.notice:
        parts.append(Text(one_line(view.notice), style="yellow", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)
