"""The commands that the page may start: resume, retry, and run what was answered. Pure.

Every argument is built here, from the records of the run and the settings. A request only names one of these
actions, a run and an item that exist.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agentos.errors import UsageError
from agentos.model import Status, check_id
from agentos.naming import command_of
from agentos.settings import Settings, flag_of

MOST_NAMED = 500  # items in one command
# What a run was started with and the settings of today may differ in; a command repeats the difference.
_REPEATED = (
    "engine",
    "parallel",
    "drafter",
    "reviewer",
    "budget",
    "item_budget",
    "timeout",
    "run_timeout",
    "max_iterations",
)
_UNFINISHED = frozenset({Status.INTERRUPTED.value, Status.PAUSED.value, Status.PENDING.value, "cut_off"})
_BROKEN = frozenset({Status.FAILED.value, Status.TIMED_OUT.value, Status.NEEDS_REVISION.value})


@dataclass(frozen=True, kw_only=True)
class RunCommand:
    """A command that the page may start."""

    action: str  # resume, retry or answer
    arguments: tuple[str, ...]  # without the program
    why: str
    budget: str  # in words

    def shown(self, program: str) -> str:
        """As a person would type it."""
        return f"{program} {shlex.join(self.arguments)}"

    def as_dict(self, program: str) -> dict[str, str]:
        return {"action": self.action, "command": self.shown(program), "why": self.why, "budget": self.budget}


def commands_of_run(data: Mapping[str, Any], settings: Settings, *, mock: bool) -> tuple[RunCommand, ...]:
    """What can be started for a finished run, from the data of its page."""
    run = data["run"]
    if run["live"]:
        return ()
    begun = run["begun"] or {}
    flags = ["--mock"] if mock else []
    flags += _differences(begun, settings, mock=mock)
    budget = _budget(begun.get("budget") or settings.budget, mock=mock)
    unfinished = _ids(item for item in data["items"] if item["status"] in _UNFINISHED)
    # An unusable file was never started: retrying does not help.
    broken = _ids(item for item in data["items"] if item["status"] in _BROKEN and item["attempts"])
    found = []
    for action, ids, more, why in (
        ("resume", unfinished, [], "Resume where it stopped"),
        ("retry", broken, ["--retry-failed"], "Retry what was not approved"),
    ):
        if ids:
            arguments = (*command_of(run["workflow"]).split(), *ids, *more, *flags)
            found.append(RunCommand(action=action, arguments=arguments, why=why, budget=budget))
    return tuple(found)


def command_of_answer(
    workflow: str, item: str, settings: Settings, *, mock: bool, engine: str = ""
) -> RunCommand:
    """Resume an item whose question is answered; with an engine that the settings do not name, if given."""
    flags = [*(["--mock"] if mock else []), *([flag_of("engine"), engine] if engine else [])]
    arguments = (*command_of(workflow).split(), check_id(item), *flags)
    return RunCommand(
        action="answer",
        arguments=arguments,
        why="Resume the item with the answer",
        budget=_budget(settings.budget, mock=mock),
    )


def _ids(items: Any) -> list[str]:
    found = []
    for item in items:
        try:
            found.append(check_id(item["id"]))
        except UsageError:
            continue  # not the id of an item; such a record is broken
    return found[:MOST_NAMED]


def _differences(begun: Mapping[str, Any], settings: Settings, *, mock: bool) -> Sequence[str]:
    words: list[str] = []
    for name in _REPEATED:
        value = begun.get(name)
        if value is None or value == getattr(settings, name) or (mock and name in {"drafter", "reviewer"}):
            continue
        words += [
            flag_of(name),
            f"{Decimal(repr(value)).normalize():f}" if isinstance(value, float) else str(value),
        ]
    return words


def _budget(amount: float | None, *, mock: bool) -> str:
    if mock:
        return "The mock costs nothing."
    return "No budget is set: it can cost any amount." if amount is None else f"Budget: ${amount:,.2f}."
