"""Names the cause of a call that got no answer: what failed on the way to the server. Worker process.

Only fixed words and numbers come out: the text of a library's error may contain the request, and so the key.
"""

import re
import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from agentos.model import CallError

_CERTIFICATE = {  # by OpenSSL's number
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed",
    19: "its issuer is self-signed",
    20: "its issuer is unknown",
    21: "its issuer is unknown",
    62: "it is for another host",
    64: "it is for another address",
}
_CONNECTING: dict[type[OSError], str] = {  # the first that fits
    ssl.SSLError: "the TLS handshake failed",
    socket.gaierror: "host name not found (DNS)",
    ConnectionRefusedError: "connection refused",
    ConnectionError: "connection reset",
    TimeoutError: "timed out connecting",
    OSError: "host or network unreachable",
}
_TIMED_OUT = {"ConnectTimeout": "timed out connecting", "PoolTimeout": "timed out waiting for a connection"}
_FIRST_CONNECTION = frozenset({*_CONNECTING.values(), _TIMED_OUT["ConnectTimeout"]}) - {
    _CONNECTING[ssl.SSLError]
}
_STATUS = re.compile(r"\b[1-5]\d\d\b", re.ASCII)


_PROXY_REFUSES = {"407": "the proxy requires a login", "403": "the proxy does not allow this server"}
_CUT_SHORT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)  # may be an outage


class Failure(NamedTuple):
    """What kind of failure it is, and in words."""

    error_class: CallError
    words: str


def host_of(url: str) -> str:
    """The host of a URL, with its port if the URL names one; never its user, path or query."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "the server"
    if host is None:
        return "the server"
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"


def read_failure(exc: BaseException, *, answering: bool) -> Failure:
    """Name the cause of an error of the HTTP client. `answering`: the server had begun to."""
    name = type(exc).__name__
    if name in _TIMED_OUT:
        return Failure(CallError.UNREACHABLE, _TIMED_OUT[name])
    if name.endswith("Timeout"):
        return Failure(CallError.TRANSIENT, "timed out waiting for a reply")
    if name == "ProxyError":
        return _of_proxy(str(exc))
    if name == "ConnectError":
        return _not_connected(exc)
    if not answering and (name == "ReadError" or str(exc).startswith("Server disconnected without sending")):
        return Failure(CallError.DROPPED, "the connection was closed before a reply")
    words = "the reply is not HTTP" if name == "RemoteProtocolError" else f"the request failed: {name}"
    return Failure(CallError.TRANSIENT, "the reply ended early" if answering else words)


def _of_proxy(text: str) -> Failure:
    status = found[0] if (found := _STATUS.search(text)) else ""
    after = f" (HTTP {status})" if status else ""
    if status in _PROXY_REFUSES:
        return Failure(CallError.PROXY_REFUSED, f"{_PROXY_REFUSES[status]}{after}")
    return Failure(CallError.UNREACHABLE, f"the proxy failed{after}")


def never_connected(failure: Failure) -> bool:
    """Whether the first connection failed: to the proxy, if there is one."""
    return failure.error_class is CallError.UNREACHABLE and failure.words in _FIRST_CONNECTION


def _not_connected(exc: BaseException) -> Failure:
    cause = next((one for one in _causes(exc) if isinstance(one, OSError)), None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = _CERTIFICATE.get(cause.verify_code, f"OpenSSL error {cause.verify_code}")
        return Failure(CallError.UNTRUSTED, f"the certificate is not trusted: {why}")
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, _CUT_SHORT):
        return Failure(CallError.WRONG_ENDPOINT, "the TLS handshake failed; the port may not be for https")
    for kind, words in _CONNECTING.items():
        if isinstance(cause, kind):
            return Failure(CallError.UNREACHABLE, words)
    return Failure(CallError.UNREACHABLE, "no connection")


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    """The errors that led to this one, the innermost last; a chain that is never long."""
    for _ in range(10):
        if exc is None:
            return
        yield exc
        exc = exc.__cause__ or exc.__context__
