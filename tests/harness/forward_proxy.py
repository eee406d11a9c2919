"""A forward proxy that records what it sees, and TLS servers with a private CA behind it.

Names such as models.test do not exist: the proxy sends them to ports of this machine, as its routes say.
"""

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import trustme

_PART = 65_536


@dataclass(kw_only=True)
class ForwardProxy:
    """What the proxy saw; tests add the routes."""

    url: str = ""
    routes: dict[str, int] = field(default_factory=dict)  # "host:port" to a port of this machine
    login: str | None = None  # the Proxy-Authorization that it wants
    tunnels: list[str] = field(default_factory=list)  # the targets of CONNECT
    requests: list[str] = field(default_factory=list)  # the first lines of requests that were not tunnelled
    refused: int = 0
    seen: bytearray = field(default_factory=bytearray)  # every byte in either direction

    def serve(self, client: socket.socket) -> None:
        head = self._head(client)
        if not head:
            return
        line = head.partition(b"\r\n")[0].decode("latin-1")
        method, target, _ = line.split(" ", 2)
        wanted = (
            self.login is None
            or f"proxy-authorization: {self.login}".lower() in head.decode("latin-1").lower()
        )
        if not wanted:
            self.refused += 1
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return
        if method == "CONNECT":
            self.tunnels.append(target)
            place, first = target, b""
        else:
            self.requests.append(line)
            parts = urlsplit(target)
            place = f"{parts.hostname}:{parts.port or 80}"
            first = head.replace(target.encode(), (parts.path or "/").encode(), 1)
        port = self.routes.get(place)
        if port is None:
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", port)) as server:
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(first)
            pump(client, server, self.seen)

    def _head(self, client: socket.socket) -> bytes:
        """Read up to the end of the headers, and no further."""
        head = bytearray()
        while not head.endswith(b"\r\n\r\n"):
            byte = client.recv(1)
            if not byte:
                return b""
            head += byte
        self.seen += head
        return bytes(head)


@contextmanager
def running_proxy() -> Iterator[ForwardProxy]:
    """Serve until the block ends."""
    proxy = ForwardProxy()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                proxy.serve(self.request)

    with _serving(Handler) as port:
        proxy.url = f"http://127.0.0.1:{port}"
        yield proxy


@contextmanager
def running_tls(ca: trustme.CA, host: str, port: int) -> Iterator[int]:
    """Serve TLS for a host, in front of a plain server on another port; yield the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(host).configure_cert(context)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as client,
                socket.create_connection(("127.0.0.1", port)) as server,
            ):
                pump(client, server, bytearray())

    with _serving(Handler) as served:
        yield served


def pump(one: socket.socket, other: socket.socket, seen: bytearray) -> None:
    """Copy in both directions until one side ends."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PART):
                seen.extend(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    back = threading.Thread(target=copy, args=(other, one), daemon=True)
    back.start()
    copy(one, other)
    back.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def _serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
