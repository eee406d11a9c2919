"""What holds for every test: it sees nothing of the user's environment, and has a project of its own."""

import atexit
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentos import redact
from harness.project import Project, new_project
from harness.warm import WarmServer

if TYPE_CHECKING:
    from harness.postgres import Cluster

# All that the tests see of the environment they are started in, and what steers them: whatever else a user
# has set (colours, proxies, keys, a locale, CI) must make no difference.
SEEN = {"PATH", "TMPDIR", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}
STEERING = {"AGENTOS_TESTS_COLD", "AGENTOS_TESTS_NO_SKIP", "AGENTOS_SCREENSHOTS"}


def _isolate() -> None:
    for name in set(os.environ) - SEEN - STEERING:
        if not name.startswith(("PYTEST_", "COVERAGE_")):
            del os.environ[name]
    home = tempfile.mkdtemp(prefix="agentos-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ |= {"HOME": home, "LANG": "C.UTF-8"}
    # What is started in the background, or by nohup, ignores these, and everything it starts does, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


_isolate()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing may be skipped, a skipped test has failed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("AGENTOS_TESTS_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where nothing may be: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator["Cluster"]:
    from harness import postgres

    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.cluster() as made:
        yield made


@pytest.fixture
def postgres_url(postgres_cluster: "Cluster") -> Iterator[str]:
    """An empty database of its own."""
    url = postgres_cluster.create()
    yield url
    postgres_cluster.drop(url)


@pytest.fixture
def prepared_postgres(postgres_cluster: "Cluster") -> Iterator[str]:
    """A database of its own with all tables, as `agentos db upgrade` makes them."""
    url = postgres_cluster.prepared()
    yield url
    postgres_cluster.drop(url)


@pytest.fixture(scope="session")
def warm_server() -> Iterator[WarmServer]:
    with WarmServer() as server:
        yield server


@pytest.fixture
def warm(request: pytest.FixtureRequest) -> WarmServer | None:
    """The process that commands are forked from, unless a test, or the user, wants them really started."""
    cold = request.node.get_closest_marker("cold") is not None or os.environ.get("AGENTOS_TESTS_COLD")
    return None if cold else request.getfixturevalue("warm_server")


@pytest.fixture
def make_project(tmp_path: Path, warm: WarmServer | None) -> Iterator[Callable[[str], Project]]:
    """Make projects below the test's temporary folder; none sees anything of the user's."""
    with contextlib.ExitStack() as made:

        def make(name: str) -> Project:
            return made.enter_context(new_project(tmp_path, name=name, warm=warm))

        yield make


@pytest.fixture
def project(make_project: Callable[[str], Project]) -> Project:
    """An empty project: the folders and a configuration file, no item."""
    return make_project("project").init()


@pytest.fixture(autouse=True)
def _signals_restored() -> Iterator[None]:
    """What one test does with signals ends with it: every command inherits signals that are ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _no_secret_known() -> Iterator[None]:
    """What one test lets this process know is not taken out of another's texts."""
    yield
    redact.KNOWN.__init__()  # type: ignore[misc]
