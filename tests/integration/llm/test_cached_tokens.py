"""Cached tokens over the wire: three formats, against the simulated provider's cache and by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.llm.http import HttpAnswer
from agentos.llm.provider import Cancel, ModelRequest, Provider, ProviderError
from agentos.llm.providers import real_provider
from agentos.model import CallError, Usage
from agentos.model_access import Kind
from agentos.review import review_schema
from agentos.secret import Secret
from agentos.simulator import KeyConfig, LimitConfig, SimulatorConfig, running_simulator
from agentos.wire import ProviderAccess
from harness.simulator import PROVIDERS, SECRET, stats

SHARED = "s" * 4 * 2_000


def request(item: str, schema: dict[str, Any] | None = None) -> ModelRequest:
    return ModelRequest(
        role="drafter",
        model="m",
        number=1,
        system="You write documents.",
        prompt=f"{SHARED}{item}",
        breaks=(len(SHARED),),
        schema=schema,
    )


@contextmanager
def serving(name: Kind, limits: LimitConfig | None = None) -> Iterator[tuple[Provider, str]]:
    """Serve a simulated provider, and make our client of it."""
    keys = (KeyConfig(secret=SECRET, limits=limits or LimitConfig()),)
    with running_simulator(SimulatorConfig(keys=keys)) as url:
        base_url = f"{url}/v1" if name == "openai" else url
        provider: Any = real_provider(
            name, ProviderAccess(kind=name, base_url=base_url), call_timeout=20.0, worktree=Path()
        )
        yield provider, url
        provider._endpoint._client.close()


@pytest.mark.parametrize("schema", [None, review_schema("lld")], ids=["text", "schema"])
@pytest.mark.parametrize("name", PROVIDERS)
def test_what_was_cached_is_counted_as_part_of_what_was_sent(
    name: Kind, schema: dict[str, Any] | None
) -> None:
    with serving(name) as (provider, url):
        used = [
            provider.call(request(item, schema), secret=Secret("key-1", SECRET), cancel=Cancel())
            for item in ("one", "two")
        ]
        first, second = used
        assert (first.tokens_cached, second.tokens_in) == (0, first.tokens_in)
        assert 0.9 * second.tokens_in < second.tokens_cached < second.tokens_in
        if name == "anthropic":
            assert first.tokens_cache_written == second.tokens_cached
            assert second.tokens_cache_written == 0
            assert second.tokens_exempt == second.tokens_cached
        else:
            assert first.tokens_cache_written == second.tokens_exempt == 0
        totals = stats(url)["totals"]
        assert totals["tokens_in"] == first.tokens_in + second.tokens_in
        assert totals["tokens_cached"] == second.tokens_cached


@pytest.mark.parametrize("name", PROVIDERS)
def test_calls_with_different_schemas_share_nothing_in_the_cache(name: Kind) -> None:
    schemas: list[dict[str, Any] | None] = [None, {"title": "look"}, {"title": "review"}]
    with serving(name) as (provider, _):
        for schema in schemas:
            cached = [
                provider.call(
                    request("one", schema), secret=Secret("key-1", SECRET), cancel=Cancel()
                ).tokens_cached
                for _ in range(2)
            ]
            assert cached[0] == 0 < cached[1]


@pytest.mark.parametrize(("name", "fits"), [("openai", False), ("anthropic", True)])
def test_a_token_limit_counts_what_was_cached_as_the_provider_does(name: Kind, fits: bool) -> None:
    with serving(name, LimitConfig(tpm=4_000)) as (provider, _):
        results = []
        for item in ("one", "two"):
            try:
                provider.call(request(item), secret=Secret("key-1", SECRET), cancel=Cancel())
                results.append(True)
            except ProviderError as error:
                assert error.error_class is CallError.RATE_LIMITED  # noqa: PT017
                results.append(False)
        assert results == [True, fits]


USAGES: dict[str, tuple[Kind, dict[str, Any], Usage]] = {
    "openai": (
        "openai",
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 64},
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        Usage(tokens_in=100, tokens_out=50, tokens_cached=64, tokens_reasoning=30),
    ),
    "xai": (
        "openai",
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 4150,
            "completion_tokens_details": {"reasoning_tokens": 4000},
        },
        Usage(tokens_in=100, tokens_out=4050, tokens_reasoning=4000),
    ),
    "deepseek": (
        "openai",
        {"prompt_tokens": 100, "completion_tokens": 50, "prompt_cache_hit_tokens": 64},
        Usage(tokens_in=100, tokens_out=50, tokens_cached=64),
    ),
    "openai, absurd": (
        "openai",
        {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 10**8}},
        Usage(tokens_in=10, tokens_cached=10),
    ),
    "openai, nothing": ("openai", {"prompt_tokens_details": None}, Usage()),
    "anthropic": (
        "anthropic",
        {
            "input_tokens": 10,
            "output_tokens": 50,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 30,
        },
        Usage(tokens_in=100, tokens_out=50, tokens_cached=60, tokens_cache_written=30, tokens_exempt=60),
    ),
    "gemini": (
        "gemini",
        {
            "promptTokenCount": 100,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 30,
            "cachedContentTokenCount": 64,
        },
        Usage(tokens_in=100, tokens_out=50, tokens_cached=64, tokens_reasoning=30),
    ),
}


class Answers:
    """Stands for a server that reports this usage."""

    def __init__(self, name: str, usage: dict[str, Any]) -> None:
        choice = {"message": {"content": "text"}, "finish_reason": "stop"}
        self.data: dict[str, Any] = {
            "openai": {"choices": [choice], "usage": usage},
            "anthropic": {
                "content": [{"type": "text", "text": "text"}],
                "stop_reason": "end_turn",
                "usage": usage,
            },
            "gemini": {
                "candidates": [{"content": {"parts": [{"text": "text"}]}, "finishReason": "STOP"}],
                "usageMetadata": usage,
            },
        }[name]

    def post(self, *_: Any, **__: Any) -> HttpAnswer:
        return HttpAnswer(data=self.data, headers={})


@pytest.mark.parametrize("case", USAGES)
def test_usage_is_read_as_each_format_means_it(case: str) -> None:
    name, usage, expected = USAGES[case]
    provider: Any = real_provider(
        name, ProviderAccess(kind=name, base_url="http://127.0.0.1:9"), call_timeout=1.0, worktree=Path()
    )
    provider._endpoint._client.close()
    provider._endpoint = Answers(name, usage)
    reply = provider.call(request("one"), secret=Secret("key-1", SECRET), cancel=Cancel())
    assert Usage(**reply.counts()) == expected
