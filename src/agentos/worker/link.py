"""The worker's end of the socket: asks for leases, reports events, receives the stop. Worker process."""

import select
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict

from agentos.errors import NoUsableKey, OwnFault
from agentos.frames import FrameReader, encode, read_for_worker
from agentos.llm.caller import LeaseRequest
from agentos.llm.provider import Cancel
from agentos.repo_map.parts import Range, Reading
from agentos.wire import (
    Beat,
    CallSettled,
    Drain,
    Job,
    LeaseGranted,
    LeaseRefused,
    LeaseWanted,
    LookedUp,
    LookUp,
    Message,
    ProtocolError,
    ToWorker,
    Vet,
    Vetted,
)
from agentos.worker.parent_death import end_own_group

BEAT_SECONDS = 5.0  # a worker that is silent for several of these is frozen
WISHES_MOST = 1_000  # that are sent; far fewer count
_CHUNK = 65_536


class Link:
    """The socket and a thread that listens. End of file means that the coordinator is dead."""

    def __init__(self, control: socket.socket, cancel: Cancel) -> None:
        self._control = control
        self._cancel = cancel
        self._sending = threading.Lock()
        self._reader = FrameReader()
        self._answers: dict[int, LeaseGranted | LeaseRefused | LookedUp] = {}
        self._vetted: dict[int, Vetted] = {}
        self._vetting = threading.Condition()
        self._number = 0

    def receive_job(self) -> Job:
        """Read the first message, which is the job, then listen for others in a thread."""
        messages = self._read()
        first = messages.pop(0)
        if not isinstance(first, Job):
            raise ProtocolError("the first message is not a job")
        for message in messages:
            self._take(message)
        threading.Thread(target=self._listen, name="link", daemon=True).start()
        return first

    def send(self, message: Message) -> None:
        data = encode(message)
        try:
            with self._sending:
                self._control.sendall(data)
        except OSError:
            end_own_group()

    def lease(self, ask: LeaseRequest) -> LeaseGranted:
        """Wait for the right to make one call. Waiting does not count as a try and has no limit here."""
        answer = self._answer(lambda number: LeaseWanted(number=number, **asdict(ask)))
        if isinstance(answer, LeaseRefused) and answer.own_fault:
            raise OwnFault
        if isinstance(answer, LeaseRefused):
            raise NoUsableKey(answer.reason)
        assert isinstance(answer, LeaseGranted)
        return answer

    def look_up(
        self, *, wishes: Sequence[str], names: Sequence[str], known: Sequence[Range], tokens: int
    ) -> Reading:
        """Wait for parts of the repository; the coordinator may be on another machine."""
        few = tuple(wishes[:WISHES_MOST])
        answer = self._answer(
            lambda number: LookUp(
                number=number, wishes=few, names=tuple(names), known=tuple(known), tokens=tokens
            )
        )
        assert isinstance(answer, LookedUp)
        return answer.reading

    def _answer(self, message: Callable[[int], Message]) -> LeaseGranted | LeaseRefused | LookedUp:
        self._number += 1
        number = self._number
        self.send(message(number))
        self._cancel.wait(lambda: number in self._answers, None)
        return self._answers.pop(number)

    def vet(self, texts: Sequence[str]) -> str | None:
        """Ask for the name of a secret in the texts. The answer is quick, so a stop waits for it."""
        self._number += 1
        number = self._number
        self.send(Vet(number=number, texts=tuple(texts)))
        with self._vetting:
            self._vetting.wait_for(lambda: number in self._vetted)
            return self._vetted.pop(number).secret

    def settle(self, settled: CallSettled) -> None:
        self.send(settled)

    def _listen(self) -> None:
        while True:
            while not select.select([self._control], [], [], BEAT_SECONDS)[0]:
                self.send(Beat())
            for message in self._read():
                self._take(message)

    def _take(self, message: ToWorker) -> None:
        if isinstance(message, Drain):
            self._cancel.set()
        elif isinstance(message, Vetted):
            with self._vetting:
                self._vetted[message.number] = message
                self._vetting.notify_all()
        elif isinstance(message, LeaseGranted | LeaseRefused | LookedUp):
            self._answers[message.number] = message
            self._cancel.wake()

    def _read(self) -> list[ToWorker]:
        frames: list[bytes] = []
        while not frames:
            try:
                data = self._control.recv(_CHUNK)
            except OSError:
                data = b""
            if not data:
                end_own_group()
            try:
                frames = self._reader.feed(data)
            except ProtocolError:
                end_own_group()
        return [read_for_worker(frame) for frame in frames]
