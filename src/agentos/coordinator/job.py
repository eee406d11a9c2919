"""The configuration of a run, and the job for each worker. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentos import __version__, wire
from agentos.coordinator.plan import PlannedItem
from agentos.events.catalogue import RunStarted
from agentos.model_access import ROLES, RoleOptions
from agentos.model_facts import ModelFacts
from agentos.repo_map.parts import NO_MAP, RepositoryMap


@dataclass(frozen=True, kw_only=True)
class ParallelRunConfig:
    """The configuration of a run. `base_dir` is the home, so that a test can pass its own folder."""

    base_dir: Path
    worktree: Path
    workflow: str
    drafter: str
    reviewer: str
    parallel: int = 1
    timeout: float = 3600.0
    run_timeout: float | None = None
    max_retries: int = 5
    max_iterations: int = 5
    look_rounds: int = 0
    look_tokens: int = 0
    max_wait: float = 3600.0  # 0: no waiting
    set_in: dict[str, str] = field(default_factory=dict)  # where each role's model is set: "drafter in FILE"
    user_file: str = "your configuration file"
    budget: float | None = None  # USD
    item_budget: float | None = None
    command: str = ""  # as it was typed
    ids: tuple[str, ...] = ()  # items that were named
    flags: tuple[str, ...] = ()  # that a command to continue may repeat
    commit: str = ""  # that the worktree stands on, if git was asked
    engine: str = "local"
    fail_fast: bool = False
    retry_failed: bool = False
    call_timeout: float = 600.0
    templates: dict[str, str] = field(default_factory=dict)
    rules: str = ""  # the team's own
    language: str = ""
    keep_prompts: bool = False  # in the run's folder, with their answers
    fence_secret: str = field(default="", repr=False)  # prompts derive the codes of quotations from it
    folders: dict[str, str] = field(default_factory=dict)
    providers: dict[str, wire.ProviderAccess] = field(default_factory=dict)  # those with a server, by name
    roles: dict[str, RoleOptions] = field(default_factory=dict)
    mock_shell: bool = False
    environment: dict[str, str] = field(
        default_factory=dict
    )  # what workers get in addition to the usual variables

    @property
    def longest_call(self) -> float:
        """Seconds that a call of any role may take."""
        chosen = (self.roles.get(role, RoleOptions()).timeout for role in ROLES)
        return max(seconds or self.call_timeout for seconds in chosen)


def run_started(
    config: ParallelRunConfig, *, run_id: str, items: int, mock: bool, carried: float = 0.0
) -> RunStarted:
    """The first event of the run."""
    return RunStarted(
        run_id=run_id,
        items=items,
        parallel=config.parallel,
        mock=mock,
        command=config.command or None,
        ids=config.ids,
        flags=config.flags,
        workflow=config.workflow,
        drafter=config.drafter,
        reviewer=config.reviewer,
        budget=config.budget,
        item_budget=config.item_budget,
        carried=carried,
        timeout=config.timeout,
        run_timeout=config.run_timeout,
        max_iterations=config.max_iterations,
        max_wait=config.max_wait,
        version=__version__,
        keep_prompts=config.keep_prompts,
        commit=config.commit or None,
        engine=None if config.engine == "local" else config.engine,
    )


def make_job(
    config: ParallelRunConfig,
    entry: PlannedItem,
    *,
    run_id: str,
    attempt: int,
    database: str,
    trace: Mapping[str, str],
    repository: RepositoryMap = NO_MAP,
    facts: Mapping[str, ModelFacts] | None = None,
) -> wire.Job:
    """Put together everything that a worker knows."""
    item = entry.item
    data = wire.ItemData(
        workflow=item.workflow,
        id=item.id,
        label=item.label,
        title=item.title,
        text=item.text,
        source=item.source,
        remote=item.remote,
        whole=item.whole,
        whole_hash=item.input_hash,
    )
    return wire.Job(
        run_id=run_id,
        attempt=attempt,
        item=data,
        worktree=str(config.worktree),
        database=database,
        drafter=config.drafter,
        reviewer=config.reviewer,
        templates=config.templates,
        repository=RepositoryMap(
            shared=repository.shared,
            own=repository.own,
            files=repository.files if item.workflow == "lld" else (),
        ),
        look_rounds=config.look_rounds,
        look_tokens=config.look_tokens,
        rules=config.rules,
        language=config.language,
        fence_secret=config.fence_secret,
        folders=config.folders,
        max_iterations=config.max_iterations,
        max_retries=config.max_retries,
        call_timeout=config.call_timeout,
        retry_failed=config.retry_failed,
        decisions=entry.decisions,
        revise=entry.revises,
        keep_prompts=config.keep_prompts,
        trail=entry.trail,
        providers=config.providers,
        roles=config.roles,
        facts={
            model: (facts or {})[model]
            for model in (config.drafter, config.reviewer)
            if model in (facts or {})
        },
        mock_shell=config.mock_shell and not item.remote,
        environment=config.environment | dict(trace),
    )
