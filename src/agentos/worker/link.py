"""The worker's end of the socket: asks for leases, reports events, receives the stop. Worker process."""

import select
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict

from agentos.errors import NoUsableKey, OwnFault
from agentos.frames import FrameReader, encode, read_for_worker
from agentos.llm.caller import LeaseRequest
from agentos.llm.provider import Cancel
from agentos.wire import (
    Beat,
    CallSettled,
    Drain,
    Job,
    LeaseGranted,
    LeaseRefused,
    LeaseWanted,
    Message,
    ProtocolError,
    ToWorker,
    Vet,
    Vetted,
)
from agentos.worker.parent_death import end_own_group

BEAT_SECONDS = 5.0  # a worker that is silent for several of these is frozen
_CHUNK = 65_536


class Link:
    """The socket and a thread that listens. End of file means that the coordinator is dead."""

    def __init__(self, control: socket.socket, cancel: Cancel) -> None:
        self._control = control
        self._cancel = cancel
        self._sending = threading.Lock()
        self._reader = FrameReader()
        self._answers: dict[int, LeaseGranted | LeaseRefused] = {}
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
        self._number += 1
        number = self._number
        self.send(LeaseWanted(number=number, **asdict(ask)))
        self._cancel.wait(lambda: number in self._answers, None)
        answer = self._answers.pop(number)
        if isinstance(answer, LeaseRefused) and answer.own_fault:
            raise OwnFault
        if isinstance(answer, LeaseRefused):
            raise NoUsableKey(answer.reason)
        return answer

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
        elif isinstance(message, LeaseGranted | LeaseRefused):
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
