"""Preloaded last by the server process that workers are forked from: does once what each would do again.

Also delays the server's end. When the coordinator dies, each worker sees the end of its socket and takes the
programs it started along. The kernel's parent-death signal, which comes when the server ends, kills the
worker alone; so it must come second.
"""

import atexit
import gc
import time

import agentos.worker.main  # noqa: F401 - for the workers
from agentos.workflows import loop, registry

LINGER_SECONDS = 1.0

loop.warm_up()
registry.registered()
atexit.register(time.sleep, LINGER_SECONDS)
# Memory that no collection touches stays shared between the server and all workers.
gc.collect()
gc.freeze()
