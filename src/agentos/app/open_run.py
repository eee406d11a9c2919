"""An open run: its folder, records and claims, until the command has finished."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentos.app.dialog import Dialog
from agentos.app.maps import Maps, open_maps
from agentos.app.preparation import Prepared
from agentos.app.project import Project
from agentos.app.request import RunRequest
from agentos.app.session import Session
from agentos.store.home import Home
from agentos.store.notices import first_time
from agentos.store.records.protocols import AllRecords
from agentos.store.run_folder import RunFolder, create_run

if TYPE_CHECKING:
    from agentos.app.remote_run import RemoteRun


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """What the steps of a run work on."""

    request: RunRequest
    prepared: Prepared
    session: Session
    dialog: Dialog
    home: Home
    records: AllRecords
    folder: RunFolder
    maps: Maps
    remote: "RemoteRun | None" = None  # where its items run, if not here


@contextmanager
def open_run(request: RunRequest, prepared: Prepared, session: Session, dialog: Dialog) -> Iterator[OpenRun]:
    """Create the run's folder and open its records; release its claims at the end."""
    home = _create_home(request.project, dialog)
    with ExitStack() as stack:
        records = stack.enter_context(home.open_records(mock=request.mock))
        folder = create_run(home)
        stack.callback(folder.close)
        stack.callback(records.release, folder.run_id)
        remote = None
        if request.settings.engine == "postgres":
            from agentos.app.remote_run import open_remote_run  # noqa: PLC0415 - an extra

            remote = stack.enter_context(open_remote_run(request, folder.run_id))
        maps = stack.enter_context(
            open_maps(request.project, request.settings, request.context, items=request.items, save=True)
        )
        yield OpenRun(
            request=request,
            prepared=prepared,
            session=session,
            dialog=dialog,
            home=home,
            records=records,
            folder=folder,
            maps=maps,
            remote=remote,
        )


def _create_home(project: Project, dialog: Dialog) -> Home:
    """Create the home; say what the repo's own files set, once for each version of them."""
    home, files = project.home.create(), project.config.repo
    if files and first_time(home, (file.digest for file in files)):
        for file in files:
            dialog.tell(f"{file}; 'agentos config' shows the values.")
    return home
