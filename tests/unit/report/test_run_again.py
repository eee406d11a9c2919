"""How a recorded run continues: as it was typed, with what differs from the settings of today."""

from typing import Any

from agentos.events.catalogue import RunStarted
from agentos.report.run_again import run_again
from agentos.settings import Settings

GIVEN = ("--mock", "--all", "--limit 5", "--max-wait 60", "--no-wait", "--max-retries 2", "--no-file")


def begun(**more: Any) -> RunStarted:
    how: dict[str, Any] = {"run_id": "r", "items": 1, "parallel": 1, "flags": GIVEN} | more
    return RunStarted(**how)


def chosen(started: RunStarted | None, *, mock: bool = False, **how: Any) -> str:
    again = run_again(started, {}, workflow="lld", mock=mock, **how)
    return again.command(again.chosen)


def test_every_flag_is_repeated_and_the_program_is_the_one_that_asks() -> None:
    repeated = "--all --limit 5 --mock --max-wait 60 --no-wait --max-retries 2 --no-file"
    typed = begun(command="agentos --home x lld --all")
    assert chosen(typed) == f"agentos --home x lld {repeated}"
    assert chosen(typed, start="agentos --config c") == f"agentos --config c lld {repeated}"
    assert chosen(begun(flags=(), ids=("1", "a b.md"))) == "agentos lld 1 'a b.md'"


def test_what_came_from_a_file_that_is_not_there_now_becomes_a_flag() -> None:
    run = begun(flags=(), budget=2.5, drafter="openai:gpt-5", timeout=600.0, engine="postgres")
    assert chosen(run, settings=Settings(timeout=600.0)) == (
        "agentos lld --all --engine postgres --drafter openai:gpt-5 --budget 2.5"
    )
    same = Settings(timeout=600.0, engine="postgres", drafter="openai:gpt-5", budget=2.5)
    assert chosen(run, settings=same) == "agentos lld --all"
    typed = begun(flags=("--budget 3",), budget=3.0)
    assert chosen(typed, settings=Settings()) == "agentos lld --all --budget 3"


def test_a_forged_flag_is_dropped() -> None:
    forged = ("--home /x", "--budget 1; id", "$(id)", "--budget '1", "--label '$(id)'", "--keep-prompts", "")
    assert chosen(begun(flags=forged)) == "agentos lld --all --label '$(id)'"


def test_a_run_of_an_older_version_does_not_say_how_it_was_started() -> None:
    assert chosen(None, mock=True) == "agentos lld --all --mock"
    assert chosen(begun(flags=None, command="agentos --home x lld --all --fresh")) == "agentos lld --all"
