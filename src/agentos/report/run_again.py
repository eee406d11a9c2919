"""The command that continues a run: what was typed, with the budgets that it needs. Pure.

Terminal, report, live page and inbox all take their commands from here.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from agentos.errors import Exit
from agentos.events.catalogue import RunStarted
from agentos.events.fields import Record, number_of, text_of
from agentos.naming import command_of
from agentos.settings import FILES_ONLY, NAMES, Settings, about, flag_of

MOST_NAMED = 20  # items in one command
# They choose the items of one command; each command has its own.
_CHOICE = frozenset({"--all", "--limit", "--retry-failed", "--fresh"})
_KNOWN = frozenset(
    flag
    for name in NAMES
    if about(name).group != FILES_ONLY
    for flag in (flag_of(name), about(name).negative)
    if flag
)
# What a run may have from a file that is not there now; the command repeats the difference.
_COMPARED = (
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


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """An item that did not finish."""

    id: str
    attempts: int


@dataclass(frozen=True, kw_only=True)
class RunAgain:
    """How a run was started and why it stopped, as far as the next command depends on it."""

    workflow: str
    start: str = "agentos"  # the program with its flags for home and settings
    ids: tuple[str, ...] = ()  # items that were named
    flags: tuple[str, ...] = ()  # one flag each, as typed: "--budget 2", "--no-file"
    budget: float | None = None
    item_budget: float | None = None
    needed_budget: float | None = None  # with which the next call would go out
    needed_item_budget: float | None = None
    stopped: str | None = None
    exit_code: int | None = None

    def command(self, choice: str) -> str:
        """The run's command for a choice of items; a budget that was reached is raised."""
        words = [self.start, command_of(self.workflow), choice, *self._repeated()]
        return " ".join(word for word in words if word)

    def resume(self, stopped: Sequence[Stopped]) -> list[str]:
        """The commands that continue with what was stopped; empty if nothing was.

        --retry-failed and --fresh cannot select an item that this run started: it has not failed, and it must
        resume, not start over. So such items are named.
        """
        if not stopped:
            return []
        few = len(stopped) <= MOST_NAMED
        if self.has("--fresh") and few:
            begun = [one.id for one in stopped if one.attempts]
            untouched = [one.id for one in stopped if not one.attempts]
            choices = [shlex.join(begun)] if begun else []
            choices += [f"{shlex.join(untouched)} --fresh"] if untouched else []
            return [self.command(choice) for choice in choices]
        if self.has("--retry-failed"):
            named = few and not self.ids and not self.has("--all")
            chosen = shlex.join(one.id for one in stopped) if named else self.chosen
            return [self.command(f"{chosen} --retry-failed")]
        return [self.command(self.chosen)]

    def retry(self) -> str:
        """The command that retries what was not approved."""
        return self.command(f"{shlex.join(self.ids)} --retry-failed".strip())

    def has(self, flag: str) -> bool:
        return any(_name(one) == flag for one in self.flags)

    @property
    def chosen(self) -> str:
        """The items that the run was for."""
        limit = [one for one in self.flags if _name(one) == "--limit"]
        return shlex.join(self.ids) or " ".join(["--all", *limit])

    def _repeated(self) -> list[str]:
        raised = self._raised()
        kept = [raised.pop(_name(one), one) for one in self.flags if _name(one) not in _CHOICE]
        return [*kept, *raised.values()]

    def _raised(self) -> dict[str, str]:
        """The budgets that are too small, each with an amount that lets the run continue for a while."""
        raised: dict[str, float] = {}
        for name, amount, needed in (
            ("budget", self.budget, self.needed_budget),
            ("item_budget", self.item_budget, self.needed_item_budget),
        ):
            if amount is not None and needed is not None and needed > amount:
                raised[name] = 3 * needed  # a draft, its review, and some more
        if not raised and self.exit_code == Exit.BUDGET:
            name = "budget" if self.stopped == "budget" else "item_budget"
            amount = self.budget if name == "budget" else self.item_budget
            raised |= {} if amount is None else {name: 2 * amount}
        return {flag_of(name): f"{flag_of(name)} {_rounded_up(one)}" for name, one in raised.items()}


def run_again(
    begun: RunStarted | None,
    summary: Record,
    *,
    workflow: str,
    mock: bool,
    start: str | None = None,
    settings: Settings | None = None,
) -> RunAgain:
    """How to continue a recorded run: typed as it was, or after `start` and with the settings of today."""
    if begun is None or begun.flags is None:  # an older version does not say
        return RunAgain(workflow=workflow, start=start or "agentos", flags=("--mock",) if mock else ())
    return RunAgain(
        workflow=workflow,
        start=start or _start(begun.command, workflow),
        ids=begun.ids,
        flags=(
            *_checked(begun.flags),
            *(() if settings is None else _differences(begun, settings, mock=mock)),
        ),
        budget=begun.budget,
        item_budget=begun.item_budget,
        needed_budget=number_of(summary, "needed_budget"),
        needed_item_budget=number_of(summary, "needed_item_budget"),
        stopped=text_of(summary, "stopped", 80),
        exit_code=int(number_of(summary, "exit_code") or 0),
    )


def as_flag(name: str, value: Any) -> tuple[str, ...]:
    """A setting as it can be typed, one flag each; empty if there is no flag for this value."""
    if isinstance(value, bool):
        flag = flag_of(name) if value else about(name).negative
        return (flag,) if flag else ()
    if isinstance(value, tuple):
        return tuple(f"{flag_of(name)} {shlex.quote(str(one))}" for one in value)
    text = _number(value) if isinstance(value, float) else shlex.quote(str(value))
    return () if value is None else (f"{flag_of(name)} {text}",)


def _checked(flags: Sequence[str]) -> list[str]:
    """Flags of a record, without what is not one flag of ours with its value: a record may be forged."""
    checked = []
    for flag in flags:
        try:
            words = shlex.split(flag)
        except ValueError:
            continue
        if words and words[0] in _KNOWN and len(words) <= 2:
            checked.append(shlex.join(words))
    return checked


def _differences(begun: RunStarted, settings: Settings, *, mock: bool) -> list[str]:
    typed = {_name(one) for one in begun.flags or ()}
    compared: Mapping[str, Any] = {name: getattr(begun, name) for name in _COMPARED}
    return [
        flag
        for name, value in compared.items()
        if value is not None and value != getattr(settings, name) and flag_of(name) not in typed
        if not (mock and name in {"drafter", "reviewer"})
        for flag in as_flag(name, value)
    ]


def _start(typed: str | None, workflow: str) -> str:
    """The program with its own flags, from the typed command."""
    start, found, rest = (typed or "").partition(f" {command_of(workflow)}")
    return start if found and start and (not rest or rest[0] == " ") else "agentos"


def _name(flag: str) -> str:
    return flag.partition(" ")[0]


def _rounded_up(amount: float) -> str:
    """Rounded up to two significant digits, so never below what is needed."""
    exact = Decimal(repr(amount))
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    return f"{((exact / unit).to_integral_value(ROUND_CEILING) * unit).normalize():f}"


def _number(value: float) -> str:
    # Never with an exponent, which is not a valid duration.
    return f"{Decimal(repr(value)).normalize():f}"
