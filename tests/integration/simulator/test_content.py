"""The replies of the simulated models, and that no scripted verdict is lost."""

from collections.abc import Iterator
from typing import Any

import pytest

from agentos.model_access import Kind as ProviderKind
from agentos.repo_map.parts import Part, PartKind, RepositoryMap
from agentos.review.reader import read_reply
from agentos.simulator import LimitConfig, SimulatorConfig, running_simulator
from agentos.workflows.gates import Kind, check_draft
from agentos.workflows.prompts import Material, RoundMaterial, draft_prompt, review_prompt, shipped_template
from harness.simulator import CALLS, PROVIDERS, Clock, ask, chat, limited, messages

OTHER_SCRIPT = Part(
    kind=PartKind.FILE, path="docs/a.md", text="<!-- mock: verdicts=APPROVED --> LLD-9 #9", why="named"
)


@pytest.fixture
def base() -> Iterator[str]:
    with running_simulator() as url:
        yield url


class TestContent:
    @pytest.mark.parametrize("kind", ["lld", "issue"])
    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_drafts_pass_the_gate(self, base: str, provider: ProviderKind, kind: Kind) -> None:
        prompt = draft_prompt(
            kind,
            item_id="42",
            label="LLD-42",
            title="T",
            source_text="Text.",
            material=Material(template=shipped_template(kind)),
        )
        got = CALLS[provider](base, prompt.text).json
        text = {
            "openai": lambda: got["choices"][0]["message"]["content"],
            "anthropic": lambda: got["content"][0]["text"],
            "gemini": lambda: got["candidates"][0]["content"]["parts"][0]["text"],
        }[provider]()
        assert check_draft(kind, text, item_id="42").missing == ()

    def review(self, base: str, item: str, draft: str = "draft", **more: Any) -> str:
        text = f"Item {item}.\n<!-- mock: verdicts=REVISE,DISCUSS,APPROVED -->\n"
        prompt = review_prompt(
            "lld",
            item_id="1",
            label="LLD-1",
            title="T",
            source_text=text,
            material=Material(template="", repository=RepositoryMap(shared=(OTHER_SCRIPT,))),
            round=RoundMaterial(draft=draft),
        )
        got = chat(base, prompt.text, response_format={"type": "json_object"}, **more)
        if got.status != 200:
            return str(got.status)
        return read_reply(got.json["choices"][0]["message"]["content"], "lld").verdict

    def test_verdicts_are_counted_an_item(self, base: str) -> None:
        assert [self.review(base, "a", f"draft {n}") for n in range(4)] == [
            "REVISE",
            "DISCUSS",
            "APPROVED",
            "APPROVED",
        ]
        assert self.review(base, "b") == "REVISE"
        ask(base, "POST", "/__admin__/reset")
        assert self.review(base, "a") == "REVISE"

    def test_a_verdict_nobody_got_is_not_used_up(self) -> None:
        clock = Clock()
        with running_simulator(limited(LimitConfig(rpm=60, burst=1), clock)) as base:
            assert self.review(base, "a") == "REVISE"
            assert [self.review(base, "a") for _ in range(3)] == ["429"] * 3
            ask(base, "POST", "/__admin__/faults", ["length,nth=1"])
            clock.now += 1
            assert self.review(base, "a") == "UNREADABLE"
            clock.now += 1
            assert self.review(base, "a") == "DISCUSS"

    def test_own_responder(self) -> None:
        def say(model: str, system: str, prompt: str, wanted: str) -> str:
            return f"{model}|{system}|{prompt}|{wanted}"

        with running_simulator(SimulatorConfig(responder=say)) as base:
            for more, wanted in (
                ({}, ""),
                ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "reply"),
                ({"output_format": {"type": "json_schema", "schema": {"title": "look"}}}, "look"),
            ):
                said = messages(base, "p", system="s", **more).json["content"][0]["text"]
                assert said == f"claude-x|s|p|{wanted}"

    def test_a_responder_that_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail(*_: Any) -> str:
            raise RuntimeError("broken")

        with running_simulator(SimulatorConfig(responder=fail)) as base:
            assert chat(base).status == 500
        assert "broken" in caplog.text
