"""The coordinator's loop on scripted workers: endings, crashes, limits, stops, money, waits, lies."""

import json
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from agentos import audit_record, wire
from agentos.coordinator.scheduler import Stop
from agentos.credentials.pool import KeySpec
from agentos.engine.fake import Die, FakeEngine, Freeze, Lie, Print, Receive, Say, Script, WaitFor
from agentos.engine.protocol import AttemptTaken, Ending, EngineEvent, Gone, Printed, Said
from agentos.errors import StartFailed, StorageError
from agentos.events.fold import fold
from agentos.model import CallError
from agentos.report.summary import ItemFiles, NotInEvents, summary_of
from agentos.wire import CallSettled, Drain, Ended, Hello, LeaseWanted, NodeStarted, PaidBefore, Vet
from unit.coordinator.loop_kit import LoopRun, Worker, call, step, worker

CALL = partial(call)
LONG = step(WaitFor(1000.0))


def times(run: LoopRun, ending: Ending) -> list[float]:
    return [at for at, _, how in run.engine.ended if how is ending]


def failing(*errors: CallError, **more: Any) -> Worker:
    """A worker whose call fails like this, one after the other, and then is answered."""

    def parts() -> Any:
        after = 0
        for tries, error in enumerate(errors):
            after = yield from call(tries + 1, error=error, tries=tries, after=after, message="why", **more)
        yield from call(len(errors) + 1, tries=len(errors), after=after)

    return worker(parts)


# Every ending.


@pytest.mark.parametrize("status", ["approved", "needs_revision", "discuss", "failed"])
def test_an_item_ends_as_its_worker_says(status: str) -> None:
    run = LoopRun({"1": [worker(CALL, status=status, output="x.md", error="why")]}).go()
    row = run.row()
    assert (row.status, row.reviews, row.attempts, row.output) == (status, 1, 1, "x.md")
    assert row.error == (None if status == "approved" else "why")
    assert (row.tokens_in, row.cost_usd, row.seconds) == (10, 10.0, 1.0)
    assert run.stopped is None


def test_items_run_side_by_side_up_to_the_number_allowed_and_one_that_ends_makes_room() -> None:
    scripts = {str(number): [worker(partial(call, seconds=10.0))] for number in range(1, 6)}
    run = LoopRun(scripts, parallel=2).go()
    assert [at for at, _, _ in run.engine.jobs] == [0.0, 0.0, 10.0, 10.0, 20.0]
    assert set(run.statuses().values()) == {"approved"}


def test_a_run_with_nothing_to_run_ends_at_once() -> None:
    assert LoopRun({}, parallel=1).go().stopped is None


def test_what_a_worker_prints_is_kept_under_its_label() -> None:
    run = LoopRun({"1": [worker(step(Print(("one", "two"))), step(Print(("oops",), error=True)))]}).go()
    assert ("LLD-1", "one") in run.folder.output
    assert ("LLD-1", "oops") in run.folder.output


# Crashes.


def test_a_worker_that_dies_is_started_again_and_the_third_time_fails_the_item() -> None:
    dies = worker(CALL, step(Die()))
    run = LoopRun({"1": [dies, dies, dies], "2": [worker(CALL)]}).go()
    assert run.statuses() == {"1": "failed", "2": "approved"}
    assert run.row("1").error == "its worker crashed 3 times (last: killed by SIGKILL)"
    assert [event["attempt"] for event in run.recorded("crashed")] == [1, 2]
    assert [job.attempt for _, item, job in run.engine.jobs if item == "LLD-1"] == [1, 2, 3]


def test_a_crash_in_a_call_gives_the_key_back_and_leaves_a_record() -> None:
    def dies_in_call(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        yield Say(LeaseWanted(number=1, provider="open", model="m", tokens=5, role="drafter"))
        yield Receive()
        yield Die()

    keys = [KeySpec(id="key-1", provider="open", max_in_flight=1)]
    run = LoopRun({"1": [dies_in_call, worker(CALL)]}, keys=keys).go()
    assert run.statuses() == {"1": "approved"}
    assert [record["kind"] for record in run.folder.audits] == ["failed_call", "call"]
    assert (run.folder.audits[0]["error"], run.folder.audits[0]["cost_usd"]) == ("worker_gone", None)


def test_a_start_that_fails_counts_as_a_crash() -> None:
    run = LoopRun({"1": [None, None, worker(CALL)]}).go()
    assert run.statuses() == {"1": "approved"}
    assert run.row().attempts == 3
    run = LoopRun({"1": [None, None, None]}).go()
    assert "its process could not be started" in str(run.row().error)


def test_a_call_from_before_a_crash_is_counted_once_however_often_it_is_told() -> None:
    journal = audit_record.CallRecord(
        kind="call", role="drafter", number=1, model="open:m", tokens_in=7, tokens_out=0, journal_id="life"
    )
    replay = step(Say(PaidBefore(record=journal)))
    heard_before = worker(partial(call, tokens=7), step(Die()))
    run = LoopRun({"1": [heard_before, worker(replay)]}).go()
    assert (run.row().cost_usd, run.spending.spent) == (7.0, 7.0)
    run = LoopRun({"1": [worker(replay, step(Die())), worker(replay)]}).go()
    assert (run.row().cost_usd, run.spending.spent) == (7.0, 7.0), "word of it was lost with the process"
    assert [one["kind"] for one in run.folder.audits] == ["call"]


class SlowToDie(FakeEngine):
    """Workers that are killed have sent one more message before."""

    def end(self, item: str, how: Ending) -> None:
        if [one for _, one, _ in self.ended] == [item] or how is not Ending.KILL:
            super().end(item, how)
        else:
            self.ended.append((self.clock(), item, how))


def test_a_call_that_comes_back_after_its_lease_expired_is_counted() -> None:
    late = worker(partial(call, seconds=700.0), step(Die()))
    run = LoopRun({"1": [late, worker()]}, engine=SlowToDie).go()
    assert len(run.recorded("lease_expired")) == 1
    assert run.recorded("settled") == []
    assert (run.row().cost_usd, run.row().tokens_in, run.spending.spent) == (10.0, 10, 10.0)


class Haunted(FakeEngine):
    """Workers of the first attempt that still talk while the second one is running."""

    def events(self, until: float) -> Iterator[EngineEvent]:
        for event in super().events(until):
            yield event
            if event.attempt == 2:
                dead: dict[str, Any] = {"item": event.item, "attempt": 1}
                yield Said(**dead, message=CallSettled(lease=1, seconds=0.0, tokens_in=999))
                yield Said(**dead, message=Ended(status="failed", error="it is dead"))
                yield Printed(**dead, lines=("boo",), error=False)
                yield Gone(**dead, how="exit code 0")


def test_a_worker_of_an_attempt_that_is_over_is_not_heard() -> None:
    scripts = {"1": [worker(CALL, step(Die())), worker(partial(call, seconds=5.0))]}
    plain, haunted = LoopRun(scripts).go(), LoopRun(scripts, engine=Haunted).go()
    assert haunted.row() == plain.row()
    assert haunted.row().attempts == 2
    assert haunted.folder.events == plain.folder.events
    assert ("LLD-1", "boo") not in haunted.folder.output


# What the summary says.


def test_the_events_in_the_file_fold_into_the_summary() -> None:
    scripts: dict[str, list[Worker | None]] = {
        "1": [worker(CALL, output="1.md")],
        "2": [worker(CALL, step(Die())), failing(CallError.TRANSIENT, CallError.RATE_LIMITED)],
        "3": [worker(CALL, status="discuss", verdict="DISCUSS", reviews=3, error="e" * 5000)],
        "4": [None, None, None],
        "5": [worker(partial(call, seconds=4000.0))] * 3,
    }
    run = LoopRun(scripts, parallel=2).go()
    summary = run.summary()
    told = json.loads(run.folder.written["summary.json"])
    state = fold(json.loads(json.dumps(run.folder.events)))
    extra = NotInEvents(
        items={name: ItemFiles() for name in scripts}, keys=summary.keys, folder=summary.folder
    )
    assert state == run.recorder.state
    assert json.loads(json.dumps(summary_of(state, extra).as_dict())) == told
    assert told["totals"] == {"approved": 2, "discuss": 1, "failed": 2}
    assert [row["attempts"] for row in told["items"]] == [1, 2, 1, 3, 3]


# Time limits.


def test_a_worker_that_hangs_prints_its_stacks_is_terminated_then_killed() -> None:
    run = LoopRun({"1": [worker(LONG)], "2": [worker(CALL)]}, timeout=5.0, stubborn=frozenset("1")).go()
    assert run.statuses() == {"1": "timed_out", "2": "approved"}
    assert [how for _, _, how in run.engine.ended] == [Ending.STACKS, Ending.TERMINATE, Ending.KILL]
    assert times(run, Ending.STACKS) == [5.0]
    assert times(run, Ending.KILL) == pytest.approx([6.3])
    assert not run.engine.running


def test_the_time_limit_stands_still_while_an_item_waits_for_a_key() -> None:
    keys = [KeySpec(id="key-1", provider="open")]
    run = LoopRun({"1": [failing(CallError.RATE_LIMITED, retry_after=40.0)]}, keys=keys, timeout=30.0).go()
    assert run.statuses() == {"1": "approved"}
    assert run.engine.clock() == pytest.approx(42.0)


def test_a_worker_that_falls_silent_is_killed_and_started_again() -> None:
    def frozen(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        yield Freeze(100.0)

    run = LoopRun({"1": [frozen, worker(CALL)]}).go()
    assert run.statuses() == {"1": "approved"}
    assert times(run, Ending.KILL) == [20.0]


def test_a_worker_that_beats_is_not_taken_for_frozen() -> None:
    assert LoopRun({"1": [worker(step(WaitFor(100.0)))]}).go().engine.ended == []


def test_a_worker_that_never_says_hello_has_a_minute() -> None:
    def silent(_job: wire.Job) -> Script:
        yield WaitFor(500.0)

    run = LoopRun({"1": [silent]}, timeout=5.0).go()
    assert run.statuses() == {"1": "timed_out"}
    assert times(run, Ending.STACKS) == [60.0]


class Elsewhere(FakeEngine):
    """Its items wait for a machine, until they print something."""

    def start(self, item: str, job: wire.Job) -> int:
        super().start(item, job)
        return 0

    def events(self, until: float) -> Iterator[EngineEvent]:
        for event in super().events(until):
            yield (
                AttemptTaken(item=event.item, attempt=event.attempt) if isinstance(event, Printed) else event
            )


def test_a_worker_elsewhere_has_a_minute_from_when_a_machine_took_it() -> None:
    def silent(_job: wire.Job) -> Script:
        yield Freeze(1000.0)
        yield Print(("taken",))
        yield Freeze(1000.0)

    run = LoopRun({"1": [silent]}, timeout=5.0, engine=Elsewhere).go()
    assert run.statuses() == {"1": "timed_out"}
    assert times(run, Ending.STACKS) == [1060.0]


def test_the_run_has_a_time_limit_of_its_own() -> None:
    scripts = {"1": [worker(partial(call, seconds=50.0))], "2": [worker(CALL)], "3": [worker(CALL)]}
    run = LoopRun(scripts, parallel=1, run_timeout=10.0).go()
    assert run.stopped is Stop.RUN_TIMEOUT
    assert run.statuses() == {"1": "interrupted", "2": "pending", "3": "pending"}
    assert run.engine.clock() == 10.0


# Stopping.


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, Stop.INTERRUPTED), (signal.SIGTERM, Stop.TERMINATED)]
)
def test_a_signal_drains_every_worker_and_starts_nothing_more(number: int, reason: Stop) -> None:
    scripts = {str(one): [worker(partial(call, seconds=30.0))] for one in range(1, 4)}
    run = LoopRun(scripts, parallel=2)
    run.engine.signals.at(3.0, number)
    run.go()
    assert run.stopped is reason
    assert run.statuses() == {"1": "interrupted", "2": "interrupted", "3": "pending"}
    assert run.engine.ended == [], "asking was enough"
    assert [item for _, item, message in run.engine.sent if isinstance(message, Drain)] == ["LLD-1", "LLD-2"]
    assert run.engine.clock() == 3.0
    assert [one["error"] for one in run.folder.audits] == ["given_up", "given_up"]


def test_a_signal_during_a_start_is_no_crash_and_starts_no_other() -> None:
    def stopped(_job: wire.Job) -> Script:
        run.engine.signals.at(run.engine.clock(), signal.SIGTERM)
        raise StartFailed("the run stopped before its process started")

    run = LoopRun({"1": [stopped], "2": [worker(CALL)], "3": [worker(CALL)]}, parallel=2)
    run.go()
    assert run.stopped is Stop.TERMINATED
    assert run.statuses() == {"1": "interrupted", "2": "pending", "3": "pending"}
    assert [item for _, item, _ in run.engine.jobs] == ["LLD-1"]
    assert run.recorded("crashed") == []


def deaf(_job: wire.Job) -> Script:
    yield Say(Hello(pid=1, resumed=False))
    while True:
        yield WaitFor(10.0)


def test_a_worker_that_does_not_hear_is_terminated_then_killed() -> None:
    run = LoopRun({"1": [deaf]}, stubborn=frozenset("1"))
    run.engine.signals.at(3.0)
    run.go()
    assert [(at, how) for at, _, how in run.engine.ended] == [(5.0, Ending.TERMINATE), (6.0, Ending.KILL)]
    assert run.statuses() == {"1": "interrupted"}


def test_a_second_signal_kills_at_once() -> None:
    run = LoopRun({"1": [deaf]})
    run.engine.signals.at(3.0)
    run.engine.signals.at(3.5)
    run.go()
    assert [(at, how) for at, _, how in run.engine.ended] == [(3.5, Ending.KILL)]


def test_an_approval_that_comes_with_the_stop_counts() -> None:
    def finishes(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        yield Receive()
        yield Say(Ended(status="approved", verdict="APPROVED", reviews=1))

    run = LoopRun({"1": [finishes]})
    run.engine.signals.at(3.0)
    assert run.go().statuses() == {"1": "approved"}


def test_fail_fast_stops_the_others() -> None:
    scripts = {"1": [worker(CALL, status="failed", error="bad")], "2": [worker(LONG)], "3": [worker(CALL)]}
    run = LoopRun(scripts, parallel=2, fail_fast=True).go()
    assert run.stopped is Stop.FAIL_FAST
    assert run.statuses() == {"1": "failed", "2": "interrupted", "3": "pending"}


# Money.


def test_calls_wait_for_money_that_calls_under_way_may_leave() -> None:
    scripts = {"1": [worker(partial(call, tokens=60, seconds=5.0))], "2": [worker(partial(call, tokens=60))]}
    run = LoopRun(scripts, spending={"budget": 200.0}).go()
    assert set(run.statuses().values()) == {"approved"}
    assert run.engine.clock() == 5.0, "both fit, side by side"
    run = LoopRun(scripts, spending={"budget": 119.0}).go()
    assert run.statuses() == {"1": "approved", "2": "paused"}
    assert run.stopped is Stop.BUDGET
    assert run.engine.clock() == 5.0, "the second waited for what the first would leave"
    assert "the next call may cost 60" in str(run.row("2").error)
    assert run.spending.spent == 60.0


def test_what_a_dead_worker_had_set_aside_lets_the_next_call_out() -> None:
    def dies_in_call(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        yield Say(
            LeaseWanted(number=1, provider="open", model="m", tokens=60, prompt_tokens=60, role="drafter")
        )
        yield Receive()
        yield WaitFor(5.0)
        yield Die()

    cheap = worker(status="failed", error="given up")
    scripts = {"1": [dies_in_call, cheap], "2": [worker(partial(call, tokens=60))]}
    run = LoopRun(scripts, spending={"budget": 100.0}).go()
    assert run.statuses() == {"1": "failed", "2": "approved"}
    assert run.engine.clock() == 6.0


def test_an_items_own_budget_pauses_that_item_alone() -> None:
    scripts = {
        "1": [worker(partial(call, tokens=60), partial(call, 2, tokens=60))],
        "2": [worker(partial(call, tokens=60))],
    }
    run = LoopRun(scripts, spending={"item_budget": 100.0}).go()
    assert run.statuses() == {"1": "paused", "2": "approved"}
    assert run.stopped is None
    assert "60.0000 of 100 USD spent" in str(run.row("1").error)


def test_what_earlier_runs_spent_counts() -> None:
    run = LoopRun({"1": [worker(CALL)]}, spending={"budget": 10.0, "carried": 5.0}).go()
    assert run.statuses() == {"1": "paused"}
    assert [(event["spent"], event["carried"]) for event in run.recorded("budget_reached")] == [(0.0, 5.0)]


# Waits.


def test_a_call_that_failed_is_tried_again_after_growing_pauses_that_the_coordinator_decides() -> None:
    run = LoopRun({"1": [failing(*[CallError.TRANSIENT] * 3)]}).go()
    first, second, third = (event["until_seconds"] for event in run.waits("backoff"))
    assert 10.0 <= first <= 12.0
    assert 20.0 <= second <= 24.0
    assert 40.0 <= third <= 48.0
    assert run.engine.clock() == pytest.approx(4.0 + first + second + third, abs=0.01)
    assert run.waits("backoff")[0]["reason"] == "transient: why"
    assert run.row().waited_seconds == 0.0, "no key was waited for"
    assert run.row().cost_usd == 10.0


def test_a_server_that_says_when_to_try_again_is_believed_within_reason() -> None:
    run = LoopRun({"1": [failing(CallError.TRANSIENT, retry_after=2.5)]}).go()
    assert [event["until_seconds"] for event in run.waits("backoff")] == [2.5]
    run = LoopRun({"1": [failing(CallError.TRANSIENT, retry_after=1e9)]}, timeout=1e6).go()
    assert [event["until_seconds"] for event in run.waits("backoff")] == [3600.0]


def test_the_time_limit_goes_on_while_a_call_waits_for_its_next_try() -> None:
    run = LoopRun({"1": [failing(*[CallError.TRANSIENT] * 4)]}, timeout=30.0).go()
    assert run.statuses() == {"1": "timed_out"}


def test_a_stop_ends_the_wait_for_the_next_try() -> None:
    run = LoopRun({"1": [failing(CallError.TRANSIENT, retry_after=500.0)]})
    run.engine.signals.at(30.0)
    assert run.go().statuses() == {"1": "interrupted"}
    assert run.engine.clock() == 30.0


def test_a_rate_limit_is_waited_for_in_the_pool() -> None:
    keys = [KeySpec(id="key-1", provider="open")]
    run = LoopRun({"1": [failing(CallError.RATE_LIMITED, retry_after=7.0)]}, keys=keys).go()
    assert run.statuses() == {"1": "approved"}
    assert run.waits("backoff") == []
    assert run.recorded("waiting")[0]["until_seconds"] == pytest.approx(7.0)
    assert run.recorded("paused"), "no key is left for now"
    assert run.recorded("resumed")
    assert run.row().waited_seconds == pytest.approx(7.0)


def test_a_pause_longer_than_the_user_wants_to_wait_ends_the_run() -> None:
    keys = [KeySpec(id="key-1", provider="open")]
    scripts = {"1": [failing(CallError.QUOTA_EXHAUSTED, quota_reset=5000.0)]}
    run = LoopRun(scripts, keys=keys, max_wait=60.0).go()
    assert run.stopped is Stop.QUOTA
    assert run.statuses() == {"1": "paused"}
    assert run.engine.clock() == pytest.approx(61.0)


def test_an_item_that_waits_too_long_without_an_answer_ends_the_run() -> None:
    """No pause is longer than 30 s, but together they are."""
    keys = [KeySpec(id="key-1", provider="open")]
    scripts = {"1": [failing(*[CallError.RATE_LIMITED] * 9, retry_after=30.0)]}
    run = LoopRun(scripts, keys=keys, max_wait=100.0).go()
    assert run.stopped is Stop.QUOTA
    assert run.statuses() == {"1": "paused"}
    assert 100.0 <= run.engine.clock() <= 110.0
    assert run.row().error == "LLD-1 waited 100 s without an answer (key-1 rate limited)"


def test_an_answer_starts_the_wait_anew() -> None:
    keys = [KeySpec(id="key-1", provider="open")]
    scripts = {"1": [failing(*[CallError.RATE_LIMITED] * 2, retry_after=40.0)]}
    assert LoopRun(scripts, keys=keys, max_wait=100.0).go().statuses() == {"1": "approved"}


def test_with_no_key_left_the_run_ends() -> None:
    keys = [KeySpec(id="key-1", provider="open")]
    run = LoopRun({"1": [failing(CallError.KEY_REJECTED)], "2": [worker(LONG)]}, keys=keys).go()
    assert run.stopped is Stop.NO_KEY
    assert run.statuses() == {"1": "paused", "2": "paused"}
    assert run.health.saved, "the next run knows"


def test_a_lease_that_never_comes_back_ends_its_worker() -> None:
    def holds(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        yield Say(LeaseWanted(number=1, provider="open", model="m", tokens=5, role="drafter"))
        yield Receive()
        yield WaitFor(2000.0)

    run = LoopRun({"1": [holds, worker(CALL)]}).go()
    assert times(run, Ending.KILL) == [660.0]
    assert run.statuses() == {"1": "approved"}


# Workers that lie.


@pytest.mark.parametrize(
    "lie",
    [
        Lie(),
        Say(Hello(pid=1, resumed=False)),  # a second one
        Say(LeaseWanted(number=1, provider="open", model="other", tokens=5)),  # not a model of the run
    ],
)
def test_a_worker_that_sends_nonsense_fails_its_item_alone(lie: Any) -> None:
    run = LoopRun({"1": [worker(step(lie), LONG)], "2": [worker(partial(call, seconds=30.0))]}).go()
    assert run.statuses() == {"1": "failed", "2": "approved"}
    assert run.row("1").attempts == 1, "another try would not help"
    assert run.engine.clock() == 30.0


def test_nothing_is_heard_of_a_worker_after_it_lied() -> None:
    lie = step(Say(LeaseWanted(number=1, provider="open", model="other", tokens=5)))
    run = LoopRun({"1": [worker(lie)]}).go()  # says approved right after
    assert run.statuses() == {"1": "failed"}
    assert "this run does not use" in str(run.row().error)


def test_another_items_lease_changes_nothing() -> None:
    def thief(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        yield WaitFor(1.0)
        yield Say(CallSettled(lease=1, seconds=0.0, tokens_in=999, error=CallError.KEY_REJECTED))
        yield Say(Ended(status="approved", verdict="APPROVED", reviews=1))

    run = LoopRun({"1": [worker(partial(call, seconds=5.0))], "2": [thief]}).go()
    assert run.statuses() == {"1": "approved", "2": "approved"}
    assert run.spending.spent == 10.0
    assert run.row("2").tokens_in == 0
    assert run.recorded("key_disabled") == []


@pytest.mark.parametrize("last", [Lie(), Say(Ended(status="failed", error="a bug"))])
def test_a_call_whose_result_its_worker_could_not_report_counts_as_paid(last: Lie | Say) -> None:
    def unable(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        yield Say(LeaseWanted(number=1, provider="open", model="m", tokens=10, prompt_tokens=10))
        yield Receive()
        yield last

    run = LoopRun({"1": [unable]}, spending={"budget": 100.0}).go()
    assert run.statuses() == {"1": "failed"}
    assert run.spending.spent == 10.0
    assert run.row().cost_usd is None
    assert [(one["error"], one["cost_usd"]) for one in run.folder.audits] == [("unreadable", None)]


def test_an_error_of_our_own_while_a_worker_is_heard_fails_that_item_alone() -> None:
    run = LoopRun({"1": [worker(step(Say(NodeStarted(node="boom"))), LONG)], "2": [worker(CALL)]})
    at_node = run.recorder.at_node

    def broken(entry: Any, node: str, reviews: int, attempt: int) -> None:
        if node == "boom":
            raise KeyError(node)
        at_node(entry, node, reviews, attempt)

    run.recorder.at_node = broken  # type: ignore[method-assign]
    run.go()
    assert run.statuses() == {"1": "failed", "2": "approved"}
    assert run.row("1").error == "unexpected KeyError while reading from its worker; details are in the log"
    assert any("KeyError" in line for label, line in run.folder.output if label == "LLD-1")


def test_texts_are_looked_through_for_secrets_of_any_worker() -> None:
    answers: list[Any] = []

    def asks(_job: wire.Job) -> Script:
        yield Say(Hello(pid=1, resumed=False))
        for number, text in enumerate(("nothing", "it said sk-key-2-12345 aloud")):
            yield Say(Vet(number=number, texts=(text,)))
            answers.append((yield Receive()))
        yield Say(Ended(status="approved"))

    LoopRun({"1": [asks]}).go()
    assert [one.secret for one in answers] == [None, "key-2"]


def test_a_full_disk_stops_the_run_in_order() -> None:

    run = LoopRun({"1": [worker(partial(call, seconds=5.0), LONG)]})
    audit = run.folder.audit

    def full(item_id: str, told: dict[str, Any]) -> None:
        audit(item_id, told)
        raise StorageError("no room")

    run.folder.audit = full  # type: ignore[method-assign, assignment]
    run.go()
    assert run.stopped is Stop.STORAGE
    assert run.statuses() == {"1": "interrupted"}
    assert run.engine.clock() == 5.0
