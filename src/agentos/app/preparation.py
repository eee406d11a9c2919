"""What a run needs before its first write: models, prices, keys and templates, all checked."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from agentos import redact
from agentos.app.connections import connections
from agentos.app.dialog import Dialog
from agentos.app.given_flags import given_flags
from agentos.app.request import RunRequest
from agentos.config import Origin
from agentos.coordinator.job import ParallelRunConfig
from agentos.coordinator.keys import KeyRing, key_ring
from agentos.errors import ConfigError, NoUsableKey
from agentos.llm.providers import check_provider
from agentos.model_access import provider_of, usual_variable
from agentos.money import PriceTable

if TYPE_CHECKING:
    from agentos.config import Config


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The configuration of a run, and the keys it may use."""

    config: ParallelRunConfig
    providers: tuple[str, ...]
    ring: KeyRing
    prices: PriceTable
    refuse_every: int | None  # the mock refuses every n-th call


def prepare(request: RunRequest, dialog: Dialog) -> Prepared:
    """Refuse what would fail later: an unknown model, a budget without a price, a missing key."""
    project, settings = request.project, request.settings
    models = checked_models(request.models, project.config)
    prices = PriceTable(own=project.config.prices)
    if settings.budget is not None or settings.item_budget is not None:
        check_prices(models, prices)
    providers = tuple(sorted({model.partition(":")[0] for model in models.values()}))
    config = _run_config(request, models, request.flow.prepare(project.worktree, settings))
    ring = key_ring(project.config, providers)
    check_keys(models, ring)
    for sentence in ring.unusable:
        dialog.warn(f"{sentence} This key is not used.")
    _check_context(request)
    return Prepared(
        config=config,
        providers=providers,
        ring=ring,
        prices=prices,
        refuse_every=refuse_every(project.config.environment),
    )


def checked_models(models: Mapping[str, str | None], config: "Config") -> dict[str, str]:
    """The model of each role; every role needs one with an available provider."""
    checked: dict[str, str] = {}
    for role, model in models.items():
        if model is None:
            raise ConfigError(
                f'No {role} is set. Set {role} = "provider:model" in '
                f"{config.user_file or 'your configuration file'} ('agentos init --user' creates it), "
                f"or use --{role} or --mock."
            )
        check_provider(model, config.worktree, config.environment, config.providers)
        checked[role] = model
    return checked


def check_prices(models: Mapping[str, str], prices: PriceTable) -> None:
    """Refuse a budget if a model has no price, since it could not be enforced."""
    for model in models.values():
        if not prices.knows(model):
            raise ConfigError(
                f"No price is known for {model}, so a budget cannot be enforced. Set it with "
                f"'agentos config price {quote(model)} --input USD --output USD' (per million tokens)."
            )


def check_keys(models: Mapping[str, str], ring: KeyRing) -> None:
    """Refuse to start if a role has no key, before the first call is paid for."""
    for role, model in models.items():
        provider = model.partition(":")[0]
        if all(spec.provider != provider for spec in ring.specs):
            raise NoUsableKey(
                f"No key for {provider}, which the {role} {model} needs. Set "
                f"{usual_variable(provider)}, or add [[keys]] to your configuration file; "
                "'agentos doctor' shows what is there."
            )


def _check_context(request: RunRequest) -> None:
    """Refuse context files and team rules that contain a key; all keys are known by now."""
    if request.context:
        from agentos.workflows.context import refuse_known  # noqa: PLC0415 - many patterns

        refuse_known(request.context)
    if redact.find(request.rules) is not None:
        raise ConfigError(
            f"rules {request.settings.rules!r} is refused: it contains one of your keys. Nothing was sent."
        )


def refuse_every(environment: Mapping[str, str]) -> int | None:
    """n, if a test wants the mock to refuse every n-th call."""
    text = environment.get("AGENTOS_SIMULATE_429")
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"AGENTOS_SIMULATE_429 must be a whole number of at least 1, not {text!r}.")
    return int(text)


def _run_config(
    request: RunRequest, models: Mapping[str, str], templates: dict[str, str]
) -> ParallelRunConfig:
    settings, config = request.settings, request.project.config
    return ParallelRunConfig(
        base_dir=request.project.home.path,
        worktree=request.project.worktree,
        workflow=request.flow.name,
        drafter=models["drafter"],
        reviewer=models["reviewer"],
        parallel=settings.parallel,
        engine=settings.engine,
        timeout=settings.timeout,
        run_timeout=settings.run_timeout,
        max_retries=settings.max_retries,
        max_iterations=settings.max_iterations,
        look_rounds=settings.look_rounds,
        look_tokens=settings.look_tokens,
        max_wait=0.0 if settings.no_wait else settings.max_wait,
        set_in={role: config.sources[role].name or role for role in models},
        user_file=config.named_user_file,
        budget=settings.budget,
        item_budget=settings.item_budget,
        command=request.command_line,
        ids=request.ids,
        flags=given_flags(config, Origin.FLAG, Origin.ENVIRONMENT),
        fail_fast=settings.fail_fast,
        retry_failed=settings.retry_failed,
        templates=templates,
        rules=request.rules,
        language=settings.language or "",
        keep_prompts=settings.keep_prompts,
        # One per run, so that equal texts are quoted alike in every prompt.
        fence_secret=secrets.token_hex(16),
        folders=settings.folders,
        providers=connections(config, map(provider_of, models.values())),
        roles=dict(config.roles),
        mock_shell=config.environment.get("AGENTOS_MOCK_SHELL") == "1",
        environment=_langsmith(config.environment) if settings.langsmith else {},
    )


def _langsmith(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(("LANGSMITH_", "LANGCHAIN_"))}
