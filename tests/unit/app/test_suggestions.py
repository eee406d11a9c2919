"""The commands to type next: exactly those that get a run further."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentos.app.suggestions import Suggestion, next_commands
from agentos.cli.app import agentos
from agentos.cli.invocation import program
from agentos.cli.workflow import lld
from agentos.config import Config, load_config
from agentos.errors import Exit
from agentos.model import Status
from agentos.report.summary import ItemRow, KeyRow, Summary

FLAGS = {
    "mock": True,
    "parallel": "2",
    "timeout": "90s",
    "run_timeout": "2h",
    "max_iterations": "3",
    "fail_fast": True,
    "drafter": "openai:gpt-5",
    "budget": "0.5",
    "context": ("issues/active/1.md", "src/a b.py"),
    "source": "local",
    "file": False,
    "label": ("to do", "small"),
}
TYPED = (
    "--mock --label 'to do' --label small --source local --parallel 2 --timeout 90 --run-timeout 7200 "
    "--max-iterations 3 --fail-fast --drafter openai:gpt-5 --budget 0.5 --context issues/active/1.md "
    "--context 'src/a b.py' --no-file"
)


def config(**flags: Any) -> Config:
    return load_config(flags=flags, worktree=None, environment={})


def row(number: int, status: Status, **more: Any) -> ItemRow:
    told: dict[str, Any] = {"id": str(number), "label": f"LLD-{number}", "attempts": 1}
    return ItemRow(status=status, **told | more)


def key(name: str, state: str = "available", provider: str = "openai") -> KeyRow:
    return KeyRow(
        id=name,
        provider=provider,
        group=name,
        state=state,
        calls=0,
        rate_limited=0,
        tokens_in=0,
        tokens_out=0,
    )


def summary(*rows: ItemRow, code: Exit = Exit.INTERRUPTED, **more: Any) -> Summary:
    told: dict[str, Any] = {
        "run_id": "run",
        "workflow": "lld",
        "parallel": 1,
        "started_at": "",
        "finished_at": "",
        "wall_seconds": 1.0,
        "exit_code": code,
        "stopped": "interrupted" if code is Exit.INTERRUPTED else None,
        "items": rows,
        "keys": (),
        "coordination_overhead_percent": None,
        "folder": "",
    }
    return Summary(**told | more)


def typed(made: Summary, settings: Config, **how: Any) -> list[str]:
    return [one.command for one in next_commands(made, settings, **how)]


def test_the_items_that_were_named_and_every_flag_that_was_given_are_repeated() -> None:
    made = summary(row(1, Status.INTERRUPTED), row(2, Status.PENDING))
    assert typed(made, config(**FLAGS), ids=("1", "a b.md")) == [f"agentos lld 1 'a b.md' {TYPED}"]


def test_a_repeated_command_means_the_same() -> None:
    """The suggestion, read by the real command line, gives the settings of the first run."""
    [command] = typed(summary(row(1, Status.INTERRUPTED)), config(**FLAGS), ids=("1",))
    context = lld.make_context("lld", shlex.split(command)[2:])
    assert context.params.pop("ids") == ("1",)
    assert config(**context.params).settings == config(**FLAGS).settings


def test_flags_that_were_for_one_run_only_are_not_repeated() -> None:
    given = config(all=True, json=True, verbose=True, quiet=True, yes=True, limit="5")
    assert typed(summary(row(1, Status.PENDING)), given) == ["agentos lld --all --limit 5"]
    failed = summary(row(1, Status.FAILED), code=Exit.FAILED)
    assert typed(failed, given) == ["agentos lld --retry-failed", "agentos logs LLD-1"]
    assert typed(failed, given, ids=("1",))[0] == "agentos lld 1 --retry-failed"


def test_a_file_that_could_not_be_used_is_not_tried_again_and_has_no_log() -> None:
    refused = row(1, Status.FAILED, attempts=0)
    assert typed(summary(refused, code=Exit.FAILED), config()) == []
    both = summary(refused, row(2, Status.FAILED), code=Exit.FAILED)
    assert typed(both, config()) == ["agentos lld --retry-failed", "agentos logs LLD-2"]


def test_what_other_layers_set_is_not_a_flag() -> None:
    given = load_config(flags={"all": True}, worktree=None, environment={"AGENTOS_PARALLEL": "4"})
    assert typed(summary(row(1, Status.PENDING)), given) == ["agentos lld --all"]


def test_after_retry_failed_and_fresh_the_items_are_named() -> None:
    made = summary(row(1, Status.APPROVED), row(2, Status.INTERRUPTED), row(3, Status.PENDING, attempts=0))
    assert typed(made, config(retry_failed=True)) == ["agentos lld 2 3 --retry-failed"]
    assert typed(made, config(all=True, fresh=True)) == ["agentos lld 2", "agentos lld 3 --fresh"]


def test_every_command_finds_the_same_home_and_settings() -> None:
    rows = [row(n, status, seconds=1.0) for n, status in enumerate(Status, start=1)]
    start = "agentos --home '/tmp/my home' --config c.toml"
    rows.append(row(50, Status.APPROVED, filing="wanted"))
    commands = typed(summary(*rows, code=Exit.NO_KEY, keys=(key("k", "disabled"),)), config(), start=start)
    assert len(commands) == 9
    assert all(command.startswith(f"{start} ") for command in commands)


def test_the_global_flags_reach_the_suggestions() -> None:
    assert program() == "agentos"
    context = agentos.make_context("agentos", ["--home", "my home", "--config", "c.toml", "status"])
    with context:
        agentos.callback(home=Path("my home"), config_file=Path("c.toml"))  # type: ignore[misc]
        assert program() == "agentos --home 'my home' --config c.toml"


def test_after_issues_are_saved_their_designs_come_next() -> None:
    saved = row(1, Status.APPROVED, output="issues/active/1.md")
    made = summary(saved, code=Exit.OK, workflow="issue")
    assert next_commands(made, config(mock=True, all=True)) == (
        Suggestion("agentos lld --all --mock", "turn the issues into designs"),
    )
    assert typed(made, config(file=False)) == ["agentos lld --all --source local"]
    filed = row(1, Status.APPROVED, output="issues/active/1.md", filing="filed")
    assert typed(summary(filed, code=Exit.OK, workflow="issue"), config()) == []
    assert typed(summary(saved, code=Exit.OK), config()) == []


def test_without_a_usable_key_the_keys_come_first() -> None:
    made = summary(
        row(1, Status.PAUSED),
        code=Exit.NO_KEY,
        stopped="no_key",
        keys=(key("good"), key("old one", "disabled"), key("mock-1", "disabled", "mock")),
    )
    assert typed(made, config(all=True)) == [
        "agentos doctor --live",
        "agentos keys enable 'old one'",
        "agentos lld --all",
    ]


def test_after_a_refusal_for_all_items_the_models_are_tested_first() -> None:
    made = summary(row(1, Status.PAUSED), row(2, Status.PENDING), code=Exit.USAGE, stopped="misconfigured")
    assert typed(made, config(all=True)) == ["agentos doctor --live", "agentos lld --all"]


def test_the_page_and_an_answer_are_suggested_before_an_approval() -> None:
    blocked = {"questions": ("Q2: Wait?", "Q3: Stop?"), "findings": ({"tier": 1}, {"tier": 2}, {"tier": 1})}
    asked = row(1, Status.DISCUSS, **blocked)
    told = next_commands(summary(asked, code=Exit.ATTENTION), config(all=True))
    assert told == (
        Suggestion("agentos view", "read the draft and answer both questions"),
        Suggestion(
            'agentos decide LLD-1 --note "Q2: ..." --note "Q3: ..."',
            "or --revise, or --approve although 2 blocking findings are open",
        ),
    )


def test_many_questions_need_one_command() -> None:
    rows = [row(n, Status.DISCUSS) for n in range(1, 21)]
    told = next_commands(summary(*rows, code=Exit.ATTENTION), config(all=True))
    assert told == (Suggestion("agentos view", "answer all 20 questions on one page"),)


@pytest.mark.parametrize(
    ("given", "more", "wanted"),
    [
        ({"budget": "0.5"}, {"stopped": "budget", "needed_budget": 0.61}, "--budget 1.9"),
        ({"budget": "0.005"}, {"stopped": "budget", "needed_budget": 0.01234}, "--budget 0.038"),
        ({"budget": "0.00001"}, {"stopped": "budget", "needed_budget": 0.0000211}, "--budget 0.000064"),
        ({"budget": "20"}, {"stopped": "budget", "needed_budget": 1234.5}, "--budget 3800"),
        ({"budget": "0.5"}, {"stopped": "budget"}, "--budget 1"),
        ({"item_budget": "0.5"}, {}, "--item-budget 1"),
        (
            {"budget": "9", "item_budget": "0.1"},
            {"needed_budget": 1.0, "needed_item_budget": 0.3},
            "--budget 9 --item-budget 0.9",
        ),
        (
            {"budget": "1", "item_budget": "0.1"},
            {"stopped": "budget", "needed_budget": 1.2, "needed_item_budget": 0.01},
            "--budget 3.6 --item-budget 0.1",
        ),
    ],
)
def test_a_budget_that_is_reached_is_raised_to_what_works(
    given: dict[str, str], more: Mapping[str, Any], wanted: str
) -> None:
    made = summary(row(1, Status.PAUSED), code=Exit.BUDGET, **more)
    assert typed(made, config(all=True, **given)) == [f"agentos lld --all {wanted}"]


def test_a_budget_from_a_file_is_raised_by_a_flag() -> None:
    given = load_config(flags={"all": True}, worktree=None, environment={"AGENTOS_BUDGET": "1"})
    made = summary(row(1, Status.PAUSED), code=Exit.BUDGET, stopped="budget", needed_budget=1.5)
    assert typed(made, given) == ["agentos lld --all --budget 4.5"]
