"""The simulator as a server: in an event loop, in a thread for tests, or as a separate program."""

import asyncio
import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from agentos.errors import UsageError
from agentos.simulator.config import HOST, SimulatorConfig
from agentos.simulator.http import ClientLeft, HttpConnection, HttpLimits
from agentos.simulator.service import Service

BACKLOG = 1_024
ACCEPT_STEPS = 4  # of the event loop, from accepting a socket to `_accept`

log = logging.getLogger(__name__)


class Simulator:
    """A simulated provider on the loopback interface."""

    def __init__(self, config: SimulatorConfig) -> None:
        self._config = config
        self._service = Service(config)
        self._limits = HttpLimits(
            idle_timeout=config.idle_timeout,
            request_timeout=config.request_timeout,
            max_body=config.max_body,
            max_header=config.max_header,
        )
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> int:
        """Listen, and return the port."""
        try:
            self._server = await asyncio.start_server(self._accept, HOST, self._config.port, backlog=BACKLOG)
        except (OSError, OverflowError) as exc:
            raise UsageError(f"The simulator cannot listen on port {self._config.port}: {exc}") from exc
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """End every connection and stop listening."""
        if self._server is None:
            return
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        # asyncio forgets a socket, and leaves it open, that it accepted just before the server is closed.
        for _ in range(ACCEPT_STEPS):
            await asyncio.sleep(0)
        self._server.close()
        connections = dict(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for writer in connections.values():
            writer.close()  # a task that is cancelled before its first step closes nothing
        await self._server.wait_closed()
        self._server = None

    def stats(self) -> dict[str, Any]:
        return self._service.stats()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A separate task: asyncio logs an error if its own task is cancelled.
        task = asyncio.create_task(self._connected(HttpConnection(reader, writer, self._limits)))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _connected(self, connection: HttpConnection) -> None:
        try:
            while len(self._connections) <= self._config.max_connections:
                await self._service.handle(connection, await connection.next_request())
        except ClientLeft:
            pass
        except Exception:
            log.exception("the simulator failed on a request")
            with contextlib.suppress(ClientLeft):
                await connection.refuse(500, "The simulator failed; see its log.")
        finally:
            await connection.close()


def run_simulator(config: SimulatorConfig) -> None:
    """Serve until SIGINT or SIGTERM. Print the address on one line."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(config))


async def _serve(config: SimulatorConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows has KeyboardInterrupt instead
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    simulator = Simulator(config)
    port = await simulator.start()
    try:
        sys.stdout.write(f"listening on http://{HOST}:{port}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await simulator.stop()


@contextlib.contextmanager
def running_simulator(config: SimulatorConfig | None = None) -> Iterator[str]:
    """Serve from a thread until the context ends; yields the base URL."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()

    async def serve() -> None:
        simulator = Simulator(config or SimulatorConfig())
        stop = asyncio.Event()
        try:
            port = await simulator.start()
        except BaseException as exc:
            started.set_exception(exc)
            raise
        started.set_result((asyncio.get_running_loop(), stop, port))
        try:
            await stop.wait()
        finally:
            await simulator.stop()

    def run() -> None:
        with contextlib.suppress(UsageError):  # raised in the caller
            asyncio.run(serve())

    thread = threading.Thread(target=run, name="simulator", daemon=True)
    thread.start()
    loop, stop, port = started.result()
    try:
        yield f"http://{HOST}:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
