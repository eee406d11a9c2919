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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentos.app.inbox import answer_discussion
from agentos.app.notes import find_subject, kept, pending_notes, send_back
from agentos.errors import AgentosError, UsageError
from agentos.events.state import RunState
from agentos.report.compare import compare
from agentos.report.data import run_data
from agentos.report.items import ItemReader
from agentos.report.on_request import open_document, open_prompt
from agentos.report.spans import without_calls
from agentos.settings import Settings
from agentos.store.home import Home
from agentos.view.access import Door, Guard
from agentos.view.changes import Versions
from agentos.view.connection import Connection
from agentos.view.inbox import Inbox
from agentos.view.lasting_login import LastingLogin, login_routes
from agentos.view.live import Hub, look
from agentos.view.page_files import KINDS, page_file
from agentos.view.request_body import decision_in, note_in, read_json, texts_in
from agentos.view.run_control import RunControl
from agentos.view.run_index import NotThere, RunIndex
from agentos.view.run_search import RunSearch
from agentos.view.runner import Runner

HOST = "127.0.0.1"
MAX_QUERY = 200
LAST_WORDS_SECONDS = 1  # to finish open responses when the server stops

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
        run_search: RunSearch,
        inbox: Inbox,
        failed: Failed,
        run_control: RunControl | None = None,
        program: str = "agentos",
        settings: Settings | None = None,
    ) -> None:
        self._program = program
        self._settings = settings
        self._name = worktree.name
        self._worktree = worktree
        self._folders = folders
        self._home = home
        self._run_index = run_index
        self._run_search = run_search
        self._run_control = run_control
        self._inbox = inbox
        self._failed = failed
        self._sending = threading.Lock()
        self._rows_lock = threading.Lock()
        self._rows = Versions(secrets.token_hex(8))
        self.hub = Hub(self._look, cost=run_index.cost, failed=lambda exc: failed("/events", exc))

    def app(self, more: Sequence[Route] = ()) -> Starlette:
        routes = [
            *more,
            Route("/", self._page),
            Route("/assets/{name}", self._asset),
            Route("/api/runs", self._runs),
            Route("/api/search", self._search),
            Route("/api/runs/{run}", self._run),
            Route("/api/runs/{run}/log/{label}", self._log),
            Route("/api/runs/{run}/document/{label}", self._document),
            Route("/api/runs/{run}/prompt/{label}", self._prompt),
            Route("/api/compare", self._compare),
            Route("/api/inbox", self._waiting),
            Route("/api/inbox/{label}", self._answer, methods=["POST"]),
            Route("/api/revise/{label}", self._revise, methods=["POST"]),
            Route("/api/started", self._started),
            Route("/api/runs/{run}/commands", self._commands),
            Route("/api/start", self._start, methods=["POST"]),
            Route("/api/stop", self._stop, methods=["POST"]),
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
        started = () if self._run_control is None else self._run_control.runner.mark()
        return await run_in_threadpool(look, self._run_index, self._inbox, started)

    async def _page(self, _request: Request) -> Response:
        return Response(page_file("view.html"), media_type="text/html")

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in KINDS:
            raise NotThere(f"There is no file {name!r}.")
        return Response(await run_in_threadpool(page_file, name), media_type=KINDS[name])

    async def _runs(self, request: Request) -> Response:
        since = request.query_params.get("since")
        rows = await run_in_threadpool(self._run_index.rows, request.query_params.get("q", ""))
        data = {"project": self._name, "runs": rows}
        if since is None:
            return _json(data)
        with self._rows_lock:
            self._rows.add(data)
            answer = self._rows.answer(since)
        return Response(answer, media_type="application/json")

    async def _search(self, request: Request) -> Response:
        words = request.query_params.get("q", "")[:MAX_QUERY]
        return _json(await run_in_threadpool(self._find, words))

    def _find(self, words: str) -> dict[str, Any]:
        """The runs that the words name, and the items of all runs that have them."""
        named = [row["run_id"] for row in self._run_index.rows(words)]
        return self._run_search.find(self._run_index.folders(), words) | {"runs": named}

    async def _run(self, request: Request) -> Response:
        run, since = request.path_params["run"], request.query_params.get("since")
        if since is None:
            data = await run_in_threadpool(self._run_index.data, run)
        else:
            data = await run_in_threadpool(self._run_index.changes, run, since)
        return Response(data, media_type="application/json")

    async def _log(self, request: Request) -> Response:
        after = request.query_params.get("after")
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 16):
            raise HTTPException(400, "after must be a number of bytes.")
        run, label = request.path_params["run"], request.path_params["label"]
        part = await run_in_threadpool(self._run_index.log, run, label, None if after is None else int(after))
        return _json(part)

    async def _document(self, request: Request) -> Response:
        run = await run_in_threadpool(self._run_index.folder, request.path_params["run"])
        label, file = request.path_params["label"], request.query_params.get("file", "")
        text = await run_in_threadpool(
            open_document, run, label, file, worktree=self._worktree, lineage_folder=self._folders["lineage"]
        )
        if text is None:
            raise NotThere(f"Run {run.name} has no document {file!r} of {label!r} that can be read.")
        return _json(text.as_dict())

    async def _prompt(self, request: Request) -> Response:
        run = await run_in_threadpool(self._run_index.folder, request.path_params["run"])
        label, call = request.path_params["label"], request.query_params.get("call", "")
        texts = await run_in_threadpool(open_prompt, run, label, call)
        if texts is None:
            raise NotThere(f"Run {run.name} keeps no prompt of the call {call!r} of {label!r}.")
        return _json(texts)

    async def _compare(self, request: Request) -> Response:
        before, after = (request.query_params.get(name, "") for name in ("before", "after"))
        return _json(await run_in_threadpool(self._compared, before, after))

    def _compared(self, before: str, after: str) -> dict[str, Any]:
        return compare(*(json.loads(self._run_index.data(run)) for run in (before, after))).as_dict()

    async def _waiting(self, _request: Request) -> Response:
        entries = await run_in_threadpool(self._inbox.entries)
        answered = [one for one in entries if one["decided"] is not None]
        if self._run_control is not None:
            answered = [one | {"run": self._run_control.of_answer(one)} for one in answered]
        return _json({"waiting": [one for one in entries if one["decided"] is None], "answered": answered})

    async def _answer(self, request: Request) -> Response:
        answer, note, seen = decision_in(await read_json(request))
        answered = await run_in_threadpool(
            answer_discussion,
            self._home,
            request.path_params["label"],
            answer=answer,
            note=note,
            seen=seen,
            program=self._program,
            settings=self._settings,
        )
        return _json(asdict(answered))

    async def _revise(self, request: Request) -> Response:
        note = note_in(await read_json(request))
        return _json(await run_in_threadpool(self._send_back, request.path_params["label"], note))

    def _send_back(self, label: str, note: str) -> dict[str, str]:
        with self._sending:
            subject = find_subject(self._home, self._worktree, self._folders, label)
            if note.strip() in pending_notes(self._home, subject):
                raise UsageError(f"{subject.label} was already sent back like this; the next run uses it.")
            send_back(self._home, subject, note)
        message = f"{subject.label}: {kept(note)}."
        return {"label": subject.label, "told": message, "command": f"{self._program} {subject.command}"}

    @property
    def _control(self) -> RunControl:
        if self._run_control is None:
            raise HTTPException(403, "Starting and stopping runs is off. Start 'agentos view --allow-run'.")
        return self._run_control

    async def _started(self, _request: Request) -> Response:
        if self._run_control is None:
            return _json({"allowed": False, "started": []})
        return _json({"allowed": True, "started": await run_in_threadpool(self._control.runner.commands)})

    async def _commands(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self._control.of_run, request.path_params["run"]))

    async def _start(self, request: Request) -> Response:
        control, wanted = (
            self._control,
            texts_in(await read_json(request), {"action", "run", "label", "command"}),
        )
        return _json(await run_in_threadpool(control.start, wanted))

    async def _stop(self, request: Request) -> Response:
        control, wanted = self._control, texts_in(await read_json(request), {"run"})
        return _json({"told": await run_in_threadpool(control.stop, wanted.get("run", ""))})

    async def _events(self, _request: Request) -> Response:
        return StreamingResponse(self.hub.listen(), media_type="text/event-stream")

    async def _unexpected(self, request: Request, exc: Exception) -> Response:
        self._failed(request.url.path, exc)
        return PlainTextResponse(
            "This is a bug. The terminal shows where the details are.\n", status_code=500
        )


def make_view(
    *,
    home: Home,
    worktree: Path,
    folders: Mapping[str, str],
    failed: Failed,
    runner: Runner | None = None,
    program: str = "agentos",
    settings: Settings | None = None,
) -> PageRoutes:
    """Build the page for one project; with a runner, it can start and stop runs.

    `program` is how its commands begin: with the flags for home and settings.
    """
    lineage_folder = folders["lineage"]
    lld_template = None if settings is None else settings.lld_template

    def make_data(run: Path, events: Callable[[Path], RunState], reader: ItemReader) -> dict[str, Any]:
        data = run_data(
            run,
            worktree=worktree,
            lineage_folder=lineage_folder,
            lld_template=lld_template,
            history=run_index.folders_before(run),
            events=events,
            reader=reader,
            start=program,
            settings=settings,
        )
        if data["run"]["live"] and data["run"]["begun"] is None and not data["items"]:
            data["run"]["workflow"] = "starting …"  # its first event is not written yet
        return data | {"keys": without_calls(data["keys"])}

    run_index = RunIndex(home.runs, make_data)
    return PageRoutes(
        worktree=worktree,
        home=home,
        folders=folders,
        run_index=run_index,
        run_search=RunSearch(
            worktree=worktree,
            lineage_folder=lineage_folder,
            lld_template=lld_template,
            mark=lambda run: run_index.mark(run, live=run_index.live(run)),
        ),
        inbox=Inbox(
            home=home, worktree=worktree, lineage_folder=lineage_folder, program=program, settings=settings
        ),
        failed=failed,
        program=program,
        settings=settings,
        run_control=None
        if runner is None
        else RunControl(runner=runner, home=home, run_index=run_index, settings=settings or Settings()),
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
    key: bytes | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` gets the address, and a second one that opens the page once.

    `entered` is called when the second one is used. With a key, a browser stays logged in.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(view, taken, ready, entered, key))


async def _serve(
    view: PageRoutes,
    taken: socket.socket,
    ready: Callable[[str, str], None],
    entered: Callable[[], None],
    key: bytes | None,
) -> None:
    ticket = secrets.token_urlsafe(32)
    door = Door(port=taken.getsockname()[1], token=secrets.token_urlsafe(32), ticket=ticket, entered=entered)
    lasting = None if key is None else LastingLogin(key, port=door.port)
    config = uvicorn.Config(
        Guard(view.app(login_routes(door, lasting)), door),
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
    address = f"http://{HOST}:{door.port}/"
    ready(f"{address}?token={door.token}", f"{address}?token={ticket}")
    await server.serve(sockets=[taken])
