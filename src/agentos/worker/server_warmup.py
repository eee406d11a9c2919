"""Imported last by the server that workers are forked from: does once what all need. Server process."""

import gc
import sys

import agentos.worker.main  # noqa: F401 - for the workers
from agentos import os_process
from agentos.workflows import loop, registry

kinds: tuple[loop.Kind, ...] = ("issue", "lld")
preloaded = [kind for kind in kinds if registry.SHIPPED[kind] in sys.modules]
for kind in preloaded:
    loop.warm_up(kind)
if not preloaded:
    registry.registered()  # looks for the user's own workflow in the installed packages
os_process.when_parent_ends(0)
# Memory that the garbage collector never touches stays shared between the server and all workers. It contains
# little garbage, and a collection takes a tenth as long as all the imports.
gc.freeze()
gc.enable()
