"""`agentos report`: writes or opens the page of a run, prints its data, or compares two runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentos.console.screen import json_text, show

if TYPE_CHECKING:
    from agentos.app.project import Project
    from agentos.config import Config

_SHOWN_RUNS = 5
_COMPARED = 2  # runs


@click.command("report")
@click.argument("run_ids", metavar="[RUN [OTHER]]", nargs=-1)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the data of the page as JSON; write nothing.")
def report(run_ids: tuple[str, ...], *, open_page: bool, as_json: bool) -> None:
    """Write the page of a run (default: the latest) and print its path.

    With two runs, print what changed from the first to the second.
    """
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415
    from agentos.report.data import history_of, run_data  # noqa: PLC0415
    from agentos.store.run_folder import list_runs  # noqa: PLC0415

    project = open_project()
    known = list_runs(project.home)
    if not known:
        raise UsageError("No runs here yet, so there is no report. Try 'agentos lld --all --mock'.")
    runs = [find_run(known, run_id) for run_id in run_ids] or known[-1:]

    def data_of(run: Path) -> dict[str, Any]:
        settings = project.config.settings
        return run_data(
            run,
            worktree=project.worktree,
            lineage_folder=settings.lineage_folder,
            lld_template=settings.lld_template,
            history=history_of(run),
        )

    if len(runs) == 1:
        _write(runs[0], data_of(runs[0]), project, open_page=open_page, as_json=as_json)
        return
    if len(runs) > _COMPARED or runs[0] == runs[1]:
        raise UsageError("Name one run for its page, or two different runs to compare them.")
    if open_page:
        raise UsageError("--open shows the page of one run. 'agentos view' compares runs in the browser.")
    environment = project.config.environment
    # None: colour only on a terminal.
    colour = False if environment.get("NO_COLOR") else True if environment.get("FORCE_COLOR") else None
    _compare(data_of(runs[0]), data_of(runs[1]), as_json=as_json, colour=colour)


def _write(run: Path, data: dict[str, Any], project: "Project", *, open_page: bool, as_json: bool) -> None:
    from agentos.report.documents import with_texts  # noqa: PLC0415
    from agentos.report.page import REPORT, write_report  # noqa: PLC0415

    if as_json:
        click.echo(json_text(data))
        return
    project.home.create()
    write_report(run, with_texts(data, run=run, worktree=project.worktree))
    path = run / REPORT
    if data["run"]["live"]:
        click.echo("The run is still running; this is its state now.", err=True)
    click.echo(_short(path))
    if open_page:
        _show(path, project.config)


def _compare(before: dict[str, Any], after: dict[str, Any], *, as_json: bool, colour: bool | None) -> None:
    from agentos.cli.comparison import comparison_lines  # noqa: PLC0415
    from agentos.report.compare import compare  # noqa: PLC0415

    found = compare(before, after)
    if as_json:
        click.echo(json_text(found.as_dict()))
        return
    for line in comparison_lines(found):
        show(*line, colour=colour)


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
