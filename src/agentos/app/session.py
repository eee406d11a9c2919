"""What lives as long as a workflow command: the server that workers are forked from, and stop signals.

The server takes most of a second to import what workers need. It starts as soon as the command is parsed,
and imports while the coordinator reads the project, its settings and its items.
"""

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from agentos.app.command import WorkflowCommand
from agentos.errors import AgentosError
from agentos.secret import DATABASE_VARIABLE

if TYPE_CHECKING:
    from agentos.engine.worker_server import WorkerServer
    from agentos.signals import StopSignals


class Session:
    """Opens before the request is read, closes after the result is shown; leaves no process behind."""

    server: "WorkerServer"  # only if items run on this machine
    signals: "StopSignals"

    def __init__(self, command: WorkflowCommand) -> None:
        self._command = command

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._held = stack.enter_context(ExitStack())  # closed last: no signal interrupts the cleanup
            if not self._command.says("dry_run"):
                from agentos.os_process import hide_memory  # noqa: PLC0415

                hide_memory()
                if not _runs_elsewhere(self._command):
                    self.server = stack.enter_context(_server(self._command))
                    self.server.warm_up()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def hold_signals(self) -> None:
        """Stop signals no longer raise: from here on the run reads them and stops in order."""
        from agentos.signals import StopSignals  # noqa: PLC0415

        self.signals = self._held.enter_context(StopSignals())


def _runs_elsewhere(command: WorkflowCommand) -> bool:
    """Whether other machines run the items. Settings are read for this only if a database is named."""
    called = command.invocation
    if not called.environment.get(DATABASE_VARIABLE):
        return False
    from agentos.config import load_config  # noqa: PLC0415 - takes time that a local run does not have here

    with suppress(AgentosError):  # it is reported where the request is read
        config = load_config(
            flags={"engine": command.flags.get("engine")},
            worktree=None,  # a repo may not choose the engine
            user_file=called.config_file,
            environment=called.environment,
        )
        return config.settings.engine == "postgres"
    return False


def _server(command: WorkflowCommand) -> "WorkerServer":
    from agentos.engine.worker_server import WorkerServer, start_method  # noqa: PLC0415 - multiprocessing

    environment = command.invocation.environment
    method = start_method(environment.get("AGENTOS_START_METHOD"))
    return WorkerServer(method, environment, preload=preloaded(command))


def preloaded(command: WorkflowCommand) -> list[str]:
    """The modules that workers of this command will need, judged by the command alone."""
    from agentos.llm.providers import MODULES  # noqa: PLC0415
    from agentos.workflows.registry import SHIPPED, registered  # noqa: PLC0415

    modules = [MODULES["mock"]] if command.says("mock") else list(dict.fromkeys(MODULES.values()))
    if (shipped := SHIPPED.get(command.workflow)) is not None:
        return [*modules, shipped]
    entry = registered().get(command.workflow)
    return modules if entry is None else [*modules, entry.module]
