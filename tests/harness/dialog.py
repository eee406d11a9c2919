"""A fake person at the terminal: records what is shown, and gives fixed answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentos.console.console import Console


@dataclass
class FakeDialog:
    """Gives every question the same answer; None means no terminal, KeyboardInterrupt means Ctrl+C."""

    answer: bool | type[KeyboardInterrupt] | None = None
    told: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def tell(self, line: str) -> None:
        self.told.append(line)

    def warn(self, line: str) -> None:
        self.warned.append(line)

    def confirm(self, question: str) -> bool | None:
        self.asked.append(question)
        if self.answer is KeyboardInterrupt:
            raise KeyboardInterrupt
        return None if self.answer is None else bool(self.answer)

    def open_console(
        self, *, how: str, json: bool, environment: Mapping[str, str], interrupt: int
    ) -> Console:
        return Console(how=how, json=json, environment=environment, interrupt=interrupt)
