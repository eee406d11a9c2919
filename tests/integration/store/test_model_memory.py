"""What is remembered about models, in a file that anyone may have edited."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentos.model_facts import ModelFacts
from agentos.store.home import Home
from agentos.store.model_memory import KEPT_SECONDS, MODELS_MOST, ModelMemory

FACTS = ModelFacts(max_output=8_192, unsupported=("temperature",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Home(path=tmp_path / "home").create().models


def memory(path: Path | None, now: float = 1e9, **endpoints: str) -> ModelMemory:
    return ModelMemory(path, endpoints, wall=lambda: now)


def test_facts_are_known_to_this_run_and_to_the_next(path: Path) -> None:
    first = memory(path)
    assert first.learn("openai:m", FACTS) == (
        "writes at most 8,192 tokens",
        "does not accept temperature; it is left out",
    )
    assert first.learn("openai:m", FACTS) == (), "said once"
    assert first.known() == memory(path).known() == {"openai:m": FACTS}
    assert path.stat().st_mode & 0o077 == 0


def test_two_runs_do_not_undo_each_other(path: Path) -> None:
    one, other = memory(path), memory(path)
    one.learn("openai:a", FACTS)
    other.learn("openai:b", FACTS)
    assert memory(path).known().keys() == {"openai:a", "openai:b"}


def test_facts_belong_to_a_server_and_do_not_last_forever(path: Path) -> None:
    memory(path, openai="http://one").learn("openai:m", FACTS)
    assert memory(path, openai="http://one").known()
    assert not memory(path, openai="http://other").known()
    assert not memory(path).known()
    assert not memory(path, now=1e9 + KEPT_SECONDS + 1, openai="http://one").known()
    assert not memory(path, now=1e9 - 1, openai="http://one").known(), "from the future"


def test_without_a_file_nothing_is_kept() -> None:
    kept = memory(None)
    kept.learn("openai:m", FACTS)
    assert kept.known() == {"openai:m": FACTS}


def test_the_file_stays_small(path: Path) -> None:
    for number in range(MODELS_MOST + 5):
        memory(path, now=1e9 + number).learn(f"openai:m{number}", FACTS)
    known = memory(path, now=1e9 + MODELS_MOST + 5).known()
    assert len(known) == MODELS_MOST
    assert "openai:m0" not in known


@pytest.mark.parametrize(
    "entry",
    [
        {"at": 1e9, "facts": {"max_output": 1}},
        {"at": 1e9, "facts": {"max_output": "8192"}},
        {"at": 1e9, "facts": {"unsupported": ["messages"]}},
        {"at": 1e9, "facts": {"limit_name": "x-api-key"}},
        {"at": 1e9, "facts": {"more": 1}},
        {"at": "now", "facts": {}},
        {"at": 1e9},
        [],
        None,
    ],
)
def test_an_invalid_entry_counts_as_none(path: Path, entry: Any) -> None:
    valid = {"at": 1e9, "facts": {"max_output": 8_192}}
    path.write_text(json.dumps({"models": {"openai:bad": entry, "openai:good": valid}}))
    assert memory(path).known().keys() == {"openai:good"}


@pytest.mark.parametrize("text", ["", "[]", '{"models": 1}', "\x00", "[" * 100_000])
def test_an_invalid_file_counts_as_none(path: Path, text: str) -> None:
    path.write_text(text)
    assert memory(path).known() == {}
