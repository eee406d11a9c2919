"""Preloaded last by the server process that workers are forked from: does once what each would do again."""

import gc

import agentos.worker.main  # noqa: F401 - for the workers
from agentos import process
from agentos.workflows import loop, registry

loop.warm_up()
registry.registered()
process.when_parent_ends(0)
# Memory that no collection touches stays shared between the server and all workers.
gc.collect()
gc.freeze()
gc.enable()
