"""`agentos completion`: the script that lets a shell complete commands, and the values it offers.

Completion is quick, writes nothing and prints no errors: if anything goes wrong, it offers nothing.
A shell inserts a word as it is, so a word with a special meaning in a shell is never offered.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from agentos.app.project import Project
    from agentos.store.home import Home

PROGRAM = "agentos"
VARIABLE = "_AGENTOS_COMPLETE"
# The settings that take one of a few words; a test compares them with the settings.
CHOICES = {
    "source": ("auto", "github", "local"),
    "engine": ("local", "postgres"),
    "output": ("stream", "grouped", "quiet"),
}
# How each shell's script calls us, and how to install it permanently.
_ASKS = {
    "bash": f"{VARIABLE}=bash_complete $1",
    "zsh": f"{VARIABLE}=zsh_complete {PROGRAM}",
    "fish": f"COMP_CWORD=(commandline -t) {PROGRAM}",
}
_INSTALL = {
    "bash": 'eval "$(agentos completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(agentos completion zsh)"  # in ~/.zshrc, after compinit',
    "fish": "agentos completion fish > ~/.config/fish/completions/agentos.fish",
}

# Runs and logs are named by files, and a repository may have chosen the names.
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", re.ASCII)

Completions = list[CompletionItem]
Completer = Callable[[click.Context, click.Parameter, str], Completions]


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(tuple(_ASKS)))
def completion(shell: str) -> None:
    """Print the script that lets SHELL (bash, zsh or fish) complete commands, flags and items."""
    from agentos.cli.app import agentos  # noqa: PLC0415 - it imports this module

    found = get_completion_class(shell)
    assert found is not None
    # Not through `source` of click's class for bash, which starts a bash to check its version.
    made = found(agentos, {}, PROGRAM, VARIABLE)
    script = made.source_template % made.source_vars()
    click.echo(script.replace(_ASKS[shell], f"{_ASKS[shell]} 2>/dev/null"))
    click.echo(f"# To install it permanently: {_INSTALL[shell]}")


def _quiet(words: Callable[[click.Context, str], Iterable[str]]) -> Completer:
    """Make a completer from a function that lists words. It offers safe ones that match, none on an error."""

    @wraps(words)
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Completions:
        try:
            named = ctx.params.get(parameter.name or "") or ()
            given = {named} if isinstance(named, str) else set(named)
            safe = [one for one in words(ctx, incomplete) if WORD.fullmatch(one)]
            matching = [one for one in safe if one.startswith(incomplete) and one not in given]
            return [CompletionItem(one) for one in matching]
        except Exception:  # noqa: BLE001 - Tab never prints an error
            return []

    return complete


def choice(name: str) -> Completer | None:
    """Offer the words that a setting takes, if it takes only certain ones."""
    if name not in CHOICES:
        return None
    return _quiet(lambda _ctx, _incomplete: CHOICES[name])


def file(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Completions:
    """Let the shell offer files and folders."""
    return [CompletionItem(incomplete, type="file")]


@_quiet
def workflows(_ctx: click.Context, _incomplete: str) -> Iterable[str]:
    """Offer the registered workflows."""
    from agentos.workflows.registry import registered  # noqa: PLC0415

    return sorted(registered())


def items(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Completions:
    """Offer the local items of the command's workflow, or files once the word has a slash."""
    return file(ctx, parameter, incomplete) if "/" in incomplete else _ids(ctx, parameter, incomplete)


@_quiet
def _ids(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    from agentos.naming import brief_id, issue_id  # noqa: PLC0415
    from agentos.store.rooted_tree import worktree_tree  # noqa: PLC0415

    project = _project(ctx)
    settings = project.config.settings
    briefs = str(ctx.params.get("name") or ctx.info_name) == "issue"
    folder = settings.briefs_folder if briefs else settings.issues_folder
    id_of = brief_id if briefs else issue_id
    names = worktree_tree(project.worktree).names(Path(folder))
    stems = (name.removesuffix(".md") for name in names if name.endswith(".md"))
    return _counted(id_of(stem) for stem in stems if not stem.startswith("."))


@_quiet
def waiting(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    """Offer the items that are waiting for a decision."""
    from agentos.app.inbox import discussions  # noqa: PLC0415
    from agentos.store.records import Records  # noqa: PLC0415

    with Records(_home(ctx).records, write=False) as records:
        return _counted(one.progress.item for one in discussions(records))


@_quiet
def logged(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Offer the items that have a log, by id, or by label if no id matches."""
    from agentos.store.run_folder import run_logs  # noqa: PLC0415

    run = ctx.params.get("run_id")
    chosen = [path for path in _runs(ctx) if run is None or path.name == run]
    labels = {log.stem for path in chosen for log in run_logs(path)}
    ids = _counted(label.partition("-")[2] for label in labels)
    return ids if any(one.startswith(incomplete) for one in ids) else sorted(labels)


@_quiet
def runs(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    """Offer the runs, latest first."""
    return [path.name for path in reversed(_runs(ctx))]


def _runs(ctx: click.Context) -> list[Path]:
    from agentos.store.run_folder import list_runs  # noqa: PLC0415

    return list_runs(_home(ctx))


def _home(ctx: click.Context) -> "Home":
    """The project's home; raises if a command would refuse it."""
    from agentos.project import check_owner  # noqa: PLC0415
    from agentos.store.home import check_home  # noqa: PLC0415

    project = _project(ctx)
    worktree, home, environment = project.worktree, project.home, project.config.environment
    check_owner(worktree, home.path, safe=project.config.settings.safe_directories, environment=environment)
    check_home(home, worktree, environment)
    return home


def _project(ctx: click.Context) -> "Project":
    """Open the project as the command would, but without printing warnings."""
    from agentos.app.project import Project  # noqa: PLC0415
    from agentos.config import load_config  # noqa: PLC0415
    from agentos.project import find_worktree  # noqa: PLC0415
    from agentos.store.home import locate_home  # noqa: PLC0415
    from agentos.store.known_homes import register_of  # noqa: PLC0415

    given = ctx.find_root().params
    worktree = find_worktree(Path.cwd())
    config = load_config(flags={}, worktree=worktree, user_file=given.get("config_file"))
    home = given.get("home") or config.environment.get("AGENTOS_HOME") or None
    place = locate_home(worktree, None if home is None else Path(home), register_of(config.environment))
    return Project(worktree=worktree, config=config, home=place)


def _counted(ids: Iterable[str]) -> Sequence[str]:
    """Sort ids with numbers in order; drop what is not a valid id, which a shell might misread."""
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.model import check_id  # noqa: PLC0415

    found: set[str] = set()
    for one in ids:
        try:
            check_id(one)
        except UsageError:
            continue
        found.add(one)
    return sorted(found, key=lambda one: (not one.isdigit(), int(one) if one.isdigit() else 0, one))
