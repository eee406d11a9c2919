"""Prints messages to standard error and asks yes-or-no questions: `app/dialog.py`, with click."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from agentos.console.visible import one_line

if TYPE_CHECKING:
    from agentos.console.console import Console


def tell(line: str) -> None:
    """Show a line on standard error."""
    click.echo(f"agentos: {one_line(line)}", err=True)


def warn(line: str) -> None:
    """Show a warning on standard error."""
    tell(f"warning: {line}")


class Terminal:
    """The dialog of a command; keeps the console for the summary at the end of the run."""

    console: "Console"

    def tell(self, line: str) -> None:
        tell(line)

    def warn(self, line: str) -> None:
        warn(line)

    def confirm(self, question: str) -> bool | None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        try:
            return click.confirm(question, default=False, err=True)
        except click.Abort:
            raise KeyboardInterrupt from None

    def open_console(
        self, *, how: str, json: bool, environment: Mapping[str, str], interrupt: int
    ) -> "Console":
        from agentos.console.console import Console  # noqa: PLC0415 - a dry run needs none

        self.console = Console(how=how, json=json, environment=environment, interrupt=interrupt)
        return self.console
