"""Reads the files that settings name for both models: --context and the team's rules. Coordinator process."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentos import redact
from agentos.app.dialog import Dialog
from agentos.app.project import Project
from agentos.config import Config, Origin
from agentos.errors import ConfigError
from agentos.settings import Settings

if TYPE_CHECKING:
    from agentos.workflows.context import ContextRules


def named_context(project: Project, settings: Settings, dialog: Dialog) -> Mapping[str, str]:
    """Read the files that --context gives to both models. Those named by the repo itself must be tracked."""
    if not settings.context:
        return {}
    from agentos.workflows.context import read_context  # noqa: PLC0415 - many patterns

    source = project.config.sources["context"]
    rules = context_rules(
        project.worktree,
        project.config,
        settings,
        skip=lambda path, why: dialog.warn(f"Skipping {path} of --context: {why}."),
    )
    if not rules.only_tracked:
        return read_context(project.worktree, settings.context, rules)
    if rules.tracked is None:
        dialog.warn(
            f"Ignoring {source.name}: cannot ask git which files it tracks. Use --context to name files."
        )
        return {}
    paths = [path for path in settings.context if _covers(path, rules.tracked)]
    for path in settings.context:
        if path not in paths:
            dialog.warn(f"Ignoring {path} of {source.name}: git does not track it.")
    return read_context(project.worktree, paths, rules)


def context_rules(
    worktree: Path, config: Config, settings: Settings, *, skip: Callable[[str, str], None]
) -> "ContextRules":
    """Which of the named files may be sent; asks git."""
    from agentos.git_tracked import filters, tracked  # noqa: PLC0415 - runs git
    from agentos.workflows.context import ContextRules  # noqa: PLC0415 - many patterns

    known = tracked(worktree, settings.context, config.environment)
    inside = [
        path.as_posix() for path in settings.context if not path.is_absolute() and ".." not in path.parts
    ]
    # Without git, nothing was decrypted.
    filtered = {} if known is None else filters(worktree, {*known, *inside}, config.environment)
    return ContextRules(
        tracked=known,
        filtered=filtered,
        only_tracked=config.sources["context"].origin is Origin.REPO,
        lineage=settings.lineage_folder,
        exclude=settings.context_exclude,
        allow=settings.context_allow,
        holds_key=lambda text: redact.find(text) is not None,
        skip=skip,
    )


def team_rules(project: Project, settings: Settings, dialog: Dialog) -> str:
    """Read the team's own rules. A file named by the repo itself must be tracked by git."""
    if settings.rules is None:
        return ""
    source = project.config.sources["rules"]
    if source.origin is Origin.REPO:
        from agentos.git_tracked import tracked  # noqa: PLC0415 - runs git

        known = tracked(project.worktree, [Path(settings.rules)], project.config.environment)
        if known is None or Path(settings.rules).as_posix() not in known:
            dialog.warn(f"Ignoring rules {settings.rules!r} of {source.name}: git does not track this file.")
            return ""
    from agentos.workflows.team_rules import read_rules  # noqa: PLC0415 - many patterns

    return read_rules(project.worktree, settings.rules)


def check_not_decrypted(worktree: Path, config: Config, settings: Settings) -> None:
    """Refuse rules and templates that git decrypts: a repo may name a file that its owner keeps secret."""
    names = {
        setting: Path(path).as_posix()
        for setting in ("rules", "lld_template", "issue_template")
        if (path := getattr(settings, setting)) is not None
    }
    if not names:
        return
    from agentos.git_tracked import decrypted, filters, tracked  # noqa: PLC0415 - runs git
    from agentos.repo_map.file_kinds import excluded  # noqa: PLC0415 - many patterns

    if tracked(worktree, [Path(path) for path in names.values()], config.environment) is None:
        return
    filtered = filters(worktree, set(names.values()), config.environment)
    for setting, path in names.items():
        if (why := decrypted(filtered.get(path, ""))) and not excluded(path, settings.context_allow):
            raise ConfigError(
                f"{setting} {path!r} is refused: {why}. To send it anyway, add "
                f'context_allow = ["{path}"] to your configuration file. None of it was sent.'
            )


def _covers(path: Path, known: Iterable[str]) -> bool:
    return any(Path(one).is_relative_to(path) for one in known)
