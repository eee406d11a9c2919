"""The order of a workflow command, after `cli/workflow.py` has parsed it and opened a `session`.

    request -> preview                                                      with --dry-run
    request -> preparation -> open_run -> claim_items -> execution -> filing -> summary -> suggestions

Each name is a module of `app`. Filing happens only for issues.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentos.app.command import WorkflowCommand
from agentos.app.dialog import Dialog
from agentos.app.request import RunRequest, make_request
from agentos.app.session import Session

if TYPE_CHECKING:
    from agentos.app.preview import Preview
    from agentos.app.suggestions import Suggestion
    from agentos.report.summary import Summary
    from agentos.report.time_shares import TimeShares


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A finished run."""

    request: RunRequest
    summary: "Summary"
    suggestions: "tuple[Suggestion, ...]"
    time: "TimeShares"
    files: Mapping[str, str]  # of the items that are files: path by label


def carry_out(command: WorkflowCommand, session: Session, dialog: Dialog) -> "Preview | FinishedRun":
    """Do what the command asks for; a dry run only looks."""
    request = make_request(command, dialog)
    if request.settings.dry_run:
        from agentos.app.preview import preview  # noqa: PLC0415

        return preview(request)
    from agentos.app.claim_items import claim_items  # noqa: PLC0415
    from agentos.app.execution import run_items  # noqa: PLC0415 - a dry run needs none of these
    from agentos.app.open_run import open_run  # noqa: PLC0415
    from agentos.app.preparation import prepare  # noqa: PLC0415
    from agentos.app.suggestions import next_commands  # noqa: PLC0415
    from agentos.app.summary import FilingResult, summarise  # noqa: PLC0415
    from agentos.report.time_shares import time_shares  # noqa: PLC0415

    prepared = prepare(request, dialog)
    session.hold_signals()
    with open_run(request, prepared, session, dialog) as run:
        plan = claim_items(run)
        ran = run_items(run, plan)
        filed = FilingResult(stopped=ran.stopped)
        if request.files:
            from agentos.app.filing import file_approved  # noqa: PLC0415 - GitHub's client

            filed = file_approved(run, plan, ran)
        summary = summarise(run, plan, ran, filed)
    state = ran.recorder.state
    return FinishedRun(
        request=request,
        summary=summary,
        time=time_shares(state, now=state.last),
        files={entry.item.label: entry.item.source for entry in plan if not entry.item.remote},
        suggestions=next_commands(
            summary, request.project.config, ids=command.ids, start=command.invocation.program
        ),
    )
