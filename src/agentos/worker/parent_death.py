"""Ends a worker when its coordinator ends. Set up before anything heavy is imported. Worker process.

The end of the control socket works everywhere; a thread waits for it and reads nothing. The kernel's
parent-death signal is the second way, for a worker that is stopped or stuck.
"""

import os
import select
import signal
import socket
import threading
from multiprocessing import forkserver
from typing import NoReturn

from agentos import environment, os_process

FAMILY_ROUNDS = 3  # for programs that start programs while they are being ended


def bind(control: socket.socket, *, token: str, forked: bool) -> None:
    """Start an own session, and end it together with the coordinator."""
    os.setsid()
    environment.extend({os_process.TOKEN_VARIABLE: token})
    os_process.hide_memory()
    _let_server_go()
    os_process.adopt_orphans()  # so that programs that leave their parents stay below this process
    # If forked, the parent is the server, which ends last. If spawned, it is the coordinator itself; its end
    # must only wake a stopped worker, so that the worker sees the end of its socket.
    os_process.when_parent_ends(signal.SIGKILL if forked else signal.SIGCONT)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Ignoring discards a Ctrl+C that came while this process still belonged to the terminal.
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_wait_for_end, args=(control.fileno(),), name="parent death", daemon=True).start()


def _let_server_go() -> None:
    """Close what multiprocessing gives every forked child, or the server lives as long as any worker."""
    server = forkserver._forkserver  # noqa: SLF001 - there is no public way
    if server._forkserver_alive_fd is not None:  # type: ignore[attr-defined]  # noqa: SLF001
        os.close(server._forkserver_alive_fd)  # type: ignore[attr-defined]  # noqa: SLF001
        server._forkserver_alive_fd = None  # type: ignore[attr-defined]  # noqa: SLF001


def _wait_for_end(control: int) -> None:
    ended = select.poll()
    ended.register(control, getattr(select, "POLLRDHUP", 0))  # a hang-up is always reported
    while not ended.poll():
        pass
    end_own_group()


def end_programs() -> None:
    """End every program that this worker started, and the programs that those started."""
    for _ in range(FAMILY_ROUNDS):
        if not os_process.signal_descendants(signal.SIGKILL):
            break


def end_own_group() -> NoReturn:
    """Exit and end every program that this worker started, because no one is left to do it."""
    end_programs()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
