"""Every fault of the simulator, and misbehaving clients, over raw sockets."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentos.llm.classify import classify
from agentos.model import CallError
from agentos.model_access import Kind
from agentos.simulator import KeyConfig, SimulatorConfig, parse_fault, running_simulator
from harness.simulator import CALLS, CHAT, PROVIDERS, SECRET, ask, chat, generate, messages, stats, wait_until

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()


@pytest.fixture
def base() -> Iterator[str]:
    with running_simulator() as url:
        yield url


def order(base: str, *rules: Any) -> None:
    assert ask(base, "POST", "/__admin__/faults", list(rules)).status == 200


def dial(base: str) -> socket.socket:
    target = urlsplit(base)
    assert target.hostname is not None
    assert target.port is not None
    return socket.create_connection((target.hostname, target.port), timeout=20)


def request(body: bytes = BODY, *more: str, version: str = "1.1") -> bytes:
    lines = [f"POST {CHAT} HTTP/{version}", "host: x", f"authorization: Bearer {SECRET}", *more]
    lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def exchange(base: str, data: bytes) -> bytes:
    with dial(base) as connection:
        connection.sendall(data)
        return read_all(connection)


def once(**values: Any) -> dict[str, Any]:
    return {"first": 1, **values}


class TestErrors:
    @pytest.mark.parametrize("provider", PROVIDERS)
    @pytest.mark.parametrize(
        ("spec", "expected", "delay"),
        [
            ("429,seconds=7", CallError.RATE_LIMITED, 7),
            ("429-bare", CallError.RATE_LIMITED, None),
            ("quota", None, None),
            ("400", CallError.BAD_REQUEST, None),
            ("401", CallError.KEY_REJECTED, None),
            ("402", CallError.NO_CREDIT, None),
            ("403", None, None),
            ("500", CallError.TRANSIENT, None),
            ("502", CallError.DROPPED, None),
            ("503", CallError.CAPACITY, None),
            ("529", CallError.CAPACITY, None),
            ("redirect", CallError.WRONG_ENDPOINT, None),
        ],
    )
    def test_are_read_as_meant(
        self, base: str, provider: Kind, spec: str, expected: CallError | None, delay: float | None
    ) -> None:
        if spec == "403":  # the country is not supported with one, the key has no permission with the others
            expected = CallError.FORBIDDEN if provider == "openai" else CallError.KEY_REJECTED
        elif expected is None:  # a daily quota with one, money with the others
            expected = CallError.QUOTA_EXHAUSTED if provider == "gemini" else CallError.NO_CREDIT
        order(base, spec)
        got = CALLS[provider](base)
        found = classify(provider, got.status, got.headers, got.raw, now_wall=0)
        assert (found.error_class, found.retry_after) == (expected, delay)
        assert SECRET not in found.message
        assert stats(base)["totals"]["faulted"] == 1

    def test_shapes(self, base: str) -> None:
        order(base, "529")
        assert messages(base).json["error"]["type"] == "overloaded_error"
        order(base, "quota")
        assert chat(base).json["error"]["code"] == "insufficient_quota"
        assert messages(base).json["error"]["details"] == {"error_code": "enforced_spend_limit_reached"}
        order(base, "429,seconds=36.5")
        assert generate(base).json["error"]["details"][-1]["retryDelay"] == "36.500s"
        order(base, "502")
        assert chat(base).headers["content-type"] == "text/html"
        order(base, "redirect,to=http://127.0.0.1:1/x")
        assert chat(base).headers["location"] == "http://127.0.0.1:1/x"


class TestSpoiltReplies:
    @pytest.mark.parametrize(
        ("provider", "length", "filtered"),
        [
            ("openai", "length", "content_filter"),
            ("anthropic", "max_tokens", "refusal"),
            ("gemini", "MAX_TOKENS", "SAFETY"),
        ],
    )
    def test_finish_reasons(self, base: str, provider: str, length: str, filtered: str) -> None:
        for kind, expected in (("length", length), ("filtered", filtered)):
            order(base, kind)
            got = CALLS[provider](base)
            assert got.status == 200
            assert f'"{expected}"'.encode() in got.raw
            assert b"T-shirt" not in got.raw

    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_empty_and_other_model(self, base: str, provider: Kind) -> None:
        order(base, "empty")
        assert b"## Context" not in CALLS[provider](base).raw
        order(base, "other-model")
        assert b'-x-mini"' in CALLS[provider](base).raw

    def test_cut_body(self, base: str) -> None:
        order(base, "cut")
        head, _, body = exchange(base, request()).partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert 0 < len(body) < length
        assert stats(base)["totals"]["abandoned"] == 0

    def test_cut_stream(self, base: str) -> None:
        order(base, "cut")
        got = exchange(base, request(BODY.replace(b"{", b'{"stream": true, ', 1)))
        assert b"data: {" in got
        assert b"[DONE]" not in got
        assert not got.endswith(b"0\r\n\r\n")

    def test_drip(self, base: str) -> None:
        order(base, "drip,seconds=0")
        with dial(base) as connection:
            connection.sendall(request())
            wait_until(lambda: stats(base)["totals"]["calls"] == 1, "the call")
            connection.sendall(request())  # most likely while the first is still dripping
            order(base)
            wait_until(lambda: stats(base)["totals"]["served"] == 2, "the end of the drip")
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection).count(b"HTTP/1.1 200") == 2

    def test_garbage(self, base: str) -> None:
        order(base, "garbage")
        assert not exchange(base, request()).startswith(b"HTTP/")
        order(base, "garbage-body")
        got = chat(base)
        assert got.status == 200
        with pytest.raises(ValueError):
            json.loads(got.raw)

    def test_huge(self, base: str) -> None:
        order(base, "huge,size=2000000")
        assert len(chat(base).raw) > 1_900_000
        order(base, "huge,size=1000000000")
        with dial(base) as connection:
            connection.sendall(request())
            connection.recv(1000)
        wait_until(lambda: stats(base)["totals"]["abandoned"] == 1, "the server noticing")

    def test_reset(self, base: str) -> None:
        order(base, "reset")
        with dial(base) as connection:
            connection.sendall(request())
            with pytest.raises(ConnectionResetError):
                connection.recv(1)

    def test_hang(self, base: str) -> None:
        order(base, "hang,seconds=0.01")
        assert exchange(base, request()) == b""
        order(base, "hang")
        with dial(base) as connection:
            connection.sendall(request())
            wait_until(lambda: stats(base)["totals"]["faulted"] == 2, "the call")
            connection.settimeout(0.05)
            with pytest.raises(TimeoutError):
                connection.recv(1)

    def test_slow(self, base: str) -> None:
        order(base, "slow,seconds=30")
        with dial(base) as connection:
            connection.sendall(request())
            wait_until(lambda: stats(base)["totals"]["in_flight"] == 1, "a call in flight")
        wait_until(lambda: stats(base)["totals"]["abandoned"] == 1, "the server noticing")
        assert stats(base)["totals"]["in_flight"] == 0


def test_calls_at_once() -> None:
    keys = (KeyConfig(secret=SECRET, max_in_flight=1),)
    faults = (parse_fault("slow,nth=1,seconds=30"),)
    with running_simulator(SimulatorConfig(keys=keys, faults=faults)) as base, dial(base) as connection:
        connection.sendall(request())
        wait_until(lambda: stats(base)["totals"]["in_flight"] == 1, "a call in flight")
        assert chat(base).status == 429
        connection.close()
        wait_until(lambda: stats(base)["totals"]["in_flight"] == 0, "the server noticing")
        assert chat(base).status == 200
        assert stats(base)["keys"]["key-1"]["max_in_flight"] == 1


class TestAdmin:
    def test_stats_are_pinned(self, base: str) -> None:
        chat(base)
        found = stats(base)
        assert sorted(found) == ["faults", "first_call", "groups", "keys", "last_served", "seconds", "totals"]
        counts = {"abandoned", "calls", "faulted", "in_flight", "max_in_flight", "refused", "served"}
        counts |= {"tokens_in", "tokens_out", "tokens_cached"}
        assert set(found["totals"]) == counts | {
            "invalid",
            "keys_in_urls",
            "max_calls",
            "max_calls_at_last_served",
            "unauthorized",
        }
        assert set(found["keys"]["key-1"]) == counts | {
            "first_call",
            "group",
            "last_admitted",
            "last_served",
            "service_seconds",
        }
        assert set(found["groups"]["key-1"]) == {"max_calls", "max_calls_at_last_served", "served"}
        assert SECRET not in json.dumps(found)

    def test_rules_replace_or_append(self, base: str) -> None:
        order(base, once(kind="503"), "500,nth=3")
        assert [chat(base).status for _ in range(4)] == [503, 200, 500, 200]
        got = ask(base, "POST", "/__admin__/faults", {"rules": ["401"], "append": True})
        assert got.json == {"ok": True}
        assert stats(base)["faults"] == 3
        assert chat(base).status == 401
        order(base)
        assert chat(base).status == 200

    @pytest.mark.parametrize(
        "body", [b"", b"{}", b"[1]", b'["418"]', b'[{"kind":"429","nth":[]}]', b"[" * 100_000]
    )
    def test_bad_rules(self, base: str, body: bytes) -> None:
        got = ask(base, "POST", "/__admin__/faults", body)
        assert got.status == 400
        assert got.json["error"]

    def test_reset(self) -> None:
        with running_simulator(SimulatorConfig(faults=(parse_fault("503,nth=1"),))) as base:
            assert [chat(base).status for _ in range(2)] == [503, 200]
            assert ask(base, "POST", "/__admin__/reset").status == 200
            assert stats(base)["totals"]["calls"] == 0
            assert chat(base).status == 503

    def test_not_for_web_pages(self, base: str) -> None:
        assert ask(base, "GET", "/__admin__/stats", headers={"origin": "http://x"}).status == 403
        assert ask(base, "GET", "/__admin__/else").status == 404


class TestHttp:
    def test_two_requests_in_one_packet(self, base: str) -> None:
        got = exchange(base, request() + request(BODY, "connection: close"))
        assert got.count(b"HTTP/1.1 200 OK") == 2

    def test_expect_continue(self, base: str) -> None:
        with dial(base) as connection:
            connection.sendall(request(BODY, "expect: 100-continue", "connection: close")[: -len(BODY)])
            assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(BODY)
            assert read_all(connection).startswith(b"HTTP/1.1 200 OK")

    def test_old_client(self, base: str) -> None:
        stream = BODY.replace(b"{", b'{"stream": true, ', 1)
        got = exchange(base, request(stream, version="1.0"))
        assert b"chunked" not in got
        assert got.endswith(b"data: [DONE]\n\n")

    def test_not_http(self, base: str) -> None:
        assert exchange(base, b"\x16\x03\x01\x02\r\n\r\n").startswith(b"HTTP/1.1 400")

    def test_half_a_request(self, base: str) -> None:
        with dial(base) as connection:
            connection.sendall(request()[:-5])
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection).startswith(b"HTTP/1.1 400")

    def test_caps(self) -> None:
        config = SimulatorConfig(max_body=1000, max_header=2000)
        with running_simulator(config) as base:
            assert exchange(base, request(b"x" * 3_000_000)).startswith(b"HTTP/1.1 413")
            assert exchange(base, request(BODY, "x: " + "y" * 3_000_000)).startswith(b"HTTP/1.1 431")

    def test_timeouts(self) -> None:
        config = SimulatorConfig(idle_timeout=0.05, request_timeout=0.05)
        with running_simulator(config) as base:
            assert exchange(base, b"") == b""
            assert exchange(base, request()[:20]).startswith(b"HTTP/1.1 408")

    def test_too_many_connections(self) -> None:
        with running_simulator(SimulatorConfig(max_connections=1)) as base, dial(base) as first:
            first.sendall(request())
            assert first.recv(100).startswith(b"HTTP/1.1 200")
            assert exchange(base, b"") == b""

    def test_stopping_ends_calls_under_way(self) -> None:
        with contextlib.ExitStack() as stack:
            with running_simulator(SimulatorConfig(faults=(parse_fault("hang"),))) as base:
                connections = [stack.enter_context(dial(base)) for _ in range(5)]
                for connection in connections:
                    connection.sendall(request())
                wait_until(lambda: stats(base)["totals"]["faulted"] == 5, "five calls")
            assert [read_all(connection) for connection in connections] == [b""] * 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_as_a_program(number: signal.Signals) -> None:
    args = ["--key", "a:60:6000@g", "--key", "b@g", "--burst", "2", "--latency", "30", "--fault", "503,nth=1"]
    with subprocess.Popen(
        [sys.executable, "-m", "agentos", "simulate", "--port", "0", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:")
            base = line.split()[-1]
            assert chat(base, secret="a").status == 503
            with dial(base) as connection:
                connection.sendall(request().replace(SECRET.encode(), b"b"))
                wait_until(lambda: stats(base)["totals"]["in_flight"] == 1, "a call in flight")
                os.kill(process.pid, number)
                out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    "args", [["--key", ":1"], ["--fault", "418"], ["--latency", "-1"], ["--port", "99999"]]
)
def test_bad_command_line(args: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentos", "simulate", *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
