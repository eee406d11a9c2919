"""One result of the doctor's, and the exit code that many come to. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from agentos.errors import Exit


class State(StrEnum):
    """How well a part of the set-up is."""

    OK = "ok"
    WARNING = "warning"  # a run works, but maybe not as meant
    PROBLEM = "problem"  # a run would not work


@dataclass(frozen=True, kw_only=True)
class Check:
    """One part of the set-up, how it is, and what to type to mend it."""

    section: str
    name: str
    state: State = State.OK
    text: str
    fix: str = ""  # commands or lines of a file, one a line
    exit_code: Exit = Exit.USAGE  # what a problem ends in


def exit_code(checks: Iterable[Check]) -> Exit:
    """The configuration's problems count before the keys', since nothing runs without it."""
    codes = {check.exit_code for check in checks if check.state is State.PROBLEM}
    return Exit.USAGE if Exit.USAGE in codes else Exit.NO_KEY if codes else Exit.OK
