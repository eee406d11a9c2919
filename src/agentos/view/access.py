"""Access control of the page's server: the right token, from the page itself, at the printed address.

The page sends the token as a header. A cookie would go to every port of this host, whoever listens there.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OTHER_SITE = "Requests from another site are not allowed."
NO_TOKEN = "The token is missing. Open the address that 'agentos view' printed."  # noqa: S105 - a message
KEY_ONLY = (
    "This browser came back with its key. "
    "To start or stop runs, open the address that 'agentos view' printed."
)
RUN_PATHS = frozenset({"/api/start", "/api/stop"})
LOGIN_PATHS = frozenset({("GET", "/login/challenge"), ("POST", "/login")})


@dataclass(kw_only=True)
class Door:
    """The address of the server and what opens it."""

    port: int
    token: str
    again: str = field(default_factory=lambda: secrets.token_urlsafe(32))  # for a login with the key
    ticket: str | None = None  # counts once, like the token
    entered: Callable[[], None] = lambda: None  # called when the ticket was used

    @property
    def hosts(self) -> frozenset[str]:
        names = ("127.0.0.1", "localhost")
        return frozenset(f"{name}:{self.port}" for name in names) | frozenset(
            names if self.port == 80 else ()
        )

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{host}" for host in self.hosts)

    def opens(self, given: str | None) -> bool:
        return _same(given, self.token) or _same(given, self.again)

    def runs(self, given: str | None) -> bool:
        """Whether someone opened the printed address of this server, so that they may start and stop runs."""
        return _same(given, self.token)

    def enters(self, given: str | None) -> bool:
        """Whether this is from an address that was printed or opened: the token, or the ticket."""
        if not _same(given, self.ticket):
            return _same(given, self.token)
        self.ticket = None
        self.entered()
        return True


def _same(given: str | None, right: str | None) -> bool:
    if given is None or right is None:
        return False
    return secrets.compare_digest(given.encode("utf-8", "replace"), right.encode())


class Guard:
    """Wraps the application: rejects requests that are not allowed and adds headers to every response."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._answer(scope)
        await (self._app if answer is None else answer)(scope, receive, with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """The guard's own response; None if the request may pass."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        reads = method in {"GET", "HEAD"}
        why = self._misplaced(headers)
        if why is None and not (reads and (path == "/" or path.startswith("/assets/"))):  # nothing private
            why = self._uninvited(headers, login=(method, path) in LOGIN_PATHS)
            why = why or (None if reads else _no_change(headers))
        if why is not None:
            asks = {"WWW-Authenticate": "Bearer"} if why == NO_TOKEN else None
            return PlainTextResponse(f"{why}\n", status_code=403, headers=asks)
        if path in RUN_PATHS and not self._door.runs(_bearer(headers)):
            return JSONResponse({"error": KEY_ONLY}, status_code=403)
        return None

    def _misplaced(self, headers: Headers) -> str | None:
        # Someone else's domain can point to this address (DNS rebinding). A foreign page would then have the
        # same origin as this server, so only our own host names count.
        if headers.getlist("host") not in [[host] for host in self._door.hosts]:
            return "This server only answers at the address that 'agentos view' printed."
        if headers.get("origin") not in {None, *self._door.origins}:
            return "Requests from a page of another origin are not allowed."
        return None

    def _uninvited(self, headers: Headers, *, login: bool) -> str | None:
        if _site(headers) not in {None, "same-origin", "none"}:
            return OTHER_SITE
        return None if login or self._door.opens(_bearer(headers)) else NO_TOKEN


def _site(headers: Headers) -> str | None:
    return headers.get("sec-fetch-site")


def _no_change(headers: Headers) -> str | None:
    """Why a request must not change anything; its origin, if any, was checked before."""
    if headers.get("origin") is None and _site(headers) != "same-origin":
        return "Changes are accepted only from the page itself."
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "Changes are accepted only as JSON."
    return None


def _bearer(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
