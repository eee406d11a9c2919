"""Whether the model served is the model asked for, and what a call makes of it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.errors import ItemFailed
from agentos.llm.caller import Caller, LeaseRequest, Made
from agentos.llm.provider import Cancel, ModelRequest, Reply, Role
from agentos.llm.same_model import Sameness, same_model
from agentos.secret import Secret
from agentos.wire import CallSettled, Kept, LeaseGranted


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("gpt-5", "gpt-5"),
        ("gpt-5", "GPT-5 "),
        ("gpt-5", ""),
        ("gpt-5", "gpt-5-2025-08-07"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5-20250807"),
        ("gpt-4", "gpt-4-0613"),
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-35-turbo", "gpt-3.5-turbo-0125"),
        ("o3", "o3-2025-04-16"),
        ("o3-mini-high", "o3-mini"),
        ("claude-sonnet-4-0", "claude-sonnet-4-20250514"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5@20250929"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929-v1:0"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929"),
        ("claude-sonnet-4-5", "global.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5-20250929"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5-20250929"),
        ("claude-3.5-sonnet", "claude-3-5-sonnet-20241022"),
        ("claude-3-7-sonnet:thinking", "claude-3-7-sonnet-20250219"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("sonnet", "claude-sonnet-4-5"),
        ("opus[1m]", "claude-opus-4-1-20250805"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview"),
        ("gemini-2.5-pro", "gemini-2.5-pro-exp-03-25"),
        ("gemini-2.5-flash", "models/gemini-2.5-flash-preview-09-2025"),
        ("models/gemini-2.0-flash", "gemini-2.0-flash-001"),
        ("gemini-flash-latest", "gemini-2.5-flash"),
        ("gemini-flash-latest", "gemini-2.5-flash-preview-09-2025"),
        ("gemini-flash-lite-latest", "gemini-2.5-flash-lite"),
        ("chatgpt-4o-latest", "chatgpt-4o-latest"),
        ("openai/gpt-5", "gpt-5-2025-08-07"),
        ("gpt-5", "openai/gpt-5"),
        ("openrouter/openai/gpt-5", "openai/gpt-5"),
        ("openai/gpt-5", "azure/gpt-5"),
        ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
        ("deepseek-chat", "deepseek/deepseek-chat-v3-0324"),
        ("mistral-large-2512", "mistral-large-2512"),
        ("mistral-large-latest", "mistral-large-2411"),
        (
            "accounts/fireworks/models/llama-v3p1-8b-instruct",
            "accounts/fireworks/models/llama-v3p1-8b-instruct",
        ),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo"),
        ("llama3.1:8b", "llama-3.1-8b-instruct"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct-awq"),
        ("llama-3.1-8b", "llama-3.1-8b-instruct-q4_k_m"),
        ("o1-preview", "o1-preview-2024-09-12"),
        ("gpt-4-turbo-preview", "gpt-4-0125-preview"),
        ("gpt-41", "gpt-4.1-2025-04-14"),
        ("prod-gpt4o-001", "gpt-4o-2024-11-20"),
        ("team-gpt-41-mini", "gpt-4.1-mini-2025-04-14"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet-20241022"),
        ("claude-3-5-sonnet-v2", "claude-3-5-sonnet-20241022"),
        ("reviewer", "reviewer"),
        ("my-gateway/reviewer", "reviewer"),
    ],
)
def test_the_same_model_by_another_name(asked: str, served: str) -> None:
    assert same_model(asked, served) is Sameness.SAME


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("gpt-5", "gpt-5-mini"),
        ("gpt-5", "gpt-5.1"),
        ("gpt-5", "gpt-4"),
        ("gpt-5", "gpt-oss-120b"),
        ("gpt-5", "gpt-5-chat-latest"),
        ("gpt-5", "gpt-5-codex"),
        ("gpt-5-mini", "gpt-5"),
        ("gpt-5", "gpt-5-mini-2025-08-07"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
        ("gpt-4", "gpt-4-32k"),
        ("gpt-4", "gpt-4o"),
        ("gpt-4", "gpt-4-turbo"),
        ("gpt-5", "claude-sonnet-4-5"),
        ("gemini-2.5-pro", "gemini-2.5-flash"),
        ("gemini-2.5-pro", "gemini-3-pro-preview"),
        ("gemini-2.5-flash", "gemini-2.5-flash-lite"),
        ("gemini-2.5-flash", "gemini-2.5-flash-lite-preview-06-17"),
        ("gemini-flash-latest", "gemini-2.5-flash-lite"),
        ("gemini-flash-latest", "gemini-2.5-pro"),
        ("claude-sonnet-4", "claude-sonnet-4-5"),
        ("claude-sonnet-4", "claude-opus-4"),
        ("claude-opus-4", "claude-opus-4-1-20250805"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-5-20250929"),
        ("claude-3-5-sonnet-latest", "claude-3-5-haiku-20241022"),
        ("anthropic.claude-3-5-sonnet-20240620-v1:0", "anthropic.claude-3-5-sonnet-20241022-v2:0"),
        ("sonnet", "claude-haiku-4-5"),
        ("llama-3.1-8b", "llama-3.1-70b"),
        ("llama3.1:8b", "llama3.1:70b"),
        ("llama-3.1-8b", "llama-3.3-8b"),
        ("qwen3-235b-a22b", "qwen3-30b-a3b"),
        ("deepseek-v3", "deepseek-r1"),
        ("mistral-large-latest", "mistral-small-latest"),
        ("mistral-large-2407", "mistral-large-2411"),
        ("o3", "o3-mini"),
        ("o1", "o1-mini"),
        ("o3", "o3-pro"),
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4o-prod", "gpt-4o-mini-2024-07-18"),
        ("gpt-5-dev", "gpt-4.1"),
        ("gpt-41", "gpt-4o"),
        ("grok-4", "grok-4-fast-reasoning"),
        ("command-r", "command-r-plus-08-2024"),
        ("llama-4-scout", "llama-4-maverick"),
        ("mixtral-8x7b", "mixtral-8x22b"),
        ("gemini-2.0-flash-thinking-exp", "gemini-2.0-flash"),
        ("o3", "o1"),
        ("o3", "gpt-4o"),
    ],
)
def test_another_model(asked: str, served: str) -> None:
    assert same_model(asked, served) is Sameness.DIFFERENT


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("reviewer", "reviewer-other"),
        ("my-deployment", "gpt-5-2025-08-07"),
        ("gpt-5", "prod-model-7"),
        ("ft:gpt-4o:acme::a1", "ft:gpt-4o:acme::b2"),
        ("claude-sonnet-4", "claude-sonnet"),
        ("gpt-4o-prod", "gpt-4o-2024-08-06"),
        ("gpt-4o-eastus2", "gpt-4o-2024-08-06"),
        ("gpt-5-dev", "gpt-5-2025-08-07"),
        ("grok-4-fast", "grok-4-fast-reasoning"),
    ],
)
def test_names_that_do_not_tell(asked: str, served: str) -> None:
    assert same_model(asked, served) is Sameness.UNKNOWN


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_names_are_compared(asked: str, served: str) -> None:
    assert same_model(asked, asked) is Sameness.SAME
    assert same_model(asked, served) in Sameness


class Desk:
    """Serves every call by one model, and notes what is settled and kept."""

    def __init__(self, served: str) -> None:
        self.reply = Reply(text="a review", model=served, tokens_in=10, tokens_out=20)
        self.calls = 0
        self.settled: list[CallSettled] = []
        self.kept: list[Made] = []

    def lease(self, ask: LeaseRequest) -> LeaseGranted:
        return LeaseGranted(number=1, lease=7, key="key-1", secret=Secret("key-1", "s"))

    def vet(self, texts: Sequence[str]) -> str | None:
        return None

    def settle(self, settled: CallSettled) -> None:
        self.settled.append(settled)

    def call(self, request: ModelRequest, *, secret: Secret, cancel: Cancel) -> Reply:
        self.calls += 1
        return self.reply

    def ask(self, role: Role) -> Made:
        request = ModelRequest(role=role, model="gpt-5", number=1, system="", prompt="p")
        caller = Caller("openai", self, self, cancel=Cancel(), max_retries=5, call_timeout=60.0)
        return caller.call(request, keep=self.keep)

    def keep(self, made: Made) -> Kept:
        self.kept.append(made)
        return Kept(journal_id="life-1", number=1)


def test_a_review_by_another_model_is_paid_not_kept_and_not_asked_for_again() -> None:
    desk = Desk("gpt-5-mini")
    with pytest.raises(ItemFailed, match="reviewer: openai:gpt-5 was requested but 'gpt-5-mini' replied"):
        desk.ask("reviewer")
    (settled,) = desk.settled
    assert (settled.error, settled.tokens_in, settled.tokens_out) == ("other_model", 10, 20)
    assert desk.kept == []
    assert desk.calls == 1


def test_a_name_that_a_hostile_server_gives_is_shown_short_and_tame() -> None:
    with pytest.raises(ItemFailed) as caught:
        Desk("gpt-4-\x1b[2J" + "x" * 5000).ask("reviewer")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("served", ["gpt-5", "gpt-5-2025-08-07", ""])
def test_a_review_by_the_model_asked_for_is_kept(served: str) -> None:
    desk = Desk(served)
    assert desk.ask("reviewer").reply == desk.reply
    assert len(desk.kept) == 1


@pytest.mark.parametrize(
    ("role", "served", "unverified"),
    [("reviewer", "prod-7", True), ("reviewer", "gpt-5", False), ("drafter", "prod-7", False)],
)
def test_a_review_that_cannot_be_judged_by_its_name_is_kept_and_noted(
    role: Role, served: str, unverified: bool
) -> None:
    desk = Desk(served)
    desk.ask(role)
    (settled,) = desk.settled
    assert (settled.error, settled.kept is not None, settled.unverified) == (None, True, unverified)


def test_a_draft_by_another_model_is_kept_and_its_model_told() -> None:
    desk = Desk("gpt-4")
    assert desk.ask("drafter").reply.model == "gpt-4"
    assert desk.kept[0].reply == replace(desk.reply)
