"""Records in both implementations, with runs that live until a test says otherwise."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.store.records import Records
from agentos.store.records.memory import MemoryRecords
from agentos.store.records.protocols import AllRecords


@pytest.fixture
def dead() -> set[str]:
    """Runs that have died; all others live."""
    return set()


@pytest.fixture(params=["sqlite", "memory"])
def records(request: pytest.FixtureRequest, tmp_path: Path, dead: set[str]) -> Iterator[AllRecords]:
    def alive(run: str) -> bool:
        return run not in dead

    if request.param == "memory":
        yield MemoryRecords(alive=alive)
        return
    with Records(tmp_path / "records.db", alive=alive) as opened:
        yield opened
