"""`agentos view`: a live page of all runs of this home, on this machine only."""

import shlex
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentos.app.project import Project
    from agentos.config import Config
    from agentos.view.runner import Runner

HINT_SECONDS = 10.0  # for the browser to open the page by itself
MAX_PORT = 65535


def _port(_ctx: click.Context, _parameter: click.Parameter, number: int) -> int:
    # Not click.IntRange, which adds `0<=x<=65535` to the help.
    if not 0 <= number <= MAX_PORT:
        raise click.BadParameter(f"{number} is not a port. Use a number from 0 to {MAX_PORT}.")
    return number


@click.command("view")
@click.option(
    "--port",
    type=int,
    callback=_port,
    default=0,
    metavar="N",
    help="Listen on this port of 127.0.0.1; a browser that was logged in stays so for 30 days. "
    "[default: any free port]",
)
@click.option(
    "--open/--no-open",
    "opened",
    default=None,
    help="Open the page in the browser. [default: only if standard output is a terminal]",
)
@click.option(
    "--allow-run",
    "allow_run",
    is_flag=True,
    help="Let the page resume, retry and stop runs, each after a confirmation. [default: off]",
)
def view(*, port: int, opened: bool | None, allow_run: bool) -> None:
    """Serve a live page of all runs of this project on 127.0.0.1, until Ctrl+C.

    The address contains a token: anyone who has it can see everything and answer reviews, as long as the
    command runs. With --allow-run, they can also start runs.
    """
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.os_process import hide_memory  # noqa: PLC0415
    from agentos.store.rooted_tree import PRIVATE_FILE  # noqa: PLC0415
    from agentos.view.server import listen, make_view, serve  # noqa: PLC0415

    project = open_project()
    hide_memory()
    folders = project.config.settings.folders
    flags = _global_flags()
    runner = _runner(project, flags) if allow_run else None
    key = _login_key(project.config) if port else None  # any free port is another one each time

    said: set[tuple[str, type[Exception]]] = set()

    def failed(path: str, exc: Exception) -> None:
        import traceback  # noqa: PLC0415

        if (path, type(exc)) in said:  # the page repeats its requests
            return
        said.add((path, type(exc)))
        kept = project.home.create().path / "logs" / "crash-view.txt"
        project.home.tree.write(kept, "".join(traceback.format_exception(exc)), mode=PRIVATE_FILE)
        click.echo(
            f"agentos: Unexpected {type(exc).__name__} at {path}. This is a bug; details are in {kept}.",
            err=True,
        )

    with listen(port) as taken, ExitStack() as entrance:

        def ready(address: str, once: str) -> None:
            click.echo(f"Serving the runs of {project.worktree} at {address}")
            if key is not None:
                click.echo(f"A browser that opened it once can come back to {address.partition('?')[0]}")
            if opened or (opened is None and sys.stdout.isatty()):
                _open(once, project.config, entrance)

        serve(
            make_view(
                home=project.home,
                worktree=project.worktree,
                folders=folders,
                failed=failed,
                runner=runner,
                program=shlex.join(["agentos", *flags]),
                settings=project.config.settings,
            ),
            taken,
            ready=ready,
            entered=entrance.close,
            key=key,
        )
    for one in () if runner is None else runner.running():
        pid = one.process.pid
        click.echo(f"Still running: {one.command} (process {pid}). To stop it, type 'kill -INT {pid}'.")


def _global_flags() -> list[str]:
    """The flags for home and settings, as they mean the same in any folder."""
    from agentos.cli.invocation import invocation  # noqa: PLC0415

    called = invocation()
    given = (("--home", called.home), ("--config", called.config_file))
    return [word for flag, path in given if path is not None for word in (flag, str(path.absolute()))]


def _runner(project: "Project", flags: list[str]) -> "Runner":
    from agentos.cli.invocation import invocation  # noqa: PLC0415
    from agentos.view.runner import Runner  # noqa: PLC0415

    called = invocation()
    return Runner(home=project.home, worktree=project.worktree, environment=called.environment, flags=flags)


def _login_key(config: "Config") -> bytes | None:
    import time  # noqa: PLC0415

    from agentos.store.known_homes import state_folder  # noqa: PLC0415
    from agentos.view.lasting_login import login_key  # noqa: PLC0415

    folder = state_folder(config.environment)
    try:
        return None if folder is None else login_key(folder, time.time())
    except OSError as exc:
        click.echo(f"Browsers cannot stay logged in: {folder}: {exc.strerror or exc}.", err=True)
        return None


def _open(address: str, config: "Config", entrance: ExitStack) -> None:
    """Open the browser in a thread, with a private page that logs in; the page goes once that is done."""
    import threading  # noqa: PLC0415

    from agentos.cli.user_programs import open_page  # noqa: PLC0415
    from agentos.view.browser_login import Entrance  # noqa: PLC0415

    page, over = Entrance(address), threading.Event()
    entrance.callback(over.set)
    entrance.callback(page.remove)

    def show() -> None:
        if not open_page(page.path.as_uri(), config):
            click.echo("Could not open a browser. Open the address yourself.", err=True)
        elif not over.wait(HINT_SECONDS):
            click.echo(
                "No page yet? Some browsers (snap, flatpak) cannot read the file that logs them in. "
                "Open the address yourself.",
                err=True,
            )

    threading.Thread(target=show, daemon=True).start()
