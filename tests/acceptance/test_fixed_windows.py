"""A server with fixed windows shorter than a minute. The calls are counted at the server."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.odd_provider import OddAnswer, OddBench, running_odd_provider
from harness.project import Project

pytestmark = pytest.mark.slow
LIMIT, SECONDS = 4, 1.0


@dataclass
class Windows:
    """Four calls in each second of its clock, for both models together."""

    refused: int = 0
    served: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, body: dict[str, Any]) -> OddAnswer | None:
        with self._lock:
            window = int(time.monotonic() / SECONDS)
            if self.served.get(window, 0) < LIMIT:
                self.served[window] = self.served.get(window, 0) + 1
                return None
            self.refused += 1
            error = {"message": "Too many requests", "type": "rate_limit_error"}
            return OddAnswer(status=429, body={"error": error}, headers=self.headers())

    def spoil(self, prompt: str, answer: OddAnswer) -> None:
        with self._lock:
            answer.headers |= self.headers()

    def headers(self) -> dict[str, str]:
        now = time.monotonic()
        window = int(now / SECONDS)
        return {
            "x-ratelimit-limit-requests": str(LIMIT),
            "x-ratelimit-remaining-requests": str(LIMIT - self.served.get(window, 0)),
            "x-ratelimit-reset-requests": f"{(window + 1) * SECONDS - now:.3f}s",
        }


@pytest.fixture
def windows(project: Project) -> Iterator[tuple[OddBench, Windows]]:
    with running_odd_provider() as provider:
        found = Windows()
        provider.refuse, provider.spoil = found.admit, found.spoil
        yield OddBench(project=project, provider=provider), found


def test_its_length_is_found_and_used(windows: tuple[OddBench, Windows]) -> None:
    bench, server = windows
    items = 40
    bench.project.issues(items)
    done = bench.run("lld", "--all", "--parallel", "10", "-q")
    assert done.code == 0
    assert sum(server.served.values()) == 2 * items
    assert server.refused < 0.1 * 2 * items
    # Four a minute would have needed twenty minutes: as many windows as calls.
    assert len(server.served) < 1.5 * items
