"""Reads from click how the current command was called."""

import sys
from pathlib import Path

import click

from agentos import environment
from agentos.app.invocation import Invocation


def invocation() -> Invocation:
    """Where this command was called, and with which global flags."""
    context = click.get_current_context(silent=True)
    given = context.find_root().obj if context is not None else None
    return Invocation(
        folder=Path.cwd(), environment=environment.read(), arguments=tuple(sys.argv[1:]), **(given or {})
    )


def program() -> str:
    """The start of every command that we suggest."""
    return invocation().program
