"""The server of the live page: its routes, and serving until a signal. Server process.

It listens only on the loopback interface.
"""

import asyncio
import contextlib
import json
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentos.app.inbox import Answer, ShownDiscussion, answer_discussion
from agentos.app.notes import find_subject, kept, pending_notes, send_back
from agentos.errors import AgentosError, UsageError
from agentos.events.state import RunState
from agentos.report.data import run_data
from agentos.store.home import Home
from agentos.view.access import Door, Guard
from agentos.view.connection import Connection
from agentos.view.inbox import Inbox
from agentos.view.live import Hub, look
from agentos.view.run_index import NotThere, RunIndex

HOST = "127.0.0.1"
MAX_BODY = 100_000
MAX_NOTE = 20_000
LAST_WORDS_SECONDS = 1  # to finish open responses when the server stops

ASSETS = {
    "view.js": ("agentos.view", "text/javascript"),
    "view.css": ("agentos.view", "text/css"),
    "run.js": ("agentos.report", "text/javascript"),
    "run.css": ("agentos.report", "text/css"),
}

Failed = Callable[[str, Exception], None]


class PageRoutes:
    """The page's routes over one home."""

    def __init__(
        self,
        *,
        worktree: Path,
        home: Home,
        folders: Mapping[str, str],
        run_index: RunIndex,
        inbox: Inbox,
        failed: Failed,
    ) -> None:
        self._name = worktree.name
        self._worktree = worktree
        self._folders = folders
        self._home = home
        self._run_index = run_index
        self._inbox = inbox
        self._failed = failed
        self._sending = threading.Lock()
        self.hub = Hub(self._look, cost=run_index.cost, failed=lambda exc: failed("/events", exc))

    def app(self) -> Starlette:
        routes = [
            Route("/", self._page),
            Route("/assets/{name}", self._asset),
            Route("/api/runs", self._runs),
            Route("/api/runs/{run}", self._run),
            Route("/api/runs/{run}/log/{label}", self._log),
            Route("/api/inbox", self._waiting),
            Route("/api/inbox/{label}", self._answer, methods=["POST"]),
            Route("/api/revise/{label}", self._revise, methods=["POST"]),
            Route("/events", self._events),
        ]
        handlers: dict[Any, Any] = {
            NotThere: _said(404),
            UsageError: _said(409),
            AgentosError: _said(500),
            HTTPException: _refused,
            Exception: self._unexpected,
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    async def _look(self) -> Any:
        return await run_in_threadpool(look, self._run_index, self._inbox)

    async def _page(self, _request: Request) -> Response:
        return Response(_read_asset("agentos.view", "view.html"), media_type="text/html")

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            raise NotThere(f"There is no file {name!r}.")
        package, media_type = ASSETS[name]
        return Response(await run_in_threadpool(_read_asset, package, name), media_type=media_type)

    async def _runs(self, request: Request) -> Response:
        rows = await run_in_threadpool(self._run_index.rows, request.query_params.get("q", ""))
        return _json({"project": self._name, "runs": rows})

    async def _run(self, request: Request) -> Response:
        data = await run_in_threadpool(self._run_index.data, request.path_params["run"])
        return Response(data, media_type="application/json")

    async def _log(self, request: Request) -> Response:
        after = request.query_params.get("after")
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 16):
            raise HTTPException(400, "after must be a number of bytes.")
        run, label = request.path_params["run"], request.path_params["label"]
        part = await run_in_threadpool(self._run_index.log, run, label, None if after is None else int(after))
        return _json(part)

    async def _waiting(self, _request: Request) -> Response:
        entries = await run_in_threadpool(self._inbox.entries)
        return _json(
            {
                "waiting": [one for one in entries if one["decided"] is None],
                "answered": [one for one in entries if one["decided"] is not None],
            }
        )

    async def _answer(self, request: Request) -> Response:
        answer, note, seen = _decision(await _body(request))
        answered = await run_in_threadpool(
            answer_discussion, self._home, request.path_params["label"], answer=answer, note=note, seen=seen
        )
        return _json(asdict(answered))

    async def _revise(self, request: Request) -> Response:
        note = _note(await _body(request))
        return _json(await run_in_threadpool(self._send_back, request.path_params["label"], note))

    def _send_back(self, label: str, note: str) -> dict[str, str]:
        with self._sending:
            subject = find_subject(self._home, self._worktree, self._folders, label)
            if note.strip() in pending_notes(self._home, subject):
                raise UsageError(f"{subject.label} was already sent back like this; the next run uses it.")
            send_back(self._home, subject, note)
        message = f"{subject.label}: {kept(note)}."
        return {"label": subject.label, "told": message, "command": f"agentos {subject.command}"}

    async def _events(self, _request: Request) -> Response:
        return StreamingResponse(self.hub.listen(), media_type="text/event-stream")

    async def _unexpected(self, request: Request, exc: Exception) -> Response:
        self._failed(request.url.path, exc)
        return PlainTextResponse(
            "This is a bug. The terminal shows where the details are.\n", status_code=500
        )


def make_view(*, home: Home, worktree: Path, folders: Mapping[str, str], failed: Failed) -> PageRoutes:
    """Build the page for one project."""
    lineage_folder = folders["lineage"]

    def make_data(run: Path, events: Callable[[Path], RunState]) -> dict[str, Any]:
        return run_data(
            run,
            worktree=worktree,
            lineage_folder=lineage_folder,
            history=run_index.folders_before(run),
            events=events,
        )

    run_index = RunIndex(home.runs, make_data)
    inbox = Inbox(home=home, worktree=worktree, lineage_folder=lineage_folder)
    return PageRoutes(
        worktree=worktree, home=home, folders=folders, run_index=run_index, inbox=inbox, failed=failed
    )


def _json(data: Any, status: int = 200) -> Response:
    # ASCII only: text from a model may contain lone surrogates, which cannot be encoded.
    return Response(json.dumps(data), status_code=status, media_type="application/json")


def _said(status: int) -> Callable[[Request, Exception], Response]:
    def answer(_request: Request, exc: Exception) -> Response:
        return _json({"error": str(exc)}, status)

    return answer


def _refused(_request: Request, exc: HTTPException) -> Response:
    return _json({"error": exc.detail}, exc.status_code)


async def _body(request: Request) -> Any:
    data = b""
    try:
        async for block in request.stream():
            data += block
            if len(data) > MAX_BODY:
                raise HTTPException(413, f"The request is larger than {MAX_BODY:,} bytes.")
    except ClientDisconnect as exc:
        raise HTTPException(400, "The request is incomplete.") from exc
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise HTTPException(400, "The request is not valid JSON.") from exc


def _decision(body: Any) -> tuple[Answer, str, ShownDiscussion]:
    if not isinstance(body, dict) or not body.keys() <= {"answer", "note", "reviews", "decided_at"}:
        raise HTTPException(400, "Send an object with answer, note, reviews and decided_at.")
    answer, note, reviews = body.get("answer"), body.get("note", ""), body.get("reviews")
    decided_at = body.get("decided_at")
    if not isinstance(answer, str) or answer not in {"approve", "revise"}:
        raise HTTPException(400, "answer must be approve or revise.")
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise HTTPException(400, f"note must be text of at most {MAX_NOTE:,} characters.")
    if reviews is not None and (not isinstance(reviews, int) or isinstance(reviews, bool)):
        raise HTTPException(400, "reviews must be a number.")
    if decided_at is not None and not isinstance(decided_at, str):
        raise HTTPException(400, "decided_at must be the time of the answer to change.")
    chosen: Answer = "approve" if answer == "approve" else "revise"
    seen = ShownDiscussion(reviews=reviews, decided_at=decided_at)
    return chosen, note.encode("utf-8", errors="replace").decode(), seen


def _note(body: Any) -> str:
    note = body.get("note", "") if isinstance(body, dict) and body.keys() <= {"note"} else None
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise HTTPException(400, f"Send an object with a note of at most {MAX_NOTE:,} characters.")
    return note.encode("utf-8", errors="replace").decode()


def _read_asset(package: str, name: str) -> bytes:
    return files(package).joinpath("assets", name).read_bytes()


def listen(port: int) -> socket.socket:
    """Listen on this port of the loopback interface; 0 is any free port."""
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((HOST, port))
        taken.listen(128)
    except (OSError, OverflowError) as exc:
        taken.close()
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise UsageError(f"Cannot listen on port {port} of {HOST}: {why}. Choose another --port.") from exc
    return taken


class _Server(uvicorn.Server):
    """Leaves signals to this module: uvicorn would raise them again at the end and exit as if killed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    view: PageRoutes,
    taken: socket.socket,
    *,
    ready: Callable[[str, str], None],
    entered: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` gets the address, and a second one that opens the page once.

    `entered` is called when the second one is used.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(view, taken, ready, entered))


async def _serve(
    view: PageRoutes, taken: socket.socket, ready: Callable[[str, str], None], entered: Callable[[], None]
) -> None:
    door = Door(port=taken.getsockname()[1], token=secrets.token_urlsafe(32))
    guard = Guard(view.app(), door)
    config = uvicorn.Config(
        guard,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=LAST_WORDS_SECONDS,
    )
    server = _Server(config)

    def stop() -> None:
        server.should_exit = True
        view.hub.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows has KeyboardInterrupt instead
            asyncio.get_running_loop().add_signal_handler(number, stop)
    ticket = secrets.token_urlsafe(32)
    guard.issue_ticket(ticket, entered)
    address = f"http://{HOST}:{door.port}/"
    ready(f"{address}?token={door.token}", f"{address}?token={ticket}")
    await server.serve(sockets=[taken])
