"""`agentos init`: a project's files and folders, the user's own file, or a demo backlog."""

import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from agentos import environment, settings

FOLDERS = ("ideas/active", "issues/active", "docs/lld/active")
WIDTH = 100
# Shown for settings without a default.
EXAMPLES: Mapping[str, Any] = {
    "drafter": "anthropic:<model>",
    "reviewer": "gemini:<model>",
    "issue_template": "docs/templates/issue.md",
    "lld_template": "docs/templates/lld.md",
    "rules": "docs/engineering-rules.md",
    "language": "German",
    "budget": 20.0,
    "item_budget": 2.0,
}
OF_USER = (
    "drafter",
    "reviewer",
    "parallel",
    "max_parallel",
    "budget",
    "item_budget",
    "timeout",
    "max_wait",
    "filing_labels",
)
REPO_HEAD = """\
# Settings of this project. Remove the '#' before a name to set it. The values shown are the defaults,
# or examples if there is no default. 'agentos config' shows the values in use; 'agentos doctor' shows
# what is missing.
# Endpoints and keys belong in your configuration file, not here: 'agentos init --user' creates it.
"""
USER_HEAD = """\
# Your configuration file, for all projects. Remove the '#' before a name to set it. The values shown are the
# defaults, or examples if there is no default. 'agentos config' shows the values in use; 'agentos doctor'
# shows what is missing.
"""
USER_TABLES = """\
# A server of your own, under any name; its models are azure:MODEL. kind is the format that it speaks: openai,
# anthropic or gemini. A header's value may be a variable: env:NAME.
#[providers.azure]
#kind = "openai"
#base_url = "https://RESOURCE.openai.azure.com/openai/v1"
#headers = { api-key = "env:AZURE_KEY" }

# Options for the calls of a role, [roles.drafter] or [roles.reviewer]; each is optional.
#[roles.drafter]
#max_output_tokens = 32000
#temperature = 0.2
#reasoning_effort = "high"
#timeout = "10m"

# A proxy for models and GitHub; "env" takes HTTPS_PROXY and NO_PROXY. A CA to trust besides the usual ones is
# ca_file = "/etc/ssl/corp.pem".
#[network]
#proxy = "http://proxy.example:3128"

# Your keys, each as a reference, never the key itself: env names a variable, file names a file with the key.
# Without [[keys]], agentos uses OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY and NAME_API_KEY for
# [providers.NAME], also with _1, _2, ...
# Optional for each key: quota_group (keys that share one rate limit), rpm, tpm, rpd, burst, max_in_flight.
#[[keys]]
#id = "anthropic-1"
#provider = "anthropic"
#env = "ANTHROPIC_API_KEY"

#[[keys]]
#id = "gemini-1"
#provider = "gemini"
#env = "GEMINI_API_KEY"
#quota_group = "project-a"
#rpm = 60
"""


@click.command("init")
@click.option(
    "--demo",
    "demo",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Create a demo backlog in DIR instead.",
)
@click.option(
    "--user", "user", is_flag=True, help="Create your own configuration file, for all projects, instead."
)
def init(*, demo: Path | None, user: bool) -> None:
    """Set up a project in the current folder. Existing files are never overwritten."""
    from agentos.errors import UsageError  # noqa: PLC0415

    if demo is not None and user:
        raise UsageError("Use --demo or --user, not both.")
    if user:
        _make_user_file()
    elif demo is not None:
        _make_demo(demo)
    else:
        _make_project(Path.cwd())


def repo_text() -> str:
    """The text of a project's file: every setting that a repo may set, commented out."""
    return _commented(REPO_HEAD, [name for name in settings.NAMES if settings.about(name).repo])


def user_text() -> str:
    """The text of a user's file: the usual settings, endpoints and keys, commented out."""
    return f"{_commented(USER_HEAD, OF_USER)}\n{USER_TABLES}"


def _commented(head: str, names: Sequence[str]) -> str:
    parts = [head]
    for name in names:
        default = settings.DEFAULTS[name]
        value = EXAMPLES[name] if default is None else default
        wrapped = textwrap.wrap(settings.about(name).help, WIDTH)
        parts.append("\n".join([*(f"# {line}" for line in wrapped), f"#{name} = {_toml(value)}\n"]))
    return "\n".join(parts)


def _toml(value: Any) -> str:
    """Write a value as TOML, which is the same as JSON for every type that settings use."""
    return json.dumps([str(one) for one in value] if isinstance(value, tuple) else value)


def _make_project(root: Path) -> None:
    from agentos.project import MARKERS  # noqa: PLC0415

    _write(root, {"agentos.toml": repo_text()})
    if not any((folder / MARKERS[0]).exists() for folder in (root, *root.parents)):
        click.echo("This folder is not in a git repository; agentos.toml still makes it a project.")
    click.echo("Next: put a brief into ideas/active/ or an issue into issues/active/, then type")
    _say_next()


def _say_next() -> None:
    click.echo("  agentos doctor                        # see what is set up and what is missing")
    click.echo("  agentos lld --all --mock --dry-run    # see what a run would do; needs no key")


def _make_demo(demo: Path) -> None:
    from agentos.errors import UsageError  # noqa: PLC0415

    if demo.exists() and (not demo.is_dir() or any(demo.iterdir())):
        raise UsageError(f"{demo} exists and is not an empty folder. Name a new one.")
    contents = {"agentos.toml": repo_text()}
    shipped = files("agentos").joinpath("demo")
    for kind in ("ideas", "issues"):
        for entry in sorted(shipped.joinpath(kind).iterdir(), key=lambda one: one.name):
            contents[f"{kind}/active/{entry.name}"] = entry.read_text("utf-8")
    _write(demo, contents)
    click.echo(f"Created a demo backlog in {demo}. Next:")
    click.echo(f"  cd {shlex.quote(str(demo))}")
    click.echo("  agentos lld --all --mock --parallel 3 --timeout 5s")


def _make_user_file() -> None:
    """Write the user's file where settings are read from. It may name keys later, so it is private."""
    from agentos.config import user_file_of  # noqa: PLC0415
    from agentos.errors import StorageError, UsageError  # noqa: PLC0415
    from agentos.store.rooted_tree import PRIVATE_FILE, PRIVATE_FOLDER, Tree  # noqa: PLC0415

    path = user_file_of(click.get_current_context().find_root().obj["config_file"], environment.read())
    if path is None:
        raise UsageError("Neither HOME nor XDG_CONFIG_HOME is set. Name the file with --config FILE.")
    if path.exists() or path.is_symlink():
        click.echo(f"kept     {path}")
    else:
        try:
            path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        except OSError as exc:
            raise StorageError(f"Cannot create {path.parent}: {exc.strerror or exc}.") from exc
        Tree(path.parent.resolve()).write(Path(path.name), user_text(), mode=PRIVATE_FILE)
        click.echo(f"created  {path}")
    click.echo("Next: set drafter and reviewer in that file, then type")
    _say_next()


def _write(root: Path, contents: Mapping[str, str]) -> None:
    from agentos.errors import StorageError  # noqa: PLC0415
    from agentos.store.rooted_tree import worktree_tree  # noqa: PLC0415

    try:
        root.mkdir(parents=True, exist_ok=True)
        tree = worktree_tree(root.resolve())
        for folder in FOLDERS:
            word = "kept   " if tree.exists(Path(folder)) else "created"
            tree.make_folder(Path(folder))
            click.echo(f"{word}  {folder}/")
    except OSError as exc:
        raise StorageError(f"Cannot create {exc.filename}: {exc.strerror}.") from exc
    for name, text in contents.items():
        if tree.exists(Path(name)):
            click.echo(f"kept     {name}")
        else:
            tree.write(Path(name), text)
            click.echo(f"created  {name}")
