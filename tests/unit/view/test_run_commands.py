"""The commands that the page may start: every argument is ours."""

from typing import Any

import pytest

from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.view.run_commands import command_of_answer, commands_of_run


def data(*items: tuple[str, str], live: bool = False, **begun: Any) -> dict[str, Any]:
    rows = [{"id": name, "status": status, "attempts": 1} for name, status in items]
    return {"run": {"live": live, "workflow": "lld", "begun": begun or None}, "items": rows}


def shown(found: dict[str, Any], *, mock: bool = False, **settings: Any) -> list[str]:
    commands = commands_of_run(found, Settings(**settings), mock=mock)
    return [f"{one.action}: {one.shown('agentos')}" for one in commands]


def test_what_was_stopped_is_resumed_and_what_failed_is_retried() -> None:
    found = data(
        ("1", "approved"),
        ("2", "interrupted"),
        ("3", "failed"),
        ("4", "cut_off"),
        ("5", "discuss"),
        ("6", "timed_out"),
        ("7", "pending"),
    )
    assert shown(found) == ["resume: agentos lld 2 4 7", "retry: agentos lld 3 6 --retry-failed"]
    assert shown(found, mock=True)[0] == "resume: agentos lld 2 4 7 --mock"
    assert shown(data(("1", "approved"))) == []
    assert shown(data(("2", "interrupted"), live=True)) == []
    never = data(("3", "failed"))
    never["items"][0]["attempts"] = 0
    assert shown(never) == []


def test_the_command_repeats_what_differs_from_the_settings() -> None:
    begun: dict[str, Any] = {
        "parallel": 4,
        "budget": 2.5,
        "drafter": "openai:gpt-5",
        "reviewer": None,
        "timeout": 600.0,
    }
    found = data(("2", "paused"), **begun)
    [one] = shown(found, timeout=600.0)
    assert one == "resume: agentos lld 2 --parallel 4 --drafter openai:gpt-5 --budget 2.5"
    [mock] = shown(found, mock=True, timeout=600.0)
    assert mock == "resume: agentos lld 2 --mock --parallel 4 --budget 2.5"


def test_the_budget_is_said_in_words() -> None:
    def budget(found: dict[str, Any], *, mock: bool = False, **settings: Any) -> str:
        return commands_of_run(found, Settings(**settings), mock=mock)[0].budget

    stopped = data(("2", "paused"))
    assert budget(stopped) == "No budget is set: it can cost any amount."
    assert budget(stopped, budget=3.0) == "Budget: $3.00."
    assert budget(data(("2", "paused"), budget=1500.0)) == "Budget: $1,500.00."
    assert budget(stopped, mock=True) == "The mock costs nothing."


@pytest.mark.parametrize("name", ["--mock", "-j9", "a b", "../x", "$(id)", "", "x" * 200])
def test_only_ids_of_items_become_arguments(name: str) -> None:
    assert shown(data((name, "interrupted"), ("2", "interrupted"))) == ["resume: agentos lld 2"]
    with pytest.raises(UsageError):
        command_of_answer("lld", name, Settings(), mock=False)


def test_an_answered_item_is_resumed_in_its_workflow() -> None:
    command = command_of_answer("own", "43", Settings(), mock=True)
    assert command.arguments == ("run", "own", "43", "--mock")


def test_a_run_on_other_machines_continues_there() -> None:
    found = data(("2", "interrupted"), engine="postgres")
    assert shown(found) == ["resume: agentos lld 2 --engine postgres"]
    assert shown(found, engine="postgres") == ["resume: agentos lld 2"]
    answer = command_of_answer("lld", "43", Settings(), mock=True, engine="postgres")
    assert answer.arguments == ("lld", "43", "--mock", "--engine", "postgres")
