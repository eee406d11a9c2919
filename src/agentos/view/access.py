"""Access control of the page's server: the right token, from the page itself, at the printed address."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentos.view.lasting_login import LastingLogin
from agentos.view.page_files import page_file

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
# A browser does not send a strict cookie on a redirect that another site started. So this page loads first
# and then opens the address without the token, which counts as a new navigation.
GO_ON = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
    '<title>agentos</title><p><a href="/">Continue to the runs</a></p></html>'
)
OTHER_SITE = "Requests from another site are not allowed."
NO_TOKEN = "The token is missing. Open the address that 'agentos view' printed."  # noqa: S105 - a message
KEY_ONLY = (
    "This browser came back with its key. "
    "To start or stop runs, open the address that 'agentos view' printed."
)
RUN_PATHS = frozenset({"/api/start", "/api/stop"})
# What a browser needs to log in again; nothing of it is secret.
LOGIN_PATHS = frozenset({("GET", "/login/challenge"), ("POST", "/login"), ("GET", "/assets/login.js")})


@dataclass(frozen=True, kw_only=True)
class Door:
    """The address of the server and its token."""

    port: int
    token: str
    again: str = field(default_factory=lambda: secrets.token_urlsafe(32))  # for a login with the key

    @property
    def hosts(self) -> frozenset[str]:
        names = ("127.0.0.1", "localhost")
        return frozenset(f"{name}:{self.port}" for name in names) | frozenset(
            names if self.port == 80 else ()
        )

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{host}" for host in self.hosts)

    @property
    def cookie(self) -> str:
        return f"agentos-{self.port}"  # browsers share cookies between ports, so the name has the port

    def log_in(self, response: Response) -> None:
        """Add the cookie that opens the page, until the server ends."""
        self._set(response, self.token)

    def log_in_again(self, response: Response) -> None:
        """Add a cookie that opens the page, but starts and stops no run."""
        self._set(response, self.again)

    def _set(self, response: Response, value: str) -> None:
        response.set_cookie(self.cookie, value, path="/", httponly=True, samesite="strict")

    def opens(self, given: Iterable[str | None]) -> bool:
        return any(_same(one, right) for one in given for right in (self.token, self.again))

    def runs(self, given: Iterable[str | None]) -> bool:
        """Whether someone opened the printed address of this server, so that they may start and stop runs."""
        return any(_same(one, self.token) for one in given)


def _same(given: str | None, right: str) -> bool:
    return given is not None and secrets.compare_digest(given.encode(), right.encode())


class Guard:
    """Wraps the application: rejects requests that are not allowed and adds headers to every response."""

    def __init__(self, app: ASGIApp, door: Door, login: LastingLogin | None = None) -> None:
        self._app = app
        self._door = door
        self._login = login
        self._ticket: str | None = None
        self._entered: Callable[[], None] = lambda: None

    def issue_ticket(self, ticket: str, entered: Callable[[], None] = lambda: None) -> None:
        """Let this ticket open the page once, and call `entered` when it does."""
        self._ticket, self._entered = ticket, entered

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
        headers = Headers(scope=scope)
        visit = scope["path"] == "/" and scope["method"] == "GET"
        token = _query_token(scope) if visit else None
        why = self._misplaced(headers)
        if why is None and token is not None:
            return self._enter(token, from_elsewhere=_site(headers) in {"cross-site", "same-site"})
        if why is None and self._login is not None and (scope["method"], scope["path"]) in LOGIN_PATHS:
            why = None if _site(headers) in {None, "same-origin"} else OTHER_SITE
        else:
            why = why or self._uninvited(headers, visit=visit)
            if (
                why == NO_TOKEN
                and visit
                and self._login is not None
                and _site(headers) in {None, "none", "same-origin"}
            ):
                return HTMLResponse(page_file("login.html"), status_code=403)
        if why is None and scope["method"] not in {"GET", "HEAD"}:
            why = _no_change(headers)
        if why is None and scope["path"] in RUN_PATHS and not self._door.runs(self._given(headers)):
            return JSONResponse({"error": KEY_ONLY}, status_code=403)
        return None if why is None else _refused(why)

    def _misplaced(self, headers: Headers) -> str | None:
        # Someone else's domain can point to this address (DNS rebinding). A foreign page would then have the
        # same origin as this server, so only our own host names count.
        if headers.getlist("host") not in [[host] for host in self._door.hosts]:
            return "This server only answers at the address that 'agentos view' printed."
        if headers.get("origin") not in {None, *self._door.origins}:
            return "Requests from a page of another origin are not allowed."
        return None

    def _uninvited(self, headers: Headers, *, visit: bool) -> str | None:
        if not visit and _site(headers) not in {None, "same-origin", "none"}:
            return OTHER_SITE
        return None if self._door.opens(self._given(headers)) else NO_TOKEN

    def _given(self, headers: Headers) -> tuple[str | None, str | None]:
        return cookie_parser(headers.get("cookie", "")).get(self._door.cookie), _bearer(headers)

    def _enter(self, token: str, *, from_elsewhere: bool) -> Response:
        ticket = self._ticket is not None and secrets.compare_digest(token.encode(), self._ticket.encode())
        if not ticket and not self._door.runs((token,)):
            return _refused("The token is wrong. Open the address that 'agentos view' printed last.")
        if ticket:
            self._ticket = None
            self._entered()
        if self._login is not None:
            self._login.let_in()
        answer = HTMLResponse(GO_ON) if from_elsewhere else RedirectResponse("/", status_code=303)
        self._door.log_in(answer)
        if self._login is not None:
            # Another program may have had this port and left a service worker. The new key comes after this.
            answer.headers["Clear-Site-Data"] = '"storage"'
        return answer


def _refused(why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=403)


def _query_token(scope: Scope) -> str | None:
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return None if found is None else found[0]


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
