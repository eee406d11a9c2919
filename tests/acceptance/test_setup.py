"""Setting up through the real command: init, doctor, shell completion, and context files in a run."""

import json
import re
import shutil
import stat
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentos.simulator import KeyConfig, SimulatorConfig, running_simulator
from agentos.simulator.responder import DefaultResponder
from harness.github import running_fakegithub
from harness.project import Project, Result

ANSI = "\x1b["


class Recorder:
    """Answers like the simulated models, and keeps what each of them was asked."""

    def __init__(self) -> None:
        self.prompts: dict[str, list[str]] = {}
        self._answer = DefaultResponder()

    def __call__(self, model: str, system: str, prompt: str, wanted: str) -> str:
        self.prompts.setdefault(model, []).append(prompt)
        if "word ok" in prompt:
            return "ok"
        return self._answer(model, system, prompt, wanted)


class Provider:
    """A simulated provider, and the user's file that leads to it."""

    def __init__(self, project: Project, url: str, recorder: Recorder, keys: int) -> None:
        self.project, self.url, self.recorder = project, url, recorder
        self.config = project.root.parent / "user.toml"
        lines = ['drafter = "openai:writer"', 'reviewer = "openai:judge"']
        lines += ["[providers.openai]", f'base_url = "{url}/v1"']
        for number in range(1, keys + 1):
            lines += ["[[keys]]", f'id = "key-{number}"', 'provider = "openai"', f'env = "KEY_{number}"']
        self.config.write_text("\n".join(lines) + "\n")

    def run(self, *arguments: str, **secrets: str) -> Result:
        return self.project.run("--config", self.config, *arguments, env=secrets)

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/__admin__/stats") as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@pytest.fixture
def provider(project: Project) -> Iterator[Callable[[int], Provider]]:
    with ExitStack() as stack:

        def make(keys: int) -> Provider:
            accepted = tuple(KeyConfig(secret=f"secret-{number}") for number in range(1, keys + 1))
            recorder = Recorder()
            config = SimulatorConfig(keys=accepted, responder=recorder)
            return Provider(project, stack.enter_context(running_simulator(config)), recorder, keys)

        yield make


# init


def test_a_newcomer_gets_from_nothing_to_a_dry_run(make_project: Callable[[str], Project]) -> None:
    project = make_project("new")
    lost = project.run("doctor")
    assert lost.code == 2
    assert "-> agentos init" in lost.out
    made = project.run("init")
    assert made.code == 0
    for name in ("ideas/active/", "issues/active/", "docs/lld/active/", "agentos.toml"):
        assert f"created  {name}\n" in made.out
    assert "not in a git repository" in made.out
    assert "agentos doctor" in made.out
    subprocess.run(["git", "init", "-q", project.root], check=True)
    assert "not in a git repository" not in project.run("init").out
    user = Path(project.environment["HOME"]) / ".config/agentos/config.toml"
    first = project.run("init", "--user")
    assert first.code == 0
    assert f"created  {user}" in first.out
    assert stat.S_IMODE(user.stat().st_mode) == 0o600
    next_ = project.run("doctor")
    assert next_.code == 2
    assert f"-> in {user}:" in next_.out
    assert "agentos lld --all --mock --dry-run" in next_.out
    assert project.run("lld", "--all", "--mock", "--dry-run").code == 0
    user.write_text('drafter = "openai:gpt-5"\nreviewer = "gemini:gemini-2.5-pro"\n')
    before = user.stat()
    again = project.run("init", "--user")
    assert f"kept     {user}" in again.out
    assert user.stat() == before
    assert project.run("doctor").code == 4
    done = project.run("doctor", env={"OPENAI_API_KEY": "sk-1", "GEMINI_API_KEY": "g-1"})
    assert done.code == 0, done.text
    assert "agentos lld --all --dry-run" in done.out


def test_the_users_file_is_made_where_it_is_read(project: Project, tmp_path: Path) -> None:
    named = tmp_path / "mine" / "a.toml"
    assert f"agentos --config {named} init --user" in project.run("--config", named, "doctor").out
    assert project.run("--config", named, "init", "--user").code == 0
    assert project.run("--config", named, "config").code == 0
    other = tmp_path / "b.toml"
    assert project.run("init", "--user", env={"AGENTOS_CONFIG": str(other)}).code == 0
    assert other.is_file()
    assert project.run("init", "--user", env={"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).code == 0
    assert (tmp_path / "xdg/agentos/config.toml").is_file()
    assert project.run("init", "--user", "--demo", "x").code == 2
    assert project.run("init", "--user", env={"HOME": ""}).code == 2


# doctor


def test_doctor_speaks_json_and_has_colour_only_where_it_is_wanted(project: Project) -> None:
    plain = project.run("doctor")
    assert ANSI not in plain.out
    assert ANSI in project.run("doctor", env={"FORCE_COLOR": "1"}).out
    assert ANSI not in project.run("doctor", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out
    lines = plain.out.splitlines()
    assert all(len(line) <= 80 or max(map(len, line.split())) > 40 for line in lines)  # a path is not broken
    told = project.run("doctor", "--json")
    assert told.code == plain.code == 2
    assert told.json.keys() == {"exit_code", "checks"}
    assert told.json["exit_code"] == 2
    for check in told.json["checks"]:
        assert check.keys() == {"section", "name", "state", "text", "fix"}
        assert check["state"] in {"ok", "warning", "problem"}
        assert check["fix"] or check["state"] == "ok"


def test_doctor_bears_what_is_broken_and_obeys_no_escapes(project: Project) -> None:
    project.write("agentos.toml", "drafter = [")
    broken = project.run("doctor")
    assert broken.code == 2
    assert f"edit {project.root / 'agentos.toml'}" in broken.out
    project.write("agentos.toml", b"\xff\xfe")
    assert project.run("doctor").code == 2
    project.write("agentos.toml", 'drafter = "openai:\\u001b]0;x\\u0007"\n')
    hostile = project.run("doctor")
    assert "\x1b" not in hostile.out
    assert "\\x1b]0;x\\x07" in hostile.out


def test_doctor_calls_each_model_with_each_key_and_only_when_asked(
    provider: Callable[[int], Provider], project: Project
) -> None:
    service = provider(2)
    right = {"KEY_1": "secret-1", "KEY_2": "secret-2"}
    before = project.files()
    assert service.run("doctor", **right).code == 0
    assert not service.recorder.prompts
    live = service.run("doctor", "--live", **right)
    assert live.code == 0, live.text
    for key in ("key-1", "key-2"):
        assert re.search(rf"ok +{key} +openai:writer answered in \d+\.\d s, served by writer", live.out)
        assert re.search(rf"ok +{key} +openai:judge answered in \d+\.\d s, served by judge", live.out)
    assert {model: len(asked) for model, asked in service.recorder.prompts.items()} == {
        "writer": 2,
        "judge": 2,
    }
    one = service.run("doctor", "--live", KEY_1="secret-1", KEY_2="not-a-key-of-theirs")
    assert one.code == 0, one.text
    assert re.search(r"warn +key-2 +openai:judge: key rejected", one.out)
    assert 'export KEY_2="..."' in one.out
    none = service.run("doctor", "--live", KEY_1="not-mine", KEY_2="not-a-key-of-theirs")
    assert none.code == 4
    for result in (live, one, none):
        assert not any(word in result.text for word in ("secret-", "not-mine", "not-a-key"))
    assert project.files() == before


def test_doctor_live_bears_a_server_that_is_not_there(
    provider: Callable[[int], Provider], project: Project
) -> None:
    service = provider(1)
    service.config.write_text(service.config.read_text().replace(service.url, "http://127.0.0.1:9"))
    result = service.run("doctor", "--live", KEY_1="secret-1")
    assert result.code == 2
    assert "unreachable: 127.0.0.1:9: connection refused" in " ".join(result.out.split())
    assert "base_url" in result.out


def test_doctor_asks_github_only_live(provider: Callable[[int], Provider], project: Project) -> None:
    service = provider(1)
    git = ["git", "-C", str(project.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    with running_fakegithub() as github:
        subprocess.run(
            [*git, "remote", "add", "origin", f"https://github.com/{github.repository}.git"], check=True
        )
        given = {"KEY_1": "secret-1", "GITHUB_API_URL": github.url}
        found = service.run("doctor", **given, GH_TOKEN=github.token)
        assert found.code == 0, found.text
        assert "from GH_TOKEN" in found.out
        assert github.count("GET") == 0
        live = service.run("doctor", "--live", **given, GH_TOKEN=github.token)
        assert live.code == 0, live.text
        assert f"the token reads {github.repository}" in live.said
        refused = service.run("doctor", "--live", **given, GITHUB_TOKEN="not-a-token-of-theirs")
        assert refused.code == 2, refused.text
        assert "gh auth login" in refused.out
        for result in (found, live, refused):
            assert github.token not in result.text
            assert "not-a-token-of-theirs" not in result.text


# Context


def test_both_models_read_context(provider: Callable[[int], Provider], project: Project) -> None:
    service = provider(1)
    project.issue(7, mock="verdicts=REVISE,APPROVED")
    project.write("src/pool.py", "POOL = 'of keys'\n")
    project.write("docs/rules.md", "Names are nouns.\n")
    project.write("agentos.toml", 'context = ["docs"]\n')
    result = service.run("lld", "7", "--context", "src/pool.py", "--context", "docs", KEY_1="secret-1")
    assert result.code == 0, result.text
    drafts, reviews = service.recorder.prompts["writer"], service.recorder.prompts["judge"]
    assert len(drafts) == len(reviews) == 2
    for prompt in (*drafts, *reviews):
        code = re.search(r"<<<BEGIN (\w+) file src/pool.py\nPOOL = 'of keys'\n\n<<<END (\w+)\n", prompt)
        assert code is not None
        assert code[1] == code[2]
        assert "file docs/rules.md\nNames are nouns.\n" in prompt


def test_context_that_cannot_be_given_is_refused_before_any_call(
    provider: Callable[[int], Provider], project: Project
) -> None:
    service = provider(1)
    project.issue(7)
    project.write("conf/.env", "TOKEN=1\n")
    for name, told in (
        ("conf/.env", "hold secrets"),
        ("../x", "inside the repo"),
        ("nowhere", "no such file or folder"),
    ):
        result = service.run("lld", "7", "--context", name, KEY_1="secret-1")
        assert result.code == 2, result.text
        assert name in result.err
        assert told in result.said
    assert not service.recorder.prompts


# Completion


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_flags_and_items(project: Project) -> None:
    for number in (1, 2, 10):
        project.issue(f"{number}-title", mock="verdicts=DISCUSS" if number == 2 else "")
    project.brief("dark-mode")
    assert project.lld("1", "2").code == 3
    project.write("issues/active/not an id$(touch x).md", "# No id\n")
    run = project.runs()[0].name
    asked = {
        "agentos l": ["lld", "logs"],
        "agentos lld --pa": ["--parallel"],
        "agentos lld ": ["1", "2", "10"],
        "agentos lld 1 ": ["2", "10"],
        "agentos issue ": ["dark-mode"],
        "agentos decide ": ["2"],
        "agentos logs ": ["1", "2"],
        "agentos logs LLD-": ["LLD-1", "LLD-2"],
        "agentos logs --run ": [run],
        "agentos run ": ["issue", "lld"],
        "agentos run issue ": ["dark-mode"],
        "agentos lld --source ": ["auto", "github", "local"],
        "agentos lld --output g": ["grouped"],
        "agentos completion ": ["bash", "zsh", "fish"],
        "agentos --home nowhere logs ": [],
    }
    before = project.snapshot()
    assert _bash(project, list(asked)) == list(asked.values())
    project.write("agentos.toml", "broken = ")
    assert _bash(project, ["agentos lld ", "agentos decide "]) == [[], []]
    after = project.snapshot()
    del before["agentos.toml"], after["agentos.toml"]
    assert after == before
    assert _bash(project, ["agentos lld "], cwd=project.root.parent) == [[]]


def _bash(project: Project, lines: list[str], cwd: Path | None = None) -> list[list[str]]:
    """Load the script in a real bash and press Tab at the end of each line."""
    steps = ['eval "$(agentos completion bash)"', "complete -p agentos >/dev/null || exit 9"]
    for line in lines:
        words = line.split(" ")
        typed = " ".join(f"'{word}'" for word in words)
        steps += [f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMPREPLY=()"]
        steps += ["_agentos_completion agentos", 'echo "<${COMPREPLY[*]}>"']
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(steps)],
        cwd=cwd or project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert not done.stderr
    return [line[1:-1].split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_keeps_errors_off_the_terminal(project: Project, shell: str) -> None:
    result = project.run("completion", shell)
    assert result.code == 0
    assert f"_AGENTOS_COMPLETE={shell}_complete" in result.out
    assert result.out.count("2>/dev/null") == 1
    assert project.run("completion", "tcsh").code == 2
