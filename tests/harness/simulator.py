"""Plain clients for the simulator's three formats."""

import contextlib
import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentos.model_access import Kind
from agentos.simulator import KeyConfig, LimitConfig, SimulatorConfig

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
GENERATE = "/v1beta/models/gemini-x:generateContent"
SECRET = "sim-key"


@dataclass(frozen=True, kw_only=True)
class Got:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def ask(base: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Got:
    with contextlib.closing(http.client.HTTPConnection(urlsplit(base).netloc, timeout=20)) as connection:
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, raw, headers or {})
        found = connection.getresponse()
        names = {name.lower(): value for name, value in found.getheaders()}
        return Got(status=found.status, headers=names, raw=found.read())


def chat(base: str, prompt: str = "Draft #42", secret: str = SECRET, **more: Any) -> Got:
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": prompt}], **more}
    return ask(base, "POST", CHAT, body, {"authorization": f"Bearer {secret}"})


def messages(base: str, prompt: str = "Draft #42", secret: str = SECRET, **more: Any) -> Got:
    body = {
        "model": "claude-x",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": prompt}],
        **more,
    }
    return ask(base, "POST", MESSAGES, body, {"x-api-key": secret, "anthropic-version": "2023-06-01"})


def generate(
    base: str, prompt: str = "Draft #42", secret: str = SECRET, path: str = GENERATE, **more: Any
) -> Got:
    body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}], **more}
    return ask(base, "POST", path, body, {"x-goog-api-key": secret})


CALLS = {"openai": chat, "anthropic": messages, "gemini": generate}
PROVIDERS: list[Kind] = ["openai", "anthropic", "gemini"]


def stats(base: str) -> Any:
    return ask(base, "GET", "/__admin__/stats").json


def limited(limits: LimitConfig, clock: Clock, **more: Any) -> SimulatorConfig:
    keys = (KeyConfig(secret=SECRET, limits=limits),)
    return SimulatorConfig(keys=keys, clock=clock, **more)


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition; only a failure takes long."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.005)
