"""One connection to the page's server; drops clients that send half a request or do not read the answer."""

import asyncio
import itertools
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 5.0  # until the first byte of a request, and again until the whole request is here
ANSWER_SECONDS = 5.0  # the client must read part of an answer within this time
MAX_PARTS = 12  # of those waits; a busy machine may need a minute for a large answer, but not longer
MAX_CONNECTIONS = 64  # a browser opens at most six

_NUMBERS = itertools.count()


class Connection(H11Protocol):
    """uvicorn's protocol, with a time limit on every wait for the client."""

    _request: asyncio.TimerHandle | None = None
    _answer: asyncio.TimerHandle | None = None
    _begun = False  # part of a request has arrived

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._number = next(_NUMBERS)
        # Notify us from the first unread byte on, not only after 64 KiB.
        transport.set_write_buffer_limits(high=0)
        self._expect_request()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._owes_request:
            self._begun = False
            _cancel(self._request)
        elif not self._begun:  # a byte now and then does not extend the time
            self._begun = True
            self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self._begun:  # a pipelined request
            self._begun = True
            self._expect_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._answer)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._request)
        super().connection_lost(exc)
        _cancel(self._answer)

    @property
    def _owes_request(self) -> bool:
        """Whether the client has sent no request yet, or only part of one."""
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    def _expect_request(self) -> None:
        _cancel(self._request)
        self._request = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _expect_reading(self, parts: int = 0) -> None:
        """Give the client time to read part of the rest of an answer."""
        left = self.transport.get_write_buffer_size()

        def look() -> None:
            if parts < MAX_PARTS and self.transport.get_write_buffer_size() < left:
                self._expect_reading(parts + 1)
            else:
                self.transport.abort()

        _cancel(self._answer)
        self._answer = self.loop.call_later(ANSWER_SECONDS, look)

    def _make_room(self) -> None:
        """Above the limit, drop the oldest connection that owes a request, so that nobody blocks others."""
        known = cast("set[Connection]", self.connections)
        open_now = [one for one in known if not one.transport.is_closing()]
        if len(open_now) > MAX_CONNECTIONS:
            owing = [one for one in open_now if one._owes_request]  # noqa: SLF001 - same class
            min(owing, key=lambda one: one._number).transport.abort()  # noqa: SLF001


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
