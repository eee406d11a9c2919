"""`agentos logs`: prints or follows the log of one item."""

import os
import time
from pathlib import Path

import click

from agentos.cli import completion

FOLLOW_SECONDS = 0.2


@click.command("logs")
@click.argument("item", metavar="ID", shell_complete=completion.logged)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the run ends.")
@click.option(
    "--run",
    "run_id",
    metavar="RUN",
    shell_complete=completion.runs,
    help="Take the log of this run. [default: the latest run with the item]",
)
def logs(item: str, *, follow: bool, run_id: str | None) -> None:
    """Print the log of item ID (42, LLD-42 or its file)."""
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.cli.report import find_run  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.naming import check_name  # noqa: PLC0415
    from agentos.store.run_folder import is_live, list_runs, run_tree, was_mock  # noqa: PLC0415

    check_name(item)
    project = open_project()
    known = list_runs(project.home)
    runs = known if run_id is None else [find_run(known, run_id)]
    logs = [log for path in reversed(runs) for log in _logs_of(path, item)]
    # The latest log of a real run, if there is one; else of a mock run.
    found = next((log for log in logs if not was_mock(log.parent)), logs[0] if logs else None)
    if found is None:
        raise UsageError(
            f"No log of {item!r} in " + (f"run {run_id}." if run_id else "any run. See 'agentos status'.")
        )
    descriptor = run_tree(found.parent).open(found)
    with os.fdopen(descriptor, encoding="utf-8", errors="backslashreplace") as file:
        while True:
            while block := file.read(65_536):
                click.echo(block, nl=False)
            if not follow or not is_live(found.parent):
                break
            time.sleep(FOLLOW_SECONDS)
        click.echo(file.read(), nl=False)


def _logs_of(run: Path, item: str) -> list[Path]:
    """The logs of an item in a run, best match first."""
    from agentos.naming import brief_id, ids_named  # noqa: PLC0415
    from agentos.store.run_folder import run_logs  # noqa: PLC0415

    found: list[tuple[int, Path]] = []
    for path in run_logs(run):
        prefix, _, item_id = path.stem.partition("-")
        ids = (*ids_named(item, prefix), *ids_named(item, prefix, brief_id))
        if path.stem == item or (prefix.isupper() and item_id in ids):
            found.append((0 if path.stem == item else 1 + ids.index(item_id), path))
    return [path for _, path in sorted(found)]
