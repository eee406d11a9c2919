"""A worker's life as a process: own session, own streams, bound to the coordinator's life. Worker process."""

import faulthandler
import os
import signal
import socket
import sys

from agentos import process
from agentos.llm.provider import Cancel
from agentos.worker.link import Link, end_own_group
from agentos.worker.runner import run_job

STACKS_SIGNAL = signal.SIGUSR1  # prints where every thread stands, for the watchdog


def worker_main(
    control: socket.socket, out: int, err: int, *, token: str, coordinator: int, forked: bool
) -> None:
    """Start here in the fresh process, do the job, and go."""
    os.setsid()
    process.hide_memory()
    if forked:
        process.die_with_parent()
        if os.getppid() == 1 or not _alive(coordinator):
            end_own_group()
    _take_streams(out, err)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    faulthandler.register(STACKS_SIGNAL, file=2, all_threads=True)
    os.environ[process.TOKEN_VARIABLE] = token
    cancel = Cancel()
    link = Link(control, cancel)
    job = link.receive_job()
    os.environ.update(job.environment | {"AGENTOS_WORKFLOW_DB": job.database})
    ended = run_job(job, link, cancel)
    sys.stdout.flush()
    sys.stderr.flush()
    link.send(ended)
    # Threads of abandoned calls must not hold the process up, and there is nothing left to tidy.
    os._exit(0)


def _take_streams(out: int, err: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, descriptor)
        os.close(source)
    # Whatever the parent's objects were, these write to the descriptors above.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
