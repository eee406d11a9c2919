"""Starts commands by forking a process that has imported everything: imports take most of a short run.

The forked process does all that a started one does, with its own session, environment, folder and streams.
Its server for workers is also forked instead of started. Tests about starting, processes or the environment
start a real process instead (`@pytest.mark.cold`), and `make test-all` does so for all tests.
"""

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn, Self

# Importing these changes the process, so only agentos itself imports them, when needed.
NOT_AHEAD = ("agentos.__main__", "agentos.worker.server_session", "agentos.worker.server_warmup")
_LARGEST_REQUEST = 1_000_000


class WarmProcess:
    """A forked command; can be waited for like a Popen."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self._status = status
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("agentos", timeout or 0)
        return code

    def _read(self, timeout: float | None) -> int | None:
        if self._code is None:
            with selectors.DefaultSelector() as ready:
                ready.register(self._status, selectors.EVENT_READ)
                if ready.select(timeout):
                    self._code = int(os.read(self._status, 64).decode("ascii"))
                    os.close(self._status)
        return self._code


class WarmServer:
    """The process that commands are forked from; one per test process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours

    def start(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], streams: Sequence[int]
    ) -> WarmProcess:
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)})
        status, status_theirs = os.pipe()
        try:
            socket.send_fds(self._socket, [request.encode()], [*streams, status_theirs])
        finally:
            os.close(status_theirs)
        answer = self._socket.recv(64)
        if not answer:
            raise AssertionError("the warm process has ended")
        return WarmProcess(int(answer), status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()
        self._process.wait(30)


# From here on: code that runs in the server and in its forks.


def _serve(control: socket.socket) -> None:
    """Fork a command for each request, and report its exit code."""
    _import_everything()
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    waiting: dict[int, int] = {}  # pid: descriptor for its exit code
    with selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        ready.register(ours, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is ours:
                    with contextlib.suppress(BlockingIOError):
                        ours.recv(4096)
                    _report_ended(waiting)
                    continue
                message, descriptors, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 4)
                if not message:
                    return
                *streams, status = descriptors
                if (pid := os.fork()) == 0:
                    _become_command(json.loads(message), streams)
                waiting[pid] = status
                for descriptor in streams:
                    os.close(descriptor)
                control.send(str(pid).encode())


def _import_everything() -> None:
    import agentos

    for module in pkgutil.walk_packages(agentos.__path__, "agentos."):
        if module.name not in NOT_AHEAD:
            importlib.import_module(module.name)
    importlib.import_module("langgraph.checkpoint.sqlite")
    from agentos.workflows import loop, registry

    loop.warm_up("lld")
    loop.warm_up("issue")
    registry.registered()
    gc.collect()
    gc.freeze()


def _report_ended(waiting: dict[int, int]) -> None:
    for pid, where in list(waiting.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended == pid:
            with contextlib.suppress(BrokenPipeError):
                os.write(where, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(where)
            del waiting[pid]


def _become_command(request: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Become what `python -m agentos` is after its imports."""
    code = 1
    try:
        os.setsid()
        _drop_signals()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, _highest_descriptor() + 1)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        tempfile.tempdir = None
        random.seed()
        sys.argv = ["agentos", *request["arguments"]]
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        main = types.ModuleType("__main__")
        main.__spec__ = importlib.util.find_spec("agentos.__main__")
        sys.modules["__main__"] = main
        util.spawnv_passfds = _fork_server
        from agentos.cli import main as agentos

        code = _run(agentos)
    finally:
        os._exit(code)


def _run(what: Any) -> int:
    """Run a program as the interpreter would, and return its exit code."""
    try:
        what()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    else:
        code = 0
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code


def _fork_server(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """Replace multiprocessing's process start for its helpers: fork, and run their code."""
    program = args[-1]
    if not program.startswith(("from multiprocessing.forkserver", "from multiprocessing.resource_tracker")):
        return _SPAWN(path, args, passfds)
    if pid := os.fork():
        return pid
    code = 1
    try:
        _drop_signals()
        atexit._clear()
        kept = {0, 1, 2, *passfds}
        for descriptor in range(3, _highest_descriptor() + 1):
            if descriptor not in kept:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        code = _run(lambda: exec(program, {}))
    finally:
        os._exit(code)


def _drop_signals() -> None:
    """Reset the signal handlers inherited by the fork, as in a newly started program."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _highest_descriptor() -> int:
    return max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208


_SPAWN = util.spawnv_passfds

if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
