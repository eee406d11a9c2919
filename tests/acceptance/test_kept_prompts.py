"""keep_prompts: prompts and answers stay in the run's folder if the user wants it, and only then."""

import json
import stat
from collections.abc import Iterator

import pytest

from agentos.coordinator import kept_prompts
from agentos.coordinator.kept_prompts import KeptPrompts
from agentos.report.on_request import open_prompt
from agentos.store.home import Home
from agentos.store.run_folder import create_run
from agentos.wire import KEPT_TEXT, CallTexts
from harness.odd_provider import SECRET, OddBench, running_odd_provider
from harness.project import Project


@pytest.fixture
def bench(project: Project) -> Iterator[OddBench]:
    with running_odd_provider() as provider:
        yield OddBench(project=project, provider=provider)


def test_prompts_and_answers_are_kept_for_the_user_alone_and_without_secrets(bench: OddBench) -> None:
    bench.config.write_text(f"keep_prompts = true\n{bench.config.read_text()}")
    bench.project.issue(1, text=f"# Export\n\nUse the key {SECRET} for it.\n")
    assert bench.run("lld", "1").code == 0
    run = bench.project.runs()[-1]
    path = run / "prompts-1.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text("utf-8")
    assert SECRET not in text
    drafted, reviewed = (json.loads(line) for line in text.splitlines())
    assert (drafted["role"], drafted["number"], reviewed["role"]) == ("drafter", 1, "reviewer")
    assert "# Export" in drafted["prompt"]
    assert drafted["answer"]
    assert json.loads(reviewed["answer"])["verdict"] == "APPROVED"
    sent = bench.provider.bodies[0]["messages"]
    assert [drafted["system"], drafted["prompt"].replace("[secret: openai-1]", SECRET)] == [
        message["content"].replace("[secret: openai-1]", SECRET) for message in sent
    ]
    report = bench.run("report", "--json").json
    assert report["run"]["begun"]["keep_prompts"] is True
    (item,) = report["items"]
    assert item["prompts"] == "prompts-1.jsonl"
    kept = [span["kept"] for span in item["spans"] if span["kind"] == "call"]
    assert kept == ["drafter-1", "reviewer-1"]
    assert open_prompt(run, "LLD-1", "drafter-1") == {
        name: drafted[name] for name in ("system", "prompt", "answer")
    }
    for label, call in (("LLD-1", "drafter-2"), ("LLD-1", ""), ("LLD-2", "drafter-1"), ("..", "drafter-1")):
        assert open_prompt(run, label, call) is None


def test_by_default_and_by_a_repository_nothing_is_kept(bench: OddBench) -> None:
    bench.project.issue(1)
    bench.project.write("agentos.toml", "keep_prompts = true\n")
    result = bench.run("lld", "1")
    assert result.code == 0
    assert "keep_prompts" in result.said
    assert not list(bench.project.home.rglob("prompts-*"))
    report = bench.run("report", "--json").json
    assert report["run"]["begun"]["keep_prompts"] is False
    (item,) = report["items"]
    assert item["prompts"] is None
    assert not any("kept" in span for span in item["spans"])


def test_the_setting_is_shown(bench: OddBench) -> None:
    assert bench.run("config", "--json").json["keep_prompts"]["value"] is False


def texts(number: int = 1, size: int = 10) -> CallTexts:
    return CallTexts(role="drafter", number=number, system="s", prompt="p" * size, answer="a")


def test_a_very_long_text_is_cut() -> None:
    assert len(texts(size=KEPT_TEXT + 1).prompt) == KEPT_TEXT


def test_number_and_size_are_limited(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_prompts, "MOST_CALLS", 2)
    monkeypatch.setattr(kept_prompts, "MOST_ITEM_BYTES", 1_000)
    monkeypatch.setattr(kept_prompts, "MOST_RUN_BYTES", 2_000)
    folder = create_run(home)
    keeper = KeptPrompts(folder)
    assert [keeper.keep("1", texts(number)) is None for number in (1, 2, 3)] == [True, True, False]
    assert [keeper.keep("2", texts(number, 1_000)) is None for number in (1, 2)] == [True, False]
    assert keeper.keep("3", texts(1, 1_000)) is None
    full = keeper.keep("4", texts())
    assert full is not None
    assert "no more in this run" in full
    folder.close()
    assert len((folder.path / "prompts-1.jsonl").read_text("utf-8").splitlines()) == 2
    assert not (folder.path / "prompts-4.jsonl").exists()


@pytest.fixture
def home(project: Project) -> Home:
    home = Home(path=project.home)
    home.create()
    return home
