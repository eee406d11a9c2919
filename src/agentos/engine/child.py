"""The coordinator's end of one worker: its process, socket and two output streams. Coordinator process."""

import contextlib
import os
import select
import signal
import socket
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

from agentos.console.lines import OutputPrefixer
from agentos.frames import (
    MAX_WORKER_BYTES,
    MESSAGES_MOST,
    WORKER_BYTES_MOST,
    FrameReader,
    encode,
    read_for_coordinator,
)
from agentos.redact import redact
from agentos.wire import Message, ProtocolError, ToCoordinator

STACKS_SIGNAL = signal.SIGUSR1  # makes a worker print the stack trace of every thread
GONE_SECONDS = 1.0  # for the last messages of a dead worker
_CHUNK = 65_536


@dataclass(kw_only=True, eq=False)
class Child:
    """A worker process. `item` is empty, and `attempt` 0, while it waits for a job."""

    item: str = ""
    attempt: int = 0
    token: str
    process: BaseProcess
    pid: int
    control: socket.socket
    out: int
    err: int
    frames: FrameReader = field(default_factory=lambda: FrameReader(MAX_WORKER_BYTES))
    bytes_left: int = WORKER_BYTES_MOST
    messages_left: int = MESSAGES_MOST
    unsent: deque[bytes] = field(default_factory=deque)
    streams: dict[int, OutputPrefixer] = field(init=False)
    closed: bool = False

    def __post_init__(self) -> None:
        self.streams = {stream: OutputPrefixer(redact) for stream in (self.out, self.err)}

    def send(self, message: Message) -> bool:
        """Send a message; keep what the socket does not take now. Return whether anything is kept."""
        self.unsent.append(encode(message))
        return self.flush()

    def flush(self) -> bool:
        while self.unsent:
            try:
                sent = self.control.send(self.unsent[0])
            except BlockingIOError:
                return True
            except OSError:
                self.unsent.clear()  # the worker is dead; the end of file will show it
                return False
            if sent == len(self.unsent[0]):
                self.unsent.popleft()
            else:
                self.unsent[0] = self.unsent[0][sent:]
        return False

    def receive(self) -> list[ToCoordinator] | None:
        """Read what has arrived; None means end of file."""
        try:
            data = self.control.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        frames = self.frames.feed(data)
        self.bytes_left -= len(data)
        self.messages_left -= len(frames)
        if self.bytes_left < 0 or self.messages_left < 0:
            raise ProtocolError("more messages than one worker may send")
        return [read_for_coordinator(frame) for frame in frames]

    def remaining_messages(self) -> list[ToCoordinator]:
        """Read everything that a dead worker had sent."""
        messages: list[ToCoordinator] = []
        ready = select.poll()  # select() does not support descriptors above 1023
        ready.register(self.control, select.POLLIN)
        while ready.poll(GONE_SECONDS * 1000):
            more = self.receive()
            if more is None:
                break
            messages += more
        return messages

    def read_lines(self, stream: int, reads: int) -> tuple[list[str], bool]:
        """Read up to this many chunks of a stream; return the complete lines and whether it has ended."""
        lines: list[str] = []
        for _ in range(reads):
            try:
                data = os.read(stream, _CHUNK)
            except BlockingIOError:
                return lines, False
            if not data:
                return lines, True
            lines += self.streams[stream].feed(data)
        return lines, False

    def last_lines(self, stream: int, reads: int) -> list[str]:
        """Read what a dead worker left in a stream, including an unfinished last line."""
        lines, _ = self.read_lines(stream, reads)
        return lines + self.streams[stream].close()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        self.signal(number)  # it may not have its own group yet

    def close(self) -> None:
        self.closed = True
        self.control.close()
        os.close(self.out)
        os.close(self.err)
