"""`kill -9` of coordinator, workers and their server: nothing lost, nothing twice, no orphan."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from acceptance.conftest import USUAL_METHODS, StartedBy
from harness.processes import wait_until
from harness.project import METHODS, ORPHAN_SECONDS, Project

PROGRAMS = 'sh="sleep 1000 & setsid sleep 1001 & sleep 0.1"'

# Ends the coordinator, by the kernel's hand, just before or just after a line is written that has the text.
SWITCH = """
import os, signal, sys
text = os.environ.get("KILL_AT", "").encode()
if text and "agentos" in os.path.basename(sys.argv[0] if hasattr(sys, "argv") else sys.orig_argv[1]):
    write = os.write
    def killing(descriptor, data):
        here = text in bytes(data)
        if here and os.environ["KILL_WHEN"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        written = write(descriptor, data)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return written
    os.write = killing
"""


def _kill_the_coordinator(started_by: StartedBy, method: str, seed: int) -> None:
    chance = random.Random(seed)
    with started_by(method) as box:
        count = 8 if method == "forkserver" else 4
        for number in range(1, count + 1):
            box.issue(number, mock="latency=0.4" + (f" {PROGRAMS}" if number % 2 else ""))
        for _ in range(2):
            command = box.start("lld", "--all", "--mock", "-j3")
            time.sleep(chance.uniform(0.5, 4.0))
            if command.poll() is None:
                command.signal(signal.SIGKILL)
            command.wait()
            box.assert_gone(ORPHAN_SECONDS)
        done = box.run("lld", "--all", "--mock", "-j8")
        assert done.code == 0, done
        box.assert_gone(ORPHAN_SECONDS)
        box.assert_all_done_once(range(1, count + 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 4])
def test_the_coordinator_at_ten_random_moments(started_by: StartedBy, seed: int) -> None:
    _kill_the_coordinator(started_by, "spawn" if seed == 4 else "forkserver", seed)


@pytest.mark.chaos
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(100, 150))
def test_the_coordinator_at_many_random_moments(started_by: StartedBy, method: str, seed: int) -> None:
    _kill_the_coordinator(started_by, method, seed)


def test_the_coordinator_with_programs_under_way(either: Project) -> None:
    either.issues(3, f"latency=30 {PROGRAMS}")
    command = either.start("lld", "--all", "--mock", "-j3")
    wait_until(
        lambda: sum(one.command in {"sleep 1000", "sleep 1001"} for one in either.processes()) == 6,
        "six programs",
    )
    command.signal(signal.SIGKILL)
    command.wait()
    either.assert_gone(ORPHAN_SECONDS)


@pytest.mark.cold
@pytest.mark.parametrize("method", USUAL_METHODS)
def test_the_coordinator_while_workers_start(started_by: StartedBy, method: str) -> None:
    """Ten interpreters that are still importing must not outlive it either."""
    with started_by(method) as box:
        box.issues(10, "latency=30")
        command = box.start("lld", "--all", "--mock", "-j10")
        word = "forkserver" if method == "forkserver" else "spawn_main"
        wait_until(lambda: any(word in one.command for one in box.processes()), "the first")
        time.sleep(0.1)
        command.signal(signal.SIGKILL)
        command.wait()
        box.assert_gone(ORPHAN_SECONDS)


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("forkserver", signal.SIGKILL),
        pytest.param("forkserver", signal.SIGQUIT, marks=pytest.mark.slow),
        pytest.param("forkserver", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("spawn", signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_the_whole_foreground_group(started_by: StartedBy, method: str, number: int) -> None:
    r"""Ctrl+\, a closed terminal, a CI runner: coordinator and server die in one moment."""
    with started_by(method) as box:
        box.issues(3, 'sh="sleep 1000"')
        command = box.start("lld", "--all", "--mock", "-j3")
        wait_until(lambda: sum(one.command == "sleep 1000" for one in box.processes()) == 3, "three programs")
        command.signal_group(number)
        command.wait(10)
        box.assert_gone(ORPHAN_SECONDS)


def test_the_coordinator_while_a_worker_is_stopped(either: Project) -> None:
    either.issues(2, 'sh="sleep 1000"')
    command = either.start("lld", "--all", "--mock", "-j2")
    wait_until(lambda: sum(one.command == "sleep 1000" for one in either.processes()) == 2, "two programs")
    os.kill(either.events("ready")[0]["pid"], signal.SIGSTOP)
    command.signal(signal.SIGKILL)
    command.wait()
    either.assert_gone(ORPHAN_SECONDS)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("after", '"node": "finalize"'),
        pytest.param("before", " run approved", marks=pytest.mark.slow),
        pytest.param("before", '"event": "completed"', marks=pytest.mark.slow),
        pytest.param("after", '"event": "completed"', marks=pytest.mark.slow),
    ],
)
def test_the_coordinator_at_an_exact_line(box: Project, when: str, text: str) -> None:
    patched = box.outside / "patched"
    patched.mkdir()
    (patched / "sitecustomize.py").write_text(SWITCH)
    box.issues(2)
    killed = box.run(
        "lld", "--all", "--mock", env={"PYTHONPATH": str(patched), "KILL_AT": text, "KILL_WHEN": when}
    )
    assert killed.code == -signal.SIGKILL, killed
    box.assert_gone(ORPHAN_SECONDS)
    done = box.run("lld", "--all", "--mock", "-j2")
    assert done.code == 0, done
    box.assert_all_done_once([1, 2])


def test_a_worker_is_started_again_from_its_checkpoint(either: Project) -> None:
    either.issue(1, mock="latency=1")
    either.issue(2, mock="latency=0.2")
    command = either.start("lld", "--all", "--mock", "-j2")
    wait_until(
        lambda: [e for e in either.events("node") if e["item"] == "1" and e["node"] == "review"], "its review"
    )
    os.kill(next(e["pid"] for e in either.events("ready") if e["item"] == "1"), signal.SIGKILL)
    done = command.wait()
    assert done.code == 0, done
    rows = {row["id"]: row for row in either.summary()["items"]}
    assert rows["1"]["attempts"] == 2
    assert rows["2"]["attempts"] == 1
    drafts = [e for e in either.events("leased") if e["item"] == "1" and e["model"] == "drafter"]
    assert len(drafts) == 1
    either.assert_all_done_once([1, 2])
    either.assert_gone(ORPHAN_SECONDS)


def test_every_worker_of_a_run_once(box: Project) -> None:
    box.issues(6, f"latency=0.5 {PROGRAMS}")
    command = box.start("lld", "--all", "--mock", "-j3")
    killed: set[str] = set()
    while command.poll() is None:
        for event in box.events("ready"):
            if event["item"] not in killed:
                killed.add(event["item"])
                os.kill(event["pid"], signal.SIGKILL)
        time.sleep(0.05)
    done = command.wait()
    assert done.code == 0, done
    assert killed == {"1", "2", "3", "4", "5", "6"}
    box.assert_gone(ORPHAN_SECONDS)
    box.assert_all_done_once(range(1, 7))


@pytest.mark.cold
@pytest.mark.slow
def test_the_server_in_mid_run(box: Project) -> None:
    box.issues(6, f"latency=1 {PROGRAMS}")
    command = box.start("lld", "--all", "--mock", "-j3")
    wait_until(lambda: len(box.events("leased")) >= 3, "three calls")
    server = box.server(command)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    done = command.wait()
    assert done.code == 0, done
    box.assert_gone(ORPHAN_SECONDS)
    box.assert_all_done_once(range(1, 7))


@pytest.mark.slow
@pytest.mark.cold
def test_the_server_while_it_starts(box: Project) -> None:
    box.issues(2)
    command = box.start("lld", "--all", "--mock", "-j2")
    server = wait_until(lambda: box.server(command), "the server")
    os.kill(server.pid, signal.SIGKILL)
    done = command.wait()
    done.assert_no_traceback()
    box.assert_gone(ORPHAN_SECONDS)
    assert done.code == 0, done
    box.assert_all_done_once([1, 2])


@pytest.mark.parametrize(
    "program",
    [
        "setsid sh ./nested.sh 5",  # a family that left the worker's session
        "env -i setsid sleep 1000",  # one that also lost its environment
        "setsid nohup sh -c 'sleep 1000 & sleep 1001'",
    ],
)
@pytest.mark.parametrize("killed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_programs_that_get_away(box: Project, program: str, killed: bool) -> None:
    (box.root / "nested.sh").write_text(
        'if [ "$1" -gt 0 ]; then sh ./nested.sh $(($1 - 1)); fi\nsleep 1000\n'
    )
    box.issue(1, mock=f'latency={30 if killed else 0} sh="{program} & sleep 0.4"')
    command = box.start("lld", "1", "--mock")
    if killed:
        wait_until(lambda: any("sleep 100" in one.command for one in box.processes()), "the program")
        wait_until(lambda: not any("sleep 0.4" in one.command for one in box.processes()), "its start")
        command.signal(signal.SIGKILL)
        command.wait()
    else:
        assert command.wait().code == 0
    box.assert_gone(ORPHAN_SECONDS)


@pytest.mark.slow
def test_a_program_that_never_stops_printing(box: Project) -> None:
    """It left its worker, which is done; the coordinator must neither read it for ever nor keep it."""
    box.issue(1, mock='sh="setsid yes & sleep 0.1"')
    box.issue(2, mock="latency=0.2")
    done = box.run("lld", "--all", "--mock", "-j2", "--output", "quiet", timeout=40)
    assert done.code == 0, done
    box.assert_gone(ORPHAN_SECONDS)


def test_adopted_programs_do_not_pile_up_as_zombies(box: Project) -> None:
    """The coordinator adopts what outlives its worker; in a run of a thousand items it must bury it, too."""
    box.issues(8, 'sh="setsid sleep 0.1 & sleep 0.05"')
    box.issue(9, mock="hang=600")
    command = box.start("lld", "--all", "--mock", "-j4")
    wait_until(lambda: len(box.events("completed")) == 8, "eight items")

    def zombies() -> list[str]:
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text("ascii").split()
        stats = [Path(f"/proc/{child}/stat").read_text("utf-8") for child in children]
        return [stat for stat in stats if stat.rpartition(")")[2].split()[0] == "Z"]

    time.sleep(0.5)
    assert len(zombies()) <= 1
