"""A browser that was logged in once stays logged in, also after a restart of the server. Server process.

A token that lasts would not do: while the server is off, a program of another user may listen on the port,
and the browser takes it for the same page. So the browser keeps a key that it can use but not show, and
proves with it that it was logged in before. A proof counts once and for one port.

What remains: a program that has the port while the server is off can leave a service worker in the browser
and use the key through it later. So a login with the key reads and answers questions, but starts and stops
no run and never gets the key itself. A login with the token clears what was left at this address first.
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
from agentos.view.access import Door
from agentos.view.request_body import read_json, texts_in

KEY_FILE = Path("view-login.json")
KEY_SECONDS = 30 * 24 * 3600.0  # then the printed address has to be opened again
ANSWER_SECONDS = 60.0
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
        self.key = key
        self._port = port
        self._clock = clock
        self._secret = secrets.token_bytes(32)  # signs challenges, so that anyone may ask and nothing is kept
        self._used: dict[str, int] = {}  # answered challenges, and until when they could be answered

    def challenge(self) -> str:
        made = f"{secrets.token_urlsafe(32)}.{int(self._clock() + ANSWER_SECONDS)}"
        return f"{made}.{_mac(self._secret, made)}"

    def answers(self, challenge: str, answer: str) -> bool:
        """Whether this answers a challenge of this server that is still open; each counts once."""
        made, _, signature = challenge.rpartition(".")
        if not _same(_mac(self._secret, made), signature):
            return False
        until, now = int(made.rpartition(".")[2]), self._clock()
        right = _mac(self.key, f"agentos-view\n{self._port}\n{challenge}")
        if now >= until or challenge in self._used or not _same(right, answer):
            return False
        self._used = {one: end for one, end in self._used.items() if end > now} | {challenge: until}
        return True


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _same(right: str, given: str) -> bool:
    return hmac.compare_digest(right.encode(), given.encode("utf-8", "replace"))


def login_routes(door: Door, lasting: LastingLogin | None) -> list[Route]:
    """The routes of the login. Each answers with a token; only the printed address also gets the key."""

    async def challenge(_request: Request) -> Response:
        if lasting is None:
            raise HTTPException(404, "This server keeps no login. Start it with --port.")
        return JSONResponse({"challenge": lasting.challenge()})

    async def log_in(request: Request) -> Response:
        given = texts_in(await read_json(request), {"token", "challenge", "answer"})
        if door.enters(given.get("token")):
            if lasting is None:
                return JSONResponse({"token": door.token})
            # Another program may have had this port and left a service worker.
            found = {"token": door.token, "key": lasting.key.hex()}
            return JSONResponse(found, headers={"Clear-Site-Data": '"storage"'})
        if lasting is not None and lasting.answers(given.get("challenge", ""), given.get("answer", "")):
            return JSONResponse({"token": door.again})
        raise HTTPException(403, "This browser is not logged in.")

    return [Route("/login/challenge", challenge), Route("/login", log_in, methods=["POST"])]
