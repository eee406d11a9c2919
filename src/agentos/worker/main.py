"""A worker's life: sets up its streams, receives its job, calls `run_workflow`, exits. Worker process."""

import faulthandler
import os
import signal
import socket
import sys

from agentos import environment
from agentos.llm.provider import Cancel
from agentos.secret import know
from agentos.worker.link import Link
from agentos.worker.parent_death import end_programs
from agentos.worker.run_workflow import run_job

STACKS_SIGNAL = signal.SIGUSR1  # prints the stack trace of every thread, for the watchdog


def worker_main(control: socket.socket, out: int, err: int) -> None:
    """Do one job in this process, which is already bound to the coordinator."""
    _take_streams(out, err)
    faulthandler.register(STACKS_SIGNAL, file=2, all_threads=True)
    cancel = Cancel()
    link = Link(control, cancel)
    job = link.receive_job()
    know(job.environment)
    environment.extend(job.environment | {"AGENTOS_WORKFLOW_DB": job.database})
    ended = run_job(job, link, cancel)
    sys.stdout.flush()
    sys.stderr.flush()
    # Before the last message: afterwards, no one may be left to do it.
    end_programs()
    link.send(ended)
    # Threads of abandoned calls must not delay the exit, and there is nothing left to clean up.
    os._exit(0)


def _take_streams(out: int, err: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, descriptor)
        os.close(source)
    # The inherited objects may be anything; these write to the descriptors above.
    how = {"encoding": "utf-8", "errors": "backslashreplace", "closefd": False}
    sys.stdin = os.fdopen(0, **how)  # type: ignore[call-overload]
    sys.stdout = os.fdopen(1, "w", buffering=1, **how)  # type: ignore[call-overload]
    sys.stderr = os.fdopen(2, "w", buffering=1, **how)  # type: ignore[call-overload]
