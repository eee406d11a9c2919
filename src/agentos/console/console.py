"""What a run prints while it runs: prefixed lines, and a live footer below them. Coordinator process."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.console.line_colours import coloured
from agentos.console.safe_stream import FooterStream, SafeStream
from agentos.console.screen import Paint, obeys_commands
from agentos.console.visible import one_line
from agentos.events.progress import RunProgress
from agentos.store.run_folder import run_tree

if TYPE_CHECKING:
    from agentos.console.footer import Footer

COORDINATOR = "COORDINATOR"
REFRESH_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
class Doing:
    """What one running item is doing, for the footer."""

    label: str
    title: str = ""
    node: str
    round: int
    seconds: float
    detail: str  # the key in use, or what it is waiting for
    left: float | None = None  # seconds until that wait ends, if known


@dataclass(frozen=True, kw_only=True)
class FooterView:
    """What the footer shows."""

    progress: RunProgress
    seconds: float
    running: Sequence[Doing]
    notice: str = ""  # such as a pause, with its reason and the time left


class Console:
    """Shows a run while it runs; `how` is stream, grouped or quiet."""

    def __init__(
        self, *, how: str, json: bool, environment: Mapping[str, str], interrupt: int | None = None
    ) -> None:
        self._how = how
        self._actions = obeys_commands(environment)
        main = sys.stderr if json else sys.stdout
        self._main = SafeStream(main, interrupt, commands=self._actions)
        self._errors = self._main if json else SafeStream(sys.stderr, interrupt, commands=self._actions)
        self.colour = colour_wanted(environment, terminal=self._main.isatty())
        self._coloured = [
            stream
            for stream in (self._main, self._errors)
            if colour_wanted(environment, terminal=stream.isatty())
        ]
        self._footer: Footer | None = None
        plain = environment.get("TERM") == "dumb" or environment.get("CI")
        if how != "quiet" and self._main.isatty() and not plain:
            from agentos.console import footer  # noqa: PLC0415 - rich, for terminals only

            self._footer = footer.Footer(FooterStream(main, interrupt), colour=self.colour)

    @property
    def live(self) -> bool:
        return self._footer is not None

    @property
    def width(self) -> int | None:
        """The columns of the terminal, if it is one."""
        return shutil.get_terminal_size().columns if self._main.isatty() else None

    @property
    def height(self) -> int | None:
        """The rows of the terminal, if it is one."""
        return shutil.get_terminal_size().lines if self._main.isatty() else None

    def item_lines(self, label: str, lines: Sequence[str], *, error: bool) -> None:
        if self._how == "stream" and lines:
            self._write([f"[{label}] {line}" for line in lines], self._errors if error else self._main)

    def item_done(self, label: str, log: Path) -> None:
        """Show an item's whole output, if the user wants output grouped by item."""
        if self._how != "grouped":
            return
        try:
            descriptor = run_tree(log.parent).open(log)
        except FileNotFoundError:
            return
        if self._actions:
            self._main.command("group", label)
        with os.fdopen(descriptor, encoding="utf-8", errors="backslashreplace") as file:
            while block := file.readlines(65_536):
                # Lines of the log start with time and stream; the console omits both.
                lines = [line.rstrip("\n").split(" ", 2) for line in block]
                self._write([f"[{label}] {text}" for _, stream, text in lines if stream != "run"], self._main)
        if self._actions:
            self._main.command("endgroup")

    def say(self, line: str) -> None:
        if self._how != "quiet":
            self._write([f"[{COORDINATOR}] {one_line(line)}"], self._main)

    def complain(self, line: str) -> None:
        """Say what must be seen, even with --quiet."""
        self._write([f"[{COORDINATOR}] {one_line(line)}"], self._errors)

    def print(self, *line: str | Paint) -> None:
        """Print a line without a prefix, after the run."""
        self._main.paint(line, colour=self.colour)

    def annotate(self, level: str, text: str, *, title: str, file: str | None) -> None:
        """Mark a document in GitHub Actions; elsewhere there is nothing to do."""
        if self._actions:
            place = {} if file is None else {"file": file}
            self._main.command(level, text, **place, title=title)

    def show(self, view: FooterView) -> None:
        if self._footer is not None:
            self._footer.show(view)

    def close(self) -> None:
        if self._footer is not None:
            self._footer.close()
            self._footer = None

    def _write(self, lines: Iterable[str], safe_stream: SafeStream) -> None:
        if self._footer is not None and safe_stream.isatty():
            self._footer.lines(lines)
        elif safe_stream in self._coloured:
            for line in lines:
                safe_stream.paint(coloured(line), colour=True)
        else:
            safe_stream.write("".join(f"{line}\n" for line in lines))


def colour_wanted(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Use colour on a terminal that supports it, unless NO_COLOR or FORCE_COLOR say otherwise."""
    if environment.get("NO_COLOR"):
        return False
    if forced := environment.get("FORCE_COLOR"):
        return forced != "0"
    return terminal and environment.get("TERM") != "dumb"
