"""`agentos init`: a project's files and folders, or a demo backlog that shows every ending."""

from importlib.resources import files
from pathlib import Path

import click

CONFIG = """\
# Settings of this project; 'agentos config' shows all of them with their values.
# Endpoints and keys are not set here but in your own file, ~/.config/agentos/config.toml.

# drafter = "anthropic:<model>"      # who writes
# reviewer = "gemini:<model>"        # who judges; choose another model than the drafter's
# max_iterations = 5                 # reviews before an item is given up as needing revision
# parallel = 3                       # items at once
# issue_template = "docs/templates/issue.md"
# lld_template = "docs/templates/lld.md"
"""
FOLDERS = ("ideas/active", "issues/active", "docs/lld/active")


@click.command("init")
@click.option(
    "--demo", "demo", metavar="DIR", type=click.Path(path_type=Path), help="Make a demo backlog in DIR."
)
def init(*, demo: Path | None) -> None:
    """Set up a project in the current folder, or a demo backlog in DIR; nothing is ever overwritten."""
    from agentos.errors import UsageError  # noqa: PLC0415

    root = Path.cwd() if demo is None else demo
    if demo is not None and demo.exists() and (not demo.is_dir() or any(demo.iterdir())):
        raise UsageError(f"{demo} exists and is not an empty folder; name a new one.")
    contents = {"agentos.toml": CONFIG}
    if demo is not None:
        shipped = files("agentos").joinpath("demo")
        for kind in ("ideas", "issues"):
            for entry in sorted(shipped.joinpath(kind).iterdir(), key=lambda one: one.name):
                contents[f"{kind}/active/{entry.name}"] = entry.read_text("utf-8")
    _write(root, contents)
    if demo is None:
        click.echo("Next: put a brief into ideas/active/ or an issue into issues/active/, then type")
        click.echo("  agentos lld --all --mock --dry-run")
    else:
        click.echo(f"A demo backlog is in {demo}. Next:")
        click.echo(f"  cd {demo}")
        click.echo("  agentos lld --all --mock --parallel 3 --timeout 5s")


def _write(root: Path, contents: dict[str, str]) -> None:
    from agentos.errors import StorageError  # noqa: PLC0415
    from agentos.store.files import inside, write_atomic  # noqa: PLC0415

    try:
        for folder in FOLDERS:
            inside(root, Path(folder) / "any").parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageError(f"Cannot create {exc.filename}: {exc.strerror}.") from exc
    for name, text in contents.items():
        path = inside(root, Path(name))
        if path.exists() or path.is_symlink():
            click.echo(f"kept     {name}")
        else:
            write_atomic(path, text)
            click.echo(f"created  {name}")
