"""What the doctor finds, part by part; no command is started but git, and nothing uses the network."""

import json
import os
import shutil
import subprocess
import threading
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentos import parse_value, settings
from agentos.cli.completion import CHOICES
from agentos.cli.init import EXAMPLES, repo_text, user_text
from agentos.config import Origin, load_config
from agentos.doctor import Check, State, exit_code, network, run_checks
from agentos.doctor.access import KeyInUse
from agentos.doctor.network import Called, judge
from agentos.errors import Exit
from agentos.llm.http import incomplete
from agentos.llm.provider import ProviderError, Reply
from agentos.model import CallError
from agentos.secret import Secret
from agentos.store.home import Home
from agentos.store.known_homes import register_of

SECRET = "very-secret-value-1234"
MODELS = 'drafter = "openai:gpt-5"\nreviewer = "anthropic:claude-sonnet-4-5"\n'


class Place:
    """A project and a user below a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.root.mkdir()
        self.user_file = root / "user/agentos/config.toml"
        self.user_file.parent.mkdir(parents=True)
        self.environment: dict[str, str] = {
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": str(root / "user"),
            "XDG_STATE_HOME": str(root / "state"),
        }
        self.put("agentos.toml", "")
        for folder in ("issues/active", "ideas/active"):
            (self.root / folder).mkdir(parents=True)

    def put(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def make_home(self) -> None:
        Home(path=self.root / ".agentos", register=register_of(self.environment)).create()

    def examine(self, start: Path | None = None, **more: Any) -> tuple[Check, ...]:
        given: dict[str, Any] = {"user_file": self.user_file, "named_file": None, "home": None, "live": False}
        checks = run_checks(start or self.root, environment=self.environment, **(given | more))
        assert not any(SECRET in check.text + check.fix + check.name for check in checks)
        assert all(check.fix for check in checks if check.state is not State.OK), checks
        return checks


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def one(checks: tuple[Check, ...], section: str, name: str, state: State | None = None) -> Check:
    [found] = [
        check
        for check in checks
        if (check.section, check.name) == (section, name) and state in {None, check.state}
    ]
    return found


def problems(checks: tuple[Check, ...]) -> set[tuple[str, str]]:
    return {(check.section, check.name) for check in checks if check.state is State.PROBLEM}


def set_up(place: Place) -> None:
    place.user_file.write_text(MODELS)
    place.environment |= {"OPENAI_API_KEY": SECRET, "ANTHROPIC_API_KEY": SECRET + "x"}


# All of it


def test_a_whole_set_up_has_no_problem_and_nothing_is_written(place: Place) -> None:
    set_up(place)
    before = {path: path.stat().st_mtime_ns for path in place.root.rglob("*")}
    checks = place.examine()
    assert problems(checks) == set()
    assert exit_code(checks) == Exit.OK
    assert {check.section for check in checks} == {
        "git", "project", "configuration", "models", "keys", "github",
    }  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in place.root.rglob("*")} == before


def test_with_nothing_set_it_says_what_to_type(place: Place) -> None:
    checks = place.examine()
    assert problems(checks) == {("models", "drafter"), ("models", "reviewer")}
    fix = one(checks, "models", "drafter").fix
    assert "agentos init --user" in fix
    assert f"{place.user_file}" in fix
    file = one(checks, "configuration", "your file")
    assert file.text == f"none (optional); 'agentos init --user' creates {place.user_file}"
    assert not file.fix
    assert exit_code(checks) == Exit.USAGE


def test_outside_a_project_that_is_the_problem_and_the_rest_is_told(place: Place, tmp_path: Path) -> None:
    set_up(place)
    empty = tmp_path / "empty"
    empty.mkdir()
    checks = place.examine(start=empty)
    assert problems(checks) == {("project", "project")}
    assert one(checks, "project", "project").fix == "agentos init"
    assert one(checks, "keys", "openai").state is State.OK


@pytest.mark.parametrize(
    ("codes", "ends"),
    [
        ([], Exit.OK),
        ([Exit.NO_KEY], Exit.NO_KEY),
        ([Exit.NO_KEY, Exit.USAGE], Exit.USAGE),
        ([Exit.USAGE], Exit.USAGE),
    ],
)
def test_the_exit_code_is_that_of_the_gravest_problem(codes: list[Exit], ends: Exit) -> None:
    checks = [Check(section="s", name="n", state=State.PROBLEM, text="", exit_code=code) for code in codes]
    fine = Check(section="s", name="n", state=State.WARNING, text="", exit_code=Exit.NO_KEY)
    assert exit_code([*checks, fine]) == ends


# Git and project


def test_git_is_looked_for_and_missed(place: Place) -> None:
    set_up(place)
    assert one(place.examine(), "git", "repository").fix == "git init"
    subprocess.run(["git", "init", "-q", place.root], check=True)
    assert one(place.examine(), "git", "repository").text == str(place.root.resolve())
    place.environment["PATH"] = str(place.root)
    checks = place.examine()
    assert one(checks, "git", "installed").state is State.WARNING
    assert problems(checks) == set()


def test_items_are_counted(place: Place) -> None:
    set_up(place)
    place.put("issues/active/1-one.md", "# One\n\nText.\n")
    place.put("issues/active/2.md", "# Two\n\nText.\n")
    place.put("ideas/active/empty.md", "")
    checks = place.examine()
    assert one(checks, "project", "issues").text == "2 issues in issues/active, 2 pending"
    warned = one(checks, "project", "briefs", State.WARNING)
    assert "empty.md is empty" in warned.text
    place.put("issues/active/1-again.md", "# One\n")
    warned = one(place.examine(), "project", "issues", State.WARNING)
    assert "Item '1' is also in issues/active/1-one.md" in warned.text
    assert "and 1 more" in warned.text


def test_a_home_that_cannot_be_used_is_a_problem(place: Place, tmp_path: Path) -> None:
    set_up(place)
    place.put(".agentos", "a file")
    assert problems(place.examine()) == {("project", "home")}
    (place.root / ".agentos").unlink()
    (place.root / ".agentos").symlink_to(tmp_path)
    checks = place.examine()
    assert problems(checks) == {("project", "project")}
    assert "rm " in one(checks, "project", "project").fix
    place.environment["AGENTOS_HOME"] = str(tmp_path / "elsewhere")
    assert "outside the project, as you set it" in one(place.examine(), "project", "home").text


def test_templates_and_context_are_read(place: Place) -> None:
    set_up(place)
    place.put("agentos.toml", 'lld_template = "t.md"\ncontext = ["docs", "README.md"]\n')
    assert problems(place.examine()) == {("project", "lld template"), ("project", "context")}
    place.put("t.md", "# T\n\nIssue: #1\n\n## Context\n\n## Proposed Changes\n")
    place.put("docs/a.md", "12345")
    place.put("README.md", "67890")
    checks = place.examine()
    assert problems(checks) == set()
    assert one(checks, "project", "context").text == "2 files, 10 bytes"


def test_team_rules_are_read(place: Place) -> None:
    set_up(place)
    place.put("agentos.toml", 'rules = "docs/rules.md"\n')
    assert problems(place.examine()) == {("project", "team rules")}
    place.put("docs/rules.md", "R1: be brief.\n")
    checks = place.examine()
    assert problems(checks) == set()
    assert one(checks, "project", "team rules").text == "docs/rules.md, 14 bytes"


# Configuration


def test_settings_are_shown_with_their_origins(place: Place) -> None:
    set_up(place)
    place.put("agentos.toml", 'max_iterations = 3\ntimeout = "5s"\n[[keys]]\nid = "x"\n')
    place.environment |= {"AGENTOS_PARALLEL": "4", "AGENTOS_DRAFTR": "openai:x"}
    checks = place.examine()
    assert one(checks, "configuration", "parallel").text == "4 (environment: AGENTOS_PARALLEL)"
    assert one(checks, "configuration", "max_iterations").text == f"3 (repo: {place.root / 'agentos.toml'})"
    assert one(checks, "configuration", "drafter").text == f"openai:gpt-5 (user: {place.user_file})"
    ignored = [check.text for check in checks if check.name == "ignored"]
    assert any("'timeout'" in text for text in ignored)
    assert any("'keys'" in text for text in ignored)
    assert "AGENTOS_DRAFTER" in one(checks, "configuration", "AGENTOS_DRAFTR").fix


@pytest.mark.parametrize(
    ("user", "repo", "variable", "fix"),
    [
        ("drafter = ", "", {}, "edit {user}"),
        ("nonsense = 1", "", {}, "edit {user}"),
        ("", "nonsense = 1", {}, "edit {repo}"),
        ("", "\x00", {}, "edit {repo}"),
        ("", "", {"AGENTOS_PARALLEL": "many"}, "unset AGENTOS_PARALLEL"),
    ],
)
def test_a_broken_setting_is_one_problem_with_its_place(
    place: Place, user: str, repo: str, variable: Mapping[str, str], fix: str
) -> None:
    if user:
        place.user_file.write_text(user)
    place.put("agentos.toml", repo)
    place.environment |= variable
    checks = place.examine()
    assert problems(checks) == {("configuration", "settings")}
    found = one(checks, "configuration", "settings")
    assert found.fix == fix.format(user=place.user_file, repo=place.root / "agentos.toml")
    assert exit_code(checks) == Exit.USAGE


def test_a_named_file_that_is_not_there_can_be_made(place: Place, tmp_path: Path) -> None:
    named = tmp_path / "mine.toml"
    checks = place.examine(user_file=named, named_file=named)
    assert one(checks, "configuration", "settings").fix == f"agentos --config {named} init --user"


# Models


def test_the_same_model_for_both_roles_is_warned_of(place: Place) -> None:
    set_up(place)
    place.user_file.write_text('drafter = "openai:gpt-5"\nreviewer = "openai:gpt-5"\n')
    checks = place.examine()
    found = one(checks, "models", "reviewer", State.WARNING)
    assert "same model" in found.text
    assert 'reviewer = "' in found.fix
    assert exit_code(checks) == Exit.OK
    place.user_file.write_text('drafter = "openai:gpt-5"\nreviewer = "openai:gpt-5-mini"\n')
    assert one(place.examine(), "models", "reviewer").state is State.OK


@pytest.mark.parametrize("model", ["nobody:x", "anthropic:<model>"])
def test_a_model_that_cannot_be_called_is_a_problem(place: Place, model: str) -> None:
    set_up(place)
    place.environment["AGENTOS_REVIEWER"] = model
    found = one(place.examine(), "models", "reviewer")
    assert found.state is State.PROBLEM
    assert model in found.text


def test_an_unknown_price_stands_in_the_way_of_a_budget_only(place: Place) -> None:
    set_up(place)
    place.environment["AGENTOS_REVIEWER"] = "openai:home-made"
    found = one(place.examine(), "models", "reviewer")
    assert found.state is State.WARNING
    assert "agentos config price openai:home-made --input USD --output USD" in found.fix
    place.environment["AGENTOS_BUDGET"] = "5"
    assert one(place.examine(), "models", "reviewer").state is State.PROBLEM


def test_the_mock_needs_nothing(place: Place) -> None:
    place.environment["AGENTOS_MOCK"] = "1"
    checks = place.examine()
    assert exit_code(checks) == Exit.OK
    assert one(checks, "models", "mock").state is State.OK


def test_an_endpoint_with_a_password_is_refused_without_showing_it(place: Place) -> None:
    set_up(place)
    place.user_file.write_text(
        f'{MODELS}[providers.openai]\nbase_url = "http://me:{SECRET}@host.example/v1"\n'
    )
    assert "contains a login" in one(place.examine(), "configuration", "settings", State.PROBLEM).text


def test_an_endpoint_is_shown_and_not_over_plain_http(place: Place) -> None:
    set_up(place)
    place.user_file.write_text(f'{MODELS}[providers.openai]\nbase_url = "http://host.example/v1"\n')
    found = one(place.examine(), "models", "openai")
    assert found.state is State.WARNING
    assert "http://host.example/v1" in found.text
    place.user_file.write_text(f'{MODELS}[providers.openai]\nbase_url = "http://127.0.0.1:8000/v1"\n')
    assert one(place.examine(), "models", "openai").text == "http://127.0.0.1:8000/v1"


def test_a_mistyped_provider_is_one_problem_with_the_nearest_name(place: Place) -> None:
    set_up(place)
    place.user_file.write_text('drafter = "openai:gpt-5"\nreviewer = "antropic:claude-sonnet-4-5"\n')
    checks = place.examine()
    assert problems(checks) == {("models", "reviewer")}
    assert "Did you mean 'anthropic'?" in one(checks, "models", "reviewer", State.PROBLEM).text


def test_a_provider_with_headers_needs_no_key_but_its_variables(place: Place) -> None:
    place.user_file.write_text(
        'drafter = "azure:gpt-5"\nreviewer = "local:x"\n'
        '[providers.azure]\nkind = "openai"\nbase_url = "https://models.example/v1"\n'
        'headers = { api-key = "env:AZURE_KEY" }\n'
        '[providers.local]\nkind = "openai"\nbase_url = "http://127.0.0.1:8000/v1"\n'
        '[network]\nproxy = "http://proxy.example:3128"\n'
    )
    missing = place.examine()
    assert problems(missing) == {("models", "azure")}
    assert one(missing, "models", "azure").fix == 'export AZURE_KEY="..."'
    assert exit_code(missing) == Exit.NO_KEY
    place.environment["AZURE_KEY"] = SECRET
    checks = place.examine()
    assert problems(checks) == set()
    assert one(checks, "models", "azure").text == (
        "openai format, https://models.example/v1, headers api-key = env:AZURE_KEY, "
        "through the proxy http://proxy.example:3128"
    )
    assert one(checks, "models", "local").text == "openai format, http://127.0.0.1:8000/v1"
    assert one(checks, "keys", "azure").text == "identified by its headers; no key is needed"
    assert one(checks, "keys", "local").text == "a server on this machine; no key is needed"


# Keys


def key(number: int, reference: str, more: str = "", provider: str = "openai") -> str:
    return f'[[keys]]\nid = "key-{number}"\nprovider = "{provider}"\n{reference}\n{more}\n'


def test_a_provider_without_a_key_is_the_keys_problem(place: Place) -> None:
    set_up(place)
    del place.environment["OPENAI_API_KEY"]
    checks = place.examine()
    assert problems(checks) == {("keys", "openai")}
    assert one(checks, "keys", "openai").fix == 'export OPENAI_API_KEY="..."'
    assert exit_code(checks) == Exit.NO_KEY
    place.environment["OPENAI_API_KEY"] = "  "
    assert "set but empty" in one(place.examine(), "keys", "openai", State.WARNING).text


def test_keys_that_are_listed_keep_the_usual_variables_out(place: Place) -> None:
    set_up(place)
    place.user_file.write_text(MODELS + key(1, 'env = "OPENAI_API_KEY"', 'quota_group = "team"'))
    checks = place.examine()
    assert problems(checks) == {("keys", "anthropic")}
    assert 'env = "ANTHROPIC_API_KEY"' in one(checks, "keys", "anthropic").fix
    assert one(checks, "keys", "key-1").text == "openai, quota group team, from OPENAI_API_KEY; usable"


def test_a_key_that_cannot_be_found_is_a_problem_where_it_is_needed(place: Place, tmp_path: Path) -> None:
    set_up(place)
    file = tmp_path / "key"
    listed = (
        key(1, 'env = "MISSING"') + key(2, f'file = "{file}"') + key(3, 'env = "GEMINI"', provider="gemini")
    )
    place.user_file.write_text(MODELS + listed + key(4, 'env = "ANTHROPIC_API_KEY"', provider="anthropic"))
    checks = place.examine()
    assert problems(checks) == {("keys", "key-1"), ("keys", "key-2")}
    assert one(checks, "keys", "key-1").fix == 'export MISSING="..."'
    assert one(checks, "keys", "key-3").state is State.WARNING
    assert exit_code(checks) == Exit.NO_KEY
    file.write_text(f"{SECRET}\n{SECRET}\n")
    assert (
        f"character {len(SECRET) + 1} is a space, a line break" in one(place.examine(), "keys", "key-2").text
    )
    file.write_text(f"{SECRET}\n")
    file.chmod(0o644)
    assert one(place.examine(), "keys", "key-2").fix == f"chmod 600 {file}"
    file.chmod(0o600)
    assert one(place.examine(), "keys", "key-2").state is State.OK


def test_the_same_key_twice_is_warned_of(place: Place) -> None:
    set_up(place)
    place.environment |= {"OPENAI_API_KEY_1": SECRET}
    assert "same key as openai," in one(place.examine(), "keys", "openai-1", State.WARNING).text


def test_health_from_earlier_runs_is_told(place: Place) -> None:
    set_up(place)
    place.environment["OPENAI_API_KEY_2"] = SECRET + "2"
    resting = {"resting": {"until": time.time() + 5400, "state": "quota_exhausted"}}
    place.make_home()
    place.put(
        ".agentos/keys.json", json.dumps({"keys": {"openai": {"disabled": "401"}, "anthropic": resting}})
    )
    checks = place.examine()
    assert one(checks, "keys", "openai").fix == "agentos keys enable openai"
    assert "quota exhausted for 90 min more" in one(checks, "keys", "anthropic").text
    assert exit_code(checks) == Exit.OK
    del place.environment["OPENAI_API_KEY_2"]
    checks = place.examine()
    assert one(checks, "keys", "openai", State.PROBLEM).fix == "agentos keys enable openai"
    assert exit_code(checks) == Exit.NO_KEY
    place.put(".agentos/keys.json", '{"keys": {"openai": 7, "anthropic": {"resting": []}}}')
    assert problems(place.examine()) == set()


# GitHub


def test_github_is_looked_for_without_asking_it(place: Place) -> None:
    set_up(place)
    git = shutil.which("git")
    assert git is not None
    tools = place.root.parent / "tools"  # no gh: its login is not the test's
    tools.mkdir()
    (tools / "git").symlink_to(git)
    place.environment["PATH"] = str(tools)
    assert "not a GitHub repository" in one(place.examine(), "github", "repository").text
    place.environment["AGENTOS_SOURCE"] = "github"
    assert ("github", "repository") in problems(place.examine())
    subprocess.run(["git", "init", "-q", place.root], check=True)
    remote = ["git", "-C", str(place.root), "remote", "add", "origin", "git@github.com:me/mine.git"]
    subprocess.run(remote, check=True)
    checks = place.examine()
    assert one(checks, "github", "repository").text == "me/mine"
    assert one(checks, "github", "token").state is State.PROBLEM
    place.environment["AGENTOS_SOURCE"] = "auto"
    assert one(place.examine(), "github", "token").state is State.WARNING
    place.environment["GITHUB_TOKEN"] = SECRET
    assert one(place.examine(), "github", "token").text.startswith("from GITHUB_TOKEN")


# What live calls come to


def called(number: int, provider: str = "openai", **more: Any) -> Called:
    made = KeyInUse(
        id=f"key-{number}", provider=provider, secret=Secret("key-1", SECRET), renew="export K=..."
    )
    return Called(key=made, model=f"{provider}:m", seconds=1.25, **more)


def error(kind: CallError) -> ProviderError:
    return ProviderError(kind, "so it says")


REPLY = Reply(text="ok", model="m-2025", tokens_in=9, tokens_out=1)


def test_a_key_that_answers_is_well() -> None:
    whole, cut = judge([called(1, reply=REPLY), called(2, error=incomplete("finish reason 'length'"))])
    assert (whole.state, whole.text) == (State.OK, "openai:m answered in 1.2 s, served by m-2025")
    assert (cut.state, cut.text) == (State.OK, "openai:m answered in 1.2 s, cut short as asked")


def test_rejected_keys_are_a_problem_when_none_is_left() -> None:
    rejected = error(CallError.KEY_REJECTED)
    some = judge([called(1, error=rejected), called(2, reply=REPLY)])
    assert [check.state for check in some] == [State.WARNING, State.OK]
    assert exit_code(some) == Exit.OK
    every = judge([called(1, error=rejected), called(2, "gemini", reply=REPLY)])
    assert exit_code(every) == Exit.NO_KEY
    assert every[0].fix.endswith("export K=...")


@pytest.mark.parametrize(
    ("kind", "state", "ends"),
    [
        (CallError.RATE_LIMITED, State.WARNING, Exit.OK),
        (CallError.CAPACITY, State.WARNING, Exit.OK),
        (CallError.QUOTA_EXHAUSTED, State.PROBLEM, Exit.NO_KEY),
        (CallError.BAD_REQUEST, State.PROBLEM, Exit.USAGE),
        (CallError.TRANSIENT, State.PROBLEM, Exit.USAGE),
    ],
)
def test_each_error_is_told_in_words_with_advice(kind: CallError, state: State, ends: Exit) -> None:
    [check] = judge([called(1, error=error(kind))])
    assert check.state is state
    assert check.text == f"openai:m: {kind.value.replace('_', ' ')}: so it says"
    assert check.fix
    assert exit_code([check]) == ends


def test_a_refused_model_stays_a_problem_beside_a_key_that_works() -> None:
    found = judge([called(1, error=error(CallError.BAD_REQUEST)), called(2, reply=REPLY)])
    assert exit_code(found) == Exit.USAGE


class Deaf:
    """A provider whose call never comes back, whatever it is told."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.daemon: list[bool] = []

    def call(self, *_request: Any, **_how: Any) -> Reply:
        self.daemon.append(threading.current_thread().daemon)
        self.end.wait()
        return REPLY


def test_a_call_that_never_comes_back_is_not_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(place)
    deaf = Deaf()
    monkeypatch.setattr(network, "real_provider", lambda _name, _access, **_how: deaf)
    monkeypatch.setattr(network, "CALL_SECONDS", 0.05)
    monkeypatch.setattr(network, "GRACE_SECONDS", 0.05)
    checks = place.examine(live=True)
    deaf.end.set()
    assert deaf.daemon == [True, True]  # else the command would not end before the call
    assert problems(checks) == {("live", "openai"), ("live", "anthropic")}
    assert "no answer within" in one(checks, "live", "openai").text


def test_an_error_nobody_foresaw_shows_no_key(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(place)

    def make(_name: str, _access: Any, **_how: Any) -> Any:
        raise RuntimeError(f"header {SECRET} is wrong")

    monkeypatch.setattr(network, "real_provider", make)
    assert "RuntimeError" in one(place.examine(live=True), "live", "openai").text


# The files that init writes, and the words that completion offers


def uncommented(text: str) -> str:
    return "\n".join(
        line.removeprefix("#") if line[1:2] not in {" ", ""} else line for line in text.splitlines()
    )


def test_the_repos_file_shows_every_setting_a_repo_may_set(tmp_path: Path) -> None:
    assert tomllib.loads(repo_text()) == {}
    (tmp_path / "agentos.toml").write_text(uncommented(repo_text()))
    config = load_config(flags={}, worktree=tmp_path, environment={})
    assert config.warnings == ()
    allowed = {name for name in settings.NAMES if settings.about(name).repo}
    assert {name for name, source in config.sources.items() if source.origin is Origin.REPO} == allowed
    for name in allowed - EXAMPLES.keys():
        assert getattr(config.settings, name) == settings.DEFAULTS[name]
        assert settings.about(name).help.split()[0] in repo_text()


def test_the_users_file_is_valid_once_uncommented(tmp_path: Path) -> None:
    assert tomllib.loads(user_text()) == {}
    path = tmp_path / "config.toml"
    path.write_text(uncommented(user_text()))
    config = load_config(flags={}, worktree=None, user_file=path, environment={})
    assert [one.id for one in config.keys] == ["anthropic-1", "gemini-1"]
    assert config.providers
    assert config.roles
    assert config.network.proxies
    given = {name for name, source in config.sources.items() if source.origin is Origin.USER}
    assert {"drafter", "reviewer", "max_parallel", "budget"} <= given


def test_the_words_offered_are_the_words_taken() -> None:
    for name in settings.NAMES:
        try:
            settings.about(name).parse("no such word")
        except parse_value.Rejected as exc:
            told = str(exc)
        else:
            continue
        if settings.about(name).parse.__qualname__.startswith("one_of."):
            assert told.replace(" or ", ", ") == ", ".join(CHOICES[name])
