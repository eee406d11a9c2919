"""One HTTP/1.1 connection of the simulator: reads requests, writes responses, and can break them."""

import asyncio
import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import parse_qsl

import h11

from agentos.simulator.dialect import Headers, dump

READ_SIZE = 65_536
WRITE_TIMEOUT = 60.0  # seconds a client may take to read a response
_CLOSE_TIMEOUT = 1.0  # seconds
_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}


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
    """The client closed the connection, or must not be served any more."""


class HttpConnection:
    """h11 parses each request with a new parser. Responses are written here, so faults can break them."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: HttpLimits
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._early = bytearray()  # data of the next request that arrived early
        self._keep_alive = True
        self._modern = True  # HTTP/1.1: supports chunks
        self._chunked = False

    async def next_request(self) -> HttpRequest:
        """Return the next request; raise ClientLeft if there will be none."""
        if not self._keep_alive:
            raise ClientLeft
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.max_header)
        data = bytes(self._early) or await self._read(started=False)
        self._early.clear()
        try:
            parser.receive_data(data)
            return await self._receive(parser)
        except h11.RemoteProtocolError as exc:
            await self.refuse(exc.error_status_hint or 400, "The request is not valid HTTP.")
            raise ClientLeft from exc

    async def _receive(self, parser: h11.Connection) -> HttpRequest:
        request: h11.Request | None = None
        body = bytearray()
        sent_continue = False
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                if parser.they_are_waiting_for_100_continue and not sent_continue:
                    sent_continue = True
                    await self.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
                parser.receive_data(await self._read(started=True))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._limits.max_body:
                    await self.refuse(413, "The request is too large.")
                    raise ClientLeft
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                self._early += parser.trailing_data[0]
                # h11 has a separate state for requests after which the connection must close.
                self._keep_alive = parser.their_state is h11.DONE
                self._modern = request.http_version >= b"1.1"
                return _request(request, bytes(body))
            else:
                raise ClientLeft

    async def _read(self, *, started: bool) -> bytes:
        seconds = self._limits.request_timeout if started else self._limits.idle_timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._reader.read(READ_SIZE)
        except TimeoutError:
            if started:
                await self.refuse(408, "The request took too long.")
            raise ClientLeft from None
        except OSError as exc:
            raise ClientLeft from exc

    async def refuse(self, status: int, message: str) -> None:
        """Respond to an unreadable request; it is the last response."""
        self._keep_alive = False
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        await self.send(status, [], dump({"error": error}))
        # Read and drop what the client still sends: closing with unread data would destroy the response.
        with contextlib.suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                while await self._reader.read(READ_SIZE):
                    pass

    async def send(
        self, status: int, headers: Headers, body: bytes, *, content_type: str = "application/json"
    ) -> None:
        """Send a complete response."""
        length = ("content-length", str(len(body)))
        await self.raw(self._head(status, [("content-type", content_type), length, *headers]) + body)

    async def start(self, status: int, headers: Headers) -> None:
        """Start a response that is sent in parts."""
        self._chunked = self._modern and all(name != "content-length" for name, _ in headers)
        extra = [("transfer-encoding", "chunked")] if self._chunked else []
        await self.raw(self._head(status, [*headers, *extra]))

    async def part(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def end(self) -> None:
        if self._chunked:
            await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        """Send bytes unchanged."""
        if self._writer.is_closing():
            raise ClientLeft
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size() == 0:
            return
        try:
            async with asyncio.timeout(WRITE_TIMEOUT):
                await self._writer.drain()
        except (OSError, TimeoutError) as exc:
            raise ClientLeft from exc

    async def pause(self, seconds: float | None) -> None:
        """Wait; None is forever. Raise ClientLeft as soon as the client disconnects."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self._early) <= self._limits.max_body:
                    try:
                        data = await self._reader.read(READ_SIZE)
                    except OSError as exc:
                        raise ClientLeft from exc
                    if not data:
                        raise ClientLeft
                    self._early += data
                raise ClientLeft

    def reset(self) -> None:
        """Make the operating system send a reset instead of a normal close."""
        found = self._writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection; first flush what was written, if the client still reads."""
        try:
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._writer.wait_closed()
        finally:
            self._writer.transport.abort()

    def _head(self, status: int, headers: Headers) -> bytes:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}", f"date: {_date(int(time.time()))}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if not self._keep_alive:
            lines.append("connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


def _request(event: h11.Request, body: bytes) -> HttpRequest:
    path, _, query = event.target.decode("latin-1").partition("?")
    return HttpRequest(
        method=event.method.decode("ascii"),
        path=path,
        query=dict(parse_qsl(query)) if query else {},
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers},
        body=body,
    )
