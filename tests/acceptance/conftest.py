"""Projects whose workers are started in one way or the other."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.project import SCRIPT, Project, new_project
from harness.provider import Bench, Provider, running_provider
from harness.warm import WarmServer

if TYPE_CHECKING:
    from harness.fleet import Fleet
    from harness.network import Namespace

StartedBy = Callable[[str], AbstractContextManager[Project]]

# Starting every worker from nothing takes its time: make test has some cases with it, make test-all all.
USUAL_METHODS = ("forkserver", pytest.param("spawn", marks=pytest.mark.slow))


@pytest.fixture
def started_by(tmp_path: Path, warm: WarmServer | None) -> StartedBy:
    """Make a project for a start method; the mock's shell commands are allowed in it."""

    @contextmanager
    def make(method: str) -> Iterator[Project]:
        env = {"AGENTOS_START_METHOD": method, "AGENTOS_MOCK_SHELL": "1"}
        with new_project(tmp_path, env=env, warm=warm) as project:
            project.command = SCRIPT
            yield project.init()

    return make


@pytest.fixture
def box(started_by: StartedBy) -> Iterator[Project]:
    with started_by("forkserver") as made:
        yield made


@pytest.fixture(params=USUAL_METHODS)
def either(request: pytest.FixtureRequest, started_by: StartedBy) -> Iterator[Project]:
    with started_by(request.param) as made:
        yield made


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as made:
        yield made


@pytest.fixture
def bench(project: Project, provider: Provider) -> Bench:
    return Bench(project=project, provider=provider)


@pytest.fixture
def fleet(postgres_url: str, make_project: Callable[[str], Project]) -> "Iterator[Fleet]":
    """A prepared database; machines and submitters are started in it."""
    from harness.fleet import running_fleet

    with running_fleet(postgres_url, make_project) as made:
        yield made


@pytest.fixture
def links(request: pytest.FixtureRequest) -> "Iterator[list[Namespace]]":
    """Networks of machines, two unless a test wants more; none where they cannot be made."""
    from harness import network

    with network.namespaces(getattr(request, "param", 2) if network.possible() else 0) as made:
        yield made


@pytest.fixture
def linked_fleet(links: "list[Namespace]", make_project: Callable[[str], Project]) -> "Iterator[Fleet]":
    """A fleet whose database also listens at the outer end of every link."""
    from harness import postgres
    from harness.fleet import running_fleet

    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    addresses = ",".join(("127.0.0.1", *(link.outside for link in links)))
    with postgres.cluster(listen=addresses) as cluster, running_fleet(cluster.create(), make_project) as made:
        yield made
