"""The interface for messages and questions to the person at the terminal; `cli/dialog.py` implements it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentos.console.console import Console


class Dialog(Protocol):
    """The person at the terminal."""

    def tell(self, line: str) -> None:
        """Show a line that is not part of the output."""
        ...

    def warn(self, line: str) -> None:
        """Show a warning about something that is probably unintended."""
        ...

    def confirm(self, question: str) -> bool | None:
        """Ask yes or no; None if nobody can answer. Raises KeyboardInterrupt on Ctrl+C."""
        ...

    def open_console(
        self, *, how: str, json: bool, environment: Mapping[str, str], interrupt: int
    ) -> "Console":
        """Open the console of a run; `interrupt` becomes readable when a stop signal arrives."""
        ...
