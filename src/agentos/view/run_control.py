"""What the page asks of a runner: only what is known, and only as it was shown. Server process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentos.app.inbox import asked_by, find_waiting, next_command
from agentos.errors import UsageError
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.view.run_commands import RunCommand, commands_of_run, run_command
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
        return {"commands": [one.as_dict() for one in self._of_run(run_id)]}

    def of_answer(self, entry: Mapping[str, Any]) -> dict[str, str]:
        """The command that resumes an answered item of the inbox."""
        return self._answer(entry["command"], mock=entry["mock"]).as_dict()

    def start(self, wanted: dict[str, str]) -> dict[str, Any]:
        """Start a command if it is still the one that the person confirmed."""
        started = self.runner.start(self._found(wanted))
        return {"number": started.number, "command": started.command}

    def stop(self, run_id: str) -> str:
        return self.runner.stop(self.run_index.folder(run_id))

    def _found(self, wanted: dict[str, str]) -> RunCommand:
        action = wanted.get("action")
        if action == "answer":
            there = [self._of_answer(wanted.get("label", ""))]
        else:
            there = [one for one in self._of_run(wanted.get("run", "")) if one.action == action]
        if not there:
            raise UsageError("There is nothing left to start here.")
        for command in there:
            if command.command == wanted.get("command"):
                return command
        raise UsageError("The command changed in the meantime. Look at it again.")

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
        again = asked_by(self.home, found, program=self.runner.program, settings=self.settings)
        return self._answer(next_command(found, again), mock=found.mock)

    def _answer(self, command: str, *, mock: bool) -> RunCommand:
        found = {"action": "answer", "command": command, "why": "resume the item with the answer"}
        return run_command(found, self.settings, mock=mock)
