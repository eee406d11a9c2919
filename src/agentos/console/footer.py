"""The live footer of a run on a terminal: a bar, and one line per running item. Coordinator process."""

from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, cast

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.style import Style
from rich.text import Text

from agentos.console.footer_layout import columns_of, footer_lines
from agentos.console.line_colours import coloured
from agentos.console.screen import Line, Paint
from agentos.console.visible import one_line

if TYPE_CHECKING:
    from agentos.console.console import FooterView
    from agentos.console.safe_stream import FooterStream


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
        self._climb_over_wrapped()
        self._console.print(
            Text("\n").join(_text(coloured(one_line(line))) for line in lines), soft_wrap=True
        )
        self._park()

    def show(self, view: "FooterView") -> None:
        self._climb_over_wrapped()
        width, height = self._console.size
        drawn = footer_lines(view, width=width, height=height)
        self._widths = [columns_of(line) for line in drawn]
        self._columns = width
        self._live.update(Group(*(_text(line, fixed=True) for line in drawn)), refresh=True)
        self._park()

    def _park(self) -> None:
        """Leave the cursor at the start of the last line: there, an echoed ^C cannot wrap."""
        self._outlet.write("\r")

    def _climb_over_wrapped(self) -> None:
        """Clear the rows that a terminal made narrower has wrapped, of which rich knows nothing."""
        room = max(1, self._console.size.width)
        if room >= self._columns or not self._widths:
            return
        # The cursor stays at the start of the last line, whose wrapped rest is below it.
        rows = sum(max(1, -(-width // room)) for width in self._widths[:-1])
        extra = rows - len(self._widths[:-1])
        self._outlet.write("\r\x1b[J" + "\x1b[1A\x1b[2K" * extra)
        self._widths = [min(width, room) for width in self._widths]
        self._columns = room

    def close(self) -> None:
        self._climb_over_wrapped()
        self._live.update(Text(""), refresh=False)
        self._live.stop()


def _text(line: Line, *, fixed: bool = False) -> Text:
    """A line for rich; a `fixed` one is never wrapped."""
    text = Text(no_wrap=fixed or None, overflow="crop" if fixed else None)
    for part in line:
        text.append(str(part), style=_style(part) if isinstance(part, Paint) else None)
    return text


def _style(part: Paint) -> Style:
    return Style(color=part.fg, bold=part.bold or None, dim=part.dim or None)
