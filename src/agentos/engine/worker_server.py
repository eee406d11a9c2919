"""Starts worker processes, each as a `child`, and cleans up after them. Coordinator process.

A worker is a fresh process in its own session, forked from a warm server that has the heavy imports done
(`forkserver`), or started from scratch (`spawn`) if there is no fork. See docs/design/process-model.md.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Self

from agentos import os_process
from agentos.environment import replaced_by
from agentos.errors import ConfigError, StartFailed
from agentos.signals import STOP_SIGNALS
from agentos.worker.bootstrap import Passed, enter

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from agentos.engine.child import Child

START_METHODS = ("forkserver", "spawn")
START_PAUSES = (0.1, 0.3, None)  # seconds between attempts to start a process
LONGEST_FOLDER = 60  # characters of the temporary folder; a socket's path may have about a hundred
FIRST_MODULE, LAST_MODULE = "agentos.worker.server_session", "agentos.worker.server_warmup"
_STATUS_SECONDS = 0.3  # to learn how a worker died; a stopped server does not say

# What a worker inherits: enough to find programs and speak the user's language, no key, tracer or proxy.
_INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "NO_COLOR"}
    | {
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPYCACHEPREFIX",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "COVERAGE_PROCESS_START",
    }
)


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Build a worker's environment from the user's."""
    kept = {name: text for name, text in environment.items() if name in _INHERITED or name.startswith("LC_")}
    # Safe path: a json.py in the user's repo is never imported. UTF-8 whatever the locale.
    return kept | {"PYTHONSAFEPATH": "1", "PYTHONUTF8": "1", "LANGSMITH_TRACING": "false"}


@contextlib.contextmanager
def _for_children(environment: Mapping[str, str]) -> Iterator[None]:
    """Set the environment that a started process inherits.

    multiprocessing passes on the variables of that moment, and offers no other way.
    """
    with replaced_by(environment):
        resource_tracker.ensure_running()  # here, because when it starts it unblocks signals
        yield


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Start a process with blocked stop signals, which it inherits.

    A Ctrl+C reaches every process of the terminal; the server must never get it, and a worker not before it
    has its own session.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerServer:
    """Makes worker processes and leaves nothing behind."""

    def __init__(self, method: str, environment: Mapping[str, str], *, preload: Sequence[str] = ()) -> None:
        self._preload = [FIRST_MODULE, *preload, LAST_MODULE]
        self._method = method
        self._environment = worker_environment(environment) | {os_process.PARENT_VARIABLE: str(os.getpid())}
        self._context: BaseContext = multiprocessing.get_context(method)
        self._number = 0
        self._alive: set[int] = set()

    @property
    def forks(self) -> bool:
        """Whether a worker is cheap: forked, with the server's memory shared."""
        return self._method == "forkserver"

    def warm_up(self) -> None:
        """Start the server process that workers are forked from. It imports in parallel."""
        os_process.adopt_orphans()
        if self.forks:
            self._context.set_forkserver_preload(self._preload)
            with _for_children(self._environment), _signals_blocked():
                forkserver.ensure_running()

    def start(self) -> "Child":
        """Start a worker process; it waits for its job."""
        self._number += 1
        token = f"{os.getpid()}-{self._number}"
        near, far = socket.socketpair()
        out, out_far = os.pipe()
        err, err_far = os.pipe()
        try:
            started = self._launch(token, far, out_far, err_far)
        except BaseException as exc:
            near.close()
            os.close(out)
            os.close(err)
            if isinstance(exc, EOFError | OSError):
                raise StartFailed(f"its process could not be started ({type(exc).__name__})") from exc
            raise
        finally:
            far.close()
            os.close(out_far)
            os.close(err_far)
        near.setblocking(False)
        os.set_blocking(out, False)
        os.set_blocking(err, False)
        assert started.pid is not None
        self._alive.add(started.pid)
        from agentos.engine.child import Child  # noqa: PLC0415 - imported while the server does its own

        return Child(token=token, process=started, pid=started.pid, control=near, out=out, err=err)

    def _launch(self, token: str, control: socket.socket, out: int, err: int) -> BaseProcess:
        bound = {"token": token, "forked": self.forks}
        for pause in START_PAUSES:
            arguments = (control, Passed(out), Passed(err), bound)
            made: BaseProcess = self._context.Process(target=enter, args=arguments)  # type: ignore[attr-defined]
            try:
                with _for_children(self._environment):
                    self._start(made)
            except (EOFError, OSError):
                # The server died meanwhile; multiprocessing starts another when it is really gone.
                if pause is None:
                    raise
                time.sleep(pause)
            else:
                return made
        raise AssertionError

    def _start(self, made: BaseProcess) -> None:
        if not self.forks:
            with _signals_blocked():
                made.start()
            return
        with _signals_blocked():
            forkserver.ensure_running()
        # The server answers when its imports are done, or never if it hangs: a signal may end this wait.
        made.start()

    def close_child(self, child: "Child") -> str:
        """Close what is left of a killed worker, and return how it died."""
        child.process.join(_STATUS_SECONDS)
        code = child.process.exitcode
        child.close()
        self._alive.discard(child.pid)
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def kill(self, child: "Child") -> None:
        """Kill a worker: its process group, and programs that left the group."""
        child.signal_group(signal.SIGKILL)
        os_process.end_orphans(child.token, known=self._known())

    def _known(self) -> set[int]:
        """The children that are not orphans: the server, the resource tracker, workers started here."""
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]  # noqa: SLF001
        tracker = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]  # noqa: SLF001
        return {pid for pid in (server, tracker) if pid is not None} | self._alive

    def close(self) -> None:
        """End the server process and whatever else is left."""
        os_process.end_orphans(None, known=self._known())
        if self.forks:
            server = forkserver._forkserver  # noqa: SLF001 - there is no public way to end it
            if server._forkserver_pid is not None:  # type: ignore[attr-defined]  # noqa: SLF001
                with contextlib.suppress(ProcessLookupError):
                    os.kill(server._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]  # noqa: SLF001
            server._stop()  # type: ignore[attr-defined]  # noqa: SLF001
        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]  # noqa: SLF001


def start_method(chosen: str | None) -> str:
    """The user's choice, otherwise the best method. The server needs a socket with a short enough path."""
    if chosen and chosen not in START_METHODS:
        raise ConfigError(f"AGENTOS_START_METHOD must be {' or '.join(START_METHODS)}, not {chosen!r}.")
    offered = "forkserver" in multiprocessing.get_all_start_methods()
    possible = offered and len(os.fsencode(tempfile.gettempdir())) <= LONGEST_FOLDER
    return "forkserver" if possible and chosen != "spawn" else "spawn"
