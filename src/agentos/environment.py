"""The only place that touches this process's environment variables; all other code gets a mapping."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def read() -> dict[str, str]:
    return dict(os.environ)


def extend(variables: Mapping[str, str]) -> None:
    """Set variables for this process and the programs it starts."""
    os.environ.update(variables)


@contextmanager
def replaced_by(environment: Mapping[str, str]) -> Iterator[None]:
    """Use exactly these variables inside the context."""
    before = read()
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
