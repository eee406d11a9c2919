"""The entry point of a worker: ties it to the coordinator's life, then calls `main`. Worker process."""

import socket
from multiprocessing.reduction import DupFd
from typing import Any

from agentos.worker import parent_death


class Passed:
    """A descriptor on its way to a worker, however the worker is started."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> Any:
        return (_received, (DupFd(self._descriptor),))


def _received(duplicate: Any) -> int:
    descriptor: int = duplicate.detach()
    return descriptor


def enter(control: socket.socket, out: int, err: int, bound: dict[str, Any]) -> None:
    """Start a worker. The descriptors belong to this process by now."""
    parent_death.bind(control, **bound)
    from agentos.worker.main import worker_main  # noqa: PLC0415 - heavy if it is not preloaded

    worker_main(control, out, err)
