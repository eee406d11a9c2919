"""The steps of a workflow command, as far as they decide without looking at files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentos.app.claim_items import keep_claimed
from agentos.app.command import WorkflowCommand
from agentos.app.execution import output_mode, unencrypted
from agentos.app.invocation import Invocation
from agentos.app.preparation import check_keys, check_prices, checked_models, refuse_every
from agentos.app.project import Project
from agentos.app.request import RunRequest, source_change
from agentos.app.session import preloaded
from agentos.config import load_config
from agentos.coordinator.keys import KeyRing
from agentos.coordinator.plan import PlanAction, PlannedItem
from agentos.credentials.pool import KeySpec
from agentos.errors import ConfigError, NoUsableKey
from agentos.llm.providers import MODULES
from agentos.model import Item
from agentos.model_access import Network, ProviderSpec, read_proxy
from agentos.money import Price, PriceTable
from agentos.store.home import Home
from agentos.store.records import Claim, FilingState
from agentos.workflows.registry import ItemSource, Workflow

GITHUB: Any = object()


def command(
    workflow: str = "lld",
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> WorkflowCommand:
    place = Invocation(folder=Path("/repo"), environment=environment or {})
    return WorkflowCommand(invocation=place, workflow=workflow, ids=(), flags=flags or {})


def request(*, filed: bool = True, flags: Mapping[str, Any] | None = None, **more: Any) -> RunRequest:
    config = load_config(flags=flags or {}, worktree=None, environment={})
    told: dict[str, Any] = {
        "project": Project(worktree=Path("/repo"), config=config, home=Home(path=Path("/repo/.agentos"))),
        "flow": cast("Workflow", SimpleNamespace(name="issue", prefix="ISSUE", filed=filed)),
        "settings": config.settings,
        "ids": (),
        "items": (),
        "context": {},
        "github": None,
        "source": ItemSource(what="briefs", place="ideas/active"),
    }
    return RunRequest(**told | more)


def entry(number: int, step: PlanAction = PlanAction.START) -> PlannedItem:
    item = Item(workflow="lld", id=str(number), label=f"LLD-{number}", title="", text="", source="")
    return PlannedItem(item=item, step=step)


# The command.


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        ({}, {}, False),
        ({"dry_run": None}, {}, False),
        ({"dry_run": True}, {}, True),
        ({}, {"AGENTOS_DRY_RUN": "1"}, True),
        ({"dry_run": False}, {"AGENTOS_DRY_RUN": "1"}, False),
        ({}, {"AGENTOS_DRY_RUN": "perhaps"}, False),  # the settings refuse it later
    ],
)
def test_a_flag_counts_before_its_variable(
    flags: Mapping[str, Any], environment: Mapping[str, str], said: bool
) -> None:
    assert command(flags=flags, environment=environment).says("dry_run") is said


def test_workers_of_the_mock_preload_no_http_client() -> None:
    assert preloaded(command(flags={"mock": True})) == ["agentos.llm.mock", "agentos.workflows.lld"]
    assert set(MODULES.values()) <= set(preloaded(command("issue")))


def test_a_workflow_that_nobody_registered_preloads_nothing_of_its_own() -> None:
    assert preloaded(command("nonsense", flags={"mock": True})) == ["agentos.llm.mock"]


def test_suggested_commands_find_the_same_home_and_settings() -> None:
    place = Invocation(folder=Path("/"), environment={}, home=Path("my home"), config_file=Path("c.toml"))
    assert place.program == "agentos --home 'my home' --config c.toml"


# The request.


@pytest.mark.parametrize(
    ("made", "filing", "files"),
    [
        (request(filed=False, github=GITHUB), None, False),
        (request(flags={"mock": True}, github=GITHUB), None, False),
        (request(flags={"reviewer": "mock:x"}, github=GITHUB), None, False),
        (request(), FilingState.KEPT, False),
        (request(github=GITHUB), FilingState.WANTED, True),
        (request(github=GITHUB, flags={"file": False}), FilingState.KEPT, False),
        (request(untokened="acme/widgets"), FilingState.WANTED, False),
    ],
)
def test_what_becomes_of_approved_documents(
    made: RunRequest, filing: FilingState | None, files: bool
) -> None:
    assert (made.filing, made.files) == (filing, files)


def test_a_source_that_changed_is_told_with_the_flag_that_goes_back() -> None:
    remote = ItemSource(what="issues", place="acme/widgets on GitHub", remote=True)
    assert source_change(request(), None) is None
    assert source_change(request(), "ideas/active") is None
    assert "--source github" in (source_change(request(), remote.place) or "")
    assert "--source local" in (source_change(request(source=remote), "ideas/active") or "")


# The preparation.


def ring(*providers: str) -> KeyRing:
    specs = tuple(KeySpec(id=f"key-{at}", provider=one) for at, one in enumerate(providers))
    return KeyRing(specs=specs, secrets={})


def test_every_role_needs_a_model_with_a_provider() -> None:
    config = load_config(flags={}, worktree=None, environment={})
    good = {"drafter": "openai:a", "reviewer": "gemini:b"}
    assert checked_models(good, config) == good
    with pytest.raises(ConfigError, match="No reviewer is set"):
        checked_models(good | {"reviewer": None}, config)
    with pytest.raises(ConfigError, match="no provider 'nobody'"):
        checked_models(good | {"reviewer": "nobody:b"}, config)


def test_every_role_needs_a_key() -> None:
    models = {"drafter": "openai:a", "reviewer": "gemini:b"}
    check_keys(models, ring("openai", "gemini"))
    with pytest.raises(NoUsableKey, match="No key for gemini, which the reviewer gemini:b needs"):
        check_keys(models, ring("openai"))


def test_a_budget_needs_a_price_for_every_model() -> None:
    models = {"drafter": "openai:mine", "reviewer": "openai:mine"}
    check_prices(models, PriceTable(own={"openai:mine": Price(input=1, output=1)}))
    with pytest.raises(ConfigError, match="No price is known for openai:mine"):
        check_prices(models, PriceTable())


@pytest.mark.parametrize(("text", "every"), [(None, None), ("", None), ("3", 3)])
def test_how_often_the_mock_refuses(text: str | None, every: int | None) -> None:
    assert refuse_every({} if text is None else {"AGENTOS_SIMULATE_429": text}) == every


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5"])
def test_how_often_must_be_a_whole_number(text: str) -> None:
    with pytest.raises(ConfigError, match="AGENTOS_SIMULATE_429"):
        refuse_every({"AGENTOS_SIMULATE_429": text})


# The plan.


def test_what_another_run_holds_is_skipped_and_what_came_after_the_claim_is_left_out() -> None:
    held = Claim(workflow="lld", item="2", run_id="other", pid=7, since="today")
    plan = [entry(1), entry(2), entry(3), entry(4, PlanAction.SKIP)]
    kept = keep_claimed(plan, claimed={"1"}, held={"2": held})
    assert [(one.item.id, one.step) for one in kept] == [
        ("1", PlanAction.START),
        ("2", PlanAction.SKIP),
        ("4", PlanAction.SKIP),
    ]
    assert kept[1].reason == "held by run other (process 7, since today)"


def test_a_run_on_another_machine_is_named_with_its_machine() -> None:
    far = Claim(workflow="lld", item="2", run_id="other", pid=7, since="today", host="far")
    (kept,) = keep_claimed([entry(2)], claimed=(), held={"2": far})
    assert kept.reason == "held by run other on far (process 7, since today)"


# The run.


@pytest.mark.parametrize(
    ("flags", "environment", "mode"),
    [
        ({}, {}, "stream"),
        ({}, {"GITHUB_ACTIONS": "true"}, "grouped"),
        ({"output": "stream"}, {"GITHUB_ACTIONS": "true"}, "stream"),
        ({"quiet": True}, {"GITHUB_ACTIONS": "true"}, "quiet"),
    ],
)
def test_how_output_is_shown(flags: Mapping[str, Any], environment: Mapping[str, str], mode: str) -> None:
    assert output_mode(load_config(flags=flags, worktree=None, environment=environment)) == mode


def test_a_server_that_gets_keys_in_clear_text_is_named_once_with_its_proxy() -> None:
    specs = (
        ProviderSpec(name="mine", kind="openai", base_url="http://models.example/v1"),
        ProviderSpec(name="gemini", kind="gemini", base_url="http://models.example"),
        ProviderSpec(name="anthropic", kind="anthropic", base_url="https://a"),
    )
    plain = load_config(flags={}, worktree=None, environment={})
    config = replace(plain, providers={spec.name: spec for spec in specs})
    used = ["mine", "gemini", "anthropic", "openai", "mock"]
    assert unencrypted(config, used) == ["http://models.example"]
    assert unencrypted(config, ["anthropic"]) == []
    proxies = dict.fromkeys(("http", "https"), read_proxy("http://me:password@proxy.example:3128"))
    through = replace(config, network=Network(proxies=proxies))
    told = "http://models.example, through the proxy http://proxy.example:3128"
    assert unencrypted(through, used) == [told]
