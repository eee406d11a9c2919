"""What the page asks of a runner: only what is known, and only as it was shown. Server process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentos.app.inbox import find_waiting
from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.view.run_commands import RunCommand, command_of_answer, commands_of_run
from agentos.view.run_index import RunIndex
from agentos.view.runner import Runner


@dataclass(frozen=True, kw_only=True)
class RunControl:
    """Finds the command that a request means, and starts or stops it."""

    runner: Runner
    home: Home
    run_index: RunIndex
    settings: Settings

    def of_run(self, run_id: str) -> dict[str, Any]:
        """The commands that can be started for a run."""
        return {"commands": [one.as_dict(self.runner.program) for one in self._of_run(run_id)]}

    def of_answer(self, entry: Mapping[str, Any]) -> dict[str, str]:
        """The command that resumes an answered item of the inbox."""
        return self._answer(entry["workflow"], entry["id"], mock=entry["mock"]).as_dict(self.runner.program)

    def start(self, wanted: dict[str, str]) -> dict[str, Any]:
        """Start a command if it is still the one that the person confirmed."""
        command = self._found(wanted)
        if command.shown(self.runner.program) != wanted.get("command"):
            raise UsageError("The command changed in the meantime. Look at it again.")
        started = self.runner.start(command)
        return {"number": started.number, "command": started.command}

    def stop(self, run_id: str) -> str:
        return self.runner.stop(self.run_index.folder(run_id))

    def _found(self, wanted: dict[str, str]) -> RunCommand:
        action = wanted.get("action")
        if action == "answer":
            return self._of_answer(wanted.get("label", ""))
        for command in self._of_run(wanted["run"]) if "run" in wanted else ():
            if command.action == action:
                return command
        raise UsageError("There is nothing left to start here.")

    def _of_run(self, run_id: str) -> tuple[RunCommand, ...]:
        folder = self.run_index.folder(run_id)
        row = next(one for one in self.run_index.rows() if one["run_id"] == folder.name)
        return commands_of_run(self.run_index.latest(run_id), self.settings, mock=row["mock"])

    def _of_answer(self, label: str) -> RunCommand:
        if not self.home.used:
            raise UsageError("No runs here yet, so nothing is waiting for a decision.")
        with self.home.open_records(write=False) as records:
            found = find_waiting(records, label)
        if found.decided is None:
            raise UsageError(f"{found.label} is not answered yet.")
        progress = found.progress
        return self._answer(progress.workflow, progress.item, mock=found.mock)

    def _answer(self, workflow: str, item: str, *, mock: bool) -> RunCommand:
        shared = self.home.elsewhere is not None and self.settings.engine == "local"
        engine = "postgres" if shared else ""
        return command_of_answer(workflow, item, self.settings, mock=mock, engine=engine)
