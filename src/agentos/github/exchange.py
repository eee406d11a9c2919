"""One request to one server and its whole answer: bounded in time and size, no redirect, no retry.

Coordinator process. A timeout between bytes does not bound an answer: a server that sends one byte at a time
can go on forever, even in the headers. So each request has its own thread, which is given up when time is up.
Its connection is then shut down and no other is opened, so that nothing is sent after that.
"""

import contextlib
import os
import socket
import ssl
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import parse_header_links
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError
from urllib3.exceptions import ProxyError as NoProxy
from urllib3.exceptions import SSLError as TLSError

from agentos import redact
from agentos.cookies import NO_COOKIES
from agentos.loopback import on_this_machine
from agentos.model_access import Network, Proxy, proxy_for

SILENT_SECONDS = 20.0  # without a byte
ANSWER_SECONDS = 30.0  # for an answer, from the name lookup to the last byte
MAX_ANSWER_BYTES = 32_000_000  # a page of 100 issues with the longest bodies is smaller
_PART_BYTES = 65_536


@dataclass(frozen=True, kw_only=True)
class ServerAnswer:
    """The complete answer of a server."""

    status: int
    headers: Mapping[str, str] = field(repr=False)  # names in lower case
    content: bytes = field(repr=False)

    @property
    def next_page(self) -> str | None:
        """The next page of a list, as the server says."""
        with contextlib.suppress(ValueError, KeyError):
            for link in parse_header_links(self.headers.get("link", "")):
                if link.get("rel") == "next":
                    return str(link["url"])
        return None


class NoAnswer(Exception):  # noqa: N818 - the name says what happened
    """There is no complete answer. The text is our own: a library's text may quote headers and bodies."""

    def __init__(self, why: str, *, sent: bool = True, passing: bool = True) -> None:
        super().__init__(why)
        self.sent = sent  # the request may have been received
        self.passing = passing  # the next try may succeed


class Exchange:
    """Requests to one server; no other server ever gets the token."""

    def __init__(
        self,
        api_url: str,
        headers: Mapping[str, str],
        *,
        silent: float = SILENT_SECONDS,
        seconds: float = ANSWER_SECONDS,
        network: Network | None = None,
    ) -> None:
        self._base = api_url
        self._network = network or Network()
        self._headers = dict(headers)
        self._silent = min(silent, seconds)
        self._seconds = seconds
        self.host = urlsplit(api_url).hostname or ""

    def send(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> ServerAnswer:
        """Send a request once; anything but a complete answer in time is a NoAnswer."""
        cut = _Cut()
        ended: list[ServerAnswer | NoAnswer] = []

        def talk() -> None:
            _HERE.cut = cut
            ended.append(self._talk(method, self._base + path, query, content))
            cut.over.set()

        thread = threading.Thread(target=talk, name="github", daemon=True)
        in_time = False
        try:
            thread.start()
            in_time = cut.over.wait(self._seconds)
        finally:
            # Also if Ctrl+C ends the wait.
            cut.now()
        if not in_time:  # what has arrived may be only the part before the cut
            raise NoAnswer(f"did not finish its answer within {self._seconds:g} s")
        if isinstance(ended[0], NoAnswer):
            raise ended[0]
        return ended[0]

    def _talk(
        self, method: str, url: str, query: Mapping[str, str] | None, content: bytes | None
    ) -> ServerAnswer | NoAnswer:
        try:
            # One connection per request: if the server closed a reused one in the meantime, a write would
            # be lost and nobody could be sure of it.
            with requests.Session() as session:
                # What stays on this machine uses no proxy. Without a setting, the usual variables count.
                chosen = self._network.from_environment or bool(self._network.proxies)
                session.trust_env = not chosen and not on_this_machine(self.host)
                if (proxy := proxy_for(self._base, self._network)) is not None:
                    session.proxies = dict.fromkeys(("http", "https"), _with_login(proxy))
                session.auth = _as_it_is
                session.cookies.set_policy(NO_COOKIES)
                session.mount("http://", _Watching(self._network.ca))
                session.mount("https://", _Watching(self._network.ca))
                with session.request(
                    method,
                    url,
                    params=query,
                    data=content,
                    headers=self._headers | {"Accept-Encoding": "gzip"},
                    timeout=self._silent,
                    allow_redirects=False,
                    stream=True,
                ) as response:
                    return _whole(response)
        except NoAnswer as exc:
            return NoAnswer(str(exc), sent=exc.sent, passing=exc.passing)
        except Exception as exc:  # noqa: BLE001 - whatever a library makes of nonsense is not an answer
            return self._in_words(exc)

    def _in_words(self, exc: Exception) -> NoAnswer:
        if isinstance(exc, requests.exceptions.SSLError):
            return NoAnswer("has a certificate that cannot be verified", sent=not _never_sent(exc))
        if isinstance(exc, requests.exceptions.ProxyError):
            return NoAnswer("cannot be reached through the proxy", sent=not _never_sent(exc))
        if _never_sent(exc):
            return NoAnswer("cannot be reached", sent=False)
        if isinstance(exc, requests.Timeout | ReadTimeoutError):
            return NoAnswer(f"did not answer within {self._silent:g} s")
        if isinstance(exc, requests.RequestException | HTTPError):
            return NoAnswer("dropped the connection")
        return NoAnswer(f"sent an answer that cannot be read ({type(exc).__name__})", passing=False)


class _Cut:
    """Ends a request from another thread."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._cut = False
        self._connection: socket.socket | None = None

    def watch(self, connection: socket.socket) -> None:
        """Keep a second handle of a connection; TLS takes over the first one."""
        with self._lock:
            if self._cut:
                raise NoAnswer("came too late", sent=False)
            self._connection = socket.socket(fileno=os.dup(connection.fileno()))

    def now(self) -> None:
        with self._lock:
            self._cut = True
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
                self._connection.close()
                self._connection = None


class _Here(threading.local):
    cut: _Cut


_HERE = _Here()  # the request of this thread


class _PlainConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _HERE.cut.watch(self.sock)


class _TLSConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _HERE.cut.watch(self.sock)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class _Watching(HTTPAdapter):
    """Opens connections that can be cut off, also to a proxy; trusts one more CA if there is one."""

    def __init__(self, ca: str) -> None:
        self._tls: dict[str, Any] = {"ssl_context": _trusting(ca)} if ca else {}
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **how: Any) -> None:
        super().init_poolmanager(*args, **(how | self._tls))
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TLSPool}

    def proxy_manager_for(self, proxy: str, **how: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **(how | self._tls))
        manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TLSPool}
        return manager


def _with_login(proxy: Proxy) -> str:
    if not proxy.user and proxy.password is None:
        return proxy.url
    password = "" if proxy.password is None else proxy.password.reveal()
    login = f"{quote(proxy.user, safe='')}:{quote(password, safe='')}"
    return proxy.url.replace("://", f"://{login}@", 1)


def _trusting(ca: str) -> ssl.SSLContext:
    """A context with this CA; the library adds those that it trusts anyway."""
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=ca)
    return context


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Leave the request alone; without this, credentials from a .netrc file would be added."""
    return request


def _whole(response: requests.Response) -> ServerAnswer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    coding = headers.get("content-encoding", "identity").strip().lower()
    content = bytearray()
    for part in response.raw.stream(_PART_BYTES, decode_content=False):
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            raise _too_large()
    if coding == "gzip":
        content = _unpacked(bytes(content))
    elif coding not in {"", "identity"}:
        raise NoAnswer("sent an answer in an encoding that was not requested", passing=False)
    # Our own secrets are removed, whoever put them there.
    return ServerAnswer(
        status=response.status_code,
        headers=redact.clean(headers),
        content=redact.redact_bytes(bytes(content)),
    )


def _unpacked(data: bytes) -> bytearray:
    # Done here with a limit, because a small answer may unpack to one that fills the memory.
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = unpacker.decompress(data, MAX_ANSWER_BYTES + 1)
    except zlib.error:
        raise NoAnswer("sent an answer that cannot be decompressed", passing=False) from None
    if len(content) > MAX_ANSWER_BYTES:
        raise _too_large()
    return bytearray(content)


def _too_large() -> NoAnswer:
    return NoAnswer(f"sent an answer larger than {MAX_ANSWER_BYTES:,} bytes", passing=False)


def _never_sent(exc: BaseException) -> bool:
    """Say whether no connection was made, so that the server cannot have received anything."""
    if isinstance(exc, requests.ConnectTimeout):
        return True
    if not isinstance(exc, requests.ConnectionError) or not exc.args:
        return False
    reason = getattr(exc.args[0], "reason", None)
    if isinstance(reason, TLSError):
        return bool(reason.args) and isinstance(reason.args[0], ssl.SSLCertVerificationError)
    if isinstance(reason, NoProxy):
        # The proxy could not be reached, or it refused to open the tunnel: nothing got through.
        tunnel = isinstance(reason.original_error, OSError) and "Tunnel connection failed" in str(reason)
        return tunnel or isinstance(reason.original_error, NewConnectionError | ConnectTimeoutError)
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)
