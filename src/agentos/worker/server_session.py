"""Imported first by the server that workers are forked from: detaches it from the terminal. Server process.

In its own session, no signal to the coordinator's group reaches it or a worker that is just starting. While
it imports, it has no workers yet and dies with the coordinator immediately. Later it lingers, because its end
kills the workers, and they must first see the end of their sockets and end their programs.
"""

import atexit
import gc
import os
import signal
import time

from agentos import environment, os_process

LINGER_SECONDS = 1.0


def _linger() -> None:
    os_process.signal_descendants(signal.SIGCONT)  # a stopped worker cannot see the end of its socket
    time.sleep(LINGER_SECONDS)


gc.disable()  # saves an eighth of the import time; worker/server_warmup.py turns it on again
os.setsid()
os_process.when_parent_ends(signal.SIGKILL)
if environment.read().get(os_process.PARENT_VARIABLE) != str(os.getppid()):
    os._exit(1)  # the coordinator ended before the kernel was asked
atexit.register(_linger)
