"""The scheduler: histories of events with what must come of each, and a machine that tries any history."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentos.coordinator.scheduler import (
    DRAIN_SECONDS,
    MAX_ATTEMPTS,
    SILENCE_SECONDS,
    STACKS_SECONDS,
    START_SECONDS,
    TERMINATE_SECONDS,
    Action,
    AskToStop,
    Finish,
    Kill,
    PrintStacks,
    Scheduler,
    Start,
    StartAgain,
    Stop,
    Terminate,
)
from agentos.model import Status

TIMEOUT = 100.0
PERSON = {Stop.INTERRUPTED, Stop.TERMINATED}
History = Sequence[tuple[float, str, str]]


def told(actions: Sequence[Action]) -> str:
    """Say what was decided, in one line."""
    words = []
    for action in actions:
        match action:
            case Finish(status=status):
                words.append(f"{action.item}={status.value}")
            case StartAgain():
                words.append(f"{action.item} again")
            case _:
                words.append(f"{type(action).__name__.lower()} {action.item}")
    return ", ".join(words)


def happens(run: Scheduler, now: float, event: str) -> Sequence[Action]:  # noqa: PLR0911 - a table
    match event.split():
        case ["fill"]:
            return run.fill(now)
        case ["tick"]:
            return run.tick(now)
        case ["stop", reason]:
            return run.stop(Stop(reason), now)
        case [item, "waits"]:
            run.waiting(item, now)
            return []
        case [item, "served"]:
            run.served(item, now)
            return []
        case [item, "ready"]:
            run.ready(item, now)
            return []
        case [item, "heard"]:
            run.heard(item, now)
            return []
        case [item, "dies"]:
            return run.gone(item, now, status=None, error="signal 9")
        case [item, last_word]:
            return run.gone(item, now, status=Status(last_word), error=None)
    raise ValueError(event)


def replay(history: History, run: Scheduler) -> None:
    """Let each event happen at its time; each line ends with what must be decided."""
    for number, (now, event, decided) in enumerate(history, 1):
        assert told(happens(run, now, event)) == decided, f"line {number}: {event}"


def scheduler(items: str = "a b c d", *, parallel: int = 2, **more: object) -> Scheduler:
    return Scheduler(items=items.split(), parallel=parallel, timeout=TIMEOUT, **more)  # type: ignore[arg-type]


FIRST = (0.0, "fill", "start a, start b")
HISTORIES: dict[str, History] = {
    "the next item starts as soon as a slot is free": [
        FIRST,
        (1, "b approved", "b=approved, start c"),
        (2, "c failed", "c=failed, start d"),
        (3, "d needs_revision", "d=needs_revision"),
        (4, "a discuss", "a=discuss"),
    ],
    "a worker that dies is started again at once, three times in all": [
        FIRST,
        (1, "a dies", "a again, start a"),
        (2, "a dies", "a again, start a"),
        (3, "a dies", "a=failed, start c"),
    ],
    "one that died may still be approved": [
        FIRST,
        (1, "a dies", "a again, start a"),
        (2, "a approved", "a=approved, start c"),
    ],
    "a worker that hangs prints its stacks, is terminated, then killed": [
        FIRST,
        (99.9, "tick", ""),
        (100, "b approved", "b=approved, start c"),
        (100, "tick", "printstacks a"),
        (100.2, "tick", ""),
        (100 + STACKS_SECONDS, "tick", "terminate a"),
        (101.2, "tick", ""),
        (100 + STACKS_SECONDS + TERMINATE_SECONDS, "tick", "kill a"),
        (150, "tick", ""),
        (151, "a dies", "a=timed_out, start d"),
    ],
    "one that hung and was approved in its last moment is approved": [
        FIRST,
        (100, "tick", "printstacks a, printstacks b"),
        (100.1, "a approved", "a=approved, start c"),
        (100.2, "b dies", "b=timed_out, start d"),
    ],
    "waiting for a lease is not counted": [
        FIRST,
        (10, "b approved", "b=approved, start c"),
        (60, "a waits", ""),
        (60, "c waits", ""),
        (5000, "tick", ""),
        (5000, "a served", ""),
        (5039, "tick", ""),
        (5040, "tick", "printstacks a"),
    ],
    "waiting twice and being served twice is waiting once": [
        (0, "fill", "start a, start b"),
        (0, "b approved", "b=approved, start c"),
        (0, "c waits", ""),
        (20, "a waits", ""),
        (50, "a waits", ""),
        (1000, "a served", ""),
        (1050, "a served", ""),
        (1079, "tick", ""),
        (1080, "tick", "printstacks a"),
    ],
    "a new attempt has the whole time": [
        FIRST,
        (90, "a dies", "a again, start a"),
        (90, "b approved", "b=approved, start c"),
        (120, "tick", ""),
        (190, "tick", "printstacks a, printstacks c"),
    ],
    "the time limit begins when the worker is up": [
        FIRST,
        (60, "a ready", ""),
        (60, "b approved", "b=approved, start c"),
        (60, "c waits", ""),
        *((60 + 10 * beat, "a heard", "") for beat in range(1, 10)),
        (159, "tick", ""),
        (160, "tick", "printstacks a"),
    ],
    "a worker that was up and falls silent is killed and started again": [
        FIRST,
        (1, "a ready", ""),
        (1, "b ready", ""),
        (15, "b heard", ""),
        (20.9, "tick", ""),
        (1 + SILENCE_SECONDS, "tick", "kill a"),
        (30, "tick", ""),
        (30, "a dies", "a again, start a"),
    ],
    "a worker that falls silent while it waits is killed too": [
        FIRST,
        (1, "a ready", ""),
        (2, "a waits", ""),
        (1 + SILENCE_SECONDS, "tick", "kill a"),
    ],
    "a worker that was never up is not called silent": [
        FIRST,
        (5, "a heard", ""),
        (99, "tick", ""),
        (100, "tick", "printstacks a, printstacks b"),
    ],
    "the first ctrl+c asks, then terminates, then kills": [
        FIRST,
        (10, "stop interrupted", "c=pending, d=pending, asktostop a, asktostop b"),
        (10.5, "a interrupted", "a=interrupted"),
        (11.9, "tick", ""),
        (10 + DRAIN_SECONDS, "tick", "terminate b"),
        (10 + DRAIN_SECONDS + TERMINATE_SECONDS, "tick", "kill b"),
        (13.5, "b dies", "b=interrupted"),
    ],
    "the second ctrl+c kills at once": [
        FIRST,
        (10, "stop interrupted", "c=pending, d=pending, asktostop a, asktostop b"),
        (10.1, "stop interrupted", "kill a, kill b"),
        (10.2, "stop interrupted", ""),
        (10.3, "tick", ""),
        (10.4, "a dies", "a=interrupted"),
        (10.4, "b dies", "b=interrupted"),
    ],
    "sigterm after ctrl+c is a second stop too": [
        FIRST,
        (10, "stop interrupted", "c=pending, d=pending, asktostop a, asktostop b"),
        (10.1, "stop terminated", "kill a, kill b"),
    ],
    "a ctrl+c after another kind of stop is the first by a person": [
        FIRST,
        (10, "stop quota", "c=pending, d=pending, asktostop a, asktostop b"),
        (10.1, "stop interrupted", ""),
        (10.2, "stop interrupted", "kill a, kill b"),
    ],
    "what hangs is killed at once by the second ctrl+c too": [
        FIRST,
        (100, "tick", "printstacks a, printstacks b"),
        (100.1, "stop interrupted", "c=pending, d=pending"),
        (100.2, "stop interrupted", "kill a, kill b"),
        (100.3, "a dies", "a=timed_out"),
    ],
    "after a stop nothing starts, whatever becomes of those that run": [
        FIRST,
        (10, "stop run_timeout", "c=pending, d=pending, asktostop a, asktostop b"),
        (11, "a dies", "a=interrupted"),
        (11, "fill", ""),
        (12, "b approved", "b=approved"),
        (13, "fill", ""),
    ],
    "what a worker said before the stop reached it stands": [
        FIRST,
        (10, "stop interrupted", "c=pending, d=pending, asktostop a, asktostop b"),
        (10.1, "a approved", "a=approved"),
        (10.2, "b failed", "b=failed"),
    ],
    "items stopped for quota are paused": [
        FIRST,
        (10, "stop quota", "c=pending, d=pending, asktostop a, asktostop b"),
        (11, "a interrupted", "a=paused"),
        (11, "b dies", "b=paused"),
    ],
    "a later stop that nobody asked for changes nothing": [
        FIRST,
        (10, "stop interrupted", "c=pending, d=pending, asktostop a, asktostop b"),
        (11, "stop quota", ""),
        (11, "a interrupted", "a=interrupted"),
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_history(name: str) -> None:
    replay(HISTORIES[name], scheduler())


def test_fail_fast_stops_at_the_first_failure() -> None:
    replay(
        [
            FIRST,
            (1, "a needs_revision", "a=needs_revision, start c"),
            (2, "b failed", "b=failed, d=pending, asktostop c"),
            (3, "c interrupted", "c=interrupted"),
        ],
        scheduler(fail_fast=True),
    )


def test_fail_fast_counts_a_hang_and_a_third_crash_as_failures() -> None:
    hung = [
        (0.0, "fill", "start a"),
        (100.0, "tick", "printstacks a"),
        (101.0, "a dies", "a=timed_out, b=pending"),
    ]
    replay(hung, scheduler("a b", parallel=1, fail_fast=True))
    crashed = [
        (0.0, "fill", "start a"),
        (1.0, "a dies", "a again, start a"),
        (2.0, "a dies", "a again, start a"),
        (3.0, "a dies", "a=failed, b=pending"),
    ]
    replay(crashed, scheduler("a b", parallel=1, fail_fast=True))


def test_the_run_timeout_stops_the_run() -> None:
    run = scheduler(run_ends=50.0)
    replay(
        [
            FIRST,
            (49.9, "tick", ""),
            (50, "tick", "c=pending, d=pending, asktostop a, asktostop b"),
            (50, "tick", ""),
        ],
        run,
    )
    assert run.stopping is Stop.RUN_TIMEOUT


def test_the_key_pool_may_allow_fewer_but_never_none() -> None:
    run = scheduler("a b c d e", parallel=3, allowed=1)
    replay([(0, "fill", "start a"), (1, "a approved", "a=approved, start b")], run)
    run.allowed = 3
    replay([(2, "tick", "start c, start d")], run)
    run.allowed = 0
    replay(
        [
            (3, "b approved", "b=approved"),
            (4, "c approved", "c=approved"),
            (5, "d approved", "d=approved, start e"),
        ],
        run,
    )
    run.allowed = 99
    replay([(6, "e approved", "e=approved")], run)


def test_one_that_died_and_waits_for_a_slot_was_under_way_when_the_run_stops() -> None:
    run = scheduler("a b", parallel=2)
    replay([(0, "fill", "start a, start b")], run)
    run.allowed = 1
    replay([(1, "a dies", "a again"), (2, "stop interrupted", "a=interrupted, asktostop b")], run)


def test_an_item_that_ends_says_why() -> None:
    run = scheduler("a", parallel=1)
    run.fill(0)
    for _ in range(2):
        run.gone("a", 1, status=None, error="killed by signal 9")
    (last,) = run.gone("a", 1, status=None, error="killed by signal 9")
    assert isinstance(last, Finish)
    assert last.error is not None
    assert "3 times" in last.error
    assert "signal 9" in last.error


def test_a_hang_is_told_with_the_time_limit() -> None:
    run = scheduler("a", parallel=1)
    run.fill(0)
    run.tick(100)
    (last,) = run.gone("a", 101, status=None, error=None)
    assert isinstance(last, Finish)
    assert "100 s" in str(last.error)


@pytest.mark.parametrize("reason", list(Stop))
def test_all_is_over_within_five_seconds_of_any_stop(reason: Stop) -> None:
    run = scheduler()
    run.fill(0)
    run.stop(reason, 10.0)
    killed: list[Action] = []
    while (deadline := run.next_deadline()) is not None:
        assert deadline < 15.0
        killed += run.tick(deadline)
    assert told(killed) == "terminate a, terminate b, kill a, kill b"


def test_a_run_without_items_is_done() -> None:
    run = scheduler("")
    assert run.done
    assert run.next_deadline() is None
    assert run.fill(0) == []


def test_the_next_deadline_is_the_nearest() -> None:
    run = scheduler(run_ends=500.0)
    assert run.next_deadline() == 500.0
    run.fill(0)
    assert run.next_deadline() == 100.0
    run.waiting("a", 10)
    assert run.next_deadline() == 100.0
    run.waiting("b", 20)
    assert run.next_deadline() == 500.0
    run.served("b", 200)
    assert run.next_deadline() == 280.0
    run.stop(Stop.QUOTA, 250)
    assert run.next_deadline() == 250 + DRAIN_SECONDS


# Any history.

ITEMS = tuple("abcdefgh")
LAST_WORDS = [Status.APPROVED, Status.NEEDS_REVISION, Status.DISCUSS, Status.FAILED, Status.INTERRUPTED]
HARDNESS = {AskToStop: 1, PrintStacks: 1, Terminate: 2, Kill: 3}
INSTANT = 1e-6  # beyond the rounding of times


class AnyHistory(RuleBasedStateMachine):
    """Lets anything happen in any order, and keeps its own account beside the scheduler's."""

    @initialize(
        count=st.integers(0, len(ITEMS)),
        parallel=st.integers(1, 4),
        run_timeout=st.none() | st.sampled_from([5.0, 150.0]),
        fail_fast=st.booleans(),
    )
    def begin(self, count: int, parallel: int, run_timeout: float | None, fail_fast: bool) -> None:
        self.now = 0.0
        self.items = ITEMS[:count]
        self.parallel = parallel
        self.run = Scheduler(
            items=self.items, parallel=parallel, timeout=TIMEOUT, run_ends=run_timeout, fail_fast=fail_fast
        )
        self.alive: set[str] = set()
        self.starts: Counter[str] = Counter()
        self.ended: dict[str, Status] = {}
        self.hardness: dict[str, int] = {}
        self.worked: dict[str, float] = {}
        self.waits: set[str] = set()
        self.heard: dict[str, float] = {}
        self.stops: list[Stop] = []
        self.stopped = False
        self.take(self.run.fill(self.now))

    def take(self, actions: Sequence[Action]) -> None:
        stopped_before, self.stopped = self.stopped, self.run.stopping is not None
        for action in actions:
            item = action.item
            assert item not in self.ended, f"{item} has ended and gets {action}"
            match action:
                case Start():
                    assert not stopped_before, "a start after the stop"
                    assert item not in self.alive
                    self.alive.add(item)
                    self.starts[item] += 1
                    self.hardness[item], self.worked[item] = 0, 0.0
                    self.waits.discard(item)
                    self.heard.pop(item, None)
                    assert len(self.alive) <= self.slots
                case StartAgain(attempt=attempt):
                    assert item not in self.alive
                    assert attempt == self.starts[item] < MAX_ATTEMPTS
                case Finish(status=status):
                    assert item not in self.alive
                    self.ended[item] = status
                case _:
                    assert item in self.alive, f"{action} for one that does not run"
                    assert HARDNESS[type(action)] > self.hardness[item], "the same again, or a softer one"
                    self.hardness[item] = HARDNESS[type(action)]

    @property
    def slots(self) -> int:
        allowed = self.run.allowed
        return self.parallel if allowed is None else max(1, min(self.parallel, allowed))

    def pass_time(self, until: float) -> None:
        for item in self.alive - self.waits:
            self.worked[item] += until - self.now
        self.now = until

    @rule(seconds=st.sampled_from([0.0, 0.125, 1.0, 8.0, 50.0]))
    def time_passes_but_never_past_a_deadline(self, seconds: float) -> None:
        deadline = self.run.next_deadline()
        until = self.now + seconds if deadline is None else min(self.now + seconds, deadline)
        self.pass_time(max(self.now, until))

    @precondition(lambda self: self.run.next_deadline() is not None)
    @rule()
    def the_deadline_comes_and_something_is_done(self) -> None:
        deadline = self.run.next_deadline()
        assert deadline is not None
        self.pass_time(max(self.now, deadline) + INSTANT)
        stopping = self.run.stopping
        actions = self.run.tick(self.now)
        assert actions or self.run.stopping is not stopping
        self.take(actions)
        later = self.run.next_deadline()
        assert later is None or later > deadline

    @rule()
    def tick(self) -> None:
        self.take(self.run.tick(self.now))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), last_word=st.none() | st.sampled_from(LAST_WORDS))
    def a_worker_goes(self, data: st.DataObject, last_word: Status | None) -> None:
        item = data.draw(st.sampled_from(sorted(self.alive)))
        self.alive.remove(item)
        self.take(self.run.gone(item, self.now, status=last_word, error="why"))
        if last_word is Status.APPROVED:
            assert self.ended[item] is Status.APPROVED
        if self.ended.get(item) is Status.TIMED_OUT:
            assert self.worked[item] >= TIMEOUT - INSTANT
        if last_word is None and self.ended.get(item) is Status.FAILED:
            assert self.starts[item] == MAX_ATTEMPTS

    @precondition(lambda self: self.alive - self.heard.keys() - self.waits)
    @rule(data=st.data())
    def a_worker_is_up(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(sorted(self.alive - self.heard.keys() - self.waits)))
        self.run.ready(item, self.now)
        self.heard[item] = self.now
        if not self.hardness[item]:
            self.worked[item] = 0.0

    @precondition(lambda self: self.alive)
    @rule()
    def all_workers_beat(self) -> None:
        for item in self.alive:
            self.run.heard(item, self.now)
            if item in self.heard:
                self.heard[item] = self.now

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def a_worker_waits(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(sorted(self.alive)))
        self.run.waiting(item, self.now)
        self.waits.add(item)

    @precondition(lambda self: self.waits & self.alive)
    @rule(data=st.data())
    def a_worker_is_served(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(sorted(self.waits & self.alive)))
        self.run.served(item, self.now)
        self.waits.remove(item)

    @rule(allowed=st.none() | st.integers(0, 5))
    def the_pool_has_its_say(self, allowed: int | None) -> None:
        self.run.allowed = allowed

    @precondition(lambda self: len(self.stops) < 3)
    @rule(reason=st.sampled_from(Stop))
    def stop(self, reason: Stop) -> None:
        again = reason in PERSON and any(one in PERSON for one in self.stops)
        self.stops.append(reason)
        self.take(self.run.stop(reason, self.now))
        assert self.run.stopping is not None
        if again:
            assert all(self.hardness[item] == HARDNESS[Kill] for item in self.alive)

    @invariant()
    def the_accounts_agree(self) -> None:
        assert set(self.run.running) == self.alive
        assert self.run.done == (len(self.ended) == len(self.items))
        assert all(count <= MAX_ATTEMPTS for count in self.starts.values())
        assert {item: self.run.attempts[item] for item in self.starts} == dict(self.starts)

    @invariant()
    def after_a_stop_all_who_run_are_asked_to_end(self) -> None:
        if self.run.stopping is not None:
            assert self.run.pending == 0
            assert all(self.hardness[item] > 0 for item in self.alive)

    @invariant()
    def nobody_works_longer_than_allowed_unasked(self) -> None:
        for item in self.alive:
            assert self.worked[item] <= TIMEOUT + INSTANT or self.hardness[item] > 0

    @invariant()
    def nobody_is_silent_longer_than_allowed(self) -> None:
        for item in self.alive & self.heard.keys():
            assert self.now - self.heard[item] <= SILENCE_SECONDS + INSTANT or self.hardness[item] > 0

    def teardown(self) -> None:
        """Whatever happened: when every worker goes, every item has ended, once."""
        if hasattr(self, "run"):
            self.take(self.run.tick(self.now))
            while self.alive:
                item = min(self.alive)
                self.alive.remove(item)
                self.take(self.run.gone(item, self.now, status=None, error="why"))
            assert self.run.done
            assert self.ended.keys() == set(self.items)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=100, stateful_step_count=40, derandomize=True, database=None, deadline=None
)


def test_a_slow_start_is_not_counted_as_a_hang_of_the_item() -> None:
    run = Scheduler(items=["a"], parallel=1, timeout=5.0)
    run.fill(0.0)
    assert run.tick(START_SECONDS - 1) == []
    run.ready("a", START_SECONDS - 1)
    assert run.tick(START_SECONDS + 3) == []
    assert told(run.tick(START_SECONDS + 4)) == "printstacks a"
    never = Scheduler(items=["a"], parallel=1, timeout=5.0)
    never.fill(0.0)
    assert told(never.tick(START_SECONDS)) == "printstacks a"
