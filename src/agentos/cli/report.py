"""`agentos report`: writes or opens the page of a run, or prints its data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentos.console.screen import json_text

if TYPE_CHECKING:
    from agentos.config import Config

_SHOWN_RUNS = 5


@click.command("report")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the data of the page as JSON; write nothing.")
def report(run_id: str | None, *, open_page: bool, as_json: bool) -> None:
    """Write the page of a run (default: the latest) and print its path."""
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.report.data import history_of, run_data  # noqa: PLC0415
    from agentos.report.page import REPORT, write_report  # noqa: PLC0415
    from agentos.store.run_folder import list_runs  # noqa: PLC0415

    project = open_project()
    known = list_runs(project.home)
    if not known:
        raise UsageError("No runs here yet, so there is no report. Try 'agentos lld --all --mock'.")
    run = known[-1] if run_id is None else find_run(known, run_id)
    data = run_data(
        run,
        worktree=project.worktree,
        lineage_folder=project.config.settings.lineage_folder,
        history=history_of(run),
    )
    if as_json:
        click.echo(json_text(data))
        return
    project.home.create()
    write_report(run, data)
    path = run / REPORT
    if data["run"]["live"]:
        click.echo("The run is still running; this is its state now.", err=True)
    click.echo(_short(path))
    if open_page:
        _show(path, project.config)


def find_run(known: Sequence[Path], run_id: str) -> Path:
    """The folder of the run asked for."""
    from agentos.errors import UsageError  # noqa: PLC0415

    found = next((path for path in known if path.name == run_id), None)
    if found is None:
        latest = ", ".join(path.name for path in reversed(known[-_SHOWN_RUNS:]))
        hint = f"The latest runs: {latest}." if latest else "There are no runs yet."
        raise UsageError(f"No run {run_id!r} here. {hint}")
    return found


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _show(path: Path, config: "Config") -> None:
    """Open the page. A machine without a browser is not an error."""
    from agentos.cli.user_programs import open_page  # noqa: PLC0415

    if not open_page(path.as_uri(), config):
        click.echo(f"Could not open a browser. The page is {path}", err=True)
