"""A browser that was logged in once stays logged in, also after a restart of the server. Server process.

A cookie that lasts would not do: browsers send cookies to whoever listens on the port, and while the server
is off, that may be a program of another user. So the browser keeps a key that it can use but not show, and
proves with it that it was logged in before. A proof counts once and for one port.

What remains: a program that has the port while the server is off can leave a service worker in the browser
and use the key through it later. So a login with the key reads and answers questions, but starts and stops
no run, and a login with the token clears what was left at this address before it gives a new key.
"""

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentos.store.known_homes import make_state_folder
from agentos.store.rooted_tree import PRIVATE_FILE
from agentos.view.request_body import read_json, texts_in

KEY_FILE = Path("view-login.json")
KEY_SECONDS = 30 * 24 * 3600.0  # then the printed address has to be opened again
ANSWER_SECONDS = 60.0
MOST_CHALLENGES = 64
_MOST_BYTES = 1000


def login_key(folder: Path, now: float) -> bytes:
    """The user's key for the page, from the state folder; a new one if there is none, or an old one."""
    tree = make_state_folder(folder)
    try:
        kept = json.loads(tree.read(KEY_FILE, _MOST_BYTES))
        made, key = float(kept["made"]), bytes.fromhex(kept["key"])
        if len(key) == 32 and 0 <= now - made < KEY_SECONDS:
            return key
    except (OSError, ValueError, TypeError, KeyError):
        pass  # missing or broken: the browsers log in again
    key = secrets.token_bytes(32)
    tree.write(KEY_FILE, json.dumps({"made": now, "key": key.hex()}), mode=PRIVATE_FILE)
    return key


class LastingLogin:
    """Logs in a browser that has the key."""

    def __init__(self, key: bytes, *, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = key
        self._port = port
        self._clock = clock
        self._open: dict[str, float] = {}  # challenges, and until when they can be answered
        self._giving = False

    def let_in(self) -> None:
        """A browser was just logged in with the token: it may ask for the key, once."""
        self._giving = True

    def give_key(self) -> str | None:
        giving, self._giving = self._giving, False
        return self._key.hex() if giving else None

    def challenge(self) -> str:
        while len(self._open) >= MOST_CHALLENGES:
            del self._open[next(iter(self._open))]
        made = secrets.token_urlsafe(32)
        self._open[made] = self._clock() + ANSWER_SECONDS
        return made

    def answers(self, challenge: str, answer: str) -> bool:
        """Whether this answers a challenge of this server that is still open; each counts once."""
        until = self._open.pop(challenge, None)
        text = f"agentos-view\n{self._port}\n{challenge}".encode("utf-8", "replace")
        right = hmac.new(self._key, text, hashlib.sha256)
        same = hmac.compare_digest(right.hexdigest().encode(), answer.encode("utf-8", "replace"))
        return until is not None and self._clock() < until and same


def login_routes(login: LastingLogin | None, log_in: Callable[[Response], None]) -> list[Route]:
    """The routes of the login; `log_in` adds the cookie to a response. Without a login, no key is given."""

    async def challenge(_request: Request) -> Response:
        if login is None:
            raise HTTPException(404, "This server keeps no login. Start it with --port.")
        return JSONResponse({"challenge": login.challenge()})

    async def answer(request: Request) -> Response:
        given = texts_in(await read_json(request), {"challenge", "answer"})
        if login is None or not login.answers(given.get("challenge", ""), given.get("answer", "")):
            raise HTTPException(403, "This browser is not logged in.")
        response = JSONResponse({"logged_in": True})
        log_in(response)
        return response

    async def key(_request: Request) -> Response:
        return JSONResponse({"key": None if login is None else login.give_key()})

    return [
        Route("/login/challenge", challenge),
        Route("/login", answer, methods=["POST"]),
        Route("/login/key", key, methods=["POST"]),
    ]
