"""Reads the files that settings name for both models: --context and the team's rules. Coordinator process."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentos import redact
from agentos.app.dialog import Dialog
from agentos.app.project import Project
from agentos.config import Config, Origin
from agentos.errors import ConfigError
from agentos.settings import Settings
from agentos.store.rooted_tree import worktree_tree

if TYPE_CHECKING:
    from agentos.workflows.context import ContextRules


def named_context(
    project: Project, settings: Settings, dialog: Dialog, *, committed: bool
) -> Mapping[str, str]:
    """Read the files that --context gives to both models.

    Those named by the repo itself must be tracked; with `committed`, also unchanged since the commit.
    """
    if not settings.context:
        return {}
    from agentos.workflows.context import read_context  # noqa: PLC0415 - many patterns

    source = project.config.sources["context"]
    rules = context_rules(
        project.worktree,
        project.config,
        settings,
        committed=committed,
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
    worktree: Path,
    config: Config,
    settings: Settings,
    *,
    committed: bool = False,
    skip: Callable[[str, str], None],
) -> "ContextRules":
    """Which of the named files may be sent; asks git."""
    from agentos.git_tracked import tracked  # noqa: PLC0415 - runs git
    from agentos.workflows.context import ContextRules  # noqa: PLC0415 - many patterns

    known = tracked(worktree, settings.context, config.environment)
    inside = [
        path.as_posix() for path in settings.context if not path.is_absolute() and ".." not in path.parts
    ]
    of_repo = config.sources["context"].origin is Origin.REPO
    # Without git, nothing was decrypted.
    refused = {} if known is None else _refused(worktree, config, {*known, *inside})
    if of_repo and committed:
        refused = _uncommitted(worktree, config, known or ()) | refused
    return ContextRules(
        tracked=known,
        refused=refused,
        only_tracked=of_repo,
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


def check_named_files(worktree: Path, config: Config, settings: Settings, *, committed: bool = False) -> None:
    """Refuse rules and templates that git decrypts: a repo may name a file that its owner keeps secret.

    With `committed`, also those with changes that are not committed, unless the user names them.
    """
    names = {
        setting: Path(path).as_posix()
        for setting in ("rules", "lld_template", "issue_template")
        if (path := getattr(settings, setting)) is not None
    }
    if not names:
        return
    from agentos.git_tracked import tracked  # noqa: PLC0415 - runs git
    from agentos.repo_map.file_kinds import excluded  # noqa: PLC0415 - many patterns

    if tracked(worktree, [Path(path) for path in names.values()], config.environment) is None:
        return
    refused = _refused(worktree, config, set(names.values()))
    changed = _uncommitted(worktree, config, names.values()) if committed else {}
    for setting, path in names.items():
        if path in refused and not excluded(path, settings.context_allow):
            raise ConfigError(
                f"{setting} {path!r} is refused: {refused[path]}. To send it anyway, add "
                f'context_allow = ["{path}"] to your configuration file. None of it was sent.'
            )
        if path in changed and config.sources[setting].origin is Origin.REPO:
            raise ConfigError(
                f"{setting} {path!r} is refused: {changed[path]}. Commit it, or name it in your own "
                "configuration file. None of it was sent."
            )


def _refused(worktree: Path, config: Config, paths: Collection[str]) -> dict[str, str]:
    """Why the texts of files in the worktree must not be sent: they may be decrypted."""
    from agentos.repo_map.git_state import Git  # noqa: PLC0415 - runs git
    from agentos.repo_map.texts import Texts  # noqa: PLC0415

    git = Git(worktree, config.environment)
    known = {one.path: {one.blob} for one in git.tracked() or () if not one.no_file}
    for path, blob in git.committed(git.head()).items():
        known.setdefault(path, set()).add(blob)
    return Texts(git).decrypted({path: known.get(path, ()) for path in paths})


def _uncommitted(worktree: Path, config: Config, paths: Collection[str]) -> dict[str, str]:
    """Name the files whose text is not the commit's: items that anyone can write get committed text only."""
    from agentos.repo_map.git_state import Git, has_text_of  # noqa: PLC0415 - runs git

    git, tree = Git(worktree, config.environment), worktree_tree(worktree)
    found = dict.fromkeys(
        paths, "it has changes that are not committed, and issues from GitHub get committed text only"
    )
    for path, blob in git.committed(git.head()).items():
        with contextlib.suppress(OSError):
            if path in found and has_text_of(tree, path, blob):
                del found[path]
    return found


def _covers(path: Path, known: Iterable[str]) -> bool:
    return any(Path(one).is_relative_to(path) for one in known)
