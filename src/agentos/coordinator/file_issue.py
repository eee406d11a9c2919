"""Files approved issues on GitHub, each exactly once, whatever fails in between. Coordinator process.

The intent is recorded and synced, then the issue is created with a hidden marker in its body, then the result
is recorded. An intent without a result is looked up by its marker; see docs/design/filing.md.
"""

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentos.duration import words
from agentos.errors import ListingError
from agentos.events import filing as events
from agentos.events.catalogue import Event
from agentos.github import FilingUncertain, IssueRefused, RemoteIssue
from agentos.github.document import labels_of, title_and_text
from agentos.github.sanitize import MAX_BODY, marker_of, sanitize_body, sanitize_title
from agentos.model import Item
from agentos.store.records import Fence, Filing, FilingState, Stale

if TYPE_CHECKING:
    from agentos.github.client import GitHub  # loads an HTTP client
    from agentos.store.records.protocols import FilingRecords

PAUSE_SECONDS = 1.0  # between two writes; GitHub asks for it
SETTLE_SECONDS = 10.0  # after a request ended, its issue is in the list by then, or never will be
POLL_SECONDS = 2.0  # between two checks of the list
MAX_CREATES = 3  # per item and run
MAX_WAIT_SECONDS = 300.0  # for a rate limit


@dataclass(frozen=True, kw_only=True)
class FiledIssue:
    """The issue exists."""

    number: int
    url: str


@dataclass(frozen=True, kw_only=True)
class NotFiled:
    """The issue does not exist, or that is unknown."""

    reason: str
    unknown: bool = False  # it may exist; the next run checks again


@dataclass(frozen=True, kw_only=True)
class _IssueContent:
    title: str
    body: str
    labels: tuple[str, ...]


class _TakenOver(Exception):  # noqa: N818 - not an error
    """Another run has the item: this run records nothing and leaves its document alone."""

    def __init__(self, reason: str, *, unknown: bool) -> None:
        super().__init__(reason)
        self.unknown = unknown


class Filer:
    """Creates issues on GitHub; nothing else does."""

    def __init__(
        self,
        github: "GitHub",
        records: "FilingRecords",
        *,
        fence: Callable[[Item | Filing], Fence],
        say: Callable[[str], None],
        record: Callable[[Event], None],
        allowed_labels: Iterable[str] = (),
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        pause: float = PAUSE_SECONDS,
        settle: float = SETTLE_SECONDS,
        poll: float = POLL_SECONDS,
        max_wait: float = MAX_WAIT_SECONDS,
        at: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self._github = github
        self._records = records
        self._fence = fence  # the run and attempt that write about an item
        self._say = say
        self._record = record
        self._allowed = {label.lower(): label for label in allowed_labels}
        self._sleep = sleep
        self._now = now
        self._clock = clock
        self._pause = pause
        self._settle = settle
        self._poll = poll
        self._max_wait = max_wait
        self._at = at
        self._not_before = clock() + self._since_latest()  # the earliest moment of the next write

    def settle_earlier(
        self, rows: Iterable[Filing], named: Callable[[Filing], str], absent: Callable[[Filing], FilingState]
    ) -> tuple[Filing, ...]:
        """Find out what happened to attempts for earlier versions; return those that stay unknown."""
        unknown: list[Filing] = []
        for row in rows:
            label = named(row)
            problem = f"it was started in {row.repository}, but this is {self._github.repository}."
            if row.repository == self._github.repository.address:
                try:
                    found = self._find(row, self._unsettled(row))
                except ListingError as exc:
                    problem = f"{exc} The next run checks again."
                else:
                    self._settled(row, label, found, absent(row))
                    continue
            problem = f"{label}: an earlier version may already be filed: {problem}"
            if stale := self._records.filing_failed(row, self._fence(row), error=problem, unknown=True):
                problem = f"{problem} Not recorded: {stale}."
            self._record(events.FilingUnknown(item=row.item, reason=problem, earlier=True))
            self._say(problem)
            unknown.append(row)
        return tuple(unknown)

    def _settled(self, row: Filing, label: str, found: RemoteIssue | None, absent: FilingState) -> None:
        fence = self._fence(row)
        if found is None:
            stale = self._records.not_there(row, fence, absent)
            reason = f"{label}: an earlier version was not filed"
        else:
            stale = self._records.filed(row, fence, number=found.number, url=found.url)
            reason = f"{label}: an earlier version was filed as #{found.number}"
        if stale is not None:
            self._say(f"{reason}; not recorded: {stale}")
        elif found is None:
            self._record(events.FilingRefused(item=row.item, reason=reason, earlier=True))
            self._say(reason)
        else:
            self._record(events.Filed(item=row.item, number=found.number, url=found.url, earlier=True))
            self._say(f"{reason}: {found.url}")

    def file(self, item: Item, document: str) -> FiledIssue | NotFiled:
        """Make sure that the item's issue is on GitHub exactly once."""
        try:
            return self._file(item, document)
        except _TakenOver as exc:
            event = events.FilingUnknown if exc.unknown else events.FilingRefused
            self._record(event(item=item.id, reason=str(exc)))
            self._say(f"{item.label}: {exc}; this run recorded nothing for it")
            return NotFiled(reason=str(exc), unknown=exc.unknown)

    def _file(self, item: Item, document: str) -> FiledIssue | NotFiled:
        row = self._records.filing(item)
        if row is not None and row.state is FilingState.FILED:
            assert row.number is not None
            self._record(events.Filed(item=item.id, number=row.number, url=row.url))
            return FiledIssue(number=row.number, url=row.url or "")
        marker = marker_of(secrets.token_hex(16))
        if row is not None and row.marker and row.repository == self._github.repository.address:
            marker = row.marker
            if (known := self._look_up(item, row)) is not None:
                return known
        elif row is not None and row.state is FilingState.INTENDED:
            return self._unknown(
                item,
                f"it was started in {row.repository}, but this is {self._github.repository}. Run it in that"
                " repository, or check there yourself and run it with --fresh.",
            )
        content = self._content(item, document, marker)
        if len(content.body) > MAX_BODY:
            return self._refused(
                item,
                f"The text has {len(content.body):,} characters; GitHub allows at most {MAX_BODY:,}."
                " Shorten the document or the brief, then run it again.",
            )
        return self._create(item, content, marker)

    def _content(self, item: Item, document: str, marker: str) -> _IssueContent:
        """What is filed. Only labels that the user allows are set; others that the model wrote stay text."""
        title, text = title_and_text(document)
        named = labels_of(document)
        labels = tuple(self._allowed[name.lower()] for name in named if name.lower() in self._allowed)
        if others := [name for name in named if name.lower() not in self._allowed]:
            self._say(
                f"{item.label}: labels left as text: {', '.join(others)}; to set them, list them in"
                " filing_labels in your configuration file"
            )
        return _IssueContent(
            title=sanitize_title(title or "") or sanitize_title(item.title) or "Untitled",
            body=sanitize_body(text, marker),
            labels=labels,
        )

    def _look_up(self, item: Item, row: Filing) -> FiledIssue | NotFiled | None:
        """What happened to earlier attempts; None if certainly nothing."""
        try:
            found = self._find(row, self._unsettled(row))
        except ListingError as exc:
            if row.state is FilingState.INTENDED:
                return self._unknown(item, f"{exc} The next run checks again.")
            return self._refused(item, str(exc))
        return None if found is None else self._record_filed(item, found)

    def _create(self, item: Item, content: _IssueContent, marker: str) -> FiledIssue | NotFiled:
        self._record(events.FilingStarted(item=item.id, repository=str(self._github.repository)))
        problem = ""
        for left in reversed(range(MAX_CREATES)):
            wait = self._not_before - self._clock()
            if wait > self._max_wait:
                return self._refused(
                    item, f"GitHub's rate limit is reached. Run the same command again in {words(wait)}."
                )
            if wait > 0:
                self._sleep(wait)
            self._at("before_intent")
            address, now = self._github.repository.address, _text(self._now())
            _stop_if_stale(
                self._records.intend(item, self._fence(item), repository=address, marker=marker, at=now)
            )
            self._at("after_intent")
            try:
                created = self._github.create(content.title, content.body, content.labels)
            except IssueRefused as exc:
                self._at("after_create")
                self._pause_for(max(self._pause, exc.retry_after or 0.0))
                # Before any wait, so that the record is certain even if the run is stopped while it waits.
                self._note(item, str(exc), unknown=False)
                problem = str(exc)
                if exc.retry_after is None or exc.retry_after > self._max_wait or not left:
                    return self._refused(item, problem)
                self._say(f"{item.label}: not filed yet: {problem}")
                continue
            except FilingUncertain as exc:
                self._at("after_create")
                self._pause_for(self._pause)
                problem = str(exc)
                self._say(f"{item.label}: {problem} Checking whether the issue exists.")
                row = self._records.filing(item)
                assert row is not None
                try:
                    found = self._find(row, self._settle)
                except ListingError as lookup:
                    return self._unknown(item, f"{problem} {lookup} The next run checks again.")
                if found is not None:
                    return self._record_filed(item, found)
                continue
            self._at("after_create")
            self._pause_for(self._pause)
            return self._record_filed(item, created)
        return self._unknown(item, f"{problem} The next run checks again.")

    def _find(self, row: Filing, unsettled: float) -> RemoteIssue | None:
        """Look for the marker until it appears or its time is over."""
        since = datetime.fromisoformat(row.attempted_at or row.updated_at)
        while True:
            found = self._github.find(row.marker, since)
            if found is not None or unsettled <= 0:
                return found
            step = min(self._poll, unsettled)
            self._sleep(step)
            unsettled -= step

    def _unsettled(self, row: Filing) -> float:
        """How long the issue of an earlier process may still take to appear; that process is gone by now."""
        if row.state is not FilingState.INTENDED:
            return 0.0
        passed = (self._now() - datetime.fromisoformat(row.updated_at)).total_seconds()
        if passed < 0:
            return self._settle  # the clock was set back, so assume the longest
        return min(self._settle, max(0.0, self._github.limit + self._settle - passed))

    def _since_latest(self) -> float:
        """How long the pause after the latest write still lasts, even if a killed process made that write."""
        latest = self._records.latest_filing()
        if latest is None:
            return 0.0
        passed = (self._now() - datetime.fromisoformat(latest)).total_seconds()
        return min(self._pause, max(0.0, self._pause - passed))

    def _pause_for(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._clock() + seconds)

    def _record_filed(self, item: Item, issue: RemoteIssue) -> FiledIssue:
        self._at("before_result")
        stale = self._records.filed(item, self._fence(item), number=issue.number, url=issue.url)
        # The intent is recorded, so the run that has the item now finds the issue by its marker.
        _stop_if_stale(stale, f"it was filed as #{issue.number}: {issue.url}, but ", unknown=True)
        self._at("after_result")
        self._record(events.Filed(item=item.id, number=issue.number, url=issue.url))
        self._say(f"{item.label}: filed as #{issue.number}: {issue.url}")
        return FiledIssue(number=issue.number, url=issue.url)

    def _refused(self, item: Item, reason: str) -> NotFiled:
        self._note(item, reason, unknown=False)
        self._record(events.FilingRefused(item=item.id, reason=reason))
        self._say(f"{item.label}: not filed: {reason}")
        return NotFiled(reason=reason)

    def _unknown(self, item: Item, reason: str) -> NotFiled:
        reason = f"may already be filed: {reason}"
        self._note(item, reason, unknown=True)
        self._record(events.FilingUnknown(item=item.id, reason=reason))
        self._say(f"{item.label}: {reason}")
        return NotFiled(reason=reason, unknown=True)

    def _note(self, item: Item, error: str, *, unknown: bool) -> None:
        stale = self._records.filing_failed(item, self._fence(item), error=error, unknown=unknown)
        _stop_if_stale(stale, unknown=unknown)


def _stop_if_stale(stale: Stale | None, known: str = "", *, unknown: bool = False) -> None:
    if stale is not None:
        raise _TakenOver(f"{known}{stale}", unknown=unknown)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
