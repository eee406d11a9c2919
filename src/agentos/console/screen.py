"""The one way out to people: standard output and standard error, on which other people's text is visible.

`open_screens` puts a screen in the place of either stream. Whatever is written there, by whomever, is made
visible; only our own colours, given apart from the text, are obeyed.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import click

from agentos.console.visible import LineGuard
from agentos.redact import redact


@dataclass(frozen=True, slots=True)
class Paint:
    """A text of a line in a colour of ours."""

    text: str
    fg: str | None = None
    bold: bool = False

    def __str__(self) -> str:
        return self.text


Line = tuple[str | Paint, ...]


class Screen:
    """A text stream that shows what it would otherwise obey; the rest is the stream's own."""

    def __init__(self, stream: TextIO, *, commands: bool) -> None:
        self._stream = stream
        self._guard = LineGuard(commands=commands)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("text is needed")
        self._stream.write(self._guard(redact(text)))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def paint(self, line: Line, *, colour: bool) -> None:
        self._stream.write(painted((*line, "\n"), self._guard, colour=colour))
        self._stream.flush()


def painted(line: Line, guard: LineGuard, *, colour: bool) -> str:
    """The line as it goes out: its texts visible, our colours around them."""
    made: list[str] = []
    for part in line:
        text = guard(redact(str(part)))
        if colour and isinstance(part, Paint):
            text = click.style(text, fg=part.fg, bold=part.bold or None)
        made.append(text)
    return "".join(made)


def obeys_commands(environment: Mapping[str, str]) -> bool:
    """Whether what is printed is read by GitHub Actions, which takes some lines for commands."""
    return environment.get("GITHUB_ACTIONS") == "true"


def open_screens(environment: Mapping[str, str]) -> None:
    """Put screens in the place of standard output and standard error, once."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        if not isinstance(stream, Screen):
            setattr(sys, name, Screen(stream, commands=obeys_commands(environment)))


def show(*line: str | Paint, colour: bool | None = None) -> None:
    """Print a line with colours; by default they are for terminals only."""
    screen = sys.stdout if isinstance(sys.stdout, Screen) else Screen(sys.stdout, commands=False)
    screen.paint(line, colour=screen.isatty() if colour is None else colour)


def json_text(data: Any) -> str:
    """Data as JSON in ASCII, which holds nothing that a screen would have to change."""
    text = json.dumps(data, indent=2, default=str)
    return text.replace("\x7f", "\\u007f").replace("##[", "##\\u005b")
