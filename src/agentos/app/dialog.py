"""What the application says to the person at the terminal, and asks them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentos.console.console import Console


class Dialog(Protocol):
    """The person at the terminal."""

    def tell(self, line: str) -> None:
        """Show a line beside the output."""
        ...

    def warn(self, line: str) -> None:
        """Show a line about something that is probably not meant."""
        ...

    def confirm(self, question: str) -> bool | None:
        """Ask yes or no; None where nobody can answer. Raises KeyboardInterrupt if they stop instead."""
        ...

    def open_console(
        self, *, how: str, json: bool, environment: Mapping[str, str], interrupt: int
    ) -> "Console":
        """Open the console of a run; `interrupt` is readable once a stop signal has come."""
        ...
