"""The engine that runs each item in a local process, from `worker_server`. Coordinator process.

Spare workers are forked ahead while nothing else happens, so that a later item does not wait for a process.
"""

import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol, Self

from agentos import wire
from agentos.engine.child import STACKS_SIGNAL, Child
from agentos.engine.protocol import Ending, EngineEvent, Gone, Printed, Said
from agentos.engine.worker_server import WorkerServer
from agentos.errors import StartFailed

LONGEST_SLEEP = 3600.0  # seconds; the kernel does not accept a wait of months
MOST_SPARES = 12  # workers forked ahead; each takes a few megabytes while it waits
QUIET_SECONDS = 0.05  # without a message from any worker, before a spare is forked
_LAST_READS = 64  # of a dead worker's stream: more than a pipe can hold
_STREAM_READS = 16  # chunks of one stream read in a row, before other streams get their turn

_Handler = Callable[[Child, int, int], Iterator[EngineEvent]]


class HasFileno(Protocol):
    """What the kernel can watch, such as a socket."""

    def fileno(self) -> int: ...


class Wakes(HasFileno, Protocol):
    """What ends a wait: stop signals."""

    def raising(self) -> AbstractContextManager[None]:
        """Raise KeyboardInterrupt instead, where nothing can watch the descriptor."""
        ...


class LocalEngine:
    """Starts, reads from and ends worker processes."""

    def __init__(self, server: WorkerServer, *, wake: Wakes | None = None, expected: int = 0) -> None:
        self._server = server
        self._selector = selectors.DefaultSelector()
        self._children: dict[str, Child] = {}
        self._silent: set[str] = set()  # started, but no message yet
        self._spares: deque[Child] = deque()
        self._to_start = expected  # items that spares are made for
        self._interruptible: Callable[[], AbstractContextManager[None]]
        self._interruptible = nullcontext if wake is None else wake.raising
        if wake is not None:
            self._selector.register(wake, selectors.EVENT_READ, None)

    def start(self, item: str, job: wire.Job) -> int:
        child = self._take_spare() or self._new_child()
        self._to_start -= 1
        child.item, child.attempt = item, job.attempt
        self._children[item] = child
        self._silent.add(item)
        for stream in child.streams:
            self._watch(stream, child, self._on_output)
        try:
            self.send(item, job)
        except wire.ProtocolError as exc:
            self._forget(child)
            raise StartFailed(f"its job cannot be sent: {exc}") from exc
        return child.pid

    def send(self, item: str, message: wire.Message) -> None:
        child = self._children.get(item)
        if child is not None and child.send(message):
            self._watch(child.control, child, self._on_control, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def end(self, item: str, how: Ending) -> None:
        child = self._children.get(item)
        if child is None:
            return
        if how is Ending.STACKS:
            child.signal(STACKS_SIGNAL)
        else:
            child.signal_group(signal.SIGTERM if how is Ending.TERMINATE else signal.SIGKILL)

    def events(self, until: float) -> Iterator[EngineEvent]:
        for key, mask in self._ready(until):
            if key.data is None:
                continue  # the loop itself reads the stop signals
            child, handle = key.data
            if not child.closed:
                yield from self._contained(child, handle, key.fd, mask)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Kill every worker that is left."""
        for child in (*self._children.values(), *self._spares):
            self._server.kill(child)
            self._server.close_child(child)
        self._children.clear()
        self._spares.clear()
        self._selector.close()

    # Waiting.

    def _ready(self, until: float) -> list[tuple[selectors.SelectorKey, int]]:
        while self._wants_spare():
            # The loop blocks while a process is forked, so fork only after a quiet moment.
            quiet = min(QUIET_SECONDS, max(0.0, until - time.monotonic()))
            if (ready := self._selector.select(quiet)) or quiet < QUIET_SECONDS:
                return ready
            try:
                self._spares.append(self._new_child())
            except StartFailed:
                self._to_start = 0
        return self._selector.select(min(LONGEST_SLEEP, max(0.0, until - time.monotonic())))

    def _wants_spare(self) -> bool:
        """Whether to fork a spare worker: never while a needed worker is still starting."""
        # As many as may end at the same time. Only one if it cannot be forked: it would share no memory.
        most = min(MOST_SPARES, len(self._children)) if self._server.forks else 1
        return bool(self._children) and not self._silent and len(self._spares) < min(self._to_start, most)

    # Workers.

    def _new_child(self) -> Child:
        try:
            with self._interruptible():
                child = self._server.start()
        except KeyboardInterrupt:
            raise StartFailed("the run stopped before its process started") from None
        self._watch(child.control, child, self._on_control)
        self._watch(child.process.sentinel, child, self._on_death)
        return child

    def _take_spare(self) -> Child | None:
        while self._spares:
            child = self._spares.popleft()
            if child.process.is_alive():
                return child
            self._drop(child)
        return None

    def _contained(self, child: Child, handle: _Handler, fd: int, mask: int) -> Iterator[EngineEvent]:
        """Handle what one worker sent. If that fails, only that worker ends."""
        try:
            yield from handle(child, fd, mask)
        except wire.ProtocolError as exc:
            yield from self._gone(child, broken=_protocol_error(exc))
        except (OSError, ValueError) as exc:
            yield from self._gone(
                child, broken=f"unexpected {type(exc).__name__} while reading from its worker"
            )

    def _on_control(self, child: Child, _fd: int, mask: int) -> Iterator[EngineEvent]:
        if mask & selectors.EVENT_WRITE and not child.flush():
            self._watch(child.control, child, self._on_control)
        if not mask & selectors.EVENT_READ:
            return
        messages = child.receive()
        if messages is None:
            # End of file means that the worker is dead, whatever the server says; it may itself be dead.
            yield from self._gone(child)
            return
        self._silent.discard(child.item)
        for message in messages:
            yield Said(item=child.item, attempt=child.attempt, message=message)

    def _on_death(self, child: Child, _fd: int, _mask: int) -> Iterator[EngineEvent]:
        yield from self._gone(child)

    def _on_output(self, child: Child, stream: int, _mask: int) -> Iterator[EngineEvent]:
        lines, ended = child.read_lines(stream, _STREAM_READS)
        if ended:
            self._selector.unregister(stream)
        if lines:
            yield Printed(
                item=child.item, attempt=child.attempt, lines=tuple(lines), error=stream == child.err
            )

    def _gone(self, child: Child, broken: str | None = None) -> Iterator[EngineEvent]:
        """Kill what is left of a worker, and yield its last messages."""
        if child in self._spares:
            self._spares.remove(child)
            self._drop(child)
            return
        self._server.kill(child)
        if broken is None:
            try:
                for message in child.remaining_messages():
                    yield Said(item=child.item, attempt=child.attempt, message=message)
            except wire.ProtocolError as exc:
                broken = _protocol_error(exc)
        for stream in child.streams:
            if lines := child.last_lines(stream, _LAST_READS):
                yield Printed(
                    item=child.item, attempt=child.attempt, lines=tuple(lines), error=stream == child.err
                )
        yield Gone(item=child.item, attempt=child.attempt, how=self._forget(child), broken=broken)

    def _forget(self, child: Child) -> str:
        self._children.pop(child.item, None)
        self._silent.discard(child.item)
        return self._drop(child)

    def _drop(self, child: Child) -> str:
        self._server.kill(child)
        for watched in (child.control.fileno(), child.process.sentinel, *child.streams):
            with suppress(KeyError, ValueError):
                self._selector.unregister(watched)
        return self._server.close_child(child)

    def _watch(
        self, watched: int | HasFileno, child: Child, handle: _Handler, mask: int = selectors.EVENT_READ
    ) -> None:
        try:
            self._selector.modify(watched, mask, (child, handle))
        except KeyError:
            self._selector.register(watched, mask, (child, handle))


def _protocol_error(exc: wire.ProtocolError) -> str:
    return f"its worker broke the protocol: {exc}"
