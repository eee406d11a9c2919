"""What a worker machine tells a submitter about an attempt, besides the messages of its worker."""

from agentos import redact
from agentos.audit_record import Text
from agentos.console.lines import OutputPrefixer
from agentos.wire import Message


class PrintedLetter(Message):
    """Lines that a worker, or a program that it started, has printed."""

    lines: tuple[str, ...]

    def safe_lines(self) -> tuple[str, ...]:
        """The lines without secrets that this process knows, and without what a terminal would obey."""
        return tuple(
            OutputPrefixer(redact.redact).feed("\n".join((*self.lines, "")).encode("utf-8", "replace"))
        )


class GoneLetter(Message):
    """The worker is gone; the last letter about its attempt."""

    how: Text = ""
    broken: Text | None = None
    released: bool = False
