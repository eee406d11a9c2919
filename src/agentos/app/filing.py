"""Files approved issues at the end of a run: asks once for all, then files them one by one."""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from agentos.app.dialog import Dialog
from agentos.app.summary import FilingResult
from agentos.coordinator.file_issue import FiledIssue, Filer
from agentos.coordinator.plan import PlannedItem, edited_since
from agentos.coordinator.recorder import RunRecorder
from agentos.coordinator.scheduler import Stop
from agentos.end_matter import for_reading
from agentos.errors import AgentosError, ItemFailed
from agentos.events.filing import FilingRefused, FilingUnknown
from agentos.github.client import GitHub
from agentos.model import Item, counted
from agentos.signals import StopSignals
from agentos.stamp import Stamp, split, text_hash
from agentos.store.documents import MAX_DOCUMENT_BYTES, Author, find_document
from agentos.store.home import Home
from agentos.store.lineage import Lineage
from agentos.store.records import Fence, Filing, FilingState
from agentos.store.records.protocols import AllRecords
from agentos.store.rooted_tree import why_unreadable, worktree_tree

if TYPE_CHECKING:
    from agentos.app.execution import Ran
    from agentos.app.open_run import OpenRun

LOCK_SECONDS = 0.2  # between checks whether another run has finished filing
_NAMED = 10  # items named in the question


def file_approved(run: "OpenRun", plan: Sequence[PlannedItem], ran: "Ran") -> FilingResult:
    """File the approved issues of a run."""
    request = run.request
    assert request.github is not None
    filer = IssueFiler(
        request.github,
        run.records,
        ran.recorder,
        run.session.signals,
        run.dialog,
        alone=home_lock(run.home) if run.remote is None else run.remote.filing_lock(),
        yes=request.settings.yes,
        lineage_folder=request.settings.lineage_folder,
        allowed_labels=request.settings.filing_labels,
    )
    return filer.file(plan, request.project.worktree, ran.stopped)


@contextlib.contextmanager
def home_lock(home: Home) -> Iterator[Callable[[], bool]]:
    """A lock that the runs of one home share."""
    descriptor = home.open(home.path / "filing.lock")

    def taken() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield taken
    finally:
        os.close(descriptor)


class IssueFiler:
    """Files the approved issues of one run, and settles what earlier runs left open."""

    def __init__(
        self,
        github: GitHub,
        records: AllRecords,
        recorder: RunRecorder,
        signals: StopSignals,
        dialog: Dialog,
        *,
        alone: AbstractContextManager[Callable[[], bool]],
        yes: bool,
        lineage_folder: str,
        allowed_labels: Sequence[str] = (),
    ) -> None:
        self._github = github
        self._records = records
        self._recorder = recorder
        self._signals = signals
        self._dialog = dialog
        self._lock = alone  # yields what tries to take it
        self._yes = yes
        self._lineage_folder = lineage_folder
        self._allowed_labels = allowed_labels
        self._unfinished = False

    def file(self, entries: Sequence[PlannedItem], worktree: Path, stopped: Stop | None) -> FilingResult:
        """File approved issues, unless a person or a full disk stopped the run."""
        if stopped not in {Stop.INTERRUPTED, Stop.TERMINATED, Stop.STORAGE}:
            stopped = self._file_all(entries, worktree) or stopped
        return FilingResult(stopped=stopped, unfinished=self._unfinished)

    def _file_all(self, entries: Sequence[PlannedItem], worktree: Path) -> Stop | None:
        """File one by one; return why it was stopped, if it was."""
        items = self._recorder.state.items
        waiting = [entry for entry in entries if items[entry.item.id].filing_state == "wanted"]
        try:
            with self._signals.raising():
                allowed = bool(waiting) and self._allowed(waiting)
                if allowed or self._earlier(entries):
                    with self._alone():
                        filer = Filer(
                            self._github,
                            self._records,
                            fence=self._fence,
                            say=self._recorder.say,
                            record=self._recorder.record,
                            allowed_labels=self._allowed_labels,
                        )
                        held = self._settle_earlier(filer, entries)
                        for entry in waiting if allowed else ():
                            self._file(filer, entry, worktree, held=entry.item.id in held)
        except KeyboardInterrupt:
            if heard := self._signals.read():
                self._recorder.say(
                    "stopped while filing; run the same command to look up what was filed and resume"
                )
                return Stop.TERMINATED if signal.SIGTERM in heard else Stop.INTERRUPTED
        except AgentosError as exc:
            self._unfinished = True
            self._recorder.say(f"filing stopped: {exc}")
        return None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let only one run of these records file at a time; the lock ends with its process."""
        with self._lock as taken:
            announced = False
            while not taken():
                if not announced:
                    self._recorder.say("another run is filing; waiting for it")
                announced = True
                time.sleep(LOCK_SECONDS)
            yield

    def _earlier(self, entries: Sequence[PlannedItem]) -> list[Filing]:
        """Filings with an unknown result that no item of this run looks up itself."""
        mine = {(entry.item.id, entry.item.input_hash) for entry in entries}
        flows = {entry.item.workflow for entry in entries}
        return [
            row
            for row in self._records.unknown_filings()
            if (row.workflow in flows or not flows) and (row.item, row.input_hash) not in mine
        ]

    def _claimed(self, rows: Sequence[Filing]) -> tuple[list[Filing], list[Filing]]:
        """Claim the items of earlier filings; return those of this run, and those that another run holds."""
        mine: list[Filing] = []
        others: list[Filing] = []
        for row in rows:
            if refused := self._records.claim([row], self._recorder.run_id):
                run = refused[row.item].run_id
                reason = f"run {run} looks up whether an earlier version was filed"
                self._recorder.record(FilingUnknown(item=row.item, reason=reason, earlier=True))
                self._recorder.say(f"{row.workflow} {row.item}: {reason}")
            (others if refused else mine).append(row)
        return mine, others

    def _fence(self, one: Item | Filing) -> Fence:
        name = one.item if isinstance(one, Filing) else one.id
        item = self._recorder.state.items.get(name)
        return Fence(run_id=self._recorder.run_id, attempt=0 if item is None else item.attempts)

    def _settle_earlier(self, filer: Filer, entries: Sequence[PlannedItem]) -> set[str]:
        """Look up what earlier runs left unknown; return the ids of items that stay unknown."""
        labels = {entry.item.id: entry.item.label for entry in entries}

        def absent(row: Filing) -> FilingState:
            # An item outside this run may still have this text approved, so it stays to be filed.
            latest = self._records.outcomes(row.workflow).get(row.item)
            current = latest is not None and latest.input_hash == row.input_hash
            return FilingState.WANTED if current and row.item not in labels else FilingState.KEPT

        mine, others = self._claimed(self._earlier(entries))
        settled = filer.settle_earlier(
            mine, lambda row: labels.get(row.item, f"{row.workflow} {row.item}"), absent
        )
        unknown = (*settled, *others)
        self._unfinished = bool(unknown)
        here = self._github.repository.address
        return {row.item for row in unknown if row.repository == here}

    def _allowed(self, waiting: Sequence[PlannedItem]) -> bool:
        if self._yes:
            return True
        what = f"{counted(len(waiting), 'approved issue')} on {self._github.repository}"
        labels = ", ".join(entry.item.label for entry in waiting[:_NAMED])
        more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
        allowed = self._dialog.confirm(f"File {what} ({labels}{more})?")
        if allowed is None:
            self._recorder.say(f"not filed: {what}; --yes files without asking")
        return bool(allowed)

    def _file(self, filer: Filer, entry: PlannedItem, worktree: Path, *, held: bool) -> None:
        """File one issue. Once GitHub has it, remove the local file, so that there is one copy."""
        item = entry.item
        output = self._recorder.state.items[item.id].output
        filing = self._records.filing(item)
        try:
            known = filing is not None and filing.state is FilingState.FILED
            if stale := self._records.check(item, self._fence(item)):
                self._not_filed(item, str(stale))
                return
            if held and not known:
                self._not_filed(item, "an earlier version may already be filed", unknown=True)
                return
            document = "" if known else self._approved_text(worktree, output, item)
            done = filer.file(item, document)
        except ItemFailed as exc:
            self._not_filed(item, str(exc))
            return
        except AgentosError as exc:
            self._recorder.record(FilingRefused(item=item.id, reason=str(exc)))
            return
        if isinstance(done, FiledIssue):
            self._tell_of_earlier(item)
            self._leave_receipt(item, worktree, done)
            with contextlib.suppress(AgentosError, OSError):
                self._take_away(item, worktree, output)
            if stale := self._records.moved(item, self._fence(item), done.url):
                self._recorder.say(f"{item.label}: {stale}; the address of its issue was not recorded")

    def _not_filed(self, item: Item, reason: str, *, unknown: bool = False) -> None:
        event = FilingUnknown if unknown else FilingRefused
        self._recorder.record(event(item=item.id, reason=reason))
        self._recorder.say(f"{item.label}: not filed: {reason}")

    def _lineage(self, item: Item, worktree: Path) -> Lineage:
        return Lineage(worktree=worktree, folder=self._lineage_folder, name=f"{item.id}-{item.workflow}")

    def _approved_text(self, worktree: Path, output: str | None, item: Item) -> str:
        """The text that was approved here, with its decisions but no names; never read through a link.

        Whoever can commit can also write a stamp, so only the records say what was approved.
        """
        path = Path(output or "")
        try:
            text = worktree_tree(worktree).text(path, MAX_DOCUMENT_BYTES)
        except (OSError, UnicodeDecodeError) as exc:
            raise ItemFailed(
                f"{path} {why_unreadable(exc)}. Restore the document, or run the item again with --fresh."
            ) from exc
        body = split(text).body
        approved = self._records.outcomes(item.workflow).get(item.id)
        if approved is None or (approved.input_hash, approved.text_hash) != (
            item.input_hash,
            text_hash(body),
        ):
            raise ItemFailed(edited_since(output, item))
        return for_reading(body)

    def _leave_receipt(self, item: Item, worktree: Path, done: FiledIssue) -> None:
        """Write a receipt into the lineage, which is committed: no clone files the same brief again."""
        stamp = Stamp(
            item=item.label, input=item.input_hash, filed=f"{self._github.repository.full_name}#{done.number}"
        )
        try:
            self._lineage(item, worktree).write_receipt(stamp, f"Filed as {done.url}", self._recorder.run_id)
        except (AgentosError, OSError) as exc:
            self._recorder.say(f"{item.label}: could not write the filing receipt: {exc}")

    def _take_away(self, item: Item, worktree: Path, output: str | None) -> None:
        """Remove the local file once GitHub has the issue; keep it if a person edited it."""
        path, tree = Path(output or ""), worktree_tree(worktree)
        lineage = self._lineage(item, worktree)
        aside = lineage.take(path, "edited")  # kept there if it turns out to be edited
        found = find_document(worktree, aside, item.label, lineage)
        if found is not None and found.author is Author.OURS:
            tree.remove(aside)
            with contextlib.suppress(OSError):
                tree.remove_folder(aside.parent)
        else:
            tree.link(aside, path)  # never overwrites a file created meanwhile

    def _tell_of_earlier(self, item: Item) -> None:
        before = [
            row.number
            for (name, text), row in self._records.filings(item.workflow).items()
            if name == item.id and text != item.input_hash and row.number is not None
        ]
        if before:
            numbers = ", ".join(f"#{number}" for number in sorted(before))
            self._recorder.say(
                f"{item.label}: an earlier version was filed as {numbers}; close what you no longer need"
            )
