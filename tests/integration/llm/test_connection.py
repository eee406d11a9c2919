"""What is said of a server that cannot be reached: host and cause, by class, with nothing of the request."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agentos.llm.connection import host_of, read_failure
from agentos.llm.openai import OpenAI
from agentos.llm.provider import Cancel, ModelRequest, ProviderError
from agentos.model import CallError
from agentos.secret import Secret
from agentos.wire import ProviderAccess, ProxyAccess
from harness.certificate import make_certificate

SECRET = "sk-connection-test-123456"
REQUEST = ModelRequest(role="drafter", model="m", number=1, system="s", prompt="private words")


def fails(url: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        OpenAI(url, call_timeout=10.0).call(REQUEST, secret=Secret("key-1", SECRET), cancel=Cancel())
    assert SECRET not in str(caught.value)
    assert "private" not in str(caught.value)
    return caught.value


@contextmanager
def listening(answer: bytes | None, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that reads one request, answers with these bytes and closes; None: it closes immediately."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            try:
                connection, _ = server.accept()
                with closing(connection):
                    if context is not None:
                        connection = context.wrap_socket(connection, server_side=True)
                    if answer is not None:
                        connection.recv(65_536)
                        connection.sendall(answer)
            except OSError:
                pass  # the client ended it, or the test is over

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
    thread.join(5)


def test_a_closed_port() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    error = fails(f"http://127.0.0.1:{port}/v1?secret=query")
    assert error.error_class is CallError.UNREACHABLE
    assert str(error) == f"127.0.0.1:{port}: connection refused"


def test_a_name_that_does_not_exist() -> None:
    error = fails("http://nowhere.invalid/v1")
    assert error.error_class is CallError.UNREACHABLE
    assert str(error) == "nowhere.invalid: host name not found (DNS)"


def test_a_connection_that_is_closed_before_a_reply() -> None:
    with listening(b"") as port:
        error = fails(f"http://127.0.0.1:{port}/v1")
    assert error.error_class is CallError.DROPPED
    assert str(error) == f"127.0.0.1:{port}: the connection was closed before a reply"


def test_a_reply_that_is_not_http() -> None:
    with listening(b"\x00\x01nonsense\r\n\r\n") as port:
        error = fails(f"http://127.0.0.1:{port}/v1")
    assert error.error_class is CallError.TRANSIENT
    assert str(error) == f"127.0.0.1:{port}: the reply is not HTTP"


def test_a_reply_that_is_cut() -> None:
    with listening(b"HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n{") as port:
        error = fails(f"http://127.0.0.1:{port}/v1")
    assert error.error_class is CallError.TRANSIENT
    assert str(error) == f"127.0.0.1:{port}: the reply ended early"


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    context = make_certificate(tmp_path)
    with listening(b"", context) as port:
        error = fails(f"https://127.0.0.1:{port}/v1")
    assert error.error_class is CallError.UNTRUSTED
    assert str(error) == f"127.0.0.1:{port}: the certificate is not trusted: it is self-signed"


def test_a_server_without_tls() -> None:
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        error = fails(f"https://127.0.0.1:{port}/v1")
    assert error.error_class is CallError.WRONG_ENDPOINT
    assert str(error) == f"127.0.0.1:{port}: the TLS handshake failed; the port may not be for https"


def test_a_proxy_that_is_down_is_blamed_itself() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    via = ProviderAccess(kind="openai", proxy=ProxyAccess(url=f"http://127.0.0.1:{port}"))
    provider = OpenAI("https://llm.example/v1", call_timeout=5.0, via=via)
    with pytest.raises(ProviderError) as caught:
        provider.call(REQUEST, secret=Secret("key-1", SECRET), cancel=Cancel())
    provider._endpoint._client.close()
    assert caught.value.error_class is CallError.UNREACHABLE
    assert str(caught.value) == f"the proxy 127.0.0.1:{port}: connection refused"


def test_a_web_page() -> None:
    page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"
    with listening(page) as port:
        error = fails(f"http://127.0.0.1:{port}/v1")
    assert error.error_class is CallError.WRONG_ENDPOINT
    assert str(error) == f"127.0.0.1:{port}: HTTP 200: a web page, not JSON"


class ProxyError(Exception):
    """Named as the client names it."""


class ConnectTimeout(Exception):  # noqa: N818
    """Named as the client names it."""


def test_a_proxy_that_refuses_is_named_by_its_status_alone() -> None:
    failure = read_failure(ProxyError(f"407 {SECRET}"), answering=False)
    assert failure == (CallError.PROXY_REFUSED, "the proxy requires a login (HTTP 407)")
    failure = read_failure(ProxyError("403 Forbidden"), answering=False)
    assert failure == (CallError.PROXY_REFUSED, "the proxy does not allow this server (HTTP 403)")
    failure = read_failure(ProxyError(f"502 {SECRET}"), answering=False)
    assert failure == (CallError.UNREACHABLE, "the proxy failed (HTTP 502)")
    assert read_failure(ProxyError(SECRET), answering=False).words == "the proxy failed"


def test_a_server_that_does_not_take_the_connection() -> None:
    failure = read_failure(ConnectTimeout(), answering=False)
    assert failure == (CallError.UNREACHABLE, "timed out connecting")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.openai.com/v1?key=1", "api.openai.com"),
        ("http://user:password@127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://host:99999999/", "the server"),
        ("", "the server"),
    ],
)
def test_only_the_host_of_an_address_is_shown(url: str, host: str) -> None:
    assert host_of(url) == host
