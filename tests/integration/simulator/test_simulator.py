"""The simulator over real sockets: three wire formats, limits and counts."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentos.errors import UsageError
from agentos.llm.classify import classify
from agentos.model import CallError
from agentos.model_access import Kind
from agentos.simulator import LimitConfig, SimulatorConfig, parse_key, running_simulator
from agentos.simulator.limit_headers import LimitStyle
from harness.simulator import (
    CALLS,
    CHAT,
    GENERATE,
    MESSAGES,
    PROVIDERS,
    SECRET,
    Clock,
    ask,
    chat,
    generate,
    limited,
    messages,
    stats,
)


@pytest.fixture
def base() -> Iterator[str]:
    with running_simulator() as url:
        yield url


class TestOpenAI:
    def test_reply(self, base: str) -> None:
        got = chat(base, "Draft the design for #42")
        choice = got.json["choices"][0]
        assert got.status == 200
        assert got.headers["content-type"] == "application/json"
        assert got.headers["x-request-id"]
        assert got.json["object"] == "chat.completion"
        assert got.json["id"].startswith("chatcmpl-")
        assert got.json["model"] == "gpt-x"
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["role"] == "assistant"
        assert "**Issue:** #42" in choice["message"]["content"]
        usage = got.json["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0

    def test_structured(self, base: str) -> None:
        schema = {"type": "json_schema", "json_schema": {"name": "review", "schema": {"type": "object"}}}
        review = json.loads(chat(base, response_format=schema).json["choices"][0]["message"]["content"])
        assert list(review) == [
            "identity",
            "pre_flight",
            "earlier",
            "summary",
            "tier1",
            "tier2",
            "suggestions",
            "questions",
            "verdict",
        ]
        assert review["pre_flight"]["passed"] is True

    def test_tool(self, base: str) -> None:
        tool = {"type": "function", "function": {"name": "review", "parameters": {}}}
        choice = chat(base, tools=[tool]).json["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        call = choice["message"]["tool_calls"][0]["function"]
        assert call["name"] == "review"
        assert json.loads(call["arguments"])["verdict"] == "APPROVED"
        named = {"type": "function", "function": {"name": "review"}}
        assert chat(base, tools=[tool], tool_choice=named).json["choices"][0]["finish_reason"] == "stop"
        assert chat(base, tools=[tool], tool_choice="none").json["choices"][0]["message"]["content"]

    def test_stream(self, base: str) -> None:
        got = chat(base, stream=True, stream_options={"include_usage": True})
        assert got.headers["content-type"] == "text/event-stream"
        frames = got.raw.decode().strip().split("\n\n")
        assert frames[-1] == "data: [DONE]"
        chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]
        text = "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks if one["choices"])
        assert text == chat(base).json["choices"][0]["message"]["content"]
        assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
        assert chunks[-1]["usage"]["completion_tokens"] > 0

    def test_limit_headers(self) -> None:
        config = limited(LimitConfig(rpm=600, tpm=60_000), Clock())
        with running_simulator(config) as base:
            got = chat(base)
        used = got.json["usage"]["total_tokens"]
        assert got.headers["x-ratelimit-limit-requests"] == "600"
        assert got.headers["x-ratelimit-remaining-requests"] == "599"
        assert got.headers["x-ratelimit-reset-requests"] == "100ms"
        assert got.headers["x-ratelimit-limit-tokens"] == "60000"
        assert got.headers["x-ratelimit-remaining-tokens"] == str(60_000 - used)

    @pytest.mark.parametrize(
        ("style", "named"),
        [
            (
                LimitStyle.OPENAI,
                {
                    "x-ratelimit-limit-requests": "240",
                    "x-ratelimit-remaining-requests": "3",
                    "x-ratelimit-reset-requests": "250ms",
                },
            ),
            (
                LimitStyle.BURST,
                {
                    "x-ratelimit-limit-requests": "4",
                    "x-ratelimit-remaining-requests": "3",
                    "x-ratelimit-reset-requests": "0.250s",
                },
            ),
            (
                LimitStyle.IETF,
                {"ratelimit-policy": '"requests";q=4;w=1;qu="requests"', "ratelimit": '"requests";r=3;t=1'},
            ),
            (LimitStyle.NONE, {}),
        ],
    )
    def test_limits_can_be_named_in_other_ways(self, style: LimitStyle, named: dict[str, str]) -> None:
        config = replace(limited(LimitConfig(rpm=240, burst=4), Clock()), limit_style=style)
        with running_simulator(config) as base:
            got = chat(base)
            refused = [chat(base) for _ in range(4)][-1]
        assert {name: text for name, text in got.headers.items() if "ratelimit" in name} == named
        assert refused.status == 429
        assert ("retry-after" in refused.headers) is (style is not LimitStyle.NONE)

    def test_models(self, base: str) -> None:
        got = ask(base, "GET", "/v1/models", headers={"authorization": f"Bearer {SECRET}"})
        assert [one["object"] for one in got.json["data"]] == ["model"]
        assert ask(base, "GET", "/v1/models").status == 401


class TestAnthropic:
    def test_reply(self, base: str) -> None:
        got = messages(base, system="Be brief.")
        assert got.status == 200
        assert got.headers["request-id"].startswith("req_")
        assert got.json["type"] == "message"
        assert got.json["stop_reason"] == "end_turn"
        assert got.json["content"][0]["type"] == "text"
        assert got.json["usage"]["output_tokens"] > 0

    def test_either_header_carries_the_key(self, base: str) -> None:
        body = {"model": "c", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        headers = {"authorization": f"Bearer {SECRET}", "anthropic-version": "2023-06-01"}
        assert ask(base, "POST", MESSAGES, body, headers).status == 200

    def test_tool_and_schema(self, base: str) -> None:
        tool = {"name": "review", "input_schema": {"type": "object"}}
        got = messages(base, tools=[tool], tool_choice={"type": "tool", "name": "review"}).json
        assert got["stop_reason"] == "tool_use"
        assert got["content"][0]["input"]["verdict"] == "APPROVED"
        form = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
        text = messages(base, output_config=form).json["content"][0]["text"]
        assert json.loads(text)["verdict"] == "APPROVED"

    def test_out_of_tokens(self, base: str) -> None:
        got = messages(base, max_tokens=3).json
        assert got["stop_reason"] == "max_tokens"
        assert got["usage"]["output_tokens"] == 3
        assert len(got["content"][0]["text"]) == 12

    def test_stream(self, base: str) -> None:
        frames = messages(base, stream=True).raw.decode().strip().split("\n\n")
        events = [json.loads(frame.split("data: ", 1)[1]) for frame in frames]
        kinds = [one["type"] for one in events]
        assert kinds[:3] == ["message_start", "content_block_start", "ping"]
        assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        assert "".join(one["delta"]["text"] for one in events if one["type"] == "content_block_delta")

    def test_limit_headers(self) -> None:
        config = limited(LimitConfig(rpm=60, tpm=60_000), Clock(), wall=lambda: 1_800_000_000.25)
        with running_simulator(config) as base:
            headers = messages(base).headers
        assert headers["anthropic-ratelimit-requests-limit"] == "60"
        assert headers["anthropic-ratelimit-requests-remaining"] == "59"
        reset = datetime.fromisoformat(headers["anthropic-ratelimit-requests-reset"]).timestamp()
        assert reset == 1_800_000_002
        for kind in ("tokens", "input-tokens", "output-tokens"):
            assert headers[f"anthropic-ratelimit-{kind}-limit"] == "60000"


class TestGemini:
    @pytest.mark.parametrize("version", ["v1", "v1beta"])
    def test_reply(self, base: str, version: str) -> None:
        got = generate(base, path=f"/{version}/models/gemini-x:generateContent")
        candidate = got.json["candidates"][0]
        assert got.status == 200
        assert candidate["finishReason"] == "STOP"
        assert candidate["content"]["role"] == "model"
        assert "## Context" in candidate["content"]["parts"][0]["text"]
        assert got.json["modelVersion"] == "gemini-x"
        assert got.json["usageMetadata"]["totalTokenCount"] > 0
        assert not any("ratelimit" in name for name in got.headers)

    def test_schema_and_function(self, base: str) -> None:
        settings = {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}}
        text = generate(base, generationConfig=settings).json["candidates"][0]["content"]["parts"][0]["text"]
        assert json.loads(text)["verdict"] == "APPROVED"
        tools = [{"functionDeclarations": [{"name": "review"}]}]
        part = generate(base, tools=tools).json["candidates"][0]["content"]["parts"][0]
        assert part["functionCall"]["args"]["verdict"] == "APPROVED"

    def test_stream(self, base: str) -> None:
        got = generate(base, path="/v1beta/models/gemini-x:streamGenerateContent?alt=sse")
        frames = [
            json.loads(one.removeprefix("data: ")) for one in got.raw.decode().strip().split("\r\n\r\n")
        ]
        assert len(frames) > 1
        assert [one["candidates"][0].get("finishReason") for one in frames][-2:] == [None, "STOP"]

    def test_a_key_in_the_address_is_taken_and_counted(self, base: str) -> None:
        body = {"contents": [{"parts": [{"text": "hi"}]}]}
        assert ask(base, "POST", f"{GENERATE}?key={SECRET}", body).status == 200
        assert stats(base)["totals"]["keys_in_urls"] == 1


class TestRefusals:
    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_keys(self, base: str, provider: Kind) -> None:
        call = CALLS[provider]
        wrong, none = call(base, secret="sk-not-the-one-9876"), call(base, secret="")
        for got in (wrong, none):
            found = classify(provider, got.status, got.headers, got.raw, now_wall=0)
            assert found.error_class is CallError.KEY_REJECTED
        assert stats(base)["totals"]["unauthorized"] == 2

    def test_key_shapes(self, base: str) -> None:
        assert chat(base, secret="sk-not-the-one-9876").json["error"]["code"] == "invalid_api_key"
        assert messages(base, secret="x").json["error"]["type"] == "authentication_error"
        got = generate(base, secret="x")
        assert got.status == 400
        assert got.json["error"]["details"][0]["reason"] == "API_KEY_INVALID"
        assert generate(base, secret="").status == 403

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, {}, {"messages": 5}])
    @pytest.mark.parametrize("path", [CHAT, MESSAGES, GENERATE])
    def test_bad_bodies(self, base: str, path: str, body: Any) -> None:
        headers = {"authorization": f"Bearer {SECRET}", "x-goog-api-key": SECRET, "anthropic-version": "1"}
        if path != GENERATE:
            del headers["x-goog-api-key"]
        got = ask(base, "POST", path, body, headers)
        assert got.status == 400
        assert got.json["error"]["message"]
        assert stats(base)["totals"]["invalid"] == 1

    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_unknown_model(self, provider: Kind) -> None:
        with running_simulator(SimulatorConfig(models=("other",))) as base:
            assert CALLS[provider](base).status == 404

    def test_unknown_path(self, base: str) -> None:
        assert ask(base, "POST", "/v1/embeddings", {}).status == 404
        assert ask(base, "GET", CHAT).status == 404

    def test_port_in_use(self, base: str) -> None:
        port = urlsplit(base).port
        assert port is not None
        with pytest.raises(UsageError, match=str(port)), running_simulator(SimulatorConfig(port=port)):
            pass


class TestLimits:
    def test_requests(self) -> None:
        clock = Clock()
        with running_simulator(limited(LimitConfig(rpm=60, burst=3), clock)) as base:
            assert [chat(base).status for _ in range(4)] == [200, 200, 200, 429]
            got = chat(base)
            assert got.headers["retry-after"] == "1"
            assert got.headers["retry-after-ms"] == "1000"
            assert got.headers["x-ratelimit-remaining-requests"] == "0"
            assert (got.json["error"]["type"], got.json["error"]["code"]) == (
                "requests",
                "rate_limit_exceeded",
            )
            clock.now += 2
            assert [chat(base).status for _ in range(3)] == [200, 200, 429]
            totals = stats(base)["totals"]
            assert (totals["served"], totals["refused"], totals["max_calls"]) == (5, 3, 5)
            clock.now += 10
            later = stats(base)["totals"]
            assert (later["max_calls"], later["max_calls_at_last_served"]) == (15, 5)

    def test_tokens(self) -> None:
        clock = Clock()
        config = limited(LimitConfig(tpm=600, token_burst=250), clock, responder=lambda *_: "x" * 396)
        with running_simulator(config) as base:  # 1 for no system, 1 for the prompt, 99 for the text
            assert [chat(base, "ask").status for _ in range(3)] == [200, 200, 429]
            got = chat(base, "ask")
            assert got.json["error"]["type"] == "tokens"
            assert got.headers["retry-after-ms"] == "5300"
            clock.now += 5.3
            assert chat(base, "ask").status == 200
            assert stats(base)["totals"]["max_calls"] == int((250 + 53) / 101)

    @pytest.mark.parametrize(("provider", "delay"), [("openai", 0.5), ("anthropic", 1), ("gemini", 0.5)])
    def test_hints_are_read_as_meant(self, provider: Kind, delay: float) -> None:
        with running_simulator(limited(LimitConfig(rpm=120, burst=1), Clock())) as base:
            assert CALLS[provider](base).status == 200
            got = CALLS[provider](base)
        found = classify(provider, got.status, got.headers, got.raw, now_wall=time.time())
        assert found.error_class is CallError.RATE_LIMITED
        assert found.retry_after == delay

    def test_a_day(self) -> None:
        with running_simulator(limited(LimitConfig(rpd=2), Clock())) as base:
            assert [generate(base).status for _ in range(2)] == [200, 200]
            got = generate(base)
            assert "retry-after" not in got.headers
            found = classify("gemini", got.status, got.headers, got.raw, now_wall=time.time())
            assert found.error_class is CallError.QUOTA_EXHAUSTED
            assert found.quota_reset is not None
            assert chat(base).headers["retry-after"] == "43200"

    def test_a_group_shares(self) -> None:
        keys = (parse_key("a:2@g"), parse_key("b@g"), parse_key("c:2"))
        with running_simulator(SimulatorConfig(keys=keys, clock=Clock())) as base:
            assert [chat(base, secret=one).status for one in "abbcc"] == [200, 200, 429, 200, 200]
            found = stats(base)
        assert found["groups"]["g"]["served"] == 2
        assert found["keys"]["key-2"]["refused"] == 1
        assert found["totals"]["max_calls"] == 4

    def test_a_model_apart(self) -> None:
        config = limited(LimitConfig(rpm=1), Clock(), per_model=True)
        with running_simulator(config) as base:
            statuses = [chat(base, model=model).status for model in ("a", "a", "b", "b")]
        assert statuses == [200, 429, 200, 429]

    def test_refused_calls_count_where_told(self) -> None:
        clock = Clock()
        with running_simulator(limited(LimitConfig(rpm=60, burst=1), clock, refused_count=True)) as base:
            assert chat(base).status == 200
            for _ in range(3):
                clock.now += 0.9
                assert chat(base).status == 429
            clock.now += 1
            assert chat(base).status == 200


def test_no_connection_is_left_open_when_it_stops() -> None:
    clients: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            with running_simulator() as url:
                place = urlsplit(url)
                for _ in range(10):  # some are accepted only while it stops
                    client = socket.create_connection((place.hostname, place.port), timeout=10)
                    clients.append(stack.enter_context(client))
        for client in clients:
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
