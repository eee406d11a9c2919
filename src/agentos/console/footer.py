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


_NARROWEST = 40  # columns; a terminal made narrower than this may keep rows of the footer


class Footer:
    """Draws below the lines, whenever the caller asks for it."""

    def __init__(self, safe_stream: "FooterStream", *, colour: bool) -> None:
        self._outlet = safe_stream
        self._drawn: list[Line] = []
        self._empty = 0  # rows drawn above them
        self._lines_above = 0  # rows of the screen above all that, at least
        self._columns = self._rows = 0  # of the terminal at that time
        self._console = RichConsole(
            file=cast("IO[str]", safe_stream), highlight=False, markup=False, emoji=False, no_color=not colour
        )
        self._live = Live(
            self,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def __rich__(self) -> Group:
        return Group(*[Text("")] * self._empty, *(_text(line, fixed=True) for line in self._drawn))

    def lines(self, lines: Iterable[str]) -> None:
        self._follow_resize()
        texts = [_text(coloured(one_line(line))) for line in lines]
        self._lines_above += len(texts)
        self._keep_in_reach()
        self._console.print(Text("\n").join(texts), soft_wrap=True)
        self._park()

    def show(self, view: "FooterView") -> None:
        self._follow_resize()
        self._drawn = footer_lines(view, width=self._columns, height=self._rows)
        self._keep_in_reach()
        self._live.refresh()
        self._park()

    def _park(self) -> None:
        """Leave the cursor at the start of the last line: there, an echoed ^C cannot wrap."""
        self._outlet.write("\r")

    def _follow_resize(self) -> None:
        """Clear the rows that a terminal made narrower has wrapped, of which rich knows nothing."""
        width, height = self._console.size
        self._lines_above -= max(0, self._rows - height)
        if width < self._columns and self._drawn:
            # The cursor stays at the start of the last line, whose wrapped rest is below it.
            extra = [rows - 1 for rows in self._wrapped(width)]
            self._outlet.write("\r\x1b[J" + "\x1b[1A\x1b[2K" * sum(extra[:-1]))
            self._lines_above -= sum(extra)
        self._columns, self._rows = width, height

    def _keep_in_reach(self) -> None:
        """Draw empty rows above the footer as long as it would leave the screen if it were wrapped.

        A terminal that wraps rows moves as many at its top into its history, even if there are free rows at
        the bottom. Nothing can be erased there. New lines take the place of the empty rows.
        """
        rows = len(self._drawn)
        wrapped = sum(self._wrapped(_NARROWEST))
        self._lines_above = max(0, self._lines_above)
        self._empty = max(0, min(wrapped, self._rows - 1) - rows - self._lines_above)
        self._lines_above = max(0, min(self._lines_above, self._rows - rows - self._empty))

    def _wrapped(self, width: int) -> list[int]:
        """The rows that each line takes once the terminal has this width."""
        drawn = (min(columns_of(line), self._columns) for line in self._drawn)
        return [max(1, -(-one // max(1, width))) for one in drawn]

    def close(self) -> None:
        self._follow_resize()
        self._drawn, self._empty = [], 0
        self._live.stop()


def _text(line: Line, *, fixed: bool = False) -> Text:
    """A line for rich; a `fixed` one is never wrapped."""
    text = Text(no_wrap=fixed or None, overflow="crop" if fixed else None)
    for part in line:
        text.append(str(part), style=_style(part) if isinstance(part, Paint) else None)
    return text


def _style(part: Paint) -> Style:
    return Style(color=part.fg, bold=part.bold or None, dim=part.dim or None)
