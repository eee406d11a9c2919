"""A worker machine: takes items of any submitter, with its own keys and its own way to the providers."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from agentos.app.connections import connections
from agentos.app.db import open_prepared
from agentos.app.invocation import Invocation
from agentos.config import Config, load_config
from agentos.coordinator.keys import KeyRing, key_references, key_ring, keyless
from agentos.engine.job_queue import QueueThread
from agentos.engine.local import LocalEngine
from agentos.engine.machine import Machine
from agentos.engine.own_access import OwnAccess
from agentos.engine.worker_server import WorkerServer, start_method
from agentos.errors import ConfigError
from agentos.llm.providers import MODULES
from agentos.model_access import usual_variable
from agentos.os_process import hide_memory, leave_no_core
from agentos.secret import know
from agentos.signals import StopSignals
from agentos.store.rooted_tree import Tree
from agentos.store.work_folder import work_folder
from agentos.workflows.registry import registered

LAST_SECONDS = 5.0  # for the queue to end its connections
FOLDER = "agentos-worker-"


def run_machine(invocation: Invocation, *, slots: int, say: Callable[[str], None]) -> None:
    """Work until a stop signal arrives; raises ConfigError if the machine cannot begin."""
    environment = invocation.environment
    config = load_config(flags={}, worktree=None, user_file=invocation.config_file, environment=environment)
    leave_no_core()
    know(config.environment, config.key_variables)
    named = {reference.provider for reference in key_references(config)} | set(config.providers)
    ring = _own_keys(config, sorted({"mock", *named, *keyless(config, named)}), say)
    for sentence in ring.unusable:
        say(f"{sentence} This key is not used.")
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    with ExitStack() as stack:
        database = stack.enter_context(open_prepared(environment, application_name="agentos worker"))
        folder = stack.enter_context(work_folder(FOLDER))
        os.chdir(folder)  # no process can be started in a folder that somebody removes
        hide_memory()
        modules = [*MODULES.values(), *(one.module for one in registered().values())]
        modules.append("agentos.worker.postgres_checkpoint")
        server = stack.enter_context(
            WorkerServer(
                start_method(environment.get("AGENTOS_START_METHOD")),
                environment,
                preload=list(dict.fromkeys(modules)),
            )
        )
        server.warm_up()
        signals = stack.enter_context(StopSignals())
        engine = stack.enter_context(LocalEngine(server, wake=signals))
        own = OwnAccess(
            secrets=ring.secrets,
            key_providers={spec.id: spec.provider for spec in ring.specs},
            add_key=partial(_how_to_add, config),
            providers=partial(connections, config),
            say=say,
            mock_shell=environment.get("AGENTOS_MOCK_SHELL") == "1",
        )
        machine = Machine(
            database, engine, name=name, slots=slots, own=own, desks=Tree(folder), signals=signals, say=say
        )
        queue = QueueThread(database, slots=slots, serves=own.serves, submit=machine.submit)
        keys = ", ".join(sorted(ring.secrets))
        say(f"{name}: taking up to {slots} items from {database.name}; keys: {keys}")
        queue.start()
        machine.run(stop_queue=queue.stop)
        queue.join(LAST_SECONDS)


def _how_to_add(config: Config, provider: str) -> str:
    """How to give this machine a key for a provider."""
    if config.keys:
        return f"check [[keys]] for {provider} in {config.named_user_file}"
    return f"set {usual_variable(provider)}"


def _own_keys(config: Config, providers: Sequence[str], say: Callable[[str], None]) -> KeyRing:
    """The keys that this machine has; of a provider without any, it runs no items."""
    usable = []
    for provider in providers:
        try:
            key_ring(config, [provider])
            usable.append(provider)
        except ConfigError as exc:
            say(f"{exc} This key is not used.")
    return key_ring(config, usable)
