"""An HTTP provider whose answers a test can break: usage, headers, fields, errors, raw bytes."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentos.simulator.responder import DefaultResponder
from harness.project import Project, Result

SECRET = "odd-provider-secret"


@dataclass(kw_only=True)
class OddAnswer:
    """The answer to send; the body can be anything, even invalid JSON."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class OddProvider:
    """Makes a correct answer, then lets the test break it."""

    url: str = ""
    spoil: Callable[[str, OddAnswer], None] | None = None  # called with the prompt and the answer to change
    refuse: Callable[[dict[str, Any]], OddAnswer | None] | None = None  # called with the body; None: served
    deny: Callable[[str, str], OddAnswer | None] | None = None  # called with the key and the model
    calls: int = 0
    used: list[tuple[str, str]] = field(default_factory=list)  # key and model of every call
    cookies: list[str] = field(default_factory=list)  # of every call that has one
    bodies: list[dict[str, Any]] = field(default_factory=list)  # of every call
    _default: DefaultResponder = field(default_factory=DefaultResponder)

    def answer(self, asked: dict[str, Any], key: str) -> OddAnswer:
        self.calls += 1
        self.bodies.append(asked)
        self.used.append((key, asked["model"]))
        if self.deny is not None and (denied := self.deny(key, asked["model"])) is not None:
            return denied
        if self.refuse is not None and (refused := self.refuse(asked)) is not None:
            return refused
        system, prompt = (message["content"] for message in asked["messages"])
        wanted = asked["response_format"]["json_schema"]["name"] if "response_format" in asked else ""
        text = self._default(asked["model"], system, prompt, wanted)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        answer = OddAnswer(body={"id": "x", "model": asked["model"], "choices": [choice], "usage": usage})
        if self.spoil is not None:
            self.spoil(prompt, answer)
        return answer


@dataclass(kw_only=True)
class OddBench:
    """A project that uses the odd provider."""

    project: Project
    provider: OddProvider
    more: str = ""  # lines of the user's file
    config: Path = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.project.outside / "user.toml"
        self.config.write_text(
            'drafter = "openai:drafter"\nreviewer = "openai:reviewer"\n'
            f'[providers.openai]\nbase_url = "{self.provider.url}/v1"\n{self.more}'
        )

    def run(self, *args: str | Path, **env: str) -> Result:
        return self.project.run("--config", self.config, *args, env={"OPENAI_API_KEY": SECRET} | env)


@contextmanager
def running_odd_provider() -> Iterator[OddProvider]:
    """Serve until the block ends."""
    provider = OddProvider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            provider.cookies += self.headers.get_all("cookie", [])
            answer = provider.answer(asked, self.headers.get("authorization", "").removeprefix("Bearer "))
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        provider.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
