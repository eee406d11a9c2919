"""The checked request of a workflow command: project, settings, and items with their source."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentos.app.command import WorkflowCommand
from agentos.app.dialog import Dialog
from agentos.app.named_files import check_named_files, named_context, team_rules
from agentos.app.project import Project, latest_was_elsewhere, open_project
from agentos.config import Origin
from agentos.errors import ConfigError, UsageError
from agentos.model import Item, check_distinct
from agentos.naming import check_name, command_of
from agentos.parse_value import Rejected, duration
from agentos.settings import Settings
from agentos.store.records import FilingState
from agentos.workflows.registry import ON_GITHUB, ItemSource, Workflow, source_of, workflow

if TYPE_CHECKING:
    from agentos.github.client import GitHub

MOCK_MODELS = {"drafter": "mock:drafter", "reviewer": "mock:reviewer"}


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a workflow command asks for, checked."""

    project: Project
    flow: Workflow
    settings: Settings
    ids: tuple[str, ...]
    items: tuple[Item, ...]
    context: Mapping[str, str]  # files of the repo for both models
    github: "GitHub | None"
    source: ItemSource  # where the items come from
    rules: str = ""  # the team's own
    untokened: str | None = None  # the GitHub repository without a token
    command_line: str = ""  # as typed

    @property
    def models(self) -> Mapping[str, str | None]:
        """The model of each role; may be None in a dry run."""
        if self.settings.mock:
            return MOCK_MODELS
        return {"drafter": self.settings.drafter, "reviewer": self.settings.reviewer}

    @property
    def mock(self) -> bool:
        """Whether any role is the mock; then nothing of this run counts for a real one."""
        chosen = (self.settings.drafter, self.settings.reviewer)
        return self.settings.mock or any((model or "").partition(":")[0] == "mock" for model in chosen)

    @property
    def filing(self) -> FilingState | None:
        """What happens to documents approved in this run; the mock's are never filed."""
        if not self.flow.filed or self.mock:
            return None
        there = self.github is not None or self.untokened is not None
        return FilingState.WANTED if there and self.settings.file else FilingState.KEPT

    @property
    def files(self) -> bool:
        """Whether documents are filed in this run."""
        return self.filing is FilingState.WANTED and self.github is not None

    @property
    def no_file(self) -> bool:
        """Whether the user wants no filing, so that an unfiled document is no reason for a warning."""
        return self.mock or not self.settings.file


def make_request(command: WorkflowCommand, dialog: Dialog) -> RunRequest:
    """Read the project and its settings, check the request, and list its items."""
    ids = command.ids
    project = open_project(command.invocation, command.flags, warn=dialog.warn)
    settings = _checked(project, command, dialog)
    if latest_was_elsewhere(project.config, project.home):
        dialog.warn(
            "the latest run here was with --engine postgres; what it left unfinished is in the database. "
            "To resume that, add --engine postgres."
        )
    flow = workflow(command.workflow)
    github, untokened = _github(project, flow, settings, dialog)
    source = source_of(flow, settings, github)
    context = named_context(project, settings, dialog, committed=source.remote)
    rules = team_rules(project, settings, dialog)
    check_named_files(project.worktree, project.config, settings, committed=source.remote)
    items = flow.discover(project.worktree, settings, ids, github=github)
    check_distinct(item.id for item in items if item.problem is None)
    request = RunRequest(
        project=project,
        flow=flow,
        settings=settings,
        ids=ids,
        items=items,
        context=context,
        rules=rules,
        github=github,
        source=source,
        untokened=untokened,
        command_line=command.invocation.typed,
    )
    if untokened is not None and request.filing is FilingState.WANTED:
        dialog.warn(
            f"approved issues are not filed on {untokened}: no token found. "
            "Set GH_TOKEN or run 'gh auth login', then run again with --yes; or use --no-file."
        )
    return request


def find_items(
    project: Project, flow: Workflow, settings: Settings, ids: tuple[str, ...], dialog: Dialog
) -> tuple[Item, ...]:
    """Read the named items from where a run would take them."""
    github, _ = _github(project, flow, settings, dialog)
    return flow.discover(project.worktree, settings, ids, github=github)


def _checked(project: Project, command: WorkflowCommand, dialog: Dialog) -> Settings:
    """Refuse requests that make no sense; cap --parallel."""
    settings, ids = project.config.settings, command.ids
    for one in ids:
        check_name(one)
    check_distinct(ids)
    _check_choice(project, settings, command)
    if settings.parallel > settings.max_parallel:
        dialog.warn(
            f"--parallel {settings.parallel} is capped at {settings.max_parallel}; "
            f"to raise the cap, set max_parallel in {project.config.named_user_file}."
        )
        settings = replace(settings, parallel=settings.max_parallel)
    return settings


def _check_choice(project: Project, settings: Settings, command: WorkflowCommand) -> None:
    """Require named items or --all; catch an item id typed after --parallel."""
    number, ids = settings.parallel, command.ids
    items = shlex.join([*ids, str(number)])
    typing = f"{command.invocation.program} {command_of(command.workflow)} {items} --parallel"
    hint = f"Did you mean item {number}? Type '{typing}'."
    typed = project.config.sources["parallel"].origin is Origin.FLAG
    if ids and settings.all:
        raise UsageError("Name items or use --all, not both.")
    if ids and typed and number > settings.max_parallel:
        raise UsageError(f"--parallel {number} is above the cap of {settings.max_parallel}. {hint}")
    if not ids and not settings.all and not settings.retry_failed and not settings.dry_run:
        hint = f" {hint}" if typed else ""
        raise UsageError(f"Name the items to run, or use --all for all pending items.{hint}")


def _github(
    project: Project, flow: Workflow, settings: Settings, dialog: Dialog
) -> "tuple[GitHub | None, str | None]":
    """Open GitHub if issues come from there or go there; or name the repository without a token."""
    wanted = settings.source == "github"
    asked_to_file = (
        flow.filed and settings.file and project.config.sources["file"].origin is not Origin.DEFAULT
    )
    # The mock uses no network, unless the user names GitHub as the source.
    if not wanted and (settings.mock or (settings.source == "local" and not asked_to_file)):
        return None, None
    from agentos.github.repository import find_repository, find_token  # noqa: PLC0415

    environment = project.config.environment
    repository = find_repository(project.worktree, environment)
    token = None if repository is None else find_token(environment, project.worktree)
    if repository is not None and token is not None:
        from agentos.github.client import STALE_SECONDS, GitHub  # noqa: PLC0415 - an HTTP client
        from agentos.github.exchange import ANSWER_SECONDS  # noqa: PLC0415

        within = _shortest(environment)
        limit, stale = min(ANSWER_SECONDS, within), min(STALE_SECONDS, within)
        network = project.config.network
        return GitHub(repository, token, limit=limit, stale=stale, network=network, tell=dialog.tell), None
    why = "--source github" if wanted else "--file"
    if repository is None:
        if wanted or asked_to_file:
            raise ConfigError(
                f"{why} needs a GitHub repository, but origin is not one. "
                f"Run 'git remote add origin URL', or use {'--source local' if wanted else '--no-file'}."
            )
        return None, None
    sure = flow.filed and settings.file and settings.yes
    if wanted or asked_to_file or sure:
        why = why if wanted or asked_to_file else "--yes"
        instead = "" if wanted else ", or use --no-file"
        raise ConfigError(
            f"{why} needs a token for {repository}. Set GH_TOKEN, or run 'gh auth login'{instead}."
        )
    return None, str(repository)


def _shortest(environment: Mapping[str, str]) -> float:
    """The limit on GitHub's answers, if a test wants it shorter than usual."""
    text = environment.get("AGENTOS_GITHUB_SECONDS")
    try:
        return duration(text) if text else math.inf
    except Rejected as exc:
        raise ConfigError(exc.about("AGENTOS_GITHUB_SECONDS", repr(text))) from None


def source_change(request: RunRequest, before: str | None) -> str | None:
    """What to say if items come from another place than in the last run (`before`)."""
    source = request.source
    if before is None or before == source.place:
        return None
    was_remote = before.endswith(ON_GITHUB)
    instead = ""
    if source.remote and not was_remote:
        instead = "; use --source local for the files"
    elif was_remote and not source.remote:
        instead = "; use --source github for the issues there"
    return f"{request.flow.prefix} items now come from {source.place} (before: {before}){instead}."
