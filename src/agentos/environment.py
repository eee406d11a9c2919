"""The one place that touches this process's environment variables; everybody else is given a mapping."""

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
    """Have these variables and no others for a while."""
    before = read()
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
