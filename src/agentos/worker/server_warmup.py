"""Preloaded last by the server process that workers are forked from: does once what each would do again."""

import gc
import sys

import agentos.worker.main  # noqa: F401 - for the workers
from agentos import process
from agentos.workflows import loop, registry

kinds: tuple[loop.Kind, ...] = ("issue", "lld")
preloaded = [kind for kind in kinds if registry.SHIPPED[kind] in sys.modules]
for kind in preloaded:
    loop.warm_up(kind)
if not preloaded:
    registry.registered()  # a workflow of the user's own is looked for in the installed packages
process.when_parent_ends(0)
# Memory that no collection touches stays shared between the server and all workers. There is little garbage
# among it, and looking for it takes a tenth as long as all the imports.
gc.freeze()
gc.enable()
