"""The command `agentos` and its one error boundary."""

import contextlib
import itertools
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from agentos import __version__, environment
from agentos.console.screen import json_text, open_screens
from agentos.console.visible import one_line
from agentos.errors import AgentosError, Exit
from agentos.parse_value import Rejected, yes_no
from agentos.redact import redact
from agentos.secret import know
from agentos.settings import variable_of

# In the order of the help page. A module is imported only when its command runs or shows its help.
COMMANDS = {
    "lld": ("agentos.cli.workflow", "lld", "Turn issues into reviewed low-level designs."),
    "issue": ("agentos.cli.workflow", "issue", "Turn briefs into reviewed issues."),
    "run": ("agentos.cli.workflow", "run", "Run any registered workflow."),
    "decide": ("agentos.cli.decide", "decide", "Answer a review that needs a person's decision."),
    "revise": (
        "agentos.cli.revise",
        "revise",
        "Send a document back with a note, or have your edits reviewed.",
    ),
    "context": (
        "agentos.cli.context",
        "context",
        "Show what both models get to know about the repository for an item.",
    ),
    "status": ("agentos.cli.status", "status", "Show the latest run and every unfinished item."),
    "logs": ("agentos.cli.logs", "logs", "Print or follow the log of an item."),
    "report": ("agentos.cli.report", "report", "Write, open or print the report of a run; compare two runs."),
    "view": ("agentos.cli.view", "view", "Serve a live page of all runs of this project."),
    "verdict": ("agentos.cli.verdict", "verdict", "Read review documents and print their verdicts."),
    "keys": ("agentos.cli.keys", "keys", "Show keys with limits and health; enable a disabled key."),
    "worker": ("agentos.cli.worker", "worker", "Run items of other machines, through one PostgreSQL."),
    "simulate": ("agentos.cli.simulate", "simulate", "Serve a simulated provider for tests and demos."),
    "init": ("agentos.cli.init", "init", "Set up a project, or make a demo backlog."),
    "doctor": ("agentos.cli.doctor", "doctor", "Check the setup and show what to type next."),
    "config": ("agentos.cli.config", "config", "Show every setting with its value and origin."),
    "home": (
        "agentos.cli.home",
        "home",
        "Show where runs are kept; adopt one from a backup or another machine.",
    ),
    "db": ("agentos.cli.db", "db", "Prepare the PostgreSQL database that several machines share."),
    "clean": ("agentos.cli.clean", "clean", "Remove old runs and kept checkpoints."),
    "completion": ("agentos.cli.completion", "completion", "Print the completion script for a shell."),
}


class LazyGroup(click.Group):
    """Imports a command's module when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer commands from the table: importing them all would be too slow for Tab."""
        named = [
            CompletionItem(name, help=text)
            for name, (_, _, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    # Our streams show escape sequences; click would silently drop some of them.
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "color": True},
)
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    help="Keep runs and records in this folder. [default: .agentos in the project; AGENTOS_HOME]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Use this as your configuration file. [default: ~/.config/agentos/config.toml; AGENTOS_CONFIG]",
)
@click.version_option(__version__, prog_name="agentos")
@click.pass_context
def agentos(ctx: click.Context, home: Path | None, config_file: Path | None) -> None:
    """Turn a backlog into reviewed specifications, many items in parallel, and never lose finished work."""
    ctx.obj = {"home": home, "config_file": config_file}


def run(arguments: list[str]) -> int:
    """Run a command. Every error ends here: one line and an exit code, plus JSON if asked for."""
    open_screens(environment.read())
    know(environment.read())  # before any argument is parsed: one of them may be a pasted key
    code: int = Exit.OK
    error: str | None = None
    try:
        result: Any = agentos.main(args=arguments, prog_name="agentos", standalone_mode=False)
        code = result if isinstance(result, int) else Exit.OK
    except click.exceptions.Exit as exc:
        code = exc.exit_code
    except click.ClickException as exc:
        exc.show()
        code, error = Exit.USAGE, exc.format_message()
    except AgentosError as exc:
        code, error = exc.exit_code, redact(str(exc))
        _complain(error)
    except (click.Abort, KeyboardInterrupt):
        code, error = Exit.INTERRUPTED, "interrupted"
        _complain(error)
    except BrokenPipeError:
        _silence_output()
    except Exception as exc:  # noqa: BLE001 - the boundary
        code, error = Exit.FAILED, _unexpected(exc)
        _complain(error)
    if error is not None and _wants_json(arguments, environment.read()):
        _print_error(error, code)
    return code


def _wants_json(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Read the raw arguments, since parsing them may be what failed."""
    flags = itertools.takewhile(lambda word: word != "--", arguments)
    if "--json" in flags:
        return True
    command = next((word for word in arguments if word in COMMANDS), "")
    if COMMANDS.get(command, ("",))[0] != "agentos.cli.workflow":
        return False
    with contextlib.suppress(Rejected):
        return yes_no(environment.get(variable_of("json"), ""))
    return False


def _complain(message: str) -> None:
    click.echo(f"agentos: {one_line(message)}", err=True, color=True)


def _print_error(message: str, code: int) -> None:
    data = {"error": {"message": message, "exit_code": int(code)}}
    try:
        click.echo(json_text(data))
    except BrokenPipeError:
        _silence_output()


def _silence_output() -> None:
    """Nobody reads our output any more; keep the interpreter's last flush from failing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unexpected(exc: Exception) -> str:
    """Save the traceback in a file; return the one line for the user."""
    from agentos.store.records import timestamp  # noqa: PLC0415
    from agentos.store.rooted_tree import PRIVATE_FILE  # noqa: PLC0415

    text = redact("".join(traceback.format_exception(exc)))
    where = "standard error above"
    try:
        from agentos.cli.project import open_home  # noqa: PLC0415

        home = open_home().create()
        path = home.path / "logs" / f"crash-{timestamp().replace(':', '-')}.txt"
        home.tree.write(path, text, mode=PRIVATE_FILE)
        where = str(path)
    except (AgentosError, OSError):
        click.echo(text, err=True, color=True)
    return f"Unexpected {type(exc).__name__}: {redact(str(exc))}. This is a bug; details are in {where}."
