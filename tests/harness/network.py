"""A network namespace with an address of its own, and a link to it that can be cut. Needs root and `ip`."""

import contextlib
import os
import select
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

MISSING = "needs root and the program ip: as in CI, or with sudo and the package iproute2"


def possible() -> bool:
    """Whether this process may make namespaces here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"agentos-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A machine's view of the network: loopback, and one link to the outside."""

    name: str
    link: str  # the outer end
    outside: str  # the address of the outer end

    @property
    def command(self) -> tuple[str, ...]:
        """What runs a program inside."""
        return ("ip", "netns", "exec", self.name)

    def reaches(self, url: str) -> str:
        """The address of a server on this machine, as it is seen from inside."""
        return url.replace("127.0.0.1:", f"{self.outside}:")

    def cut(self) -> None:
        """Let nothing through: no packet, no reset, no end of a connection."""
        _ip("link", "set", self.link, "down")

    def heal(self) -> None:
        _ip("link", "set", self.link, "up")


@contextlib.contextmanager
def namespace(number: int = 0) -> Iterator[Namespace]:
    """Make a namespace; it is gone in the end, with all that runs in it cut off."""
    own = os.getpid() % 60_000
    net = f"10.{200 + number % 50}.{own // 250}.{{}}".format
    made = Namespace(name=f"agentos-{own}-{number}", link=f"ag{own}-{number}", outside=net(own % 62 * 4 + 1))
    inner = f"in{own}-{number}"
    _ip("netns", "add", made.name)
    try:
        _ip("link", "add", made.link, "type", "veth", "peer", "name", inner, "netns", made.name)
        _ip("addr", "add", f"{made.outside}/30", "dev", made.link)
        _ip("link", "set", made.link, "up")
        for arguments in (
            ("addr", "add", f"{net(own % 62 * 4 + 2)}/30", "dev", inner),
            ("link", "set", inner, "up"),
            ("link", "set", "lo", "up"),
        ):
            subprocess.run([*made.command, "ip", *arguments], check=True, capture_output=True)
        yield made
    finally:
        # Both ends of the link go with its namespace, but not before the last process in it.
        subprocess.run(["ip", "link", "del", made.link], check=False, capture_output=True)
        _ip("netns", "del", made.name)


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(namespace(number)) for number in range(count)]


@contextlib.contextmanager
def reachable(url: str, links: Sequence[Namespace]) -> Iterator[None]:
    """Pass on what comes over the links to a server that listens on loopback only, as the simulator does."""
    port = urlsplit(url).port
    assert port is not None
    over = threading.Event()

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as server:
                ends = {self.request: server, server: self.request}
                while not over.is_set():
                    for end in select.select(list(ends), [], [], 0.1)[0]:
                        if not (data := end.recv(65536)):
                            return
                        ends[end].sendall(data)

        def finish(self) -> None:
            self.request.close()

    with contextlib.ExitStack() as stack:
        for link in links:
            relay = stack.enter_context(socketserver.ThreadingTCPServer((link.outside, port), Relay))
            threading.Thread(target=relay.serve_forever, args=(0.1,)).start()
            stack.callback(relay.shutdown)
        stack.callback(over.set)
        yield


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
