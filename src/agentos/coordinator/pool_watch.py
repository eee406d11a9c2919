"""Reports what happens to keys, and pauses or slows the run when keys run short. Coordinator process."""

from dataclasses import replace
from typing import TYPE_CHECKING

from agentos.console.console import Doing, FooterView
from agentos.coordinator.recorder import RunRecorder
from agentos.coordinator.scheduler import Stop
from agentos.coordinator.series import Repeats, times
from agentos.credentials.pool import PoolSnapshot
from agentos.duration import rounded, words
from agentos.events import catalogue as events
from agentos.events import keys
from agentos.events.progress import progress_of
from agentos.events.record import CATALOGUE
from agentos.events.state import RUNNING
from agentos.model import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentos.coordinator.running_item import RunningItem

LEAST_PAUSE = 1.0  # seconds


class PoolWatch:
    """Knows whether the run is paused, and how many items the pool can serve."""

    def __init__(self, recorder: RunRecorder, *, max_wait: float) -> None:
        self._recorder = recorder
        self._max_wait = max_wait
        self._repeats = Repeats()
        self._paused_since: float | None = None
        self._said_pause = False  # of the latest pause
        self._until: float | None = None
        self.reason = ""  # of the latest pause
        self._allowed: int | None = None

    def announce(self, event: events.PoolEvent, item_id: str | None) -> None:
        """Record the event, and print it if it matters to people.

        The pool knows an item by its label, the log by its id.
        """
        if isinstance(event, events.AskerEvent) and item_id is not None:
            event = replace(event, item=item_id)
        if event.name in CATALOGUE:
            self._recorder.record(event)
        match event:
            case keys.QuotaExhausted(keys=limited, credit=True):
                self._recorder.say(f"{', '.join(limited)}: out of credit")
            case keys.GroupLimited():
                self._say_limited(event)
            case keys.KeyDisabled(key=key, reason=reason):
                self._recorder.say(
                    f"{key}: disabled ({reason}); fix it, then run 'agentos keys enable {key}'"
                )
            case keys.Capacity(provider=provider, model=model, seconds=seconds):
                if count := self._repeats.count(f"{provider}:{model}", now=event.at, seconds=seconds):
                    what = f"{provider}:{model}: overloaded{times(count)}"
                    self._recorder.say(f"{what}; slowing down for {words(seconds)}")
            case _:
                pass

    def _say_limited(self, event: keys.GroupLimited) -> None:
        names, what = ", ".join(event.keys), event.name.replace("_", " ")
        if count := self._repeats.count(f"{names} {what}", now=event.at, seconds=event.seconds):
            self._recorder.say(f"{names}: {what}{times(count)}; retrying in {words(event.seconds)}")

    def check(self, snapshot: PoolSnapshot, now: float) -> Stop | None:
        """Notice when a pause begins or ends; return a stop if the pause lasts longer than --max-wait."""
        exhausted = snapshot.exhausted if snapshot.waiting and not snapshot.in_flight else None
        if exhausted is None or exhausted.until is None:
            if self._paused_since is not None:
                self._recorder.record(events.Resumed(seconds=round(now - self._paused_since, 3)))
                if self._said_pause:
                    self._recorder.say(f"resuming after a pause of {words(now - self._paused_since)}")
                self._paused_since = None
            return None
        self._until, self.reason = exhausted.until, exhausted.reason
        if self._paused_since is None:
            self._paused_since = now
            left = round(exhausted.until - now, 3)
            self._recorder.record(events.Paused(reason=exhausted.reason, seconds=left))
            # Shorter pauses are over before anybody has read a line about them.
            count = self._repeats.count("pause", now=now, seconds=left) if left >= LEAST_PAUSE else None
            self._said_pause = count is not None
            if count is not None:
                self._recorder.say(f"paused{times(count)}: {exhausted.reason}; resuming in {words(left)}")
        if now - self._paused_since >= self._max_wait:
            return Stop.QUOTA
        return None

    def check_items(self, items: "Iterable[RunningItem]", now: float) -> Stop | None:
        """Return a stop if an item waited longer than --max-wait since its last answer, for whatever."""
        for item in items:
            left = self._left(item, now)
            if left is not None and left <= 0.0:
                why = item.detail.removeprefix("waiting: ") or "no call could be made"
                self.reason = f"{item.label} waited {words(self._max_wait)} without an answer ({why})"
                self._recorder.say(self.reason)
                return Stop.QUOTA
        return None

    def item_deadline(self, items: "Iterable[RunningItem]", now: float) -> float | None:
        """Return when the first item will have waited too long."""
        found = [left for item in items if (left := self._left(item, now)) is not None]
        return now + max(0.0, min(found)) if found else None

    def _left(self, item: "RunningItem", now: float) -> float | None:
        """Return how much longer an item may wait. Without --max-wait, only an exhausted pool counts."""
        if item.idle_since is None or not self._max_wait or not item.alive:
            return None
        return self._max_wait - item.idle - (now - item.idle_since)

    def allowed(self, snapshot: PoolSnapshot, parallel: int, now: float) -> int | None:
        """How many items may run: fewer than requested while the pool cannot serve them all."""
        useful = max(1, snapshot.useful_parallel)
        allowed = useful if useful < parallel else None
        if allowed != self._allowed:
            self._recorder.record(events.ParallelChanged(allowed=parallel if allowed is None else allowed))
            if allowed is not None and allowed < (self._allowed or parallel):
                started = (one for one in self._recorder.state.items.values() if one.began is not None)
                full = sum(one.status == RUNNING for one in started) >= allowed
                what = (
                    "starting no further items" if full else f"running {counted(allowed, 'item')} at a time"
                )
                line = f"{_shortage(snapshot)}; {what} for now"
                if self._repeats.count(line, now=now):
                    self._recorder.say(line)
            self._allowed = allowed
        return allowed

    def deadline(self) -> float | None:
        return None if self._paused_since is None else self._paused_since + self._max_wait

    def notice(self, now: float) -> str:
        if self._paused_since is None or self._until is None:
            return ""
        return f"paused, resuming in {rounded(self._until - now)}: {self.reason}"


def _shortage(snapshot: PoolSnapshot) -> str:
    usable = snapshot.usable_keys
    if usable == 0:
        return "no key is free"
    if usable < len(snapshot.keys):
        return f"only {usable} of {len(snapshot.keys)} keys {'is' if usable == 1 else 'are'} free"
    return f"rate limits are tight ({counted(usable, 'key')} usable)"


def view(recorder: RunRecorder, items: "Iterable[RunningItem]", *, notice: str, now: float) -> FooterView:
    """Collect what the footer shows."""
    running = [
        Doing(
            label=one.label,
            title=one.entry.item.title,
            node=one.node,
            round=one.reviews + (one.node in {"load", "draft", "gate", "review"}),
            seconds=now - (one.began or now),
            detail=one.detail,
            left=None if one.until is None else one.until - now,
        )
        for one in items
        if one.alive
    ]
    seconds = now - recorder.started
    # The clock of the events may be a little behind that of the run, never ahead of its last event.
    progress = progress_of(recorder.state, now=max(recorder.state.last, seconds))
    return FooterView(progress=progress, seconds=seconds, running=running, notice=notice)
