"""The engine of local processes: real processes, sockets and pipes; the test says the worker's words."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentos.engine.child import Child
from agentos.engine.local import MOST_SPARES, QUIET_SECONDS, LocalEngine
from agentos.engine.protocol import Ending, EngineEvent, Gone, Printed, Said
from agentos.errors import StartFailed
from agentos.frames import MAX_WORKER_BYTES, FrameReader, encode, read_for_worker
from agentos.signals import StopSignals
from agentos.wire import Beat, Drain, Ended, Hello, Job, Message
from harness.jobs import make_job

SOON = 10.0
HELLO = Hello(pid=1, resumed=False)
STAYS = "import os, signal; signal.pthread_sigmask(signal.SIG_SETMASK, ()); os.write(1, b'.'); signal.pause()"


def job(label: str = "LLD-1", text: str = "text") -> Job:
    return make_job(label[4:], text=text, drafter="mock:d", reviewer="mock:r")


class Process:
    """A process that only waits to be killed, with the parts of multiprocessing's that the engine uses."""

    def __init__(self) -> None:
        self.sentinel, theirs = os.pipe()
        ready, says_ready = os.pipe()
        self.popen = subprocess.Popen(
            [sys.executable, "-S", "-c", STAYS], pass_fds=[theirs], stdout=says_ready, start_new_session=True
        )
        os.close(theirs)
        os.close(says_ready)
        assert os.read(ready, 1)  # until then it may have signals blocked, if this process does
        os.close(ready)

    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def join(self, seconds: float) -> None:
        self.popen.wait(seconds)

    @property
    def exitcode(self) -> int | None:
        return self.popen.returncode


@dataclass(eq=False)
class Puppet:
    """The worker's end of one process."""

    process: Process
    control: socket.socket
    out: int
    err: int
    frames: FrameReader = field(default_factory=FrameReader)

    def say(self, *messages: Message) -> None:
        self.control.sendall(b"".join(map(encode, messages)))

    def read(self) -> Message:
        while not (found := self.frames.feed(self.control.recv(65_536))):
            pass
        return read_for_worker(found[0])

    def die(self) -> None:
        self.process.popen.kill()
        self.process.popen.wait()
        self.close()

    def close(self) -> None:
        if self.control.fileno() != -1:
            self.control.close()
            os.close(self.out)
            os.close(self.err)


class Puppets:
    """Starts puppets instead of workers."""

    def __init__(self) -> None:
        self.forks = True
        self.made: list[Puppet] = []
        self.failing = False

    def start(self) -> Child:
        if self.failing:
            raise StartFailed("its process could not be started")
        ours, theirs = socket.socketpair()
        out, out_theirs = os.pipe()
        err, err_theirs = os.pipe()
        for end in (out, err):
            os.set_blocking(end, False)
        ours.setblocking(False)
        process = Process()
        self.made.append(Puppet(process=process, control=theirs, out=out_theirs, err=err_theirs))
        made: Any = process
        return Child(token="t", process=made, pid=process.popen.pid, control=ours, out=out, err=err)

    def kill(self, child: Child) -> None:
        child.signal_group(signal.SIGKILL)

    def close_child(self, child: Child) -> str:
        child.process.join(SOON)
        code = child.process.exitcode
        child.close()
        return (
            f"killed by {signal.Signals(-code).name}"
            if code is not None and code < 0
            else f"exit code {code}"
        )


@dataclass
class Bench:
    engine: LocalEngine
    puppets: Puppets

    def events(self, until: Callable[[list[EngineEvent]], object]) -> list[EngineEvent]:
        """What the engine gives until there is enough of it."""
        found: list[EngineEvent] = []
        ends = time.monotonic() + SOON
        while not until(found):
            assert time.monotonic() < ends, found
            found += self.engine.events(time.monotonic() + 0.05)
        return found

    def turn(self, times: int = 3) -> list[EngineEvent]:
        return [event for _ in range(times) for event in self.engine.events(0.0)]

    def idle(self) -> list[EngineEvent]:
        """Nothing is said for so long that every spare worker it wants is forked."""
        found: list[EngineEvent] = []
        before = -1
        while before != len(self.puppets.made):
            before = len(self.puppets.made)
            found += self.engine.events(time.monotonic() + 3 * QUIET_SECONDS)
        return found

    def start(self, label: str = "LLD-1") -> Puppet:
        before = len(self.puppets.made)
        pid = self.engine.start(label, job(label))
        assert len(self.puppets.made) <= before + 1
        return next(one for one in self.puppets.made if one.process.popen.pid == pid)

    def ready(self, label: str = "LLD-1") -> Puppet:
        puppet = self.start(label)
        puppet.say(HELLO)
        self.events(lambda found: found)
        return puppet

    def alive(self) -> int:
        return sum(one.process.is_alive() for one in self.puppets.made)


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    puppets = Puppets()
    server: Any = puppets
    with LocalEngine(server, expected=getattr(request, "param", 0)) as engine:
        yield Bench(engine=engine, puppets=puppets)
    for puppet in puppets.made:
        puppet.close()
        os.close(puppet.process.sentinel)
        assert not puppet.process.is_alive(), "no worker is left"


def test_a_worker_gets_its_job_and_is_heard(bench: Bench) -> None:
    puppet = bench.start()
    assert puppet.read() == job()
    puppet.say(HELLO, Beat())
    assert bench.events(lambda found: len(found) == 2) == [
        Said(item="LLD-1", attempt=1, message=HELLO),
        Said(item="LLD-1", attempt=1, message=Beat()),
    ]
    bench.engine.send("LLD-1", Drain(reason="stop"))
    assert puppet.read() == Drain(reason="stop")


def test_output_comes_in_whole_lines_and_the_last_one_with_the_end(bench: Bench) -> None:
    puppet = bench.ready()
    os.write(puppet.out, b"one\ntw")
    assert bench.events(lambda found: found) == [
        Printed(item="LLD-1", attempt=1, lines=("one",), error=False)
    ]
    os.write(puppet.out, b"o")
    os.write(puppet.err, b"oops\n")
    puppet.say(Ended(status="approved"))
    puppet.die()
    found = bench.events(lambda found: any(isinstance(one, Gone) for one in found))
    assert Said(item="LLD-1", attempt=1, message=Ended(status="approved")) in found
    assert Printed(item="LLD-1", attempt=1, lines=("two",), error=False) in found
    assert Printed(item="LLD-1", attempt=1, lines=("oops",), error=True) in found
    assert found[-1] == Gone(item="LLD-1", attempt=1, how="killed by SIGKILL")


@pytest.mark.parametrize(
    "sent",
    [
        encode(HELLO)[:4] + b"x" * len(encode(HELLO)[4:]),
        struct.pack(">I", MAX_WORKER_BYTES + 1),
        encode(Drain(reason="a message for workers")),
    ],
)
def test_a_worker_that_sends_nonsense_is_gone_and_the_others_are_not(bench: Bench, sent: bytes) -> None:
    liar, other = bench.ready("LLD-1"), bench.ready("LLD-2")
    liar.control.sendall(sent)
    (gone,) = bench.events(lambda found: found)
    assert isinstance(gone, Gone)
    assert gone.item == "LLD-1"
    assert str(gone.broken).startswith("its worker broke the protocol")
    other.say(Beat())
    assert bench.events(lambda found: found) == [Said(item="LLD-2", attempt=1, message=Beat())]


@pytest.mark.parametrize(
    ("how", "told"), [(Ending.TERMINATE, "killed by SIGTERM"), (Ending.KILL, "killed by SIGKILL")]
)
def test_a_worker_is_ended(bench: Bench, how: Ending, told: str) -> None:
    puppet = bench.ready()
    bench.engine.end("LLD-1", how)
    puppet.process.popen.wait(SOON)
    assert bench.events(lambda found: found) == [Gone(item="LLD-1", attempt=1, how=told)]
    bench.engine.end("LLD-1", how)  # of one that is gone already
    bench.engine.send("LLD-1", Drain(reason="stop"))
    assert bench.turn() == []


def test_messages_that_the_socket_does_not_take_at_once_arrive(bench: Bench) -> None:
    big = job(text="x" * 4_000_000)
    pid = bench.engine.start("LLD-1", big)
    bench.engine.send("LLD-1", Drain(reason="stop"))
    (puppet,) = bench.puppets.made
    assert puppet.process.popen.pid == pid
    puppet.control.settimeout(0.05)
    found: list[bytes] = []
    ends = time.monotonic() + SOON
    while len(found) < 2:
        assert time.monotonic() < ends
        bench.turn(1)
        try:
            found += puppet.frames.feed(puppet.control.recv(1_000_000))
        except TimeoutError:
            continue
    assert [read_for_worker(one) for one in found] == [big, Drain(reason="stop")]


def test_a_job_that_no_message_can_hold_is_a_start_that_failed(bench: Bench) -> None:
    with pytest.raises(StartFailed, match="its job cannot be sent"):
        bench.engine.start("LLD-1", job(text="x" * 20_000_000))
    assert bench.alive() == 0


def test_a_signal_ends_the_wait() -> None:
    server: Any = Puppets()
    with StopSignals() as signals, LocalEngine(server, wake=signals) as engine:
        signal.raise_signal(signal.SIGTERM)
        began = time.monotonic()
        assert list(engine.events(began + 3600)) == []
        assert time.monotonic() < began + 3000
        assert signals.read() == [signal.SIGTERM]


class HungServer:
    """A server that never answers: it still imports, or somebody stopped it."""

    def start(self) -> Child:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal did not end the wait")


@pytest.mark.parametrize("earlier", [True, False])
def test_a_signal_ends_the_start_of_a_worker(earlier: bool) -> None:
    server: Any = HungServer()
    with StopSignals() as signals, LocalEngine(server, wake=signals) as engine:
        if earlier:
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(StartFailed, match="stopped before its process started"):
            engine.start("LLD-1", job())
        assert signals.read() == [signal.SIGINT]


# Workers forked ahead.


@pytest.mark.parametrize("bench", [3], indirect=True)
def test_workers_are_forked_ahead_once_those_that_run_have_spoken(bench: Bench) -> None:
    first = bench.start("LLD-1")
    bench.idle()
    assert len(bench.puppets.made) == 1, "its start comes first"
    first.say(HELLO)
    bench.events(lambda found: found)
    bench.idle()
    assert len(bench.puppets.made) == 2, "one for each that runs"
    second = bench.start("LLD-2")
    assert second is bench.puppets.made[1]
    assert second.read() == job("LLD-2")
    second.say(HELLO)
    bench.events(lambda found: found)
    bench.idle()
    assert len(bench.puppets.made) == 3, "and no more than there are items to start"


@pytest.mark.parametrize("bench", [9], indirect=True)
def test_a_worker_that_shares_no_memory_is_started_ahead_alone(bench: Bench) -> None:
    bench.puppets.forks = False
    for number in range(1, 4):
        bench.start(f"LLD-{number}").say(HELLO)
    bench.events(lambda found: len(found) == 3)
    bench.idle()
    assert len(bench.puppets.made) == 3 + 1


@pytest.mark.parametrize("bench", [100], indirect=True)
def test_not_too_many_are_forked_ahead(bench: Bench) -> None:
    for number in range(MOST_SPARES + 2):
        bench.ready(f"LLD-{number}")
    bench.idle()
    assert sum(one.process.is_alive() for one in bench.puppets.made) == 2 * MOST_SPARES + 2


@pytest.mark.parametrize("bench", [2], indirect=True)
@pytest.mark.parametrize("noticed", [True, False])
def test_a_waiting_worker_that_died_is_replaced_and_nobody_hears_of_it(bench: Bench, noticed: bool) -> None:
    bench.ready()
    bench.idle()
    spare = bench.puppets.made[1]
    spare.die()
    if noticed:
        assert bench.idle() == []
    second = bench.start("LLD-2")
    assert second is not spare
    second.say(HELLO)
    assert bench.events(lambda found: found) == [Said(item="LLD-2", attempt=1, message=HELLO)]


@pytest.mark.parametrize("bench", [5], indirect=True)
def test_where_no_worker_can_be_forked_ahead_the_run_goes_on(bench: Bench) -> None:
    puppet = bench.start()
    puppet.say(HELLO)
    bench.puppets.failing = True
    bench.events(lambda found: found)
    assert bench.idle() == []
    puppet.say(Beat())
    assert bench.events(lambda found: found) == [Said(item="LLD-1", attempt=1, message=Beat())]
