"""Other people's text on a terminal and in a build log: shown, never obeyed, whichever command prints it."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import unicodedata
from collections.abc import Iterator

import pytest

from harness.github import running_fakegithub
from harness.odd_provider import OddAnswer, OddBench, running_odd_provider
from harness.project import Project, Result

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066x\u200b##[warning]w"
ACTIONS = {"GITHUB_ACTIONS": "true", "CI": "true"}


@pytest.fixture
def bench(project: Project) -> Iterator[OddBench]:
    with running_odd_provider() as provider:
        yield OddBench(project=project, provider=provider)


def assert_harmless(*results: Result, actions: bool = False) -> None:
    for result in results:
        for char in result.text:
            hidden = unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp", "Cf"}
            assert char in "\n\t" or not hidden, (hex(ord(char)), result)
        if actions:
            lines = result.text.split("\n")
            assert not [line for line in lines if "##[" in line], result
            remark = r"(?:error|warning) file=issues/active/\d+\.md,title=LLD-\d+%3A [a-z ]+::.*"
            ours = re.compile(rf"::(?:group::LLD-\d+|endgroup::|{remark})")
            commands = [line for line in lines if line.lstrip().startswith("::")]
            assert all(map(ours.fullmatch, commands)), result


def test_a_servers_words_are_shown_in_the_run_and_in_every_look_at_it(bench: OddBench) -> None:
    def spoil(_prompt: str, answer: OddAnswer) -> None:
        answer.status = 400
        answer.body = {"error": {"message": f"no: {EVIL}\n::error::forged\n##[error]forged", "code": EVIL}}

    bench.provider.spoil = spoil
    bench.project.issue(1)
    result = bench.run("lld", "1", **ACTIONS)
    assert result.code == 1, result
    looks = [bench.run(*words, **ACTIONS) for words in (["status"], ["logs", "1"], ["lld", "1", "--dry-run"])]
    assert_harmless(result, *looks, actions=True)


def test_a_served_models_name_is_shown(bench: OddBench) -> None:
    def spoil(_prompt: str, answer: OddAnswer) -> None:
        answer.body["model"] = f"other{EVIL}\n::error::x"

    bench.provider.spoil = spoil
    bench.project.issue(1)
    result = bench.run("lld", "1", "-v", **ACTIONS)
    assert result.code == 0, result
    assert "the server calls the model 'other" in result.text
    assert_harmless(result, bench.run("status", **ACTIONS), bench.run("logs", "1", **ACTIONS), actions=True)


def test_titles_from_github_are_shown(bench: OddBench) -> None:
    with running_fakegithub() as github:
        github.add(f"Title {EVIL}\n::error::forged line")
        subprocess.run(["git", "-C", str(bench.project.root), "init", "-q"], check=True)
        origin = f"https://github.com/{github.repository}.git"
        git = ["git", "-C", str(bench.project.root), "remote", "add", "origin", origin]
        subprocess.run(git, check=True)
        env = {"GITHUB_API_URL": github.url, "GH_TOKEN": github.token} | ACTIONS
        plain = bench.run("lld", "--all", "--dry-run", **env)
        assert plain.code == 0, plain
        assert "Title" in plain.out
        assert_harmless(plain, actions=True)
        data = bench.run("lld", "--all", "--dry-run", "--json", **env)
        assert data.out.isascii()
        assert data.json["items"][0]["title"].startswith("Title ]0;owned")
        assert_harmless(data, actions=True)


def test_logs_are_printed_visibly_whatever_got_into_them(project: Project) -> None:
    project.issue(1)
    assert project.lld("1").code == 0
    log = project.runs()[-1] / "LLD-1.log"
    with log.open("ab") as file:
        file.write(f"2026-01-01T00:00:00.000Z out {EVIL}\n::set-output name=x::y\n##[group]z\n".encode())
        file.write(b"\xff\xfe\n")
    result = project.run("logs", "1", env=ACTIONS)
    assert result.code == 0, result
    assert "set-output" in result.out
    assert_harmless(result, actions=True)


@pytest.mark.parametrize("name", ["drafter", "lld_folder", "context"])
def test_values_of_a_repo_are_shown_or_refused(project: Project, name: str) -> None:
    value = json.dumps(f"openai:x{EVIL}").replace("\\u001b", "\\u001B")
    project.write("agentos.toml", f"{name} = {f'[{value}]' if name == 'context' else value}\n")
    assert_harmless(
        *(project.run(word, env=ACTIONS) for word in ("config", "status", "doctor", "keys")),
        project.lld("--all", "--dry-run", env=ACTIONS),
        actions=True,
    )


def test_config_and_keys_show_what_the_users_file_says(project: Project) -> None:
    config = project.outside / "user.toml"
    evil = json.dumps("k\u202e\n::error::x##[error]").strip('"')
    config.write_text(f'[[keys]]\nid = "{evil}"\nprovider = "openai"\nfile = "/none/{evil}"\n')
    results = [project.run("--config", config, word, env=ACTIONS) for word in ("config", "keys")]
    assert_harmless(*results, actions=True)
    for word in ("config", "keys"):
        data = project.run("--config", config, word, "--json", env=ACTIONS)
        assert data.out.isascii()
        assert data.code == 2 or data.json


def test_what_is_wrong_with_the_words_typed_is_shown(project: Project) -> None:
    results = [
        project.run(*words, env=ACTIONS)
        for words in (["lld", EVIL], ["status", f"--{EVIL}"], [f"x{EVIL}"], ["verdict", f"none{EVIL}.md"])
    ]
    assert {result.code for result in results} == {2}
    assert_harmless(*results, actions=True)


def test_every_json_is_ascii(project: Project) -> None:
    project.issue(1, f"# T\u00e4st {EVIL}\n\nWhat.\n", mock="verdicts=DISCUSS")
    results = [project.lld("1", "--json"), project.lld("1", "--dry-run", "--json")]
    results += [project.run(word, "--json") for word in ("status", "report", "keys", "config", "doctor")]
    project.write("review.md", f"# R\u00e4view\n\n{EVIL}\n")
    results += [project.run("verdict", "review.md", "--json"), project.run("logs", "99", "--json")]
    for result in results:
        assert result.out.isascii(), result
        assert result.json is not None


@pytest.mark.slow
def test_our_own_colours_still_work_on_a_terminal(project: Project) -> None:
    project.issue(1, "# Red \x1b[31malert\n\nText.\n")
    ours, theirs = pty.openpty()
    environment = project.environment | {"TERM": "xterm", "FORCE_COLOR": "1", "CI": "1"}
    words = [sys.executable, "-m", "agentos", "lld", "1", "--mock"]
    with subprocess.Popen(
        words, cwd=project.root, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        seen = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                part = os.read(ours, 65_536)
            except OSError:
                break
            if not part:
                break
            seen += part
        assert process.wait(60) == 0, seen
    os.close(ours)
    assert b"\x1b[32mapproved\x1b[0m" in seen
    assert b"\x1b[31m" not in seen
