"""One HTTP/1.1 connection of the simulator: requests in, answers out, and the ways it can go wrong."""

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import parse_qsl

import h11

from agentos.simulator.dialect import Headers, dump

READ_SIZE = 65_536
WRITE_TIMEOUT = 60.0  # seconds a client may take to read what it was sent
_CLOSE_TIMEOUT = 1.0  # seconds


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]  # lower case
    body: bytes


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    idle_timeout: float
    request_timeout: float
    max_body: int
    max_header: int


class ClientLeft(Exception):  # noqa: N818
    """The client closed the connection, or is not to be served any further."""


class HttpConnection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: HttpLimits
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.max_header)

    async def next_request(self) -> HttpRequest:
        """Return the next request; raise ClientLeft when none will come."""
        if self._h11.our_state is h11.DONE:
            self._h11.start_next_cycle()
        elif self._h11.our_state is not h11.IDLE:
            raise ClientLeft
        try:
            return await self._receive()
        except h11.RemoteProtocolError as exc:
            await self.refuse(exc.error_status_hint or 400, "The request is not valid HTTP.")
            raise ClientLeft from exc

    async def _receive(self) -> HttpRequest:
        request: h11.Request | None = None
        parts: list[bytes | bytearray] = []
        size = 0
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                await self._read(idle=request is None and not self._h11.trailing_data[0])
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size > self._limits.max_body:
                    await self.refuse(413, "The request is too large.")
                    raise ClientLeft
                parts.append(event.data)
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                return _request(request, b"".join(parts))
            else:
                raise ClientLeft

    async def _read(self, *, idle: bool) -> None:
        if self._h11.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        seconds = self._limits.idle_timeout if idle else self._limits.request_timeout
        try:
            async with asyncio.timeout(seconds):
                data = await self._reader.read(READ_SIZE)
        except TimeoutError:
            if not idle:
                await self.refuse(408, "The request took too long.")
            raise ClientLeft from None
        except OSError as exc:
            raise ClientLeft from exc
        self._h11.receive_data(data)

    async def refuse(self, status: int, message: str) -> None:
        """Answer what could not be read as a request, and close."""
        if self._h11.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            error = {
                "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}
            }
            await self.send(status, [("connection", "close")], dump(error))

    async def send(
        self, status: int, headers: Headers, body: bytes, *, content_type: str = "application/json"
    ) -> None:
        """Send a whole answer."""
        length = ("content-length", str(len(body)))
        head = _response(status, [("content-type", content_type), length, *headers])
        self._write(head, h11.Data(data=body), h11.EndOfMessage())
        await self._drain()

    async def start(self, status: int, headers: Headers) -> None:
        """Begin an answer that comes in parts."""
        self._write(_response(status, headers))
        await self._drain()

    async def part(self, data: bytes) -> None:
        self._write(h11.Data(data=data))
        await self._drain()

    async def end(self) -> None:
        self._write(h11.EndOfMessage())
        await self._drain()

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._drain()

    async def pause(self, seconds: float | None) -> None:
        """Wait, for ever where None; raise ClientLeft as soon as the client is gone."""
        early = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while early <= self._limits.max_body:
                    try:
                        data = await self._reader.read(READ_SIZE)
                    except OSError as exc:
                        raise ClientLeft from exc
                    if not data:
                        raise ClientLeft
                    early += len(data)
                    self._h11.receive_data(data)  # the next request, sent early; its turn comes
                raise ClientLeft

    def reset(self) -> None:
        """Make the operating system send a reset instead of a proper end."""
        found = self._writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        """End the connection, with what was written flushed where the client still reads."""
        try:
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._writer.wait_closed()
        finally:
            self._writer.transport.abort()

    def _write(self, *events: h11.Event) -> None:
        try:
            data = b"".join(self._h11.send(event) or b"" for event in events)
        except h11.LocalProtocolError as exc:
            raise ClientLeft from exc
        self._writer.write(data)

    async def _drain(self) -> None:
        if self._writer.is_closing():
            raise ClientLeft
        if self._writer.transport.get_write_buffer_size() == 0:
            return
        try:
            async with asyncio.timeout(WRITE_TIMEOUT):
                await self._writer.drain()
        except (OSError, TimeoutError) as exc:
            raise ClientLeft from exc


def _request(event: h11.Request, body: bytes) -> HttpRequest:
    path, _, query = event.target.decode("latin-1").partition("?")
    return HttpRequest(
        method=event.method.decode("ascii"),
        path=path,
        query=dict(parse_qsl(query)) if query else {},
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers},
        body=body,
    )


def _response(status: int, headers: Headers) -> h11.Response:
    return h11.Response(status_code=status, headers=[("date", formatdate(usegmt=True)), *headers])
