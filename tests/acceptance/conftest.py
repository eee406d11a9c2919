"""Projects whose workers are started in one way or the other."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from harness.project import SCRIPT, Project, new_project
from harness.provider import Bench, Provider, running_provider
from harness.warm import WarmServer

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
