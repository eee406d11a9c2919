"""The coordinator's loop when a provider is down, or refuses what every item would ask for."""

from functools import partial
from typing import Any

import pytest

from agentos.coordinator.scheduler import Stop
from agentos.credentials.pool import KeySpec
from agentos.engine.fake import WaitFor
from agentos.model import OF_ACCOUNT, SAME_FOR_ALL, CallError
from agentos.wire import LeaseGranted, LeaseRefused
from unit.coordinator.loop_kit import LoopRun, Worker, call, step, worker

ONE_KEY = [KeySpec(id="key-1", provider="open")]
WHY = "127.0.0.1:8000: connection refused"


class Server:
    """A provider that is down for some time; counts who tries it."""

    def __init__(self, run_until: float, *, error: CallError = CallError.UNREACHABLE) -> None:
        self.up_at = run_until
        self.error = error
        self.tried: list[float] = []
        self.run: LoopRun | None = None

    def item(self) -> Worker:
        """A worker that asks again until its call is answered, as the caller does."""

        def parts() -> Any:
            number = after = 0
            while True:
                number += 1
                after = yield from call(number, error=self.state, after=after, message=WHY)
                if self.tried[-1] >= self.up_at:
                    break

        return worker(parts)

    def state(self) -> CallError | None:
        assert self.run is not None
        self.tried.append(self.run.engine.clock())
        return None if self.tried[-1] >= self.up_at else self.error

    def go(self, items: int, **how: Any) -> LoopRun:
        self.run = LoopRun({str(one): [self.item()] for one in range(1, items + 1)}, **how)
        return self.run.go()


def test_a_provider_that_is_down_is_tried_by_one_call_at_a_time_and_then_everything_goes_on() -> None:
    server = Server(20.0)
    run = server.go(10)
    assert set(run.statuses().values()) == {"approved"}
    failed = [at for at in server.tried if at < 20.0]
    # The first calls go out together; then one call after about 1, 3, 7 and 15 seconds.
    assert len([at for at in failed if at > 0.0]) == 4
    assert run.engine.clock() < 40.0, "nobody backed off alone"
    assert len(run.recorded("provider_down")) == 1
    assert run.recorded("provider_down")[0]["reason"] == WHY
    assert len(run.recorded("provider_back")) == 1
    said = [line for line in run.folder.lines if "open is" in line]
    assert len(said) == 2
    assert f"open is down: {WHY}; its items wait, and one at a time tries again" in said[0]
    assert "open is back after" in said[1]
    assert {event["kind"] for event in run.recorded("waiting")} == {"outage"}
    assert all(WHY in event["reason"] for event in run.waits("outage"))
    assert run.waits("backoff") == []


def test_a_probe_is_marked_so_that_its_failure_is_not_a_try() -> None:
    run = Server(5.0).go(2)
    marks = [message.probe for _, _, message in run.engine.sent if isinstance(message, LeaseGranted)]
    assert marks[:2] == [False, False]
    assert marks[2] is True
    assert marks[-1] is False, "the others follow as usual"


def test_an_outage_does_not_use_up_the_time_of_an_item() -> None:
    run = Server(500.0).go(3, timeout=30.0)
    assert set(run.statuses().values()) == {"approved"}
    assert run.row("1").waited_seconds > 400.0


def test_an_outage_longer_than_the_user_wants_to_wait_ends_the_run_to_be_resumed() -> None:
    server = Server(1e9)
    run = server.go(3, max_wait=60.0, parallel=2)
    assert run.stopped is Stop.OUTAGE
    assert run.statuses() == {"1": "paused", "2": "paused", "3": "pending"}
    assert run.engine.clock() == pytest.approx(60.0)
    assert run.row("1").error == "open is down"
    assert any("open is still down after" in line and WHY in line for line in run.folder.lines)
    assert any("--max-wait reached. Stopping" in line for line in run.folder.lines)


def test_without_waiting_the_run_ends_with_the_first_failure() -> None:
    run = Server(1e9).go(2, max_wait=0.0)
    assert run.stopped is Stop.OUTAGE
    assert run.engine.clock() == 0.0


def test_requests_that_wait_for_a_key_are_held_back_too() -> None:
    keys = [KeySpec(id="key-1", provider="open", max_in_flight=1)]
    server = Server(30.0)
    run = server.go(6, keys=keys)
    assert set(run.statuses().values()) == {"approved"}
    assert len([at for at in server.tried if at < 30.0]) == 5, "the first, and one call after each pause"


def test_one_dropped_connection_is_an_ordinary_retry() -> None:
    def parts() -> Any:
        after = yield from call(1, error=CallError.DROPPED, message="closed")
        yield from call(2, tries=1, after=after)

    run = LoopRun({"1": [worker(parts)], "2": [worker(partial(call, seconds=3.0))]}).go()
    assert set(run.statuses().values()) == {"approved"}
    assert run.recorded("provider_down") == []
    assert [event["reason"] for event in run.waits("backoff")] == ["dropped: closed"]


def test_connections_of_several_items_that_are_dropped_are_an_outage() -> None:
    run = Server(8.0, error=CallError.DROPPED).go(3)
    assert set(run.statuses().values()) == {"approved"}
    assert len(run.recorded("provider_down")) == 1


# The same refusal for every item.

UNKNOWN = "api.example.com: HTTP 404 model_not_found: The model `m` does not exist."


def refused(error: CallError = CallError.NO_MODEL, **more: Any) -> Worker:
    """A worker whose call is refused, and that asks again to hear what happens."""

    def parts() -> Any:
        after = yield from call(1, error=error, message=UNKNOWN, **more)
        yield from call(2, tries=1, after=after)

    return worker(parts)


@pytest.mark.parametrize("error", sorted(SAME_FOR_ALL))
def test_a_refusal_that_every_item_would_get_ends_the_run_after_those_that_run(error: CallError) -> None:
    scripts = {str(one): [refused(error)] for one in range(1, 201)}
    run = LoopRun(scripts, parallel=4, keys=ONE_KEY, set_in={"drafter": "drafter in user.toml"}).go()
    assert run.stopped is Stop.MISCONFIGURED
    statuses = list(run.statuses().values())
    assert (statuses.count("paused"), statuses.count("pending")) == (4, 196)
    assert len(run.recorded("leased")) <= 4
    told = [line for line in run.folder.lines if "api.example.com" in line]
    assert len(told) == 1, "once"
    assert told[0].endswith("'agentos doctor --live' tests it.")
    assert any("once it is fixed, run the same command to resume" in line for line in run.folder.lines)


def test_the_message_names_the_model_and_where_it_is_set() -> None:
    run = LoopRun({"1": [refused()]}, keys=ONE_KEY, set_in={"drafter": "drafter in user.toml"}).go()
    assert run.row("1").error == "open:m is not available"
    (told,) = (line for line in run.folder.lines if "is not available at" in line)
    assert "open:m is not available at api.example.com: HTTP 404" in told
    assert "Check drafter in user.toml; 'agentos doctor --live' tests it." in told


def test_calls_at_a_provider_are_not_given_up_for_it() -> None:
    first = partial(call, seconds=30.0)
    scripts = {"1": [refused()], "2": [worker(first, partial(call, 2))], "3": [worker(first)]}
    run = LoopRun(scripts, keys=ONE_KEY).go()
    assert run.stopped is Stop.MISCONFIGURED
    assert run.statuses() == {"1": "paused", "2": "paused", "3": "approved"}
    assert (run.row("2").tokens_in, run.row("2").cost_usd) == (10, 10.0), "its first call is kept"
    assert run.engine.clock() == pytest.approx(30.0)


def test_what_makes_no_call_is_asked_to_stop_at_once() -> None:
    run = LoopRun({"1": [refused()], "2": [worker(step(WaitFor(1000.0)))]}, keys=ONE_KEY).go()
    assert run.statuses() == {"1": "paused", "2": "paused"}
    assert run.engine.clock() == 1.0


def test_a_person_or_the_time_limit_still_ends_the_calls_that_were_spared() -> None:
    long = worker(partial(call, seconds=100.0))
    run = LoopRun({"1": [refused()], "2": [long]}, keys=ONE_KEY)
    run.engine.signals.at(10.0)
    assert run.go().stopped is Stop.INTERRUPTED
    assert run.engine.clock() == 10.0
    run = LoopRun({"1": [refused()], "2": [long]}, keys=ONE_KEY, run_timeout=20.0).go()
    assert run.stopped is Stop.MISCONFIGURED
    assert run.engine.clock() == 20.0


def test_a_model_that_has_replied_exists_so_a_refusal_is_the_items_own() -> None:
    def parts() -> Any:
        yield from call(1)
        after = yield from call(2, error=CallError.NO_MODEL, message=UNKNOWN)
        yield from call(3, tries=1, after=after)

    run = LoopRun({"1": [worker(parts)]}, keys=ONE_KEY).go()
    assert run.stopped is None
    assert run.statuses() == {"1": "approved"}
    assert [event["reason"] for event in run.waits("backoff")] == [f"no model: {UNKNOWN}"]


@pytest.mark.parametrize("error", sorted(OF_ACCOUNT))
def test_a_key_without_access_is_left_out_and_another_key_serves_the_call_at_once(error: CallError) -> None:
    run = LoopRun({"1": [refused(error)], "2": [worker(call, partial(call, 2))]}, parallel=1).go()
    assert run.stopped is None
    assert set(run.statuses().values()) == {"approved"}
    assert [event["key"] for event in run.recorded("leased")] == ["key-1", "key-2", "key-2", "key-2"]
    assert run.waits("backoff") == []
    (told,) = (line for line in run.folder.lines if "is not used for" in line)
    assert told.endswith(f"key-1 is not used for open:m, because it has no access: {UNKNOWN}")


def test_requests_that_wait_for_a_key_without_access_go_to_the_others() -> None:
    keys = [KeySpec(id=f"key-{one}", provider="open", max_in_flight=1) for one in (1, 2)]
    scripts = {"1": [refused(seconds=5.0)], "2": [worker(partial(call, seconds=9.0))], "3": [worker(call)]}
    run = LoopRun(scripts, keys=keys, parallel=3).go()
    assert run.stopped is None
    assert set(run.statuses().values()) == {"approved"}
    assert [event["key"] for event in run.recorded("leased")] == ["key-1", "key-2", "key-2", "key-2"]


def test_without_access_with_any_key_the_run_ends() -> None:
    def parts() -> Any:
        after = 0
        for number in (1, 2, 3):
            after = yield from call(number, error=CallError.NO_MODEL, message=UNKNOWN, after=after)

    run = LoopRun({"1": [worker(parts)], "2": [worker(parts)]}, parallel=1).go()
    assert run.stopped is Stop.MISCONFIGURED
    assert run.statuses() == {"1": "paused", "2": "pending"}
    assert [event["key"] for event in run.recorded("leased")] == ["key-1", "key-2"]
    assert len([line for line in run.folder.lines if UNKNOWN.rstrip(".") in line]) == 1


def test_keys_that_are_rejected_or_have_no_access_are_no_keys() -> None:
    def parts() -> Any:
        after = yield from call(1, error=CallError.NO_MODEL, message=UNKNOWN)
        after = yield from call(2, error=CallError.KEY_REJECTED, after=after)
        yield from call(3, after=after)

    run = LoopRun({"1": [worker(parts)]}).go()
    assert run.stopped is Stop.NO_KEY
    assert run.statuses() == {"1": "paused"}
    assert len(run.recorded("leased")) == 2


def test_a_run_that_may_not_wait_stops_if_the_only_key_with_access_rests() -> None:
    def parts() -> Any:
        after = yield from call(1, error=CallError.NO_MODEL, message=UNKNOWN)
        after = yield from call(2, error=CallError.RATE_LIMITED, after=after)
        yield from call(3, after=after)

    run = LoopRun({"1": [worker(parts)]}, max_wait=0.0).go()
    assert run.stopped is Stop.QUOTA
    assert run.engine.clock() < 5.0


def test_calls_at_a_provider_are_not_given_up_for_a_rejected_key() -> None:
    rejected = refused(CallError.KEY_REJECTED)
    run = LoopRun({"1": [rejected], "2": [worker(partial(call, seconds=30.0))]}, keys=ONE_KEY).go()
    assert run.stopped is Stop.NO_KEY
    assert run.statuses() == {"1": "paused", "2": "approved"}


# A refusal that may be an item's own fault, or the same for every item.

ODD = "HTTP 400: Something is odd."


def own_fault(message: str = ODD, *, seconds: float = 1.0) -> Worker:
    """A worker whose request is refused; it asks whose fault it is, and is told."""

    def parts() -> Any:
        after = yield from call(1, error=CallError.BAD_REQUEST, message=message, seconds=seconds)
        yield from call(2, tries=1, after=after)

    return worker(parts)


def verdicts(run: LoopRun) -> list[tuple[str, bool]]:
    return [(one.reason, one.own_fault) for _, _, one in run.engine.sent if isinstance(one, LeaseRefused)]


def test_the_same_refusal_of_two_items_ends_the_run_and_every_item_can_be_resumed() -> None:
    scripts = {str(one): [own_fault(seconds=one)] for one in range(1, 101)}
    run = LoopRun(scripts, parallel=4, set_in={"drafter": "drafter in user.toml"}).go()
    assert run.stopped is Stop.MISCONFIGURED
    statuses = list(run.statuses().values())
    assert (statuses.count("paused"), statuses.count("pending")) == (4, 96)
    assert len(run.recorded("leased")) <= 4
    assert not any(own for _, own in verdicts(run))
    (told,) = (line for line in run.folder.lines if ODD.rstrip(".") in line)
    assert "open:m refuses every request: HTTP 400: Something is odd. Check drafter in user.toml" in told


def test_a_refusal_of_one_item_alone_is_its_own_fault() -> None:
    run = LoopRun({"1": [own_fault()], "2": [worker(partial(call, seconds=30.0))]}).go()
    assert run.stopped is None
    assert verdicts(run) == [("", True)]
    assert run.statuses()["2"] == "approved"
    assert len(run.recorded("leased")) == 2


def test_an_item_that_runs_alone_and_is_refused_waits_for_the_next_one() -> None:
    run = LoopRun({str(one): [own_fault()] for one in range(1, 10)}, parallel=1).go()
    assert run.stopped is Stop.MISCONFIGURED
    assert len(run.recorded("leased")) == 2
    statuses = list(run.statuses().values())
    assert (statuses.count("paused"), statuses.count("pending")) == (2, 7), "nothing has failed"


def test_an_item_that_runs_alone_is_told_as_soon_as_the_next_one_is_answered() -> None:
    run = LoopRun({"1": [own_fault()], "2": [worker(call)], "3": [worker(call)]}, parallel=1).go()
    assert run.stopped is None
    assert verdicts(run) == [("", True)]
    assert [event["item"] for event in run.recorded("leased")] == ["1", "2", "3"]
    run = LoopRun({"1": [own_fault("a")], "2": [own_fault("b")], "3": [worker(call)]}, parallel=1).go()
    assert run.stopped is None
    assert verdicts(run) == [("", True), ("", True)]
    assert run.statuses()["3"] == "approved"


def test_different_refusals_are_the_items_own_fault() -> None:
    run = LoopRun({"1": [own_fault("HTTP 400: a")], "2": [own_fault("HTTP 400: b", seconds=2.0)]}).go()
    assert run.stopped is None
    assert verdicts(run) == [("", True), ("", True)]


def test_the_same_refusals_of_a_model_that_has_replied_are_the_items_own_fault() -> None:
    first = worker(call, partial(call, 2, seconds=20.0))
    run = LoopRun({"1": [first], "2": [own_fault(seconds=2.0)], "3": [own_fault(seconds=2.0)]}).go()
    assert run.stopped is None
    assert verdicts(run) == [("", True), ("", True)]


# Credit.


def test_a_key_without_credit_is_left_out_while_another_has_some() -> None:
    run = LoopRun({"1": [refused(CallError.NO_CREDIT)]}).go()
    assert run.stopped is None
    assert run.statuses() == {"1": "approved"}
    assert [event["key"] for event in run.recorded("leased")] == ["key-1", "key-2"]


def test_with_no_credit_on_any_key_the_run_ends() -> None:
    def parts() -> Any:
        for number in (1, 2, 3):
            yield from call(number, error=CallError.NO_CREDIT, message="HTTP 429 insufficient_quota: Pay.")

    run = LoopRun({"1": [worker(parts)], "2": [worker(parts)]}, parallel=1).go()
    assert run.stopped is Stop.NO_KEY
    assert run.statuses() == {"1": "paused", "2": "pending"}
    assert run.row("1").error == "open is out of credit"
    assert any(line.endswith("key-1: out of credit") for line in run.folder.lines)
    assert any("every key is out of credit (key-1, key-2): HTTP 429" in line for line in run.folder.lines)
    assert any("Add credit at the provider, then run the same command." in line for line in run.folder.lines)


def test_keys_of_one_account_are_out_of_credit_together() -> None:
    keys = [KeySpec(id=f"key-{one}", provider="open", quota_group="account") for one in (1, 2, 3)]
    run = LoopRun({"1": [refused(CallError.NO_CREDIT)]}, keys=keys).go()
    assert run.stopped is Stop.NO_KEY
    assert len(run.recorded("leased")) == 1
