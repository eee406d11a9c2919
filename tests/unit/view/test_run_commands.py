"""The commands that the page may start: those that it shows, with what they may cost."""

from typing import Any

from agentos.settings import Settings
from agentos.view.run_commands import RunCommand, commands_of_run

RESUME = {"action": "resume", "command": "agentos --home x lld --all", "why": "resume where it stopped"}
RETRY = {"action": "retry", "command": "agentos lld --retry-failed", "why": "retry what was not approved"}
LOGS = {"action": "logs", "command": "agentos logs LLD-1", "why": "see what happened"}


def found(
    *commands: dict[str, str], live: bool = False, mock: bool = False, settings: Any = None, **begun: Any
) -> tuple[RunCommand, ...]:
    run = {"live": live, "begun": {"flags": [], **begun}}
    data = {"run": run, "needs_you": {"commands": list(commands)}}
    return commands_of_run(data, settings or Settings(), mock=mock)


def test_what_the_page_shows_can_be_started() -> None:
    commands = found(RESUME, RETRY, LOGS)
    assert [one.command for one in commands] == [RESUME["command"], RETRY["command"]]
    assert commands[0].arguments("agentos --home x") == ("lld", "--all")
    assert commands[0].why == "Resume where it stopped"
    assert found(RESUME, live=True) == ()


def test_a_run_that_does_not_say_how_it_was_started_is_not_started_again() -> None:
    assert found(RESUME, flags=None) == ()


def budget(words: str, **how: Any) -> str:
    return found(RESUME | {"command": f"agentos lld --all{words}"}, **how)[0].budget


def test_the_budget_is_said_in_words() -> None:
    assert budget("") == "No budget is set: it can cost any amount."
    assert budget("", settings=Settings(budget=3.0)) == "Budget: $3.00."
    assert budget(" --budget 1500") == "Budget: $1,500.00."
    assert budget(" --budget 0.042", budget=0.02) == "Budget: $0.042, raised from $0.02."
    assert budget(" --budget 2 --item-budget 0.5") == "Budget: $2.00, at most $0.50 per item."
    assert budget(" --budget 2", mock=True) == "The mock costs nothing."
