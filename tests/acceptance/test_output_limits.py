"""Servers that correct a request, and replies that are too long. The calls are counted at the server."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.odd_provider import OddAnswer, OddBench, OddProvider, running_odd_provider
from harness.project import Project

Refusal = Callable[[dict[str, Any]], OddAnswer | None]
PRICES = "".join(
    f'[prices."openai:{model}"]\ninput = 1.0\noutput = 10.0\n' for model in ("drafter", "reviewer")
)


@pytest.fixture
def bench(project: Project) -> Iterator[OddBench]:
    with running_odd_provider() as provider:
        yield OddBench(project=project, provider=provider, more=PRICES)


def refused(message: str, status: int = 400, **more: Any) -> OddAnswer:
    return OddAnswer(
        status=status, body={"error": {"message": message, "type": "invalid_request_error", **more}}
    )


def new_name_only(body: dict[str, Any]) -> OddAnswer | None:
    """As newer models of OpenAI and of Azure."""
    if "max_tokens" not in body:
        return None
    return refused(
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
        param="max_tokens",
        code="unsupported_parameter",
    )


def at_most(tokens: int) -> Refusal:
    def check(body: dict[str, Any]) -> OddAnswer | None:
        asked = int(body.get("max_tokens") or body["max_completion_tokens"])
        if asked <= tokens:
            return None
        return refused(
            f"max_tokens is too large: {asked}. This model supports at most {tokens} completion tokens, "
            f"whereas you provided {asked}.",
            param="max_tokens",
        )

    return check


def small_context(body: dict[str, Any]) -> OddAnswer | None:
    """As vLLM, with its own count of the prompt's tokens."""
    prompt = sum(len(message["content"]) for message in body["messages"]) // 3
    asked = body["max_tokens"]
    if prompt + asked <= 16_384:
        return None
    return refused(
        f"This model's maximum context length is 16384 tokens. However, you requested {prompt + asked} "
        f"tokens ({prompt} in the messages, {asked} in the completion)."
    )


def no_schema(body: dict[str, Any]) -> OddAnswer | None:
    return refused("invalid format") if "response_format" in body else None


def all_of(*checks: Refusal) -> Refusal:
    return lambda body: next((found for check in checks if (found := check(body)) is not None), None)


def facts(bench: OddBench) -> dict[str, Any]:
    data = json.loads((bench.project.home / "models.json").read_text())
    return {model: entry["facts"] for model, entry in data["models"].items()}


@pytest.mark.parametrize(
    ("refuse", "wrong", "known"),
    [
        (new_name_only, 2, {"limit_name": "max_completion_tokens"}),
        (at_most(8192), 2, {"max_output": 8192}),
        (small_context, 2, {"context": 16_384}),
        (
            all_of(new_name_only, at_most(8192)),
            4,
            {"limit_name": "max_completion_tokens", "max_output": 8192},
        ),
    ],
    ids=["name", "largest", "context", "both"],
)
def test_a_server_corrects_a_request_once_for_all_items_and_runs(
    bench: OddBench, refuse: Refusal, wrong: int, known: dict[str, Any]
) -> None:
    bench.provider.refuse = refuse
    for number in (1, 2, 3):
        bench.project.issue(number)
    first = bench.run("lld", "1", "2")
    assert first.code == 0, first
    # Two models, so each correction costs one refused call per model; the second item makes none.
    assert bench.provider.calls == 4 + wrong
    for model in ("openai:drafter", "openai:reviewer"):
        assert facts(bench)[model].items() >= known.items()
    failed = [one for one in bench.project.audits("1") if one["kind"] == "failed_call"]
    assert [(one["error"], one["cost_usd"]) for one in failed] == [("corrected", 0.0)] * wrong
    assert {one["tries"] for one in bench.project.audits("1") if one["kind"] == "call"} == {1}
    row = bench.project.row("1")
    assert row["cost_usd"] == pytest.approx(2 * (100 * 1.0 + 50 * 10.0) / 1e6)
    # A new process knows it from the file.
    assert bench.run("lld", "3").code == 0
    assert bench.provider.calls == 6 + wrong
    said = [line for line in first.out.splitlines() if "openai:drafter " in line and "COORDINATOR" in line]
    assert len(said) == len(known), first.out


def test_a_server_without_schemas_is_asked_once_with_one(bench: OddBench) -> None:
    bench.provider.refuse = no_schema
    for number in (1, 2):
        bench.project.issue(number)
    bench.run("lld", "1", "2")
    assert [body["model"] for body in bench.provider.bodies if "response_format" in body] == ["reviewer"]


def test_another_server_of_the_same_provider_is_not_judged_by_the_first(bench: OddBench) -> None:
    bench.provider.refuse = at_most(8192)
    for number in (1, 2):
        bench.project.issue(number)
    assert bench.run("lld", "1").code == 0
    with running_odd_provider() as other:
        bench.config.write_text(bench.config.read_text().replace(bench.provider.url, other.url))
        assert bench.run("lld", "2").code == 0
        assert {body["max_tokens"] for body in other.bodies} == {16_000}


def test_a_hostile_server_cannot_keep_correcting(bench: OddBench) -> None:
    def never(body: dict[str, Any]) -> OddAnswer | None:
        asked = int(body.get("max_tokens") or body["max_completion_tokens"])
        return refused(f"max_tokens must be less than or equal to {asked - 1}")

    bench.provider.refuse = never
    bench.project.issue(1)
    result = bench.run("lld", "1")
    assert result.code == 1
    assert bench.provider.calls == 5
    assert "must be less than or equal to" in bench.project.row("1")["error"]
    assert not (bench.project.home / "models.json").exists(), "nothing of it ever worked"


def cut(provider: OddProvider, *, above: int) -> None:
    """Cut every draft for which less than this was asked."""

    def spoil(_: str, answer: OddAnswer) -> None:
        body = provider.bodies[-1]
        if body["model"] == "drafter" and body["max_tokens"] < above:
            answer.body["choices"][0]["finish_reason"] = "length"

    provider.spoil = spoil


def test_a_reply_that_is_cut_is_asked_for_once_more_with_a_larger_limit(bench: OddBench) -> None:
    cut(bench.provider, above=20_000)
    bench.project.issue(1)
    assert bench.run("lld", "1").code == 0
    drafts = [body["max_tokens"] for body in bench.provider.bodies if body["model"] == "drafter"]
    assert drafts == [16_000, 64_000]
    # Both were paid for.
    row = bench.project.row("1")
    assert row["tokens_out"] == 150
    assert row["cost_usd"] == pytest.approx(3 * (100 * 1.0 + 50 * 10.0) / 1e6)


@pytest.mark.parametrize(
    ("refuse", "asked", "at"),
    [(None, [16_000, 64_000], "64,000"), (at_most(16_000), [16_000, 64_000], "16,000")],
    ids=["always", "no larger limit"],
)
def test_then_the_item_fails_and_says_what_to_set(
    bench: OddBench, refuse: Refusal | None, asked: list[int], at: str
) -> None:
    bench.provider.refuse = refuse
    cut(bench.provider, above=1_000_000)
    bench.project.issue(1)
    assert bench.run("lld", "1").code == 1
    assert [body["max_tokens"] for body in bench.provider.bodies] == asked
    assert bench.project.row("1")["error"] == (
        f"openai:drafter: the answer was cut at {at} tokens; "
        "set max_output_tokens in [roles.drafter] of your configuration file"
    )
    paid = 1 if refuse else 2
    assert bench.project.row("1")["cost_usd"] == pytest.approx(paid * (100 * 1.0 + 50 * 10.0) / 1e6)


def test_an_edited_file_of_facts_does_no_harm(bench: OddBench) -> None:
    bench.provider.refuse = at_most(8192)
    for number in (1, 2, 3):
        bench.project.issue(number)
    assert bench.run("lld", "1").code == 0
    path = bench.project.home / "models.json"
    for text in (
        '{"models": {"openai:drafter": {"endpoint": "", "at": 1, "facts": {"max_output": -5}}}}',
        "][",
    ):
        path.write_text(text)
        assert bench.run("lld", "2", "3", "--fresh").code == 0
        assert facts(bench)["openai:drafter"]["max_output"] == 8192


def test_a_review_under_an_unknown_name_is_accepted_with_one_warning(bench: OddBench) -> None:
    def spoil(_: str, answer: OddAnswer) -> None:
        answer.body["model"] = "prod-7"

    bench.provider.spoil = spoil
    for number in (1, 2):
        bench.project.issue(number)
    result = bench.run("lld", "1", "2")
    assert result.code == 0, result
    assert bench.provider.calls == 4
    assert result.out.count("the server calls the model 'prod-7'") == 1
    reviews = [
        one for one in bench.project.audits("1") if one["kind"] == "call" and one["role"] == "reviewer"
    ]
    assert [(one["served"], "note" in one) for one in reviews] == [("prod-7", True)]


def test_a_review_by_another_model_is_refused_after_one_payment(bench: OddBench) -> None:
    bench.config.write_text(bench.config.read_text().replace("openai:reviewer", "openai:gpt-5"))

    def spoil(_: str, answer: OddAnswer) -> None:
        answer.body["model"] = {"gpt-5": "gpt-5-mini-2025-08-07"}.get(answer.body["model"], "drafter")

    bench.provider.spoil = spoil
    bench.project.issue(1)
    assert bench.run("lld", "1").code == 1
    assert bench.provider.calls == 2
    assert "gpt-5 was requested but 'gpt-5-mini-2025-08-07' replied" in bench.project.row("1")["error"]
