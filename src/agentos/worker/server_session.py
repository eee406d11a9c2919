"""Preloaded first by the server process that workers are forked from: sets it apart from the terminal.

In a session of its own, no signal to the coordinator's group reaches it or a worker that is just starting.
While it imports it has no workers yet and dies with the coordinator at once; later it lingers, because its
end kills the workers, and they must first see the end of their sockets and take their programs along.
"""

import atexit
import gc
import os
import signal
import time

from agentos import environment, process

LINGER_SECONDS = 1.0


def _linger() -> None:
    process.signal_descendants(signal.SIGCONT)  # one that is stopped cannot see the end of its socket
    time.sleep(LINGER_SECONDS)


gc.disable()  # an eighth of the imports that follow; worker/server_warmup.py turns it on again
os.setsid()
process.when_parent_ends(signal.SIGKILL)
if environment.read().get(process.PARENT_VARIABLE) != str(os.getppid()):
    os._exit(1)  # it ended before the kernel was asked
atexit.register(_linger)
