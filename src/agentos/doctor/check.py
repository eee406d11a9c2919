"""One check of `agentos doctor`, and the exit code of all of them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from agentos.errors import Exit


class State(StrEnum):
    """The state of one part of the setup."""

    OK = "ok"
    WARNING = "warning"  # a run works, but maybe not as intended
    PROBLEM = "problem"  # a run would not work


@dataclass(frozen=True, kw_only=True)
class Check:
    """One part of the setup, its state, and how to fix it."""

    section: str
    name: str
    state: State = State.OK
    text: str
    fix: str = ""  # commands or lines for a file, one per line
    exit_code: Exit = Exit.USAGE  # the exit code if it is a problem


def exit_code(checks: Iterable[Check]) -> Exit:
    """Configuration problems come before key problems, since nothing runs without a configuration."""
    codes = {check.exit_code for check in checks if check.state is State.PROBLEM}
    return Exit.USAGE if Exit.USAGE in codes else Exit.NO_KEY if codes else Exit.OK
