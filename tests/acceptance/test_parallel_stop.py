"""Stopping: Ctrl+C, SIGTERM, twice, at any moment, and with workers that do not listen."""

import os
import random
import re
import signal
import subprocess
import time

import pytest

from acceptance.conftest import StartedBy
from harness.processes import wait_until
from harness.project import METHODS, STOP_SECONDS, Command, Project, Result, unprefixed

INTERRUPTED = {130, -signal.SIGINT}  # a shell shows 130 for both; the second is Python before our code runs


def _stop(box: Project, command: Command, number: int = signal.SIGINT) -> Result:
    """Press Ctrl+C as a terminal does, and see everything go in time."""
    command.signal_group(number)
    signalled = time.monotonic()
    done = command.wait(STOP_SECONDS + 20)
    box.assert_gone(max(0.0, STOP_SECONDS - (time.monotonic() - signalled)))
    assert time.monotonic() - signalled < STOP_SECONDS + 0.2
    return done


def _interrupt_at_a_random_moment(started_by: StartedBy, method: str, seed: int) -> None:
    with started_by(method) as box:
        box.issues(10, "latency=30")
        command = box.start("lld", "--all", "--mock", "-j10")
        time.sleep(random.Random(seed).uniform(0.3, 3.5))
        done = _stop(box, command)
        assert done.code in INTERRUPTED, done
        for run in box.runs():
            summary = box.summary(run)
            assert summary["exit_code"] == 130
            assert set(box.statuses(run).values()) <= {"interrupted", "pending"}
            done.assert_no_traceback()
            assert unprefixed(done.lines) == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 4))])
def test_ctrl_c_at_a_random_moment(started_by: StartedBy, seed: int) -> None:
    _interrupt_at_a_random_moment(started_by, "spawn" if seed == 4 else "forkserver", seed)


@pytest.mark.chaos
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(100, 150))
def test_ctrl_c_at_many_random_moments(started_by: StartedBy, method: str, seed: int) -> None:
    _interrupt_at_a_random_moment(started_by, method, seed)


def test_ctrl_c_with_ten_workers_in_slow_calls(either: Project) -> None:
    workers = 10 if either.environment["AGENTOS_START_METHOD"] == "forkserver" else 4
    either.issues(workers + 2, "latency=30")
    command = either.start("lld", "--all", "--mock", f"-j{workers}")
    wait_until(lambda: len(either.events("leased")) == workers, "calls in flight")
    done = _stop(either, command)
    assert done.code == 130, done
    done.assert_no_traceback()
    summary = either.summary()
    assert summary["exit_code"] == 130
    assert summary["totals"] == {"interrupted": workers, "pending": 2}
    assert unprefixed(done.lines) == []


@pytest.mark.cold
@pytest.mark.parametrize("wanted", ["warm server", "first worker"])
def test_ctrl_c_during_start_up(started_by: StartedBy, wanted: str) -> None:
    """The whole foreground hears it, also a server or worker that is still importing."""
    method = "forkserver" if wanted == "warm server" else "spawn"
    with started_by(method) as box:
        box.issues(3, "latency=30")
        command = box.start("lld", "--all", "--mock", "-j3")
        word = "forkserver" if method == "forkserver" else "spawn_main"
        wait_until(lambda: any(word in one.command for one in box.processes()), wanted)
        done = _stop(box, command)
        assert done.code == 130, done
        done.assert_no_traceback()
        # The server starts before the items are read, so that there may be no run yet.
        assert box.runs() or wanted == "warm server"
        assert {box.summary(run)["exit_code"] for run in box.runs()} <= {130}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_interrupted_again_and_again_it_is_finished_in_the_end(started_by: StartedBy, seed: int) -> None:
    chance = random.Random(seed)
    method, count = ("spawn", 4) if seed == 2 else ("forkserver", 10)
    with started_by(method) as box:
        box.issues(count, "latency=0.3")
        for _ in range(3):
            command = box.start("lld", "--all", "--mock", "-j4")
            time.sleep(chance.uniform(1.0, 3.0))
            if command.poll() is None:
                _stop(box, command)
            else:
                command.wait()
        done = box.run("lld", "--all", "--mock", "-j10")
        assert done.code == 0, done
        box.assert_all_done_once(range(1, count + 1))


def test_a_paid_call_is_not_paid_again(box: Project) -> None:
    box.issue(1, mock="latency=1")
    command = box.start("lld", "1", "--mock")
    wait_until(lambda: [e for e in box.events("node") if e["node"] == "review"], "the review")
    _stop(box, command)
    assert box.run("lld", "1", "--mock").code == 0
    models = [event["model"] for event in box.events("leased")]
    assert models.count("drafter") == 1, models
    box.assert_all_done_once([1])


def test_sigterm(either: Project) -> None:
    either.issues(3, "latency=30")
    command = either.start("lld", "--all", "--mock", "-j3")
    wait_until(lambda: len(either.events("leased")) == 3, "three calls in flight")
    done = _stop(either, command, signal.SIGTERM)
    assert done.code == 143, done
    assert either.summary()["exit_code"] == 143
    assert unprefixed(done.lines) == []


@pytest.mark.cold
def test_sigterm_to_the_command_alone_during_start_up(box: Project) -> None:
    box.issues(3, "latency=30")
    command = box.start("lld", "--all", "--mock", "-j3")
    wait_until(lambda: box.server(command), "the warm server")
    command.signal(signal.SIGTERM)
    done = command.wait(STOP_SECONDS)
    box.assert_gone(STOP_SECONDS)
    assert done.code in {143, -signal.SIGTERM}, done
    done.assert_no_traceback()
    for run in box.runs():
        assert box.summary(run)["exit_code"] == 143


@pytest.mark.cold
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_hangs_does_not_hold_up_the_end(box: Project, number: int) -> None:
    box.issues(3, "latency=30")
    command = box.start("lld", "--all", "--mock", "-j3")
    wait_until(lambda: box.server(command), "the warm server")
    server = box.server(command)
    assert server is not None
    os.kill(server.pid, signal.SIGSTOP)
    wait_until(lambda: "issues from" in command.text(), "the run")
    done = _stop(box, command, number)
    assert done.code == 128 + number, done
    done.assert_no_traceback()
    assert box.summary()["exit_code"] == 128 + number
    assert set(box.statuses().values()) <= {"interrupted", "pending"}


def test_workers_that_ignore_everything(either: Project) -> None:
    either.issues(2, "hang=600")
    either.issue(3, mock="sh=\"trap '' TERM INT HUP; sleep 1000\"")
    command = either.start("lld", "--all", "--mock", "-j3")
    wait_until(lambda: any(one.command == "sleep 1000" for one in either.processes()), "the program")
    wait_until(lambda: len(either.events("leased")) == 3, "three calls")
    for event in either.events("ready"):
        os.kill(event["pid"], signal.SIGSTOP)
    done = _stop(either, command)
    assert done.code == 130, done
    assert set(either.statuses().values()) == {"interrupted"}


def test_a_second_ctrl_c_ends_at_once(either: Project) -> None:
    either.issues(3, "hang=600")
    command = either.start("lld", "--all", "--mock", "-j3")
    wait_until(lambda: len(either.events("leased")) == 3, "three calls")
    for event in either.events("ready"):
        os.kill(event["pid"], signal.SIGSTOP)
    command.signal_group(signal.SIGINT)
    wait_until(lambda: "SIGINT" in command.text() or "interrupted" in command.text(), "its word")
    done = _stop(either, command)
    assert done.code == 130, done
    assert either.summary()["exit_code"] == 130
    done.assert_no_traceback()


@pytest.mark.parametrize("gap", [0.03, *(pytest.param(gap, marks=pytest.mark.slow) for gap in (0.005, 0.1))])
def test_ctrl_c_held_down(box: Project, gap: float) -> None:
    """Key repeat sends it some thirty times a second; the summary is always written, also then."""
    box.issues(4, "latency=30")
    command = box.start("lld", "--all", "--mock", "-j4")
    wait_until(lambda: len(box.events("leased")) == 4, "four calls")
    while command.poll() is None:
        command.signal_group(signal.SIGINT)
        time.sleep(gap)
    done = command.wait()
    box.assert_gone(STOP_SECONDS)
    assert done.code in INTERRUPTED, done
    done.assert_no_traceback()
    assert box.summary()["exit_code"] == 130


def test_ctrl_c_when_nobody_reads_the_output(box: Project) -> None:
    """`lld-workflow ... | less`: a full pipe must hold up neither the stop nor the other items."""
    box.issue(1, mock="latency=30 sh=\"head -c 3000000 /dev/zero | tr '\\0' x | fold -w 100\"")
    command = box.start("lld", "1", "--mock", stdout=subprocess.PIPE)
    wait_until(lambda: box.events("leased"), "the call")
    wait_until((box.runs()[-1] / "LLD-1.log").exists, "its first lines")
    time.sleep(1.0)
    command.signal_group(signal.SIGINT)
    box.assert_gone(STOP_SECONDS)
    assert command.wait(1).code in INTERRUPTED


@pytest.mark.cold
def test_a_stopped_server_does_not_hold_the_stop_up(box: Project) -> None:
    box.issues(3, "latency=30")
    command = box.start("lld", "--all", "--mock", "-j3")
    wait_until(lambda: len(box.events("leased")) == 3, "three calls")
    server = box.server(command)
    assert server is not None
    os.kill(server.pid, signal.SIGSTOP)
    command.signal(signal.SIGINT)
    try:
        box.assert_gone(STOP_SECONDS)
    except AssertionError:
        command.signal(signal.SIGINT)
        box.assert_gone(STOP_SECONDS)
        raise
    assert command.wait(1).code == 130


def test_handlers_do_not_survive_into_programs(box: Project) -> None:
    """A program started by a workflow can be ended by SIGTERM and SIGINT as usual."""
    box.issue(1, mock='sh="cat /proc/self/status | grep Sig"')
    assert box.run("lld", "1", "--mock").code == 0
    found = [line.split() for line in box.log("LLD-1") if re.search(r" out Sig(Ign|Blk):", line)]
    masks = {words[2].rstrip(":"): int(words[3], 16) for words in found}
    asked = (1 << (signal.SIGINT - 1)) | (1 << (signal.SIGTERM - 1))
    assert masks["SigIgn"] & asked == 0
    assert masks["SigBlk"] & asked == 0
