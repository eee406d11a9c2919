"""An HTTP provider that speaks all three formats, and records every request as it arrived."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentos.simulator.responder import DefaultResponder


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """One request."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]


@dataclass(kw_only=True)
class FormatServer:
    """What arrived, and the answers: every draft is complete and every review approves."""

    url: str = ""
    arrived: list[Arrived] = field(default_factory=list)
    refuse: dict[str, int] = field(default_factory=dict)  # by model: the status of the answer
    silent: str = ""  # a model whose calls get no answer until the server ends
    over: threading.Event = field(default_factory=threading.Event)
    _default: DefaultResponder = field(default_factory=DefaultResponder)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def answer(self, one: Arrived) -> tuple[int, dict[str, Any]]:
        self.arrived.append(one)
        if one.path.partition("?")[0].endswith("/chat/completions"):
            return self._openai(one.body)
        if one.path.endswith("/v1/messages"):
            return self._anthropic(one.body)
        return self._gemini(one.path, one.body)

    def _openai(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        model = asked["model"]
        if model == self.silent:
            self.over.wait(60)
        if status := self.refuse.get(model):
            return status, {"error": {"message": "no", "type": "invalid_request_error"}}
        prompt = asked["messages"][-1]["content"]
        wanted = asked["response_format"]["json_schema"]["name"] if "response_format" in asked else ""
        text = self._default(model, "", prompt, wanted)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 50}
        return 200, {"model": model, "choices": [choice], "usage": usage}

    def _anthropic(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        model, prompt = asked["model"], asked["messages"][-1]["content"]
        if isinstance(prompt, list):
            prompt = "".join(block["text"] for block in prompt)
        wanted = asked["tools"][0]["name"] if "tools" in asked else ""
        text = self._default(model, "", prompt, wanted)
        block: dict[str, Any] = {"type": "text", "text": text}
        if wanted:
            block = {"type": "tool_use", "id": "t", "name": wanted, "input": json.loads(text)}
        usage = {"input_tokens": 100, "output_tokens": 50}
        return 200, {"model": model, "content": [block], "stop_reason": "end_turn", "usage": usage}

    def _gemini(self, path: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        model = path.partition("/models/")[2].partition(":")[0]
        prompt = asked["contents"][-1]["parts"][0]["text"]
        schema = asked["generationConfig"].get("responseJsonSchema")
        part = {"text": self._default(model, "", prompt, schema["title"] if schema else "")}
        candidate = {"content": {"parts": [part]}, "finishReason": "STOP"}
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 50}
        return 200, {"modelVersion": model, "candidates": [candidate], "usageMetadata": usage}


@contextmanager
def running_format_server() -> Iterator[FormatServer]:
    """Serve until the block ends."""
    server = FormatServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = server.answer(Arrived(path=self.path, headers=headers, body=body))
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        http.handle_error = lambda *_: None  # type: ignore[method-assign] # a caller that gave up
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            http.shutdown()
            thread.join()
