"""The standard output and standard error of every command, with control characters made visible.

`open_screens` replaces both streams by screens. A screen makes everything that is written to it visible; only
our own colours, which are passed separately from the text, take effect.
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
    """A part of a line, in one of our colours."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False

    def __str__(self) -> str:
        return self.text


Line = tuple[str | Paint, ...]


class Screen:
    """A text stream that shows control characters; everything else is left to the wrapped stream."""

    def __init__(self, stream: TextIO, *, commands: bool) -> None:
        self._stream = stream
        self._guard = LineGuard(commands=commands)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("write() needs text")
        self._stream.write(self._guard(redact(text)))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def paint(self, line: Line, *, colour: bool) -> None:
        self._stream.write(painted((*line, "\n"), self._guard, colour=colour))
        self._stream.flush()


def painted(line: Line, guard: LineGuard, *, colour: bool) -> str:
    """The line as it is printed: its texts made visible, in our colours."""
    made: list[str] = []
    for part in line:
        text = guard(redact(str(part)))
        if colour and isinstance(part, Paint):
            text = click.style(text, fg=part.fg, bold=part.bold or None, dim=part.dim or None)
        made.append(text)
    return "".join(made)


def obeys_commands(environment: Mapping[str, str]) -> bool:
    """Whether GitHub Actions reads our output, where some lines are commands."""
    return environment.get("GITHUB_ACTIONS") == "true"


def open_screens(environment: Mapping[str, str]) -> None:
    """Replace standard output and standard error by screens, once."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        if not isinstance(stream, Screen):
            setattr(sys, name, Screen(stream, commands=obeys_commands(environment)))


def show(*line: str | Paint, colour: bool | None = None) -> None:
    """Print a line with colours, by default only on a terminal."""
    screen = sys.stdout if isinstance(sys.stdout, Screen) else Screen(sys.stdout, commands=False)
    screen.paint(line, colour=screen.isatty() if colour is None else colour)


def json_text(data: Any) -> str:
    """Data as JSON in ASCII, with nothing that a screen would have to change."""
    text = json.dumps(data, indent=2, default=str)
    return text.replace("\x7f", "\\u007f").replace("##[", "##\\u005b")
