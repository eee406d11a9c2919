"""Keeps the unit tests pure: no process, no socket, no database, nothing written; those are integration."""

import sys
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

FORBIDDEN = (
    "os.exec",
    "os.fork",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.system",
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "sqlite3.connect",
    "subprocess.Popen",
    "tempfile.mkdtemp",
    "tempfile.mkstemp",
)
_WRITING = {"w", "a", "x", "+"}

hypothesis.settings.register_profile("pure", database=None)
hypothesis.settings.load_profile("pure")


class _Guard:
    on = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        writes = event == "open" and _WRITING & set(arguments[1] or "")
        if (event in FORBIDDEN or writes) and not _is_bytecode(arguments):
            self.on = False  # pytest writes while it tells of the failure
            raise AssertionError(f"a unit test does {event} {arguments[:1]}: make it an integration test")

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_exc: object) -> None:
        self.on = False


def _is_bytecode(arguments: tuple[Any, ...]) -> bool:
    """Whether an import keeps compiled code, as it does on most machines."""
    return bool(arguments) and "__pycache__" in str(arguments[0])


_GUARD = _Guard()
sys.addaudithook(_GUARD)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    with _GUARD:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    with _GUARD:
        return (yield)
