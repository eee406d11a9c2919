"""Records in all implementations, with runs that live until a test says otherwise."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.store.records import Records
from agentos.store.records.memory import MemoryRecords
from agentos.store.records.protocols import AllRecords
from harness.postgres import Cluster
from harness.records import open_postgres_records


@pytest.fixture(scope="session")
def records_url(postgres_cluster: Cluster) -> Iterator[str]:
    """A database for all tests of the records, by a role that has no more than the documented rights."""
    url = postgres_cluster.prepared()
    postgres_cluster.grant(url)
    yield url.replace("agentos@", "agentos_submitter@")
    postgres_cluster.drop(url)


@pytest.fixture
def dead() -> set[str]:
    """Runs that have died; all others live."""
    return set()


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def records(request: pytest.FixtureRequest, tmp_path: Path, dead: set[str]) -> Iterator[AllRecords]:
    def alive(run: str) -> bool:
        return run not in dead

    if request.param == "memory":
        yield MemoryRecords(alive=alive)
    elif request.param == "postgres":
        # A project for each test, because a database for each takes much longer.
        url, project = request.getfixturevalue("records_url"), uuid.uuid4().hex
        with open_postgres_records(url, project=project, alive=alive) as shared:
            yield shared
    else:
        with Records(tmp_path / "records.db", alive=alive) as opened:
            yield opened
