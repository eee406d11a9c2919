"""Preloaded by the server process that workers are forked from: delays its end.

When the coordinator dies, each worker sees the end of its socket and takes the programs it started along.
The kernel's parent-death signal, which comes when the server ends, kills the worker alone; so it must come
second.
"""

import atexit
import time

LINGER_SECONDS = 1.0

atexit.register(time.sleep, LINGER_SECONDS)
