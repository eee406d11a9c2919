"""The filing at the end of a run: asks once for all approved issues, then files one after the other."""

import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from agentos.coordinator.book import RunBook
from agentos.coordinator.filing import Filed, Filer, NotFiled
from agentos.coordinator.plan import Entry
from agentos.coordinator.scheduler import Stop
from agentos.coordinator.signals import StopSignals
from agentos.errors import AgentosError
from agentos.github.client import GitHub
from agentos.model import counted
from agentos.store.files import inside
from agentos.store.records import FilingState, Records

_NAMED = 10  # items named in the question


class Desk:
    """Where approved issues wait to be filed."""

    def __init__(
        self, github: GitHub, records: Records, book: RunBook, signals: StopSignals, *, yes: bool
    ) -> None:
        self._github = github
        self._records = records
        self._book = book
        self._signals = signals
        self._yes = yes
        self._filer = Filer(github, records, say=book.say, event=book.event)

    def file(self, entries: Sequence[Entry], worktree: Path, stopped: Stop | None) -> Stop | None:
        """File what is approved; tell why it was stopped, if it was, before or here."""
        waiting = [entry for entry in entries if self._book.rows[entry.item.label].filing == "wanted"]
        if not waiting or stopped in {Stop.INTERRUPTED, Stop.TERMINATED, Stop.STORAGE}:
            return stopped
        try:
            with self._signals.raising():
                if self._allowed(waiting):
                    for entry in waiting:
                        self._file(entry, worktree)
        except (KeyboardInterrupt, click.Abort):
            if heard := self._signals.read():
                self._book.say("stopped while filing; the same command looks up what was filed and goes on")
                return Stop.TERMINATED if signal.SIGTERM in heard else Stop.INTERRUPTED
        return stopped

    def _allowed(self, waiting: Sequence[Entry]) -> bool:
        if self._yes:
            return True
        what = f"{counted(len(waiting), 'approved issue')} on {self._github.repository}"
        if sys.stdin.isatty() and sys.stderr.isatty():
            labels = ", ".join(entry.item.label for entry in waiting[:_NAMED])
            more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
            return click.confirm(f"File {what} ({labels}{more})?", default=False, err=True)
        self._book.say(f"not filed: {what}; --yes files without asking")
        return False

    def _file(self, entry: Entry, worktree: Path) -> None:
        """File one issue; its file goes once GitHub has it, for there is one truth then."""
        row = self._book.rows[entry.item.label]
        assert row.output is not None
        path = inside(worktree, Path(row.output))
        filing = self._records.filing(entry.item)
        try:
            known = filing is not None and filing.state is FilingState.FILED
            document = "" if known else path.read_text("utf-8")
            done = self._filer.file(entry.item, document)
        except (OSError, UnicodeDecodeError) as exc:
            done = NotFiled(reason=f"{row.output} cannot be read: {exc}")
        except AgentosError as exc:
            done = NotFiled(reason=str(exc))
        if isinstance(done, Filed):
            path.unlink(missing_ok=True)
            self._records.moved(entry.item, done.url)
            row = replace(row, output=done.url, filing="filed", reason=None)
        else:
            row = replace(
                row, filing="unknown" if done.unknown else "wanted", error=f"not filed: {done.reason}"
            )
        self._book.rows[row.label] = row
