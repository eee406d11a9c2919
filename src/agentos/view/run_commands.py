"""The commands that the page may start, and what each may cost. Pure.

Each is a command that the page shows as one to type. A request only names it; nothing in it is taken from the
request.
"""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from agentos.settings import Settings, flag_of

_STARTED_FROM_PAGE = ("resume", "retry")


@dataclass(frozen=True, kw_only=True)
class RunCommand:
    """A command that the page may start."""

    action: str  # resume, retry or answer
    command: str  # as a person would type it
    why: str
    budget: str  # in words

    def arguments(self, program: str) -> tuple[str, ...]:
        """Its words after the program."""
        return tuple(shlex.split(self.command.removeprefix(program)))

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def commands_of_run(data: Mapping[str, Any], settings: Settings, *, mock: bool) -> tuple[RunCommand, ...]:
    """What can be started for a finished run, from the data of its page."""
    begun = data["run"]["begun"] or {}
    if data["run"]["live"] or begun.get("flags") is None:  # an older version does not say how it was started
        return ()
    return tuple(
        run_command(one, settings, mock=mock, before=begun.get("budget"))
        for one in data["needs_you"]["commands"]
        if one["action"] in _STARTED_FROM_PAGE
    )


def run_command(
    command: Mapping[str, str], settings: Settings, *, mock: bool, before: float | None = None
) -> RunCommand:
    """A command with its budget in words; `before` is the budget of the run that it continues."""
    return RunCommand(
        action=command["action"],
        command=command["command"],
        why=command["why"].capitalize(),
        budget=_budget(shlex.split(command["command"]), settings, mock=mock, before=before),
    )


def _budget(words: list[str], settings: Settings, *, mock: bool, before: float | None) -> str:
    if mock:
        return "The mock costs nothing."
    run, item = (_amount(words, name, getattr(settings, name)) for name in ("budget", "item_budget"))
    each = "" if item is None else f", at most {_money(item)} per item"
    if run is None:
        return f"No budget is set: it can cost any amount{each}."
    raised = before is not None and run > Decimal(repr(before))
    return f"Budget: {_money(run)}{f', raised from {_money(Decimal(repr(before)))}' if raised else ''}{each}."


def _amount(words: list[str], name: str, otherwise: float | None) -> Decimal | None:
    flag = flag_of(name)
    if flag in words:
        return Decimal(words[words.index(flag) + 1])
    return None if otherwise is None else Decimal(repr(otherwise))


def _money(amount: Decimal) -> str:
    return f"${amount:,.2f}" if amount == round(amount, 2) else f"${amount.normalize():,f}"
