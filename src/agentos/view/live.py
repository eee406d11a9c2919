"""Watches the files of a home and sends each change to all open pages as server-sent events. Server process.

Without an open page, nothing looks at the files.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agentos.errors import AgentosError
from agentos.view.inbox import Inbox
from agentos.view.run_index import Mark, RunIndex

LOOK_SECONDS = 0.5
RUN_SECONDS = 1.0  # at least, between two events of one run
COST_FACTOR = (
    12  # a run whose data is slow to make sends fewer events, so that it takes 8 % of a core at most
)
HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class HomeSnapshot:
    """One look at the home."""

    runs: Mark  # which runs there are, and which of them are live
    each: dict[str, Mark]
    inbox: Mark
    started: Mark = ()  # commands that the page started


def look(run_index: RunIndex, inbox: Inbox, started: Mark = ()) -> HomeSnapshot:
    """Check file sizes and times, and read the records, which is one query."""
    each: dict[str, Mark] = {}
    listed = []
    for run in run_index.folders():
        live = run_index.live(run)
        try:
            each[run.name] = run_index.mark(run, live=live)
        except AgentosError:
            each[run.name] = ("not shown",)
        listed.append((run.name, live))
    try:
        waiting: Mark = inbox.mark()
    except AgentosError as exc:
        waiting = (str(exc),)
    return HomeSnapshot(runs=tuple(listed), each=each, inbox=waiting, started=started)


class _Page:
    """The unsent events of one open page; a slow page gets only the latest ones."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], dict[str, Any]] = {}
        self._ready = asyncio.Event()
        self._closed = False

    def add(self, event: str, about: str, data: dict[str, Any]) -> None:
        self._left[event, about] = data
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def events(self) -> AsyncIterator[str]:
        while True:
            try:
                await asyncio.wait_for(self._ready.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            self._ready.clear()
            left, self._left = self._left, {}
            for (event, _), data in left.items():
                yield f"event: {event}\ndata: {json.dumps(data)}\n\n"
            if self._closed:
                return


class Hub:
    """Watches the files while a page is open, and sends every page what changed."""

    def __init__(
        self,
        look_now: Callable[[], Awaitable[HomeSnapshot]],
        *,
        cost: Callable[[str], float] = lambda _run: 0.0,
        failed: Callable[[Exception], None] = lambda _exc: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look_now
        self._cost = cost
        self._failed = failed
        self._clock = clock
        self._pages: set[_Page] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._changes = 0
        self._due: set[str] = set()  # changed runs whose event is not sent yet
        self._sent: dict[str, float] = {}  # when the last event of each run was sent

    @property
    def watching(self) -> bool:
        return self._task is not None

    async def listen(self) -> AsyncGenerator[str, None]:
        """The events for one page; after the first one, the page misses nothing."""
        if self._closed:
            return
        page = _Page()
        self._pages.add(page)
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        else:
            page.add("hello", "", {"change": self._changes})
        try:
            async for event in page.events():
                yield event
        finally:
            self._pages.discard(page)
            if not self._pages and self._task is not None:
                self._task.cancel()
                self._task = None

    def close(self) -> None:
        """End every page's stream."""
        self._closed = True
        for page in self._pages:
            page.close()

    async def _watch(self) -> None:
        try:
            before = await self._look()
            self._send("hello", "")
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                now = await self._look()
                self._compare(before, now)
                before = now
        except Exception as exc:  # noqa: BLE001 - pages must not wait for a dead watcher
            self._failed(exc)
            for page in self._pages:
                page.close()

    def _compare(self, before: HomeSnapshot, now: HomeSnapshot) -> None:
        self._due |= {run for run, mark in now.each.items() if before.each.get(run) != mark}
        ended = {run for run, mark in now.each.items() if mark[0] is False}
        moment = self._clock()
        for run in sorted(self._due):
            pause = max(RUN_SECONDS, COST_FACTOR * self._cost(run))
            # The end of a run is sent immediately: no later event would report it.
            if run in ended or moment - self._sent.get(run, -pause) >= pause:
                self._due.discard(run)
                self._sent[run] = moment
                self._send("run", run, run=run)
        if before.runs != now.runs:
            self._send("runs", "")
        if before.inbox != now.inbox:
            self._send("inbox", "")
        if before.started != now.started:
            self._send("started", "")

    def _send(self, event: str, about: str, **data: Any) -> None:
        self._changes += 1
        for page in self._pages:
            page.add(event, about, {"change": self._changes, **data})
